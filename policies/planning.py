"""Planning: facts and configuration in, the plan of a run out. The functions are pure and deterministic.

A partition may be left alone altogether, whatever its segments are; the others get their verdicts.

Some functions make a plan from another one: for partitions whose files changed between the plan and its steps, without
compactions that a guard rail held back after they read the records, and without all compactions if kernels do not run.

The steps of a log dir have an order. Deletions make space and need next to none, so they come before every compaction.
The smallest step of each kind comes first, because it frees some space even if the disk is too full for the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from policies.compaction import Cleanable, cause, cleanable, compaction_round, refusal
from policies.config.config_keys import DOUBLE_MAX
from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from policies.guards import (
    clock_guard,
    compaction_held_back,
    config_guard,
    counted_guard,
    delete_ratio_guard,
    unless_confirmed,
)
from policies.plan import (
    Compaction,
    Deletion,
    LogDirPlan,
    Only,
    PartitionKey,
    PartitionPlan,
    Plan,
    PolicyOf,
    Request,
    path_of,
)
from policies.reasons import Action, Limit, Reason, ReasonCode, Verdict, moment
from policies.reload import Confirmed, Edit, Judgement, edit_of, judge, newly_due
from policies.retention import Retention, retention

_CLEAN_BEFORE: Final = Reason(
    ReasonCode.CLEAN_BEFORE, "compacted before; newer records may supersede some of its records"
)

_OF_ANOTHER_QUESTION: Final = frozenset({ReasonCode.NOT_ASKED, ReasonCode.TARGET_MET, ReasonCode.NO_GAIN})

SIDE_BY_SIDE_BYTES_MAX: Final = 64 << 20
PROBE_BYTES: Final = 1 << 20
"""The size of a deletion whose gain can be measured even while others write to the disk."""


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
        policy_of: returns the configuration of a partition's topic.
        request: the moment of the run, and the user's restrictions and confirmations.
        broker: the configuration for all topics alike; None takes Kafka's defaults.
        confirmed: log dir -> the configurations that the saved one is compared with; without any nothing waits.
    """
    judged = judge(log_dirs, policy_of, request, broker or BrokerPolicy(), confirmed or {})
    planned = (
        _plan_log_dir(facts, policy_of, request, judged, (confirmed or {}).get(facts.path)) for facts in log_dirs
    )
    return Plan(request, tuple(planned), judged.log_dirs, judged.let_through)


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
    outcome, path = _retention(facts, policy, request), path_of(facts)
    guard = unless_confirmed(delete_ratio_guard(facts, outcome.deleted, policy), path, request)
    if guard is not None:
        return _held_back(facts, policy, guard)
    deletion = deletion_of(facts, outcome.verdicts, outcome.deleted)
    planned = PartitionPlan(facts, policy, outcome.verdicts, deletion)
    if not policy.cleanup_compact or request.only is Only.RETENTION or not facts.segments:
        return planned
    if outcome.deletes_everything:
        return replace(planned, checkpoint_offset=_checkpoint_of_an_empty_log(facts))
    planned = _with_compaction(planned, facts.without_oldest(outcome.deleted), outcome, request)
    guard = unless_confirmed(counted_guard(planned), path, request)
    return compaction_held_back(planned, guard) if guard else planned


def exemption(facts: PartitionFacts, policy: TopicPolicy) -> Reason | None:
    """Return why a run touches nothing of a partition; None if nothing exempts the partition."""
    if facts.held_since_ms is not None:
        words = f"on hold since its restore at {moment(facts.held_since_ms)}"
        return Reason(ReasonCode.HELD, f"{words}, until logcleaner restore --release {facts.topic_partition}")
    if policy.unknown_because is not None:
        return Reason(ReasonCode.CONFIG_UNKNOWN, policy.unknown_because)
    if policy.remote_storage_enable:
        text = "remote storage is on: only the broker knows what was uploaded"
        return Reason(ReasonCode.REMOTE_STORAGE, text, limit=Limit(policy.value_of("remote.storage.enable")))
    return None


