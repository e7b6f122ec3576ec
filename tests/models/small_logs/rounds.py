"""What a plan does to a small log, by the rules of ``policies.retain``: the engine without files and kernels.

What decides can be exchanged, each function for a broken one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts
from policies.plan import Compaction, Deletion, PartitionPlan, Request
from policies.planning import plan_partition
from policies.retain import AbortedTransaction, BatchFacts, Marker, ProducerEnd, TransactionFates, batch_fate
from storage.kernels.status import BatchFate
from tests.builders import NOW_MS
from tests.kafka_rounds import RecordFate, record_fate
from tests.models.small_logs.world import Batch, Record, Segment, World, producers_of

EMPTYING = (BatchFate.DISCARD, BatchFate.DISCARD_RETAIN_EMPTY)
RETAINING_EMPTY = (BatchFate.RETAIN_EMPTY, BatchFate.DISCARD_RETAIN_EMPTY)


def latest_offsets(world: World, aborted: Sequence[AbortedTransaction], first_dirty: int, end: int) -> dict[str, int]:
    """The offset map, with the naive word on what was aborted: a transaction's span."""
    found: dict[str, int] = {}
    for batch in world.batches:
        if batch.marker is None and not any(is_of(batch, entry) for entry in aborted):
            found |= {r.key: r.offset for r in batch.records if r.key is not None and first_dirty <= r.offset < end}
    return found


def is_of(batch: Batch, entry: AbortedTransaction) -> bool:
    """Whether the batch lies in the aborted transaction."""
    is_within = entry.first_offset <= batch.base <= entry.last_offset
    return batch.is_transactional and batch.producer_id == entry.producer_id and is_within


class Rules(NamedTuple):
    """The decisions, the real ones unless one is exchanged."""

    plan: Callable[[PartitionFacts, TopicPolicy, Request], PartitionPlan] = plan_partition
    latest: Callable[[World, Sequence[AbortedTransaction], int, int], dict[str, int]] = latest_offsets
    fates: Callable[[Iterable[AbortedTransaction]], TransactionFates] = partial(TransactionFates.of, log_start_offset=0)
    batch: Callable[..., BatchFate] = batch_fate
    record: Callable[..., RecordFate] = record_fate


class Round(NamedTuple):
    """One compaction, with what all its groups share."""

    end: int
    high_watermark: int
    policy: TopicPolicy
    latest: dict[str, int]
    fates: TransactionFates
    producers: dict[int, ProducerEnd]
    rules: Rules
    seen: set[object]


def executed(world: World, planned: PartitionPlan, rules: Rules, seen: set[object]) -> World:
    """The log after its plan; the fates that occurred are added to ``seen``."""
    if planned.deletion is not None:
        world = without_oldest(world, planned.deletion)
    if planned.compaction is not None:
        world = compacted(world, planned.compaction, planned.policy, rules, seen)
    if planned.checkpoint_offset is not None:
        world = world._replace(checkpoint=planned.checkpoint_offset)
    return world


def without_oldest(world: World, deletion: Deletion) -> World:
    left = world.segments[len(deletion.segments) :]
    if deletion.roll_at_offset is not None:
        left = (*left, Segment(deletion.roll_at_offset, NOW_MS))
    return world._replace(segments=left, log_start=deletion.new_log_start_offset)


def compacted(world: World, compaction: Compaction, policy: TopicPolicy, rules: Rules, seen: set[object]) -> World:
    """Every group becomes one segment, of the first one's base and the last one's file time."""
    planned = compaction.round
    end = planned.end_offset
    aborted = [e for e in world.aborted if e.last_offset >= world.log_start and e.first_offset < end]
    latest = rules.latest(world, aborted, planned.first_dirty_offset, end)
    ends = {id_: producer.end for id_, producer in producers_of(world)[0].items()}
    round_ = Round(end, world.high_watermark, policy, latest, rules.fates(aborted), ends, rules, seen)
    by_base = {segment.base: segment for segment in world.segments}
    cleaned = [_cleaned([by_base.pop(base) for base in group], round_) for group in planned.groups]
    return world._replace(segments=(*cleaned, *by_base.values()), checkpoint=end)


def _cleaned(group: Sequence[Segment], round_: Round) -> Segment:
    """A group of one segment that loses nothing is left as it is, as is its transaction index."""
    batches = tuple(left for segment in group for batch in segment.batches for left in _rewritten(batch, round_))
    retained, round_.fates.retained = round_.fates.retained, []
    first, last = group[0], group[-1]
    if len(group) == 1 and batches == first.batches:
        return first
    return Segment(first.base, last.mtime_ms, batches, tuple(retained))


def _rewritten(batch: Batch, round_: Round) -> list[Batch]:
    facts = BatchFacts(
        batch.last, batch.producer_id, batch.epoch, batch.is_transactional, batch.marker, batch.horizon_ms
    )
    can_discard = round_.fates.can_discard(facts)
    fate = round_.rules.batch(facts, can_discard, round_.producers, round_.high_watermark, NOW_MS)
    round_.seen.add(fate)
    if batch.marker is not None:
        return _control_left(batch, fate, round_)
    kept = () if fate in EMPTYING else tuple(r for r in batch.records if _is_kept(r, batch, round_))
    if not kept:
        return [batch._replace(records=(), horizon_ms=None)] if fate in RETAINING_EMPTY else []
    is_stamped = batch.horizon_ms is None and not all(record.has_value for record in kept)
    horizon_ms = NOW_MS + round_.policy.delete_retention_ms if is_stamped else batch.horizon_ms
    return [batch._replace(records=kept, horizon_ms=horizon_ms)]


def _control_left(batch: Batch, fate: BatchFate, round_: Round) -> list[Batch]:
    if fate in EMPTYING:
        emptied = batch._replace(marker=Marker.NONE, horizon_ms=None)
        return [emptied] if fate in RETAINING_EMPTY else []
    if fate is BatchFate.KEEP_STAMPED:
        return [batch._replace(horizon_ms=NOW_MS + round_.policy.delete_retention_ms)]
    return [batch]


def _is_kept(record: Record, batch: Batch, round_: Round) -> bool:
    fate = round_.rules.record(
        record.offset,
        has_key=record.key is not None,
        has_value=record.has_value,
        latest_offset=round_.latest.get(record.key, -1) if record.key is not None else -1,
        map_end_offset=round_.end - 1,
        delete_horizon_ms=batch.horizon_ms,
        now_ms=NOW_MS,
    )
    round_.seen.add(fate)
    return fate.is_kept
