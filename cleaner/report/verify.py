"""The report of ``verify``, and how findings and repairs look in every report: text for people, and JSON.

The document is ``logcleaner.verify/1``. For repairs, it lists the files that were or would be mended, and why others
were not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Any, Final

from cleaner.engine.repair.repairing import RepairResult, Repairs
from cleaner.engine.verify.checked import Checked
from cleaner.report.page import Lines, Page
from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.of_tiers import TierKind, kinds_of
from policies.reasons import counted, size
from storage.names import parse_partition_dir_name

ALIKE_MAX: Final = 3
"""The most findings that are shown of one code, and of one partition, unless the user asks for all."""
_HEADLINES: Final = {
    Harm.DATA_LOST: ("Records are lost, or will be", "bold red"),
    Harm.WRONG_ANSWER: ("Readers or replicas get wrong answers", "bold red"),
    Harm.NO_START: ("The broker does not start, or leaves a partition out", "bold red"),
    Harm.SLOW_START: ("The next start mends it, which takes time", "bold"),
    Harm.WASTE: ("It costs space or time", "bold"),
    Harm.NOTE: ("This is unusual", "bold"),
}

SCHEMA: Final = "logcleaner.verify/1"
_KIND: Final = "{:20} {:>7} {:>9}  {}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The findings of a check."""

    checked: Checked
    seconds: float
    repairs: Repairs | None = None
    """The repairs; None if nobody asked for them."""
    is_of_tier: bool = False
    """Whether a tier was checked: then a table tells the kinds of findings."""

    def document(self) -> dict[str, Any]:
        """Return what ``verify --json`` prints: findings worst first, sizes in bytes."""
        checked = self.checked
        return {
            "schema": SCHEMA,
            "damaged": checked.is_damaged,
            "findings": [finding_document(finding) for finding in checked.findings],
            "problems": checked.problems,
            **self._repairs_document(),
            **self._kinds_document(),
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

    def _kinds_document(self) -> dict[str, Any]:
        if not self.is_of_tier:
            return {}
        return {
            "kinds": [
                {
                    "code": kind.code.value,
                    "harm": kind.harm.name.lower(),
                    "findings": kind.findings,
                    "bytes": kind.size_bytes,
                    "remedy": kind.remedy,
                }
                for kind in kinds_of(self.checked.findings)
            ]
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the findings, worst first, for a tier the table of their kinds, and the sum."""
        checked = self.checked
        if not page.view.summary_only:
            tell_findings(page, checked.findings)
        if self.is_of_tier and checked.findings:
            _tell_kinds(page, kinds_of(checked.findings))
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
        unread = f"{counted(len(checked.problems), 'place')} could not be read" if checked.problems else ""
        if not checked.findings:
            return f"{unread}; nothing is wrong with the rest" if unread else "nothing is wrong"
        what = f"{counted(len(checked.findings), 'finding')}{'' if checked.is_damaged else ', no damage'}"
        return f"{what}; {unread}" if unread else what


def _tell_kinds(page: Page, kinds: Sequence[TierKind]) -> None:
    page.row(_KIND.format("Kind", "Number", "Bytes", "What to do"), "bold")
    for kind in kinds:
        held = "-" if kind.size_bytes is None else size(kind.size_bytes)
        style = "bold red" if kind.harm < Harm.WASTE else ""
        page.row(_KIND.format(kind.code.value, f"{kind.findings:,}", held, kind.remedy), style)
    page.line()


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON; ``harm`` is the name of the harm in lower case."""
    return {
        "code": finding.code.value,
        "harm": finding.harm.name.lower(),
        "path": finding.path,
        "position": finding.position,
        "offset": finding.offset,
        "text": finding.text,
        "remedy": finding.remedy,
        "kafka_issue": finding.kafka_issue,
        "repair": finding.repair,
        **({} if finding.size_bytes is None else {"bytes": finding.size_bytes}),
    }


def tell_findings(page: Page, findings: Sequence[Finding], base: str = "") -> None:
    """Add findings to a page: a headline for each harm, then place, sentence and remedy of each finding.

    Args:
        page: is filled.
        findings: worst first.
        base: a directory; paths below it are told from there.
    """
    for harm, group in groupby(findings, key=lambda finding: finding.harm):
        together = list(group)
        headline, style = _HEADLINES[harm]
        page.line(f"{headline}: {counted(len(together), 'finding')}", style)
        for finding in together:
            _tell(page, [finding], base)
        page.line()


def tell_subjects(page: Page, findings: Sequence[Finding], log_dirs: Sequence[str], base: str = "") -> None:
    """Add findings to a page, each partition once: below the headline of its worst finding, with the remedy for that.

    Args:
        page: is filled.
        findings: worst first.
        log_dirs: the paths of the log dirs.
        base: a directory; paths below it are told from there.
    """
    subjects: dict[object, list[Finding]] = {}
    for place, finding in enumerate(findings):
        subjects.setdefault(_partition_of(finding, log_dirs) or place, []).append(finding)
    for harm, group in groupby(subjects.values(), key=lambda subject: subject[0].harm):
        headline, style = _HEADLINES[harm]
        page.line(f"{headline}:", style)
        for code, of_code in groupby(sorted(group, key=_code_of), key=_code_of):
            alike = list(of_code)
            for subject in alike[:ALIKE_MAX]:
                _tell(page, subject, base)
            if len(alike) > ALIKE_MAX:
                page.line(f"{code}  and {len(alike) - ALIKE_MAX:,} more like these; -v shows them", hanging=4)
        page.line()


def repair_document(result: RepairResult) -> dict[str, Any]:
    """Return a repair as JSON; sizes in bytes."""
    repair = result.planned.repair
    return {
        "path": repair.target.path,
        "kind": repair.target.kind.value,
        "findings": list(repair.target.findings),
        "code": repair.code.value,
        "text": repair.text,
        "bytes_before": repair.size_bytes,
        "bytes_after": repair.made_bytes,
        "repaired": result.is_done,
        "error": result.error,
    }


def tell_repairs(page: Page, repairs: Repairs) -> None:
    """Add a line for each file that a repair should mend, and the sum."""
    for result in () if page.view.summary_only else repairs.results:
        repair = result.planned.repair
        page.line(f"{_word(result, repairs)} {repair.target.path}", indent=2, hanging=2)
        page.line(f"{repair.text[0].upper()}{repair.text[1:]}.", indent=4)
        if result.error:
            page.line(f"FAILED: {result.error}", "red", indent=4)
    if repairs.results and not page.view.summary_only:
        page.line()
    done = len(repairs.repairable) if repairs.dry_run else repairs.done
    would = "would be" if repairs.dry_run else "were" if done != 1 else "was"
    left = len(repairs.remaining)
    remain = "would remain" if repairs.dry_run else "remains" if left == 1 else "remain"
    page.line(f"{counted(done, 'file')} {would} mended; {counted(left, 'finding')} {remain}.")
    if not repairs.interrupted and (others := _not_asked_for(repairs)):
        page.line(f"Not asked for, and may mend more: {', '.join(f'--repair={kind}' for kind in others)}.")
    if any(r.is_done and r.planned.repair.size_bytes is not None for r in repairs.results):
        page.line("logcleaner restore --repairs puts a replaced file back, as long as it waits as .deleted.")


def _tell(page: Page, subject: Sequence[Finding], base: str) -> None:
    """Show the worst of some findings with its remedy, and each further finding in short."""
    worst, *others = subject
    page.line(f"{_title(worst)}  {_place(worst, base)}", hanging=4)
    page.note(worst.text)
    for other in others[:ALIKE_MAX]:
        where = "" if worst.path.startswith(other.path) else f"  {_place(other, str(PurePath(worst.path).parent))}"
        page.note(f"Also {_title(other)}{where}: {other.text}")
    if len(others) > ALIKE_MAX:
        page.note(f"Also {counted(len(others) - ALIKE_MAX, 'finding')} more; -v shows them")
    page.note(f"Remedy: {worst.remedy}")
    if any(other.remedy != worst.remedy and other.harm < Harm.SLOW_START for other in others):
        page.note("Then run logcleaner doctor again: it has another remedy for what remains.")


def _title(finding: Finding) -> str:
    return f"{finding.code} ({finding.kafka_issue})" if finding.kafka_issue else finding.code


def _place(finding: Finding, base: str) -> str:
    is_below = base and finding.path.startswith(f"{base}/")
    where = finding.path.removeprefix(f"{base}/") if is_below else finding.path
    return where if finding.position is None else f"{where} at byte {finding.position:,}"


def _code_of(subject: Sequence[Finding]) -> FindingCode:
    return subject[0].code


def _partition_of(finding: Finding, log_dirs: Sequence[str]) -> str | None:
    """Return the path of the partition directory that a finding is about; None if the finding is about no partition."""
    for log_dir in log_dirs:
        name = finding.path.removeprefix(f"{log_dir}/").partition("/")[0]
        if finding.path.startswith(f"{log_dir}/") and parse_partition_dir_name(name) is not None:
            return f"{log_dir}/{name}"
    return None


def _not_asked_for(repairs: Repairs) -> list[str]:
    """Return the kinds of repairs that findings name, and that nobody asked for."""
    tried = {result.planned.repair.target.path for result in repairs.results}
    return sorted({one.repair.value for one in repairs.remaining if one.repair and one.path not in tried})


def _word(result: RepairResult, repairs: Repairs) -> str:
    code = result.planned.repair.code
    if not result.planned.repair.is_repairable:
        return code.value
    return "WOULD MEND" if repairs.dry_run else "MENDED" if result.is_done else "LEFT"
