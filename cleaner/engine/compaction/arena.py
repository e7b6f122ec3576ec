"""Decompressed records of some batches, side by side in one buffer that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cleaner.engine.compaction.sources import Slice
from storage.arrays import Bytes, Table, Words
from storage.codecs.batches import compress_records, decompress_batches, open_codecs
from storage.codecs.compression import Compression, compress, decompress_onto
from storage.codecs.rewrite_batches import rewrite_batches
from storage.errors import CorruptBatch, CorruptCompressedData
from storage.kernels.layout import CODEC_MASK, HEADER_BYTES, NOT_HERE, RECORD_BYTES_MIN
from storage.kernels.status import Status
from storage.records.record import DECOMPRESSED_BYTES_MAX

ARENA_BYTES: Final = 1 << 22
"""Decompressed bytes after which a run of rows is handed to the kernels: few enough for the last cache, and so many
that threads seldom meet between two calls."""


class Arena:
    """Codecs and the buffer they fill; one for each thread. What the fast codecs leave, the readable ones decide."""

    def __init__(self) -> None:
        self._buf = np.empty(ARENA_BYTES, np.uint8)
        self._plain = np.empty(ARENA_BYTES, np.uint8)
        self._codecs = open_codecs()

    def runs(self, slice_: Slice, row: int, last: int, *, verify: bool = False) -> Iterator[tuple[Bytes, int, int]]:
        """Cut rows of a slice into runs whose plain records lie in one buffer.

        Args:
            slice_: legacy ones are one run, whatever the rows.
            row: to begin with.
            last: row to end before.
            verify: check the CRC of v2 batches; of older messages it is checked as they are read.

        Yields:
            ``(buffer, first row, end row)``: the segment itself for uncompressed batches, else the arena; the rows'
            ``records_start`` and ``records_end`` index it until the next run is taken. Messages of v0 and v1 come with
            theirs.

        Raises: CorruptBatch.
        """
        if slice_.keys is not None:
            yield slice_.keys, 0, slice_.table.size
            return
        compressed = (slice_.table["attributes"][:last] & CODEC_MASK) != 0
        while row < last:
            if not compressed[row]:
                first, row = row, _end_of_run(compressed, row)
                if verify:
                    slice_.verify(first, row)
                yield slice_.buf, first, row
                continue
            buf, end = self.fill(slice_, row, _end_of_run(compressed, row), verify=verify)
            yield buf, row, end
            slice_.table["records_start"][row:end] = NOT_HERE
            row = end

    def fill(self, slice_: Slice, first: int, last: int, *, verify: bool = False) -> tuple[Bytes, int]:
        """Decompress rows from ``first`` on, until ``last`` or the arena is full; verified before if they are to be.

        Returns:
            The buffer, valid until the next call, and the row after those in it: one at the least.

        Raises: CorruptBatch.
        """
        status, row, _ = decompress_batches(
            slice_.buf, slice_.table, first, last, self._buf, 0, self._codecs.words, verify
        )
        if row > first:
            return self._buf, row  # a row that stopped it comes first in the next call, and is told on there
        if status == Status.BAD_CRC:
            raise slice_.fail(status, first)
        return _read_row(slice_, first), first + 1

    def rewrite(
        self,
        slice_: Slice,
        row: int,
        last: int,
        keep: tuple[Words, int, int],
        out: tuple[Bytes, int, Table, int],
    ) -> tuple[int, int, int, int]:
        """Write rows as they were decided.

        Args:
            slice_: with the outcomes.
            row: to begin with.
            last: row to end before.
            keep: survivors, now, and horizon of new tombstones, epoch ms.
            out: output and position in it, table of what was written and its rows in use.

        Returns: as ``rewrite_batches``.
        """
        codecs, (output, position, written, rows) = self._codecs, out
        return rewrite_batches(
            slice_.buf, slice_.table, row, last, *keep, self._buf, self._plain,
            output, position, written, rows, codecs.words, codecs.last_seen,
        )  # fmt: skip

    def plain(self, size_bytes: int) -> Bytes:
        """A buffer for the records of one rebuilt batch, valid until the next call; a very large one is not kept."""
        if size_bytes > ARENA_BYTES:
            return np.empty(size_bytes, np.uint8)
        return self._plain[:size_bytes]

    def compress(self, codec: Compression, plain: Bytes, out: Bytes, position: int) -> int:
        """Write the body of a rebuilt batch, at the codec's default level, framed as Kafka frames it.

        Args:
            codec: of the batch.
            plain: its records.
            out: with ``body_bytes_max`` bytes of room.
            position: in ``out``, where to begin.

        Returns:
            The position behind the body.
        """
        status, end = compress_records(
            int(codec), plain, 0, plain.size, out, position, self._codecs.words, self._codecs.last_seen
        )
        if status == Status.OK:
            return int(end)
        body = np.frombuffer(compress(codec, plain.data), np.uint8)
        out[position : position + body.size] = body
        return position + body.size


def _end_of_run(flags: np.ndarray[tuple[int], np.dtype[np.bool_]], row: int) -> int:
    """First row from ``row`` on with another flag than it."""
    others = np.flatnonzero(flags[row:] != flags[row])
    return row + int(others[0]) if others.size else flags.size


def _read_row(slice_: Slice, row: int) -> Bytes:
    """One row by the readable codecs, in a buffer of its own. Raises: CorruptBatch."""
    table, plain = slice_.table, bytearray()
    position, size, count = (int(table[name][row]) for name in ("position", "size", "record_count"))
    if count:  # what lies behind the header of an empty batch is not looked at, as in Kafka
        try:
            body = slice_.buf[position + HEADER_BYTES : position + size].data
            decompress_onto(plain, codec_of(slice_, row), body, DECOMPRESSED_BYTES_MAX)
        except CorruptCompressedData as error:
            raise CorruptBatch(slice_.path, slice_.position_of(row), str(error)) from error
    if count * RECORD_BYTES_MIN > len(plain):
        raise slice_.fail(Status.BAD_COUNT, row)
    table["records_start"][row], table["records_end"][row] = 0, len(plain)
    return np.frombuffer(plain, np.uint8)


def codec_of(slice_: Slice, row: int) -> Compression:
    """Raises: CorruptBatch for one that is not known."""
    code = int(slice_.table["attributes"][row]) & CODEC_MASK
    if code > max(Compression):
        raise CorruptBatch(slice_.path, slice_.position_of(row), f"unknown compression codec {code}")
    return Compression(code)
