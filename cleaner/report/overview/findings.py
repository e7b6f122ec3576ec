"""The findings of an overview: what the plan cannot do and why, and what keeps bytes, each with its remedy.

What ``explain`` says of one partition by its files is said here by the facts of the plan alone, for the partitions
whose reasons ask for a person. No file is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cleaner.report.overview.values import OverviewFinding
from cleaner.report.totals import log_dir_errors
from policies.config.policy import BrokerPolicy
from policies.explain.blockers import BlockerCode
from policies.explain.explanation import blockers_of
from policies.explain.observations import Observations, SegmentTimes
from policies.plan import PartitionPlan, Plan
from policies.reasons import ReasonCode

if TYPE_CHECKING:
    from cleaner.engine.outcome import Outcome

FINDINGS_MAX: Final = 100
_EXPLAINED_MAX: Final = 200
"""The most partitions that are explained, the largest first: each is planned anew, which takes as long as its plan."""
_ASKS: Final = frozenset(
    {
        ReasonCode.FUTURE_TIMESTAMP,
        ReasonCode.CONFIG_UNKNOWN,
        ReasonCode.NO_HIGH_WATERMARK,
        ReasonCode.ABOVE_HIGH_WATERMARK,
        ReasonCode.OPEN_TRANSACTION,
        ReasonCode.HELD,
        ReasonCode.TORN_TAIL,
        ReasonCode.RECORDS_MISSING,
        ReasonCode.POLICY_EMPTY,
        ReasonCode.CLEANER_DISABLED,
        ReasonCode.NO_LIMIT,
        ReasonCode.CLOCK_JUMPED,
        ReasonCode.FOREIGN_CONFIG,
        ReasonCode.MAX_DELETE_RATIO,
        ReasonCode.MAX_UNKEYED_RATIO,
        ReasonCode.RELOAD_GUARD,
    }
)
"""Reasons that a person may want to do something about."""
_USUAL: Final = frozenset(
    {
        BlockerCode.ACTIVE_SEGMENT,
        BlockerCode.DIRTY_RATIO_LOW,
        BlockerCode.MIN_COMPACTION_LAG,
        BlockerCode.WITHIN_SIZE,
        BlockerCode.TOMBSTONES_WAIT,
    }
)
"""The blockers of ordinary operation: the verdicts tell them, so they are no findings."""


def findings_of(plan: Plan, outcome: Outcome, broker: BrokerPolicy) -> list[OverviewFinding]:
    """Return the findings: failures first, then what keeps the most bytes."""
    found = [*_failures(plan, outcome), *_of_log_dirs(plan)]
    asking = sorted((p for p in plan.partitions if _asks(p)), key=lambda p: -p.facts.size_bytes)
    kept = [finding for planned in asking[:_EXPLAINED_MAX] for finding in _blockers(planned, plan, broker)]
    return [*found, *sorted(kept, key=lambda finding: -(finding.bytes or 0))]


def _failures(plan: Plan, outcome: Outcome) -> Iterator[OverviewFinding]:
    for error in log_dir_errors(plan, outcome):
        yield OverviewFinding("FAILED", None, None, None, None, error, None, None, None)
    for failed in plan.failures:
        topic, partition = failed.topic_partition
        remedy = f"logcleaner verify {failed.topic_partition} tells what is damaged."
        yield OverviewFinding(
            "FAILED", topic, partition, failed.log_dir, None, failed.error, remedy, failed.size_bytes, None
        )
    for (log_dir, (topic, partition)), result in outcome.results.items():
        if result.error:
            yield OverviewFinding("FAILED", topic, partition, log_dir, None, result.error, None, None, None)


def _of_log_dirs(plan: Plan) -> Iterator[OverviewFinding]:
    for log_dir in plan.log_dirs:
        path, guard = log_dir.facts.path, log_dir.guard or log_dir.foreign
        if guard:
            remedy = "If the reason is no mistake, --yes goes on all the same."
            yield OverviewFinding(
                guard.code, None, None, path, None, guard.text, remedy, log_dir.facts.size_bytes, None
            )
        if log_dir.facts.locked_by:
            text = f"{log_dir.facts.locked_by} holds the log dir: a run that changes something would be refused."
            remedy = "Stop the broker first, or leave the cleaning to it."
            yield OverviewFinding("LOCKED", None, None, path, log_dir.facts.locked_by, text, remedy, None, None)


def _asks(planned: PartitionPlan) -> bool:
    return planned.guard is not None or any(verdict.reason.code in _ASKS for verdict in planned.verdicts)


def _blockers(planned: PartitionPlan, plan: Plan, broker: BrokerPolicy) -> Iterator[OverviewFinding]:
    times = tuple(SegmentTimes(-1, s.newest_record_ms, s.newest_record_offset) for s in planned.facts.segments)
    seen = Observations(times, last_stable_offset=planned.facts.last_stable_offset)
    topic, partition = planned.facts.topic_partition
    for blocker in blockers_of(planned, seen, plan.request, broker):
        if blocker.code not in _USUAL:
            yield OverviewFinding(
                blocker.code,
                topic,
                partition,
                planned.facts.log_dir,
                blocker.owner,
                blocker.text,
                blocker.remedy,
                blocker.size_bytes,
                blocker.until_ms,
            )
