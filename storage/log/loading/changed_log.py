"""Moves the two ends of a log: loads it as a starting broker does, truncates it, increments its start.

These calls cut records off, and say so by their names. The cleaner calls none of them.

Steps:      (of a truncation) the segments behind the offset go to ``.deleted``, the last one first; the one that holds
            it is cut, its indexes before its log; leader epochs; producer snapshots; the checkpoints of the log dir.
Invariant:  a crash in between leaves a log without a gap.
Source:     Kafka LogManager, UnifiedLog, LocalLog, LogLoader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from storage.filesystem import FileSystem, Purpose
from storage.indexes import TimeIndexEntry
from storage.log.active import ActiveSegment, TornTail
from storage.log.config import LogConfig
from storage.log.errors import OffsetOutOfRange
from storage.log.listing import list_partition
from storage.log.loading.cutting import SegmentEntries, cut_segment
from storage.log.loading.loader import Cut, LoadedPartition, LoadTerms, PartitionLoader, retire_segment
from storage.log.loading.log_dir_offsets import note_offsets, offset_of
from storage.log.loading.log_files import LogFiles
from storage.log.loading.snapshots import ProducerTerms, rebuild_producers
from storage.log.roll import segment_at
from storage.log.writing.locked import locked
from storage.log_dir import read_file
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    segment_file_name,
)
from storage.segment import Segment


class ChangedLog(LogFiles):
    """A log whose ends can be moved."""

    cuts: tuple[Cut, ...] = ()
    """What ``load`` cut off."""

    @classmethod
    def load(
        cls,
        directory: Path,
        config: LogConfig,
        fs: FileSystem,
        *,
        now_ms: int,
        had_clean_shutdown: bool,
        log_start_offset: int | None = None,
        recovery_point: int | None = None,
    ) -> Self:
        """Open a log as a starting broker does. Behind an unclean stop, this cuts it at the first batch that is none.

        Args:
            directory: of the partition.
            config: of the topic.
            fs: the disk.
            now_ms: epoch ms; by it producers expire.
            had_clean_shutdown: whether the broker, or program, closed the log. If not, the batches from the recovery
                point on are read whole.
            log_start_offset: default: of ``log-start-offset-checkpoint``.
            recovery_point: default: of ``recovery-point-offset-checkpoint``; 0 without a line.

        Raises: LoadingFailed where no broker opens it, either; CorruptCheckpoint, CorruptBatch, UnreadableFile,
            OutOfSpace.
        """
        start = offset_of(directory, LOG_START_OFFSET_CHECKPOINT) if log_start_offset is None else log_start_offset
        point = offset_of(directory, RECOVERY_POINT_CHECKPOINT) if recovery_point is None else recovery_point
        terms = LoadTerms(now_ms, had_clean_shutdown, start or 0, point or 0)
        loaded = PartitionLoader(fs, directory, config, terms).load()
        log = cls(directory, config, fs, list_partition(directory), loaded.log_start_offset)
        log._take_loaded(loaded, now_ms)
        return log

    def _take_loaded(self, loaded: LoadedPartition, now_ms: int) -> None:
        self.log_end_offset, self.cuts = loaded.log_end_offset, loaded.cuts
        self._recovery_point, self._flushed_ms = loaded.recovery_point, now_ms
        self._producers, self._snapshots = loaded.producers, loaded.snapshots
        self._timed = set(loaded.recovered)
        self._begun_ms = {segment.base_offset: now_ms for segment in self._segments}
        if loaded.is_new:
            base, config = self._segments[-1].base_offset, self.config
            self._active = ActiveSegment.begin(self._fs, self.directory, base, config, now_ms)
            self._active.materialize()
            return
        try:
            self._activated(now_ms, trusts_indexes=True)
        except TornTail:  # after a clean stop nothing cuts it; who appends is told
            self._active = None

    @locked
    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Let the log end below an offset; the batch that holds it goes whole. Return whether that changed the end.

        Raises: ValueError for a negative offset; TornTail, CorruptBatch, OutOfSpace, UnreadableFile.
        Source: Kafka LogManager.truncateTo, UnifiedLog.truncateTo.
        """
        if offset < 0:
            raise ValueError(f"{self.directory}: cannot be cut at offset {offset}")
        if offset >= self.log_end_offset:
            self._epochs.truncate_from_end(self.log_end_offset)
            return False
        active = self._activated(now_ms)
        is_below_active = offset < active.base_offset
        if self._segments[0].base_offset > offset:
            self._start_over(offset, offset, now_ms)
        else:
            self._cut(active, offset, now_ms)
        self._note_truncation(is_below_active=is_below_active)
        return True

    @locked
    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int, log_start_offset: int | None = None) -> None:
        """Take every record out of the log, and let it begin anew at an offset.

        Args:
            offset: of the next record.
            now_ms: epoch ms.
            log_start_offset: default: ``offset``.

        Raises: TornTail, OutOfSpace, UnsafeOwner. Source: Kafka LogManager.truncateFullyAndStartAt.
        """
        self._activated(now_ms)
        self._start_over(offset, offset if log_start_offset is None else log_start_offset, now_ms)
        self._note_truncation(is_below_active=True)

    @locked
    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest leader epoch up to ``epoch`` that the log has, and where it ends; None if not known.

        Raises: CorruptCheckpoint, UnreadableFile. Source: Kafka UnifiedLog.endOffsetForEpoch.
        """
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    @locked
    def increment_log_start(self, offset: int) -> bool:
        """Let the log begin at a higher offset, and return whether it did not before. No file goes by it.

        Raises: OffsetOutOfRange above the high watermark; CorruptCheckpoint, OutOfSpace.
        Source: Kafka UnifiedLog.maybeIncrementLogStartOffset.
        """
        if offset > self.high_watermark:
            cause = f"the log cannot begin at {offset}, above the high watermark at {self.high_watermark}"
            raise OffsetOutOfRange(self.directory, cause)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._recovery_point = max(self._recovery_point, offset)
        self._epochs.truncate_from_start(offset)
        self._snapshots.map_end = max(self._snapshots.map_end, self.log_end_offset)
        self._snapshots.begin_at(offset)
        if self._producers is not None:
            self._producers.forget_replicated(offset)
        self._bounds.release()
        return True

    def _cut(self, active: ActiveSegment, offset: int, now_ms: int) -> None:
        doomed = [segment.base_offset for segment in self._segments if segment.base_offset > offset]
        base = self._segments[-1 - len(doomed)].base_offset
        found, state = self._entries(active, base), self.producer_state(now_ms)
        unstable = self._bounds.unstable(state)
        self._snapshots.map_end = max(self._snapshots.map_end, self.log_end_offset)
        active.close()
        self._active = None
        self._opened.close()
        self._retire(doomed)
        cut = cut_segment(self._fs, self.directory, base, offset, found)
        is_known = base in self._timed or (base == active.base_offset and active.knows_largest)
        if not is_known and not cut.entries.time_index:  # nobody looked at it before, and now nothing tells it
            cut = cut._replace(largest=TimeIndexEntry(-1, base))
        self._timed = {timed for timed in self._timed if timed < base}
        if not cut.entries.size_bytes:
            self._begun_ms[base] = now_ms
        begun_ms = self._begun_ms.get(base, now_ms)
        self._active = ActiveSegment.resume(self._fs, self.directory, base, self.config, begun_ms, cut)
        kept = self._segments[: len(self._segments) - len(doomed) - 1]
        self._segments = [*kept, segment_at(self.directory, base)]
        self.log_end_offset, self.torn_bytes = offset, 0
        self._recovery_point = min(self._recovery_point, offset)
        self._epochs.truncate_from_end(offset)
        self.log_start_offset = min(offset, self.log_start_offset)
        expiration_ms = self.config.producer_id_expiration_ms
        terms = ProducerTerms(self.log_start_offset, offset, now_ms, expiration_ms)
        self._producers = rebuild_producers(self._snapshots, state, self._segments, terms)
        self._bounds.hold(unstable)
        if self.high_watermark >= offset:
            self.update_high_watermark(offset)
        self._fs.fsync_dir(self.directory, Purpose.RETIRE)

    def _start_over(self, offset: int, log_start_offset: int, now_ms: int) -> None:
        state = self.producer_state(now_ms)
        if self._active is not None:
            self._active.close()
        self._active = None
        self._opened.close()
        bases = [segment.base_offset for segment in self._segments]
        for base in reversed(bases):
            retire_segment(self._fs, self.directory, base)
        self._segments = [self._create_segment(offset)]
        self._active = ActiveSegment.begin(self._fs, self.directory, offset, self.config, now_ms)
        self._begun_ms, self._timed = {offset: now_ms}, set()
        self._epochs.clear()
        self._snapshots.start_over(offset)
        state.clear()
        self.log_end_offset, self.torn_bytes, self.log_start_offset = offset, 0, log_start_offset
        self._recovery_point = min(self._recovery_point, offset)
        terms = ProducerTerms(log_start_offset, offset, now_ms, self.config.producer_id_expiration_ms)
        self._producers = rebuild_producers(self._snapshots, state, self._segments, terms)
        self._bounds.hold(None)  # what was replicated is gone
        self.update_high_watermark(offset)

    def _entries(self, active: ActiveSegment, base: int) -> SegmentEntries:
        """Return the index entries of a segment; those of the active one are in memory."""
        if base == active.base_offset:
            indexes = active.indexes
            return SegmentEntries(bytes(indexes.offset_index), bytes(indexes.time_index), active.size_bytes)
        index, time_index = (
            read_file(self.directory / segment_file_name(base, kind)) or b""
            for kind in (FileKind.INDEX, FileKind.TIME_INDEX)
        )
        return SegmentEntries(index, time_index, segment_at(self.directory, base).size_bytes)

    def _retire(self, bases: list[int]) -> None:
        for base in reversed(bases):
            retire_segment(self._fs, self.directory, base)
        if bases:
            self._snapshots.retire(bases)
            self._fs.fsync_dir(self.directory, Purpose.RETIRE)

    def _note_truncation(self, *, is_below_active: bool) -> None:
        """Write the recovery point; the first dirty offset of a compacted topic is at most the active segment's base.

        Source: Kafka LogManager.truncateTo, LogCleanerManager.maybeTruncateCheckpoint.
        """
        self._note_offsets()
        cleaned = offset_of(self.directory, CLEANER_OFFSET_CHECKPOINT)
        base = self._last_segment.base_offset
        if is_below_active and self.config.is_compacted and cleaned is not None and cleaned > base:
            note_offsets(self._fs, self.directory, {CLEANER_OFFSET_CHECKPOINT: base})

    @property
    def _last_segment(self) -> Segment:
        return self._segments[-1]
