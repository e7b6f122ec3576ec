"""snappy as snappy-java streams it: a header, then length-prefixed raw snappy blocks.

Source: Kafka ``SnappyCompression``; snappy-java ``SnappyCodec``, ``SnappyInputStream``,
``SnappyOutputStream``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from cramjam import DecompressionError, snappy

from storage.errors import CorruptCompressedData

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)
"""Magic, version, the oldest version that can read it. Readers look at the magic only."""
_MAGIC_AS_LENGTH: Final = int.from_bytes(_MAGIC[:4], "big", signed=True)
_BLOCK_BYTES: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")
_EXPANSION_MAX: Final = 22
"""The bytes that one compressed byte can become: a copy of 64 bytes takes three. Larger claims are refused."""


def compress(data: bytes | memoryview) -> bytes:
    """Compress to one stream of 32 KiB blocks."""
    out = bytearray(_HEADER)
    for start in range(0, len(data), _BLOCK_BYTES):
        block = bytes(snappy.compress_raw(data[start : start + _BLOCK_BYTES]))
        out += _LENGTH.pack(len(block)) + block
    return bytes(out)


def decompressed_blocks(data: memoryview, block_bytes_max: int) -> Iterator[memoryview]:
    """Yield the content of each block.

    Args:
        data: a stream, streams one behind another, or (from producers other than Java's) one raw block
            without header.
        block_bytes_max: a block that states more is refused before memory is taken for it.

    Raises:
        CorruptCompressedData: damaged, cut short, or a block larger than ``block_bytes_max``.
    """
    for block in _raw_blocks(data):
        yield _decompress_block(block, block_bytes_max)


def _raw_blocks(data: memoryview) -> Iterator[memoryview]:
    if len(data) < len(_HEADER) or bytes(data[: len(_MAGIC)]) != _MAGIC:
        yield data
        return
    position = len(_HEADER)
    while len(data) - position >= _LENGTH.size:  # fewer bytes than a length end the stream, as in snappy-java
        (length,) = _LENGTH.unpack_from(data, position)
        if length == _MAGIC_AS_LENGTH:
            if not _starts_stream(data[position:]):
                return
            position += len(_HEADER)
            continue
        position += _LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise _corrupt(f"block of {length} bytes with {len(data) - position} left")
        yield data[position : position + length]
        position += length


def _starts_stream(data: memoryview) -> bool:
    """Return whether a concatenated stream starts here. Four bytes of magic, then others, end the data."""
    if len(data) < len(_HEADER):
        raise _corrupt("the header of a concatenated stream is cut short")
    return bytes(data[: len(_MAGIC)]) == _MAGIC


def _decompress_block(block: memoryview, block_bytes_max: int) -> memoryview:
    if not block:
        raise _corrupt("empty block")
    try:
        claimed_bytes = snappy.decompress_raw_len(block)
        if claimed_bytes > block_bytes_max:
            raise _corrupt(f"decompresses to more than {block_bytes_max} bytes")
        if claimed_bytes > len(block) * _EXPANSION_MAX:
            raise _corrupt(f"{len(block)} bytes that claim to hold {claimed_bytes}")
        return memoryview(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise _corrupt(str(error)) from error


def _corrupt(cause: str) -> CorruptCompressedData:
    return CorruptCompressedData("snappy", cause)
