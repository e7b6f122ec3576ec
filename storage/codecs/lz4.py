"""lz4 frames as Kafka reads and writes them: this module walks the frame, liblz4 does its blocks.

The rules are those of ``storage.codecs.lz4_frame``.

Source: Kafka ``Lz4BlockInputStream``, ``Lz4BlockOutputStream``.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers
from storage.codecs.symbols import LZ4_COMPRESS, LZ4_DECOMPRESS
from storage.codecs.xxhash import load_le32, xxh32
from storage.kernels.status import Status
from storage.machine.c_calls import address, call_lz4
from storage.machine.intrinsics import copy_bytes, load_u8, store_be32, store_u8
from storage.machine.kernel import kernel

_MAGIC: Final = 0x184D2204
_MAGIC_AS_WRITTEN: Final = 0x04224D18
_FLAGS: Final = 0x60  # version 1, independent blocks
_FLAG_DICTIONARY_OR_RESERVED: Final = 0x03
_FLAG_CONTENT_CHECKSUM: Final = 0x04
_FLAG_CONTENT_SIZE: Final = 0x08
_FLAG_BLOCK_CHECKSUM: Final = 0x10
_FLAG_VERSION_AND_INDEPENDENT: Final = 0xE0
_HEADER_BYTES_MIN: Final = 7
_BLOCK_SIZE_ID_MIN: Final = 4  # 64 KiB; each further id is four times as large
_BLOCK_SIZE_ID_MAX: Final = 7
_BLOCK_BYTES: Final = 64 * 1024
_BLOCK_DESCRIPTOR: Final = 0x40
_HEADER_CHECKSUM: Final = 0x82  # of the flags and the descriptor that are written
_HEADER_CHECKSUM_V0: Final = 0x1A  # of the magic, the flags and the descriptor, as message format 0 has it
_STORED_RAW: Final = 0x80000000
_WORD_BYTES: Final = 4


@kernel()
def _frame_header(buf: Bytes, start: int, end: int, version: int) -> tuple[int, int, int]:
    """Return ``(flags, where the blocks start, bytes of a block at most)``; flags -1: no header that Kafka takes."""
    if end - start < _HEADER_BYTES_MIN or load_le32(buf, start) != _MAGIC:
        return -1, 0, 0
    flags, descriptor = load_u8(buf, start + 4), load_u8(buf, start + 5)
    if flags & _FLAG_DICTIONARY_OR_RESERVED or flags & _FLAG_VERSION_AND_INDEPENDENT != _FLAGS:
        return -1, 0, 0
    block_size_id = descriptor >> 4
    if descriptor & 0x0F or block_size_id < _BLOCK_SIZE_ID_MIN or block_size_id > _BLOCK_SIZE_ID_MAX:
        return -1, 0, 0
    checksum_at = start + (14 if flags & _FLAG_CONTENT_SIZE else 6)
    if checksum_at >= end:
        return -1, 0, 0
    if version > 0 and load_u8(buf, checksum_at) != xxh32(buf, start + 4, checksum_at) >> 8 & 0xFF:
        return -1, 0, 0
    return flags, checksum_at + 1, _BLOCK_BYTES << 2 * (block_size_id - _BLOCK_SIZE_ID_MIN)


@kernel()
def _decompress_block(
    buf: Bytes, start: int, size: int, out: Bytes, position: int, block_bytes_max: int, calls: Integers
) -> tuple[int, int]:
    room = min(out.size - position, block_bytes_max)
    arguments = (address(buf, start), address(out, position), size, room)
    made = call_lz4(calls[LZ4_DECOMPRESS], arguments)
    if made >= 0:
        return Status.OK, position + made
    if room < block_bytes_max:  # damaged or only too long: with more room it will be known
        return Status.OUTPUT_FULL, position
    return Status.BAD_COMPRESSED, position


@kernel()
def _take_block(
    buf: Bytes, start: int, word: int, out: Bytes, position: int, block_bytes_max: int, calls: Integers
) -> tuple[int, int]:
    """Write one checked block to ``out``; the word before it tells whether it is compressed."""
    size = word & ~_STORED_RAW
    if not word & _STORED_RAW:
        return _decompress_block(buf, start, size, out, position, block_bytes_max, calls)
    if size > out.size - position:
        return Status.OUTPUT_FULL, position
    copy_bytes(out, position, buf, start, size)
    return Status.OK, position + size


@kernel()
def decompress_lz4(
    buf: Bytes, start: int, end: int, out: Bytes, position: int, calls: Integers, version: int
) -> tuple[int, int]:
    """Decompress the first frame in ``buf[start:end]`` to ``out`` from ``position``: ``(status, next position)``.

    In messages of version 0 the checksum of the frame's header is not looked at.
    """
    flags, at, block_bytes_max = _frame_header(buf, start, end, version)
    if flags < 0:
        return Status.BAD_COMPRESSED, position
    checksum_bytes = _WORD_BYTES if flags & _FLAG_BLOCK_CHECKSUM else 0
    while end - at >= _WORD_BYTES:
        word = load_le32(buf, at)
        size, at = word & ~_STORED_RAW, at + _WORD_BYTES
        if size == 0:
            is_cut = flags & _FLAG_CONTENT_CHECKSUM and end - at < _WORD_BYTES  # there, and not verified: as in Kafka
            return (Status.BAD_COMPRESSED if is_cut else Status.OK), position
        if size > block_bytes_max or size + checksum_bytes > end - at:
            break
        if checksum_bytes and xxh32(buf, at, at + size) != load_le32(buf, at + size):
            break
        status, position = _take_block(buf, at, word, out, position, block_bytes_max, calls)
        if status != Status.OK:
            return status, position
        at += size + checksum_bytes
    return Status.BAD_COMPRESSED, position


@kernel()
def _store_le32(out: Bytes, position: int, value: int) -> None:
    for byte in range(_WORD_BYTES):
        store_u8(out, position + byte, value >> 8 * byte)


@kernel()
def _block_bytes_max(size: int) -> int:
    """Return the largest size of a compressed block (lz4.h): with that room the library does not check its writes."""
    return size + size // 255 + 16


@kernel()
def _compress_block(source: Bytes, start: int, size: int, out: Bytes, position: int, calls: Integers) -> int:
    """Write a block with its size before it; store it as it is if compression does not shorten it."""
    at = position + _WORD_BYTES
    arguments = (address(source, start), address(out, at), size, _block_bytes_max(size))
    made = call_lz4(calls[LZ4_COMPRESS], arguments)
    if 0 < made < size:
        _store_le32(out, position, made)
        return at + made
    _store_le32(out, position, size | _STORED_RAW)
    copy_bytes(out, at, source, start, size)
    return at + size


@kernel()
def compress_lz4(
    source: Bytes, start: int, end: int, out: Bytes, position: int, calls: Integers, version: int
) -> tuple[int, int]:
    """Write one frame of 64 KiB blocks to ``out``: ``(status, next position)``."""
    if out.size - position < _HEADER_BYTES_MIN + _WORD_BYTES:
        return Status.OUTPUT_FULL, position
    store_be32(out, position, _MAGIC_AS_WRITTEN)
    store_u8(out, position + 4, _FLAGS)
    store_u8(out, position + 5, _BLOCK_DESCRIPTOR)
    store_u8(out, position + 6, _HEADER_CHECKSUM if version > 0 else _HEADER_CHECKSUM_V0)
    position += _HEADER_BYTES_MIN
    for at in range(start, end, _BLOCK_BYTES):
        size = min(end - at, _BLOCK_BYTES)
        if out.size - position < _block_bytes_max(size) + 2 * _WORD_BYTES:
            return Status.OUTPUT_FULL, position
        position = _compress_block(source, at, size, out, position, calls)
    _store_le32(out, position, 0)
    return Status.OK, position + _WORD_BYTES
