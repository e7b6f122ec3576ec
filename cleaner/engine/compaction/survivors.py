"""Pass 1: which records of a round survive, as one bit a record in scan order.

The dirty section's keys go into the offset map; a key's greatest ordinal is its survivor. Records before the dirty
section survive unless their key is in the map. Tombstones, and batches as a whole, are decided later (``rewrite``).

If the distinct keys outgrow the map, the range of key hashes is halved, and further passes map the rest. The bitmap
collects the findings of every pass, and the log is still rewritten once. (Kafka ends the round early instead.)

The calling thread reads the headers, in order; the crew does checksums, codecs and keys.

Source: Kafka Cleaner.buildOffsetMap, Cleaner.shouldRetainRecord.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from cleaner.engine.compaction.crew import Crew
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.filters import Filters
from cleaner.engine.compaction.key_map import KeyMap
from cleaner.engine.compaction.passes import Marked, OpenSpan, Span, Spared, Survivors, Walk
from policies.facts import KeyCount
from storage.arrays import Words
from storage.kernels.bitmap import new_bitmap, set_range
from storage.kernels.status import BatchFate
from storage.scan.arena import Arena, Run
from storage.scan.page_cache import available_bytes
from storage.scan.segments import SegmentReader
from storage.scan.slices import Checksums, Slice

_MEMORY_SHARE: Final = 0.25
"""A share of the available memory. Logs up to this size stay in the page cache from walk to walk."""


@dataclass(slots=True)
class _Surveyed:
    """A span and the first walk over it, which is None until it begins."""

    opened: OpenSpan
    walk: Walk | None = None


@dataclass(frozen=True, slots=True)
class _Mapping:
    """A slice on its way through the crew."""

    reader: SegmentReader
    walk: Walk
    slice_: Slice
    is_first: bool
    """Whether this is the first walk over the slice, which verifies its checksums."""
    is_ordinary: bool
    """Whether all its batches are ordinary: see ``Fates.dispose``."""


@dataclass(eq=False)
class Finder:
    """Finds the survivors of one round."""

    spans: Sequence[OpenSpan]
    """The spans of the round, ascending."""
    first_dirty_offset: int
    """The offset at which the dirty section starts; it may lie within a span."""
    key_map: KeyMap
    """An empty map, with a share for each thread of the crew."""
    new_fates: Callable[[], Fates]
    """Makes the follower of transactions for one walk."""
    crew: Crew
    progress: Callable[[int], None]
    """Called with the bytes of each slice at its first walk."""
    again: Callable[[int], None]
    """Called with the bytes of each slice that is walked again: because some of its keys are mapped and others looked
    up, or because the map does not hold all keys at once.
    """
    filters: Filters | None = None
    """The filters of the clean segments' keys; they share the secret of the map."""
    shares_rows: bool = False
    """Whether messages of v0 and v1 may share a row. They may not if each one becomes a v2 batch."""
    _spared: tuple[Spared, ...] = ()
    _bitmap: Words = field(default_factory=lambda: new_bitmap(0))
    _ordinals: int = 0
    _decided: int = 0
    """The records of the spans so far about which a key decides."""
    _last: SegmentReader | None = None

    def __post_init__(self) -> None:
        """Prepare for a round."""
        self._surveyed = [_Surveyed(opened) for opened in self.spans]
        self._dirty = [one for one in self._surveyed if is_dirty(one.opened.span, self.first_dirty_offset)]
        self._clean = [one for one in self._surveyed if one.opened.span.base_offset < self.first_dirty_offset]

    @cached_property
    def _is_large(self) -> bool:
        return sum(opened.span.size_bytes for opened in self.spans) > available_bytes() * _MEMORY_SHARE

    def find(self) -> Survivors:
        """Verify, number, map and mark every record.

        Raises: CorruptBatch, NotYetSupported, PlanOutOfDate, UnreadableFile.
        """
        self._pass()
        unkeyed, utilisation = self.key_map.unkeyed, self.key_map.utilisation
        while not self.key_map.is_last_range:
            self.key_map.begin_next_range()
            self._pass()
        spared = {one.span.base_offset: one for one in self._spared}
        walked = tuple(one.walk.walked if one.walk else spared[one.opened.span.base_offset] for one in self._surveyed)
        count = KeyCount(self._decided + sum(one.records for one in self._spared), unkeyed)
        return Survivors(self._bitmap, walked, count, self.spans[-1].span.upper_offset, map_utilisation=utilisation)

    def _pass(self) -> None:
        """Map one range of hashes: as many as the map holds."""
        for task, _ in self.crew.in_order(self._map_keys, self._tasks(self._dirty)):
            self._finish(task)
        if self.filters:
            self._ask(self.filters)
        for task, marked in self.crew.in_order(self._mark, self._tasks(self._clean)):
            self._merge(task.slice_, marked)
            if self.filters:
                self.filters.add(task.walk, marked.kept_hashes)
            self._finish(task)
        self._let_go(self._last)
        self._make_room(self._ordinals)
        self.key_map.collect(self._bitmap)

    def _ask(self, filters: Filters) -> None:
        """Note the keys of the dirty section. If the map holds all keys, spare the spans without any of these keys."""
        filters.add_mapped([one.walk for one in self._dirty if one.walk], self.key_map)
        if self.key_map.is_first_range and self.key_map.is_last_range:
            self._spared = filters.spare(
                [one.opened.span for one in self._clean], self.first_dirty_offset, self.key_map
            )
            spared = {one.span.base_offset for one in self._spared}
            self._clean = [one for one in self._clean if one.opened.span.base_offset not in spared]

    def _tasks(self, spans: Sequence[_Surveyed]) -> Iterator[_Mapping]:
        """Yield the slices of some spans, numbered and decided."""
        fates = self.new_fates()
        for one in spans:
            reader, is_first = one.opened.reader, one.walk is None
            walk = one.walk = one.walk or Walk.of(one.opened, self._ordinals)
            for slice_ in reader.slices(
                checksums=Checksums.BY_CALLER if is_first else Checksums.DONE,
                start=walk.start,
                shares_rows=self.shares_rows,
            ):
                is_ordinary = fates.dispose(slice_)
                if is_first:
                    self._ordinals += int(slice_.table["record_count"].sum(dtype=np.int64))
                    self._decided += _decided_in(slice_)
                yield _Mapping(reader, walk, slice_, is_first, is_ordinary)

    def _finish(self, task: _Mapping) -> None:
        if task.is_first:
            task.walk.add(task.slice_, is_ordinary=task.is_ordinary)
            if self.filters:
                quiet_until_ms = self.filters.quiet_until_ms(task.slice_)
                task.walk.quiet_until_ms = min(task.walk.quiet_until_ms, quiet_until_ms)
        if self._last is not task.reader:
            self._let_go(self._last)
            self._last = task.reader
        tell = self.progress if task.is_first else self.again
        tell(task.slice_.size_bytes)

    def _let_go(self, reader: SegmentReader | None) -> None:
        """Release the page cache between walks, if the log is so large that it would push out other files."""
        if reader is not None and reader.absent_bytes and self._is_large:
            reader.let_go()

    def _map_keys(self, task: _Mapping) -> None:
        slice_, below = task.slice_, _rows_below(task.slice_, self.first_dirty_offset)
        with self.crew.hand() as (share, arena):
            for run in _runs(task, slice_.table.size, arena):
                if run.first < below:  # ``_mark`` counts all records of a batch across the first dirty offset
                    clean = run._replace(last=min(run.last, below))
                    self.key_map.add(slice_, clean, self.first_dirty_offset, share, is_counted=False)
                if run.last > below:
                    dirty = run._replace(first=max(run.first, below))
                    self.key_map.add(slice_, dirty, self.first_dirty_offset, share)

    def _mark(self, task: _Mapping) -> Marked:
        """Look up the keys of a slice. The result begins with the bitmap's word in which the slice begins."""
        slice_ = task.slice_
        table, (base, end) = slice_.table, _ordinals_of(slice_)
        below = _rows_below(slice_, self.first_dirty_offset)
        covered = new_bitmap(end - base)
        if below:
            first, last = int(table["first_ordinal"][0]), table[below - 1]
            set_range(covered, first - base, int(last["first_ordinal"] + last["record_count"]) - base)
        records = int(table["record_count"].sum(dtype=np.int64)) if self.filters else 0
        marked, kept, noted = covered.copy(), np.empty(records, np.uint64), 0
        with self.crew.hand() as (share, arena):
            for run in _runs(task, below, arena):
                noted += self.key_map.mark(slice_, run, marked, base, kept[noted:], share)
        return Marked(covered, covered ^ marked, kept[:noted])

    def _merge(self, slice_: Slice, marked: Marked) -> None:
        """Mark the survivors: records below the dirty section unless superseded, then the map's own survivors."""
        first, end = _ordinals_of(slice_)
        self._make_room(end)
        words = self._bitmap[first >> 6 : (first >> 6) + marked.covered.size]
        if self.key_map.is_first_range:
            words |= marked.covered
        words &= ~marked.superseded

    def _make_room(self, ordinals: int) -> None:
        """Grow the bitmap; twofold at least, so that the copies stay few."""
        if self._bitmap.size * 64 < ordinals:
            grown = new_bitmap(max(ordinals, self._bitmap.size * 128))
            grown[: self._bitmap.size] = self._bitmap
            self._bitmap = grown


