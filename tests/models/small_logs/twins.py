"""Deliberately broken decisions: each must be caught, and by the sentence that it violates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts
from policies.plan import PartitionPlan, Request
from policies.planning import deletion_of, plan_partition
from policies.retain import AbortedTransaction, BatchFacts, TransactionFates, batch_fate
from storage.kernels.status import BatchFate
from tests.kafka_rounds import RecordFate, record_fate
from tests.models.small_logs.exploration import Exploration
from tests.models.small_logs.invariants import Violation
from tests.models.small_logs.rounds import Rules, latest_offsets
from tests.models.small_logs.scenarios import SCENARIOS
from tests.models.small_logs.world import World

# Plans


def compacts_open_transactions(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    return plan_partition(replace(facts, last_stable_offset=facts.high_watermark), policy, request)


def ignores_the_lag(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    return plan_partition(facts, replace(policy, min_compaction_lag_ms=policy.min_compaction_lag_ms - 1), request)


def begins_one_offset_late(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    planned = plan_partition(facts, policy, request)
    if planned.compaction is None:
        return planned
    round_ = planned.compaction.round
    late = round_._replace(first_dirty_offset=round_.first_dirty_offset + 1)
    return replace(planned, compaction=planned.compaction._replace(round=late))


def expires_a_tick_early(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    return plan_partition(facts, replace(policy, retention_ms=policy.retention_ms - 1), request)


def leaves_too_few_bytes(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    return plan_partition(facts, replace(policy, retention_bytes=policy.retention_bytes - 1), request)


def ignores_the_high_watermark(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    return plan_partition(replace(facts, high_watermark=facts.log_end_offset), policy, request)


def deletes_the_active_segment(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    planned = plan_partition(facts, policy, request)
    return replace(planned, deletion=planned.deletion and deletion_of(facts, planned.verdicts, len(facts.segments)))


def sets_the_log_start_back(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    planned = plan_partition(facts, policy, request)
    if planned.deletion is None:
        return planned
    return replace(planned, deletion=planned.deletion._replace(new_log_start_offset=facts.segments[0].base_offset))


# The offset map, and the transactions


def maps_beyond_the_round(
    world: World, aborted: Sequence[AbortedTransaction], first_dirty: int, end: int
) -> dict[str, int]:
    return latest_offsets(world, aborted, first_dirty, world.log_end)


def maps_aborted_records(
    world: World, aborted: Sequence[AbortedTransaction], first_dirty: int, end: int
) -> dict[str, int]:
    return latest_offsets(world, (), first_dirty, end)


class Credulous(TransactionFates):
    """Does not hold the index against the markers: those would tell that it is lost."""

    def _contradiction(self, batch: BatchFacts) -> None:
        return None


def has_lost_the_index(aborted: Sequence[AbortedTransaction]) -> TransactionFates:
    return Credulous.of((), 0)


# Batches


def drops_markers_with_data(batch: BatchFacts, can_discard: bool, *rest: Any) -> BatchFate:
    return batch_fate(batch, can_discard or batch.marker is not None, *rest)


def drops_markers_a_tick_early(batch: BatchFacts, can_discard: bool, *rest: Any) -> BatchFate:
    producers, end, now_ms = rest
    return batch_fate(batch, can_discard, producers, end, now_ms + 1)


def keeps_markers(batch: BatchFacts, can_discard: bool, *rest: Any) -> BatchFate:
    return batch_fate(batch, can_discard and batch.marker is None, *rest)


def keeps_aborted_data(batch: BatchFacts, can_discard: bool, *rest: Any) -> BatchFate:
    return batch_fate(batch, can_discard and batch.marker is not None, *rest)


def forgets_producers(batch: BatchFacts, can_discard: bool, *rest: Any) -> BatchFate:
    _, end, now_ms = rest
    return batch_fate(batch, can_discard, {}, end, now_ms)


def forgets_the_high_watermark(batch: BatchFacts, can_discard: bool, *rest: Any) -> BatchFate:
    producers, _, now_ms = rest
    return batch_fate(batch, can_discard, producers, -1, now_ms)


# Records


def drops_tombstones_a_tick_early(offset: int, *, now_ms: int, **rest: Any) -> RecordFate:
    return record_fate(offset, now_ms=now_ms + 1, **rest)


def drops_tombstones_at_once(offset: int, *, delete_horizon_ms: int | None, **rest: Any) -> RecordFate:
    return record_fate(offset, delete_horizon_ms=delete_horizon_ms or 0, **rest)


def keeps_tombstones(offset: int, *, delete_horizon_ms: int | None, **rest: Any) -> RecordFate:
    return record_fate(offset, delete_horizon_ms=None, **rest)


def drops_the_latest(offset: int, *, latest_offset: int, **rest: Any) -> RecordFate:
    return record_fate(offset, latest_offset=latest_offset + (latest_offset >= 0), **rest)


class Twin(NamedTuple):
    """What is broken, in which scenario that shows, and the complaint."""

    name: str
    rules: Rules
    scenario: str
    complaint: str


def _twin(scenario: str, complaint: str, **broken: Any) -> Twin:
    ((_, function),) = broken.items()
    return Twin(function.__name__, Rules(**broken), scenario, complaint)


TWINS: Final = (
    _twin("two transactions", "an undecided record compacted", plan=compacts_open_transactions),
    _twin("lags", "compacted within min.compaction.lag.ms", plan=ignores_the_lag),
    _twin("keys and tombstones", "a key has two records", plan=begins_one_offset_late),
    _twin("retention", "deleted without a limit's leave", plan=expires_a_tick_early),
    _twin("retention", "deleted without a limit's leave", plan=leaves_too_few_bytes),
    _twin("retention", "deleted above the high watermark", plan=ignores_the_high_watermark),
    _twin("both", "empty active segment deleted|deleted without a limit's leave", plan=deletes_the_active_segment),
    _twin("both", "log start", plan=sets_the_log_start_back),
    _twin("keys and tombstones", "reader's view", latest=maps_beyond_the_round),
    _twin("producers", "reader's view", latest=maps_aborted_records),
    _twin("two transactions", "reader's view", fates=has_lost_the_index),
    _twin("producers", "marker gone", batch=drops_markers_with_data),
    _twin("two transactions", "marker gone too early", batch=drops_markers_a_tick_early),
    _twin("two transactions", "a marker never goes", batch=keeps_markers),
    _twin("producers", "aborted records left", batch=keeps_aborted_data),
    _twin("producers", "producer's last batch", batch=forgets_producers),
    _twin("keys and tombstones", "the batch at the high watermark is gone", batch=forgets_the_high_watermark),
    _twin("keys and tombstones", "tombstone gone too early", record=drops_tombstones_a_tick_early),
    _twin("keys and tombstones", "tombstone gone too early", record=drops_tombstones_at_once),
    _twin("keys and tombstones", "a tombstone never goes", record=keeps_tombstones),
    _twin("keys and tombstones", "reader's view", record=drops_the_latest),
)


def violation_of(twin: Twin, depth: int) -> Violation | None:
    """What the exploration of its scenario says of a twin; None where it is not caught."""
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.name == twin.scenario)
    try:
        Exploration(scenario, twin.rules).run(depth)
    except Violation as violation:
        return violation
    return None
