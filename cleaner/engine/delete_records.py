"""Delete the oldest records of one partition as a broker's DeleteRecords does, and the segments that lie below them.

Order, each step safe to crash behind; a second run goes on where the first ended:
    1. the journal's line, with everything that takes the deletion back;
    2. the line of ``log-start-offset-checkpoint``. From here on the records are unreadable, to us as to a broker, and
       every retention deletes the segments below. Not later: without it, a crash among the renames would leave a log
       that starts at whatever segment comes next. Not before the journal: nothing could then be taken back;
    3. the segments to ``.deleted``, as a retention does it (``engine/deletion.py``), and the leader epochs;
    4. if the log now starts with its first segment, the line is removed: Kafka writes none then.
Not touched: ``recovery-point-offset-checkpoint``, which may lie below the log start then. A recovery takes the first
segment in its place. If this run raised it, as a running broker does, a ``restore`` would bring back records that
nobody checked.

The range is read first, every batch with its checksum, to count its records, or to find the first as late as a time.
The headers of batches are enough, except at the ends of the range, and in the batch that has the time.

Source: Kafka UnifiedLog.maybeIncrementLogStartOffset, LogManager.checkpointLogStartOffsetsInDir.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cleaner.engine.beginning import recover_log_dir
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.deletion import check_unchanged, retire_segments, truncate_leader_epochs
from cleaner.engine.inventory import Survey
from cleaner.engine.journal import Journal, deletion_entry
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.only_copies import ensure_no_copy_in_the_way
from cleaner.engine.undo_notes import undo_of
from cleaner.errors import told
from policies.plan import LogDirPlan, PartitionPlan, Plan, Request
from policies.record_deletion import (
    Before,
    RecordDeletion,
    RefusedDeletion,
    changed_since,
    record_deletion,
    restorable_until,
)
from storage.errors import LogCleanerError, PlanOutOfDate
from storage.kernels import check_usable
from storage.kernels.layout import CONTROL, OFFSET, TIMESTAMP
from storage.log.leader_epochs import topic_id_if_sound
from storage.log.listing import Listing, list_partition
from storage.log.recovery import plan_recovery
from storage.log.search import LogSearch
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.scan.extents import Wanted, cut_partition
from storage.scan.partitions import OffsetRange
from storage.scan.segments import open_extent
from storage.scan.slices import Damage, Slice
from storage.segment import Segment, ensure_changeable
from storage.stores.paths import path_of_text

EXTENT_BYTES: Final = 64 << 20


class UnsurveyedPartition(LogCleanerError):
    """The facts of a partition, or of its log dir, could not be read. Nothing was changed."""

    cause: str

    def __str__(self) -> str:
        return self.cause


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """The deletion of records in one partition: planned, refused or done."""

    topic_partition: TopicPartition
    log_dir: str
    before: Before
    decided: RecordDeletion | RefusedDeletion
    records: int | None = None
    """The number of records that become unreadable; None if they were not, or could not be, counted."""
    damage: str | None = None
    """The first damage among the records: file, byte and cause.

    None if the records were not counted, or all can be read.
    """
    time_ms: int = 0
    """When the deletion was planned, or done, epoch ms."""
    is_done: bool = False
    error: str | None = None
    topic_id: str | None = None
    """The topic id in ``partition.metadata``; None if the file has none or cannot be read."""

    def changed_since(self, asked: DeletedRecords) -> str | None:
        """Return what changed since a person was asked; None if nothing did."""
        if self.topic_id != asked.topic_id:
            if self.topic_id is None or asked.topic_id is None:
                has, had = (one.topic_id or "no topic id that can be read" for one in (self, asked))
                return f"its partition.metadata has {has} now, and had {had}: it may be another topic"
            return f"its topic id is {self.topic_id} now, and was {asked.topic_id}: it is another topic"
        if isinstance(self.decided, RecordDeletion) and isinstance(asked.decided, RecordDeletion):
            return changed_since(asked.decided, self.decided)
        return None if self.decided == asked.decided else "it was refused before"


def plan_deletion(cleaner: Cleaner, wanted: TopicPartition, before: Before, request: Request) -> DeletedRecords:
    """Decide on a partition; takes no lock and changes nothing.

    Args:
        cleaner: of the log dirs. One of them holds the partition.
        wanted: the partition.
        before: where the records to delete end.
        request: what was asked and confirmed; names the partition alone.

    Raises: UnsurveyedPartition, CorruptBatch, UnreadableFile.
    """
    log_dir, planned = _found(cleaner.plan(request), wanted)
    decided = record_deletion(log_dir, planned, _offset(planned, before))
    topic_id = topic_id_if_sound(path_of_text(log_dir.facts.path) / str(wanted))
    return DeletedRecords(wanted, log_dir.facts.path, before, decided, time_ms=request.now_ms, topic_id=topic_id)


def delete_records(
    cleaner: Cleaner, wanted: TopicPartition, before: Before, request: Request, agreed: DeletedRecords
) -> DeletedRecords:
    """Decide again under the locks, and act. Arguments and errors as of ``plan_deletion``.

    Args:
        agreed: what the user agreed to. Nothing is done if topic, segments or offsets have changed.

    Raises also: PlanOutOfDate, LogDirLocked, UnreliableLock, UnsafeOwner, JournalFull.
    """
    with cleaner.locked() as opened:
        shown = plan_deletion(cleaner, wanted, before, request)
        if isinstance(shown.decided, RefusedDeletion):
            return shown
        _ensure_as_agreed(agreed, shown)
        log_dir = LogDir(path_of_text(shown.log_dir))
        with closing(Journal(log_dir.path, opened.means.fs, opened.means.clock.boot())) as journal:
            _recover(opened, log_dir, request, journal)
            found = Before(shown.decided.log_start_offset)  # for a time; to look it up again would read as much again
            shown = replace(plan_deletion(cleaner, wanted, found, request), before=before)
            assert isinstance(shown.decided, RecordDeletion), "recovery changes no offset"
            _ensure_as_agreed(agreed, shown)
            if shown.decided.has_work:
                return _carry_out(log_dir, shown.decided, before, journal, opened.means)
        # a crash behind the last rename left the leader epochs uncut; a broker, too, cuts them when it starts
        truncate_leader_epochs(opened.means.fs, log_dir.path / str(wanted), shown.decided.log_start_offset)
        return shown


class Counted(NamedTuple):
    """The number of records of a range, or why it is not known."""

    records: int | None
    damage: str | None = None
    """The first thing that could not be read: file, byte and cause."""


def count_records(
    name: TopicPartition, segments: Sequence[Segment], offsets: OffsetRange, advance: Callable[[int], None]
) -> Counted:
    """Return the number of data records in a range of offsets.

    Args:
        name: of the partition.
        segments: of the log, ascending.
        offsets: the range.
        advance: hears the number of bytes read since the last call.

    Raises: SegmentGone, UnreadableFile, CorruptBatch.
    """
    records = 0
    for found in _read(name, segments, offsets, advance):
        if isinstance(found, Damage):
            return Counted(None, str(found.error))
        records += _count(found, offsets)
    return Counted(records)


def first_as_late(
    name: TopicPartition, segments: Sequence[Segment], offsets: OffsetRange, timestamp_ms: int
) -> int | None:
    """Return the offset of the first record of a range with a given time or a later one; None if there is none.

    The function asks no index, so that a wrong time index costs no record.

    Args:
        name: of the partition.
        segments: of the log, ascending.
        offsets: the range.
        timestamp_ms: epoch ms.

    Raises: CorruptBatch for the first batch up to there that cannot be read; SegmentGone, UnreadableFile.
    """
    for found in _read(name, segments, offsets, lambda _: None):
        if isinstance(found, Damage):
            raise found.error
        if (offset := _first_as_late(found, offsets, timestamp_ms)) is not None:
            return offset
    return None


def count_in(
    directory: Path, decided: RecordDeletion, expect: Callable[[int], None], advance: Callable[[int], None]
) -> Counted:
    """Return the number of records that a deletion makes unreadable; no number if they cannot be read, or without
    kernels.

    Args:
        directory: of the partition.
        decided: the deletion.
        expect: hears the number of bytes that are going to be read.
        advance: hears the number of bytes read since the last call.
    """
    facts, offsets = decided.facts, OffsetRange(decided.facts.log_start_offset, decided.log_start_offset)
    try:
        check_usable()
        segments = plan_recovery(list_partition(directory)).listing.segments
        touched = [s for s in segments if s.base_offset < offsets.end]
        expect(sum(segment.size_bytes for segment in touched))
        return count_records(facts.topic_partition, touched, offsets, advance)
    except LogCleanerError as error:
        return Counted(None, str(error))


def _found(plan: Plan, wanted: TopicPartition) -> tuple[LogDirPlan, PartitionPlan]:
    for log_dir in plan.log_dirs:
        if log_dir.facts.errors:
            raise UnsurveyedPartition(log_dir.facts.errors[0])
        for found in log_dir.partitions:
            if isinstance(found, PartitionPlan) and found.facts.topic_partition == wanted and found.facts.segments:
                return log_dir, found
    raise UnsurveyedPartition(next((failed.error for failed in plan.failures), f"{wanted}: holds no segment"))


def _offset(planned: PartitionPlan, before: Before) -> int | None:
    """Return the offset that was asked for.

    For a time, return the offset of the first committed record at or behind the time, or None.

    A broker goes by the indexes. Here the log is read, too: every batch that would become unreadable, and the batch
    that the indexes found. If an earlier record has the time, the log starts there.

    Source: Kafka Partition.fetchOffsetForTimestamp: a record at or above the high watermark is not found.
    Raises: UnsurveyedPartition if a batch that decides cannot be read.
    """
    if before.time_ms is None:
        return before.offset
    facts = planned.facts
    watermark = facts.log_start_offset if facts.high_watermark is None else facts.high_watermark
    try:
        segments = plan_recovery(_listed(path_of_text(facts.log_dir), facts.topic_partition)).listing.segments
        record = LogSearch(segments, facts.log_start_offset).by_timestamp(before.time_ms).record
        check_usable()
        if record is None or record.offset >= watermark:
            # a lookup ends at damage in the active segment; a record behind may have the time
            committed = (
                LogDir(path_of_text(facts.log_dir)).offsets(HIGH_WATERMARK_CHECKPOINT).get(facts.topic_partition, 0)
            )
            unread = OffsetRange(max(facts.log_start_offset, segments[-1].base_offset), committed)
            first_as_late(facts.topic_partition, segments, unread, before.time_ms)
            return None
        decisive = OffsetRange(facts.log_start_offset, record.offset + 1)
        found = first_as_late(facts.topic_partition, segments, decisive, before.time_ms)
    except LogCleanerError as error:
        raise UnsurveyedPartition(str(error)) from error
    if found is None:
        raise UnsurveyedPartition(f"{facts.topic_partition}: offset {record.offset} is gone: it was changed meanwhile")
    return found


def _listed(log_dir: Path, name: TopicPartition) -> Listing:
    return list_partition(log_dir / str(name))


def _ensure_as_agreed(agreed: DeletedRecords, shown: DeletedRecords) -> None:
    """Refuse a deletion that differs from the one that the user saw. Raises: PlanOutOfDate."""
    if (changed := shown.changed_since(agreed)) is not None:
        raise PlanOutOfDate(path_of_text(shown.log_dir) / str(shown.topic_partition), changed)


def _recover(opened: OpenLogDirs, log_dir: LogDir, request: Request, journal: Journal) -> None:
    """Finish or undo what a crash left in the partition. Raises: UnsurveyedPartition, JournalFull."""
    means = opened.means
    survey = Survey(opened.layers, request.now_ms, means.broker.producer_id_expiration_ms, request.topics)
    for error in recover_log_dir(log_dir, survey, journal, means):
        raise UnsurveyedPartition(error)


def _carry_out(
    log_dir: LogDir, decided: RecordDeletion, before: Before, journal: Journal, means: Means
) -> DeletedRecords:
    facts, deletion, fs = decided.facts, decided.deletion, means.fs
    name, now_ms = facts.topic_partition, means.clock.now_ms()
    topic_id = topic_id_if_sound(log_dir.path / str(name))
    done = DeletedRecords(name, facts.log_dir, before, decided, time_ms=now_ms, is_done=True, topic_id=topic_id)
    listing = _listed(log_dir.path, name)
    check_unchanged(listing.segments, deletion.segments)
    ensure_no_copy_in_the_way(log_dir, name, listing, deletion.base_offsets)
    ensure_changeable(listing.directory, deletion.base_offsets)
    undo = undo_of(facts, deletion, listing) | {"until_ms": restorable_until(decided, now_ms)}
    entry = deletion_entry(deletion) | {"log_start_before": facts.log_start_offset}
    journal.record("delete", now_ms, partition=str(name), **entry, undo=undo)
    offsets = dict(log_dir.offsets(LOG_START_OFFSET_CHECKPOINT))
    try:
        log_dir.write_offsets(LOG_START_OFFSET_CHECKPOINT, {**offsets, name: decided.log_start_offset}, fs)
        retire_segments(fs, listing, deletion, _no_snapshot)
    except (LogCleanerError, OSError) as error:
        with suppress(LogCleanerError, OSError):
            if log_dir.offsets(LOG_START_OFFSET_CHECKPOINT) != offsets:
                log_dir.write_offsets(LOG_START_OFFSET_CHECKPOINT, offsets, fs)
            if {file.name for file in _listed(log_dir.path, name).files} == {file.name for file in listing.files}:
                journal.take_back()
        means.listener.event("partition_failed", **name._asdict(), error=told(error))
        raise
    offsets = {key: offset for key, offset in offsets.items() if key != name}
    if decided.checkpoint_after is not None:
        offsets[name] = decided.checkpoint_after
    log_dir.write_offsets(LOG_START_OFFSET_CHECKPOINT, offsets, fs)
    _tell(decided, means)
    return done


def _tell(decided: RecordDeletion, means: Means) -> None:
    place = decided.facts.topic_partition._asdict()
    for segment, verdict in decided.deletion.decided:
        size_bytes, reason = segment.size_bytes + segment.companions_bytes, verdict.reason.code.value
        fields = {"base_offset": segment.base_offset, "bytes": size_bytes, "reason": reason}
        means.listener.event("segment_deleted", **place, **fields)
    offsets = {"log_start_before": decided.facts.log_start_offset, "log_start_offset": decided.log_start_offset}
    means.listener.event("log_start_moved", **place, **offsets)


def _no_snapshot() -> bytes:
    raise AssertionError("the active segment stays, so that nothing is rolled")


def _read(
    name: TopicPartition, segments: Sequence[Segment], offsets: OffsetRange, advance: Callable[[int], None]
) -> Iterator[Slice | Damage]:
    for extent in cut_partition(name, segments, Wanted(offsets, None, EXTENT_BYTES, read_committed=False)):
        with open_extent(extent) as reader:
            yield from reader.slices_and_damage()
        advance(extent.size_bytes)


def _count(found: Slice, offsets: OffsetRange) -> int:
    if found.located is not None:
        inside = found.located[OFFSET]
        return int(((inside >= offsets.start) & (inside < offsets.end)).sum())
    table = found.table
    is_data = (table["attributes"] & CONTROL) == 0
    touches = (table["last_offset"] >= offsets.start) & (table["base_offset"] < offsets.end) & is_data
    is_inside = touches & (table["base_offset"] >= offsets.start) & (table["last_offset"] < offsets.end)
    records = int(table["record_count"][is_inside].sum(dtype=np.int64))
    for row in np.flatnonzero(touches & ~is_inside).tolist():
        batch = found.v2_batch(row)
        records += sum(offsets.start <= record.offset < offsets.end for record in batch.records())
    return records


def _first_as_late(found: Slice, offsets: OffsetRange, timestamp_ms: int) -> int | None:
    if found.located is not None:
        inside, times = found.located[OFFSET], found.located[TIMESTAMP]
        late = inside[(times >= timestamp_ms) & (inside >= offsets.start) & (inside < offsets.end)]
        return int(late[0]) if late.size else None
    table = found.table
    touches = (table["last_offset"] >= offsets.start) & (table["base_offset"] < offsets.end)
    for row in np.flatnonzero(touches & (table["max_timestamp"] >= timestamp_ms)).tolist():
        for record in found.v2_batch(row).records():
            if record.timestamp_ms >= timestamp_ms and offsets.start <= record.offset < offsets.end:
                return record.offset
    return None
