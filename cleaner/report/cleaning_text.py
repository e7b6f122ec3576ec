"""The text of a plan and its outcome, as wide as the terminal; the totals and the next step come last.

The text never breaks a word and cuts nothing off, so that a reader can search a piped report for paths and codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.report.forecast.runways import closing, lines, opening
from cleaner.report.page import YEAR_9999_MS, Page, counted, size
from cleaner.report.runs import Stretch, folded, runs_of
from cleaner.report.totals import Totals
from policies.facts import UnreadablePartition
from policies.guards import may_drop_unkeyed
from policies.plan import LogDirPlan, PartitionPlan, Plan
from policies.reasons import Action, Reason, ReasonCode, duration, moment
from policies.steps import scratch_bytes

_STYLES: Final = {Action.DELETE: "red", Action.COMPACT: "cyan", Action.KEEP: "green"}
_JOURNAL_BYTES: Final = 4096
"""One block of the file system, for the journal's next lines."""
_WORD_WIDTH: Final = len("would compact")


def fill(page: Page, plan: Plan, outcome: Outcome) -> None:
    """Fill a page with the plan and its outcome, the totals and the next step.

    Args:
        page: the page.
        plan: the plan.
        outcome: what was done, or would be.
    """
    if outcome.dry_run:
        page.line(opening(plan), "bold yellow")
        page.line()
    for log_dir in plan.log_dirs:
        _log_dir(log_dir, outcome, page, now_ms=plan.request.now_ms, at_once=plan.request.is_at_once)
    totals = Totals.of(plan, outcome)
    _totals(totals, outcome, page)
    lines(outcome.runways, page)
    _next_step(plan, totals, outcome, page)


def _log_dir(planned: LogDirPlan, outcome: Outcome, page: Page, *, now_ms: int, at_once: bool) -> None:
    facts = planned.facts
    page.line(
        f"{facts.path}: {size(facts.size_bytes)} in {counted(len(planned.partitions), 'partition')}, "
        f"{size(facts.free_bytes)} free on its file system",
        "bold",
    )
    if outcome.dry_run and (scratch := scratch_bytes(planned, at_once=at_once)):
        fits = "" if scratch <= facts.free_bytes else ", and a compaction that does not fit is left out"
        page.note(f"compaction needs up to {size(scratch)} of that while it runs{fits}")
    if facts.locked_by and outcome.dry_run:
        page.line(f"held by {facts.locked_by}: a run without --dry-run would be refused", "yellow", indent=2)
    if facts.config and (newest_ms := facts.config.metadata_newest_ms) is not None:
        age = duration(max((facts.clock.now_ms if facts.clock else now_ms) - newest_ms, 0))
        page.note(f"newest record of the cluster metadata: {moment(newest_ms)}, {age} old")
    if facts.config and (torn_bytes := facts.config.metadata_torn_bytes):
        torn = f"the cluster metadata ends in {torn_bytes:,} bytes that are no batch, which a broker cuts off"
        page.note(f"{torn}: the last changes may be missing", "bold yellow")
    if (
        outcome.dry_run
        and not at_once
        and facts.free_bytes < _JOURNAL_BYTES
        and any(p.has_work for p in _plans(planned))
    ):
        words = "the file system has no space for the journal, so a run changes nothing here"
        page.note(f"{words}; logcleaner free, or --delete-delay 0, makes space first", "bold yellow")
    if planned.foreign and not planned.guard:
        page.note(f"{planned.foreign.code}: {planned.foreign.text}", "bold yellow")
    if planned.guard:
        page.note(f"held back: {planned.guard.text}", "bold yellow")
    for error in facts.errors:
        page.note(f"FAILED: {error}", "bold red")
    page.line()
    groups = ([p] for p in planned.partitions) if page.every_segment else folded(planned.partitions)
    for group in groups:
        _group(group, outcome, page)
        page.line()


def _plans(planned: LogDirPlan) -> list[PartitionPlan]:
    return [p for p in planned.partitions if isinstance(p, PartitionPlan)]


def _group(group: Sequence[PartitionPlan | UnreadablePartition], outcome: Outcome, page: Page) -> None:
    first, *others = group
    if isinstance(first, UnreadablePartition):
        page.line(f"{first.topic_partition}  {size(first.size_bytes)}", "bold")
        page.note(f"FAILED: {first.error}", "bold red")
    elif others:
        _unchanged(first, [p for p in group if isinstance(p, PartitionPlan)], page)
    else:
        _partition(first, outcome, page)


