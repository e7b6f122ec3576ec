"""Text of unknown origin, made fit for a terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
"""The control characters as UTF-8, without the tab and the end of a line."""


def printable(text: str) -> str:
    """Escape control characters and undecodable bytes, so that no topic name can move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def printable_lines(lines: bytes | memoryview) -> bytes:
    """Escape the control characters in lines of UTF-8, for a terminal; their ends and tabs stay."""
    return _CONTROLS.sub(lambda found: found[0].decode().encode("unicode_escape"), bytes(lines))
