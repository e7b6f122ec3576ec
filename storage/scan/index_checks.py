"""The index files of a segment, held against the batches of its ``.log`` while a walk meets them.

Kafka's own entries look different by version, and all of these lead readers right: the offset of an entry may be the
first or the last one of its batch, or the last one of several batches that were appended together. So an entry of an
offset index is wrong where a reader that trusts it misses a record, or where its offset is that of no batch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from storage.anomalies import Anomaly, SeenAnomaly
from storage.arrays import Integers
from storage.errors import as_unreadable
from storage.holes import data_extents
from storage.names import FileKind
from storage.scan.walking import LogWalk, Rows
from storage.segment import reading

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_SMALL_BYTES: Final = 1 << 16
"""An index file of so few bytes is read as a whole."""
_TOLD_MAX: Final = 10
"""Wrong entries told of one index: it is built anew as a whole."""
_SPARSE_BYTES: Final = 1 << 20
"""Kafka indexes every 4 KiB by default; so many bytes without an entry are no usual setting."""

_TIMES_ALONE_MAX: Final = 2
"""A broker writes a time entry beside an offset entry, but for one when the segment is closed. A truncation, which goes
by offsets, may leave one more. Source: Kafka LogSegment.append, onBecomeInactiveSegment, TimeIndex.truncateTo."""


class IndexBytes(NamedTuple):
    """An index file: its bytes up to the last one that is not in a hole, and its size."""

    data: bytes
    size_bytes: int


NO_INDEX: Final = IndexBytes(b"", 0)


def read_index(path: Path) -> IndexBytes:
    """Read an index file. That of an active segment is preallocated, so that nearly all of it may be a hole.

    Raises: UnreadableFile.
    """
    with reading(path) as descriptor, as_unreadable(path):
        size_bytes = os.fstat(descriptor).st_size
        end = size_bytes
        if size_bytes > _SMALL_BYTES:
            end = max((end for _, end in data_extents(descriptor, size_bytes)), default=0)
        return IndexBytes(os.pread(descriptor, end, 0), size_bytes)


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
        """Take the bytes of the file; what is wrong with them alone is seen at once."""
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
        """Hold the entries of a stretch of the log against its batches."""
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
        """Find the batches that end at the offsets of pending entries: they were appended together with theirs."""
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
        """Take the bytes of the file; what is wrong with them alone is seen at once."""
        super().__init__(walk)
        data, size = file.data, _TIME_ENTRY.itemsize
        if cut := file.size_bytes % size:
            self._tell(Anomaly.TIMES_CUT, file.size_bytes - cut, None, f"{cut} bytes at its end are no whole entry")
        entries = np.frombuffer(data, _TIME_ENTRY, len(data) // size)
        count = _without_zeros(entries["timestamp"], entries["offset"])
        if file.size_bytes == size:
            count = 1  # the largest timestamp of a segment may be 0; the end of the walk tells
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
        """Hold the entries of a stretch of the log against its batches."""
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
    """Tell for each value whether it is above the value before it; for the first, whether it is above ``lower``."""
    before = np.concatenate(([lower], values[:-1])) if values.size else values
    return values > before if strictly else values >= before
