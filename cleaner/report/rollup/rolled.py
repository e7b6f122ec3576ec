"""The roll-up of a plan and its outcome: one value for each topic, over all log dirs, and the order of these values.

The space that a run frees, at once and later, has the same figures and words in every report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.report.rollup.view import Sort
from cleaner.report.runs import Stretch, runs_of
from cleaner.report.totals import Totals
from policies.facts import UnreadablePartition
from policies.plan import PartitionPlan, Plan
from policies.planning import next_expiry_ms
from policies.reasons import Action, ReasonCode, counted, duration, moment, size

_MINUTE_MS: Final = 60_000
_SPELLED: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", _MINUTE_MS), ("second", 1000))
_DATE: Final = len("2026-11-23")
_CLOCK: Final = slice(_DATE + 1, _DATE + 6)

_HELD_BACK: Final = frozenset({ReasonCode.CONFIG_UNKNOWN, ReasonCode.HELD, ReasonCode.NO_HIGH_WATERMARK})
"""A partition with one of these reasons stays until a person does something."""
_ENDLESS_MS: Final = 1 << 63
Planned = PartitionPlan | UnreadablePartition

_ACTIONS: Final = (Action.DELETE, Action.COMPACT, Action.KEEP)


class Concern(IntEnum):
    """The kinds of topics, by how much they concern the reader; a report shows the topics in this order."""

    CHANGES = 0
    WAITS_FOR_A_PERSON = 1
    """The topic failed, is held back, or has an unknown configuration."""
    UNCHANGED = 2


@dataclass(frozen=True, slots=True)
class Fate:
    """The segments of some partitions of a topic with the same word and reason code."""

    telling: Stretch
    """The stretch whose reason stands for all."""
    owner: PartitionPlan
    """The partition with that stretch."""
    partitions: int
    segments: int
    size_bytes: int
    alike: bool
    """Whether all have the same reason text."""


@dataclass(frozen=True)
class TopicRoll:
    """One topic: its partitions in all log dirs, and their results. Each sum is made once, when it is first asked for.

    Attributes:
        topic: the name.
        plans: the partitions that could be read.
        unreadable: the partitions that could not be read.
        results: of those partitions that have one.
    """

    topic: str
    plans: tuple[PartitionPlan, ...]
    unreadable: tuple[UnreadablePartition, ...]
    results: tuple[tuple[PartitionPlan, PartitionResult], ...]

    @cached_property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.plans) + len(self.unreadable)

    @cached_property
    def name(self) -> str:
        """The name of the topic, or of its only partition."""
        if self.partitions > 1:
            return self.topic
        return str(self.plans[0].facts.topic_partition if self.plans else self.unreadable[0].topic_partition)

    @cached_property
    def changing(self) -> tuple[PartitionPlan, ...]:
        """The partitions that the plan changes."""
        return tuple(p for p in self.plans if p.has_work)

    @cached_property
    def concern(self) -> Concern:
        """The kind of the topic."""
        if self.changing:
            return Concern.CHANGES
        is_held = any(p.guard or any(v.reason.code in _HELD_BACK for v in p.verdicts[:1]) for p in self.plans)
        return Concern.WAITS_FOR_A_PERSON if is_held or self.errors else Concern.UNCHANGED

    @cached_property
    def errors(self) -> list[str]:
        """A line for each partition that cannot be read, or has a step that failed."""
        return [*(p.error for p in self.unreadable), *(r.error for _, r in self.results if r.error)]

    @cached_property
    def size_bytes(self) -> int:
        """The size of the ``.log`` files before the run."""
        return sum(p.facts.size_bytes for p in self.plans) + sum(p.size_bytes for p in self.unreadable)

    @cached_property
    def reclaimed_bytes(self) -> int:
        """The bytes by which the ``.log`` files of the topic shrink for certain."""
        return sum(
            sum(verdict.size_bytes for verdict in planned.verdicts[: result.deleted_segments])
            + result.compacted_from_bytes
            - result.compacted_to_bytes
            for planned, result in self.results
        )

    @cached_property
    def is_estimate(self) -> bool:
        """True if a compaction may save more than ``reclaimed_bytes`` has, because the data was not read."""
        return any(result.basis is Basis.ESTIMATE for _, result in self.results)

    @cached_property
    def dirty_bytes(self) -> int:
        """The dirty bytes of the partitions that are compacted."""
        return sum(dirty_bytes(p) for p in self.plans if p.compaction)

    @cached_property
    def dirty_ratio(self) -> float | None:
        """The share of dirty bytes in what can be compacted; None if nothing is compacted."""
        sections = [p.section for p in self.plans if p.section]
        all_bytes = sum(section.clean_bytes + section.dirty_bytes for section in sections)
        if not all_bytes:
            return 0.0 if sections else None
        return sum(section.dirty_bytes for section in sections) / all_bytes

    def commonest(self) -> ReasonCode | None:
        """Return the reason code that most bytes have, or most segments if they are empty; None without a segment."""
        sizes: Counter[ReasonCode] = Counter()
        for planned in self.plans:
            for _, size_bytes, _, reason in planned.verdicts:
                sizes[reason.code] += size_bytes + 1
        return max(sizes, key=lambda code: sizes[code], default=None)

    def fates(self, outcome: Outcome) -> list[Fate]:
        """Return the fates of the segments: deletions first, then compactions, then segments that stay."""
        found: dict[tuple[str, ReasonCode], list[tuple[Stretch, PartitionPlan]]] = {}
        for planned in self.plans:
            for stretch in runs_of(planned, outcome):
                found.setdefault((stretch.word, stretch.verdict.reason.code), []).append((stretch, planned))
        return sorted((_fate(stretches) for stretches in found.values()), key=_fate_order)


def rolled(plan: Plan, outcome: Outcome, sort: Sort | None = None) -> list[TopicRoll]:
    """Return the topics: first the topics that change, then the topics that wait for a person.

    Args:
        plan: the plan.
        outcome: what was done, or would be.
        sort: the order among topics of the same concern; by default what changes goes by the bytes reclaimed.
    """
    now_ms = plan.request.now_ms
    return sorted(topics_of(plan, outcome), key=lambda roll: (roll.concern, rank(roll, sort or Sort.RECLAIM, now_ms)))


def topics_of(plan: Plan, outcome: Outcome) -> list[TopicRoll]:
    """Return the topics by name."""
    by_topic: dict[str, list[Planned]] = {}
    for log_dir in plan.log_dirs:
        for planned in log_dir.partitions:
            by_topic.setdefault(topic_of(planned), []).append(planned)
    return [roll_of(planned, outcome) for _, planned in sorted(by_topic.items())]


def roll_of(planned: Sequence[Planned], outcome: Outcome) -> TopicRoll:
    """Return one value for partitions of one topic."""
    plans = tuple(p for p in planned if isinstance(p, PartitionPlan))
    results = tuple((p, outcome.results[p.key]) for p in plans if p.key in outcome.results)
    unreadable = tuple(p for p in planned if isinstance(p, UnreadablePartition))
    return TopicRoll(topic_of(planned[0]), plans, unreadable, results)


def rank(roll: TopicRoll, sort: Sort, now_ms: int) -> tuple[float, ...]:
    """Return the place of a topic in an order: the lowest comes first.

    As a rule each dirty record supersedes another one, so dirty bytes stand for what an unread compaction saves.
    """
    match sort:
        case Sort.BYTES:
            return (-roll.size_bytes,)
        case Sort.RECLAIM:
            return (-roll.reclaimed_bytes, -roll.dirty_bytes if roll.is_estimate else 0, -roll.size_bytes)
        case Sort.DIRTY:
            return (-(roll.dirty_ratio or 0.0), -roll.size_bytes)
        case Sort.EXPIRY:
            return (min((_expiry_ms(p, now_ms) for p in roll.plans), default=_ENDLESS_MS),)


def in_order(planned: Sequence[Planned], outcome: Outcome, sort: Sort | None, now_ms: int) -> Sequence[Planned]:
    """Return partitions in an order; by default as they are."""
    if sort is None:
        return planned
    return sorted(planned, key=lambda one: rank(roll_of([one], outcome), sort, now_ms))


def topic_of(planned: Planned) -> str:
    """Return the name of a partition's topic."""
    facts = planned if isinstance(planned, UnreadablePartition) else planned.facts
    return facts.topic_partition.topic


