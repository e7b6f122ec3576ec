"""The reports of ``doctor`` and ``doctor --sweep``: text for people, and for machines, from the same findings.

Their documents are ``logcleaner.doctor/1`` and ``logcleaner.sweep/1``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.doctor.sweeping import SweepResult
from cleaner.report.page import Lines, Page
from cleaner.report.verify import finding_document, tell_findings, tell_subjects
from policies.findings.diagnosis import Diagnosis
from policies.findings.sweeping import SweepAct
from policies.reasons import counted, size

if TYPE_CHECKING:
    from cleaner.documents.changes import SweepDocument, SweepLeftover

SCHEMA: Final = "logcleaner.doctor/1"

SWEEP_SCHEMA: Final = "logcleaner.sweep/1"


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The findings of some log dirs, worst first."""

    diagnosis: Diagnosis

    def document(self) -> dict[str, Any]:
        """Return what ``doctor --json`` prints: sizes in bytes, times in epoch ms."""
        found = self.diagnosis
        start = found.start
        return {
            "schema": SCHEMA,
            "now": found.now_ms,
            "log_dirs": list(found.log_dirs),
            "start": start and {"kafka": start.release, "starts": start.starts, "text": start.text},
            "findings": [
                {**finding_document(finding), "is_damage": finding in found.damages} for finding in found.findings
            ],
            **self._tiered_document(),
            "totals": {
                "findings": len(found.findings),
                "damages": len(found.damages),
                "partitions": found.partitions,
                "walked_bytes": found.bytes_read,
                "unwalked_bytes": found.bytes_unread,
                "verified_bytes": found.bytes_verified,
            },
        }

    def _tiered_document(self) -> dict[str, Any]:
        partitions, segments, size_bytes, unfinished = self.diagnosis.tiered
        if not segments and not unfinished:
            return {}
        return {
            "tiered": {
                "partitions": partitions,
                "segments": segments,
                "bytes": size_bytes,
                "unfinished": unfinished,
            }
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield what the next start does, a paragraph for each partition below a heading for each harm, and the sum."""
        found = self.diagnosis
        if found.start and not page.view.summary_only:
            page.line(found.start.text, "bold" if found.start.starts else "bold red", hanging=2)
            page.line()
        base = found.log_dirs[0] if len(found.log_dirs) == 1 else ""
        if page.every_segment:
            tell_findings(page, found.findings, base)
        elif not page.view.summary_only:
            tell_subjects(page, found.findings, found.log_dirs, base)
        self._tiered(page)
        self._sum(page)
        yield page.text

    def _tiered(self, page: Page) -> None:
        """Tell what brokers copied to a tier, if anything."""
        partitions, segments, size_bytes, unfinished = self.diagnosis.tiered
        if not segments and not unfinished:
            return
        held = f"{counted(segments, 'segment')} ({size(size_bytes)}) of {counted(partitions, 'partition')}"
        open_ends = f"; of {unfinished:,} more a copy or a deletion began and did not end" if unfinished else ""
        page.line(f"Tiered, by __remote_log_metadata: {held}{open_ends}.")
        page.note("logcleaner verify --tier URL compares the tier with it, and reads its segments.")
        page.line()

    def _sum(self, page: Page) -> None:
        found = self.diagnosis
        looked = f"{counted(found.partitions, 'partition')} of {', '.join(found.log_dirs)}"
        if not found.findings:
            page.line(f"Nothing is wrong with {looked}, as far as doctor looked.")
        else:
            damages, advice = len(found.damages), len(found.findings) - len(found.damages)
            told = [counted(damages, "damage")] if damages else []
            told += [counted(advice, "note")] if advice else []
            page.line(f"Looked at {looked}: {' and '.join(told)}.")
        if found.bytes_verified:
            page.line(f"Read every byte of {size(found.bytes_verified)}.")
            return
        if found.bytes_unread:
            all_bytes = found.bytes_read + found.bytes_unread
            page.line(f"Read the batch headers of {size(found.bytes_read)} of {size(all_bytes)}.")
        page.line("Checksums were not compared: --deep reads every byte and compares them.")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The leftovers that were named, and the result for each one."""

    results: Sequence[SweepResult]
    dry_run: bool

    def document(self) -> SweepDocument:
        """Return what ``doctor --sweep --json`` prints: sizes in bytes, times in epoch ms."""
        return {
            "schema": SWEEP_SCHEMA,
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
