"""The reports of ``restore``: text for people, ``logcleaner.restore/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from cleaner.engine.repair.reverting import RevertResult
from cleaner.engine.restore import RestoreResult
from cleaner.report.page import Lines, Page
from policies.findings.repairs import RevertCode, RevertVerdict
from policies.reasons import counted, moment, offsets, size
from policies.restore import MoveVerdict, Restoration, RestoreCode, RestoreVerdict
from storage.names import TopicPartition

SCHEMA: Final = "logcleaner.restore/1"
_NAMED_MAX: Final = 4
_WORD_WIDTH: Final = len("restorable")


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The partitions that can be restored, or were restored."""

    results: Sequence[RestoreResult]
    dry_run: bool
    compacted: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The partitions that a compaction of ours rewrote, and when, epoch ms: for the text."""

    def document(self) -> dict[str, Any]:
        """Return what ``restore --json`` prints: newest segments first, sizes in bytes, times in epoch ms."""
        return _document(self.results, (), dry_run=self.dry_run)

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a paragraph for each partition, the sum and the next step."""
        for result in self.results:
            _partition(result, page)
        _sum(self.results, page)
        if self.compacted:
            names = sorted(map(str, self.compacted))
            others = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            last = moment(max(self.compacted.values()))
            named = ", ".join(names[:_NAMED_MAX])
            page.line(f"A compaction cannot be undone: {named}{others}, the last at {last}.", hanging=2)
        yield page.text


@dataclass(frozen=True, slots=True)
class ReleaseReport:
    """The partitions whose hold was released, or would be."""

    released: Sequence[TopicPartition]
    dry_run: bool

    def document(self) -> dict[str, Any]:
        """Return what ``restore --release --json`` prints."""
        return _document((), self.released, dry_run=self.dry_run)

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line a partition."""
        for topic_partition in self.released:
            page.line(f"{topic_partition}: {'would be' if self.dry_run else 'is'} no longer on hold")
        if not self.released:
            page.line("Nothing was on hold.")
        yield page.text


@dataclass(frozen=True, slots=True)
class RevertReport:
    """The repairs that can be taken back, or were."""

    results: Sequence[RevertResult]
    dry_run: bool

    def document(self) -> dict[str, Any]:
        """Return what ``restore --repairs --json`` prints: sizes in bytes, times in epoch ms."""
        repairs = [_revert_document(verdict, result) for result in self.results for verdict in result.verdicts]
        return {**_document((), (), dry_run=self.dry_run), "repairs": repairs}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line a file."""
        for result in self.results:
            page.line(str(result.topic_partition))
            for verdict in result.verdicts:
                can = verdict.code is RevertCode.REVERTIBLE
                word = "kept out" if not can else "taken back" if result.is_done else "can be taken back"
                page.note(f"{word:17}  {verdict.note.file_name}  {verdict.text}")
            if result.error:
                page.note(f"FAILED: {result.error}")
        if not self.results:
            page.line("No repair can be taken back.")
        elif self.dry_run:
            page.line("logcleaner restore --repairs TOPIC-PARTITION, or --all, takes them back.")
        yield page.text


def _revert_document(verdict: RevertVerdict, result: RevertResult) -> dict[str, Any]:
    return {
        **result.topic_partition._asdict(),
        "log_dir": result.log_dir,
        "file": verdict.note.file_name,
        "kind": verdict.note.kind,
        "repaired_ms": verdict.note.time_ms,
        "taken_back": result.is_done and verdict.code is RevertCode.REVERTIBLE,
        "code": verdict.code.value,
        "text": verdict.text,
        "error": result.error,
    }


def _document(results: Sequence[RestoreResult], released: Sequence[TopicPartition], *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "dry_run": dry_run,
        "partitions": [_partition_document(result) for result in results],
        "released": [str(topic_partition) for topic_partition in released],
    }


def _partition_document(result: RestoreResult) -> dict[str, Any]:
    return {
        "topic": result.topic_partition.topic,
        "partition": result.topic_partition.partition,
        "log_dir": result.log_dir,
        "held_since_ms": result.held_since_ms,
        "error": result.error,
        "segments": [_segment_document(verdict, result) for verdict in _verdicts(result)],
        "log_starts": [_move_document(v, result) for v in (result.restoration.moves if result.restoration else ())],
    }