def exemption_from_repairs(policy: TopicPolicy) -> str | None:
    """Return why nothing of a topic is mended; None if it may be.

    A derived file tells no more than the log, so it may be made anew even for a topic of unknown configuration.
    """
    if policy.remote_storage_enable:
        return "remote storage is on: only the broker knows what was uploaded"
    return None


def switched_off(policy: TopicPolicy, broker: BrokerPolicy) -> Reason | None:
    """Return why a broker leaves a compacted topic alone; None if it does not. Source: Kafka LogManager.cleanupLogs."""
    if broker.log_cleaner_enable or not policy.cleanup_compact:
        return None
    text = (
        "log.cleaner.enable=false: neither compacted nor, as in Kafka, deleted; --set log.cleaner.enable=true does it"
    )
    return Reason(ReasonCode.CLEANER_DISABLED, text, limit=Limit(broker.value_of("log.cleaner.enable")))


def log_dir_guards(facts: LogDirFacts, request: Request, broker: BrokerPolicy) -> Iterator[Reason]:
    """Return the guard rails that hold a whole log dir back and that nobody confirmed."""
    clock = clock_guard(facts.clock, broker) if facts.clock else None
    config = config_guard(facts.config) if facts.config and request.in_place else None
    for guard in (clock, config):
        if held := unless_confirmed(guard, facts.path, request):
            yield held


def assume_committed(facts: PartitionFacts) -> PartitionFacts:
    """Return the facts with the log end as high watermark: everything counts as committed, except open transactions."""
    stable = facts.log_end_offset if facts.last_stable_offset is None else facts.last_stable_offset
    return replace(facts, high_watermark=facts.log_end_offset, last_stable_offset=stable)


def deletion_of(facts: PartitionFacts, verdicts: Sequence[Verdict], count: int) -> Deletion | None:
    """Return the deletion of the ``count`` oldest segments, given the verdicts on all; None if none is to go."""
    if not count:
        return None
    new_start = facts.upper_offset(count - 1)
    roll_at = facts.log_end_offset if count == len(facts.segments) else None
    return Deletion(facts.segments[:count], tuple(verdicts[:count]), max(new_start, facts.log_start_offset), roll_at)