def _unchanged(first: PartitionPlan, group: Sequence[PartitionPlan], page: Page) -> None:
    """Add one paragraph for partitions of one topic that all stay for the same reason."""
    last = group[-1].facts.topic_partition.partition
    name = f"{first.facts.topic_partition} to -{last}"
    size_bytes = sum(p.facts.size_bytes for p in group)
    page.line(f"{name}  {_policy(first)}  {counted(len(group), 'partition')}  {size(size_bytes)}", "bold", hanging=2)
    segments = sum(len(p.verdicts) for p in group)
    reason = first.verdicts[0].reason
    page.line(
        f"{'keep':{_WORD_WIDTH}}  {counted(segments, 'segment')}  {reason.code}",
        _STYLES[Action.KEEP],
        indent=2,
    )
    alike = len({v.reason.text for p in group for v in p.verdicts}) == 1
    page.line(_told(reason, "" if alike else str(first.facts.topic_partition)), indent=4)


def _partition(planned: PartitionPlan, outcome: Outcome, page: Page) -> None:
    facts = planned.facts
    ratio = f"  dirty ratio {planned.section.dirty_ratio:.2f}" if planned.section else ""
    page.line(
        f"{facts.topic_partition}  {_policy(planned)}  {size(facts.size_bytes)}  "
        f"offsets {facts.log_start_offset} to {facts.log_end_offset}{ratio}",
        "bold",
        hanging=2,
    )
    runs = runs_of(planned, outcome, every_segment=page.every_segment)
    columns = max((len(_where(run)) for run in runs), default=0)
    for run in runs:
        _run(run, columns, page)
    if planned.checkpoint_offset is not None:
        words = f"cleaner-offset-checkpoint lies outside the log: first dirty offset {facts.cleaner_checkpoint}"
        page.note(f"{words} becomes {planned.checkpoint_offset}")
    if result := outcome.results.get((facts.log_dir, facts.topic_partition)):
        _result(planned, result, page)


def _run(run: Stretch, columns: int, page: Page) -> None:
    reason = run.verdict.reason
    where = f"{_where(run):{columns}}  {size(run.size_bytes):>11}"
    page.note(f"{run.word:{_WORD_WIDTH}}  {where}  {reason.code}", _STYLES[run.verdict.action])
    page.line(_told(reason, "" if run.alike else str(run.verdict.base_offset)), indent=4)


def _where(run: Stretch) -> str:
    if run.segments == 1:
        return str(run.first_base_offset)
    return f"{run.first_base_offset} to {run.last_base_offset}, {counted(run.segments, 'segment')}"


def _told(reason: Reason, whose: str) -> str:
    """Return the reason's sentence, after the segment that it is about, if any, and before the time until it holds."""
    is_past = reason.code is ReasonCode.RETENTION_TIME
    until_ms = None if is_past else reason.until_ms
    until = f"; until {moment(until_ms)}" if until_ms and until_ms < YEAR_9999_MS else ""
    return f"{whose + ': ' if whose else ''}{reason.text}{until}"


def _policy(planned: PartitionPlan) -> str:
    if planned.config_is_unknown:
        return "policy unknown"
    return planned.policy.cleanup_policy or "no policy"


def _result(planned: PartitionPlan, result: PartitionResult, page: Page) -> None:
    if result.compacted_from_bytes:
        at_most = "at most " if result.basis is Basis.ESTIMATE else ""
        words = f"compaction: {size(result.compacted_from_bytes)} to {at_most}{size(result.compacted_to_bytes)}"
        if result.records_read:
            words += f", {result.records_kept:,} of {result.records_read:,} records stay"
        if result.records_unkeyed:
            words += f", {result.records_unkeyed:,} without a key go"
        if page.every_segment and result.basis is Basis.ESTIMATE and may_drop_unkeyed(planned):
            words += ", records without a key not counted"
        page.note(words, _STYLES[Action.COMPACT])
    if result.error:
        page.note(f"FAILED: {result.error}", "bold red")


