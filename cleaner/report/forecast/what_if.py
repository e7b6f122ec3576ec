"""The report of ``clean --dry-run --what-if``: the plan's own document, and the answers beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleaner.engine.outcome import Basis
from cleaner.engine.rehearsal.what_if import Answered
from cleaner.report.cleaning import CleaningReport
from cleaner.report.forecast.documents import documents
from cleaner.report.forecast.suppositions import Supposals, Supposed, Supposition
from policies.config.policy import Stated

if TYPE_CHECKING:
    from cleaner.report.page import Lines, Page


@dataclass(frozen=True, slots=True)
class WhatIfReport(CleaningReport):
    """A plan and its outcome, and the answers to questions about other values."""

    answered: tuple[Answered, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return what ``clean --json`` prints, and under ``what_if`` a list with one object for each key."""
        return {**super(WhatIfReport, self).document(), "what_if": [_document(s) for s in self.supposals()]}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the answers, without the plan's own report."""
        from cleaner.report.forecast.what_if_text import fill  # noqa: PLC0415 - which --json does without

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
