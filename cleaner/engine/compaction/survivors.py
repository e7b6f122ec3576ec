"""Pass 1: which records of a round survive, as one bit a record in scan order.

The dirty section's keys go into the offset map; a key's greatest ordinal is its survivor. Records before the dirty
section survive unless their key is in the map. Tombstones, and batches as a whole, are decided later (``rewrite``).

Where the distinct keys outgrow the map, the range of key hashes is halved and the rest mapped in further passes: the
bitmap collects what every pass finds, and the log is still rewritten once. (Kafka ends the round early instead.)

Source: Kafka Cleaner.buildOffsetMap, Cleaner.shouldRetainRecord.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cleaner.engine.compaction.arena import Arena
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.sources import Slice, Source
from storage.kernels.bitmap import new_bitmap, set_range
from storage.kernels.offset_map import (
    KEYLESS,
    SLOT_BYTES,
    USED,
    collect_survivors,
    map_records,
    mark_superseded,
    new_map,
    shrink_range,
)
from storage.kernels.signatures import Bytes, Words
from storage.kernels.status import Status

_HASH_MAX: Final = (1 << 64) - 1
_OFFSET_END: Final = (1 << 63) - 1
_LOG2_SLOTS_MIN: Final = 10
_BYTES_A_RECORD: Final = 16
"""Of log, at the least, when a map is sized: compressed records may take less, and the map then fills in more
passes."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Memory for the offset map."""

    map_bytes: int
    """``log.cleaner.dedupe.buffer.size``."""
    load_factor: float
    """``log.cleaner.io.buffer.load.factor``."""


@dataclass(frozen=True, slots=True)
class Survivors:
    """The outcome of pass 1."""

    bitmap: Words
    records: int
    unkeyed: int
    """Records without a key in data batches; a compacted log cannot keep them."""
    end_offset: int
    """First offset that the next round looks at."""
    tombstones_are_decided: bool = False
    """The bits of expired tombstones are clear, and no other tombstone may go."""


class Finder:
    """Finds the survivors of one round."""

    def __init__(
        self,
        sources: Sequence[Source],
        first_dirty_offset: int,
        budget: Budget,
        new_fates: Callable[[], Fates],
        arena: Arena,
        progress: Callable[[int], None],
    ) -> None:
        """Prepare a map for the dirty section.

        Args:
            sources: of the round, ascending.
            first_dirty_offset: where the dirty section starts; it may lie within a source.
            budget: for the map.
            new_fates: makes the follower of transactions for one walk.
            arena: for compressed batches.
            progress: told the bytes of every slice walked.
        """
        self._dirty = [source for source in sources if source.upper_offset > first_dirty_offset]
        self._clean = [source for source in sources if source.segment.base_offset < first_dirty_offset]
        self._first_dirty = first_dirty_offset
        self._end_offset = sources[-1].upper_offset
        self._new_fates = new_fates
        self._arena = arena
        self._progress = progress
        dirty_bytes = sum(source.segment.size_bytes for source in self._dirty)
        self._words, self._counters = new_map(_log2_slots(dirty_bytes, budget), budget.load_factor)
        self._secret = np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64))
        self._range = (0, _HASH_MAX)
        self._bitmap = new_bitmap(0)
        self._ordinals = 0

    def find(self) -> Survivors:
        """Verify, number, map and mark every record.

        Raises: CorruptBatch, NotYetSupported, PlanOutOfDate, UnreadableFile.
        """
        unkeyed = self._pass(0)
        while self._range[1] < _HASH_MAX:
            self._words[:], self._counters[USED] = 0, 0
            self._pass(self._range[1] + 1)
        return Survivors(self._bitmap, self._ordinals, unkeyed, self._end_offset)

    def _pass(self, hash_min: int) -> int:
        """Do the hashes from ``hash_min`` on, as many as the map holds; gives the count of unkeyed records."""
        self._range, self._counters[KEYLESS] = (hash_min, _HASH_MAX), 0
        fates = self._new_fates()
        for source in self._dirty:
            self._walk(source, fates, self._map_run)
        fates = self._new_fates()
        for source in self._clean:
            self._walk(source, fates, self._mark_run)
        self._make_room()
        collect_survivors(self._words, self._bitmap)
        return int(self._counters[KEYLESS])

    def _walk(self, source: Source, fates: Fates, visit: Callable[[Slice, Bytes, int, int], None]) -> None:
        is_first = source.first_ordinal < 0
        if is_first:
            source.first_ordinal = self._ordinals
        for slice_ in source.slices(verify=is_first):
            fates.dispose(slice_)
            if is_first:
                self._ordinals += int(slice_.table["record_count"].sum(dtype=np.int64))
            for buf, first, last in self._arena.runs(slice_):
                visit(slice_, buf, first, last)
            if is_first:
                source.tombstones.append(slice_.table["tombstones"].copy())
            self._progress(slice_.size_bytes)

    def _map_run(self, slice_: Slice, buf: Bytes, first: int, last: int) -> None:
        row = first
        while row < last:
            hash_min, hash_max = self._range
            status, row = map_records(
                buf, slice_.table, row, last, self._words, self._counters,
                np.uint64(hash_min), np.uint64(hash_max), *self._secret, self._first_dirty,
            )  # fmt: skip
            if status == Status.MAP_FULL:
                self._range = hash_min, hash_min + (hash_max - hash_min) // 2
                shrink_range(self._words, self._counters, np.uint64(self._range[1]))
            elif status != Status.OK:
                raise slice_.fail(status, row)

    def _mark_run(self, slice_: Slice, buf: Bytes, first: int, last: int) -> None:
        """Batches that begin below the dirty section survive unless superseded; the map's own survivors are set
        last."""
        last = min(last, int(np.searchsorted(slice_.table["base_offset"], self._first_dirty)))
        if last <= first:
            return
        self._make_room()
        if self._range[0] == 0:
            end = slice_.table[last - 1]
            set_range(
                self._bitmap,
                int(slice_.table["first_ordinal"][first]),
                int(end["first_ordinal"] + end["record_count"]),
            )
        status, row = mark_superseded(
            buf, slice_.table, first, last, self._words, self._counters, self._bitmap,
            np.uint64(self._range[0]), np.uint64(self._range[1]), *self._secret, _OFFSET_END,
        )  # fmt: skip
        if status != Status.OK:
            raise slice_.fail(status, row)

    def _make_room(self) -> None:
        """Grow the bitmap over all ordinals given out; twofold at least, so that the copies stay few."""
        if self._bitmap.size * 64 < self._ordinals:
            grown = new_bitmap(max(self._ordinals, self._bitmap.size * 128))
            grown[: self._bitmap.size] = self._bitmap
            self._bitmap = grown


def _log2_slots(dirty_bytes: int, budget: Budget) -> int:
    """As many slots as the dirty section's keys may need were they all distinct, within the budget."""
    wanted = int(dirty_bytes / _BYTES_A_RECORD / budget.load_factor).bit_length()
    within = (budget.map_bytes // SLOT_BYTES).bit_length() - 1
    return max(min(wanted, within), _LOG2_SLOTS_MIN)
