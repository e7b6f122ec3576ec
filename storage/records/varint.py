"""Zigzag variable-length integers: seven bits a byte, the lowest first, the top bit says that more follow.

A varint takes at most 5 bytes and a varlong 10; bits beyond 32 or 64 are dropped.

Source: Kafka ``ByteUtils``.
"""

from __future__ import annotations

from typing import Final

from storage.errors import InvalidRecord

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


def read_varint(buf: memoryview, position: int, end: int) -> tuple[int, int]:
    """Read an int32; gives it and the position behind. Raises InvalidRecord at ``end``, after 5 bytes."""
    return _read(buf, position, end, VARINT_BYTES_MAX, 32)


def read_varlong(buf: memoryview, position: int, end: int) -> tuple[int, int]:
    """Read an int64; gives it and the position behind. Raises InvalidRecord at ``end``, after 10 bytes."""
    return _read(buf, position, end, VARLONG_BYTES_MAX, 64)


def wrapped_int64(value: int) -> int:
    """Return the int64 with the same low 64 bits, as Java's sums and differences do.

    A timestamp and a base timestamp can lie further apart than an int64 says; what is written wraps, and wraps back
    when it is read.
    """
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def write_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (an int32 or int64) to ``out``."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def _read(buf: memoryview, position: int, end: int, bytes_max: int, bits: int) -> tuple[int, int]:
    raw = 0
    for index in range(bytes_max):
        if position >= end:
            raise InvalidRecord("a variable-length integer runs past the end of its record")
        byte = buf[position]
        position += 1
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= (1 << bits) - 1
            return (raw >> 1) ^ -(raw & 1), position
    raise InvalidRecord(f"a variable-length integer takes more than {bytes_max} bytes")
