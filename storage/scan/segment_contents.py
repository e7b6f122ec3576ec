"""The facts from one reading of a segment's files: its ends, its history, and its own faults."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from storage.anomalies import Anomaly, CheckedSegment, SeenAnomaly
from storage.errors import CorruptBatch, CorruptIndex
from storage.kernels.layout import LOCATED_FIELDS
from storage.kernels.locate import locate_records
from storage.kernels.status import Status
from storage.log.read import companion_bytes
from storage.names import FileKind
from storage.records.header import OFFSET_MAX
from storage.scan.histories import BatchHistory
from storage.scan.index_checks import NO_INDEX, OffsetIndexCheck, TimeIndexCheck, read_index
from storage.scan.legacy_rows import legacy_batch
from storage.scan.slices import CAUSES, Slice
from storage.scan.walking import Hand, LogFile, LogWalk, Rows
from storage.segment import Segment, reading
from storage.txn_index import TXN_ENTRY_BYTES, AbortedTxn, parse_txn_index

_INDEXES: Final = (FileKind.INDEX, FileKind.TIME_INDEX)
_CONSEQUENCES: Final = (Anomaly.OVERFLOW, Anomaly.BEYOND_NEXT)
_OF_AN_INDEX_ALONE: Final = frozenset(
    {
        *(Anomaly.ENTRY_CUT, Anomaly.ENTRY_ORDER, Anomaly.ENTRIES_ZERO),
        *(Anomaly.TIMES_CUT, Anomaly.TIME_ORDER, Anomaly.TIMES_ZERO),
    }
)
"""Where offsets of the log do not fit one another, entries are not held against them."""
_RECORDS_TOLD_MAX: Final = 100
Spend = Callable[[int], None]


def read_segment_contents(
    segment: Segment, upper_offset: int | None, hand: Hand, spend: Spend, *, is_deep: bool
) -> CheckedSegment:
    """Read all files of a segment. The index files come first: a broker appends to them after the ``.log``.

    Args:
        segment: as listed; the ``.log`` may have grown since.
        upper_offset: base offset of the next segment; None for the last one.
        hand: buffers of this thread.
        spend: told the bytes that were read; it may wait, or raise to end the reading.
        is_deep: read every record, decompressed.

    Raises: UnreadableFile, PlanOutOfDate where a file shrank.
    """
    path, base_offset = segment.log.path, segment.base_offset
    indexes = {kind: read_index(segment.files[kind].path) for kind in _INDEXES if kind in segment.files}
    missing = tuple(kind for kind in _INDEXES if kind not in indexes)
    of_txns = companion_bytes(segment, FileKind.TXN_INDEX)
    with reading(path) as descriptor:
        size_bytes = os.fstat(descriptor).st_size
        log = LogFile(descriptor, path, base_offset, size_bytes, upper_offset, [])
        walk, history = LogWalk(log, hand, spend), BatchHistory(path)
        index = OffsetIndexCheck(indexes.get(FileKind.INDEX, NO_INDEX), base_offset, walk)
        times = TimeIndexCheck(indexes.get(FileKind.TIME_INDEX, NO_INDEX), base_offset, walk)
        log.known_starts.extend(index.positions)
        deep = _RecordsCheck(segment, hand) if is_deep else None
        for rows in walk.rows():
            index.take(rows)
            times.take(rows)
            history.take(rows)
            if deep:
                deep.take(rows)
    index.end(times.count)
    times.end()
    aborted, seen_of_txns = _read_txn_index(of_txns, segment)
    of_indexes = [
        *(index.seen if FileKind.INDEX in indexes else ()),
        *(times.seen if FileKind.TIME_INDEX in indexes else ()),
    ]
    if walk.is_disordered:
        of_indexes = [one for one in of_indexes if one.anomaly in _OF_AN_INDEX_ALONE]
    seen = [*_without_consequences(walk.seen), *(deep.seen if deep else ()), *of_indexes, *seen_of_txns]
    return CheckedSegment(
        base_offset, size_bytes, walk.end_position, walk.next_offset, times.largest_ms, tuple(seen), missing,
        tuple(history.epochs), history.producers, tuple(history.events), aborted, history.gap, history.gaps,
        history.is_full, not walk.is_sound,
    )  # fmt: skip


def _without_consequences(seen: Sequence[SeenAnomaly]) -> list[SeenAnomaly]:
    """Leave out what follows from an offset that does not fit: a batch with it also lies too far from the base."""
    astray = {one.position for one in seen if one.anomaly in (Anomaly.OFFSET_BACK, Anomaly.BELOW_BASE)}
    return [one for one in seen if one.position not in astray or one.anomaly not in _CONSEQUENCES]


def _read_txn_index(data: bytes, segment: Segment) -> tuple[tuple[AbortedTxn, ...], list[SeenAnomaly]]:
    path, seen = segment.log.path.with_suffix(FileKind.TXN_INDEX.value), []
    try:
        entries = parse_txn_index(data, path)
    except CorruptIndex as error:
        entries = parse_txn_index(data[: error.position], path)
        seen.append(SeenAnomaly(Anomaly.TXN_FORMAT, FileKind.TXN_INDEX, error.position, None, error.cause))
    if cut := len(data) % TXN_ENTRY_BYTES:
        text = f"{cut} bytes at its end are no whole entry"
        seen.append(SeenAnomaly(Anomaly.TXN_FORMAT, FileKind.TXN_INDEX, len(data) - cut, None, text))
    return tuple(entries), seen


class _RecordsCheck:
    """Every record of a segment, decompressed where it has to be, and walked over by the kernels."""

    def __init__(self, segment: Segment, hand: Hand) -> None:
        self.seen: list[SeenAnomaly] = []
        self._path, self._hand = segment.log.path, hand
        self._room = np.empty(0, np.int64)

    def take(self, rows: Rows) -> None:
        """Read the records of some batches."""
        if len(self.seen) >= _RECORDS_TOLD_MAX:
            return
        if rows.is_legacy:
            self._take_legacy(rows)
        else:
            self._take_slice(Slice(rows.buf, rows.file_position, rows.table, 0, self._path))

    def _take_legacy(self, rows: Rows) -> None:
        for position in rows.table["position"].tolist():
            batch = legacy_batch(rows.buf, position, self._path, rows.file_position)
            try:
                batch.records()
            except CorruptBatch as error:
                self._tell(error.position, batch.last_offset, error.cause)

    def _take_slice(self, slice_: Slice) -> None:
        table, row = slice_.table, 0
        needed = int(table["record_count"].max()) * LOCATED_FIELDS
        if self._room.size < needed:
            self._room = np.empty(needed, np.int64)  # nothing is written there: no record is as late as is asked for
        while row < table.size:
            try:
                for run in self._hand.arena.runs(slice_, row, table.size):
                    first = run.first
                    while first < run.last:
                        status, bad, _ = locate_records(
                            run.buf, table, first, run.last, OFFSET_MAX, OFFSET_MAX, self._room, 0
                        )
                        if status != Status.OK:
                            where = slice_.position_of(bad), int(table["base_offset"][bad])
                            self._tell(*where, CAUSES.get(Status(status), "the records do not parse"))
                        first = bad + 1
                    row = run.last
            except CorruptBatch as error:
                self._tell(error.position, int(table["base_offset"][row]), error.cause)
                row += 1

    def _tell(self, position: int, offset: int, cause: str) -> None:
        text = f"the records of the batch of offset {offset} cannot be read: {cause}"
        self.seen.append(SeenAnomaly(Anomaly.RECORDS, FileKind.LOG, position, offset, text))
