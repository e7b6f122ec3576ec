"""snappy as snappy-java streams it: the stream and the blocks in it, without a library.

The rules of the stream are those of ``storage.codecs.xerial``. A block is a length, then literals and copies of earlier
bytes.

Source: the snappy format description; Kafka ``SnappyCompression``; snappy-java ``SnappyInputStream``,
``SnappyOutputStream``.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes
from storage.codecs.xxhash import load_le32
from storage.kernels.status import Status
from storage.machine.intrinsics import copy_bytes, load_be32, load_be64, load_le64, load_u8, store_be64, store_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import signed

_MAGIC: Final = -0x7DACB1BEAFAFA700  # 82 "SNAPPY" 00
_MAGIC_AS_LENGTH: Final = -0x7DACB1BF  # its first four bytes
_LENGTH_BYTES: Final = 4
_STREAM_HEADER_BYTES: Final = 16

_LITERAL: Final = 0
_COPY_1: Final = 1
_COPY_2: Final = 2
_COPY_4: Final = 3
_SHORT_LITERAL_MAX: Final = 60
_SHORT_BYTES: Final = 16  # copied whole where there is room, whatever is needed of them
_ROOM_BYTES: Final = 64 + _SHORT_BYTES  # for the longest copy


@kernel(inline=True)
def _read_length(buf: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read the varint before a block: ``(length, next position)``; length -1: cut short, -2: too long for any."""
    length = 0
    for i in range(5):
        if at + i >= end:
            return -1, at
        byte = load_u8(buf, at + i)
        length |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return length, at + i + 1
    return -2, at


@kernel(inline=True)
def _copy_16(out: Bytes, position: int, buf: Bytes, at: int) -> None:
    first, second = load_be64(buf, at), load_be64(buf, at + 8)
    store_be64(out, position, first)
    store_be64(out, position + 8, second)


@kernel(inline=True)
def _literal_length(buf: Bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    """Return ``(length, where the literal starts)`` for the tag before ``at``; past ``end`` if it is cut short."""
    length = (tag >> 2) + 1
    if length <= _SHORT_LITERAL_MAX:
        return length, at
    width = length - _SHORT_LITERAL_MAX
    if width > end - at:
        return 0, end + 1
    length = 1
    for i in range(width):
        length += load_u8(buf, at + i) << 8 * i
    return length, at + width


@kernel(inline=True)
def _read_copy(buf: Bytes, at: int, end: int, tag: int) -> tuple[int, int, int]:
    """Return ``(length, offset, next position)`` for the tag before ``at``; offset 0 if it is cut short."""
    kind = tag & 3
    if kind == _COPY_1:
        if at >= end:
            return 0, 0, at
        return (tag >> 2 & 7) + 4, (tag >> 5) << 8 | load_u8(buf, at), at + 1
    if kind == _COPY_2:
        if end - at < 2:
            return 0, 0, at
        return (tag >> 2) + 1, load_u8(buf, at) | load_u8(buf, at + 1) << 8, at + 2
    if end - at < 4:
        return 0, 0, at
    return (tag >> 2) + 1, load_le32(buf, at), at + 4


@kernel(inline=True)
def _take_short(buf: Bytes, at: int, out: Bytes, start: int, position: int, stop: int) -> tuple[int, int]:
    """Return ``(next position, at)`` after a short literal or a near copy; ``position`` itself for all else.

    Nearly all elements are of this kind. There must be ``_SHORT_BYTES`` behind the tag, and ``_ROOM_BYTES`` in ``out``.
    """
    word = signed(load_le64(buf, at))
    kind, upper = word & 3, word >> 2 & 0x3F
    if kind == _LITERAL:
        if upper >= _SHORT_BYTES or upper >= stop - position:
            return position, at
        _copy_16(out, position, buf, at + 1)
        return position + upper + 1, at + upper + 2
    length = (upper & 7) + 4 if kind == _COPY_1 else upper + 1
    offset = (upper >> 3) << 8 | (word >> 8 & 0xFF) if kind == _COPY_1 else word >> 8 & 0xFFFF
    if kind == _COPY_4 or offset < 8 or offset > position - start or length > stop - position:
        return position, at
    done = 0
    while True:  # eight by eight: the next eight bytes may be a copy of the first eight
        store_be64(out, position + done, load_be64(out, position + done - offset))
        store_be64(out, position + done + 8, load_be64(out, position + done + 8 - offset))
        done += _SHORT_BYTES
        if done >= length:
            return position + length, at + 1 + kind


@kernel()
def _take_any(buf: Bytes, at: int, end: int, out: Bytes, start: int, position: int, stop: int) -> tuple[int, int]:
    """Return ``(next position, at)`` after any element; ``position`` itself if the element is damaged."""
    tag = load_u8(buf, at)
    if tag & 3 == _LITERAL:
        length, at = _literal_length(buf, at + 1, end, tag)
        if length > end - at or length > stop - position:
            return position, at
        copy_bytes(out, position, buf, at, length)
        return position + length, at + length
    length, offset, at = _read_copy(buf, at + 1, end, tag)
    if offset == 0 or offset > position - start or length > stop - position:
        return position, at
    for i in range(position, position + length):
        store_u8(out, i, load_u8(out, i - offset))
    return position + length, at


@kernel()
def _take_elements(buf: Bytes, at: int, end: int, out: Bytes, start: int, stop: int) -> int:
    """Write literals and copies into ``out[start:stop]``; bytes of ``out`` behind it may be overwritten."""
    position = start
    while at < end:
        before = position
        if end - at > _SHORT_BYTES and out.size - position >= _ROOM_BYTES:
            position, at = _take_short(buf, at, out, start, position, stop)
        if position == before:
            position, at = _take_any(buf, at, end, out, start, position, stop)
            if position == before:  # every element has a length
                return Status.BAD_COMPRESSED
    return Status.OK if position == stop else Status.BAD_COMPRESSED


@kernel()
def _decompress_block(buf: Bytes, start: int, end: int, out: Bytes, position: int) -> tuple[int, int]:
    length, at = _read_length(buf, start, end)
    if length < 0:
        return (Status.BAD_COMPRESSED if length == -1 else Status.NEEDS_PYTHON), position
    if length > out.size - position:
        return Status.OUTPUT_FULL, position
    return _take_elements(buf, at, end, out, position, position + length), position + length


@kernel()
def _starts_stream(buf: Bytes, at: int, end: int) -> bool:
    return end - at >= _STREAM_HEADER_BYTES and load_be64(buf, at) == _MAGIC


@kernel()
def decompress_snappy(buf: Bytes, start: int, end: int, out: Bytes, position: int) -> tuple[int, int]:
    """Decompress the stream, or the one raw block, in ``buf[start:end]`` to ``out``: ``(status, next position)``."""
    if not _starts_stream(buf, start, end):
        return _decompress_block(buf, start, end, out, position)
    at = start + _STREAM_HEADER_BYTES
    while end - at >= _LENGTH_BYTES:  # fewer bytes than a length end the stream, as in snappy-java
        length = load_be32(buf, at)
        if length == _MAGIC_AS_LENGTH:
            if not _starts_stream(buf, at, end):
                is_cut = end - at < _STREAM_HEADER_BYTES
                return (Status.BAD_COMPRESSED if is_cut else Status.OK), position
            at += _STREAM_HEADER_BYTES
            continue
        at += _LENGTH_BYTES
        if length < 0 or length > end - at:
            return Status.BAD_COMPRESSED, position
        status, position = _decompress_block(buf, at, at + length, out, position)
        if status != Status.OK:
            return status, position
        at += length
    return Status.OK, position
