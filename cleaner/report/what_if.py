"""The report of ``clean --dry-run --what-if``: the plan's own document, and the answers beside it.

The answers are added up by topic: one supposition for each value of a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.engine.rehearsal.what_if import Answered
from cleaner.report.cleaning import CleaningReport
from cleaner.report.page import ATTENTION, Page, in_columns
from cleaner.report.runways import documents, lasts, opening
from policies.config.config_layers import is_internal
from policies.config.policy import Stated
from policies.forecast.births import DAY_MS, WINDOW_MS, seen_ms
from policies.forecast.runway import LongRun, long_run, total
from policies.forecast.what_if import Question
from policies.plan import PartitionPlan, Plan
from policies.reasons import counted, size

if TYPE_CHECKING:
    from cleaner.report.page import Lines

_COUNTED: Final = (
    *("partitions", "size_bytes", "freed_bytes", "disk_bytes", "freed_disk_bytes", "compacted_bytes"),
    *("held_back", "failed", "unknown"),
)

_TOPIC_LINES_MAX: Final = 36
"""The most lines of topics in a table, unless the user asks for more."""
_AS_NOW: Final = "as now"


@dataclass(frozen=True, slots=True)
class WhatIfReport(CleaningReport):
    """A plan and its outcome, and the answers to questions about other values."""

    answered: tuple[Answered, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return what ``clean --json`` prints, and under ``what_if`` a list with one object for each key."""
        return {**super(WhatIfReport, self).document(), "what_if": [_document(s) for s in self.supposals()]}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the answers, without the plan's own report."""

        fill(page, list(self.supposals()))
        yield page.text

    def supposals(self) -> Iterator[Supposals]:
        """Yield the answers to each question, added up by topic."""
        for question, answers in self.answered:
            in_force = Supposition.of(question.key, None, self.plan, self.outcome)
            asked = (Supposition.of(question.key, a.value, a.plan, a.outcome) for a in answers)
            yield Supposals(question, in_force, tuple(asked))


def fill(page: Page, questions: Sequence[Supposals]) -> None:
    """Fill a page with the answers to all questions.

    Args:
        page: the page.
        questions: at least one, each with its answers.
    """
    page.line(opening(questions[0].in_force.plan), ATTENTION)
    for supposals in questions:
        page.line()
        _Table(page, supposals).fill()
    page.line()
    page.line(
        "FREED and KEPT: the blocks that a run would free, and those then left, index files included. LONG RUN: "
        f"what the .log files come to if they go on being written as in the last {WINDOW_MS // DAY_MS} days."
    )
    page.line("DRY RUN - nothing was changed.", ATTENTION)


@dataclass(frozen=True, slots=True)
class Supposals:
    """The answers to one question: first the configuration in force, then each value asked for."""

    question: Question
    in_force: Supposition
    asked: tuple[Supposition, ...]

    @property
    def all(self) -> tuple[Supposition, ...]:
        """The configuration in force, then each value."""
        return (self.in_force, *self.asked)


@dataclass(frozen=True, slots=True)
class Supposition:
    """A plan with one value of a key, by topic.

    Attributes:
        value: the value asked for; None for the configuration in force.
        plan: the plan.
        outcome: the result that executing it would have.
        topics: topic -> its figures.
        stated: topic -> the value of the key that then holds for it.
    """

    value: Stated | None
    plan: Plan
    outcome: Outcome
    topics: dict[str, Supposed]
    stated: dict[str, Stated]

    @property
    def total(self) -> Supposed:
        """The figures of all topics together."""
        return Supposed.total([*self.topics.values(), Supposed(failed=len(self.plan.failures))])

    @classmethod
    def of(cls, key: str, value: Stated | None, plan: Plan, outcome: Outcome) -> Supposition:
        """Add up a plan by topic."""
        by_topic: dict[str, list[Supposed]] = {}
        stated: dict[str, Stated] = {}
        now_ms = seen_ms(plan)
        for partition in plan.partitions:
            topic = partition.facts.topic_partition.topic
            by_topic.setdefault(topic, []).append(Supposed.of(partition, outcome, now_ms))
            stated.setdefault(topic, partition.policy.stated[key])
        topics = {topic: Supposed.total(found) for topic, found in by_topic.items()}
        return cls(value, plan, outcome, topics, stated)


