"""The report of a diagnosis: text for people, ``logcleaner.doctor/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cleaner.report.page import Lines, Page, counted, size
from cleaner.report.verify.findings import finding_document, tell_findings, tell_subjects
from policies.findings.shapes.diagnosis import Diagnosis

SCHEMA: Final = "logcleaner.doctor/1"


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
            "totals": {
                "findings": len(found.findings),
                "damages": len(found.damages),
                "partitions": found.partitions,
                "walked_bytes": found.bytes_read,
                "unwalked_bytes": found.bytes_unread,
                "verified_bytes": found.bytes_verified,
            },
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
        self._sum(page)
        yield page.text

    def _sum(self, page: Page) -> None:
        found = self.diagnosis
        looked = f"{counted(found.partitions, 'partition')} of {', '.join(found.log_dirs)}"
        if not found.findings:
            page.line(f"Nothing is wrong with {looked}, as far as the doctor looks.")
        else:
            damages, advice = len(found.damages), len(found.findings) - len(found.damages)
            told = [counted(damages, "damage")] if damages else []
            told += [f"{advice} to know of"] if advice else []
            page.line(f"Looked at {looked}: {' and '.join(told)}.")
        if found.bytes_verified:
            page.line(f"Read every byte of {size(found.bytes_verified)}.")
            return
        if found.bytes_unread:
            all_bytes = found.bytes_read + found.bytes_unread
            page.line(f"Read the batch headers of {size(found.bytes_read)} of {size(all_bytes)}.")
        page.line("No checksum was looked at: --deep reads every byte.")
