"""Make the overview of a plan and its outcome. It reads no file and asks no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from cleaner.report.forecast.runways import lasts, without
from cleaner.report.overview.curves import curve_of
from cleaner.report.overview.findings import FINDINGS_MAX, findings_of
from cleaner.report.overview.provenance import Provenance
from cleaner.report.overview.values import (
    Later,
    Overview,
    OverviewFinding,
    OverviewTotals,
    PartitionOverview,
    ReasonOverview,
    ReasonShare,
    TopicOverview,
    WrittenByDay,
)
from cleaner.report.page import counted, size
from cleaner.report.rollup.freed import freed_figure, freed_of, freed_words
from cleaner.report.rollup.rolled import Planned, TopicRoll, rolled
from cleaner.report.rollup.summary import compacted
from cleaner.report.runs import acts_of
from cleaner.report.totals import Totals
from policies.config.policy import BrokerPolicy, Stated
from policies.facts import UnreadablePartition
from policies.forecast.births import DAY_MS
from policies.forecast.prospects import Expiring, releases
from policies.forecast.written import UNDATED, bytes_by_day
from policies.plan import PartitionKey, Plan
from policies.reasons import Action, moment

if TYPE_CHECKING:
    from cleaner.engine.outcome import Outcome
    from cleaner.engine.rehearsal.what_if import Answered
    from policies.forecast.runway import Runway

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
        provenance: who makes the report, and of what.
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


def _lasts(runway: Runway) -> str:
    is_part = runway.days is not None and runway.left_out and not runway.is_endless_in_part
    return f"{lasts(runway)}{f', {without(runway.left_out)}' if is_part else ''}"


def _joined(acts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(acts[:-1]), *acts[-1:]]))


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


def _day(day: int) -> str:
    return moment(day * DAY_MS)[: len("2026-11-23")]