@dataclass(frozen=True, slots=True)
class Supposed:
    """The effect of a run on some partitions with one value of a key, and the size that they come to hold.

    Attributes:
        partitions: the number of partitions, without partitions that cannot be read.
        size_bytes: the size of their ``.log`` and index files now.
        freed_bytes: the part of these bytes that a run now would free; nothing for a compaction whose data was not
            read.
        disk_bytes: the blocks of these files.
        freed_disk_bytes: the space that the disk would get back.
        compacted_bytes: the ``.log`` files that a run now would compact.
        long_run: the size that they grow to.
        held_back: partitions that a guard rail holds back.
        failed: partitions that would fail, or cannot be read.
        unknown: partitions that are not touched, since their configuration is unknown.
        is_estimate: data that a compaction would read was not read.
    """

    partitions: int = 0
    size_bytes: int = 0
    freed_bytes: int = 0
    disk_bytes: int = 0
    freed_disk_bytes: int = 0
    compacted_bytes: int = 0
    long_run: LongRun = field(default_factory=LongRun)
    held_back: int = 0
    failed: int = 0
    unknown: int = 0
    is_estimate: bool = False

    @property
    def kept_bytes(self) -> int:
        """The bytes that stay, index files included."""
        return self.size_bytes - self.freed_bytes

    @property
    def kept_disk_bytes(self) -> int:
        """The blocks that stay in use."""
        return self.disk_bytes - self.freed_disk_bytes

    @classmethod
    def of(cls, partition: PartitionPlan, outcome: Outcome, now_ms: int) -> Supposed:
        """Return the figures of one partition. ``now_ms``: the moment up to which it is known what was written."""
        result = outcome.results.get(partition.key)
        sizes = (segment.size_bytes + segment.companions_bytes for segment in partition.facts.segments)
        compacted_bytes = result.compacted_from_bytes if result else 0
        return cls(
            partitions=1,
            size_bytes=sum(sizes),
            freed_bytes=_freed_bytes(result) if result else 0,
            disk_bytes=partition.facts.disk_bytes,
            freed_disk_bytes=result.space.reclaimed_disk_bytes if result else 0,
            compacted_bytes=compacted_bytes,
            long_run=long_run(partition, now_ms),
            held_back=int(partition.guard is not None),
            failed=int(bool(result and result.error)),
            unknown=int(partition.config_is_unknown),
            is_estimate=bool(compacted_bytes and result and result.basis is Basis.ESTIMATE),
        )

    @classmethod
    def total(cls, found: Sequence[Supposed]) -> Supposed:
        """Add up."""
        return cls(
            **{name: sum(getattr(one, name) for one in found) for name in _COUNTED},
            long_run=total(one.long_run for one in found),
            is_estimate=any(one.is_estimate for one in found),
        )


def _document(supposals: Supposals) -> dict[str, Any]:
    return {"key": supposals.question.key, "answers": [_answer(supposition) for supposition in supposals.all]}


def _answer(supposition: Supposition) -> dict[str, Any]:
    found = supposition.topics.items()
    return {
        "value": _value(supposition.value),
        "topics": [{"topic": t, "value": _value(supposition.stated[t]), **_figures(s)} for t, s in found],
        "totals": _figures(supposition.total),
        "runway": documents(supposition.outcome.runways),
    }


def _value(stated: Stated | None) -> Any:
    value = stated.value if stated else None
    return ",".join(value) if isinstance(value, tuple) else value


def _figures(supposed: Supposed) -> dict[str, Any]:
    steady = supposed.long_run
    is_known = steady.is_known and steady.unknown < supposed.partitions
    return {
        "partitions": supposed.partitions,
        "bytes": supposed.size_bytes,
        "freed_bytes": supposed.freed_bytes,
        "kept_bytes": supposed.kept_bytes,
        "disk_bytes": supposed.disk_bytes,
        "freed_disk_bytes": supposed.freed_disk_bytes,
        "compacted_from_bytes": supposed.compacted_bytes,
        "basis": (Basis.ESTIMATE if supposed.is_estimate else Basis.EXACT).value,
        "long_run_bytes": steady.size_bytes if is_known else None,
        "long_run_growing_bytes_per_day": steady.growing_bytes_per_day,
        "long_run_unknown_partitions": steady.unknown,
        "held_back": supposed.held_back,
        "unknown": supposed.unknown,
        "failed": supposed.failed,
    }


