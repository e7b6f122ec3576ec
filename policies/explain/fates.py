"""Tell the fate of each segment: the act of ``clean``, and the verdicts of retention and compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from policies.compaction import refusal
from policies.config.policy import BrokerPolicy
from policies.explain.observations import Observations, SegmentTimes
from policies.facts import PartitionFacts, SegmentFacts
from policies.plan import Only, PartitionPlan, Request
from policies.planning import plan_partition
from policies.reasons import Reason, ReasonCode, Verdict
from policies.retention import retention

EXEMPT: Final = frozenset(
    {ReasonCode.HELD, ReasonCode.CONFIG_UNKNOWN, ReasonCode.REMOTE_STORAGE, ReasonCode.CLEANER_DISABLED}
)
"""The reasons for which neither retention nor compaction is asked."""
_EXPIRING: Final = frozenset(
    {
        ReasonCode.TIME_NOT_REACHED,
        ReasonCode.FUTURE_TIMESTAMP,
        ReasonCode.BEHIND_KEPT_SEGMENT,
        ReasonCode.RECORDS_MISSING,
        ReasonCode.RETENTION_TIME,
    }
)


class SegmentFate(NamedTuple):
    """The fate of one segment."""

    facts: SegmentFacts
    upper_offset: int
    """The base offset of the next segment, or the log end offset."""
    times: SegmentTimes
    verdict: Verdict
    """What ``clean`` does now."""
    retention: Reason | None
    """Why retention deletes the segment, or does not; None if it is not asked."""
    compaction: Reason | None
    """Why compaction takes the segment, or does not; None if it is not asked."""

    @property
    def expires_ms(self) -> int | None:
        """The first moment at which time retention may delete the segment, epoch ms; None if no time is enough."""
        reason = self.retention
        return reason.until_ms if reason is not None and reason.code in _EXPIRING else None


@dataclass(frozen=True)  # no slots: it keeps the fates once somebody asks
class Case:
    """One partition, with everything for its explanation."""

    planned: PartitionPlan
    """What ``clean`` does now."""
    intended: PartitionPlan
    """What ``clean --yes`` does now: no guard rail holds anything back."""
    seen: Observations
    request: Request
    broker: BrokerPolicy

    @cached_property
    def fates(self) -> tuple[SegmentFate, ...]:
        """The fates of the segments, in order."""
        return _fates(self.planned, self.intended, self.seen, self.request)

    @property
    def facts(self) -> PartitionFacts:
        """The partition."""
        return self.planned.facts

    @property
    def deleted(self) -> int:
        """The number of segments that retention deletes now."""
        return len(self.intended.deletion.segments) if self.intended.deletion else 0

    @property
    def left(self) -> PartitionFacts:
        """The partition as retention leaves it; with its last segment, if retention deletes all."""
        return self.facts.without_oldest(min(self.deleted, len(self.facts.segments) - 1))

    @property
    def is_exempt(self) -> bool:
        """True if neither retention nor compaction is asked: a hold, an unknown policy, remote storage."""
        return is_exempt(self.intended)

    def planned_at(self, now_ms: int) -> PartitionPlan:
        """Return what ``clean --yes`` would do at another moment, if no file changed until then."""
        facts = with_times(self.facts, self.planned, self.seen)
        request = replace(self.request, now_ms=now_ms, confirmed=True)
        return plan_partition(facts, self.planned.waiting or self.planned.policy, request, self.broker)


def case_of(planned: PartitionPlan, seen: Observations, request: Request, broker: BrokerPolicy) -> Case:
    """Return the case of a partition.

    Args:
        planned: the plan of ``clean`` for the partition.
        seen: the known facts beside those of the plan.
        request, broker: as for the plan.
    """
    intended = planned
    if planned.guard is not None or planned.waiting is not None:  # else there is nothing that a person could confirm
        confirmed = replace(request, confirmed=True)
        intended = plan_partition(planned.facts, planned.waiting or planned.policy, confirmed, broker)
    planned = replace(planned, facts=intended.facts)  # with the high watermark that --assume-committed gave it
    return Case(planned, intended, seen, request, broker)


def is_exempt(planned: PartitionPlan) -> bool:
    """Return whether a plan keeps a partition without asking retention or compaction."""
    return any(verdict.reason.code in EXEMPT for verdict in planned.verdicts[:1])


def with_times(facts: PartitionFacts, planned: PartitionPlan, seen: Observations) -> PartitionFacts:
    """Return the facts with the newest timestamps that were read from the logs themselves.

    A plan believes a time index until time retention would delete the segment by it. An explanation tells that moment,
    so it uses the timestamps that the plan will find then.
    """
    if not planned.policy.cleanup_delete or planned.policy.retention_ms < 0:
        return facts
    segments = tuple(
        segment._replace(newest_record_ms=times.newest_ms, newest_record_offset=times.newest_offset)
        if times.newest_ms > segment.newest_record_ms
        else segment
        for segment, times in zip(facts.segments, seen.times, strict=True)
    )
    return facts if segments == facts.segments else replace(facts, segments=segments)


def _fates(
    planned: PartitionPlan, intended: PartitionPlan, seen: Observations, request: Request
) -> tuple[SegmentFate, ...]:
    facts, asks = planned.facts, not is_exempt(intended)
    verdicts = _by_retention(planned, seen, request) if asks else ()
    compaction = _by_compaction(intended, request) if asks else {}
    return tuple(
        SegmentFate(
            segment,
            facts.upper_offset(place),
            seen.times[place],
            planned.verdicts[place],
            verdicts[place].reason if asks else None,
            compaction.get(segment.base_offset),
        )
        for place, segment in enumerate(facts.segments)
    )


def _by_retention(planned: PartitionPlan, seen: Observations, request: Request) -> Sequence[Verdict]:
    """Return the verdicts of retention, which are those of the plan if nothing else was asked, and no time is newer."""
    facts = with_times(planned.facts, planned, seen)
    asks_it_alone = not planned.policy.cleanup_compact and request.only is not Only.COMPACTION
    if asks_it_alone and planned.guard is None and planned.waiting is None and facts is planned.facts:
        return planned.verdicts
    return retention(facts, planned.policy, request.now_ms).verdicts


def _by_compaction(intended: PartitionPlan, request: Request) -> Mapping[int, Reason]:
    """Return the verdict of compaction on the segments that retention leaves, by base offset."""
    section = intended.section
    if section is None:
        return {}
    kept = intended.verdicts[len(intended.deletion.segments) if intended.deletion else 0 :]
    if intended.compaction:
        return {verdict.base_offset: verdict.reason for verdict in kept}
    left = intended.facts.without_oldest(len(intended.facts.segments) - len(kept))
    why_not = refusal(left, intended.policy, section, request.now_ms, forced=request.force_compaction)
    assert why_not is not None
    return {
        v.base_offset: section.bound if v.base_offset >= section.first_uncleanable_offset else why_not for v in kept
    }
