"""Explain one partition: every segment's fate, the blockers, and the next changes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from policies.config.policy import BrokerPolicy
from policies.explain.blockers import (
    Blocker,
    cleaner_behind,
    compaction_blockers,
    file_blockers,
    future_timestamp,
    high_watermark_blockers,
    partition_blockers,
    retention_blockers,
)
from policies.explain.changes import ComingChange, coming_changes
from policies.explain.fates import Case, SegmentFate, case_of
from policies.explain.observations import Observations
from policies.plan import PartitionPlan, Request


@dataclass(frozen=True, slots=True)
class PartitionExplanation:
    """The explanation of one partition, by its files alone."""

    planned: PartitionPlan
    """What ``clean`` does now."""
    intended: PartitionPlan
    """What ``clean --yes`` does now: no guard rail holds anything back."""
    seen: Observations
    segments: tuple[SegmentFate, ...]
    changes: tuple[ComingChange, ...]
    """The changes that time alone brings, the next one first."""
    blockers: tuple[Blocker, ...]

    @property
    def next_change(self) -> ComingChange | None:
        """The next change; None if nothing changes by itself."""
        return self.changes[0] if self.changes else None


def explain(
    planned: PartitionPlan, seen: Observations, request: Request, broker: BrokerPolicy | None = None
) -> PartitionExplanation:
    """Explain a partition.

    Args:
        planned: the plan of ``clean`` for the partition.
        seen: the known facts beside those of the plan.
        request, broker: as for the plan.
    """
    case = case_of(planned, seen, request, broker or BrokerPolicy())
    blockers = tuple(_blockers(case)) if case.fates else ()
    changes = coming_changes(case)
    return PartitionExplanation(case.planned, case.intended, seen, case.fates, changes, blockers)


def in_brief(
    planned: PartitionPlan, seen: Observations, request: Request, broker: BrokerPolicy
) -> PartitionExplanation:
    """Explain a partition as far as the doctor asks: no segment, no change, and the blockers that are findings.

    Arguments: as of ``explain``.
    """
    case = case_of(planned, seen, request, broker)
    found: list[Blocker] = []
    if planned.facts.segments and not case.is_exempt:
        if planned.policy.cleanup_delete and any(times.newest_ms > request.now_ms for times in seen.times):
            found += future_timestamp(case)
        if case.intended.section is not None:
            found += cleaner_behind(case)
    return PartitionExplanation(case.planned, case.intended, seen, (), (), tuple(found))


def blockers_of(
    planned: PartitionPlan, seen: Observations, request: Request, broker: BrokerPolicy
) -> tuple[Blocker, ...]:
    """Return only the blockers of a partition. Arguments: as of ``explain``."""
    case = case_of(planned, seen, request, broker)
    return tuple(_blockers(case)) if case.fates else ()


def _blockers(case: Case) -> list[Blocker]:
    found = list(partition_blockers(case))
    if not case.is_exempt:
        found += high_watermark_blockers(case)
        found += retention_blockers(case)
        found += compaction_blockers(case)
    return [*found, *file_blockers(case)]
