"""A partition small enough to be enumerated: its batches, what a reader sees of it, and what a plan may know of it.

The moment is always ``NOW_MS``: time passes by everything getting older, so that logs that differ in age alone, and in
ages beyond every limit, are one state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import NO_TIMESTAMP, PartitionFacts, SegmentFacts
from policies.retain import AbortedTransaction, Marker, ProducerEnd
from storage.names import FileIdentity, TopicPartition
from tests.builders import NOW_MS

AGE_MAX_MS: Final = 6
"""Nothing changes with more: no limit of a scenario is as long."""
_REMEMBERED: Final = 1 << 12
_HEADER_BYTES, _VALUE_BYTES, _NULL_BYTES, _MARKER_BYTES = 61, 9, 8, 17
_TIME_ENTRY_BYTES, _TXN_ENTRY_BYTES = 12, 34


class Record(NamedTuple):
    """A tombstone has no value; the value of the others is their offset, as a byte."""

    offset: int
    key: str | None
    has_value: bool


class Batch(NamedTuple):
    """With a ``marker`` it is a control batch; ``Marker.NONE`` is one that was emptied."""

    base: int
    last: int
    time_ms: int
    records: tuple[Record, ...] = ()
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    marker: Marker | None = None
    horizon_ms: int | None = None

    @property
    def is_marker(self) -> bool:
        """Of a transaction, its record still there."""
        return self.marker in (Marker.COMMIT, Marker.ABORT)

    @property
    def size_bytes(self) -> int:
        """As encoded."""
        if self.marker is not None:
            return _HEADER_BYTES + (_MARKER_BYTES if self.is_marker else 0)
        nulls = [record.key is None or not record.has_value for record in self.records]
        return _HEADER_BYTES + sum(_NULL_BYTES if null else _VALUE_BYTES for null in nulls)


class Segment(NamedTuple):
    """``aborted`` is its transaction index: of the markers that lie in it."""

    base: int
    mtime_ms: int
    batches: tuple[Batch, ...] = ()
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(batch.size_bytes for batch in self.batches)

    @property
    def newest_ms(self) -> int:
        """As Kafka takes it: of the newest batch, else of the file."""
        return max((batch.time_ms for batch in self.batches), default=self.mtime_ms)


class World(NamedTuple):
    """The partition, oldest segment first, the last one active."""

    segments: tuple[Segment, ...] = (Segment(0, NOW_MS),)
    log_start: int = 0
    log_end: int = 0
    high_watermark: int = 0
    checkpoint: int | None = None
    passed_ms: tuple[tuple[int, int], ...] = ()
    """The witness's notes, no part of the log: the offset of a tombstone that a round has passed, or of a marker of
    which a round found no data, and when the first such round was."""

    @property
    def batches(self) -> Iterator[Batch]:
        return (batch for segment in self.segments for batch in segment.batches)

    @property
    def aborted(self) -> list[AbortedTransaction]:
        return [entry for segment in self.segments for entry in segment.aborted]

    def upper(self, place: int) -> int:
        """Where a segment's offsets end."""
        return self.segments[place + 1].base if place + 1 < len(self.segments) else self.log_end


class Producer(NamedTuple):
    """What a broker rebuilds of a producer from the log."""

    end: ProducerEnd
    next_sequence: int = 0
    open_since: int | None = None


@lru_cache(_REMEMBERED)
def producers_of(world: World) -> tuple[dict[int, Producer], list[tuple[int, int]]]:
    """The producers by id, and the ended transactions: first offset, offset of the marker."""
    producers: dict[int, Producer] = {}
    ended = []
    for batch in world.batches:
        if batch.producer_id < 0 or batch.last < world.log_start:
            continue
        before = producers.get(batch.producer_id, Producer(ProducerEnd(None, -1)))
        producers[batch.producer_id] = _after(before, batch)
        if batch.is_marker and before.open_since is not None:
            ended.append((before.open_since, batch.base))
    return producers, ended


