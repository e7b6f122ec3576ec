"""The end of a report on a run: the totals, what is free now and what will be when, and the next step."""

from __future__ import annotations

from typing import Final

from cleaner.engine.outcome import Basis, Outcome
from cleaner.report.forecast.runways import closing, lines
from cleaner.report.page import ATTENTION, Page, counted, size, two_sizes
from cleaner.report.rollup.freed import freed_words
from cleaner.report.totals import Totals
from policies.findings.only_copies import KeptFile
from policies.guards import may_drop_unkeyed
from policies.plan import Plan

WORD_WIDTH: Final = len("would compact")


def summarize(page: Page, plan: Plan, outcome: Outcome, *, ended_ms: int | None, is_copy: bool) -> None:
    """Add the totals and the next step to a page.

    Args:
        page: the page.
        plan: the plan.
        outcome: what was done, or would be.
        ended_ms: when the run ended, epoch ms; None if it took its own time from the moment of the plan on.
        is_copy: whether the run wrote a copy, and so freed nothing.
    """
    totals = Totals.of(plan, outcome)
    if ended_ms is None:
        ended_ms = plan.request.now_ms + round(outcome.seconds * 1000)
    for label, words in _figures(totals, outcome):
        _figure(label, words, outcome, page)
    if freed := freed_words(plan, totals, outcome, ended_ms):
        words = f"{size(totals.reclaimed_bytes)} of {size(totals.bytes_before)}"  # of what a copy would hold
        _figure("leave out" if is_copy else "free", words if is_copy else freed, outcome, page)
    _warnings(totals, outcome, page, is_copy=is_copy)
    lines(outcome.runways, page)
    _next_step(plan, totals, outcome, page)


_PAST: Final = {
    "delete": "Deleted",
    "compact": "Compacted",
    "drop": "Dropped",
    "free": "Freed",
    "leave out": "Left out",
    "unlink": "Unlinked",
}


def _figure(label: str, words: str, outcome: Outcome, page: Page) -> None:
    verb = f"Would {label}" if outcome.dry_run else _PAST[label]
    page.line(f"{verb:{WORD_WIDTH}}  {words}", "bold", hanging=WORD_WIDTH + 2)


def _figures(totals: Totals, outcome: Outcome) -> list[tuple[str, str]]:
    figures: list[tuple[str, str]] = []
    if totals.deleted_segments:
        segments = counted(totals.deleted_segments, "segment")
        partitions = counted(totals.deleting_partitions, "partition")
        figures.append(("delete", f"{segments} of {partitions}, {size(totals.deleted_bytes)}"))
    if totals.compacted_partitions:
        from_bytes, to_bytes = totals.compacted_from_bytes, totals.compacted_to_bytes
        sizes = compacted(from_bytes, None if totals.is_estimate else to_bytes, totals.dirty_bytes)
        figures.append(("compact", f"{counted(totals.compacted_partitions, 'partition')}, {sizes}"))
    if totals.records_unkeyed:
        records = counted(totals.records_unkeyed, "record")
        figures.append(("drop", f"{records} without a key: a compacted topic cannot keep them"))
    if outcome.swept_bytes:
        lost = "after that, restore cannot" if outcome.dry_run else "restore can no longer"
        figures.append(
            (
                "unlink",
                f"{size(outcome.swept_bytes)} in .deleted files of earlier runs: {lost} take these deletions back",
            )
        )
    return figures


def compacted(from_bytes: int, to_bytes: int | None, dirty_bytes: int) -> str:
    """Return what a compaction makes of some bytes; how many of them are dirty, if nobody knows what stays."""
    if to_bytes is not None:
        return " to ".join(two_sizes(from_bytes, to_bytes))
    share = "all" if dirty_bytes >= from_bytes else size(dirty_bytes)
    return f"{size(from_bytes)}, {share} of it dirty"


def _warnings(totals: Totals, outcome: Outcome, page: Page, *, is_copy: bool) -> None:
    if totals.unknown:
        words = f"{counted(totals.unknown, 'partition')} with unknown configuration (CONFIG_UNKNOWN)"
        page.line(f"{'Not touched':{WORD_WIDTH}}  {words}", ATTENTION)
    if totals.guarded:
        words = f"{counted(totals.guarded, 'partition')} by a guard rail; --yes releases it"
        page.line(f"{'Held back':{WORD_WIDTH}}  {words}", ATTENTION)
    if totals.failed:
        others = "; the others were processed" if totals.partitions > totals.failed else ""
        page.line(f"{'Failed':{WORD_WIDTH}}  {counted(totals.failed, 'partition')}{others}", "bold red")
    for file in outcome.kept:
        page.line(
            f"{'Left out' if is_copy else 'Kept':{WORD_WIDTH}}  {kept_words(file)}", ATTENTION, hanging=WORD_WIDTH + 2
        )
    if outcome.kept:
        words = "The copy lacks these records: keep the original. " if is_copy else ""
        words += "A broker that starts removes these files: do not start it; logcleaner doctor says what to do."
        page.line(f"{'':{WORD_WIDTH}}  {words}", ATTENTION, hanging=WORD_WIDTH + 2)
    for error in outcome.errors:
        page.line(f"FAILED: {error}", "bold red", hanging=2)


def kept_words(file: KeptFile) -> str:
    """Return which file stays, and why."""
    path, copy = f"{file.topic_partition}/{file.name}", file.copy
    if copy is None:
        return f"{path} has no .log: records are missing"
    if file.unknown_because is not None:
        return f"{path}: nobody knows whether the log needs it: {file.unknown_because}"
    return f"{path} may be the only copy of offsets {copy.first_offset} to {copy.last_offset}, which the log lacks"


def _next_step(plan: Plan, totals: Totals, outcome: Outcome, page: Page) -> None:
    has_work = plan.has_work or outcome.swept_bytes > 0
    if outcome.interrupted:
        is_quiet = page.view.summary_only  # then no segment is shown that could be marked
        left = "not everything was finished" if is_quiet else "what is marked 'not' was not finished"
        words = (
            f"Interrupted: {left}, a compaction may be done in part, and every file is whole. Run again for the rest."
        )
        page.line(words, ATTENTION)
    elif not (has_work or totals.unknown or totals.guarded or _has_failed(plan, totals, outcome)):
        page.line(f"Nothing to do in {counted(totals.partitions, 'partition')}.", "bold")
    if outcome.dry_run and totals.is_estimate:
        page.line("The compacted size is not known without reading the data; --exact reads it.")
        _uncounted(plan, outcome, page)
    if outcome.dry_run and has_work:
        page.line(closing(plan), ATTENTION)


def _uncounted(plan: Plan, outcome: Outcome, page: Page) -> None:
    """Add a line if the records that a compacted topic cannot keep were not counted."""
    estimated = {key for key, result in outcome.results.items() if result.basis is Basis.ESTIMATE}
    if partitions := sum(p.key in estimated and may_drop_unkeyed(p) for p in plan.partitions):
        lost = f"Records without a key that {counted(partitions, 'partition')} would lose"
        page.line(f"{lost}: not known without --exact.")
        page.line("A run leaves a partition alone that would lose more than max.unkeyed.ratio.")


def _has_failed(plan: Plan, totals: Totals, outcome: Outcome) -> bool:
    return bool(totals.failed or outcome.errors or any(log_dir.facts.errors for log_dir in plan.log_dirs))
