"""Planning: facts and configuration in, the plan of a run out. The functions are pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from policies.compaction import Cleanable, cause, cleanable, compaction_round, refusal
from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.exemptions import exemption, switched_off
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from policies.guards import (
    clock_guard,
    compaction_held_back,
    config_guard,
    counted_guard,
    delete_ratio_guard,
    unless_confirmed,
)
from policies.plan import Compaction, Deletion, LogDirPlan, Only, PartitionPlan, Plan, PolicyOf, Request, path_of
from policies.reasons import Action, Limit, Reason, ReasonCode, Verdict
from policies.reload import Confirmed, Edit, Judgement, edit_of, judge, newly_due
from policies.retention import Retention, retention


def plan(
    log_dirs: Sequence[LogDirFacts],
    policy_of: PolicyOf,
    request: Request,
    broker: BrokerPolicy | None = None,
    confirmed: Mapping[str, Confirmed] | None = None,
) -> Plan:
    """Plan a run. The function is pure and deterministic; it sorts partitions by name within their log dir.

    Args:
        log_dirs: the facts.
        policy_of: gives the configuration of a partition's topic.
        request: the moment of the run, and the user's restrictions and confirmations.
        broker: the configuration for all topics alike; None takes Kafka's defaults.
        confirmed: log dir -> the configurations that the saved one is compared with; without any nothing waits.
    """
    judged = judge(log_dirs, policy_of, request, broker or BrokerPolicy(), confirmed or {})
    planned = (
        _plan_log_dir(facts, policy_of, request, judged, (confirmed or {}).get(facts.path)) for facts in log_dirs
    )
    return Plan(request, tuple(planned), judged.log_dirs, judged.let_through)


def _plan_log_dir(
    facts: LogDirFacts, policy_of: PolicyOf, request: Request, judged: Judgement, confirmed: Confirmed | None
) -> LogDirPlan:
    guard = next(log_dir_guards(facts, request, judged.broker), None) or judged.withheld.get(facts.path)

    def planned(log: PartitionFacts) -> PartitionPlan:
        policy = policy_of(log)
        if guard:
            return _held_back(log, policy, guard)
        waits = judged.waiting.get((facts.path, log.topic_partition.topic))
        edit = edit_of(log, policy, confirmed) if waits else None
        if waits and edit:
            return _with_earlier_limits(log, policy, edit, waits, request, judged.broker)
        return plan_partition(log, policy, request, judged.broker)

    partitions = (p if isinstance(p, UnreadablePartition) else planned(p) for p in facts.partitions)
    foreign = config_guard(facts.config) if facts.config else None
    in_order = tuple(sorted(partitions, key=_by_name))
    return LogDirPlan(facts, in_order, guard, foreign, judged.of_all.get(facts.path))


def _with_earlier_limits(
    facts: PartitionFacts, policy: TopicPolicy, edit: Edit, guard: Reason, request: Request, broker: BrokerPolicy
) -> PartitionPlan:
    """Plan a partition whose saved limits wait, by the limits that keep most. Segments that the edit would delete say
    so.
    """
    if edit.kept.is_hands_off or not edit.kept.cleanup_policy:
        why = exemption(facts, policy) or guard
        return PartitionPlan(facts, edit.kept, _all_kept(facts.segments, why), guard=guard, waiting=policy)
    planned = plan_partition(facts, edit.kept, request, broker)
    due = {segment.base_offset for segment in newly_due(facts, policy, edit, request)}
    is_exempt = exemption(facts, policy) is not None
    verdicts = tuple(
        verdict._replace(reason=guard)
        if verdict.base_offset in due and verdict.action is Action.KEEP and not is_exempt
        else verdict
        for verdict in planned.verdicts
    )
    return replace(planned, verdicts=verdicts, guard=planned.guard or guard, waiting=policy)


def log_dir_guards(facts: LogDirFacts, request: Request, broker: BrokerPolicy) -> Iterator[Reason]:
    """Return the guard rails that hold a whole log dir back and that nobody confirmed."""
    clock = clock_guard(facts.clock, broker) if facts.clock else None
    config = config_guard(facts.config) if facts.config and request.in_place else None
    for guard in (clock, config):
        if held := unless_confirmed(guard, facts.path, request):
            yield held


def _held_back(facts: PartitionFacts, policy: TopicPolicy, guard: Reason) -> PartitionPlan:
    return PartitionPlan(facts, policy, _all_kept(facts.segments, exemption(facts, policy) or guard), guard=guard)


def _by_name(planned: PartitionPlan | UnreadablePartition) -> tuple[str, int]:
    facts = planned if isinstance(planned, UnreadablePartition) else planned.facts
    return facts.topic_partition


def plan_partition(
    facts: PartitionFacts, policy: TopicPolicy, request: Request, broker: BrokerPolicy | None = None
) -> PartitionPlan:
    """Plan one partition: retention first, then compaction of the segments that retention leaves.

    Args:
        facts: the partition.
        policy: the configuration of its topic.
        request, broker: as for ``plan``.
    """
    if request.assume_committed and facts.high_watermark is None:
        facts = assume_committed(facts)
    if (reason := exemption(facts, policy) or switched_off(policy, broker or BrokerPolicy())) is not None:
        return PartitionPlan(facts, policy, _all_kept(facts.segments, reason))
    outcome = _retention(facts, policy, request)
    guard = unless_confirmed(delete_ratio_guard(facts, outcome.deleted, policy), str(path_of(facts)), request)
    if guard is not None:
        return _held_back(facts, policy, guard)
    deletion = deletion_of(facts, outcome.verdicts, outcome.deleted)
    planned = PartitionPlan(facts, policy, outcome.verdicts, deletion)
    if not policy.cleanup_compact or request.only is Only.RETENTION or not facts.segments:
        return planned
    if outcome.deletes_everything:
        return replace(planned, checkpoint_offset=_checkpoint_of_an_empty_log(facts))
    planned = _with_compaction(planned, facts.without_oldest(outcome.deleted), outcome, request)
    guard = unless_confirmed(counted_guard(planned), str(path_of(facts)), request)
    return compaction_held_back(planned, guard) if guard else planned


def assume_committed(facts: PartitionFacts) -> PartitionFacts:
    """Return the facts with the log end as high watermark: all is committed, except open transactions."""
    stable = facts.log_end_offset if facts.last_stable_offset is None else facts.last_stable_offset
    return replace(facts, high_watermark=facts.log_end_offset, last_stable_offset=stable)


def _all_kept(segments: Sequence[SegmentFacts], reason: Reason) -> tuple[Verdict, ...]:
    return tuple(Verdict(s.base_offset, s.size_bytes, Action.KEEP, reason) for s in segments)


def _retention(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> Retention:
    if request.only is Only.COMPACTION:
        reason = Reason(ReasonCode.NOT_ASKED, "--only compaction leaves retention out")
        return Retention(_all_kept(facts.segments, reason), 0)
    return retention(facts, policy, request.now_ms)


def deletion_of(facts: PartitionFacts, verdicts: Sequence[Verdict], count: int) -> Deletion | None:
    """Return the deletion of the ``count`` oldest segments, given the verdicts on all; None if none is to go."""
    if not count:
        return None
    new_start = facts.upper_offset(count - 1)
    roll_at = facts.log_end_offset if count == len(facts.segments) else None
    return Deletion(facts.segments[:count], tuple(verdicts[:count]), max(new_start, facts.log_start_offset), roll_at)


def _with_compaction(
    planned: PartitionPlan, left: PartitionFacts, outcome: Retention, request: Request
) -> PartitionPlan:
    """Add the compaction of the segments that retention leaves. Its verdicts replace those of retention."""
    policy, kept = planned.policy, outcome.kept
    section = cleanable(left, policy, request.now_ms)
    why_not = refusal(left, policy, section, request.now_ms, forced=request.force_compaction)
    if why_not is not None:
        speaks_of_retention = policy.cleanup_delete and request.only is not Only.COMPACTION
        verdicts = kept if speaks_of_retention else tuple(_uncompacted(v, section, why_not) for v in kept)
        compaction, checkpoint = None, section.first_dirty_offset if section.checkpoint_is_invalid else None
    else:
        dirty = _dirty(section, cause(left, policy, section, request.now_ms))
        verdicts = tuple(_compacted(v, left.upper_offset(place), section, dirty) for place, v in enumerate(kept))
        round_ = compaction_round(left, policy, section)
        segments = tuple(s for s in left.segments if s.base_offset < section.first_uncleanable_offset)
        compaction, checkpoint = Compaction(round_, segments), None
    return replace(
        planned,
        verdicts=outcome.gone + verdicts,
        compaction=compaction,
        section=section,
        checkpoint_offset=checkpoint,
    )


def _checkpoint_of_an_empty_log(facts: PartitionFacts) -> int | None:
    """Return the first dirty offset of an emptied log; None if the checkpoint states it already, or has no line."""
    return facts.log_end_offset if facts.cleaner_checkpoint not in (None, facts.log_end_offset) else None


_CLEAN_BEFORE: Final = Reason(
    ReasonCode.CLEAN_BEFORE, "compacted before; newer records may supersede some of its records"
)


def _dirty(section: Cleanable, limit: Limit | None) -> Reason:
    since = f"since the last compaction, which ended at {section.first_dirty_offset}"
    text = f"holds records {'that were never compacted' if section.is_first else since}"
    return Reason(ReasonCode.DIRTY, text, limit=limit)


def _compacted(verdict: Verdict, upper_offset: int, section: Cleanable, dirty: Reason) -> Verdict:
    if verdict.base_offset >= section.first_uncleanable_offset:
        return verdict._replace(reason=section.bound)
    reason = dirty if upper_offset > section.first_dirty_offset else _CLEAN_BEFORE
    return verdict._replace(action=Action.COMPACT, reason=reason)


def _uncompacted(verdict: Verdict, section: Cleanable, why_not: Reason) -> Verdict:
    """Give the reason for no round. A segment above the dirty section gets the reason for the section's end instead."""
    above = verdict.base_offset >= section.first_uncleanable_offset
    return verdict._replace(reason=section.bound if above else why_not)
