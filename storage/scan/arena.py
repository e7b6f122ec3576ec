"""Decompressed records of some batches, side by side in one buffer that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from storage.arrays import Bytes
from storage.codecs.batches import decompress_batches, open_codecs
from storage.codecs.compression import decompress_onto
from storage.errors import CorruptBatch, CorruptCompressedData
from storage.kernels.layout import CODEC_MASK, HEADER_BYTES, NOT_HERE, RECORD_BYTES_MIN
from storage.kernels.status import Status
from storage.records.v2 import DECOMPRESSED_BYTES_MAX
from storage.scan.slices import Slice

ARENA_BYTES: Final = 1 << 22
"""The decompressed bytes after which a run of rows is handed to the kernels: few enough for the last cache, and enough
that threads seldom wait for each other between two calls.
"""


class Run(NamedTuple):
    """Rows of a slice whose plain records lie in one buffer."""

    buf: Bytes
    """The segment itself for uncompressed batches, else an arena's; the ``records_start`` of the rows index it."""
    first: int
    last: int
    """The row behind the run."""
    is_unverified: bool = False
    """Whether the checksums of the rows are still to be verified. ``buf`` is the segment itself then."""


class Arena:
    """The codecs and the buffer that they fill, one for each thread.

    The readable codecs decide about batches that the fast ones do not take.
    """

    def __init__(self, arena_bytes: int = ARENA_BYTES) -> None:
        self._buf = np.empty(arena_bytes, np.uint8)
        self._codecs = open_codecs()

    def runs(self, slice_: Slice, row: int, last: int, *, verify: bool = False) -> Iterator[Run]:
        """Cut rows of a slice into runs whose plain records lie in one buffer.

        Args:
            slice_: legacy ones are one run, whatever the rows.
            row: to begin with.
            last: row to end before.
            verify: check the CRC of v2 batches; the CRC of older messages is checked as they are read.

        Yields:
            Runs, each valid until the next one is taken. Messages of v0 and v1 come with the buffer of their keys.

        Raises: CorruptBatch.
        """
        if slice_.keys is not None:
            yield Run(slice_.keys, 0, slice_.table.size)
            return
        compressed = (slice_.table["attributes"][:last] & CODEC_MASK) != 0
        while row < last:
            if not compressed[row]:
                first, row = row, _end_of_run(compressed, row)
                if verify:
                    slice_.verify(first, row)
                yield Run(slice_.buf, first, row)
                continue
            buf, end = self.fill(slice_, row, _end_of_run(compressed, row), verify=verify)
            yield Run(buf, row, end)
            slice_.table["records_start"][row:end] = NOT_HERE
            row = end

    def fill(self, slice_: Slice, first: int, last: int, *, verify: bool = False) -> tuple[Bytes, int]:
        """Decompress rows from ``first`` on, up to ``last`` or until the arena is full.

        If ``verify`` is set, verify them first.

        Returns:
            The buffer, valid until the next call, and the row behind the rows in it. The buffer holds at least one row.

        Raises: CorruptBatch.
        """
        status, row, _ = decompress_batches(
            slice_.buf, slice_.table, first, last, self._buf, 0, self._codecs.words, verify
        )
        if row > first:
            return self._buf, row  # the row that stopped the codecs comes first in the next call, which deals with it
        if status == Status.BAD_CRC:
            raise slice_.fail(status, first)
        return _read_row(slice_, first), first + 1


def _end_of_run(flags: np.ndarray[tuple[int], np.dtype[np.bool_]], row: int) -> int:
    """Return the first row behind ``row`` whose flag differs from that of ``row``."""
    others = np.flatnonzero(flags[row:] != flags[row])
    return row + int(others[0]) if others.size else flags.size


def _read_row(slice_: Slice, row: int) -> Bytes:
    """Decompress one row by the readable codecs, into a buffer of its own. Raises: CorruptBatch."""
    table, plain = slice_.table, bytearray()
    position, size, count = (int(table[name][row]) for name in ("position", "size", "record_count"))
    if count:  # the bytes behind the header of an empty batch are not read, as in Kafka
        try:
            body = slice_.buf[position + HEADER_BYTES : position + size].data
            decompress_onto(plain, slice_.codec_of(row), body, DECOMPRESSED_BYTES_MAX)
        except CorruptCompressedData as error:
            raise CorruptBatch(slice_.path, slice_.position_of(row), str(error)) from error
    if count * RECORD_BYTES_MIN > len(plain):
        raise slice_.fail(Status.BAD_COUNT, row)
    table["records_start"][row], table["records_end"][row] = 0, len(plain)
    return np.frombuffer(plain, np.uint8)
