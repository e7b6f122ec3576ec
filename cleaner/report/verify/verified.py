"""The report of ``verify``: text for people, ``logcleaner.verify/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cleaner.engine.repair.repairing import Repairs
from cleaner.engine.verify.checked import Checked
from cleaner.report.page import Lines, Page, counted, size
from cleaner.report.verify.findings import finding_document, tell_findings
from cleaner.report.verify.mended import repair_document, tell_repairs

SCHEMA: Final = "logcleaner.verify/1"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The findings of a check."""

    checked: Checked
    seconds: float
    repairs: Repairs | None = None
    """What was mended of it; None if nobody asked for that."""

    def document(self) -> dict[str, Any]:
        """Return what ``verify --json`` prints: findings worst first, sizes in bytes."""
        checked = self.checked
        return {
            "schema": SCHEMA,
            "damaged": checked.is_damaged,
            "findings": [finding_document(finding) for finding in checked.findings],
            "problems": checked.problems,
            **self._repairs_document(),
            "totals": {
                "partitions": checked.partitions,
                "segments": checked.segments,
                "bytes": checked.size_bytes,
                "noted_bytes": checked.noted_bytes,
                "seconds": round(self.seconds, 3),
            },
        }

    def _repairs_document(self) -> dict[str, Any]:
        if self.repairs is None:
            return {}
        results = [repair_document(result) for result in self.repairs.results]
        return {"dry_run": self.repairs.dry_run, "remaining": len(self.repairs.remaining), "repairs": results}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the findings, worst first, and the sum."""
        checked = self.checked
        if not page.view.summary_only:
            tell_findings(page, checked.findings)
        if self.repairs:
            tell_repairs(page, self.repairs)
        read_bytes = checked.size_bytes - checked.noted_bytes
        noted = f", {size(checked.noted_bytes)} of them by an earlier check" if checked.noted_bytes else ""
        rate = f", {size(int(read_bytes / self.seconds))}/s" if self.seconds and read_bytes else ""
        page.line(
            f"{counted(checked.partitions, 'partition')}, {counted(checked.segments, 'segment')},"
            f" {size(checked.size_bytes)} verified{noted}{rate}: {self._verdict()}",
            "bold" if checked.is_damaged else "",
        )
        yield page.text

    def _verdict(self) -> str:
        checked = self.checked
        unread = f"; {counted(len(checked.problems), 'place')} could not be read" if checked.problems else ""
        if not checked.findings:
            return f"nothing is wrong{unread}"
        what = counted(len(checked.findings), "finding")
        return f"{what}{'' if checked.is_damaged else ', no damage'}{unread}"
