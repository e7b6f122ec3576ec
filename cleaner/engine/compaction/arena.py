"""Decompressed records of some batches, side by side in one buffer that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cleaner.engine.compaction.sources import Slice
from storage.compression import Compression, decompress_onto
from storage.errors import CorruptBatch, CorruptCompressedData
from storage.kernels.layout import CODEC_MASK, HEADER_BYTES, NOT_HERE, RECORD_BYTES_MIN
from storage.kernels.signatures import Bytes
from storage.kernels.status import Status
from storage.records.record import DECOMPRESSED_BYTES_MAX

ARENA_BYTES: Final = 16 << 20
"""Decompressed bytes after which a run of rows is handed to the kernels."""


def runs(slice_: Slice) -> Iterator[tuple[Bytes, int, int]]:
    """Cut a slice into runs of rows whose plain records lie in one buffer.

    Yields:
        ``(buffer, first row, end row)``: the segment itself for uncompressed batches, else an arena; the rows'
        ``records_start`` and ``records_end`` index it until the next run is taken. Messages of v0 and v1 come with
        theirs.

    Raises: CorruptBatch.
    """
    if slice_.keys is not None:
        yield slice_.keys, 0, slice_.table.size
        return
    compressed = (slice_.table["attributes"] & CODEC_MASK) != 0
    row, rows = 0, slice_.table.size
    while row < rows:
        if not compressed[row]:
            first, row = row, _end_of_run(compressed, row)
            yield slice_.buf, first, row
            continue
        arena, end = fill(slice_, row, _end_of_run(compressed, row))
        yield arena, row, end
        slice_.table["records_start"][row:end] = NOT_HERE
        row = end


def _end_of_run(flags: np.ndarray[tuple[int], np.dtype[np.bool_]], row: int) -> int:
    """First row from ``row`` on with another flag than it."""
    others = np.flatnonzero(flags[row:] != flags[row])
    return row + int(others[0]) if others.size else flags.size


def fill(slice_: Slice, first: int, last: int) -> tuple[Bytes, int]:
    """Decompress rows from ``first`` on, until ``last`` or the arena is full; gives the arena and the row after
    them."""
    arena, row = bytearray(), first
    while row < last and (row == first or len(arena) < ARENA_BYTES):
        slice_.table["records_start"][row] = len(arena)
        _append_records(arena, slice_, row)
        slice_.table["records_end"][row] = len(arena)
        row += 1
    return np.frombuffer(arena, np.uint8), row


def _append_records(arena: bytearray, slice_: Slice, row: int) -> None:
    batch = slice_.table[row]
    position, size, count = int(batch["position"]), int(batch["size"]), int(batch["record_count"])
    if count == 0:
        return  # what lies behind the header of an empty batch is not looked at, as in Kafka
    start, data = len(arena), slice_.buf[position + HEADER_BYTES : position + size].data
    try:
        decompress_onto(arena, _codec_of(slice_, row), data, DECOMPRESSED_BYTES_MAX)
    except CorruptCompressedData as error:
        raise CorruptBatch(slice_.path, slice_.position_of(row), str(error)) from error
    if count * RECORD_BYTES_MIN > len(arena) - start:
        raise slice_.fail(Status.BAD_COUNT, row)


def _codec_of(slice_: Slice, row: int) -> Compression:
    code = int(slice_.table["attributes"][row]) & CODEC_MASK
    if code > max(Compression):
        raise CorruptBatch(slice_.path, slice_.position_of(row), f"unknown compression codec {code}")
    return Compression(code)
