"""The report of ``clean --until``: text for people, ``logcleaner.as_of/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cleaner.engine.as_of.deciding import AsOf, PartitionAsOf
from cleaner.report.page import Lines, Page
from policies.as_of import CutReason, SpoilCode
from policies.reasons import counted, moment

if TYPE_CHECKING:
    from cleaner.documents.changes import AsOfDocument, AsOfPartition

_SPOILED: Final = {
    SpoilCode.COMPACTED: "compaction passed the moment, and may have taken records that the log had then",
    SpoilCode.BEGINS_LATER: "the log begins behind the moment: what it had then was deleted",
    SpoilCode.ENDS_EARLIER: "the log ends before the given offset: another replica had more",
}


@dataclass(frozen=True, slots=True)
class AsOfReport:
    """The report of a copy as of a moment: planned or written."""

    found: AsOf
    output: str | None
    """The directory of the copy; None for a dry run."""

    def document(self) -> AsOfDocument:
        """Return what ``clean --until --json`` prints: offsets, and times in epoch ms."""
        found = self.found
        return {
            "schema": "logcleaner.as_of/1",
            "dry_run": self.output is None,
            "until_ms": found.until_ms,
            "output": self.output,
            "partitions": [_partition(one) for one in found.partitions],
            "clamped": [
                {
                    "group": offset.group,
                    "topic": offset.topic_partition.topic,
                    "partition": offset.topic_partition.partition,
                    "offset": offset.offset,
                    "clamped_to": found.ends[offset.topic_partition],
                }
                for one in found.partitions
                for offset in one.clamped
            ],
            "open_transactions": [
                {
                    "topic": name.topic,
                    "partition": name.partition,
                    "producer_id": part.producer_id,
                    "first_offset": part.first_offset,
                    "commits": commits,
                }
                for name, part, commits in found.open_parts
            ],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line for each partition that is cut, clamped offsets, open transactions, and the sum."""
        found, cut = self.found, 0
        for one in found.partitions:
            cut += _is_cut(one)
            _tell(one, page)
        for one in found.partitions:
            for offset in one.clamped:
                end = found.ends[offset.topic_partition]
                page.line(f"group {offset.group}: {offset.topic_partition} clamped from {offset.offset} to {end}")
        for name, part, commits in found.open_parts:
            fate = {True: "a start commits it", False: "a start aborts it", None: "no coordinator here knows of it"}
            page.line(f"{name}: transaction of producer {part.producer_id} is open from {part.first_offset}: "
                      f"{fate[commits]}", hanging=2)  # fmt: skip
        at = f"as of {moment(found.until_ms)}" if found.until_ms is not None else "at the given offsets"
        page.line(f"{at}: {counted(len(found.partitions), 'partition')}, {cut:,} of them cut")
        if count := len(found.spoiled):
            what = "a copy needs --incomplete" if self.output is None else "the copy is incomplete"
            page.line(f"{counted(count, 'partition')} cannot be what {'it was' if count == 1 else 'they were'}: {what}")
        yield page.text


def _is_cut(one: PartitionAsOf) -> bool:
    return one.cut is not None and one.cut.reason is not CutReason.END


def _tell(one: PartitionAsOf, page: Page) -> None:
    if one.error:
        page.line(f"{one.topic_partition}: failed: {one.error}", hanging=2)
    elif _is_cut(one):
        page.line(f"{one.topic_partition}: ends at {one.end_offset}, not {one.end_before}: {_reason(one)}", hanging=2)
    elif one.spoiled:
        page.line(f"{one.topic_partition}: ends at {one.end_offset}, the file says {one.given}", hanging=2)
    if one.spoiled:
        page.note(f"{one.spoiled}: {_SPOILED[one.spoiled]}")
    if one.older_batches:
        page.note(
            f"{counted(one.older_batches, 'batch', 'batches')} behind the cut are older than the moment: was a clock "
            "wrong?"
        )


def _reason(one: PartitionAsOf) -> str:
    assert one.cut is not None
    return {
        CutReason.END: "nothing is newer",
        CutReason.NEWER: "a newer record follows",
        CutReason.TRANSACTION: f"a transaction of producer {one.cut.producer_id} follows that would not be whole",
        CutReason.GIVEN: "as the file says",
    }[one.cut.reason]


def _partition(one: PartitionAsOf) -> AsOfPartition:
    return {
        "topic": one.topic_partition.topic,
        "partition": one.topic_partition.partition,
        "log_dir": one.log_dir,
        "error": one.error,
        "log_start_offset": one.log_start_offset,
        "log_end_before": one.end_before,
        "log_end_offset": one.end_offset,
        "reason": {"code": one.cut.reason, "text": _reason(one)} if one.cut else None,
        "older_batches": one.older_batches,
        "spoiled": {"code": one.spoiled, "text": _SPOILED[one.spoiled]} if one.spoiled else None,
    }
