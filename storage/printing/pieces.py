"""Numbers, words and text, put into a buffer.

No function checks for room: the caller knows the most bytes that a piece takes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Bytes
from storage.machine.intrinsics import copy_bytes, load_le64, load_u8, store_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import signed
from storage.printing.vocabulary import SLOT_BYTES, Word

_DIGITS_MAX: Final = 19
"""The most digits of an int64."""
_PAIRS: Final = np.frombuffer(b"".join(b"%02d" % pair for pair in range(100)), np.uint8)
_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_ONES: Final = np.uint64(0x0101010101010101)
_BLANKS: Final = np.uint64(0x2020202020202020)
_QUOTES: Final = np.uint64(0x2222222222222222)
_BACKSLASHES: Final = np.uint64(0x5C5C5C5C5C5C5C5C)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_BASE64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


@kernel(inline=True)
def widened(value: int) -> int:
    """Return a field of a table as int64: one number type, one machine code."""
    return np.int64(value)  # type: ignore[return-value]


@kernel(inline=True)
def put_word(out: Bytes, at: int, words: Bytes, word: int) -> int:
    """Put a word of a vocabulary; the rest of its slot is overwritten later. Return the next position."""
    slot = word * SLOT_BYTES
    copy_bytes(out, at, words, slot, SLOT_BYTES)
    return at + load_u8(words, slot + SLOT_BYTES - 1)


@kernel()
def put_number(out: Bytes, at: int, value: int) -> int:
    """Put an int64 in decimal. Return the next position."""
    rest = np.uint64(value)
    if value < 0:
        store_u8(out, at, 0x2D)
        at, rest = at + 1, np.uint64(0) - rest
    digits, bound = 1, np.uint64(100)
    while digits < _DIGITS_MAX and rest >= bound:
        digits, bound = digits + 2, bound * np.uint64(100)
    if digits < _DIGITS_MAX and rest >= bound // np.uint64(10):
        digits += 1
    position = at + digits
    while position > at + 1:
        hundredth = rest // np.uint64(100)
        position -= 2
        copy_bytes(out, position, _PAIRS, 2 * signed(rest - hundredth * np.uint64(100)), 2)
        rest = hundredth
    if position > at:
        store_u8(out, at, signed(rest) + 0x30)
    return at + digits


@kernel()
def put_boolean(out: Bytes, at: int, words: Bytes, value: int) -> int:
    """Put ``true`` or ``false``. Return the next position."""
    return put_word(out, at, words, Word.TRUE if value else Word.FALSE)


@kernel()
def is_ascii(buf: Bytes, start: int, end: int) -> bool:
    """Return whether no byte has its highest bit set."""
    found, position = np.uint64(0), start
    while position + 8 <= end:
        found |= load_le64(buf, position)
        position += 8
    rest = 0
    while position < end:
        rest |= load_u8(buf, position)
        position += 1
    return found & _HIGH_BITS == np.uint64(0) and rest < 0x80


@kernel(inline=True)
def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


@kernel()
def _step_of_three(buf: Bytes, at: int, end: int) -> int:
    first, left = load_u8(buf, at), end - at
    if left < 2:
        return -1
    second = load_u8(buf, at + 1)
    if not _continues(second) or (first == 0xE0 and second < 0xA0):
        return -1
    if left < 3:
        return -2
    if not _continues(load_u8(buf, at + 2)):
        return -2
    return -3 if first == 0xED and second > 0x9F else 3  # a surrogate


@kernel()
def _step_of_four(buf: Bytes, at: int, end: int) -> int:
    first, left = load_u8(buf, at), end - at
    if first > 0xF4 or left < 2:
        return -1
    second = load_u8(buf, at + 1)
    if not _continues(second) or (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return -1
    if left < 3:
        return -2
    if not _continues(load_u8(buf, at + 2)):
        return -2
    if left < 4 or not _continues(load_u8(buf, at + 3)):
        return -3
    return 4


@kernel()
def utf8_step(buf: Bytes, at: int, end: int) -> int:
    """Return the number of bytes of the character at a byte; negative: the number of bytes that are no UTF-8.

    Source: JDK 17 ``String.decodeUTF8_UTF16``, which puts one U+FFFD for those.
    """
    first = load_u8(buf, at)
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF7:
        return -1
    if first < 0xE0:
        return 2 if at + 1 < end and _continues(load_u8(buf, at + 1)) else -1
    return _step_of_three(buf, at, end) if first < 0xF0 else _step_of_four(buf, at, end)


@kernel()
def put_java_text(out: Bytes, at: int, buf: Bytes, start: int, end: int) -> int:
    """Put bytes as the text that Java makes of them, at most three bytes for one. Return the next position."""
    if is_ascii(buf, start, end):
        copy_bytes(out, at, buf, start, end - start)
        return at + end - start
    while start < end:
        step = utf8_step(buf, start, end)
        if step > 0:
            for i in range(step):
                store_u8(out, at + i, load_u8(buf, start + i))
            at, start = at + step, start + step
        else:
            store_u8(out, at, 0xEF)
            store_u8(out, at + 1, 0xBF)
            store_u8(out, at + 2, 0xBD)
            at, start = at + 3, start - step
    return at


@kernel()
def is_utf8(buf: Bytes, start: int, end: int) -> bool:
    """Return whether the bytes are UTF-8."""
    if is_ascii(buf, start, end):
        return True
    while start < end:
        step = utf8_step(buf, start, end)
        if step < 0:
            return False
        start += step
    return True


@kernel(inline=True)
def _has_escapes(bits: np.uint64) -> bool:
    """Tell whether one of eight bytes below 0x80 is a control character, a quote or a backslash."""
    quotes, backslashes = bits ^ _QUOTES, bits ^ _BACKSLASHES
    found = (bits - _BLANKS) | (quotes - _ONES) | (backslashes - _ONES)
    return bool((found & ~bits & _HIGH_BITS) != np.uint64(0))


@kernel()
def _put_escaped(out: Bytes, at: int, byte: int) -> int:
    if byte >= 0x20 and byte != 0x22 and byte != 0x5C:  # noqa: PLR1714 - no set in a kernel
        store_u8(out, at, byte)
        return at + 1
    store_u8(out, at, 0x5C)
    short = byte
    if byte == 0x0A:
        short = 0x6E
    elif byte == 0x0D:
        short = 0x72
    elif byte == 0x09:
        short = 0x74
    elif byte == 0x08:
        short = 0x62
    elif byte == 0x0C:
        short = 0x66
    elif byte < 0x20:
        short = 0x75
    store_u8(out, at + 1, short)
    if short != 0x75:
        return at + 2
    store_u8(out, at + 2, 0x30)
    store_u8(out, at + 3, 0x30)
    store_u8(out, at + 4, _HEX[byte >> 4])
    store_u8(out, at + 5, _HEX[byte & 0xF])
    return at + 6


@kernel()
def put_json_text(out: Bytes, at: int, buf: Bytes, start: int, end: int) -> int:
    """Put UTF-8 as within the quotes of a JSON string, at most six bytes for one. Return the next place."""
    while start + 8 <= end:
        bits = load_le64(buf, start)
        if _has_escapes(bits):
            for i in range(8):
                at = _put_escaped(out, at, load_u8(buf, start + i))
        else:
            copy_bytes(out, at, buf, start, 8)
            at += 8
        start += 8
    while start < end:
        at = _put_escaped(out, at, load_u8(buf, start))
        start += 1
    return at


@kernel()
def put_base64(out: Bytes, at: int, buf: Bytes, start: int, end: int) -> int:
    """Put bytes as base64. Return the next position."""
    while start < end:
        left = min(end - start, 3)
        bits = load_u8(buf, start) << 16
        if left > 1:
            bits |= load_u8(buf, start + 1) << 8
        if left > 2:
            bits |= load_u8(buf, start + 2)
        store_u8(out, at, _BASE64[bits >> 18])
        store_u8(out, at + 1, _BASE64[bits >> 12 & 0x3F])
        store_u8(out, at + 2, _BASE64[bits >> 6 & 0x3F] if left > 1 else 0x3D)
        store_u8(out, at + 3, _BASE64[bits & 0x3F] if left > 2 else 0x3D)
        at, start = at + 4, start + 3
    return at