class _Table:
    """The table of one question, while it is written."""

    def __init__(self, page: Page, supposals: Supposals) -> None:
        self._page = page
        self._supposals = supposals
        self._compacts = len({answer.total.compacted_bytes for answer in supposals.all}) > 1

    def fill(self) -> None:
        """Add the question, the rows and the notes."""
        question, page = self._supposals.question, self._page
        values = [f"[{stated.shown}]" if "," in stated.shown else stated.shown for stated in question.values]
        asked = " or ".join(filter(None, [", ".join(values[:-1]), values[-1]]))
        page.line(f"What if {question.key} were {asked}?", "bold")
        page.line()
        changed, same = self._sorted()
        shown = changed if page.every_segment else changed[: self._topics_max()]
        lines = [self._heading(), *self._totals()]
        for topic in shown:
            lines += self._topic(topic)
        if page.every_segment:
            for topic in same:
                lines += self._topic(topic)[:1]
        self._write(lines)
        if not page.every_segment and not page.view.summary_only:
            self._rest(changed[len(shown) :], "change less")
            self._rest(same, "would not change")
        self._notes()

    def _write(self, lines: Sequence[_Line]) -> None:
        """Add lines with aligned columns."""
        rows = [(line.topic, line.value, *line.cells) for line in lines]
        figures = range(2, len(rows[0]))
        for line, text in zip(lines, in_columns(rows, self._page, figures), strict=True):
            self._page.text.add(text, "bold" if line.is_bold else "")

    def _heading(self) -> _Line:
        columns = ("FREED", *(("COMPACTED",) if self._compacts else ()), "KEPT", "LONG RUN")
        return _Line("TOPIC", "VALUE", columns, is_bold=True)

    def _topic(self, topic: str) -> list[_Line]:
        rows = enumerate(self._rows(topic))
        return [
            _Line("" if place else topic, label, self._cells(supposed), not place) for place, (label, supposed) in rows
        ]

    def _totals(self) -> Iterator[_Line]:
        number = len(self._supposals.in_force.topics)
        for place, answer in enumerate(self._supposals.all):
            label = answer.value.shown if answer.value else _AS_NOW
            name = "" if place else f"all {counted(number, 'topic')}"
            yield _Line(name, label, self._cells(answer.total), not place)

    def _topics_max(self) -> int:
        view = self._page.view
        return 0 if view.summary_only else view.limit or max(_TOPIC_LINES_MAX // len(self._supposals.all), 1)

    def _rows(self, topic: str) -> Iterator[tuple[str, Supposed]]:
        """Yield label and figures: first of the value in force, then of each other value."""
        in_force = self._supposals.in_force
        yield f"{in_force.stated[topic].shown} (now)", in_force.topics[topic]
        for answer in self._supposals.asked:
            is_other = topic in answer.topics and answer.stated[topic].value != in_force.stated[topic].value
            if is_other:
                yield answer.stated[topic].shown, answer.topics[topic]

    def _sorted(self) -> tuple[list[str], list[str]]:
        """Return the topics that a value changes, the most bytes first, and the topics that no value changes."""
        in_force = self._supposals.in_force.topics

        def difference(topic: str) -> tuple[int, ...]:
            one, others = in_force[topic], [a.topics[topic] for a in self._supposals.asked if topic in a.topics]
            return (
                max((abs(other.freed_disk_bytes - one.freed_disk_bytes) for other in others), default=0),
                max((abs(other.compacted_bytes - one.compacted_bytes) for other in others), default=0),
                int(any(other != one for other in others)),
            )

        ranks = {topic: difference(topic) for topic in in_force}
        ranked = sorted(in_force, key=lambda topic: (ranks[topic], in_force[topic].disk_bytes), reverse=True)
        return [t for t in ranked if any(ranks[t])], [t for t in ranked if not any(ranks[t])]

    def _cells(self, supposed: Supposed) -> tuple[str, ...]:
        acts = [supposed.freed_disk_bytes, *([supposed.compacted_bytes] if self._compacts else [])]
        is_untouched = supposed.unknown == supposed.partitions
        return (
            *("not touched" if is_untouched else size(size_bytes) for size_bytes in acts),
            size(supposed.kept_disk_bytes),
            _long_run(supposed.long_run),
        )

    def _rest(self, topics: Sequence[str], words: str) -> None:
        if topics:
            size_bytes = sum(self._supposals.in_force.topics[topic].disk_bytes for topic in topics)
            self._page.line(f"and {counted(len(topics), 'more topic')}, {size(size_bytes)}, that {words}; -v lists all")

    def _notes(self) -> None:
        """Add notes on what the table does not show."""
        page, in_force = self._page, self._supposals.in_force
        for place, _ in enumerate(in_force.outcome.runways):
            page.line(self._runway(place), hanging=2)
        self._note_troubles()
        unhit = sorted(t for t in in_force.topics if all(not _is_hit(answer, t) for answer in self._supposals.asked))
        if internal := [topic for topic in unhit if is_internal(topic)]:
            where = "which take it only from the cluster metadata or their exact name under [topics]"
            page.line(f"Not hit: {counted(len(internal), 'topic')} named __*, {where}", hanging=2)
        if any((found := answer.total.long_run).unknown and found.is_known for answer in self._supposals.all):
            why = "compacted, not touched, or written for too short a time"
            page.line(f"* without the partitions whose long run is not known: {why}", hanging=2)
        if any(answer.total.is_estimate for answer in self._supposals.all):
            column = "COMPACTED is what a run would read and rewrite. " if self._compacts else ""
            page.line(f"{column}FREED leaves out what compactions would free: add --exact.")

    def _runway(self, place: int) -> str:
        paths = ", ".join(self._supposals.in_force.outcome.runways[place].log_dirs)
        lasting = [
            f"{answer.value.shown if answer.value else _AS_NOW}: {lasts(answer.outcome.runways[place])}"
            for answer in self._supposals.all
        ]
        whose = f" of {paths}" if len(self._supposals.in_force.outcome.runways) > 1 else ""
        return f"Runway{whose}: {'; '.join(lasting)}"

    def _note_troubles(self) -> None:
        """Add the reasons why partitions cannot be planned. Values with the same reason share a line."""
        told: dict[tuple[str, str], list[str]] = {}
        for answer in self._supposals.all:
            for trouble in _troubles(answer):
                told.setdefault(trouble, []).append(answer.value.shown if answer.value else _AS_NOW)
        for (words, style), labels in told.items():
            self._page.line(f"{'; '.join(labels)}: {words}", style, hanging=2)


class _Line(NamedTuple):
    """A line of the table: topic, value, and the figures."""

    topic: str
    value: str
    cells: tuple[str, ...]
    is_bold: bool = False


def _long_run(found: LongRun) -> str:
    if not found.is_known:
        return "not known"
    some = " *" if found.unknown else ""
    if found.growing_bytes_per_day:
        return f"+{size(found.growing_bytes_per_day)}/d{some}"
    return f"{size(found.size_bytes)}{some}"


def _troubles(answer: Supposition) -> Iterator[tuple[str, str]]:
    """Yield the words and the style of each trouble."""
    found = answer.total
    if found.held_back:
        yield f"a guard rail holds {counted(found.held_back, 'partition')} back; --yes releases it", ATTENTION
    if found.unknown:
        because = next(p.policy.unknown_because for p in answer.plan.partitions if p.config_is_unknown)
        yield f"{counted(found.unknown, 'partition')} not touched (CONFIG_UNKNOWN): {because}", ATTENTION
    if found.failed:
        yield f"{counted(found.failed, 'partition')} would fail, or cannot be read", "bold red"


def _is_hit(answer: Supposition, topic: str) -> bool:
    return bool(answer.value and topic in answer.stated and answer.stated[topic].layer is answer.value.layer)


def _freed_bytes(result: PartitionResult) -> int:
    compacted_bytes = result.compacted_from_bytes - result.compacted_to_bytes
    return result.deleted_bytes + compacted_bytes + result.space.index_saved_bytes
