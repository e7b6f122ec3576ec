"""A cleaned copy of a log dir, beside the untouched original: what its plan leaves, written to another directory.

The original is read as a dry run reads it: without a lock, for which something would have to be written. It has to be
at rest: a held lock is refused before and behind the copy, and every file is compared with what was listed.

A partition that fails is copied as it is, and told. What the plan does not touch is copied as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner.engine.compactor import Compactor
from cleaner.engine.deletion import retired_snapshots, truncate_leader_epochs
from cleaner.engine.executor import corrected_checkpoints, log_starts_after, tell_compacted
from cleaner.engine.manifest import PartitionCopy, manifest_of
from cleaner.engine.means import Means, Stopped
from cleaner.engine.outcome import Basis, PartitionResult
from cleaner.engine.output import OutputDir, plain_files
from cleaner.engine.producers import producer_state_of
from policies.facts import UnreadablePartition
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan
from storage.checkpoints import format_offset_checkpoint
from storage.errors import LogCleanerError, OutOfSpace, PlanOutOfDate
from storage.filesystem import Purpose
from storage.lock import ensure_unlocked
from storage.log.listing import Listing, list_partition
from storage.log.roll import create_segment, write_snapshot
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    JOURNAL_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    ROTATED_JOURNAL_FILE,
    SCRATCH_SUFFIX,
    FileKind,
    FileState,
    TopicPartition,
    parse_segment_file_name,
)
from storage.recovery import plan_recovery
from storage.segment import Segment, SegmentFile

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted, Round

_CHECKPOINTS: Final = (
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_NOT_COPIED: Final = frozenset({LOCK_FILE, JOURNAL_FILE, ROTATED_JOURNAL_FILE, *_CHECKPOINTS})
"""Ours of the original alone, or written anew."""
_METADATA_DIR: Final = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
_SMALL_FILES_BYTES: Final = 1 << 20
"""Room for checkpoints, manifest and the like."""

Changes = dict[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class _Left:
    """What retention leaves of a partition."""

    listing: Listing
    doomed: tuple[Segment, ...]


class Copier:
    """Writes one copy."""

    def __init__(
        self,
        log_dir: LogDir,
        plan: LogDirPlan,
        now_ms: int,
        means: Means,
        tool_version: str,
        compactor: Compactor,
    ) -> None:
        self._compactor = compactor
        self._log_dir = log_dir
        self._plan = plan
        self._now_ms = now_ms
        self._means = means
        self._tool_version = tool_version
        self._cleaned: Changes = {}
        self.results: dict[PartitionKey, PartitionResult] = {}

    def copy_to(self, path: Path) -> None:
        """Write the copy; ``results`` has an entry for every partition with work.

        Raises:
            LogDirLocked, UnusableOutput, CopyDoesNotFit: nothing was written.
            OutOfSpace, PlanOutOfDate, UnreadableFile, Stopped: the directory has no manifest, and is no copy.
        """
        ensure_unlocked(self._log_dir.path)
        self._compactor.begin([self._log_dir.path])
        output = OutputDir.begin(path, self._log_dir, self._needed_bytes(), self._means.fs)
        self._prepare(output)
        copied = [self._partition(planned, output) for planned in self._plan.partitions]
        self._copy_metadata_log(output)
        output.copy_named(plain_files(self._log_dir.path, strict=False) - _NOT_COPIED, self._log_dir.path, output.path)
        self._write_checkpoints(output)
        ensure_unlocked(self._log_dir.path)
        self._compactor.close()
        made = self._now_ms, self._compactor.name, self._tool_version
        output.finish(manifest_of(self._plan, copied, output.path, _left_out(self._log_dir.path, output.path), made))

    def _prepare(self, output: OutputDir) -> None:
        """Make every partition's directory, and have done what the compactions can share."""
        for planned in self._plan.partitions:
            tp = (planned if isinstance(planned, UnreadablePartition) else planned.facts).topic_partition
            output.make_dir(str(tp))
        if not self._means.stopping():
            self._compactor.prepare(self._rounds(output), self._means)

    def _rounds(self, output: OutputDir) -> Iterator[tuple[Round, Path]]:
        for planned in self._plan.partitions:
            if isinstance(planned, PartitionPlan) and planned.compaction:
                with suppress(LogCleanerError, OSError):  # told when its turn comes
                    round_ = self._round(planned, self._left(planned).listing)
                    yield round_, output.path / str(planned.facts.topic_partition)

    def _left(self, planned: PartitionPlan) -> _Left:
        source = self._log_dir.path / str(planned.facts.topic_partition)
        return _left_by_retention(plan_recovery(list_partition(source)).listing, planned)

    def _round(self, planned: PartitionPlan, listing: Listing) -> Round:
        from cleaner.engine.compaction import round_of  # noqa: PLC0415 - loads kernels

        return round_of(planned, listing, self._now_ms, self._means)

    def _needed_bytes(self) -> int:
        """At most, were nothing compacted away and no block shared with the original."""
        total = _SMALL_FILES_BYTES
        for planned in self._plan.partitions:
            if isinstance(planned, UnreadablePartition):
                total += planned.size_bytes
                continue
            deleted = planned.deletion.size_bytes if planned.deletion else 0
            total += sum(s.size_bytes + s.companions_bytes for s in planned.facts.segments) - deleted
        return total

    def _partition(self, planned: PartitionPlan | UnreadablePartition, output: OutputDir) -> PartitionCopy:
        if self._means.stopping():
            raise Stopped
        if isinstance(planned, UnreadablePartition):
            target = output.path / str(planned.topic_partition)
            return self._as_it_is(planned, target, output, planned.error)
        facts, start_seconds = planned.facts, self._means.clock.seconds()
        name = str(facts.topic_partition)
        target = output.path / name
        try:
            result = self._cleaned_copy(planned, target, output)
        except (OutOfSpace, PlanOutOfDate, Stopped):
            raise
        except (LogCleanerError, OSError, MemoryError) as error:
            output.empty(target)
            self._cleaned.pop(facts.topic_partition, None)
            told = str(error) or "not enough memory"
            self._tell("partition_failed", facts.topic_partition, error=told)
            self.results[planned.key] = PartitionResult(Basis.DONE, error=told)
            return self._as_it_is(planned, target, output, told)
        if planned.has_work:
            self.results[planned.key] = replace(result, seconds=self._means.clock.seconds() - start_seconds)
        return PartitionCopy(planned, name)

    def _as_it_is(
        self, planned: PartitionPlan | UnreadablePartition, target: Path, output: OutputDir, error: str
    ) -> PartitionCopy:
        source = self._log_dir.path / target.name
        output.copy_named(plain_files(source, strict=True), source, target)
        return PartitionCopy(planned, target.name, error)

    def _cleaned_copy(self, planned: PartitionPlan, target: Path, output: OutputDir) -> PartitionResult:
        source = self._log_dir.path / target.name
        left = self._left(planned)
        absorbed, result = self._copy_segments(planned, left, target, output)
        gone = retired_snapshots(left.listing, (*left.doomed, *absorbed))
        for snapshot in left.listing.snapshots:
            if snapshot not in gone:
                _copy_listed(snapshot, target, output)
        output.copy_named(filter(_is_of_the_partition, plain_files(source, strict=True)), source, target)
        if planned.deletion:
            self._follow_deletion(planned, left.listing, target)
        return result

    def _copy_segments(
        self, planned: PartitionPlan, left: _Left, target: Path, output: OutputDir
    ) -> tuple[Iterable[Segment], PartitionResult]:
        """Gives the segments that others took in, and the figures."""
        keep = partial(_copy_segment, target, output)
        deletion, compaction = planned.deletion, planned.compaction
        result = PartitionResult(
            Basis.DONE,
            deleted_segments=len(deletion.segments) if deletion else 0,
            deleted_bytes=deletion.size_bytes if deletion else 0,
        )
        bases = {segment.base_offset for segment in compaction.segments} if compaction else set()
        for segment in left.listing.segments:
            if segment.base_offset not in bases:
                keep(segment)
        if compaction is None:
            return (), result
        absorbed, done = self._compact(planned, left.listing, target, keep)
        self._cleaned[planned.facts.topic_partition] = done.end_offset
        tell_compacted(self._means.listener, planned.facts.topic_partition, compaction, done)
        return absorbed, replace(
            result,
            compacted_from_bytes=compaction.size_bytes,
            compacted_to_bytes=done.size_bytes,
            records_read=done.records_read,
            records_kept=done.records_kept,
            records_unkeyed=done.unkeyed,
        )

    def _compact(
        self, planned: PartitionPlan, listing: Listing, target: Path, keep: Callable[[Segment], None]
    ) -> tuple[list[Segment], Compacted]:
        from cleaner.engine.compaction import IntoCopy  # noqa: PLC0415 - loads kernels

        into = IntoCopy(target, planned.policy.index_interval_bytes, self._means.fs, keep)
        done = self._compactor.copy_compacted(self._round(planned, listing), self._means, into)
        return into.absorbed, done

    def _follow_deletion(self, planned: PartitionPlan, listing: Listing, target: Path) -> None:
        """The empty segment where everything went, and the leader epochs."""
        deletion, fs = planned.deletion, self._means.fs
        assert deletion is not None
        if (offset := deletion.roll_at_offset) is not None:
            if not any(snapshot.name.base_offset == offset for snapshot in listing.snapshots):
                source = plan_recovery(list_partition(self._log_dir.path / target.name)).listing
                state = producer_state_of(planned.facts, source, self._now_ms, self._means)
                write_snapshot(fs, target, offset, state.to_snapshot_bytes())
            create_segment(fs, target, offset)
        truncate_leader_epochs(fs, target, deletion.new_log_start_offset)

    def _copy_metadata_log(self, output: OutputDir) -> None:
        source = self._log_dir.path / _METADATA_DIR
        if source.is_dir():
            output.copy_named(plain_files(source, strict=True), source, output.make_dir(_METADATA_DIR))

    def _write_checkpoints(self, output: OutputDir) -> None:
        """As the original has them, without the partitions left out, and with what the plan changed."""
        failed = {key for key, result in self.results.items() if result.error}
        done = [p for p in self._plan.partitions if isinstance(p, PartitionPlan) and p.key not in failed]
        changes: dict[str, Changes] = {
            LOG_START_OFFSET_CHECKPOINT: dict(log_starts_after([p for p in done if p.deletion])),
            CLEANER_OFFSET_CHECKPOINT: dict(corrected_checkpoints(self._plan, failed)) | self._cleaned,
        }
        left_out = set(_left_out(self._log_dir.path, output.path))
        for name in _CHECKPOINTS:
            offsets = {**self._log_dir.offsets(name), **changes.get(name, {})}
            kept = {key: at for key, at in offsets.items() if at is not None and str(key) not in left_out}
            if kept or (self._log_dir.path / name).exists():
                self._means.fs.replace_file(output.path / name, format_offset_checkpoint(kept), Purpose.COPY)

    def _tell(self, event: str, topic_partition: TopicPartition, **fields: object) -> None:
        self._means.listener.event(event, topic=topic_partition.topic, partition=topic_partition.partition, **fields)


