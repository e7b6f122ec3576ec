"""What stops or narrows a plan from outside of the log; before each of our steps, one of them in turn is put in its
way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.facts import (
    NO_TIMESTAMP,
    ClockFacts,
    ConfigFacts,
    CountedRound,
    KeyCount,
    LogDirFacts,
    MissingRecords,
    PartitionFacts,
)
from policies.plan import Only, PartitionPlan, Plan, Request
from policies.planning import plan, plan_partition
from policies.reasons import ReasonCode
from policies.reload import Confirmed
from policies.rescue import SpaceTarget, Volume, narrowed
from tests.builders import NOW_MS
from tests.models.small_logs.invariants import demand


def checked_guards(facts: PartitionFacts, policy: TopicPolicy, turn: int) -> set[ReasonCode]:
    """The reasons that a guard gives; it lets nothing happen. The last in turn lets no more happen than without it."""
    if turn % (len(GUARDS) + 1) == len(GUARDS):
        return _checked_narrowed(facts, _deleting(policy)) | _checked_missing(facts, _deleting(policy))
    guarded = GUARDS[turn % (len(GUARDS) + 1)](facts, policy)
    demand(not _takes_something(guarded), "not stopped by a guard", guarded)
    return {verdict.reason.code for verdict in guarded.verdicts}


def _takes_something(planned: PartitionPlan) -> bool:
    """Segments without a byte hold nothing that a guard could keep."""
    is_deleting = planned.deletion is not None and any(s.size_bytes for s in planned.deletion.segments)
    return is_deleting or planned.compaction is not None


def _checked_narrowed(facts: PartitionFacts, policy: TopicPolicy) -> set[ReasonCode]:
    allowed = _plan(facts, policy)
    volume = Volume(("/data",), 1000, 0, 1000)
    (whole,), (part,) = allowed.partitions, narrowed(allowed, [volume], SpaceTarget(1)).partitions
    left, right = (p.deletion.segments if p.deletion else () for p in (part, whole))
    demand(left == right[: len(left)], "free takes what policy does not let go", facts)
    demand(bool(left) == any(s.size_bytes for s in right), "free takes nothing", facts)
    return {verdict.reason.code for verdict in part.verdicts} | _checked_linked(facts, policy, volume)


def _checked_linked(facts: PartitionFacts, policy: TopicPolicy, volume: Volume) -> set[ReasonCode]:
    """A copy of all files shares their blocks."""
    linked = replace(facts, segments=tuple(segment._replace(links=2) for segment in facts.segments))
    (part,) = narrowed(_plan(linked, policy), [volume], SpaceTarget(1)).partitions
    demand(part.deletion is None, "free takes what another link keeps", facts)
    return {verdict.reason.code for verdict in part.verdicts}


def _checked_missing(facts: PartitionFacts, policy: TopicPolicy) -> set[ReasonCode]:
    """Without its second segment, a log begins above the missing records only if they are due, too."""
    if len(facts.segments) < 3:
        return set()
    (first, lost, *others), codes = facts.segments, set()
    young = [segment._replace(newest_record_ms=NOW_MS) for segment in others]
    left = replace(facts, segments=(first._replace(newest_record_ms=0), *young))
    for newest_ms in (NO_TIMESTAMP, 0, NOW_MS):
        missing = MissingRecords(lost.base_offset, f"{lost.base_offset:020d}.index", newest_ms)
        planned = _planned(replace(left, missing=(missing,)), policy)
        start = planned.deletion.new_log_start_offset if planned.deletion else 0
        is_let_go = newest_ms == 0 or facts.log_start_offset >= others[0].base_offset
        demand(is_let_go or start <= lost.base_offset, "begins above missing records", facts)
        codes |= {verdict.reason.code for verdict in planned.verdicts}
    return codes


def _plan(facts: PartitionFacts, policy: TopicPolicy, clock: ClockFacts | None = None) -> Plan:
    return plan([LogDirFacts("/data", None, 0, 0, (facts,), clock=clock)], lambda _: policy, Request(NOW_MS))


def _foreign(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    """Under the configuration of another node."""
    config = ConfigFacts("server.properties", "2", "1")
    log_dir = LogDirFacts("/data", None, 0, 0, (facts,), config=config)
    (planned,) = plan([log_dir], lambda _: policy, Request(NOW_MS, in_place=True)).partitions
    return planned


def _switched_off(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    compacted = replace(policy, cleanup_policy="compact,delete")
    return plan_partition(facts, compacted, Request(NOW_MS), BrokerPolicy(log_cleaner_enable=False))


def _planned(facts: PartitionFacts, policy: TopicPolicy, clock: ClockFacts | None = None) -> PartitionPlan:
    (planned,) = _plan(facts, policy, clock).partitions
    return planned


def _deleting(policy: TopicPolicy) -> TopicPolicy:
    return replace(policy, cleanup_policy="delete", retention_ms=0, retention_bytes=-1)


def _held(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return _planned(replace(facts, held_since_ms=NOW_MS), policy)


def _unknown(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return _planned(facts, replace(policy, unknown_because="nobody stated it"))


def _remote(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return _planned(facts, replace(policy, remote_storage_enable=True))


def _jumped(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return _planned(facts, policy, ClockFacts(NOW_MS, None, None, newest_file_ms=0))


def _too_much(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return _planned(facts, replace(_deleting(policy), max_delete_ratio=0.0))


def _unconfirmed(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    """What the limits were that somebody confirmed last cannot be read."""
    confirmed = {"/data": Confirmed(unreadable="a file is damaged")}
    log_dirs = [LogDirFacts("/data", None, 0, 0, (facts,))]
    (planned,) = plan(log_dirs, lambda _: policy, Request(NOW_MS), None, confirmed).partitions
    return planned


def _unkeyed(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    """An earlier round over the same files met no key."""
    limits = {"min_cleanable_dirty_ratio": 0.0, "min_compaction_lag_ms": 0, "max_unkeyed_ratio": 0.5}
    compacted = replace(policy, cleanup_policy="compact", **limits)  # type: ignore[arg-type]
    log = _from_its_base(facts)
    planned = _planned(log, compacted)
    if planned.compaction is None:
        return planned
    round_ = planned.compaction.round
    count = KeyCount(records=2, unkeyed=2)
    counted = CountedRound(round_.first_dirty_offset, round_.end_offset, count)
    return _planned(replace(log, counted=counted), compacted)


def _uncommitted(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return _planned(replace(facts, high_watermark=None, last_stable_offset=None), policy)


def _not_asked(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return plan_partition(facts, _deleting(policy), Request(NOW_MS, only=Only.COMPACTION))


def _torn(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    """Of the active segment alone."""
    start = max(facts.log_start_offset, facts.active.base_offset)
    active = replace(facts, segments=facts.segments[-1:], log_start_offset=start, torn_tail_bytes=1)
    return _planned(active, _deleting(policy))


def _without_policy(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    return _planned(_from_its_base(facts), replace(policy, cleanup_policy=""))


def _without_limit(facts: PartitionFacts, policy: TopicPolicy) -> PartitionPlan:
    limitless = replace(policy, cleanup_policy="delete", retention_ms=-1, retention_bytes=-1)
    return _planned(_from_its_base(facts), limitless)


def _from_its_base(facts: PartitionFacts) -> PartitionFacts:
    """Nobody deleted records: no segment goes whatever the policy."""
    return replace(facts, log_start_offset=facts.segments[0].base_offset)


GUARDS: Final[tuple[Callable[[PartitionFacts, TopicPolicy], PartitionPlan], ...]] = (
    _held,
    _unknown,
    _remote,
    _jumped,
    _foreign,
    _switched_off,
    _too_much,
    _unconfirmed,
    _unkeyed,
    _uncommitted,
    _not_asked,
    _torn,
    _without_policy,
    _without_limit,
)
