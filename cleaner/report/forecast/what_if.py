"""The report of ``clean --dry-run --what-if``: the plan's own document, and the answers beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.outcome import Basis, Outcome
from cleaner.engine.rehearsal.what_if import Answered
from cleaner.report.cleaning import CleaningReport
from cleaner.report.forecast.documents import documents
from policies.config.policy import Stated
from policies.forecast.births import seen_ms
from policies.forecast.long_run import LongRun, long_run, total
from policies.forecast.what_if import Question
from policies.plan import PartitionPlan, Plan

if TYPE_CHECKING:
    from rich.text import Text

    from cleaner.report.page import Page


@dataclass(frozen=True, slots=True)
class Supposed:
    """What a run would do to some partitions, with one value of a key, and what they come to hold.

    Attributes:
        partitions: their number, those that cannot be read left out.
        size_bytes: their ``.log`` and index files now.
        freed_bytes: what a run now would free of that; of a compaction whose data was not read, nothing.
        compacted_bytes: the ``.log`` files that a run now would compact.
        long_run: what they come to hold.
        held_back: partitions that a guard rail holds back.
        failed: partitions that would fail, or cannot be read.
        unknown: partitions that are not touched, since their configuration is unknown.
        is_estimate: data that a compaction would read was not read.
    """

    partitions: int = 0
    size_bytes: int = 0
    freed_bytes: int = 0
    compacted_bytes: int = 0
    long_run: LongRun = field(default_factory=LongRun)
    held_back: int = 0
    failed: int = 0
    unknown: int = 0
    is_estimate: bool = False

    @property
    def kept_bytes(self) -> int:
        """What stays of the files, index files included."""
        return self.size_bytes - self.freed_bytes

    @classmethod
    def of(cls, partition: PartitionPlan, outcome: Outcome, now_ms: int) -> Supposed:
        """Return the figures of one partition. ``now_ms``: the moment up to which it is known what was written."""
        result = outcome.results.get(partition.key)
        sizes = (segment.size_bytes + segment.companions_bytes for segment in partition.facts.segments)
        compacted_bytes = result.compacted_from_bytes if result else 0
        return cls(
            partitions=1,
            size_bytes=sum(sizes),
            freed_bytes=result.deleted_bytes + compacted_bytes - result.compacted_to_bytes if result else 0,
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


_COUNTED: Final = ("partitions", "size_bytes", "freed_bytes", "compacted_bytes", "held_back", "failed", "unknown")


@dataclass(frozen=True, slots=True)
class Supposition:
    """A plan with one value of a key, by topic.

    Attributes:
        value: the value asked for; None for the configuration in force.
        plan: the plan.
        outcome: what executing it would do.
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
class WhatIfReport(CleaningReport):
    """A plan and its outcome, and the answers to questions about other values."""

    answered: tuple[Answered, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return what ``clean --json`` prints, and under ``what_if`` a list with one object for each key."""
        return {**super(WhatIfReport, self).document(), "what_if": [_document(s) for s in self.supposals()]}

    def text(self, page: Page) -> Iterator[Text]:
        """Yield the answers, without the plan's own report."""
        from cleaner.report.forecast.what_if_text import fill  # noqa: PLC0415 - rich, which --json does without

        fill(page, list(self.supposals()))
        yield page.text

    def supposals(self) -> Iterator[Supposals]:
        """Yield the answers to each question, added up by topic."""
        for question, answers in self.answered:
            in_force = Supposition.of(question.key, None, self.plan, self.outcome)
            asked = (Supposition.of(question.key, a.value, a.plan, a.outcome) for a in answers)
            yield Supposals(question, in_force, tuple(asked))


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
    is_known = steady.unknown < supposed.partitions
    return {
        "partitions": supposed.partitions,
        "bytes": supposed.size_bytes,
        "freed_bytes": supposed.freed_bytes,
        "kept_bytes": supposed.kept_bytes,
        "compacted_from_bytes": supposed.compacted_bytes,
        "basis": (Basis.ESTIMATE if supposed.is_estimate else Basis.EXACT).value,
        "long_run_bytes": steady.size_bytes if is_known else None,
        "long_run_growing_bytes_per_day": steady.growing_bytes_per_day,
        "long_run_unknown_partitions": steady.unknown,
        "held_back": supposed.held_back,
        "unknown": supposed.unknown,
        "failed": supposed.failed,
    }
