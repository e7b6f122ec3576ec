"""The codecs of many batches at a call: their records into an arena, and back, without the GIL.

This is the fast twin of ``compression``. It handles the bytes that Kafka's clients write, and answers NEEDS_PYTHON for
all others. ``compression`` decompresses the same bytes to the same records, and refuses, with the cause in words, what
this module calls damaged.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from storage.arrays import Bytes, Integers, Table
from storage.codecs.gzip import compress_gzip, decompress_gzip
from storage.codecs.lz4 import compress_lz4, decompress_lz4
from storage.codecs.snappy import decompress_snappy
from storage.codecs.snappy_compress import LAST_SEEN, LastSeen, compress_snappy
from storage.codecs.symbols import (
    DEFLATE,
    INFLATE,
    LZ4_COMPRESS,
    LZ4_DECOMPRESS,
    ZSTD_COMPRESS,
    ZSTD_DECOMPRESS,
    CodecCalls,
    Libraries,
    find_libraries,
)
from storage.codecs.zstd import compress_zstd, decompress_zstd
from storage.kernels.crc import is_sound
from storage.kernels.layout import BATCH, BATCHES, CODEC_MASK, HEADER_BYTES, RECORD_BYTES_MIN
from storage.kernels.status import Status
from storage.machine.intrinsics import copy_bytes
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, BYTES, I64, INTEGERS, OUTPUT, integers

# Codecs in a batch's attributes.
_NONE: Final = 0
_GZIP: Final = 1
_SNAPPY: Final = 2
_LZ4: Final = 3
_ZSTD: Final = 4

_VERSION: Final = 2

_SAMPLE: Final = np.frombuffer(b"Neither rain nor snow, neither snow nor rain, nor gloom of night. " * 40, np.uint8)


@kernel()
def decompress_body(  # noqa: PLR0911  (each codec has its own)
    codec: int, buf: Bytes, start: int, end: int, arena: Bytes, position: int, calls: Integers, version: int
) -> tuple[int, int]:
    """Decompress ``buf[start:end]``, the body of a batch of a version, to ``arena``: ``(status, next position)``.

    The caller knows both ranges to lie in their arrays.
    """
    if codec == _LZ4 and calls[LZ4_DECOMPRESS]:
        return decompress_lz4(buf, start, end, arena, position, calls, version)
    if codec == _ZSTD and calls[ZSTD_DECOMPRESS]:
        return decompress_zstd(buf, start, end, arena, position, calls)
    if codec == _SNAPPY:
        return decompress_snappy(buf, start, end, arena, position)
    if codec == _GZIP and calls[INFLATE]:
        return decompress_gzip(buf, start, end, arena, position, calls)
    if codec != _NONE:
        return Status.NEEDS_PYTHON, position
    if end - start > arena.size - position:
        return Status.OUTPUT_FULL, position
    copy_bytes(arena, position, buf, start, end - start)
    return Status.OK, position + end - start


@kernel()
def _decompress_row(
    buf: Bytes, table: Table, row: int, arena: Bytes, position: int, calls: Integers, is_unverified: bool
) -> tuple[int, int]:
    batch = table[row]
    if batch.position < 0 or batch.size < HEADER_BYTES or batch.size > buf.size - batch.position:
        return Status.BAD_SIZE, position
    if is_unverified and not is_sound(buf, table, row):
        return Status.BAD_CRC, position
    if batch.record_count == 0:  # the bytes behind the header of an empty batch are not read, as in Kafka
        return Status.OK, position
    status, end = decompress_body(
        batch.attributes & CODEC_MASK, buf, batch.position + HEADER_BYTES, batch.position + batch.size,
        arena, position, calls, _VERSION,
    )  # fmt: skip
    if status == Status.OUTPUT_FULL and position == 0:
        return Status.NEEDS_PYTHON, position
    if status == Status.OK and batch.record_count * RECORD_BYTES_MIN > end - position:
        return Status.BAD_COUNT, position
    return status, end


@kernel(integers(3)(BYTES, BATCHES, I64, I64, OUTPUT, I64, INTEGERS, BOOLEAN))
def decompress_batches(
    buf: Bytes,
    table: Table,
    first: int,
    last: int,
    arena: Bytes,
    position: int,
    calls: Integers,
    is_unverified: bool,
) -> tuple[int, int, int]:
    """Decompress the records of ``table[first:last]`` into ``arena`` and set each row's ``records_start`` and ``_end``.

    Args:
        buf: holds the batches.
        table: rows of any codec; those of none are copied.
        first: row to begin with.
        last: row to end before.
        arena: never overlaps ``buf``. Its size bounds every batch; what lies behind the position may be overwritten.
        position: where in it to begin.
        calls: ``CodecCalls.words`` of this thread.
        is_unverified: nobody has verified the rows' CRC yet; the codec then finds the bytes in the nearest cache.

    Returns:
        ``(status, row, position)``: ``row`` is the first not done, ``arena`` is valid up to ``position``. OUTPUT_FULL:
        use the rows done, then go on with ``row`` from position 0. BAD_COMPRESSED, NEEDS_PYTHON: ask
        ``compression`` for the row; NEEDS_PYTHON also if the row alone is more than ``arena``. BAD_SIZE: it is not in
        ``buf``. BAD_COUNT: more records than bytes for them. BAD_CRC: damaged, whatever else.
    """
    position = max(position, 0)
    for row in range(max(first, 0), min(last, table.size)):
        if position > arena.size:
            return Status.OUTPUT_FULL, row, position
        status, end = _decompress_row(buf, table, row, arena, position, calls, is_unverified)
        if status != Status.OK:
            return status, row, position
        table[row].records_start, table[row].records_end = position, end
        position = end
    return Status.OK, last, position


@kernel()
def compress_body(  # noqa: PLR0911  (each codec has its own)
    codec: int,
    plain: Bytes,
    start: int,
    end: int,
    out: Bytes,
    position: int,
    calls: Integers,
    last_seen: LastSeen,
    version: int,
) -> tuple[int, int]:
    """Compress as ``compress_records`` does, for a batch of a version."""
    start, end = max(start, 0), min(end, plain.size)
    if end < start or position < 0 or position > out.size:
        return Status.BAD_SIZE, position
    if codec == _LZ4 and calls[LZ4_COMPRESS]:
        return compress_lz4(plain, start, end, out, position, calls, version)
    if codec == _ZSTD and calls[ZSTD_COMPRESS]:
        return compress_zstd(plain, start, end, out, position, calls)
    if codec == _SNAPPY:
        return compress_snappy(plain, start, end, out, position, last_seen)
    if codec == _GZIP and calls[DEFLATE]:
        return compress_gzip(plain, start, end, out, position, calls)
    if codec != _NONE:
        return Status.NEEDS_PYTHON, position
    if end - start > out.size - position:
        return Status.OUTPUT_FULL, position
    copy_bytes(out, position, plain, start, end - start)
    return Status.OK, position + end - start


@kernel(integers(2)(I64, BYTES, I64, I64, OUTPUT, I64, INTEGERS, LAST_SEEN))
def compress_records(
    codec: int,
    plain: Bytes,
    start: int,
    end: int,
    out: Bytes,
    position: int,
    calls: Integers,
    last_seen: LastSeen,
) -> tuple[int, int]:
    """Compress ``plain[start:end]``, the records of a batch, at the codec's default level, framed as Kafka frames them.

    Args:
        codec: the low three bits of the batch's attributes.
        plain: records, serialized.
        start: cut to the array.
        end: cut to the array.
        out: never overlaps ``plain``; ``body_bytes_max`` is always room enough.
        position: where to begin.
        calls: ``CodecCalls.words`` of this thread.
        last_seen: ``CodecCalls.last_seen`` of this thread.

    Returns:
        ``(status, next position)``. OUTPUT_FULL: nothing usable was written. NEEDS_PYTHON: the codec's functions were
        not found.
    """
    return compress_body(codec, plain, start, end, out, position, calls, last_seen, _VERSION)


def body_bytes_max(plain_bytes: int) -> int:
    """Return the room that ``compress_records`` needs at most, whatever the codec and the data."""
    return plain_bytes + plain_bytes // 6 + 64 * (plain_bytes // (32 * 1024) + 2)


def open_codecs() -> CodecCalls:
    """Make the functions and contexts for one more thread. The first time, each library proves itself on a sample."""
    return CodecCalls(_proven_libraries())


@cache
def _proven_libraries() -> Libraries:
    return proven(find_libraries())


def proven(found: Libraries) -> Libraries:
    """Return the libraries that compress and decompress a sample without a change; each is tried without its rivals."""
    calls, by_zlib = CodecCalls(found), found._replace(isal=None, zlib_ng=None)
    return Libraries(
        lz4=found.lz4 if _round_trips(_LZ4, calls) else None,
        zstd=found.zstd if _round_trips(_ZSTD, calls) else None,
        zlib=found.zlib if _round_trips(_GZIP, CodecCalls(by_zlib)) else None,
        isal=found.isal if _round_trips(_GZIP, CodecCalls(by_zlib._replace(isal=found.isal))) else None,
        zlib_ng=found.zlib_ng if _round_trips(_GZIP, CodecCalls(by_zlib._replace(zlib_ng=found.zlib_ng))) else None,
    )


def _round_trips(codec: int, calls: CodecCalls) -> bool:
    """Return whether a sample can be compressed, and decompressed behind a header of zeros."""
    plain_bytes = _SAMPLE.size
    body = np.zeros(HEADER_BYTES + body_bytes_max(plain_bytes), np.uint8)
    status, size = compress_records(codec, _SAMPLE, 0, plain_bytes, body, HEADER_BYTES, calls.words, calls.last_seen)
    if status != Status.OK or size >= plain_bytes:
        return False
    table = np.zeros(1, BATCH)
    table["size"], table["record_count"], table["attributes"] = size, 1, codec
    arena = np.zeros(2 * plain_bytes, np.uint8)
    status, _, made = decompress_batches(body, table, 0, 1, arena, 0, calls.words, False)
    return status == Status.OK and np.array_equal(arena[:made], _SAMPLE)