def _left_out(log_dir: Path, output: Path) -> list[str]:
    """Directories that the copy does without: replica moves, deleted and stray topics, foreign ones, topics not
    asked for."""
    return sorted(path.name for path in log_dir.iterdir() if path.is_dir() and not (output / path.name).exists())


def _left_by_retention(listing: Listing, planned: PartitionPlan) -> _Left:
    bases = {segment.base_offset for segment in planned.deletion.segments} if planned.deletion else set()
    doomed = tuple(segment for segment in listing.segments if segment.base_offset in bases)
    gone = {file.path for segment in doomed for file in segment.files.values()}
    files = tuple(f for f in listing.in_state(FileState.PLAIN) if f.path not in gone)
    return _Left(Listing(listing.directory, files), doomed)


def _is_of_the_partition(name: str) -> bool:
    """Whether it is a file that belongs to no segment: topic id, leader epochs, and what others may have put there."""
    return parse_segment_file_name(name) is None and not name.endswith(SCRATCH_SUFFIX)


def _copy_segment(target: Path, output: OutputDir, segment: Segment) -> None:
    for kind in FileKind:
        if kind in segment.files:
            _copy_listed(segment.files[kind], target, output)


def _copy_listed(file: SegmentFile, target: Path, output: OutputDir) -> None:
    output.copy(file.path, file.identity, target / str(file.name))
