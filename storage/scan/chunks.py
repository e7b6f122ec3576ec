"""An extent, chunk by chunk: batches verified, decompressed, and their records' fields located.

A damaged batch is a ``Damage`` among the chunks, in its place; reading goes on behind the batch. If not even its length
can be believed, the offset index says where the next batch starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes, Integers, Table
from storage.errors import CorruptBatch
from storage.kernels.layout import CONTROL, LOCATED_FIELDS
from storage.kernels.locate import locate_records
from storage.kernels.status import Status
from storage.records.v2 import ATTRIBUTE_TRANSACTIONAL, OFFSET_MAX
from storage.scan.arena import Arena, Run
from storage.scan.extents import Extent
from storage.scan.partitions import OffsetRange
from storage.scan.segments import SegmentReader
from storage.scan.slices import Damage, Slice
from storage.txn_index import AbortedTxn

ARENA_BYTES: Final = 1 << 20
"""The decompressed bytes of a chunk; a larger batch gets a buffer of its own."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The records of some batches, valid until the next chunk is taken."""

    buf: Bytes
    """The buffer that the located fields index."""
    table: Table
    """``layout.BATCH``; the ``ROW`` of a record indexes it."""
    located: Integers
    """``layout.LOCATED_FIELDS`` by records."""
    file_position: int
    """The position in the file from which a row's ``position`` counts."""

    @property
    def end_position(self) -> int:
        """The byte of the file behind the last batch."""
        last = self.table[-1]
        return self.file_position + int(last["position"] + last["size"])


class _Selection(NamedTuple):
    """The records to select; see ``Extent``."""

    offsets: OffsetRange
    since_ms: int | None
    aborted: tuple[AbortedTxn, ...]


def chunks(reader: SegmentReader, extent: Extent, *, with_control: bool) -> Iterator[Chunk | Damage]:
    """Read the records of an extent in their order.

    Args:
        reader: from ``open_extent``.
        extent: the batches to read. with_control: whether control batches are read, too.

    Raises: UnreadableFile.
    """
    selection = _Selection(extent.offsets, extent.since_ms, extent.aborted)
    return _Locator(selection, with_control=with_control).chunks(reader)


def every_chunk(reader: SegmentReader) -> Iterator[Chunk | Damage]:
    """Read the data records of a file in their order: all of them, also records of aborted transactions.

    Args:
        reader: from ``open_whole``.

    Raises: UnreadableFile.
    """
    return _Locator(_Selection(OffsetRange(0, OFFSET_MAX), None, ()), with_control=False).chunks(reader)


class _Locator:
    """Buffers of one reading."""

    def __init__(self, selection: _Selection, *, with_control: bool) -> None:
        self._selection, self._with_control = selection, with_control
        self._arena = Arena(ARENA_BYTES)
        self._located = np.empty((LOCATED_FIELDS, 0), np.int64)

    def chunks(self, reader: SegmentReader) -> Iterator[Chunk | Damage]:
        for found in reader.slices_and_damage():
            if isinstance(found, Damage):
                yield found
            elif found.keys is None:
                yield from self._read(found.rows(found.table[self._is_wanted(found.table)]))
            elif found.located is not None and found.located.shape[1]:
                yield Chunk(found.keys, found.table, found.located, found.file_position)

    def _read(self, slice_: Slice) -> Iterator[Chunk | Damage]:
        row, last = 0, slice_.table.size
        while row < last:
            try:
                for run in self._arena.runs(slice_, row, last):
                    yield from self._locate(slice_, run)
                    row = run.last
            except CorruptBatch as error:
                yield Damage(error, int(slice_.table["base_offset"][row]))
                row += 1

    def _locate(self, slice_: Slice, run: Run) -> Iterator[Chunk | Damage]:
        offsets, table, row = self._selection.offsets, slice_.table[run.first : run.last], 0
        records_max = int(table["record_count"].sum(dtype=np.int64))
        if self._located.shape[1] < records_max:
            self._located = np.empty((LOCATED_FIELDS, records_max), np.int64)
        while row < table.size:
            status, bad, records = locate_records(
                run.buf, table, row, table.size, offsets.start, offsets.end, self._located.reshape(-1), 0
            )
            if records:
                yield Chunk(run.buf, table, self._located[:, :records], slice_.file_position)
            if status != Status.OK:
                yield slice_.damage(status, run.first + bad)
            row = bad + 1

    def _is_wanted(self, table: Table) -> npt.NDArray[np.bool_]:
        """Tell by the headers alone which batches are to be read; the others are not decompressed."""
        selection = self._selection
        wanted: npt.NDArray[np.bool_] = table["record_count"] > 0
        wanted &= (table["last_offset"] >= selection.offsets.start) & (table["base_offset"] < selection.offsets.end)
        if selection.since_ms is not None:
            wanted &= table["max_timestamp"] >= selection.since_ms
        if not self._with_control:
            wanted &= (table["attributes"] & CONTROL) == 0
        return wanted & ~aborted_rows(table, selection.aborted)


def aborted_rows(table: Table, aborted: Iterable[AbortedTxn]) -> npt.NDArray[np.bool_]:
    """Return which batches belong to one of some aborted transactions."""
    found = np.zeros(table.size, np.bool_)
    for txn in aborted:
        is_within = (table["base_offset"] >= txn.first_offset) & (table["last_offset"] < txn.last_offset)
        is_of_it = (table["producer_id"] == txn.producer_id) & (table["attributes"] & ATTRIBUTE_TRANSACTIONAL != 0)
        found |= is_within & is_of_it
    return found
