"""The report of a diagnosis: text for people, ``logcleaner.doctor/1`` for machines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from cleaner.report.page import Lines, Page, counted, size
from cleaner.report.verify.findings import finding_document
from policies.findings.findings import Finding, Harm
from policies.findings.shapes.diagnosis import Diagnosis

SCHEMA: Final = "logcleaner.doctor/1"
ALIKE_MAX: Final = 3
"""So many findings of one code are told in full, unless the user asks for all."""
_HEADINGS: Final = {
    Harm.DATA_LOST: "Records are lost, or will be",
    Harm.WRONG_ANSWER: "Readers or replicas get wrong answers",
    Harm.NO_START: "The broker does not start, or leaves a partition out",
    Harm.SLOW_START: "The next start mends it, which takes time",
    Harm.WASTE: "It costs space or time",
    Harm.NOTE: "Somebody should know",
}


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The findings of some log dirs, worst first."""

    diagnosis: Diagnosis

    def document(self) -> dict[str, Any]:
        """Return what ``doctor --json`` prints: sizes in bytes, times in epoch ms."""
        found = self.diagnosis
        return {
            "schema": SCHEMA,
            "now": found.now_ms,
            "log_dirs": list(found.log_dirs),
            "findings": [
                {**finding_document(finding), "is_damage": finding in found.damages} for finding in found.findings
            ],
            "totals": {
                "findings": len(found.findings),
                "damages": len(found.damages),
                "partitions": found.partitions,
                "walked_bytes": found.bytes_read,
                "unwalked_bytes": found.bytes_unread,
            },
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a paragraph for each finding below a heading for each harm, the sum, and the next step."""
        findings = () if page.view.summary_only else self.diagnosis.findings
        base = os.path.commonpath(self.diagnosis.log_dirs) if len(self.diagnosis.log_dirs) == 1 else ""
        for harm, of_harm in groupby(findings, lambda finding: finding.harm):
            page.line(f"{_HEADINGS[harm]}:", "bold red" if harm < Harm.SLOW_START else "bold")
            for _, alike in groupby(sorted(of_harm, key=lambda finding: finding.code), lambda finding: finding.code):
                _fill(page, list(alike), base)
            page.line()
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
        if found.bytes_unread:
            all_bytes = found.bytes_read + found.bytes_unread
            page.line(f"Read the batch headers of {size(found.bytes_read)} of {size(all_bytes)}; --deep reads all.")
        page.line("No checksum was looked at: logcleaner verify reads every batch.")


def _fill(page: Page, alike: Sequence[Finding], base: str) -> None:
    told = alike if page.every_segment else alike[:ALIKE_MAX]
    for finding in told:
        where = os.path.relpath(finding.path, base) if base and finding.path != base else finding.path
        issue = f" ({finding.kafka_issue})" if finding.kafka_issue else ""
        page.line(f"{finding.code}{issue}  {where}", hanging=4)
        page.note(finding.text)
        page.note(f"Remedy: {finding.remedy}")
    if len(alike) > len(told):
        page.line(f"{alike[0].code}  and {len(alike) - len(told):,} more like these; -v shows them", hanging=4)
