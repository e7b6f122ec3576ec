"""zstd frames, decompressed block by block.

The library is fed one block at a time, so that a frame can be stopped as soon as it outgrows a limit: the library's own
limit is ignored where the frame states its size, and its stream reader takes a frame that is cut short for a complete
one.

Source: Kafka ``ZstdCompression``; zstd-jni ``ZstdInputStream``; RFC 8878 for the frame's parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zstandard import (
    COMPRESSOBJ_FLUSH_BLOCK,
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
    frame_header_size,
    get_frame_parameters,
)

from storage.errors import CorruptCompressedData

LEVEL: Final = 3
_SKIPPABLE_MAGIC_START: Final = 0x184D2A50
_SKIPPABLE_MAGIC_STOP: Final = 0x184D2A60
_MAGIC_BYTES: Final = 4
_SKIPPABLE_HEADER_BYTES: Final = 8
_HEADER_BYTES_MAX: Final = 18
_BLOCK_HEADER_BYTES: Final = 3
_CHECKSUM_BYTES: Final = 4
_LAST_BLOCK: Final = 1
_RLE_BLOCK: Final = 1


def compress(data: bytes | memoryview, level: int = LEVEL) -> bytes:
    """Compress to one frame, without content size or checksum."""
    # As a stream that is flushed before its end, although all data is here: so Kafka does, and gets the parameters for
    # an unknown size and an empty last block.
    stream = ZstdCompressor(level=level, write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush(COMPRESSOBJ_FLUSH_BLOCK) + stream.flush()


def decompressed_blocks(data: memoryview) -> Iterator[bytes]:
    """Yield the content of all frames, in blocks of at most 128 KiB; skippable frames are skipped.

    Raises:
        CorruptCompressedData: damaged or cut short.
    """
    position = 0
    while position < len(data):
        magic = int.from_bytes(_slice(data, position, _MAGIC_BYTES), "little")
        if _SKIPPABLE_MAGIC_START <= magic < _SKIPPABLE_MAGIC_STOP:
            position += len(_skippable_frame(data, position))
            continue
        pieces = _frame_pieces(data, position)
        yield from _decompress_frame(pieces)
        position += sum(map(len, pieces))


def _decompress_frame(pieces: list[memoryview]) -> Iterator[bytes]:
    frame = ZstdDecompressor().decompressobj()
    for piece in pieces:
        try:
            block = frame.decompress(piece)
        except ZstdError as error:
            raise _corrupt(str(error)) from error
        yield block
    assert frame.eof, "its last block and checksum have been fed: anything wrong with them has raised"


def _frame_pieces(data: memoryview, position: int) -> list[memoryview]:
    """Return the header, each block with its header, and the checksum, if any, of the frame at ``position``."""
    start = bytes(data[position : position + _HEADER_BYTES_MAX])
    try:
        header_bytes, has_checksum = frame_header_size(start), get_frame_parameters(start).has_checksum
    except ZstdError as error:
        raise _corrupt(str(error)) from error
    pieces = [_slice(data, position, header_bytes)]
    position += header_bytes
    is_last = False
    while not is_last:
        block_header = int.from_bytes(_slice(data, position, _BLOCK_HEADER_BYTES), "little")
        is_last, kind, size = bool(block_header & _LAST_BLOCK), block_header >> 1 & 3, block_header >> 3
        pieces.append(_slice(data, position, _BLOCK_HEADER_BYTES + (1 if kind == _RLE_BLOCK else size)))
        position += len(pieces[-1])
    if has_checksum:
        pieces.append(_slice(data, position, _CHECKSUM_BYTES))
    return pieces


def _skippable_frame(data: memoryview, position: int) -> memoryview:
    size = int.from_bytes(_slice(data, position + _MAGIC_BYTES, _SKIPPABLE_HEADER_BYTES - _MAGIC_BYTES), "little")
    return _slice(data, position, _SKIPPABLE_HEADER_BYTES + size)


def _slice(data: memoryview, position: int, size_bytes: int) -> memoryview:
    if len(data) - position < size_bytes:
        raise _corrupt("the frame is cut short")
    return data[position : position + size_bytes]


def _corrupt(cause: str) -> CorruptCompressedData:
    return CorruptCompressedData("zstd", cause)
