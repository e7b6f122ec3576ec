"""The writing half of ``snappy``: greedy matching by a table of where each four bytes were seen last.

Source: the snappy format description; snappy-java ``SnappyOutputStream``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes
from storage.codecs.symbols import SNAPPY_TABLE_LOG2
from storage.kernels.status import Status
from storage.machine.intrinsics import (
    copy_bytes,
    load_be64,
    load_le64,
    load_u8,
    popcount,
    store_be32,
    store_be64,
    store_u8,
)
from storage.machine.kernel import kernel
from storage.machine.signatures import Array

LastSeen: TypeAlias = npt.NDArray[np.uint16]
LAST_SEEN: Final = Array(np.dtype(np.uint16))

_MAGIC: Final = -0x7DACB1BEAFAFA700
_STREAM_HEADER_BYTES: Final = 16
_BLOCK_BYTES: Final = 32 * 1024
_LENGTH_BYTES: Final = 4
_VARINT_BYTES_MAX: Final = 3  # of a block's length
_MULTIPLIER: Final = np.uint64(0x1E35A7BD)
_MASK: Final = np.uint64(0xFFFFFFFF)
_MATCH_BYTES_MIN: Final = 4
_TAIL_BYTES: Final = 16  # not searched, so that wide loads stay within the block
_SHORT_BYTES: Final = 16
_COPY_BYTES_MAX: Final = 64
_COPY_1_LENGTH_END: Final = 12
_COPY_1_OFFSET_END: Final = 2048
_ONE: Final = np.uint64(1)


@kernel(inline=True)
def _four_bytes(source: Bytes, at: int) -> np.uint64:
    return load_le64(source, at) & _MASK


@kernel(inline=True)
def _slot(four: np.uint64, shift: np.uint64) -> np.uint64:
    """Return the slot of four bytes. It is unsigned, since a negative index would cost a test."""
    return (four * _MULTIPLIER & _MASK) >> shift


@kernel(inline=True)
def _match_length(source: Bytes, earlier: int, at: int, end: int) -> int:
    """Count the bytes from ``at`` on, up to ``end``, that equal the bytes from ``earlier`` on."""
    start = at
    while end - at >= 8:
        differing = load_le64(source, at) ^ load_le64(source, earlier + at - start)
        if differing != np.uint64(0):
            equal_bits: int = popcount((differing - _ONE) & ~differing)
            return at - start + (equal_bits >> 3)
        at += 8
    while at < end and load_u8(source, at) == load_u8(source, earlier + at - start):
        at += 1
    return at - start


@kernel(inline=True)
def _write_literal(source: Bytes, start: int, length: int, out: Bytes, position: int) -> int:
    """Write a literal of one byte or more, with its tag, and up to 16 bytes behind it. Return the next position."""
    if length <= _SHORT_BYTES and source.size - start >= _SHORT_BYTES:
        store_u8(out, position, length - 1 << 2)
        store_be64(out, position + 1, load_be64(source, start))
        store_be64(out, position + 9, load_be64(source, start + 8))
        return position + 1 + length
    if length <= 60:
        store_u8(out, position, length - 1 << 2)
        position += 1
    elif length <= 256:
        store_u8(out, position, 60 << 2)
        store_u8(out, position + 1, length - 1)
        position += 2
    else:
        store_u8(out, position, 61 << 2)
        store_u8(out, position + 1, length - 1)
        store_u8(out, position + 2, length - 1 >> 8)
        position += 3
    copy_bytes(out, position, source, start, length)
    return position + length


@kernel(inline=True)
def _write_long_copy(out: Bytes, position: int, offset: int, length: int) -> int:
    store_u8(out, position, length - 1 << 2 | 2)
    store_u8(out, position + 1, offset)
    store_u8(out, position + 2, offset >> 8)
    return position + 3


@kernel(inline=True)
def _write_copy(out: Bytes, position: int, offset: int, length: int) -> int:
    """Write copies of four bytes or more in all. Return the next position."""
    while length >= _COPY_BYTES_MAX + _MATCH_BYTES_MIN:
        position = _write_long_copy(out, position, offset, _COPY_BYTES_MAX)
        length -= _COPY_BYTES_MAX
    if length > _COPY_BYTES_MAX:  # the rest must not be shorter than a copy can be
        position = _write_long_copy(out, position, offset, _COPY_BYTES_MAX - _MATCH_BYTES_MIN)
        length -= _COPY_BYTES_MAX - _MATCH_BYTES_MIN
    if length < _COPY_1_LENGTH_END and offset < _COPY_1_OFFSET_END:
        store_u8(out, position, (offset >> 8) << 5 | length - _MATCH_BYTES_MIN << 2 | 1)
        store_u8(out, position + 1, offset)
        return position + 2
    return _write_long_copy(out, position, offset, length)


@kernel(inline=True)
def _find_match(
    source: Bytes, start: int, at: int, search_end: int, last_seen: LastSeen, shift: np.uint64
) -> tuple[int, int]:
    """Find the first position from ``at`` on whose four bytes were seen before, and the place of these.

    Steps grow without a match.
    """
    skipped = 32
    while at < search_end:
        four = _four_bytes(source, at)
        slot = _slot(four, shift)
        earlier = start + int(last_seen[slot])
        last_seen[slot] = at - start
        if _four_bytes(source, earlier) == four:  # an entry that is not set yet means the start, which also lies before
            return at, earlier
        step = skipped >> 5
        at += step
        skipped += step
    return search_end, -1


@kernel()
def _write_elements(
    source: Bytes, start: int, end: int, out: Bytes, position: int, last_seen: LastSeen, shift: np.uint64
) -> int:
    search_end, literal, at = end - _TAIL_BYTES, start, start + 1
    while True:
        at, earlier = _find_match(source, start, at, search_end, last_seen, shift)
        if earlier < 0:
            break
        if at > literal:
            position = _write_literal(source, literal, at - literal, out, position)
        length = _MATCH_BYTES_MIN + _match_length(source, earlier + _MATCH_BYTES_MIN, at + _MATCH_BYTES_MIN, end)
        position = _write_copy(out, position, at - earlier, length)
        at += length
        literal = at
        if at < search_end:
            last_seen[_slot(_four_bytes(source, at - 1), shift)] = at - 1 - start
    if literal < end:
        position = _write_literal(source, literal, end - literal, out, position)
    return position


@kernel(inline=True)
def _write_length(out: Bytes, position: int, length: int) -> int:
    while length > 0x7F:
        store_u8(out, position, length & 0x7F | 0x80)
        length >>= 7
        position += 1
    store_u8(out, position, length)
    return position + 1


@kernel()
def _compress_block(source: Bytes, start: int, end: int, out: Bytes, position: int, last_seen: LastSeen) -> int:
    log2 = 8
    while log2 < SNAPPY_TABLE_LOG2 and 1 << log2 < end - start:
        log2 += 1
    last_seen[: 1 << log2] = 0
    position = _write_length(out, position, end - start)
    return _write_elements(source, start, end, out, position, last_seen, np.uint64(32 - log2))


@kernel(inline=True)
def _block_bytes_max(size: int) -> int:
    """Return the room for a compressed block, with its length before it and what wide stores overwrite behind."""
    return _LENGTH_BYTES + _VARINT_BYTES_MAX + size + size // 6 + 2 * _SHORT_BYTES


@kernel()
def compress_snappy(
    source: Bytes, start: int, end: int, out: Bytes, position: int, last_seen: LastSeen
) -> tuple[int, int]:
    """Write one stream of 32 KiB blocks to ``out``: ``(status, next position)``.

    Args:
        source: holds the plain bytes.
        start: of them.
        end: of them.
        out: never overlaps ``source``.
        position: where to begin.
        last_seen: ``CodecCalls.last_seen``.
    """
    if out.size - position < _STREAM_HEADER_BYTES:
        return Status.OUTPUT_FULL, position
    store_be64(out, position, _MAGIC)
    store_be32(out, position + 8, 1)
    store_be32(out, position + 12, 1)
    position += _STREAM_HEADER_BYTES
    for at in range(start, end, _BLOCK_BYTES):
        block_end = min(at + _BLOCK_BYTES, end)
        if out.size - position < _block_bytes_max(block_end - at):
            return Status.OUTPUT_FULL, position
        after = _compress_block(source, at, block_end, out, position + _LENGTH_BYTES, last_seen)
        store_be32(out, position, after - position - _LENGTH_BYTES)
        position = after
    return Status.OK, position
