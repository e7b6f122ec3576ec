"""Findings as text and as JSON, the same for every command that has some."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from cleaner.report.page import Page, counted
from policies.findings.findings import Finding, Harm

_HEADLINES: Final = {
    Harm.DATA_LOST: ("Records are lost, or will be", "bold red"),
    Harm.WRONG_ANSWER: ("Somebody gets a wrong answer", "red"),
    Harm.NO_START: ("The broker does not start, or does not serve this", "red"),
    Harm.SLOW_START: ("The next start of the broker mends this itself", "yellow"),
    Harm.WASTE: ("This costs space or time", "yellow"),
    Harm.NOTE: ("This is unusual", ""),
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


def tell_findings(page: Page, findings: Sequence[Finding]) -> None:
    """Add findings to a page: a headline for each harm, then place, sentence and remedy of each finding."""
    for harm, group in groupby(findings, key=lambda finding: finding.harm):
        together = list(group)
        headline, style = _HEADLINES[harm]
        page.line(f"{headline}: {counted(len(together), 'finding')}", style)
        for finding in together:
            _tell(page, finding)
        page.line()


def _tell(page: Page, finding: Finding) -> None:
    place = finding.path if finding.position is None else f"{finding.path} at byte {finding.position:,}"
    page.line(f"{finding.code} {place}", indent=2, hanging=2)
    issue = f" ({finding.kafka_issue})" if finding.kafka_issue else ""
    page.line(f"{finding.text}{issue}", indent=4)
    page.line(f"Remedy: {finding.remedy}", indent=4)