def expected(plan: Plan) -> Outcome:
    """Return the outcome as far as a plan tells it: the deletions, and compactions with unknown savings."""
    results = {
        p.key: PartitionResult(
            Basis.ESTIMATE if p.compaction else Basis.EXACT,
            deleted_segments=len(p.deletion.segments) if p.deletion else 0,
        )
        for p in plan.partitions
        if p.has_work
    }
    return Outcome(dry_run=True, results=results)


def dirty_bytes(planned: PartitionPlan) -> int:
    """Return the dirty bytes of a partition; 0 if it is not compacted."""
    return planned.section.dirty_bytes if planned.section else 0


class Freed(NamedTuple):
    """The blocks that a run frees, in bytes, with the blocks of files that earlier runs had renamed to ``.deleted``."""

    now_bytes: int
    """The bytes that the run has freed at its end; below 0 if it takes more than before, until the waiting files go."""
    later_bytes: int
    """The bytes that follow once the waiting files go."""
    of_bytes: int
    """The logs before the run, and files that no log has any more."""
    is_estimate: bool
    """Compactions may free more, because the data was not read."""

    @property
    def in_the_end_bytes(self) -> int:
        """The bytes that are free once no file waits any more."""
        return self.now_bytes + self.later_bytes


def freed_of(plan: Plan, totals: Totals, outcome: Outcome) -> Freed:
    """Return what a run has freed, or would free."""
    reclaimed_bytes, swept_bytes = totals.space.reclaimed_disk_bytes, outcome.swept_disk_bytes
    later_bytes = 0 if plan.request.is_at_once else totals.space.waiting_disk_bytes
    now_bytes = reclaimed_bytes + swept_bytes - later_bytes
    if totals.is_estimate:
        later_bytes, now_bytes = min(later_bytes, reclaimed_bytes), max(now_bytes, swept_bytes)
    return Freed(now_bytes, max(later_bytes, 0), totals.disk_bytes_before + swept_bytes, totals.is_estimate)


