"""The end of a report on a run: the totals, what is free now and what will be when, and the next step."""

from __future__ import annotations

from typing import Final

from cleaner.engine.outcome import Basis, Outcome
from cleaner.report.forecast.runways import closing, lines
from cleaner.report.page import ATTENTION, Page, counted, size, two_sizes
from cleaner.report.totals import Totals
from policies.guards import may_drop_unkeyed
from policies.plan import Plan
from policies.reasons import duration, moment

WORD_WIDTH: Final = len("would compact")
_MINUTE_MS: Final = 60_000
_DATE: Final = len("2026-11-23")
_CLOCK: Final = slice(_DATE + 1, _DATE + 6)


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
    if freed := _freed(plan, totals, outcome, ended_ms):
        words = f"{size(totals.reclaimed_bytes)} of {size(totals.bytes_before)}"  # of what a copy would hold
        _figure("leave out" if is_copy else "free", words if is_copy else freed, outcome, page)
    _warnings(totals, outcome, page)
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


def _freed(plan: Plan, totals: Totals, outcome: Outcome, ended_ms: int) -> str:
    """Return what the file systems have gained, and what they gain when; empty if there is nothing to say."""
    reclaimed_bytes, swept_bytes = totals.space.reclaimed_disk_bytes, outcome.swept_disk_bytes
    if not (totals.deleted_segments or totals.compacted_partitions or outcome.swept_bytes):
        return ""
    later_bytes = 0 if plan.request.is_at_once else totals.space.waiting_disk_bytes
    now_bytes = reclaimed_bytes + swept_bytes - later_bytes
    of = f"of {size(totals.disk_bytes_before + swept_bytes)}"  # the logs, and files that no log has any more
    if totals.is_estimate:
        if not reclaimed_bytes + swept_bytes:
            return "what compaction saves, which nobody knows without --exact"
        of = f"or more {of}"
        later_bytes, now_bytes = min(later_bytes, reclaimed_bytes), max(now_bytes, swept_bytes)
    if later_bytes <= 0:
        return f"{size(now_bytes)} {of}"
    when = _when(plan, outcome, ended_ms)
    if now_bytes > 0:
        return f"{size(now_bytes)} {of}; {size(later_bytes)} more {when}"
    net_bytes = now_bytes + later_bytes  # the compacted files stay, so what they take is never free
    meanwhile = f"; until then {size(-now_bytes)} more are taken: old and compacted files" if now_bytes else ""
    return f"nothing {'at once' if outcome.dry_run else 'yet'}; {size(net_bytes)} {of} {when}{meanwhile}"


def _when(plan: Plan, outcome: Outcome, ended_ms: int) -> str:
    """Return when the files that wait go, who unlinks them, and how to have it at once."""
    asked_ms = plan.request.delete_delay_ms
    delays_ms = {p.policy.file_delete_delay_ms for p in plan.partitions if p.deletion or p.compaction}
    if asked_ms is not None:
        delays_ms = {asked_ms}
    if outcome.dry_run:
        spans = " to ".join(duration(delay_ms) for delay_ms in _ends(delays_ms))
        return f"{spans} later, by the next clean (--delete-delay 0: at once)"
    times = " to ".join(_clock(ended_ms + delay_ms, ended_ms) for delay_ms in _ends(delays_ms))
    return f"at {times} UTC, by the next clean (--delete-delay 0: now)"


def _ends(delays_ms: set[int]) -> list[int]:
    return sorted({min(delays_ms), max(delays_ms)})


def _clock(time_ms: int, today_ms: int) -> str:
    """Return a moment to the minute, not before it; with its date unless that is today's."""
    told = moment(-(-time_ms // _MINUTE_MS) * _MINUTE_MS)
    if told[:_DATE] == moment(today_ms)[:_DATE]:
        return told[_CLOCK]
    return f"{told[:_DATE]} {told[_CLOCK]}" if told.endswith("Z") else told


def _warnings(totals: Totals, outcome: Outcome, page: Page) -> None:
    if totals.unknown:
        words = f"{counted(totals.unknown, 'partition')} with unknown configuration (CONFIG_UNKNOWN)"
        page.line(f"{'Not touched':{WORD_WIDTH}}  {words}", ATTENTION)
    if totals.guarded:
        words = f"{counted(totals.guarded, 'partition')} by a guard rail; --yes releases it"
        page.line(f"{'Held back':{WORD_WIDTH}}  {words}", ATTENTION)
    if totals.failed:
        others = "; the others were processed" if totals.partitions > totals.failed else ""
        page.line(f"{'Failed':{WORD_WIDTH}}  {counted(totals.failed, 'partition')}{others}", "bold red")
    for error in outcome.errors:
        page.line(f"FAILED: {error}", "bold red", hanging=2)


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
        page.line(f"{lost}: not known without --exact. More than max.unkeyed.ratio hold a run back.")


def _has_failed(plan: Plan, totals: Totals, outcome: Outcome) -> bool:
    return bool(totals.failed or outcome.errors or any(log_dir.facts.errors for log_dir in plan.log_dirs))
