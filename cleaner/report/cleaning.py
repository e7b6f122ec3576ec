"""The report of a run: text for people, and for machines ``logcleaner.plan/1``, whose keys never change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.report.forecast.documents import documents
from cleaner.report.totals import Totals, log_dir_errors
from policies.facts import NO_TIMESTAMP, UnreadablePartition
from policies.findings.only_copies import KeptFile
from policies.plan import LogDirPlan, PartitionPlan, Plan
from policies.reasons import Limit, Reason, as_int64

if TYPE_CHECKING:
    from cleaner.report.overview.values import Overview
    from cleaner.report.page import Lines, Page

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
        kind may go, if any do: only copies of records, and index files without a ``.log``. Only a dry run has
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
            **({"errors": errors} if errors else {}),
            **({"runway": documents(outcome.runways)} if outcome.runways else {}),
            **({"report": self.overview.fields()} if self.overview else {}),
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the plan with its outcome, the totals and the next step."""
        from cleaner.report.cleaning_text import fill  # noqa: PLC0415 - which --json does without

        fill(
            page,
            self.plan,
            self.outcome,
            ended_ms=self.ended_ms,
            is_copy=self.is_copy,
            is_rescue=self.is_rescue,
        )
        yield page.text


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
    }


def reason_fields(reason: Reason) -> dict[str, Any]:
    """Return a reason with its limit, as every document tells it."""
    return {
        "code": reason.code.value,
        "text": reason.text,
        "until_ms": reason.until_ms,
        "limit": _limit(reason.limit) if reason.limit else None,
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