def _totals(totals: Totals, outcome: Outcome, page: Page) -> None:
    would = "Would " if outcome.dry_run else ""
    for label, words in _figures(totals, outcome):
        verb = f"{would}{label}" if would else _PAST[label]
        page.line(f"{verb:{_WORD_WIDTH}}  {words}", "bold", hanging=_WORD_WIDTH + 2)
    if totals.unknown:
        words = f"{counted(totals.unknown, 'partition')} with unknown configuration (CONFIG_UNKNOWN)"
        page.line(f"{'Not touched':{_WORD_WIDTH}}  {words}", "bold yellow")
    if totals.guarded:
        words = f"{counted(totals.guarded, 'partition')} by a guard rail; --yes releases it"
        page.line(f"{'Held back':{_WORD_WIDTH}}  {words}", "bold yellow")
    if totals.failed:
        page.line(
            f"{'Failed':{_WORD_WIDTH}}  {counted(totals.failed, 'partition')}; the others were processed", "bold red"
        )
    for error in outcome.errors:
        page.line(f"FAILED: {error}", "bold red", hanging=2)


_PAST: Final = {
    "delete": "Deleted",
    "compact": "Compacted",
    "drop": "Dropped",
    "reclaim": "Reclaimed",
    "unlink": "Unlinked",
}


def _figures(totals: Totals, outcome: Outcome) -> list[tuple[str, str]]:
    figures: list[tuple[str, str]] = []
    if totals.deleted_segments:
        segments = counted(totals.deleted_segments, "segment")
        partitions = counted(totals.deleting_partitions, "partition")
        figures.append(("delete", f"{segments} of {partitions}, {size(totals.deleted_bytes)}"))
    if totals.compacted_partitions:
        at_most = "at most " if totals.is_estimate else ""
        sizes = f"{size(totals.compacted_from_bytes)} to {at_most}{size(totals.compacted_to_bytes)}"
        figures.append(("compact", f"{counted(totals.compacted_partitions, 'partition')}, {sizes}"))
    if totals.records_unkeyed:
        records = counted(totals.records_unkeyed, "record")
        figures.append(("drop", f"{records} without a key: a compacted topic cannot keep them"))
    if figures:
        at_least = "at least " if totals.is_estimate else ""
        figures.append(("reclaim", f"{at_least}{size(totals.reclaimed_bytes)} of {size(totals.bytes_before)}"))
    if outcome.swept_bytes:
        figures.append(("unlink", f"{size(outcome.swept_bytes)} in .deleted files of earlier runs"))
    return figures


def _next_step(plan: Plan, totals: Totals, outcome: Outcome, page: Page) -> None:
    has_work = plan.has_work or outcome.swept_bytes > 0
    if outcome.interrupted:
        page.line(
            "Interrupted: what is marked 'not' was not finished, a compaction may be done in part, and every file is "
            "whole. Run again for the rest.",
            "bold yellow",
        )
    elif not (has_work or totals.unknown or totals.guarded or _has_failed(plan, totals, outcome)):
        page.line(f"Nothing to do in {counted(totals.partitions, 'partition')}.", "bold")
    if totals.waiting_bytes > 0 and not plan.request.is_at_once:
        _deletion_note(plan, totals, outcome, page)
    if outcome.dry_run and totals.is_estimate:
        page.line("The compacted size is not known without reading the data; --exact reads it.")
        _uncounted(plan, outcome, page)
    if outcome.dry_run and has_work:
        page.line(closing(plan), "bold yellow")


def _uncounted(plan: Plan, outcome: Outcome, page: Page) -> None:
    """Add a line if the records that a compacted topic cannot keep were not counted."""
    estimated = {key for key, result in outcome.results.items() if result.basis is Basis.ESTIMATE}
    if partitions := sum(p.key in estimated and may_drop_unkeyed(p) for p in plan.partitions):
        lost = f"Records without a key that {counted(partitions, 'partition')} would lose"
        page.line(f"{lost}: not known without --exact.")


def _has_failed(plan: Plan, totals: Totals, outcome: Outcome) -> bool:
    return bool(totals.failed or outcome.errors or any(log_dir.facts.errors for log_dir in plan.log_dirs))


def _deletion_note(plan: Plan, totals: Totals, outcome: Outcome, page: Page) -> None:
    """Add a line that says when the file system gets the space back."""
    asked_ms = plan.request.delete_delay_ms
    delay = _delay(plan) if asked_ms is None else duration(asked_ms)
    would = "would wait" if outcome.dry_run else "wait"
    page.line(
        f"{size(totals.waiting_bytes)} {would} in .deleted files for file.delete.delay.ms ({delay}); "
        "the next clean after that unlinks them. --delete-delay 0 unlinks at once."
    )


def _delay(plan: Plan) -> str:
    delays_ms = {p.policy.file_delete_delay_ms for p in plan.partitions if p.deletion or p.compaction}
    shortest, longest = min(delays_ms), max(delays_ms)
    return duration(longest) if shortest == longest else f"{duration(shortest)} to {duration(longest)}"
