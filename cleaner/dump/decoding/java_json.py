"""Decoded messages as the JSON that Kafka's own tools print.

Source: Jackson ``ObjectNode.toString``, as Kafka's generated ``JsonConverter`` classes fill it.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_TEXT: Final = json.JSONEncoder(ensure_ascii=False).encode
_POINT_FROM: Final = 1e-3
_POINT_BELOW: Final = 1e7


def java_json(value: Any) -> str:
    """Return a decoded message as Jackson prints it: without blanks, bytes as base64."""
    match value:
        case str():
            return _ESCAPE.sub(_upper_case, _TEXT(value))
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case dict():
            return "{" + ",".join(f"{_TEXT(name)}:{java_json(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(java_json, value)) + "]"
        case float():
            return java_double(value)
    return _TEXT(value)


def plain_json(value: Any) -> Any:
    """Return a decoded message as values that JSON has: bytes as base64."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {name: plain_json(inner) for name, inner in value.items()}
        case list():
            return list(map(plain_json, value))
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
            return java_double(value)
    return value


def java_double(value: float) -> str:
    """Return a number as Java's ``Double.toString`` writes it."""
    if value != value:  # noqa: PLR0124 - not a number
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or _POINT_FROM <= abs(value) < _POINT_BELOW:
        text = repr(value)
        return text if "e" not in text else f"{value:f}"
    mantissa, _, exponent = f"{value!r}".partition("e")
    digits = mantissa.lstrip("-").replace(".", "").lstrip("0").rstrip("0") or "0"
    power = int(exponent) if exponent else 0
    power += _power_of(mantissa.lstrip("-"))
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _power_of(mantissa: str) -> int:
    """Return the power of ten of the first digit that is not zero."""
    whole, _, fraction = mantissa.partition(".")
    if whole.strip("0"):
        return len(whole.lstrip("0")) - 1
    return -(len(fraction) - len(fraction.lstrip("0")) + 1)


def _upper_case(escape: re.Match[str]) -> str:
    said = escape[0]
    return f"\\u{said[2:].upper()}" if len(said) > 2 else said
