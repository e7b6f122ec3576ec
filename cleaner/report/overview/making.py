"""Make the overview of a plan and its outcome. It reads no file and asks no clock.

The overview tells what the plan cannot do and why, and what keeps bytes, each with its remedy. It explains partitions
whose reasons ask for a person, as ``explain`` does, but by the facts of the plan alone. Its retention curve tells what
each ``retention.ms`` would keep and free, over all partitions that delete.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from cleaner.report.overview.provenance import Provenance
from cleaner.report.overview.values import (
    CurvePlace,
    InForce,
    Later,
    Overview,
    OverviewFinding,
    OverviewTotals,
    PartitionOverview,
    ReasonOverview,
    ReasonShare,
    RetentionCurve,
    TopicOverview,
    WrittenByDay,
)
from cleaner.report.rollup.listing import compacted
from cleaner.report.rollup.rolled import Planned, TopicRoll, freed_figure, freed_of, freed_words, rolled
from cleaner.report.runs import acts_of
from cleaner.report.runways import lasts, without
from cleaner.report.totals import Totals, log_dir_errors
from policies.config.config_layers import is_internal
from policies.config.policy import BrokerPolicy, Stated
from policies.explain.blockers import BlockerCode
from policies.explain.explanation import blockers_of
from policies.explain.observations import Observations, SegmentTimes
from policies.facts import UnreadablePartition
from policies.forecast.births import DAY_MS, UNDATED, bytes_by_day
from policies.forecast.prospects import Expiring, Threshold, releases, thresholds
from policies.plan import Only, PartitionKey, PartitionPlan, Plan
from policies.reasons import INT64_MAX, Action, ReasonCode, counted, moment, size

if TYPE_CHECKING:
    from cleaner.engine.outcome import Outcome
    from cleaner.engine.rehearsal.what_if import Answered
    from policies.forecast.runway import Runway

_HOUR_MS: Final = 3_600_000
_ROUND_MS: Final = (
    *(hours * _HOUR_MS for hours in (1, 6, 12)),
    *(days * DAY_MS for days in (1, 2, 3, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365)),
)
"""Limits that people ask for."""
_PLACES: Final = 80
_IN_FORCE_MAX: Final = 8

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

LaterOf = Mapping[PartitionKey, Sequence[Expiring]]
LATER_DAYS: Final = 7
_AHEAD_DAYS: Final = 30
GROWTH_DAYS: Final = 30
GROWTH_TOPICS: Final = 5


def overview_of(
    plan: Plan,
    outcome: Outcome,
    provenance: Provenance,
    *,
    runways: Sequence[Runway],
    answered: Sequence[Answered] = (),
    broker: BrokerPolicy | None = None,
    symptoms: Sequence[OverviewFinding] = (),
    ended_ms: int | None = None,
) -> Overview:
    """Return the overview of a run.

    Args:
        plan: the plan.
        outcome: what was done, or would be.
        provenance: of the report.
        runways: how long the file systems of the log dirs last.
        answered: answers to ``--what-if``; the curve has a place for each ``retention.ms`` that was asked.
        broker: the configuration for all topics alike, which findings rest on.
        symptoms: what ``doctor`` found; these findings come first.
        ended_ms: when the run ended, epoch ms; by default at the moment of the plan.
    """
    rolls = rolled(plan, outcome)
    later = {planned.key: list(releases(planned, plan.request)) for planned in plan.partitions}
    topics = tuple(_topic(roll, later, outcome, plan.request.now_ms) for roll in rolls)
    totals = _totals(topics, plan, outcome)
    found = [*symptoms, *findings_of(plan, outcome, broker or BrokerPolicy())]
    sums = Totals.of(plan, outcome)
    ended_ms = plan.request.now_ms if ended_ms is None else ended_ms
    return Overview(
        provenance,
        _sentence(sums, totals, runways, outcome),
        freed_figure(plan, sums, outcome, ended_ms),
        freed_words(plan, sums, outcome, ended_ms),
        totals,
        topics,
        tuple(_partition(p, later, outcome) for log_dir in plan.log_dirs for p in log_dir.partitions),
        tuple(_reasons(plan, outcome)),
        tuple(runways),
        _later([release for found in later.values() for release in found], plan.request.now_ms),
        curve_of(plan, answered),
        _growth(rolls, plan.request.now_ms),
        tuple(found[:FINDINGS_MAX]),
        max(len(found) - FINDINGS_MAX, 0),
    )


def findings_of(plan: Plan, outcome: Outcome, broker: BrokerPolicy) -> list[OverviewFinding]:
    """Return the findings: failures first, then what keeps the most bytes."""
    found = [*_failures(plan, outcome), *_of_log_dirs(plan)]
    asking = sorted((p for p in plan.partitions if _asks(p)), key=lambda p: -p.facts.size_bytes)
    kept = [finding for planned in asking[:_EXPLAINED_MAX] for finding in _blockers(planned, plan, broker)]
    return [*found, *sorted(kept, key=lambda finding: -(finding.bytes or 0))]


def curve_of(plan: Plan, answered: Sequence[Answered] = ()) -> RetentionCurve | None:
    """Return the curve; None if no partition deletes by time, or if the run leaves retention out.

    Args:
        plan: the plan.
        answered: answers to ``--what-if``.
    """
    now_ms = plan.request.now_ms
    if plan.request.only is Only.COMPACTION:
        return None
    found = [threshold for planned in plan.partitions for threshold in thresholds(planned, now_ms)]
    if all(threshold.limit_ms == INT64_MAX for threshold in found):
        return None
    asked = {
        stated.value
        for question, _ in answered
        for stated in question.values
        if question.key == "retention.ms" and isinstance(stated.value, int) and stated.value >= 0
    }
    in_force = _in_force(plan)
    longest_ms = max(threshold.limit_ms for threshold in found if threshold.limit_ms < INT64_MAX)
    shown_ms = _shown_ms(longest_ms, [*asked, *(value.limit_ms for value in in_force)])
    rounded = sorted({*asked, *(limit_ms for limit_ms in _ROUND_MS if limit_ms <= shown_ms)})
    steps = {shown_ms * place // _PLACES for place in range(_PLACES + 1)}
    marks = {value.limit_ms for value in in_force if value.limit_ms <= shown_ms} | set(rounded)
    curve = _Curve(found, sum(p.facts.size_bytes + _companions(p.facts.segments) for p in plan.partitions))
    return RetentionCurve(
        tuple(curve.at(limit_ms) for limit_ms in sorted(steps | marks)),
        tuple(curve.at(limit_ms) for limit_ms in rounded),
        in_force,
    )


def _totals(topics: Sequence[TopicOverview], plan: Plan, outcome: Outcome) -> OverviewTotals:
    totals = Totals.of(plan, outcome)
    segments: Counter[str] = Counter()
    for topic in topics:
        for share in topic.reasons:
            segments[share.action] += share.segments
    freed = freed_of(plan, totals, outcome)
    return OverviewTotals(
        topics=len(topics),
        partitions=totals.partitions,
        segments=sum(segments.values()),
        bytes=sum(topic.bytes for topic in topics),
        deleted_segments=segments[Action.DELETE],
        deleted_bytes=sum(topic.deleted_bytes for topic in topics),
        compacted_segments=segments[Action.COMPACT],
        compacted_bytes=sum(topic.compacted_bytes for topic in topics),
        kept_segments=segments[Action.KEEP],
        kept_bytes=sum(topic.kept_bytes for topic in topics),
        freed_bytes=freed.in_the_end_bytes,
        freed_at_once_bytes=freed.now_bytes,
        bytes_now=freed.of_bytes if outcome.dry_run else freed.of_bytes - freed.now_bytes,
        is_estimate=totals.is_estimate,
    )


def _sentence(done: Totals, totals: OverviewTotals, runways: Sequence[Runway], outcome: Outcome) -> str:
    """Return what the run does, by the figures of the text report, and how long the disk lasts."""
    would = "would " if outcome.dry_run else ""
    acts = []
    if done.deleted_segments:
        of = counted(done.deleting_partitions, "partition")
        what = f"{counted(done.deleted_segments, 'segment')} of {of} ({size(done.deleted_bytes)})"
        acts.append(f"{'delete' if would else 'deleted'} {what}")
    if done.compacted_partitions:
        to_bytes = None if done.is_estimate else done.compacted_to_bytes
        sizes = compacted(done.compacted_from_bytes, to_bytes, done.dirty_bytes)
        what = f"{counted(done.compacted_partitions, 'partition')} ({sizes})"
        acts.append(f"{'compact' if would else 'compacted'} {what}")
    if outcome.swept_bytes:
        what = f"{size(outcome.swept_bytes)} in .deleted files of earlier runs for good"
        acts.append(f"{'unlink' if would else 'unlinked'} {what}")
    does = f"This run {would}{_joined(acts) or ('change nothing' if would else 'changed nothing')}"
    failed = f"; {counted(done.failed, 'partition')} {'would fail' if would else 'failed'}" if done.failed else ""
    rest = f"{size(totals.kept_bytes)} of {size(totals.bytes)} stay as they are"
    disk = f" Disk: {_lasts(runways[0])}." if len(runways) == 1 else ""
    return f"{does}{failed}; {rest}.{disk}"


def _joined(acts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(acts[:-1]), *acts[-1:]]))


def _lasts(runway: Runway) -> str:
    is_part = runway.days is not None and runway.left_out and not runway.is_endless_in_part
    return f"{lasts(runway)}{f', {without(runway.left_out)}' if is_part else ''}"


def _later(found: Sequence[Expiring], now_ms: int) -> Later:
    by_day: Counter[int] = Counter()
    for release in found:
        if release.at_ms < now_ms + _AHEAD_DAYS * DAY_MS:
            by_day[release.at_ms // DAY_MS] += release.size_bytes
    first_ms = min((release.at_ms for release in found), default=None)
    return Later(
        sum(release.size_bytes for release in found if release.at_ms <= now_ms + LATER_DAYS * DAY_MS),
        LATER_DAYS,
        first_ms,
        sum(release.size_bytes for release in found if release.at_ms == first_ms),
        tuple((_day(day), by_day[day]) for day in sorted(by_day)),
    )


def _day(day: int) -> str:
    return moment(day * DAY_MS)[: len("2026-11-23")]


def _growth(rolls: Sequence[TopicRoll], now_ms: int) -> WrittenByDay:
    last = now_ms // DAY_MS
    days = range(last - GROWTH_DAYS + 1, last + 1)
    written = {
        roll.topic: sum((bytes_by_day(p.facts, now_ms, days.start) for p in roll.plans), Counter[int]())
        for roll in rolls
    }
    lately = {topic: sum(found[day] for day in days) for topic, found in written.items()}
    most = sorted(lately, key=lambda topic: (-lately[topic], topic))
    shown = [topic for topic in islice(most, GROWTH_TOPICS) if lately[topic]]
    others = [topic for topic in most if topic not in shown]
    series: list[tuple[str | None, tuple[int, ...]]] = [
        (topic, tuple(written[topic][day] for day in days)) for topic in shown
    ]
    if any(lately[topic] for topic in others):
        series.append((None, tuple(sum(written[topic][day] for topic in others) for day in days)))
    older = sum(size for found in written.values() for day, size in found.items() if 0 <= day < days.start)
    undated = sum(found[UNDATED] for found in written.values())
    return WrittenByDay(tuple(_day(day) for day in days), tuple(series), older, undated)


def _topic(roll: TopicRoll, releases_of: LaterOf, outcome: Outcome, now_ms: int) -> TopicOverview:
    later = [release for planned in roll.plans for release in releases_of[planned.key]]
    sizes: Counter[tuple[Action, str]] = Counter()
    segments: Counter[tuple[Action, str]] = Counter()
    for planned in roll.plans:
        for verdict, action, code in acts_of(planned, outcome):
            sizes[action, code] += verdict.size_bytes
            segments[action, code] += 1
    by_action = {act: sum(size for (action, _), size in sizes.items() if action is act) for act in Action}
    shares = (ReasonShare(key[0].value, key[1], segments[key], sizes[key]) for key in segments)
    sections = [p for p in roll.plans if p.section]
    ratio = roll.dirty_ratio
    return TopicOverview(
        roll.topic,
        roll.plans[0].policy.cleanup_policy if roll.plans else None,
        roll.partitions,
        sum(segments.values()),
        roll.size_bytes,
        by_action[Action.DELETE],
        by_action[Action.COMPACT],
        roll.size_bytes - by_action[Action.DELETE] - by_action[Action.COMPACT],
        sum(p.section.dirty_bytes for p in sections if p.section) if sections else None,
        None if ratio is None else round(ratio, 6),
        sections[0].policy.min_cleanable_dirty_ratio if sections else None,
        sum(release.size_bytes for release in later if release.at_ms <= now_ms + LATER_DAYS * DAY_MS),
        tuple(sorted(shares, key=lambda share: (-share.bytes, share))),
    )


def _reasons(plan: Plan, outcome: Outcome) -> Iterator[ReasonOverview]:
    """Yield the reasons, the reason with the most bytes first."""
    found: dict[tuple[Action, str, Stated | None], _Tally] = {}
    for planned in plan.partitions:
        for (_, size_bytes, _, reason), action, code in acts_of(planned, outcome):
            kind = action, code, reason.limit.stated if reason.limit else None
            if (tally := found.get(kind)) is None:
                tally = found[kind] = _Tally(reason.text)
            tally.topics.add(planned.policy.topic)
            tally.segments += 1
            tally.size_bytes += size_bytes
    for (action, code, stated), tally in sorted(found.items(), key=lambda item: -item[1].size_bytes):
        key, value, origin = (stated.key, stated.shown, stated.origin) if stated else (None, None, None)
        yield ReasonOverview(
            action.value, code, key, value, origin, len(tally.topics), tally.segments, tally.size_bytes, tally.text
        )


@dataclass(slots=True)
class _Tally:
    text: str
    topics: set[str] = field(default_factory=set)
    segments: int = 0
    size_bytes: int = 0


def _partition(planned: Planned, later: LaterOf, outcome: Outcome) -> PartitionOverview:
    if isinstance(planned, UnreadablePartition):
        return PartitionOverview(*planned.topic_partition, planned.log_dir, 0, 0, 0, None)
    sizes: Counter[Action] = Counter()
    for verdict, action, _ in acts_of(planned, outcome):
        sizes[action] += verdict.size_bytes
    return PartitionOverview(
        *planned.facts.topic_partition,
        planned.facts.log_dir,
        len(planned.verdicts),
        sizes[Action.DELETE],
        sizes[Action.COMPACT],
        min((release.at_ms for release in later[planned.key]), default=None),
    )


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


def _asks(planned: PartitionPlan) -> bool:
    return planned.guard is not None or any(verdict.reason.code in _ASKS for verdict in planned.verdicts)


def _in_force(plan: Plan) -> tuple[InForce, ...]:
    topics: defaultdict[int, set[str]] = defaultdict(set)
    sizes: defaultdict[int, int] = defaultdict(int)
    for planned in plan.partitions:
        policy = planned.policy
        if (
            policy.cleanup_delete
            and policy.retention_ms >= 0
            and not policy.is_hands_off
            and not is_internal(policy.topic)
        ):
            topics[policy.retention_ms].add(policy.topic)
            sizes[policy.retention_ms] += planned.facts.size_bytes
    return tuple(_values(topics, sizes))[:_IN_FORCE_MAX]


def _values(topics: dict[int, set[str]], sizes: dict[int, int]) -> Iterator[InForce]:
    for limit_ms in sorted(topics, key=lambda limit_ms: (-sizes[limit_ms], limit_ms)):
        yield InForce(limit_ms, len(topics[limit_ms]), sizes[limit_ms])


def _shown_ms(longest_ms: int, marked_ms: Sequence[int]) -> int:
    """Return the greatest limit of the line: beyond all that is there, and beyond each mark that is not far away."""
    near = [limit_ms for limit_ms in marked_ms if limit_ms <= 3 * longest_ms]
    return max(longest_ms, _HOUR_MS, *near) * 21 // 20


class _Curve:
    """Answers what a limit keeps and frees, from all segments by the greatest limit that deletes them."""

    def __init__(self, found: Iterable[Threshold], all_bytes: int) -> None:
        ascending = sorted(found)
        self._limits_ms = [threshold.limit_ms for threshold in ascending]
        self._bytes_before = [0, *accumulate(threshold.size_bytes for threshold in ascending)]
        self._all_bytes = all_bytes

    def at(self, limit_ms: int) -> CurvePlace:
        """Return what a limit keeps and frees: it deletes what a limit at least as great deletes, too."""
        freed = self._bytes_before[-1] - self._bytes_before[bisect_left(self._limits_ms, limit_ms)]
        return CurvePlace(limit_ms, self._all_bytes - freed, freed)


def _companions(segments: Sequence[object]) -> int:
    return sum(segment.companions_bytes for segment in segments)  # type: ignore[attr-defined]
