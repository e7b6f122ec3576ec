"""The codecs of record batches, framed as Kafka frames them.

The codecs write the bytes that Kafka's producer and cleaner write at a codec's default level, and those that brokers
write at another level. They read all that Kafka's own streams accept, oddities included. Decompression is bounded: no
codec ever holds more than the caller's limit plus one block, whatever sizes the data claims. The first batch that needs
a codec imports its module, so that a run that only deletes loads none.

Source: Kafka ``Compression`` and its implementations ``GzipCompression``, ``SnappyCompression``,
``Lz4Compression``, ``ZstdCompression``.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from storage.errors import CorruptCompressedData


class Compression(IntEnum):
    """The codec of a batch: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: bytes | memoryview, message_version: int = 2, level: int | None = None) -> bytes:
    """Compress the records of a batch.

    Args:
        codec: the codec; NONE gives ``data`` back.
        data: the records, serialized.
        message_version: magic of the batch: in version 0, Kafka computes the checksum in an lz4 frame's
            header wrongly.
        level: as ``compression.gzip.level`` and its like say it; default: the codec's own. snappy has none.

    Raises:
        ValueError: zstd in a batch of version 0 or 1, which no reader would accept.
    """
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            from storage.codecs import gzip_members  # noqa: PLC0415

            return gzip_members.compress(data, gzip_members.LEVEL if level is None else level)
        case Compression.SNAPPY:
            from storage.codecs import xerial  # noqa: PLC0415

            return xerial.compress(data)
        case Compression.LZ4:
            from storage.codecs import lz4_frame  # noqa: PLC0415

            return lz4_frame.compress(data, message_version == 0, lz4_frame.LEVEL if level is None else level)
        case Compression.ZSTD:
            if message_version < 2:
                raise ValueError("zstd needs record batches of version 2")
            from storage.codecs import zstd_frame  # noqa: PLC0415

            return zstd_frame.compress(data, zstd_frame.LEVEL if level is None else level)


def decompress(codec: Compression, data: bytes | memoryview, limit_bytes: int, message_version: int = 2) -> bytes:
    """Decompress the records of a batch.

    Args:
        codec: the codec; NONE gives ``data`` back, if it is within the limit.
        data: all the compressed bytes of the batch.
        limit_bytes: the most bytes of the result; memory stays below it plus one block of the codec.
        message_version: magic of the batch: in version 0 an lz4 frame's header checksum is not checked.

    Raises:
        CorruptCompressedData: the bytes are damaged, cut short, or grow beyond the limit.
    """
    out = bytearray()
    decompress_onto(out, codec, data, limit_bytes, message_version)
    return bytes(out)


def decompress_onto(
    out: bytearray, codec: Compression, data: bytes | memoryview, limit_bytes: int, message_version: int = 2
) -> None:
    """Append the decompressed records of a batch; arguments and errors are those of ``decompress``."""
    end = len(out) + limit_bytes
    for block in _decompressed_blocks(codec, memoryview(data), limit_bytes, message_version):
        if len(out) + len(block) > end:
            raise CorruptCompressedData(codec.name.lower(), f"decompresses to more than {limit_bytes} bytes")
        out += block


def _decompressed_blocks(
    codec: Compression, data: memoryview, limit_bytes: int, message_version: int
) -> Iterator[bytes | memoryview]:
    match codec:
        case Compression.NONE:
            return iter((data,))
        case Compression.GZIP:
            from storage.codecs import gzip_members  # noqa: PLC0415

            return gzip_members.decompressed_blocks(data)
        case Compression.SNAPPY:
            from storage.codecs import xerial  # noqa: PLC0415

            return xerial.decompressed_blocks(data, limit_bytes)
        case Compression.LZ4:
            from storage.codecs import lz4_frame  # noqa: PLC0415

            return lz4_frame.decompressed_blocks(data, checks_header=message_version > 0)
        case Compression.ZSTD:
            from storage.codecs import zstd_frame  # noqa: PLC0415

            return zstd_frame.decompressed_blocks(data)