def _after(before: Producer, batch: Batch) -> Producer:
    if batch.marker is Marker.NONE:
        return before
    if batch.is_marker:
        knows_data = batch.epoch == before.end.producer_epoch
        end = ProducerEnd(before.end.last_data_offset if knows_data else None, batch.epoch)
        return Producer(end, before.next_sequence if knows_data else 0)
    since = batch.base if batch.is_transactional and before.open_since is None else before.open_since
    next_sequence = batch.sequence + batch.last - batch.base + 1
    return Producer(ProducerEnd(batch.last, batch.epoch), next_sequence, since)


def last_stable_offset(world: World) -> int:
    """First offset of the oldest transaction that is open, or ended above the high watermark."""
    producers, ended = producers_of(world)
    unstable = [producer.open_since for producer in producers.values() if producer.open_since is not None]
    unstable += [first for first, marker in ended if marker >= world.high_watermark]
    return min([world.high_watermark, *unstable])


# What readers see


def read(world: World, end: int, *, committed: bool) -> list[Record]:
    """The records below an offset that a consumer is given: ``read_committed`` skips what the transaction indexes call
    aborted, from its first offset to the marker.

    Source: Kafka CompletedFetch.nextFetchedRecord.
    """
    known = [entry for entry in world.aborted if entry.last_offset >= world.log_start]
    waiting = sorted(known, key=lambda entry: entry.first_offset)
    skipped: set[int] = set()
    records: list[Record] = []
    for batch in world.batches:
        while waiting and waiting[0].first_offset <= batch.last:
            skipped.add(waiting.pop(0).producer_id)
        if batch.marker is Marker.ABORT:
            skipped.discard(batch.producer_id)
        if batch.marker is None and not (committed and batch.is_transactional and batch.producer_id in skipped):
            records += [record for record in batch.records if world.log_start <= record.offset < end]
    return records


def latest(records: Iterable[Record]) -> dict[str, int]:
    """What such a reader ends up with: key -> offset of its value, deleted keys left out."""
    view: dict[str, int] = {}
    for record in records:
        if record.key is not None:
            view.pop(record.key, None)
            if record.has_value:
                view[record.key] = record.offset
    return view


# What a plan may know


def facts_of(world: World, policy: TopicPolicy) -> PartitionFacts:
    """As the inventory would read them from disk."""
    return PartitionFacts(
        TopicPartition("orders", 0),
        "/data",
        tuple(_segment_facts(segment) for segment in world.segments),
        world.log_start,
        world.log_end,
        world.high_watermark,
        last_stable_offset(world) if policy.cleanup_compact else None,
        world.checkpoint,
    )


@lru_cache(_REMEMBERED)
def _segment_facts(segment: Segment) -> SegmentFacts:
    time_bytes = _TIME_ENTRY_BYTES if segment.batches else 0
    return SegmentFacts(
        segment.base,
        segment.size_bytes,
        time_bytes + _TXN_ENTRY_BYTES * len(segment.aborted),
        0,
        time_bytes,
        segment.mtime_ms,
        segment.newest_ms if segment.batches else NO_TIMESTAMP,
        FileIdentity(1, segment.base + 1, segment.size_bytes, segment.mtime_ms * 1_000_000),
        segment.batches[0].time_ms if segment.batches else NO_TIMESTAMP,
        disk_bytes=segment.size_bytes,
    )


def aged(world: World, by_ms: int) -> World:
    """Time passes."""
    oldest_ms = NOW_MS - AGE_MAX_MS

    def of_segment(segment: Segment) -> Segment:
        batches = tuple(_aged(batch, by_ms, oldest_ms) for batch in segment.batches)
        return Segment(segment.base, max(segment.mtime_ms - by_ms, oldest_ms), batches, segment.aborted)

    passed_ms = tuple((offset, max(time_ms - by_ms, oldest_ms)) for offset, time_ms in world.passed_ms)
    return world._replace(segments=tuple(map(of_segment, world.segments)), passed_ms=passed_ms)


def _aged(batch: Batch, by_ms: int, oldest_ms: int) -> Batch:
    horizon_ms = None if batch.horizon_ms is None else max(batch.horizon_ms - by_ms, NOW_MS)
    return batch._replace(time_ms=max(batch.time_ms - by_ms, oldest_ms), horizon_ms=horizon_ms)
