"""What must hold between a small log and what a plan left of it; said without the policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policies.compaction import CompactionRound
from policies.config.policy import TopicPolicy
from tests.builders import NOW_MS
from tests.models.small_logs.world import Batch, Segment, World, last_stable_offset, latest, producers_of, read


class Violation(Exception):
    """A record lost, kept or changed that must not be; the sentence, and what it is about."""


def demand(holds: bool, what: str, *about: object) -> None:
    if not holds:
        raise Violation(what, *about)


def complaint_of(check: Callable[[], object]) -> str | None:
    """What a check says that fails, with the story that led there."""
    try:
        check()
    except Violation as violation:
        return "\n  ".join(map(str, [*violation.args, *getattr(violation, "__notes__", ())]))
    return None


# Deletions


def check_deletion(before: World, after: World, policy: TopicPolicy) -> None:
    """The oldest go, as far as a limit says so; the log has a segment and its end, and a later start."""
    count = sum(segment not in after.segments for segment in before.segments)
    left = before.segments[count:]
    rolled = () if left else (Segment(before.log_end, NOW_MS),)
    demand(after.segments == left + rolled, "the deleted are no prefix", before, after)
    demand(after.log_end == before.log_end, "log end moved", before, after)
    start = max(before.log_start, after.segments[0].base) if count else before.log_start
    demand(after.log_start == start, "log start", before, after)
    for place in range(count):
        demand(before.upper(place) <= before.high_watermark, "deleted above the high watermark", before, place)
        is_last = place + 1 == len(before.segments)
        demand(not is_last or bool(before.segments[place].batches), "empty active segment deleted", before)
        demand(_may_go(before, place, policy), "deleted without a limit's leave", before, place)
    survive = {record for segment in left for batch in segment.batches for record in batch.records}
    seen = [r for r in read(before, before.log_end, committed=True) if r in survive and r.offset >= start]
    demand(read(after, after.log_end, committed=True) == seen, "reader's view after a deletion", before, after)


def _may_go(world: World, place: int, policy: TopicPolicy) -> bool:
    segment, is_last = world.segments[place], place + 1 == len(world.segments)
    if not is_last and world.upper(place) <= world.log_start:
        return True
    younger_bytes = sum(later.size_bytes for later in world.segments[place + 1 :])
    is_over = 0 <= policy.retention_bytes <= younger_bytes
    is_expired = 0 <= policy.retention_ms < NOW_MS - segment.newest_ms
    return policy.cleanup_delete and (is_over or is_expired)


# Rounds


def check_round(before: World, after: World, round_: CompactionRound, policy: TopicPolicy) -> None:
    """One compaction of ``before``, its end the checkpoint of ``after``."""
    end = round_.end_offset
    check_bounds(before, after, end)
    check_lag(before, round_, policy)
    check_offsets(before, after)
    check_views(before, after, end)
    check_tombstones(before, after, policy, end)
    check_markers(before, after, policy, end)
    check_producers(before, after, end)


def check_bounds(before: World, after: World, end: int) -> None:
    """Only what is committed, decided and sealed is touched."""
    untouched = [segment for segment in before.segments if segment.base >= end]
    demand(end <= last_stable_offset(before), "an undecided record compacted", before, end)
    demand(bool(untouched), "active segment compacted", before, end)
    demand(list(after.segments[-len(untouched) :]) == untouched, "touched beyond the round", before, after)
    offsets = (before.log_start, before.log_end, before.high_watermark, end)
    demand((after.log_start, after.log_end, after.high_watermark, after.checkpoint) == offsets, "offsets", after)


def check_lag(before: World, round_: CompactionRound, policy: TopicPolicy) -> None:
    """What was never compacted is old enough."""
    for place, segment in enumerate(before.segments):
        is_dirty = round_.first_dirty_offset < before.upper(place) <= round_.end_offset
        is_old = NOW_MS - segment.newest_ms >= policy.min_compaction_lag_ms
        demand(is_old or not (is_dirty and segment.batches), "compacted within min.compaction.lag.ms", before, segment)


def check_offsets(before: World, after: World) -> None:
    """What is left was there: each record and batch under its offset, in order, each segment under its base."""
    demand({s.base for s in after.segments} <= {s.base for s in before.segments}, "segment's base", before, after)
    for place, segment in enumerate(after.segments):
        spans = all(segment.base <= batch.base and batch.last < after.upper(place) for batch in segment.batches)
        demand(spans, "batch outside of its segment", after)
    was = {_identity(batch): set(batch.records) for batch in before.batches}
    left = list(after.batches)
    demand([batch.last for batch in left] == sorted({batch.last for batch in left}), "order of batches", after)
    for batch in left:
        demand(_identity(batch) in was, "batch changed its identity", before, batch)
        demand(set(batch.records) <= was[_identity(batch)], "record changed", before, batch)
    ends = {batch.last + 1 for batch in before.batches} & {before.high_watermark}
    demand(ends <= {batch.last + 1 for batch in left}, "the batch at the high watermark is gone", before, after)


def _identity(batch: Batch) -> tuple[object, ...]:
    is_control = batch.marker is not None
    time_ms, producer = batch.time_ms, (batch.producer_id, batch.epoch, batch.sequence)
    return batch.base, batch.last, time_ms, producer, batch.is_transactional, is_control


def check_views(before: World, after: World, end: int) -> None:
    """A reader of the clean part ends up with what it did before, a key has one record, aborted ones are gone."""
    seen, left = read(before, end, committed=True), read(after, end, committed=True)
    demand(latest(left) == latest(seen), "reader's view", before, after)
    demand(read(after, end, committed=False) == left, "aborted records left", before, after)
    keys = [record.key for record in left]
    demand(len(set(keys)) == len(keys), "a key has two records in the clean part", before, after)
    demand(None not in keys, "a record without key left", before, after)
    whole = read(before, before.log_end, committed=True)
    found = read(after, after.log_end, committed=True)
    demand(latest(found) == latest(whole), "reader's view of the whole log", before, after)


def check_tombstones(before: World, after: World, policy: TopicPolicy, end: int) -> None:
    """The last word on a key stays ``delete.retention.ms`` from the first round that passed it."""
    last_words = {record.key: record for record in read(before, end, committed=True) if record.key is not None}
    for record in set(last_words.values()) - set(read(after, end, committed=True)):
        demand(not record.has_value, "record lost", before, record)
        demand(_is_over(before, record.offset, policy), "tombstone gone too early", before, record)


def check_markers(before: World, after: World, policy: TopicPolicy, end: int) -> None:
    """A marker outlives its data, by ``delete.retention.ms`` from the first round that found none. Below the log start
    there is no reader."""
    left = {batch.base for batch in after.batches if batch.is_marker}
    for marker, has_data in markers_of(before):
        if before.log_start <= marker.base < end and marker.base not in left:
            demand(not has_data, "marker gone before its data", before, marker)
            demand(_is_over(before, marker.base, policy), "marker gone too early", before, marker)


def markers_of(world: World) -> Iterator[tuple[Batch, bool]]:
    """Every marker, and whether a data batch of its transaction is in the log."""
    with_data: set[int] = set()
    for batch in world.batches:
        if batch.marker is not None:
            if batch.is_marker:
                yield batch, batch.producer_id in with_data
            with_data.discard(batch.producer_id)
        elif batch.is_transactional:
            with_data.add(batch.producer_id)


def check_producers(before: World, after: World, end: int) -> None:
    """A broker finds every producer's last sequence number and open transaction again."""
    found, _ = producers_of(after)
    for id_, producer in producers_of(before)[0].items():
        if producer.end.last_data_offset is not None:
            demand(found.get(id_) == producer, "producer's last batch", before, after, id_)
        elif any(b.producer_id == id_ and b.epoch == producer.end.producer_epoch for b in before.batches):
            kept = any(b.producer_id == id_ and b.epoch == producer.end.producer_epoch for b in after.batches)
            demand(kept, "producer's epoch", before, after, id_)
    demand(last_stable_offset(after) == last_stable_offset(before), "last stable offset", before, after)


