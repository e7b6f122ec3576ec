"""The report of a run: text for people, and for machines ``logcleaner.plan/1``, whose keys never change.

The text is as wide as the terminal; the totals and the next step come last. It never breaks a word. Only long names are
cut, and only on a terminal, so that paths and codes can be searched for in a piped report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.report.page import ATTENTION, LINES_MAX, Page, sparse
from cleaner.report.rollup.listing import WORD_WIDTH, compacted, list_order, list_topics, summarize
from cleaner.report.rollup.rolled import Planned, dirty_bytes, in_order
from cleaner.report.runs import STYLES, Stretch, policy_of, runs_of, told, where
from cleaner.report.runways import documents, opening
from cleaner.report.totals import Totals, log_dir_errors
from policies.facts import NO_TIMESTAMP, SegmentFacts, UnreadablePartition
from policies.findings.only_copies import KeptFile
from policies.forecast.births import seen_ms
from policies.guards import may_drop_unkeyed
from policies.plan import LogDirPlan, PartitionPlan, Plan
from policies.planning import scratch_bytes
from policies.reasons import Action, Limit, Reason, as_int64, counted, duration, moment, offsets, size
from storage.directory import is_stored

if TYPE_CHECKING:
    from cleaner.report.overview.values import Overview
    from cleaner.report.page import Lines


SCHEMA: Final = "logcleaner.plan/1"


@dataclass(frozen=True, slots=True)
class CleaningReport:
    """A plan and its outcome.

    Attributes:
        plan: the plan.
        outcome: what was done, or would be.
        ended_ms: when the run ended, epoch ms; None if it took its own time from the moment of the plan on.
        is_copy: whether the run wrote a copy, and so freed nothing.
        is_rescue: whether the order of the deletions matters, because the run stops once enough is free.
        overview: what the page of the run shows besides; None if no page is asked for.
    """

    plan: Plan
    outcome: Outcome
    ended_ms: int | None = None
    is_copy: bool = False
    is_rescue: bool = False
    overview: Overview | None = None

    def document(self) -> dict[str, Any]:
        """Return what ``clean --json`` prints: sizes in bytes, times in epoch ms, null for what is not known.

        A partition's ``error`` is set if the partition could not be read, or if a planned step failed. Its ``result``
        is null if there was nothing to do, or if the run ended before. A ``result`` has ``records_unkeyed`` only if the
        compaction drops records without a key, or as null if the data was not read, so that nobody knows. ``errors``
        tells what failed beside the partitions, if anything did. ``kept`` tells which files stay although their
        kind may go, if any do: only copies of records, and index files without a ``.log``. ``left_out`` tells what of
        the log dir is not in a copy, if anything is not. Only a dry run has
        ``runway``: an object for each file system. ``report`` is there if there is an overview.
        """
        plan, outcome = self.plan, self.outcome
        errors = log_dir_errors(plan, outcome)
        return {
            "schema": SCHEMA,
            "now": plan.request.now_ms,
            "dry_run": outcome.dry_run,
            "engine": outcome.engine,
            "log_dirs": [_log_dir(log_dir) for log_dir in plan.log_dirs],
            "partitions": [_partition(p, outcome) for log_dir in plan.log_dirs for p in log_dir.partitions],
            "totals": _totals(Totals.of(plan, outcome), outcome),
            **({"kept": [_kept(file) for file in outcome.kept]} if outcome.kept else {}),
            **({"left_out": list(outcome.left_out)} if outcome.left_out else {}),
            **({"errors": errors} if errors else {}),
            **({"runway": documents(outcome.runways)} if outcome.runways else {}),
            **({"report": self.overview.fields()} if self.overview else {}),
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the plan with its outcome, the totals and the next step."""

        fill(
            page,
            self.plan,
            self.outcome,
            ended_ms=self.ended_ms,
            is_copy=self.is_copy,
            is_rescue=self.is_rescue,
        )
        yield page.text


