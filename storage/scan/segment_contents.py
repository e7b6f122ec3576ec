"""The facts from one reading of a segment's files: ends, history and faults.

The history is the leader epochs, producers and transactions of the batches, in few values. In a log of idempotent
producers each batch names one, so Python works batch by batch only where a transaction or an epoch begins or ends.

The index files of a segment are compared with the batches of its ``.log`` during the walk. Kafka's own entries differ
by version, and all of them lead readers right: the offset of an entry may be the first or the last one of its batch, or
the last one of several batches that were appended together. So an entry of an offset index is wrong where a reader that
trusts it misses a record, or where its offset is that of no batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.anomalies import (
    ABORT,
    COMMIT,
    DATA,
    Anomaly,
    CheckedSegment,
    EpochRun,
    Gap,
    LastBatch,
    SeenAnomaly,
    TxnEvent,
)
from storage.arrays import Bytes, Integers, Table
from storage.directory import pread, read_ahead, size_of
from storage.errors import CorruptBatch, CorruptIndex, as_unreadable
from storage.holes import data_extents
from storage.kernels.layout import CONTROL, DELETE_HORIZON, HEADER_BYTES, LOCATED_FIELDS
from storage.kernels.locate import locate_records
from storage.kernels.status import Status
from storage.log.read import companion_bytes
from storage.names import FileKind
from storage.records.v2 import ATTRIBUTE_TRANSACTIONAL, NO_PRODUCER_ID, OFFSET_MAX, sequence_after
from storage.scan.legacy_rows import legacy_batch
from storage.scan.slices import CAUSES, Slice
from storage.scan.walking import Hand, LogFile, LogWalk, Rows
from storage.segment import Segment, reading
from storage.txn_index import TXN_ENTRY_BYTES, AbortedTxn, parse_txn_index

_MARKER: Final = struct.Struct(">bbbbbhhbhi")
"""A marker as Kafka writes it: length, attributes, timestamp delta, offset delta, key length (4), version, type, value
length (6), version, coordinator epoch."""
_KEY_LENGTH: Final = 8  # zigzag of 4
_VALUE_LENGTH: Final = 12  # zigzag of 6


def empty_batches_in(table: Table) -> tuple[int, int]:
    """Return how many batches of v2 hold no record, and are no markers, and their bytes."""
    if table["record_count"].all():
        return 0, 0
    empty = are_empty(table)
    return int(empty.sum()), int(table["size"][empty].sum())


def are_empty(table: Table) -> npt.NDArray[np.bool_]:
    """Return of each batch of v2 whether it holds no record, and is no marker."""
    empty: npt.NDArray[np.bool_] = (table["record_count"] == 0) & (table["attributes"] & CONTROL == 0)
    return empty


class BatchHistory:
    """The history that the batches of one segment tell, taken in their order."""

    def __init__(self, path: Path) -> None:
        """Begin without a batch."""
        self.epochs: list[EpochRun] = []
        self.producers: dict[int, LastBatch] = {}
        self.steps = TxnSteps(path)
        self.gap: Gap | None = None
        """The first gap."""
        self.gaps = 0
        self.is_full = True
        """Whether every batch still has a record for each of its offsets, as far as headers tell."""
        self.batches = self.empty_batches = self.empty_bytes = 0

    def take(self, rows: Rows) -> None:
        """Take the next batches."""
        table = rows.table
        self._note_gaps(rows)
        if rows.is_legacy:
            return
        self.batches += table.size
        empty = empty_batches_in(table)
        self.empty_batches, self.empty_bytes = self.empty_batches + empty[0], self.empty_bytes + empty[1]
        self._note_epochs(rows)
        if int(table["producer_id"].max()) > NO_PRODUCER_ID:
            attributes = table["attributes"]
            self._note_producers(table[(table["producer_id"] >= 0) & (attributes & CONTROL == 0)])
            self.steps.take(rows.buf, table, rows.file_position)

    def _note_gaps(self, rows: Rows) -> None:
        table = rows.table
        bases, lasts = table["base_offset"], table["last_offset"]
        lower = np.concatenate(([rows.first_offset], lasts[:-1] + 1))
        gaps = np.flatnonzero(bases != lower)
        if gaps.size:
            self.gaps += gaps.size
            if self.gap is None:
                row = int(gaps[0])
                position = rows.file_position + int(table["position"][row])
                self.gap = Gap(int(lower[row]), int(bases[row]), position)
        if not rows.is_legacy and self.is_full:
            is_full = table["record_count"] == lasts - bases + 1
            self.is_full = bool(is_full.all()) and not bool((table["attributes"] & DELETE_HORIZON).any())

    def _note_epochs(self, rows: Rows) -> None:
        epochs, bases = rows.table["leader_epoch"], rows.table["base_offset"]
        edges = [0, *(np.flatnonzero(epochs[1:] != epochs[:-1]) + 1).tolist(), epochs.size]
        for first, behind in pairwise(edges):
            epoch, last_offset = int(epochs[first]), int(bases[behind - 1])
            if self.epochs and self.epochs[-1].epoch == epoch:
                self.epochs[-1] = self.epochs[-1]._replace(last_offset=last_offset)
            else:
                position = rows.file_position + int(rows.table["position"][first])
                self.epochs.append(EpochRun(epoch, int(bases[first]), last_offset, position))

    def _note_producers(self, data: Table) -> None:
        if not data.size:
            return
        ids = data["producer_id"]
        if ids[0] == ids[-1] and (ids == ids[0]).all():
            newest = [data.size - 1]
        else:
            newest = (data.size - 1 - np.unique(ids[::-1], return_index=True)[1]).tolist()
        for row in newest:
            batch = data[row]
            delta = int(batch["last_offset"] - batch["base_offset"])
            sequence = sequence_after(int(batch["base_sequence"]), delta)
            self.producers[int(batch["producer_id"])] = LastBatch(
                int(batch["producer_epoch"]), sequence, int(batch["last_offset"]), delta
            )


class TxnSteps:
    """The steps of transactions that the batches of one segment tell, taken in their order."""

    def __init__(self, path: Path) -> None:
        """Begin without a batch and without an open transaction."""
        self.events: list[TxnEvent] = []
        self._path = path
        self._open: dict[int, bool] = {}
        """Producers with a transaction open, and whether a record of it was met."""

    def take(self, buf: Bytes, found: Table, file_position: int) -> None:
        """Note where transactions begin and end. Neighbouring batches of one transaction are one step.

        Args:
            buf: the window that holds the batches.
            found: ``layout.BATCH``, of v2.
            file_position: the position of ``buf[0]`` in the file.
        """
        steps = np.flatnonzero((found["attributes"] & ATTRIBUTE_TRANSACTIONAL != 0) & (found["producer_id"] >= 0))
        if not steps.size:
            return
        table = found[steps]
        ids, is_control, has_records = (
            table["producer_id"],
            table["attributes"] & CONTROL != 0,
            table["record_count"] > 0,
        )
        is_new = np.ones(steps.size, np.bool_)
        is_new[1:] = is_control[1:] | is_control[:-1] | (ids[1:] != ids[:-1]) | (has_records[1:] & ~has_records[:-1])
        for at in np.flatnonzero(is_new).tolist():
            batch, producer_id = table[at], int(ids[at])
            position = file_position + int(batch["position"])
            if is_control[at]:
                if (what := self._marker(Slice(buf, file_position, found, 0, self._path), int(steps[at]))) is not None:
                    self._open.pop(producer_id, None)
                    self.events.append(TxnEvent(int(batch["base_offset"]), producer_id, what, False, position))
            elif self._open.get(producer_id, -1) < bool(has_records[at]):
                self._open[producer_id] = bool(has_records[at])
                self.events.append(
                    TxnEvent(int(batch["base_offset"]), producer_id, DATA, bool(has_records[at]), position)
                )

    def _marker(self, found: Slice, row: int) -> int | None:
        """Return the transaction marker in a control batch; None for an empty batch, and for another kind of control
        record.
        """
        batch = found.table[row]
        if batch["record_count"] != 1:
            return None
        start = int(batch["position"]) + HEADER_BYTES
        if batch["size"] >= HEADER_BYTES + _MARKER.size:
            _, _, delta, _, key_length, version, kind, value_length, _, _ = _MARKER.unpack_from(found.buf.data, start)
            if delta == 0 and key_length == _KEY_LENGTH and version == 0 and value_length == _VALUE_LENGTH:
                return {0: ABORT, 1: COMMIT}.get(kind)
        try:
            marker = found.v2_batch(row).txn_marker()
        except CorruptBatch:
            return None
        return None if marker is None else (ABORT if marker.is_abort else COMMIT)


_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_SMALL_BYTES: Final = 1 << 16
"""An index file of at most so many bytes is read as a whole."""
_TOLD_MAX: Final = 10
"""The most wrong entries to report of one index: a repair makes the whole index anew."""
_SPARSE_BYTES: Final = 1 << 20
"""The bytes without an entry that no usual setting explains: Kafka indexes every 4 KiB by default."""

_TIMES_ALONE_MAX: Final = 2
"""The time entries without an offset entry beside them: a broker writes one when the segment is closed, and a
truncation, which goes by offsets, may leave one more. Source: Kafka LogSegment.append, onBecomeInactiveSegment,
TimeIndex.truncateTo.
"""


class IndexBytes(NamedTuple):
    """An index file: its bytes up to the last one that is not in a hole, and its size."""

    data: bytes
    size_bytes: int


NO_INDEX: Final = IndexBytes(b"", 0)


def read_index(path: Path) -> IndexBytes:
    """Read an index file. The index of an active segment is preallocated, and nearly all of it may be a hole.

    Raises: UnreadableFile.
    """
    with reading(path) as descriptor, as_unreadable(path):
        size_bytes = size_of(descriptor)
        end = size_bytes
        if size_bytes > _SMALL_BYTES:
            end = max((end for _, end in data_extents(descriptor, size_bytes)), default=0)
        return IndexBytes(pread(descriptor, end, 0), size_bytes)


class _Check:
    """The common part of both checks."""

    kind: FileKind

    def __init__(self, walk: LogWalk) -> None:
        self.seen: list[SeenAnomaly] = []
        self._walk = walk

    def _tell(self, anomaly: Anomaly, position: int, offset: int | None, text: str) -> None:
        if len(self.seen) < _TOLD_MAX:
            self.seen.append(SeenAnomaly(anomaly, self.kind, position, offset, text))

    def _is_damaged(self, position: int) -> bool:
        """Tell whether a byte of the log lies in a range that holds no sound batch."""
        return any(start <= position < end for start, end in self._walk.damaged)


class OffsetIndexCheck(_Check):
    """An ``.index``."""

    kind = FileKind.INDEX

    def __init__(self, file: IndexBytes, base_offset: int, walk: LogWalk) -> None:
        """Take the bytes of the file, and note the faults that the bytes alone show."""
        super().__init__(walk)
        data, size = file.data, _OFFSET_ENTRY.itemsize
        if cut := file.size_bytes % size:
            self._tell(Anomaly.ENTRY_CUT, file.size_bytes - cut, None, f"{cut} bytes at its end are no whole entry")
        entries = np.frombuffer(data, _OFFSET_ENTRY, len(data) // size)
        count = _without_zeros(entries["offset"], entries["position"])
        if zeros := file.size_bytes // size - count:
            text = f"{zeros * size:,} zero bytes follow its entries"
            self._tell(Anomaly.ENTRIES_ZERO, count * size, None, text)
        offsets = entries["offset"][:count].astype(np.int64)
        positions = entries["position"][:count].astype(np.int64)
        rising = _rising(offsets, -1, strictly=True) & _rising(positions, -1, strictly=True)
        sound = count if rising.all() else int(np.argmin(rising))
        if sound < count:
            text = f"the entry of offset {base_offset + int(offsets[sound])} at byte {positions[sound]} does not rise"
            self._tell(Anomaly.ENTRY_ORDER, sound * size, base_offset + int(offsets[sound]), text)
        self._offsets, self._positions = offsets[:sound] + base_offset, positions[:sound]
        self._place = 0
        self._pending: list[int] = []
        """Entries whose offset lies behind their batch."""
        self._covered_to = 0
        """The byte behind the last batch that has an entry; else behind the first batch."""
        self._last_start = 0

    @property
    def positions(self) -> Sequence[int]:
        """The positions in the log that the entries name, as far as they rise."""
        positions: list[int] = self._positions.tolist()
        return positions

    def take(self, rows: Rows) -> None:
        """Compare the entries of a stretch of the log with its batches."""
        starts, lasts = rows.table["position"] + rows.file_position, rows.table["last_offset"]
        behind = int(starts[-1] + rows.table["size"][-1])
        self._last_start = int(starts[-1])
        self._covered_to = self._covered_to or int(starts[0] + rows.table["size"][0])
        upper = int(np.searchsorted(self._positions, behind))
        here = slice(self._place, upper)
        if upper > self._place:
            places = np.minimum(np.searchsorted(starts, self._positions[here]), starts.size - 1)
            leads, exact = starts[places] == self._positions[here], lasts[places] == self._offsets[here]
            if not (leads & exact).all():
                for at in np.flatnonzero(~(leads & exact)).tolist():
                    self._look(self._place + at, rows, int(places[at]), leads=bool(leads[at]))
            last = int(places[-1])
            self._covered_to = max(self._covered_to, int(starts[last] + rows.table["size"][last]))
            self._place = upper
        if self._pending:
            self._settle(starts, lasts)

    def end(self, time_entries: int) -> None:
        """Judge the entries that no batch confirmed, after the walk. ``time_entries``: those of the time index."""
        entry_bytes, end = _OFFSET_ENTRY.itemsize, self._walk.end_position
        for entry in range(self._place, self._positions.size):
            position, offset = int(self._positions[entry]), int(self._offsets[entry])
            if not self._is_damaged(position):
                text = f"the entry of offset {offset} leads to byte {position}, and the log ends at byte {end}"
                self._tell(Anomaly.ENTRY_BEYOND, entry * entry_bytes, offset, text)
        if self._walk.is_sound:
            for entry in self._pending:
                self._tell_offset(entry)
            if not self._positions.size and time_entries > _TIMES_ALONE_MAX:
                text = f"it has no entry, though a broker wrote {time_entries:,} time entries beside its own"
                self._tell(Anomaly.ENTRIES_FEW, 0, None, text)
            elif self._last_start - self._covered_to > _SPARSE_BYTES:
                text = f"no entry for the last {self._last_start - self._covered_to:,} bytes of the log"
                self._tell(Anomaly.ENTRIES_FEW, self._positions.size * entry_bytes, None, text)

    def _look(self, entry: int, rows: Rows, place: int, *, leads: bool) -> None:
        offset, position = int(self._offsets[entry]), int(self._positions[entry])
        if not leads:
            if not self._is_damaged(position):
                text = f"the entry of offset {offset} leads to byte {position}, where no batch begins"
                self._tell(Anomaly.ENTRY_ASTRAY, entry * _OFFSET_ENTRY.itemsize, offset, text)
            return
        batch = rows.table[place]
        if offset > batch["last_offset"]:
            self._pending.append(entry)
            return
        lower = rows.table["last_offset"][place - 1] + 1 if place else rows.first_offset
        if offset < lower:
            base_offset = batch["base_offset"]
            text = f"the entry of offset {offset} leads to the batch of offset {base_offset}, which lies behind it"
            self._tell(Anomaly.ENTRY_SKIPS, entry * _OFFSET_ENTRY.itemsize, offset, text)

    def _settle(self, starts: Integers, lasts: Integers) -> None:
        """Find the batches that end at the offsets of pending entries: they were appended together with the batches of
        the entries.
        """
        left = []
        for entry in self._pending:
            offset = int(self._offsets[entry])
            place = int(np.searchsorted(lasts, offset))
            if place == lasts.size:
                left.append(entry)
                continue
            next_position = self._positions[entry + 1] if entry + 1 < self._positions.size else self._walk.end_position
            if lasts[place] != offset or starts[place] >= next_position:
                self._tell_offset(entry)
        self._pending = left

    def _tell_offset(self, entry: int) -> None:
        offset, position = int(self._offsets[entry]), int(self._positions[entry])
        text = f"the entry of offset {offset} leads to byte {position}, where another batch begins"
        self._tell(Anomaly.ENTRY_OFFSET, entry * _OFFSET_ENTRY.itemsize, offset, text)


class TimeIndexCheck(_Check):
    """A ``.timeindex``."""

    kind = FileKind.TIME_INDEX

    def __init__(self, file: IndexBytes, base_offset: int, walk: LogWalk) -> None:
        """Take the bytes of the file, and note the faults that the bytes alone show."""
        super().__init__(walk)
        data, size = file.data, _TIME_ENTRY.itemsize
        if cut := file.size_bytes % size:
            self._tell(Anomaly.TIMES_CUT, file.size_bytes - cut, None, f"{cut} bytes at its end are no whole entry")
        entries = np.frombuffer(data, _TIME_ENTRY, len(data) // size)
        count = _without_zeros(entries["timestamp"], entries["offset"])
        if file.size_bytes == size:
            count = 1  # the largest timestamp of a segment may be 0; the end of the walk shows it
        if zeros := file.size_bytes // size - count:
            text = f"{zeros * size:,} zero bytes follow its entries"
            self._tell(Anomaly.TIMES_ZERO, count * size, None, text)
        timestamps, offsets = (entries[name][:count].astype(np.int64) for name in ("timestamp", "offset"))
        rising = _rising(timestamps, -1, strictly=True) & _rising(offsets, 0, strictly=False)
        sound = count if rising.all() else int(np.argmin(rising))
        if sound < count:
            offset = base_offset + int(offsets[sound])
            text = f"the entry of timestamp {timestamps[sound]} at offset {offset} does not rise"
            self._tell(Anomaly.TIME_ORDER, sound * size, offset, text)
        self._timestamps, self._offsets = timestamps[:sound], offsets[:sound] + base_offset
        self._is_cut_short = sound < count
        self._place = 0
        self.largest_ms = -1
        """The largest timestamp of the batches that were met; -1 for none."""

    @property
    def count(self) -> int:
        """The number of entries, as far as they rise."""
        return int(self._offsets.size)

    def take(self, rows: Rows) -> None:
        """Compare the entries of a stretch of the log with its batches."""
        largest = rows.table["max_timestamp"]
        lasts = rows.table["last_offset"]
        upper = int(np.searchsorted(self._offsets, lasts[-1], side="right"))
        if upper > self._place and self._walk.is_sound:
            here = slice(self._place, upper)
            up_to = np.maximum.accumulate(largest)
            places = np.searchsorted(lasts, self._offsets[here])
            places -= rows.table["base_offset"][places] > self._offsets[here]
            found = np.maximum(np.where(places < 0, -1, up_to[places]), self.largest_ms)
            wrong = found != self._timestamps[here]
            if wrong.any():
                for at in np.flatnonzero(wrong).tolist():
                    place = int(places[at])
                    before = max(self.largest_ms, int(up_to[place - 1]) if place > 0 else -1)
                    self._tell_wrong(self._place + at, before, int(found[at]))
        self._place = max(self._place, upper)
        self.largest_ms = max(self.largest_ms, int(largest.max()))

    def end(self) -> None:
        """Compare the last entry with the largest timestamp, once the walk is over."""
        if not self._walk.is_sound:
            return
        size, next_offset = _TIME_ENTRY.itemsize, self._walk.next_offset
        for entry in range(self._place, self._offsets.size):
            offset = int(self._offsets[entry])
            text = f"an entry names offset {offset}, and the log ends at offset {next_offset}"
            self._tell(Anomaly.TIME_BEYOND, entry * size, offset, text)
        last = int(self._timestamps[-1]) if self._timestamps.size else -1
        if last < self.largest_ms and not self._is_cut_short:
            has = f"its last entry has timestamp {last}" if last >= 0 else "it has no entry"
            text = f"{has}, and the largest timestamp of the segment is {self.largest_ms}"
            self._tell(Anomaly.TIME_END, max(self._timestamps.size - 1, 0) * size, None, text)

    def _tell_wrong(self, entry: int, before_ms: int, found_ms: int) -> None:
        timestamp, offset = int(self._timestamps[entry]), int(self._offsets[entry])
        at = entry * _TIME_ENTRY.itemsize
        if before_ms > timestamp:
            text = f"the entry of timestamp {timestamp} names offset {offset}, and a record before that has {before_ms}"
            self._tell(Anomaly.TIME_SKIPS, at, offset, text)
        else:
            text = f"the entry of timestamp {timestamp} names offset {offset}, up to which the largest is {found_ms}"
            self._tell(Anomaly.TIME_UNKNOWN, at, offset, text)


def _without_zeros(*fields: np.ndarray) -> int:
    """Return the number of entries before those at the end whose fields are all zero."""
    used = np.zeros(fields[0].size, np.bool_)
    for field in fields:
        used |= field != 0
    places = np.flatnonzero(used)
    return int(places[-1]) + 1 if places.size else 0


def _rising(values: Integers, lower: int, *, strictly: bool) -> np.ndarray:
    """Tell for each value whether it is above the value before it; for the first value, whether it is above
    ``lower``.
    """
    before = np.concatenate(([lower], values[:-1])) if values.size else values
    return values > before if strictly else values >= before


_INDEXES: Final = (FileKind.INDEX, FileKind.TIME_INDEX)
_CONSEQUENCES: Final = (Anomaly.OVERFLOW, Anomaly.BEYOND_NEXT)
_OF_AN_INDEX_ALONE: Final = frozenset(
    {
        *(Anomaly.ENTRY_CUT, Anomaly.ENTRY_ORDER, Anomaly.ENTRIES_ZERO),
        *(Anomaly.TIMES_CUT, Anomaly.TIME_ORDER, Anomaly.TIMES_ZERO),
    }
)
"""Where offsets of the log do not fit one another, entries are not compared with them."""
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
        spend: is called with the number of bytes read; it may wait, or raise to end the reading.
        is_deep: read every record, decompressed.

    Raises: UnreadableFile, PlanOutOfDate where a file shrank.
    """
    path, base_offset = segment.log.path, segment.base_offset
    indexes = {kind: read_index(segment.files[kind].path) for kind in _INDEXES if kind in segment.files}
    missing = tuple(kind for kind in _INDEXES if kind not in indexes)
    of_txns = companion_bytes(segment, FileKind.TXN_INDEX)
    with reading(path) as descriptor:
        size_bytes = size_of(descriptor)
        read_ahead(descriptor, 0, size_bytes)
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
        tuple(history.epochs), history.producers, tuple(history.steps.events), aborted, history.gap, history.gaps,
        history.is_full, not walk.is_sound, history.batches, history.empty_batches, history.empty_bytes,
    )  # fmt: skip


def _without_consequences(seen: Sequence[SeenAnomaly]) -> list[SeenAnomaly]:
    """Leave out the consequences of an offset that does not fit: its batch also lies too far from the base."""
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
    """The check of every record of a segment: decompressed if need be, and walked over by the kernels."""

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
            self._room = np.empty(needed, np.int64)  # nothing is written there: no record is as late as the given time
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