def limited_to(plan: Plan, keys: Collection[PartitionKey]) -> Plan:
    """Return the plan of the partitions with these keys alone. Partitions that cannot be read are left out, too."""
    log_dirs = (
        replace(d, partitions=tuple(p for p in d.partitions if isinstance(p, PartitionPlan) and p.key in keys))
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def without_compactions(plan: Plan) -> Plan:
    """Return the plan without its compactions. The verdicts stay, and a report says that they were not carried out."""
    log_dirs = (
        replace(
            d,
            partitions=tuple(replace(p, compaction=None) if isinstance(p, PartitionPlan) else p for p in d.partitions),
        )
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def replanned(plan: Plan, again: Plan, deleted: Mapping[PartitionKey, int]) -> Plan:
    """Return the plan that a run carried out: the first plan, with the partitions of the second plan in their places.

    Args:
        plan: the first plan.
        again: the second plan.
        deleted: for each partition of the second plan, the number of segments deleted by the first plan.
    """
    anew = {planned.key: planned for planned in again.partitions}
    log_dirs = (
        replace(
            d,
            partitions=tuple(
                _joined(p, anew[p.key], deleted[p.key]) if isinstance(p, PartitionPlan) and p.key in anew else p
                for p in d.partitions
            ),
        )
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def held_back(plan: Plan, guards: Mapping[PartitionKey, Reason]) -> Plan:
    """Return the plan without the compactions that guard rails held back while they ran.

    Args:
        plan: the plan.
        guards: for each such partition, the guard rail.
    """
    if not guards:
        return plan
    log_dirs = (
        replace(
            d,
            partitions=tuple(
                compaction_held_back(p, guards[p.key]) if isinstance(p, PartitionPlan) and p.key in guards else p
                for p in d.partitions
            ),
        )
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def next_expiry_ms(planned: PartitionPlan, now_ms: int) -> int | None:
    """Return the epoch ms from which the oldest segment may be deleted.

    Return ``now_ms`` if retention may delete the segment already, and None if no limit of time applies.
    """
    if planned.policy.unknown or planned.policy.remote_storage_enable or planned.facts.held_since_ms is not None:
        return None
    if planned.deletion:
        return now_ms
    verdicts = retention_verdicts(planned, now_ms)
    if not verdicts:
        return None
    return now_ms if verdicts[0].action is Action.DELETE else verdicts[0].reason.until_ms


def retention_verdicts(planned: PartitionPlan, now_ms: int) -> Sequence[Verdict]:
    """Return retention's verdicts. Ask retention again only if a compaction or a guard has replaced its verdicts."""
    facts, policy = planned.facts, planned.policy
    if not policy.cleanup_delete:  # only the log start offset deletes, by the base of the second segment
        return retention(replace(facts, segments=facts.segments[:2]), policy, now_ms).verdicts
    is_its_own = not any(verdict.reason.code in _OF_ANOTHER_QUESTION for verdict in planned.verdicts[:1])
    if is_its_own and planned.guard is None and not policy.cleanup_compact:
        return planned.verdicts
    return retention(facts, policy, now_ms).verdicts


def deletion_steps(plan: LogDirPlan, *, at_once: bool) -> tuple[PartitionPlan, ...]:
    """Return the deletions in their order. Each must be carried out whole.

    Args:
        plan: the plan of one log dir.
        at_once: True if the files are unlinked at once, which works with 0 bytes free. A deletion of all segments is
            the only one that writes: it rolls an empty segment. Its newest segment is then a step of its own, after all
                steps that need no space.
    """
    steps = [p for p in _planned(plan) if p.deletion]
    if at_once:
        steps = [part for step in steps for part in _with_newest_apart(step)]
    return tuple(sorted(steps, key=lambda step: (at_once and _rolls(step), _deleted_bytes(step))))


def with_oldest_apart(step: PartitionPlan) -> Sequence[PartitionPlan]:
    """Split a deletion into two steps: the oldest segments up to ``PROBE_BYTES`` of the disk, and the rest.

    The space that the first step frees shows whether the second step is worth its while.
    """
    deletion = step.deletion
    assert deletion is not None
    taken_bytes = accumulate(segment.disk_bytes for segment in deletion.segments)
    count = next((n for n, taken in enumerate(taken_bytes, 1) if taken >= PROBE_BYTES), len(deletion.segments))
    return (step,) if count == len(deletion.segments) else _apart(step, count)


def compaction_steps(plan: LogDirPlan) -> tuple[PartitionPlan, ...]:
    """Return the compactions, smallest working space first."""
    return tuple(sorted((p for p in _planned(plan) if p.compaction), key=_working_bytes))


def compaction_crews(
    steps: Sequence[PartitionPlan], threads: int, broker: BrokerPolicy
) -> tuple[tuple[PartitionPlan, ...], tuple[PartitionPlan, ...]]:
    """Divide the compactions: small ones run side by side, with one thread each, and the others in turn, with all
    threads.

    A small compaction mostly waits for fsyncs; other compactions can use that time. With a limit on the rate,
    compactions go one at a time.
    """
    small = tuple(step for step in steps if _is_small(step))
    is_limited = broker.log_cleaner_io_max_bytes_per_second < DOUBLE_MAX
    if threads == 1 or len(small) < 2 or is_limited:
        return (), tuple(steps)
    return small, tuple(step for step in steps if not _is_small(step))


def scratch_bytes(plan: LogDirPlan, *, at_once: bool) -> int:
    """Return the most free space that the compactions of a log dir need. Output counts as large as its input.

    Args:
        plan: the plan of one log dir.
        at_once: True if the replaced segments are unlinked at once; else all of them wait for ``file.delete.delay.ms``.
    """
    compactions = [p.compaction for p in _planned(plan) if p.compaction]
    if at_once:
        return max((compaction.working_bytes for compaction in compactions), default=0)
    return sum(compaction.size_bytes for compaction in compactions)


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


def _held_back(facts: PartitionFacts, policy: TopicPolicy, guard: Reason) -> PartitionPlan:
    return PartitionPlan(facts, policy, _all_kept(facts.segments, exemption(facts, policy) or guard), guard=guard)


def _all_kept(segments: Sequence[SegmentFacts], reason: Reason) -> tuple[Verdict, ...]:
    return tuple(Verdict(s.base_offset, s.size_bytes, Action.KEEP, reason) for s in segments)


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


def _by_name(planned: PartitionPlan | UnreadablePartition) -> tuple[str, int]:
    facts = planned if isinstance(planned, UnreadablePartition) else planned.facts
    return facts.topic_partition


def _retention(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> Retention:
    if request.only is Only.COMPACTION:
        reason = Reason(ReasonCode.NOT_ASKED, "--only compaction leaves retention out")
        return Retention(_all_kept(facts.segments, reason), 0)
    return retention(facts, policy, request.now_ms)


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


def _dirty(section: Cleanable, limit: Limit | None) -> Reason:
    since = f"since the last compaction, which ended at {section.first_dirty_offset}"
    text = f"holds records {'that were never compacted' if section.is_first else since}"
    return Reason(ReasonCode.DIRTY, text, limit=limit)


def _compacted(verdict: Verdict, upper_offset: int, section: Cleanable, dirty: Reason) -> Verdict:
    if verdict.base_offset >= section.first_uncleanable_offset:
        return verdict._replace(reason=section.bound)
    reason = dirty if upper_offset > section.first_dirty_offset else _CLEAN_BEFORE
    return Verdict(verdict.base_offset, verdict.size_bytes, Action.COMPACT, reason)


def _uncompacted(verdict: Verdict, section: Cleanable, why_not: Reason) -> Verdict:
    """Return the verdicts with the reason for which there is no round.

    A segment above the dirty section gets the reason for the section's end instead.
    """
    above = verdict.base_offset >= section.first_uncleanable_offset
    return verdict._replace(reason=section.bound if above else why_not)


def _checkpoint_of_an_empty_log(facts: PartitionFacts) -> int | None:
    """Return the first dirty offset of an emptied log; None if the checkpoint states it already, or has no line."""
    return facts.log_end_offset if facts.cleaner_checkpoint not in (None, facts.log_end_offset) else None


def _joined(first: PartitionPlan, second: PartitionPlan, deleted: int) -> PartitionPlan:
    """Return the second plan, with the segments that the first plan deleted in front."""
    segments = first.facts.segments[:deleted] + second.facts.segments
    facts = replace(second.facts, segments=segments)
    count = deleted + (len(second.deletion.segments) if second.deletion else 0)
    verdicts = first.verdicts[:deleted] + second.verdicts
    return replace(second, facts=facts, verdicts=verdicts, deletion=deletion_of(facts, verdicts, count))


def _planned(plan: LogDirPlan) -> list[PartitionPlan]:
    return [p for p in plan.partitions if isinstance(p, PartitionPlan)]


def _with_newest_apart(step: PartitionPlan) -> Sequence[PartitionPlan]:
    deletion = step.deletion
    assert deletion is not None
    older = len(deletion.segments) - 1
    return (step,) if deletion.roll_at_offset is None or not older else _apart(step, older)


def _apart(step: PartitionPlan, count: int) -> tuple[PartitionPlan, PartitionPlan]:
    """Split a deletion into that of its ``count`` oldest segments, and that of the others."""
    assert step.deletion is not None
    left: PartitionFacts = step.facts.without_oldest(count)
    verdicts = step.verdicts[count:]
    others = deletion_of(left, verdicts, len(step.deletion.segments) - count)
    rest = replace(step, facts=left, verdicts=verdicts, deletion=others)
    return replace(step, deletion=deletion_of(step.facts, step.verdicts, count)), rest


def _deleted_bytes(step: PartitionPlan) -> int:
    return step.deletion.size_bytes if step.deletion else 0


def _rolls(step: PartitionPlan) -> bool:
    return step.deletion is not None and step.deletion.roll_at_offset is not None


def _working_bytes(step: PartitionPlan) -> int:
    return step.compaction.working_bytes if step.compaction else 0


def _is_small(step: PartitionPlan) -> bool:
    return step.compaction is not None and step.compaction.size_bytes <= SIDE_BY_SIDE_BYTES_MAX