def reason_fields(reason: Reason) -> dict[str, Any]:
    """Return a reason with its limit, as every document tells it."""
    return {
        "code": reason.code.value,
        "text": reason.text,
        "until_ms": reason.until_ms,
        "limit": _limit(reason.limit) if reason.limit else None,
    }


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
            for words in _refusals(log_dir, outcome):
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
            _tell_log_dir(log_dir, outcome, page, plan)
        page.line()
        if is_rescue:
            list_order(page, plan, LINES_MAX // 4)
        behind = len(outcome.runways) + 1 if is_rescue else 0  # ``free`` prints lines of its own for each file system
        list_topics(page, plan, outcome, LINES_MAX - behind - page.lines - summary.lines)
    page.text.extend(summary.text)


def _totals(totals: Totals, outcome: Outcome) -> dict[str, Any]:
    return {
        "bytes_before": totals.bytes_before,
        "bytes_after": totals.bytes_before - totals.reclaimed_bytes,
        "reclaimed_bytes": totals.reclaimed_bytes,
        "disk_bytes_before": totals.disk_bytes_before,
        "reclaimed_disk_bytes": totals.space.reclaimed_disk_bytes,
        "freed_disk_bytes": totals.space.freed_disk_bytes,
        "unlinked_bytes": outcome.swept_bytes,
        "unlinked_disk_bytes": outcome.swept_disk_bytes,
        "partitions": totals.partitions,
        "failed": totals.failed,
        "seconds": round(outcome.seconds, 3),
    }


def _log_dir(planned: LogDirPlan) -> dict[str, Any]:
    facts = planned.facts
    return {
        "path": facts.path,
        "locked_by": facts.locked_by,
        "free_bytes": facts.free_bytes,
        "size_bytes": facts.size_bytes,
        "disk_bytes": facts.disk_bytes,
    }


def _partition(planned: PartitionPlan | UnreadablePartition, outcome: Outcome) -> dict[str, Any]:
    if isinstance(planned, UnreadablePartition):
        return _unreadable(planned)
    facts, section = planned.facts, planned.section
    result = outcome.results.get((facts.log_dir, facts.topic_partition))
    return {
        "topic": facts.topic_partition.topic,
        "partition": facts.topic_partition.partition,
        "log_dir": facts.log_dir,
        "cleanup_policy": planned.policy.cleanup_policy,
        "bytes": facts.size_bytes,
        "log_start_offset": facts.log_start_offset,
        "log_end_offset": facts.log_end_offset,
        "high_watermark": facts.high_watermark,
        "last_stable_offset": facts.last_stable_offset,
        "first_dirty_offset": section.first_dirty_offset if section else None,
        "dirty_ratio": round(section.dirty_ratio, 6) if section else None,
        "error": result.error if result else None,
        "segments": [_segment(planned, place) for place in range(len(planned.verdicts))],
        "result": _result(result) if result else None,
    }


def _unreadable(partition: UnreadablePartition) -> dict[str, Any]:
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "log_dir": partition.log_dir,
        "cleanup_policy": None,
        "bytes": partition.size_bytes,
        "log_start_offset": None,
        "log_end_offset": None,
        "high_watermark": None,
        "last_stable_offset": None,
        "first_dirty_offset": None,
        "dirty_ratio": None,
        "error": partition.error,
        "segments": [],
        "result": None,
    }


def _segment(planned: PartitionPlan, place: int) -> dict[str, Any]:
    verdict, facts = planned.verdicts[place], planned.facts
    newest_ms = facts.segments[place].newest_record_ms
    return {
        "base_offset": verdict.base_offset,
        "last_offset_max": facts.upper_offset(place) - 1 if verdict.size_bytes else None,
        "newest_timestamp_ms": None if newest_ms == NO_TIMESTAMP else newest_ms,
        "bytes": verdict.size_bytes,
        "action": verdict.action.value,
        "reason": reason_fields(verdict.reason),
        **({"in_tier": True} if verdict.base_offset in facts.in_tier else {}),
    }


def _result(result: PartitionResult) -> dict[str, Any]:
    return {
        "basis": result.basis.value,
        "deleted_segments": result.deleted_segments,
        "deleted_bytes": result.deleted_bytes,
        "freed_bytes": result.freed_bytes,
        "freed_disk_bytes": result.space.freed_disk_bytes,
        "reclaimed_disk_bytes": result.space.reclaimed_disk_bytes,
        "compacted_from_bytes": result.compacted_from_bytes,
        "compacted_to_bytes": result.compacted_to_bytes,
        **({"index_saved_bytes": result.space.index_saved_bytes} if result.compacted_from_bytes else {}),
        "records_read": result.records_read,
        "records_kept": result.records_kept,
        **_unkeyed(result),
        "seconds": round(result.seconds, 3),
    }


def _unkeyed(result: PartitionResult) -> dict[str, int | None]:
    if result.compacted_from_bytes and result.basis is Basis.ESTIMATE:
        return {"records_unkeyed": None}
    return {"records_unkeyed": result.records_unkeyed} if result.records_unkeyed else {}