def _is_over(world: World, offset: int, policy: TopicPolicy) -> bool:
    noted = dict(world.passed_ms).get(offset)
    return noted is not None and NOW_MS - noted >= policy.delete_retention_ms


# The witness


def noted(before: World, after: World, end: int) -> World:
    """Write down what a round passed: its tombstones, and the markers that it found without data."""
    passed = {r.offset for b in after.batches for r in b.records if not r.has_value and r.offset < end}
    passed |= {marker.base for marker, has_data in markers_of(before) if not has_data and marker.base < end}
    alive = {batch.base for batch in after.batches if batch.is_marker}
    alive |= {record.offset for batch in after.batches for record in batch.records}
    notes = dict.fromkeys(passed, NOW_MS) | dict(after.passed_ms)
    return after._replace(passed_ms=tuple(sorted((o, ms) for o, ms in notes.items() if o in alive)))


# The end of it all


def check_settled(world: World, end: int) -> None:
    """What is left of the clean part in the long run: the latest value of each key, and what producers need."""
    left = read(world, end, committed=False)
    demand(all(record.has_value for record in left), "a tombstone never goes", world)
    for marker, has_data in markers_of(world):
        if world.log_start <= marker.base < end:
            demand(has_data, "a marker never goes", world, marker)
    needed = {producer.end.last_data_offset for producer in producers_of(world)[0].values()}
    needed |= {world.high_watermark - 1}
    for batch in world.batches:
        if batch.marker is None and not batch.records and world.log_start <= batch.base < end:
            demand(batch.last in needed, "an empty batch never goes", world, batch)
