"""The report of ``delete-records``: text for people, ``logcleaner.deletion/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cleaner.engine.delete_records import DeletedRecords
from cleaner.report.page import Lines, Page
from policies.reasons import counted, duration, moment, offsets, size
from policies.record_deletion import HIGH_WATERMARK, RecordDeletion, RefusedDeletion, restorable_until

SCHEMA: Final = "logcleaner.deletion/1"


@dataclass(frozen=True, slots=True)
class RecordDeletionReport:
    """The report of a deletion of records: planned, refused or done."""

    result: DeletedRecords
    dry_run: bool

    def document(self) -> dict[str, Any]:
        """Return what ``delete-records --json`` prints: sizes in bytes, times in epoch ms."""
        result, decided = self.result, self.result.decided
        return {
            "schema": SCHEMA,
            "dry_run": self.dry_run,
            "topic": result.topic_partition.topic,
            "partition": result.topic_partition.partition,
            "log_dir": result.log_dir,
            "before_offset": result.before.offset,
            "before_ms": result.before.time_ms,
            "done": result.is_done,
            **(_refused(decided) if isinstance(decided, RefusedDeletion) else _decided(decided, result)),
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a paragraph."""
        result, decided = self.result, self.result.decided
        if isinstance(decided, RecordDeletion):
            _tell(decided, result, page)
        yield page.text


def danger_of(result: DeletedRecords) -> str:
    """Return what a user is asked to confirm."""
    decided = result.decided
    assert isinstance(decided, RecordDeletion)
    damaged = f". Damaged: {result.damage}" if result.damage else ""
    return f"{result.topic_partition}: {_unreadable(decided, result)}, and {_going(decided)}{damaged}"


def _tell(decided: RecordDeletion, result: DeletedRecords, page: Page) -> None:
    facts, before = decided.facts, result.before
    page.line(f"{result.topic_partition}  {result.log_dir}", hanging=2)
    if before.time_ms is not None:
        page.note(f"first record at or behind {moment(before.time_ms)}: offset {decided.log_start_offset}")
    elif before.offset == HIGH_WATERMARK:
        page.note(f"-1 is the high watermark: offset {decided.log_start_offset}")
    if not decided.has_work:
        page.note(f"nothing to do: the log starts at offset {facts.log_start_offset} already")
        return
    would = "" if result.is_done else "would "
    if decided.moves_the_start:
        page.note(f"log start {would}move{'d' if result.is_done else ''}: {facts.log_start_offset} -> "
                  f"{decided.log_start_offset}")  # fmt: skip
        page.note(_unreadable(decided, result))
        if result.damage:
            page.note(f"damaged: {result.damage}")
    else:
        page.note(f"the log starts at offset {facts.log_start_offset} already; what lies wholly below it goes")
    page.note(_going(decided))
    delay = duration(decided.policy.file_delete_delay_ms)
    until = f"until {moment(restorable_until(decided, result.time_ms))}" if result.is_done else f"for {delay}"
    page.note(f"logcleaner restore {result.topic_partition} takes this back {until}, if no broker starts before that")


def _going(decided: RecordDeletion) -> str:
    deletion = decided.deletion
    if not deletion.segments:
        base_offset = decided.first_base_left
        if decided.log_start_offset >= decided.facts.log_end_offset:
            return f"no segment goes: the one from {base_offset} on is the active segment, which stays"
        return f"no segment goes: the one from {base_offset} on also holds what stays"
    goes = "goes" if len(deletion.segments) == 1 else "go"
    of = f"of {len(decided.facts.segments):,}"
    return f"{counted(len(deletion.segments), 'segment')} {of} {goes}, {size(deletion.size_bytes)}"


def _unreadable(decided: RecordDeletion, result: DeletedRecords) -> str:
    facts = decided.facts
    if not decided.moves_the_start:
        return "no record becomes unreadable"
    records = "records, nobody knows how many," if result.records is None else counted(result.records, "record")
    verb = "becomes" if result.records == 1 else "become"
    return f"{records} {verb} unreadable, {offsets(facts.log_start_offset, decided.log_start_offset)}"


def _refused(refused: RefusedDeletion) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("high_watermark", "log_end_offset", "log_start_before", "log_start_offset", "records", "damaged",
         "restorable_until_ms")
    )  # fmt: skip
    why = {"code": refused.code.value, "text": refused.text}
    return {"refused": why, **nothing, "segments": [], "deleted_bytes": 0}


def _decided(decided: RecordDeletion, result: DeletedRecords) -> dict[str, Any]:
    facts, deletion = decided.facts, decided.deletion
    segments = [{"base_offset": s.base_offset, "bytes": s.size_bytes + s.companions_bytes} for s in deletion.segments]
    return {
        "refused": None,
        "high_watermark": facts.high_watermark,
        "log_end_offset": facts.log_end_offset,
        "log_start_before": facts.log_start_offset,
        "log_start_offset": decided.log_start_offset,
        "records": result.records if decided.moves_the_start else 0,
        "damaged": result.damage,
        "restorable_until_ms": restorable_until(decided, result.time_ms) if decided.has_work else None,
        "segments": segments,
        "deleted_bytes": deletion.size_bytes,
    }
