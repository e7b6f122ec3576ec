"""The report of ``doctor --sweep``: text for people, ``logcleaner.sweep/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cleaner.engine.doctor.sweeping import SweepResult
from cleaner.report.page import Lines, Page, counted, size
from policies.findings.sweeping import SweepAct

if TYPE_CHECKING:
    from cleaner.documents.sweep import SweepDocument, SweepLeftover

SCHEMA: Final = "logcleaner.sweep/1"


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The leftovers that were named, and the result for each one."""

    results: Sequence[SweepResult]
    dry_run: bool

    def document(self) -> SweepDocument:
        """Return what ``doctor --sweep --json`` prints: sizes in bytes, times in epoch ms."""
        return {
            "schema": SCHEMA,
            "dry_run": self.dry_run,
            "leftovers": [_document(result) for result in self.results],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a paragraph for each leftover, and the sum."""
        for result in self.results:
            page.line(f"{result.facts.name}: {self._what(result)}", hanging=2)
        swept = [r for r in self.results if r.verdict.act is SweepAct.UNLINK and not r.error]
        renamed = [r for r in self.results if r.verdict.act is SweepAct.RENAME and not r.error]
        would = "would be " if self.dry_run else ""
        if swept:
            freed = size(sum(result.facts.size_bytes for result in swept))
            page.line(f"{counted(len(swept), 'leftover')} {would}unlinked, {freed}.")
        if renamed:
            directories = "1 directory" if len(renamed) == 1 else f"{len(renamed):,} directories"
            page.line(f"{directories} {would}renamed.")
            page.note("After file.delete.delay.ms, sweep it by its new name, or start the broker, which removes it.")
        yield page.text

    def _what(self, result: SweepResult) -> str:
        if result.error:
            return f"FAILED: {result.error}"
        held = size(result.facts.size_bytes)
        match result.verdict.act:
            case SweepAct.LEAVE:
                return f"left as it is: {result.verdict.text}"
            case SweepAct.RENAME:
                return f"{'would be' if self.dry_run else 'is'} renamed to {result.facts.new_name} ({held})"
            case SweepAct.UNLINK:
                return f"{'would be' if self.dry_run else 'is'} unlinked ({held})"


def _document(result: SweepResult) -> SweepLeftover:
    return {
        "log_dir": result.log_dir,
        "name": result.facts.name,
        "kind": result.facts.kind,
        "bytes": result.facts.size_bytes,
        "files": result.facts.files,
        "due_ms": result.facts.due_ms,
        "act": result.verdict.act,
        "text": result.verdict.text,
        "renamed_to": result.facts.new_name,
        "done": result.is_done,
        "error": result.error,
    }
