"""Bytes as fields of a JSON object: text if they are UTF-8, else base64."""

from __future__ import annotations

import base64
from typing import Any, Final

Fields = dict[str, Any]


REDACTED: Final = "redacted"
"""The encoding of a value that ``--redact`` left out."""


def shown(name: str, data: bytes | None, *, is_hidden: bool) -> Fields:
    """Return the fields for some bytes, which are left out if they are hidden."""
    if is_hidden and data is not None:
        return {name: None, f"{name}Encoding": REDACTED}
    return told(name, data)


def told(name: str, data: bytes | None) -> Fields:
    """Return the fields for some bytes: their text, and its encoding."""
    if data is None:
        return {name: None, f"{name}Encoding": None}
    try:
        return {name: data.decode(), f"{name}Encoding": "utf-8"}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}Encoding": "base64"}
