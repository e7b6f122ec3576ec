"""gzip as Java writes and reads it.

Source: Kafka ``GzipCompression``; Java ``GZIPOutputStream``, ``GZIPInputStream``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from storage.errors import CorruptCompressedData

_MAGIC: Final = b"\x1f\x8b\x08"
_HEADER: Final = _MAGIC + b"\x00\x00\x00\x00\x00\x00\xff"
"""The header that Java (16 and later) writes: no name, no time, operating system unknown."""
_TRAILER: Final = struct.Struct("<II")
_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS
"""The window bits that make zlib read and write a gzip header and trailer, and check both."""
_BLOCK_BYTES: Final = 128 * 1024
LEVEL: Final = zlib.Z_DEFAULT_COMPRESSION


def compress(data: bytes | memoryview, level: int = LEVEL) -> bytes:
    """Compress to one gzip member at a level of zlib."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    return _HEADER + body + _TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)


def decompressed_blocks(data: bytes | memoryview) -> Iterator[bytes]:
    """Yield the content of all members, in pieces of at most 128 KiB.

    Bytes behind a member that do not start another one are ignored, as by ``GZIPInputStream``.

    Raises:
        CorruptCompressedData: damaged (checksum and size of each member are verified) or cut short.
    """
    rest: bytes | memoryview = data
    while True:
        inflate = zlib.decompressobj(_WINDOW_BITS)
        while not inflate.eof:
            block = _inflate(inflate, rest)
            rest = inflate.unconsumed_tail
            yield block
        rest = inflate.unused_data
        if not rest.startswith(_MAGIC):
            return


def _inflate(inflate: zlib._Decompress, data: bytes | memoryview) -> bytes:
    try:
        block = inflate.decompress(data, _BLOCK_BYTES)
    except zlib.error as error:
        raise CorruptCompressedData("gzip", str(error)) from error
    if not block and not inflate.eof:
        raise CorruptCompressedData("gzip", "the stream is cut short")
    return block