def freed_words(plan: Plan, totals: Totals, outcome: Outcome, ended_ms: int) -> str:
    """Return a text about the space that the file systems have gained, and will gain, and when; empty if they gain
    nothing.
    """
    if not (totals.deleted_segments or totals.compacted_partitions or outcome.swept_bytes):
        return ""
    freed = freed_of(plan, totals, outcome)
    of = f"of {size(freed.of_bytes)}"
    if totals.is_estimate:
        if not totals.space.reclaimed_disk_bytes + outcome.swept_disk_bytes:
            return "what compaction saves, which nobody knows without --exact"
        of = f"or more {of}"
    if not freed.later_bytes:
        return f"{size(freed.now_bytes)} {of}"
    when = _when(plan, outcome, ended_ms)
    by = f"by the next clean (--delete-delay 0: {'at once' if outcome.dry_run else 'now'})"
    if freed.now_bytes > 0:
        return f"{size(freed.now_bytes)} {of}; {size(freed.later_bytes)} more {when}, {by}"
    # the compacted files stay, so what they take is never free
    taken = f"{size(-freed.now_bytes)} more are in use: the old and the compacted files"
    meanwhile = f"; until then {taken}" if freed.now_bytes else ""
    nothing = "" if outcome.dry_run else "nothing yet; "
    return f"{nothing}{size(freed.in_the_end_bytes)} {of} {when}, {by}{meanwhile}"


def freed_figure(plan: Plan, totals: Totals, outcome: Outcome, ended_ms: int) -> str:
    """Return what is freed and when, in a few words: ``13.3 MiB in 1 minute``."""
    freed = freed_of(plan, totals, outcome)
    least = "at least " if freed.is_estimate else ""
    if freed.now_bytes <= 0 < freed.later_bytes:
        return f"{least}{size(freed.in_the_end_bytes)} {_when(plan, outcome, ended_ms)}"
    return f"{least}{size(freed.now_bytes)}"


def _fate_order(fate: Fate) -> tuple[int, int]:
    return _ACTIONS.index(fate.telling.verdict.action), -fate.size_bytes


def _fate(stretches: Sequence[tuple[Stretch, PartitionPlan]]) -> Fate:
    """Join stretches of several partitions. The stretch next to the border between deleted and kept speaks for all."""
    best = max if stretches[0][0].verdict.action is Action.DELETE else min
    telling, owner = best(stretches, key=lambda one: one[0].verdict.reason.until_ms or _ENDLESS_MS)
    return Fate(
        telling,
        owner,
        len({planned.key for _, planned in stretches}),
        sum(stretch.segments for stretch, _ in stretches),
        sum(stretch.size_bytes for stretch, _ in stretches),
        all(stretch.alike for stretch, _ in stretches)
        and len({stretch.verdict.reason.text for stretch, _ in stretches}) == 1,
    )


def _expiry_ms(planned: PartitionPlan, now_ms: int) -> int:
    expiry_ms = next_expiry_ms(planned, now_ms)
    return _ENDLESS_MS if expiry_ms is None else expiry_ms


def _when(plan: Plan, outcome: Outcome, ended_ms: int) -> str:
    """Return when the files that wait go."""
    asked_ms = plan.request.delete_delay_ms
    delays_ms = {p.policy.file_delete_delay_ms for p in plan.partitions if p.deletion or p.compaction}
    if asked_ms is not None:
        delays_ms = {asked_ms}
    if outcome.dry_run:
        return f"in {' to '.join(map(_spelled, _ends(delays_ms)))}"
    times = " to ".join(_clock(ended_ms + delay_ms, ended_ms) for delay_ms in _ends(delays_ms))
    return f"at {times} UTC"


def _clock(time_ms: int, today_ms: int) -> str:
    """Return a moment to the minute, not before it; with its date unless that is today's."""
    told = moment(-(-time_ms // _MINUTE_MS) * _MINUTE_MS)
    if told[:_DATE] == moment(today_ms)[:_DATE]:
        return told[_CLOCK]
    return f"{told[:_DATE]} {told[_CLOCK]}" if told.endswith("Z") else told


def _ends(delays_ms: set[int]) -> list[int]:
    return sorted({min(delays_ms), max(delays_ms)})


def _spelled(span_ms: int) -> str:
    """Return a span with its unit in full if that is a whole number: ``1 minute``, ``36 hours``, but ``90 seconds``."""
    for unit, unit_ms in _SPELLED:
        if span_ms >= unit_ms and not span_ms % unit_ms:
            return counted(span_ms // unit_ms, unit)
    return duration(span_ms)