def _move_document(verdict: MoveVerdict, result: RestoreResult) -> dict[str, Any]:
    return {
        "log_start_offset": verdict.deletion.log_start_offset,
        "log_start_before": verdict.log_start_offset,
        "deleted_ms": verdict.deletion.time_ms,
        "restored": result.is_done and verdict.code is RestoreCode.RESTORABLE,
        "code": verdict.code.value,
        "text": verdict.text,
    }


def _segment_document(verdict: RestoreVerdict, result: RestoreResult) -> dict[str, Any]:
    return {
        "base_offset": verdict.segment.base_offset,
        "end_offset": verdict.segment.end_offset,
        "bytes": verdict.segment.size_bytes,
        "deleted_ms": verdict.deletion.time_ms,
        "restored": result.is_done and verdict.code is RestoreCode.RESTORABLE,
        "code": verdict.code.value,
        "text": verdict.text,
    }


def _partition(result: RestoreResult, page: Page) -> None:
    held = f"  on hold since {moment(result.held_since_ms)}" if result.held_since_ms is not None else ""
    page.line(f"{result.topic_partition}{held}", hanging=2)
    if result.lapsed_since_ms is not None:
        words = f"the hold of {moment(result.lapsed_since_ms)} belonged to another topic of this name, and has lapsed"
        page.note(words)
    for code, group in groupby(_verdicts(result), lambda verdict: verdict.code):
        _run(code, list(group), result, page)
    if result.restoration:
        _log_start(result.restoration, result, page)
    if result.error:
        page.note(f"FAILED: {result.error}")
    page.line()


def _run(code: RestoreCode, newest_first: Sequence[RestoreVerdict], result: RestoreResult, page: Page) -> None:
    """Add the lines for neighbouring segments of one code.

    They get the sentence of the newest segment, which decides on all of them.
    """
    newest, oldest = newest_first[0].segment, newest_first[-1].segment
    word = "kept out" if code is not RestoreCode.RESTORABLE else "restored" if result.is_done else "restorable"
    where = f"{offsets(oldest.base_offset, newest.end_offset)}, {counted(len(newest_first), 'segment')}"
    size_bytes = sum(verdict.segment.size_bytes for verdict in newest_first)
    page.note(f"{word:{_WORD_WIDTH}}  {where}, {size(size_bytes)}  {code}")
    page.line(f"{newest.base_offset}: {newest_first[0].text}", indent=4)


def _log_start(planned: Restoration, result: RestoreResult, page: Page) -> None:
    """Add the lines about a log start that ``delete-records`` moved."""
    if planned.moved_back or any(verdict.deletion.until_ms is not None for verdict in planned.restorable):
        first_base, line = planned.facts.bases[0], planned.facts.log_start_checkpoint
        now, then = max(first_base, line or 0), max(planned.log_start_offset, planned.log_start_checkpoint or 0)
        word = "restored" if result.is_done else "restorable"
        page.note(f"{word:{_WORD_WIDTH}}  log start {now} -> {then}")
    for verdict in planned.moves:
        if verdict.code is not RestoreCode.RESTORABLE:
            page.note(f"{'kept out':{_WORD_WIDTH}}  log start {verdict.log_start_offset}  {verdict.code}")
            page.line(verdict.text, indent=4)


def _sum(results: Sequence[RestoreResult], page: Page) -> None:
    done = [r.restoration for r in results if r.restoration and r.is_done]
    waiting = [r.restoration for r in results if r.restoration and r.restoration.has_work and not r.is_done]
    for restorations, words in ((done, "Restored"), (waiting, "Restorable")):
        if restorations:
            segments = counted(sum(len(r.restorable) for r in restorations), "segment")
            size_bytes = sum(r.size_bytes for r in restorations)
            partitions = counted(len(restorations), "partition")
            moved = counted(sum(bool(r.moved_back) for r in restorations), "log start")
            also = "" if moved.startswith("0 ") else f", and {moved}"
            page.line(f"{words}: {segments} of {partitions}, {size(size_bytes)}{also}.")
    if done:
        page.line(
            "Retention and compaction leave these partitions alone until logcleaner restore --release TOPIC-PARTITION."
        )
    elif waiting:
        page.line("logcleaner restore TOPIC-PARTITION, or --all, brings them back.")
    else:
        page.line("There is nothing to restore.")


def _verdicts(result: RestoreResult) -> tuple[RestoreVerdict, ...]:
    return result.restoration.verdicts if result.restoration else ()
