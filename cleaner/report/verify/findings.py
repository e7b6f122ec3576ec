"""Findings as text and as JSON, the same for every command that has some."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Any, Final

from cleaner.report.page import Page, counted
from policies.findings.findings import Finding, FindingCode, Harm
from storage.names import parse_partition_dir_name

ALIKE_MAX: Final = 3
"""So many findings of one code, and of one partition, are told, unless the user asks for all."""
_HEADLINES: Final = {
    Harm.DATA_LOST: ("Records are lost, or will be", "bold red"),
    Harm.WRONG_ANSWER: ("Readers or replicas get wrong answers", "bold red"),
    Harm.NO_START: ("The broker does not start, or leaves a partition out", "bold red"),
    Harm.SLOW_START: ("The next start mends it, which takes time", "bold"),
    Harm.WASTE: ("It costs space or time", "bold"),
    Harm.NOTE: ("This is unusual", "bold"),
}


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


def _code_of(subject: Sequence[Finding]) -> FindingCode:
    return subject[0].code


def _partition_of(finding: Finding, log_dirs: Sequence[str]) -> str | None:
    """Return the path of the partition's directory that a finding is about; None if it is about something else."""
    path = finding.about or finding.path
    for log_dir in log_dirs:
        name = path.removeprefix(f"{log_dir}/").partition("/")[0]
        if path.startswith(f"{log_dir}/") and parse_partition_dir_name(name) is not None:
            return f"{log_dir}/{name}"
    return None


def _tell(page: Page, subject: Sequence[Finding], base: str) -> None:
    """Tell the worst of some findings, the others shortly, and the remedy of the worst."""
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
