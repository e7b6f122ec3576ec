"""The text of a plan and its outcome, as wide as the terminal; the totals and the next step come last.

The text never breaks a word. Cut are only long names, on a terminal; a piped report has all of them, so that a reader
can search it for paths and codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.report.forecast.runways import opening
from cleaner.report.page import ATTENTION, LINES_MAX, Page, counted, size, sparse
from cleaner.report.rollup.listing import list_order, list_topics
from cleaner.report.rollup.rolled import Planned, dirty_bytes, in_order
from cleaner.report.rollup.summary import WORD_WIDTH, compacted, summarize
from cleaner.report.runs import STYLES, Stretch, policy_of, runs_of, told, where
from policies.explain.words import offsets
from policies.facts import UnreadablePartition
from policies.forecast.births import seen_ms
from policies.guards import may_drop_unkeyed
from policies.plan import LogDirPlan, PartitionPlan, Plan
from policies.reasons import Action, duration, moment
from policies.steps import scratch_bytes

_JOURNAL_BYTES: Final = 4096
"""One block of the file system, for the journal's next lines."""


def fill(
    page: Page,
    plan: Plan,
    outcome: Outcome,
    *,
    ended_ms: int | None = None,
    is_copy: bool = False,
    is_rescue: bool = False,
) -> None:
    """Fill a page with the plan and its outcome, the totals and the next step.

    Args:
        page: the page.
        plan: the plan.
        outcome: what was done, or would be.
        ended_ms: when the run ended, epoch ms; None if it took its own time from the moment of the plan on.
        is_copy: whether the run wrote a copy, and so freed nothing.
        is_rescue: whether the order of the deletions matters, because the run stops once enough is free.
    """
    summary = page.draft()
    summarize(summary, plan, outcome, ended_ms=ended_ms, is_copy=is_copy)
    if page.view.summary_only:
        for log_dir in plan.log_dirs:
            for words in _refusals(log_dir, outcome, plan):
                page.line(f"{log_dir.facts.path}: {words}", ATTENTION, hanging=2)
        page.text.extend(summary.text)
        return
    if outcome.dry_run:
        page.line(opening(plan), ATTENTION)
        page.line()
    if page.every_segment:
        _every_segment(page, plan, outcome)
    else:
        for log_dir in plan.log_dirs:
            _log_dir(log_dir, outcome, page, plan)
        page.line()
        if is_rescue:
            list_order(page, plan, LINES_MAX // 4)
        behind = len(outcome.runways) + 1 if is_rescue else 0  # ``free`` tells of each file system, and that it unlinks
        list_topics(page, plan, outcome, LINES_MAX - behind - page.lines - summary.lines)
    page.text.extend(summary.text)


def _every_segment(page: Page, plan: Plan, outcome: Outcome) -> None:
    """Add every partition with every segment, log dir by log dir."""
    for log_dir in plan.log_dirs:
        _log_dir(log_dir, outcome, page, plan)
        page.line()
        ordered = in_order(log_dir.partitions, outcome, page.view.sort, plan.request.now_ms)
        shown = page.view.first(ordered)
        for planned in shown:
            _partition(planned, outcome, page)
            page.line()
        if left_out := len(ordered) - len(shown):
            page.line(f"and {counted(left_out, 'more partition')}")
            page.line()


def _log_dir(planned: LogDirPlan, outcome: Outcome, page: Page, plan: Plan) -> None:
    facts, at_once = planned.facts, plan.request.is_at_once
    page.line(
        f"{facts.path}: {sparse(facts.size_bytes, facts.disk_bytes)} in "
        f"{counted(len(planned.partitions), 'partition')}, "
        f"{size(facts.free_bytes)} free on its file system",
        "bold",
    )
    if outcome.dry_run and (scratch := scratch_bytes(planned, at_once=at_once)):
        fits = (
            ""
            if scratch <= facts.free_bytes
            else "; a compaction that finds no space fails, and its partition stays as it is"
        )
        page.note(f"compaction needs up to {size(scratch)} of that while it runs{fits}")
    for words in _refusals(planned, outcome, plan):
        page.note(words, ATTENTION)
    if facts.config and (newest_ms := facts.config.metadata_newest_ms) is not None:
        age_ms = seen_ms(plan) - newest_ms
        age = f"{duration(age_ms)} old" if age_ms >= 0 else f"later than the time of this plan, {moment(seen_ms(plan))}"
        page.note(f"newest record of the cluster metadata: {moment(newest_ms)}, {age}")
    if facts.config and (torn_bytes := facts.config.metadata_torn_bytes):
        torn = f"the cluster metadata ends in {torn_bytes:,} bytes that are no batch, which a broker cuts off"
        page.note(f"{torn}: the last changes may be missing", ATTENTION)
    if planned.foreign and not planned.guard:
        page.note(f"{planned.foreign.code}: {planned.foreign.text}", ATTENTION)
    if planned.guard:
        page.note(f"held back: {planned.guard.text}", ATTENTION)
    for error in facts.errors:
        page.note(f"FAILED: {error}", "bold red")


def _refusals(planned: LogDirPlan, outcome: Outcome, plan: Plan) -> Iterator[str]:
    """Yield why a run would change nothing of a log dir, though the plan of a dry run holds changes."""
    facts = planned.facts
    if not outcome.dry_run:
        return
    if facts.locked_by:
        yield f"held by {facts.locked_by}: a run without --dry-run would be refused"
    if not plan.request.is_at_once and facts.free_bytes < _JOURNAL_BYTES and _has_work(planned):
        words = "the file system has no space for the journal, so a run changes nothing here"
        yield f"{words}; logcleaner free, or --delete-delay 0, makes space first"


def _has_work(planned: LogDirPlan) -> bool:
    return any(isinstance(p, PartitionPlan) and p.has_work for p in planned.partitions)


def _partition(planned: Planned, outcome: Outcome, page: Page) -> None:
    if isinstance(planned, UnreadablePartition):
        page.line(f"{planned.topic_partition}  {size(planned.size_bytes)}", "bold")
        page.note(f"FAILED: {planned.error}", "bold red")
        return
    facts = planned.facts
    ratio = f"  dirty ratio {planned.section.dirty_ratio:.2f}" if planned.section else ""
    page.line(
        f"{facts.topic_partition}  {policy_of(planned)}  {size(facts.size_bytes)}  "
        f"{offsets(facts.log_start_offset, facts.log_end_offset)}{ratio}",
        "bold",
        hanging=2,
    )
    runs = runs_of(planned, outcome, every_segment=True)
    columns = max((len(where(run)) for run in runs), default=0)
    for run in runs:
        _run(run, columns, page)
    if planned.checkpoint_offset is not None:
        words = f"cleaner-offset-checkpoint lies outside the log: first dirty offset {facts.cleaner_checkpoint}"
        page.note(f"{words} becomes {planned.checkpoint_offset}")
    if result := outcome.results.get(planned.key):
        _result(planned, result, page)


def _run(run: Stretch, columns: int, page: Page) -> None:
    reason = run.verdict.reason
    figures = f"  {where(run):{columns}}  {size(run.size_bytes):>11}  {reason.code}"
    page.fate(f"{run.word:{WORD_WIDTH}}", figures, STYLES[run.verdict.action])
    page.line(told(reason, "" if run.alike else str(run.verdict.base_offset)), indent=4)


def _result(planned: PartitionPlan, result: PartitionResult, page: Page) -> None:
    if result.compacted_from_bytes:
        to_bytes = None if result.basis is Basis.ESTIMATE else result.compacted_to_bytes
        words = f": {compacted(result.compacted_from_bytes, to_bytes, dirty_bytes(planned))}"
        if result.records_read:
            words += f", {result.records_kept:,} of {result.records_read:,} records stay"
        if result.records_unkeyed:
            words += f", {result.records_unkeyed:,} without a key go"
        if result.basis is Basis.ESTIMATE and may_drop_unkeyed(planned):
            words += ", records without a key not counted"
        page.fate("compaction", words, STYLES[Action.COMPACT])
    if result.error:
        page.note(f"FAILED: {result.error}", "bold red")