def _kept(file: KeptFile) -> dict[str, Any]:
    return {
        "topic": file.topic_partition.topic,
        "partition": file.topic_partition.partition,
        "log_dir": file.log_dir,
        "name": file.name,
        "first_offset": file.copy.first_offset if file.copy and file.unknown_because is None else None,
        "last_offset": file.copy.last_offset if file.copy and file.unknown_because is None else None,
        "unknown_because": file.unknown_because,
    }


def _limit(limit: Limit) -> dict[str, Any]:
    stated, actual = limit
    return {
        "key": stated.key,
        "value": ",".join(stated.value) if isinstance(stated.value, tuple) else stated.value,
        "layer": stated.layer.title,
        "file": stated.file,
        "line": stated.line,
        "actual": as_int64(actual) if isinstance(actual, int) else actual,
    }


def _every_segment(page: Page, plan: Plan, outcome: Outcome) -> None:
    """Add every partition with every segment, log dir by log dir."""
    for log_dir in plan.log_dirs:
        _tell_log_dir(log_dir, outcome, page, plan)
        page.line()
        ordered = in_order(log_dir.partitions, outcome, page.view.sort, plan.request.now_ms)
        shown = page.view.first(ordered)
        for planned in shown:
            _tell_partition(planned, outcome, page)
            page.line()
        if left_out := len(ordered) - len(shown):
            page.line(f"and {counted(left_out, 'more partition')}")
            page.line()


def _tell_log_dir(planned: LogDirPlan, outcome: Outcome, page: Page, plan: Plan) -> None:
    facts, at_once = planned.facts, plan.request.is_at_once
    page.line(
        f"{facts.path}: {sparse(facts.size_bytes, facts.disk_bytes)} in "
        f"{counted(len(planned.partitions), 'partition')}, "
        f"{'in a store' if is_stored(facts.path) else f'{size(facts.free_bytes)} free on its file system'}",
        "bold",
    )
    if outcome.dry_run and (scratch := scratch_bytes(planned, at_once=at_once)):
        fits = (
            ""
            if scratch <= facts.free_bytes
            else "; a compaction that finds no space fails, and its partition stays as it is"
        )
        page.note(f"compaction needs up to {size(scratch)} of that while it runs{fits}")
    tiered = [s for p in planned.partitions for s in _in_tier(p)]
    if tiered:
        page.note(
            f"{counted(len(tiered), 'segment')}, {size(sum(s.size_bytes for s in tiered))}, are in the tier alone"
        )
    for words in _refusals(planned, outcome):
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


def _in_tier(planned: Planned) -> Iterator[SegmentFacts]:
    """Yield the segments that the tier has, and no log dir."""
    if isinstance(planned, PartitionPlan) and planned.facts.in_tier:
        yield from (segment for segment in planned.facts.segments if segment.base_offset in planned.facts.in_tier)


def _refusals(planned: LogDirPlan, outcome: Outcome) -> Iterator[str]:
    """Yield why a run would change nothing of a log dir, though the plan of a dry run holds changes."""
    facts = planned.facts
    if not outcome.dry_run:
        return
    if facts.locked_by:
        yield f"held by {facts.locked_by}: a run without --dry-run would be refused"
    if facts.path in outcome.full_log_dirs:
        words = "the file system has no space for the journal, so a run changes nothing here"
        yield f"{words}; logcleaner free, or --delete-delay 0, makes space first"


def _tell_partition(planned: Planned, outcome: Outcome, page: Page) -> None:
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
        _tell_run(run, columns, page, in_tier=run.first_base_offset in facts.in_tier)
    if planned.checkpoint_offset is not None:
        words = f"cleaner-offset-checkpoint lies outside the log: first dirty offset {facts.cleaner_checkpoint}"
        page.note(f"{words} becomes {planned.checkpoint_offset}")
    if result := outcome.results.get(planned.key):
        _tell_result(planned, result, page)


def _tell_run(run: Stretch, columns: int, page: Page, *, in_tier: bool) -> None:
    reason = run.verdict.reason
    figures = f"  {where(run):{columns}}  {size(run.size_bytes):>11}  {reason.code}{'  in the tier' if in_tier else ''}"
    page.fate(f"{run.word:{WORD_WIDTH}}", figures, STYLES[run.verdict.action])
    page.line(told(reason, "" if run.alike else str(run.verdict.base_offset)), indent=4)


def _tell_result(planned: PartitionPlan, result: PartitionResult, page: Page) -> None:
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
