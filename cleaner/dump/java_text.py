"""Bytes as the text that Java makes of them.

Where bytes are no UTF-8, Java puts U+FFFD, and passes over as many bytes as its rules say: other rules than Python's.

Source: JDK 17 ``String.decodeUTF8_UTF16``.
"""

from __future__ import annotations

import codecs
from typing import Final

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_ERRORS: Final = "logcleaner-java"


def java_text(data: bytes) -> str:
    """Return the text that ``new String(data, UTF_8)`` is in Java."""
    return data.decode("utf-8", _ERRORS)


def malformed_bytes(data: bytes, at: int) -> int:
    """Return for how many bytes one U+FFFD stands, where a character begins that is no UTF-8."""
    first, left = data[at], len(data) - at
    if 0xC2 <= first <= 0xDF:
        return 1
    if 0xE0 <= first <= 0xEF:
        return _of_three(data, at, left)
    if 0xF0 <= first <= 0xF7:
        return _of_four(data, at, left)
    return 1


def _of_three(data: bytes, at: int, left: int) -> int:
    if left >= 3:
        if _is_bad_second_of_three(data[at], data[at + 1]):
            return 1
        return 3 if _continues(data[at + 2]) else 2  # three: a surrogate
    return 1 if left == 2 and _is_bad_second_of_three(data[at], data[at + 1]) else left


def _of_four(data: bytes, at: int, left: int) -> int:
    first = data[at]
    if first > 0xF4 or (left > 1 and _is_bad_second_of_four(first, data[at + 1])):
        return 1
    if left >= 4:
        return 3 if _continues(data[at + 2]) else 2
    if left == 3 and not _continues(data[at + 2]):
        return 2
    return left


def _is_bad_second_of_three(first: int, second: int) -> bool:
    return (first == 0xE0 and second < 0xA0) or not _continues(second)


def _is_bad_second_of_four(first: int, second: int) -> bool:
    return (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F) or not _continues(second)


def _continues(byte: int) -> bool:
    return 0x80 <= byte <= 0xBF


def _as_java_does(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _REPLACEMENT, error.start + malformed_bytes(error.object, error.start)


codecs.register_error(_ERRORS, _as_java_does)
