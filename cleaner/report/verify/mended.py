"""Repairs as text and as JSON: what was mended, what would be, and why the rest was not."""

from __future__ import annotations

from typing import Any

from cleaner.engine.repair.repairing import RepairResult, Repairs
from cleaner.report.page import Page, counted


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
    """Add a line for each file that was to be mended, and the sum."""
    for result in () if page.view.summary_only else repairs.results:
        repair = result.planned.repair
        page.line(f"{_word(result, repairs)} {repair.target.path}", indent=2, hanging=2)
        page.line(f"{repair.text[0].upper()}{repair.text[1:]}.", indent=4)
        if result.error:
            page.line(f"FAILED: {result.error}", "red", indent=4)
    if repairs.results and not page.view.summary_only:
        page.line()
    done = sum(1 for r in repairs.results if (r.planned.repair.is_repairable if repairs.dry_run else r.is_done))
    would = "would be" if repairs.dry_run else "were" if done != 1 else "was"
    left = len(repairs.remaining)
    remain = "would remain" if repairs.dry_run else "remains" if left == 1 else "remain"
    page.line(f"{counted(done, 'file')} {would} mended; {counted(left, 'finding')} {remain}.")
    if not repairs.interrupted and (others := _not_asked_for(repairs)):
        page.line(f"Not asked for, and may mend more: {', '.join(f'--repair={kind}' for kind in others)}.")
    if any(r.is_done and r.planned.repair.size_bytes is not None for r in repairs.results):
        page.line("logcleaner restore --repairs takes back what replaced a file, as long as that waits as .deleted.")


def _not_asked_for(repairs: Repairs) -> list[str]:
    """Return the kinds of repairs that findings name, and that nobody asked for."""
    tried = {result.planned.repair.target.path for result in repairs.results}
    return sorted({one.repair.value for one in repairs.remaining if one.repair and one.path not in tried})


def _word(result: RepairResult, repairs: Repairs) -> str:
    code = result.planned.repair.code
    if not result.planned.repair.is_repairable:
        return code.value
    return "WOULD MEND" if repairs.dry_run else "MENDED" if result.is_done else "LEFT"
