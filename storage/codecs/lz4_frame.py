"""lz4 frames as Kafka reads and writes them.

The lz4 package's own functions for frames do not fit: Kafka's reader takes less (independent blocks only, no
dictionary), checks less (never the content checksum), stops at the first end mark, and its version 0 hashed the wrong
bytes of the header.

Source: Kafka ``Lz4BlockInputStream``, ``Lz4BlockOutputStream``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import lz4.block

from storage.errors import CorruptCompressedData

LEVEL: Final = 9
_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAGS: Final = 0x60
"""Version 1, independent blocks; no checksums, no content size."""
_FLAG_DICTIONARY_OR_RESERVED: Final = 0x03
_FLAG_CONTENT_CHECKSUM: Final = 0x04
_FLAG_CONTENT_SIZE: Final = 0x08
_FLAG_BLOCK_CHECKSUM: Final = 0x10
_FLAG_VERSION_AND_INDEPENDENT: Final = 0xE0
_BLOCK_BYTES: Final = 64 * 1024
_BLOCK_SIZE_BYTES: Final = {4: _BLOCK_BYTES, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_DESCRIPTOR: Final = bytes((_FLAGS, 4 << 4))
_STORED_RAW: Final = 0x80000000
_CONTENT_SIZE_BYTES: Final = 8
_UINT32: Final = struct.Struct("<I")

_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_LANES: Final = struct.Struct("<IIII")
_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Frame:
    blocks_start: int
    block_bytes_max: int
    has_block_checksums: bool
    has_content_checksum: bool


def compress(data: bytes | memoryview, hashes_magic: bool = False, level: int = LEVEL) -> bytes:
    """Compress to one frame of 64 KiB blocks.

    Args:
        data: what to compress.
        hashes_magic: into the frame's checksum, too, as message format 0 does.
        level: Kafka takes the fast compressor at its default level, and the thorough one at any other level.
    """
    mode: dict[str, Any] = {} if level == LEVEL else {"mode": "high_compression", "compression": level}
    checksum = _header_checksum(_MAGIC + _DESCRIPTOR if hashes_magic else _DESCRIPTOR)
    out = bytearray(_MAGIC + _DESCRIPTOR + bytes((checksum,)))
    for start in range(0, len(data), _BLOCK_BYTES):
        raw = data[start : start + _BLOCK_BYTES]
        block = lz4.block.compress(raw, store_size=False, **mode)
        if len(block) < len(raw):
            out += _UINT32.pack(len(block)) + block
        else:
            out += _UINT32.pack(len(raw) | _STORED_RAW) + raw
    return bytes(out + _UINT32.pack(0))


def decompressed_blocks(data: bytes | memoryview, checks_header: bool = True) -> Iterator[bytes | memoryview]:
    """Yield the blocks of the first frame, decompressed one by one; each is at most 4 MiB.

    Args:
        data: a frame, and bytes that may follow it, which are ignored as in Kafka.
        checks_header: whether the header's checksum must be right: not in message format 0.

    Raises:
        CorruptCompressedData: damaged or cut short.
    """
    view = memoryview(data)
    frame = _parse_frame_header(view, checks_header)
    position = frame.blocks_start
    while (word := _uint32(view, position)) & ~_STORED_RAW:
        size_bytes = word & ~_STORED_RAW
        if size_bytes > frame.block_bytes_max:
            raise _corrupt(f"block of {size_bytes} bytes in a frame of blocks up to {frame.block_bytes_max}")
        block = _slice(view, position + 4, size_bytes)
        position += 4 + size_bytes
        if frame.has_block_checksums:
            if xxh32(block) != _uint32(view, position):
                raise _corrupt("block checksum mismatch")
            position += 4
        yield block if word & _STORED_RAW else _decompress_block(block, frame.block_bytes_max)
    if frame.has_content_checksum:
        _uint32(view, position + 4)  # must be there; Kafka does not verify it


def _parse_frame_header(view: memoryview, checks_header: bool) -> _Frame:
    magic, flags, block_descriptor = _slice(view, 0, 4), _byte(view, 4), _byte(view, 5)
    if bytes(magic) != _MAGIC:
        raise _corrupt("no lz4 frame")
    if flags & _FLAG_DICTIONARY_OR_RESERVED or flags & _FLAG_VERSION_AND_INDEPENDENT != _FLAGS:
        raise _corrupt(f"frame flags {flags:#04x} that Kafka does not take")
    block_bytes_max = _BLOCK_SIZE_BYTES.get(block_descriptor >> 4)
    if block_bytes_max is None or block_descriptor & 0x0F:
        raise _corrupt(f"block descriptor {block_descriptor:#04x} that Kafka does not take")
    checksum_at = 6 + (_CONTENT_SIZE_BYTES if flags & _FLAG_CONTENT_SIZE else 0)
    checksum = _byte(view, checksum_at)
    if checks_header and checksum != _header_checksum(view[4:checksum_at]):
        raise _corrupt("header checksum mismatch")
    return _Frame(
        blocks_start=checksum_at + 1,
        block_bytes_max=block_bytes_max,
        has_block_checksums=bool(flags & _FLAG_BLOCK_CHECKSUM),
        has_content_checksum=bool(flags & _FLAG_CONTENT_CHECKSUM),
    )


def _decompress_block(block: memoryview, block_bytes_max: int) -> bytes:
    try:
        return bytes(lz4.block.decompress(block, uncompressed_size=block_bytes_max))
    except lz4.block.LZ4BlockError as error:
        raise _corrupt(str(error)) from error


def _header_checksum(descriptor: bytes | memoryview) -> int:
    return xxh32(descriptor) >> 8 & 0xFF


def _slice(view: memoryview, position: int, size_bytes: int) -> memoryview:
    if len(view) - position < size_bytes:
        raise _corrupt("the frame is cut short")
    return view[position : position + size_bytes]


def _byte(view: memoryview, position: int) -> int:
    return _slice(view, position, 1)[0]


def _uint32(view: memoryview, position: int) -> int:
    value: int = _UINT32.unpack(_slice(view, position, _UINT32.size))[0]
    return value


def _corrupt(cause: str) -> CorruptCompressedData:
    return CorruptCompressedData("lz4", cause)


def xxh32(data: bytes | memoryview) -> int:
    """Compute the 32-bit xxHash with seed 0. Slow, but seldom called on more than a frame's header: Kafka writes no
    checksums.

    Source: the xxHash specification, XXH32.
    """
    striped = len(data) - len(data) % _LANES.size
    acc = _accumulate(data, striped) if striped else _PRIME_5
    acc = (acc + len(data)) & _MASK
    position = striped
    while len(data) - position >= _UINT32.size:
        (word,) = _UINT32.unpack_from(data, position)
        acc = _rotate(acc + word * _PRIME_3, 17) * _PRIME_4 & _MASK
        position += _UINT32.size
    for byte in data[position:]:
        acc = _rotate(acc + byte * _PRIME_5, 11) * _PRIME_1 & _MASK
    return _avalanche(acc)


def _accumulate(data: bytes | memoryview, striped: int) -> int:
    lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
    for position in range(0, striped, _LANES.size):
        words = _LANES.unpack_from(data, position)
        lanes = [
            _rotate(lane + word * _PRIME_2, 13) * _PRIME_1 & _MASK for lane, word in zip(lanes, words, strict=True)
        ]
    return sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))


def _avalanche(acc: int) -> int:
    acc = (acc ^ acc >> 15) * _PRIME_2 & _MASK
    acc = (acc ^ acc >> 13) * _PRIME_3 & _MASK
    return acc ^ acc >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
