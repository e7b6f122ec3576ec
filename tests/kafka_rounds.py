"""Pass 1 as Kafka does it: the round ends where the offset map is full, and the next one goes on there.

The readable twin of ``survivors.Finder``: one dictionary, no kernels, the records as objects. Both find the same
survivors if the map holds all keys and the round does not begin behind an abort marker of its segment. Within
``as_kafka()`` every round of this process takes the twin.

Source: Kafka Cleaner.buildOffsetMap, buildOffsetMapForSegment, shouldRetainRecord; SkimpyOffsetMap.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import Final
from unittest.mock import patch

import numpy as np

from cleaner.engine.compaction import round as rounds
from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.filters import Filters
from cleaner.engine.compaction.legacy_rewrite import modified_ms
from cleaner.engine.compaction.passes import Horizons, OpenSpan, Span, Survivors, Tombstones, Walk
from cleaner.engine.means import Means
from policies.config.policy import BrokerPolicy
from policies.facts import KeyCount
from storage.arrays import Words
from storage.errors import InvalidConfig
from storage.kernels.bitmap import new_bitmap
from storage.kernels.status import BatchFate, Status
from storage.log.read import indexed_position
from storage.records import Record
from storage.scan.slices import Checksums, Slice

_BYTES_A_KEY: Final = 24
"""MD5 and offset."""
_MAP_BYTES_MAX: Final = (1 << 31) - 1
_NOT_IN_MAP: Final = -1


class RecordFate(Enum):
    """The reason why a record of a data batch stays or goes."""

    LATEST = auto()
    BEYOND_THE_MAP = auto()
    TOMBSTONE_PROTECTED = auto()
    TOMBSTONE_EXPIRED = auto()
    SUPERSEDED = auto()
    NO_KEY = auto()

    @property
    def is_kept(self) -> bool:
        """True if the record stays."""
        return self in _KEPT


_KEPT = frozenset({RecordFate.LATEST, RecordFate.BEYOND_THE_MAP, RecordFate.TOMBSTONE_PROTECTED})


def record_fate(
    offset: int,
    *,
    has_key: bool,
    has_value: bool,
    latest_offset: int,
    map_end_offset: int,
    delete_horizon_ms: int | None,
    now_ms: int,
) -> RecordFate:
    """Decide one record of a v2 data batch that is not discarded as a whole.

    Args:
        offset: the record's offset.
        has_key: False for a null key; True for an empty key.
        has_value: False for a null value: the record is a tombstone.
        latest_offset: the key's latest offset in the dirty section, -1 if the key does not occur there.
        map_end_offset: the last offset that the offset map covers.
        delete_horizon_ms: the delete horizon of the record's batch.
        now_ms: epoch ms, one value for a round.
    """
    if offset > map_end_offset:
        return RecordFate.BEYOND_THE_MAP
    if not has_key:
        return RecordFate.NO_KEY
    if offset < latest_offset:
        return RecordFate.SUPERSEDED
    if has_value:
        return RecordFate.LATEST
    is_protected = delete_horizon_ms is None or now_ms < delete_horizon_ms
    return RecordFate.TOMBSTONE_PROTECTED if is_protected else RecordFate.TOMBSTONE_EXPIRED


@contextmanager
def as_kafka() -> Iterator[None]:
    """Let every round of this process end where Kafka's offset map is full, and read every segment as Kafka does."""
    with (
        patch.object(rounds, "survivors_of", _survivors_of),
        patch.object(rounds, "filters_of", lambda *_: nullcontext()),
    ):
        yield


def _survivors_of(
    round_: rounds.Round,
    spans: Sequence[OpenSpan],
    new_fates: Callable[[], Fates],
    crew: Crew,
    means: Means,
    pace: Pace,
    filters: Filters | None,
) -> Survivors:
    start, keys_max = round_.compaction.round.first_dirty_offset, keys_max_of(means.broker)
    return KafkaFinder(spans, start, keys_max, new_fates, rounds.horizons_of(round_), pace, pace.spend).find()