def is_dirty(span: Span, first_dirty_offset: int) -> bool:
    """Return whether keys of a span are mapped."""
    return span.upper_offset > first_dirty_offset


def _runs(task: _Mapping, last: int, arena: Arena) -> Iterator[Run]:
    """Yield the rows before ``last`` with their plain records.

    Compressed rows are verified first; plain rows are still to be verified.
    """
    slice_ = task.slice_
    if not last:
        return
    if task.is_first and slice_.is_plain:
        yield Run(slice_.buf, 0, last, is_unverified=True)
        return
    for run in arena.runs(slice_, 0, last, verify=task.is_first):
        yield run._replace(last=min(run.last, last))  # legacy rows are one run


def _rows_below(slice_: Slice, offset: int) -> int:
    """Return how many rows begin below an offset; the last of them may end behind it."""
    return int(np.searchsorted(slice_.table["base_offset"], offset))


def _decided_in(slice_: Slice) -> int:
    """Return the number of records about which a key decides: those of data batches that no transaction aborted."""
    records, fates = slice_.table["record_count"], slice_.table["fate"]
    return int(records.sum(dtype=np.int64, where=fates <= BatchFate.RETAIN_EMPTY))


def _ordinals_of(slice_: Slice) -> tuple[int, int]:
    """Return the first ordinal of the bitmap's word in which the slice begins, and the end of its ordinals."""
    first, last = slice_.table[0], slice_.table[-1]
    return int(first["first_ordinal"]) & ~63, int(last["first_ordinal"] + last["record_count"])
