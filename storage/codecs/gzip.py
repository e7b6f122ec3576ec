"""gzip as Java writes and reads it: ISA-L reads it, and zlib-ng writes it; where these are missing, libz does.

The kernels handle one member, and ignore the bytes behind it. If another member follows, Python handles the body.

Source: Kafka ``GzipCompression``; Java ``GZIPOutputStream``, ``GZIPInputStream``; zlib's manual.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers
from storage.codecs.symbols import (
    CRC32,
    DEFLATE,
    DEFLATE_RESET,
    DEFLATE_STREAM,
    INFLATE,
    INFLATE_RESET,
    INFLATE_STREAM,
    ISAL_CRC32,
    ISAL_INFLATE,
    ISAL_STATE,
)
from storage.kernels.status import Status
from storage.machine.c_calls import address, call_isal_checksum, call_zlib, call_zlib_checksum, call_zlib_reset
from storage.machine.intrinsics import load_be32, load_u8, store_be16, store_be32, store_be64
from storage.machine.kernel import kernel

_AVAILABLE_MAX: Final = (1 << 31) - 1
_FINISH: Final = 4
_STREAM_END: Final = 1
_OUT_OF_BUFFER: Final = (0, -5)
_OUT_OF_MEMORY: Final = -4
_HEADER_HIGH: Final = 0x1F8B_0800_0000_0000  # no name, no time
_HEADER_LOW: Final = 0x00FF  # operating system unknown: what Java (16 and later) writes
_HEADER_BYTES: Final = 10
_TRAILER_BYTES: Final = 8

# Words of ISA-L's struct inflate_state; above room and available bytes, in the same word, lies another field.
_ISAL_OUT: Final = ISAL_STATE
_ISAL_ROOM: Final = ISAL_STATE + 1
_ISAL_IN: Final = ISAL_STATE + 2
_ISAL_AVAILABLE: Final = ISAL_STATE + 4
_ISAL_NO_ROOM: Final = 2
_LOW_HALF: Final = 0xFFFFFFFF

# Words of a z_stream where pointers and uLong have 64 bits.
_NEXT_IN: Final = 0
_AVAILABLE_IN: Final = 1
_NEXT_OUT: Final = 3
_AVAILABLE_OUT: Final = 4


@kernel()
def _run(
    source: Bytes, start: int, size: int, out: Bytes, position: int, room: int, calls: Integers, at: int, function: int
) -> int:
    """Give the z_stream at ``calls[at]`` all input and all room, and let the function finish it."""
    calls[at + _NEXT_IN], calls[at + _AVAILABLE_IN] = address(source, start), size
    calls[at + _NEXT_OUT], calls[at + _AVAILABLE_OUT] = address(out, position), room
    return call_zlib(function, (address(calls, 8 * at), _FINISH))  # type: ignore[arg-type]


@kernel()
def _starts_member(buf: Bytes, at: int, end: int) -> bool:
    return end - at >= 3 and load_u8(buf, at) == 0x1F and load_u8(buf, at + 1) == 0x8B and load_u8(buf, at + 2) == 0x08


@kernel()
def _byte_swapped(value: int) -> int:
    return (value & 0xFF) << 24 | (value & 0xFF00) << 8 | (value >> 8 & 0xFF00) | (value >> 24 & 0xFF)


@kernel()
def _has_plain_header(buf: Bytes, start: int, end: int) -> bool:
    """Return whether a member starts, without an optional field, and has room for its trailer."""
    is_whole = end - start >= _HEADER_BYTES + _TRAILER_BYTES
    return is_whole and _starts_member(buf, start, end) and load_u8(buf, start + 3) == 0


@kernel()
def _by_isal(
    buf: Bytes, start: int, end: int, out: Bytes, position: int, room: int, calls: Integers
) -> tuple[int, int]:  # fmt: skip
    """Decompress a member that has a plain header, by ISA-L, which gets the deflate stream alone."""
    calls[_ISAL_OUT], calls[_ISAL_ROOM] = address(out, position), room
    calls[_ISAL_IN], calls[_ISAL_AVAILABLE] = address(buf, start + _HEADER_BYTES), end - start - _HEADER_BYTES
    answer = call_zlib_reset(calls[ISAL_INFLATE], (address(calls, 8 * ISAL_STATE),))  # type: ignore[arg-type]
    if answer == _ISAL_NO_ROOM:
        return Status.OUTPUT_FULL, position
    made, trailer = room - (calls[_ISAL_ROOM] & _LOW_HALF), end - (calls[_ISAL_AVAILABLE] & _LOW_HALF)
    if answer != 0 or end - trailer < _TRAILER_BYTES:
        return Status.BAD_COMPRESSED, position
    checksum = call_isal_checksum(calls[ISAL_CRC32], (0, address(out, position), made))
    stated, size = _byte_swapped(load_be32(buf, trailer)), _byte_swapped(load_be32(buf, trailer + 4))
    if checksum & _LOW_HALF != stated or made != size:
        return Status.BAD_COMPRESSED, position
    is_last = not _starts_member(buf, trailer + _TRAILER_BYTES, end)
    return (Status.OK if is_last else Status.NEEDS_PYTHON), position + made


@kernel()
def decompress_gzip(buf: Bytes, start: int, end: int, out: Bytes, position: int, calls: Integers) -> tuple[int, int]:
    """Decompress the member in ``buf[start:end]`` to ``out`` from ``position``: ``(status, next position)``."""
    if end - start > _AVAILABLE_MAX:
        return Status.NEEDS_PYTHON, position
    room = min(out.size - position, _AVAILABLE_MAX)
    if calls[ISAL_INFLATE] and _has_plain_header(buf, start, end):
        return _by_isal(buf, start, end, out, position, room, calls)
    call_zlib_reset(calls[INFLATE_RESET], (address(calls, 8 * INFLATE_STREAM),))  # type: ignore[arg-type]
    answer = _run(buf, start, end - start, out, position, room, calls, INFLATE_STREAM, calls[INFLATE])
    left, room_left = calls[INFLATE_STREAM + _AVAILABLE_IN], calls[INFLATE_STREAM + _AVAILABLE_OUT]
    if answer == _STREAM_END:
        is_last = not _starts_member(buf, end - left, end)
        return (Status.OK if is_last else Status.NEEDS_PYTHON), position + room - room_left
    if answer in _OUT_OF_BUFFER and room_left == 0:
        return Status.OUTPUT_FULL, position
    return (Status.NEEDS_PYTHON if answer == _OUT_OF_MEMORY else Status.BAD_COMPRESSED), position


@kernel()
def compress_gzip(source: Bytes, start: int, end: int, out: Bytes, position: int, calls: Integers) -> tuple[int, int]:
    """Write one member at zlib's default level to ``out``: ``(status, next position)``."""
    size, room = end - start, min(out.size - position - _HEADER_BYTES - _TRAILER_BYTES, _AVAILABLE_MAX)
    if size > _AVAILABLE_MAX:
        return Status.NEEDS_PYTHON, position
    if room < 0:
        return Status.OUTPUT_FULL, position
    store_be64(out, position, _HEADER_HIGH)
    store_be16(out, position + 8, _HEADER_LOW)
    body = position + _HEADER_BYTES
    call_zlib_reset(calls[DEFLATE_RESET], (address(calls, 8 * DEFLATE_STREAM),))  # type: ignore[arg-type]
    answer = _run(source, start, size, out, body, room, calls, DEFLATE_STREAM, calls[DEFLATE])
    if answer != _STREAM_END:
        return Status.OUTPUT_FULL, position
    at = body + room - calls[DEFLATE_STREAM + _AVAILABLE_OUT]
    checksum = call_zlib_checksum(calls[CRC32], (0, address(source, start), size))
    store_be32(out, at, _byte_swapped(checksum))
    store_be32(out, at + 4, _byte_swapped(size))
    return Status.OK, at + _TRAILER_BYTES