def keys_max_of(broker: BrokerPolicy) -> int:
    """Return the number of distinct keys that Kafka's map takes before the round ends.

    Raises: InvalidConfig where it has no room for one: no round would ever end behind where it began.
    """
    map_bytes = min(broker.log_cleaner_dedupe_buffer_size // max(broker.log_cleaner_threads, 1), _MAP_BYTES_MAX)
    keys_max = int(map_bytes // _BYTES_A_KEY * min(broker.log_cleaner_io_buffer_load_factor, 1.0))
    if keys_max < 1:
        key = "log.cleaner.dedupe.buffer.size"
        reason = "with log.cleaner.threads and log.cleaner.io.buffer.load.factor leaves no room for a single key"
        raise InvalidConfig(key, broker.log_cleaner_dedupe_buffer_size, reason, broker.origin(key))
    return keys_max


@dataclass(frozen=True, slots=True)
class _DecodedBatch:
    """The fields of a batch that map and survivors need. Control batches and aborted data have no ``records``."""

    last_offset: int
    first_ordinal: int
    delete_horizon_ms: int | None
    """Of a batch of v0 and v1, which has none: ``now`` where its tombstones are expired."""
    records: list[Record]


@dataclass(eq=False)
class KafkaFinder:
    """Finds the survivors of one round, and where it ends."""

    spans: Sequence[OpenSpan]
    """Up to the first uncleanable offset, ascending."""
    first_dirty_offset: int
    """Where the dirty section starts; it may lie within a batch."""
    keys_max: int
    """From ``keys_max_of``."""
    new_fates: Callable[[], Fates]
    """Makes the follower of transactions for one walk."""
    horizons: Horizons
    """Tombstones that the map speaks for go when they are expired; those beyond it stay."""
    progress: Callable[[int], None]
    """Told the bytes of every segment when it is walked first."""
    again: Callable[[int], None]
    """Told the bytes of every segment walked once more."""
    _offsets: dict[bytes, int] = field(default_factory=dict)
    _is_full: bool = False
    _ordinals: int = 0
    _walks: dict[int, Walk] = field(default_factory=dict)
    """The first walks, by the base offset of their span."""

    def __post_init__(self) -> None:
        """Begin with an empty map."""
        self._latest_offset = self.first_dirty_offset - 1
        """The last offset that the map covers."""

    def find(self) -> Survivors:
        """Map the dirty section as far as the map reaches, then decide every record of the segments up to there.

        Raises: CorruptBatch, PlanOutOfDate, UnreadableFile.
        """
        self._map_dirty_section()
        kept, decided, unkeyed = array("q"), 0, 0
        fates = self.new_fates()
        in_round = [opened for opened in self.spans if opened.span.base_offset <= self._latest_offset]
        for opened in in_round:
            count = self._decide(opened, fates, kept)
            decided, unkeyed = decided + count.records, unkeyed + count.unkeyed
        bitmap = _bitmap_of(kept, self._ordinals)
        return Survivors(
            bitmap,
            tuple(self._walks[opened.span.base_offset].walked for opened in in_round),
            KeyCount(decided, unkeyed),
            self._latest_offset + 1,
            Tombstones.DECIDED,
            map_utilisation=len(self._offsets) / max(self.keys_max, 1),
        )

    def _map_dirty_section(self) -> None:
        fates = self.new_fates()
        for opened in self.spans:
            span = opened.span
            if span.upper_offset <= self.first_dirty_offset:
                continue
            unmet_bytes = indexed_position(span.segment, self.first_dirty_offset)
            for batch in self._batches(opened, fates, unmet_bytes):  # to its end, full or not: records get numbers
                self._map(batch)
            if self._is_full:
                return
            self._latest_offset = max(self._latest_offset, span.upper_offset - 1)

    def _map(self, batch: _DecodedBatch) -> None:
        """End the round at the record at which the map is full, even if its key is mapped already, as Kafka does."""
        for record in batch.records:
            if self._is_full:
                return
            if record.key is None or record.offset < self.first_dirty_offset:
                continue
            if len(self._offsets) >= self.keys_max:
                self._is_full = True
                return
            self._offsets[record.key] = self._latest_offset = record.offset
        if not self._is_full:
            self._latest_offset = max(self._latest_offset, batch.last_offset)

    def _decide(self, opened: OpenSpan, fates: Fates, kept: array[int]) -> KeyCount:
        """Add the ordinals of the records that stay. Return how many records the round decides on by their keys."""
        decided = unkeyed = 0
        for batch in self._batches(opened, fates):
            for ordinal, record in enumerate(batch.records, batch.first_ordinal):
                fate = record_fate(
                    record.offset,
                    has_key=record.key is not None,
                    has_value=record.value is not None,
                    latest_offset=_NOT_IN_MAP if record.key is None else self._offsets.get(record.key, _NOT_IN_MAP),
                    map_end_offset=self._latest_offset,
                    delete_horizon_ms=batch.delete_horizon_ms,
                    now_ms=self.horizons.now_ms,
                )
                if fate.is_kept:
                    kept.append(ordinal)
                decided += fate is not RecordFate.BEYOND_THE_MAP
                unkeyed += fate is RecordFate.NO_KEY
        return KeyCount(decided, unkeyed)

    def _batches(self, opened: OpenSpan, fates: Fates, unmet_bytes: int = 0) -> Iterator[_DecodedBatch]:
        """Walk over all batches of a span; the first walk verifies them and gives their records numbers.

        Kafka's map does not meet the first ``unmet_bytes``: a transaction whose abort marker lies there goes on to it,
        and takes along what its producer commits later.
        """
        span = opened.span
        is_first = span.base_offset not in self._walks
        walk = self._walks.setdefault(span.base_offset, Walk.of(opened, self._ordinals))
        for slice_ in opened.reader.slices(
            checksums=Checksums.BY_CALLER if is_first else Checksums.DONE, start=walk.start
        ):
            if is_first:
                slice_.verify(0, slice_.table.size)
            is_ordinary = fates.dispose(slice_, rows_unmet=slice_.rows_before(unmet_bytes))
            for row in range(slice_.table.size):
                yield self._read(span, slice_, row)
            if is_first:
                walk.add(slice_, is_ordinary=is_ordinary)
        if is_first:
            self._ordinals = walk.end_ordinal
        tell = self.progress if is_first else self.again
        tell(span.size_bytes)

    def _read(self, span: Span, slice_: Slice, row: int) -> _DecodedBatch:
        batch = slice_.table[row]
        last_offset, first_ordinal = int(batch["last_offset"]), int(batch["first_ordinal"])
        if batch["fate"] > BatchFate.RETAIN_EMPTY:
            return _DecodedBatch(last_offset, first_ordinal, None, [])
        if slice_.is_legacy:
            is_expired = modified_ms(span.segment) <= self.horizons.legacy_ms
            records, horizon_ms = slice_.legacy_batch(row).records(), self.horizons.now_ms if is_expired else None
        else:
            found = slice_.v2_batch(row)
            records, horizon_ms = found.records(), found.header.delete_horizon_ms
        offsets = [int(batch["base_offset"]) - 1, *(record.offset for record in records)]
        if any(offset <= before for before, offset in pairwise(offsets)) or offsets[-1] > last_offset:
            raise slice_.fail(Status.BAD_OFFSETS, row)
        batch["tombstones"] = sum(record.is_tombstone for record in records)
        return _DecodedBatch(last_offset, first_ordinal, horizon_ms, records)


def _bitmap_of(kept: array[int], ordinals: int) -> Words:
    bitmap = new_bitmap(ordinals)
    bits = np.zeros(bitmap.size * 64, np.bool_)
    bits[np.frombuffer(kept, np.int64)] = True
    return np.packbits(bits, bitorder="little").view(np.uint64)
