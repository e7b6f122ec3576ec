"""The report of ``erase``: text for people, ``logcleaner.erase/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cleaner.engine.erase.erasing import ErasedPartition, ErasedSegment, Erasure
from cleaner.report.page import Lines, Page
from policies.erasure import StayReason
from policies.reasons import counted, moment, size

if TYPE_CHECKING:
    from cleaner.documents.changes import EraseDocument, ErasePartition, EraseSegment

SCHEMA: Final = "logcleaner.erase/1"
_STAYS: Final = {
    StayReason.TOMBSTONE: "has no value: --tombstones takes it, too",
    StayReason.ABOVE_HIGH_WATERMARK: "lies at or above the high watermark: erase again once it is committed",
    StayReason.OPEN_TRANSACTION: "lies at or above the last stable offset, in or behind an open transaction",
    StayReason.LAST_MESSAGE: "is the last message of an old format, behind which consumers would wait for ever",
}
_OF_COPY: Final = (
    "The log dir that it was made of keeps the records. Remove it, and every other backup that has them; logcleaner "
    "prove-erased shows what a log dir still holds."
)
_ELSEWHERE: Final = (
    "Unlinked is not overwritten. Other replicas, consumers, mirrors, backups and snapshots of the file system are not "
    "covered; logcleaner prove-erased shows what this machine still holds."
)


@dataclass(frozen=True, slots=True)
class EraseReport:
    """The report of an erasure: planned or done."""

    erasure: Erasure
    dry_run: bool

    def document(self) -> EraseDocument:
        """Return what ``erase --json`` prints: sizes in bytes, times in epoch ms. It names no key."""
        erasure = self.erasure
        return {
            "schema": "logcleaner.erase/1",
            "dry_run": self.dry_run,
            "output": erasure.output,
            "time_ms": erasure.time_ms,
            "records": erasure.records,
            "errors": list(erasure.errors),
            "partitions": [_partition(partition, is_done=erasure.is_done) for partition in erasure.partitions],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a paragraph for each partition with records of the keys, and what is not covered."""
        erasure = self.erasure
        untouched = [p for p in erasure.partitions if not (p.segments or p.stays or p.refused or p.error)]
        for partition in erasure.partitions:
            if partition not in untouched:
                _tell(partition, page, erasure)
        if untouched:
            read = sum(partition.bytes_read for partition in untouched)
            page.line(f"{counted(len(untouched), 'partition')} with no record of the keys ({size(read)} read)")
        if erasure.output is not None and erasure.is_done:
            earlier = "; an earlier run finished the copy, and this one certifies it" if erasure.only_certified else ""
            page.line(f"{erasure.output}: the copy is complete, with its manifest{earlier}. {_OF_COPY}", hanging=2)
        elif erasure.output is None:
            page.line(_ELSEWHERE, hanging=2)
        yield page.text


def danger_of(erasure: Erasure) -> str:
    """Return what a user is asked to confirm."""
    partitions = [partition for partition in erasure.partitions if partition.records]
    segments = sum(len(partition.segments) for partition in partitions)
    names = ", ".join(str(partition.topic_partition) for partition in partitions[:3])
    more = f" and {len(partitions) - 3:,} more" if len(partitions) > 3 else ""
    going = f"{counted(erasure.records, 'record')} in {counted(segments, 'segment')} of {names}{more}"
    return f"{going} would be erased for good; nothing takes that back"


def _tell(partition: ErasedPartition, page: Page, erasure: Erasure) -> None:
    is_done = erasure.is_done
    page.line(f"{partition.topic_partition}  {partition.log_dir}", hanging=2)
    if partition.refused:
        page.note(f"nothing is erased: {partition.refused.code}: {partition.refused.text}")
    if partition.segments:
        page.note(_going(partition, is_done=is_done))
    elif not partition.refused and not partition.error:
        page.note("no record goes")
    for stays in partition.stays:
        first = f"the first at offset {stays.first_offset}" if stays.records > 1 else f"at offset {stays.first_offset}"
        verb = "stays" if stays.records == 1 else "stay"
        page.note(f"{counted(stays.records, 'record')} {verb}, {first}: {_STAYS[stays.reason]}")
    linked = sum(segment.links > 1 for segment in partition.segments)
    if linked and erasure.output is None:
        page.note(f"{counted(linked, 'segment')} has another hard link, which keeps the old bytes")
    if partition.waiting:
        verbs = ("waits", "was") if partition.waiting == 1 else ("wait", "were")
        waiting = counted(partition.waiting, "log")
        page.note(f"{waiting} {verbs[0]} there as .deleted since before, and {verbs[1]} not read")
    if partition.until_ms is not None:
        page.note(
            f"the old bytes wait as .deleted until {moment(partition.until_ms)}; then the next clean unlinks them, and "
            "a broker that starts does so at once"
        )
    elif is_done and partition.done_segments and erasure.output is None:
        page.note("the old bytes are unlinked")
    if partition.error:
        page.note(f"failed: {partition.error}")


def _going(partition: ErasedPartition, *, is_done: bool) -> str:
    segments = partition.segments
    tombstones = sum(segment.tombstones for segment in segments)
    first, last = segments[0].first_offset, segments[-1].last_offset
    at = f"offset {first}" if partition.records == 1 else f"offsets {first} to {last}"
    verb = "goes" if partition.records == 1 else "go"
    if is_done:
        verb = "gone" if partition.done_segments == len(segments) else "to go"
    without = f" ({counted(tombstones, 'tombstone')})" if tombstones else ""
    return (
        f"{counted(partition.records, 'record')}{without} {verb}, {at}, in {len(segments):,} of "
        f"{counted(partition.segments_read, 'segment')}{_sizes(segments)}{_left(partition, is_done=is_done)}"
    )


def _sizes(segments: tuple[ErasedSegment, ...]) -> str:
    measured = [(s.identity.size_bytes, s.size_after) for s in segments if s.size_after is not None]
    if len(measured) < len(segments):
        return ""
    before, after = (sum(column) for column in zip(*measured, strict=True))
    return f", {size(before)} -> {size(after)}"


def _left(partition: ErasedPartition, *, is_done: bool) -> str:
    left = len(partition.segments) - partition.done_segments
    return f"; {left:,} of these segments are not done" if is_done and left else ""


def _partition(partition: ErasedPartition, *, is_done: bool) -> ErasePartition:
    refused = partition.refused
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "log_dir": partition.log_dir,
        "refused": {"code": refused.code.value, "text": refused.text} if refused else None,
        "error": partition.error,
        "records": partition.records,
        "records_read": partition.records_read,
        "bytes_read": partition.bytes_read,
        "segments": [
            _segment(segment, is_done=is_done and place < partition.done_segments)
            for place, segment in enumerate(partition.segments)
        ],
        "stays": [
            {
                "code": stays.reason,
                "records": stays.records,
                "first_offset": stays.first_offset,
                "last_offset": stays.last_offset,
            }
            for stays in partition.stays
        ],
        "waiting_logs": partition.waiting,
        "until_ms": partition.until_ms,
    }


def _segment(segment: ErasedSegment, *, is_done: bool) -> EraseSegment:
    return {
        "base_offset": segment.base_offset,
        "records": segment.records,
        "tombstones": segment.tombstones,
        "first_offset": segment.first_offset,
        "last_offset": segment.last_offset,
        "bytes": segment.identity.size_bytes,
        "bytes_after": segment.size_after,
        "links": segment.links,
        "done": is_done,
    }
