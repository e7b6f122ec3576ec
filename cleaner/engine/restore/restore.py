"""Take deletions back: files that the journal names and that wait as ``.deleted`` become part of the log again.

Order, each step safe to crash behind, and the next restore goes on where one ended:
    1. the journal's line; the hold, so that no run takes away what is still waiting;
    2. what says less afterwards: leader epochs, first dirty offset, log start offset. While the log begins later than
       they say, a broker takes its first segment for the start. The log start comes last: where no segment comes
       back, it alone shows the next restore that something is left to do;
    3. of each segment everything but the ``.log``: such files without a ``.log`` are nothing; fsync of the directory;
    4. the ``.log`` files, newest first, each followed by an fsync: the log grows at its start and never has a gap;
    5. the empty segment that was rolled since everything went, its ``.log`` last: without it the log ends as before.
A broker that starts in between deletes what still waits, and has a log without a gap.

Source: Kafka LogLoader.load, LeaderEpochFileCache.truncateFromStart, LogManager.checkpointLogStartOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from cleaner.engine.inventory import Wanted
from cleaner.engine.journal import Journal, JournalFull
from cleaner.engine.locks import Locks, OwnLocks, guarded
from cleaner.engine.means import Means
from cleaner.engine.repair.reverting import RevertResult, revert_in, survey_reverts
from cleaner.engine.restore.restorable import RestoreResult, epochs_before, survey_restores
from cleaner.errors import told
from policies.restore import DeletionFacts, Restoration, RestoreFacts
from storage.checkpoints import format_leader_epochs, truncate_from_start
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log.leader_epochs import read_leader_epochs
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    FileKind,
    TopicPartition,
    segment_file_name,
)


class NoSpaceToRestore(LogCleanerError):
    """A restore, or a release, found no space for a small file."""

    path: Path

    def __str__(self) -> str:
        remedy = "move something that is not Kafka's off this disk, then run again"
        return f"{self.path}: no space; {remedy} (free and --delete-delay 0 would unlink what waits to be restored)"


class Restorer:
    """Restores and releases partitions of some log dirs."""

    def __init__(self, log_dirs: Sequence[LogDir], means: Means, locks: Locks | None = None) -> None:
        """Open nothing yet. ``locks``: of the log dirs; without it, the restorer takes them itself."""
        self._log_dirs = log_dirs
        self._means = means
        self._fs = means.fs
        self._locks = locks or OwnLocks()

    def plan(self, wanted: Wanted) -> tuple[RestoreResult, ...]:
        """Plan the restore of the wanted partitions, and tell which are on hold. Take no lock, and change nothing.

        Raises: CorruptCheckpoint, UnreadableFile of what concerns a whole log dir.
        """
        now_ms = self._means.clock.now_ms()
        return tuple(result for log_dir in self._log_dirs for result in survey_restores(log_dir, wanted, now_ms))

    def held(self, wanted: Wanted) -> tuple[TopicPartition, ...]:
        """Return the wanted partitions that are on hold. Raises: CorruptHolds, UnreadableFile."""
        return tuple(sorted({tp for log_dir in self._log_dirs for tp in log_dir.holds() if wanted(tp)}))

    def restore(self, wanted: Wanted) -> tuple[RestoreResult, ...]:
        """Restore what can be of the wanted partitions, and put these on hold.

        Raises: LogDirLocked, UnreliableLock, UnsafeOwner; as ``plan``.
        """
        with self._locked():
            return tuple(result for log_dir in self._log_dirs for result in self._restore_in(log_dir, wanted))

    def release(self, wanted: Wanted) -> tuple[TopicPartition, ...]:
        """Give up the holds of the wanted partitions: retention and compaction see to them again.

        Returns:
            Those that were on hold.

        Raises: as ``restore``; OutOfSpace.
        """
        with self._locked():
            return tuple(sorted({tp for log_dir in self._log_dirs for tp in self._release_in(log_dir, wanted)}))

    def repairs(self, wanted: Wanted) -> tuple[RevertResult, ...]:
        """Return the repairs of the wanted partitions that can be taken back; takes no lock. Raises: UnreadableFile."""
        return tuple(result for log_dir in self._log_dirs for result in survey_reverts(log_dir, wanted))

    def revert(self, wanted: Wanted) -> tuple[RevertResult, ...]:
        """Take the repairs of the wanted partitions back. Raises: as ``restore``."""
        with self._locked():
            means = replace(self._means, fs=self._fs)
            return tuple(result for log_dir in self._log_dirs for result in revert_in(log_dir, wanted, means))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with ExitStack() as stack:
            taken = {d.path: stack.enter_context(self._locks.lock(d, self._means.fs)) for d in self._log_dirs}
            self._fs = guarded(self._means.fs, taken)
            yield

    def _restore_in(self, log_dir: LogDir, wanted: Wanted) -> Iterator[RestoreResult]:
        with closing(Journal(log_dir.path, self._fs)) as journal:
            for result in survey_restores(log_dir, wanted, self._means.clock.now_ms()):
                yield self._attempt(log_dir, result, journal)

    def _attempt(self, log_dir: LogDir, result: RestoreResult, journal: Journal) -> RestoreResult:
        """Restore one partition; its failure stops nobody else."""
        planned = result.restoration
        place = result.topic_partition._asdict()
        if planned is None:
            self._means.listener.event("partition_failed", **place, error=result.error)
        if planned is None or not planned.has_work:
            return result
        held_since_ms: int | None = None
        try:
            _record(journal, self._means.clock.now_ms(), planned)
            held_since_ms = self._hold(log_dir, planned.facts, journal)
            put_back(self._fs, log_dir, planned)
        except (LogCleanerError, OSError) as found:
            error = NoSpaceToRestore(found.path) if isinstance(found, OutOfSpace) else found
            if held_since_ms is not None:  # a part of it may be done
                with suppress(LogCleanerError, OSError):
                    partition = str(result.topic_partition)
                    journal.record("restore-failed", self._means.clock.now_ms(), partition=partition, error=told(error))
            self._means.listener.event("partition_failed", **place, error=told(error))
            return replace(result, error=told(error))
        segments = len(planned.restorable)
        self._means.listener.event("partition_restored", **place, segments=segments, bytes=planned.size_bytes)
        return replace(result, held_since_ms=held_since_ms, lapsed_since_ms=None, is_done=True)

    def _hold(self, log_dir: LogDir, facts: RestoreFacts, journal: Journal) -> int:
        """Put a partition on hold, and return since when it is, epoch ms: a second restore does not change that.

        If that fails, nothing is changed, and the journal's line is taken back.
        """
        since_ms = self._means.clock.now_ms() if facts.held_since_ms is None else facts.held_since_ms
        holds = dict(log_dir.holds())
        ids = dict(log_dir.hold_ids(holds))
        if facts.topic_id:
            ids[facts.topic_partition] = facts.topic_id
        try:
            log_dir.write_holds({**holds, facts.topic_partition: since_ms}, self._fs, ids)
        except (LogCleanerError, OSError):
            journal.take_back()
            raise
        return since_ms

    def _release_in(self, log_dir: LogDir, wanted: Wanted) -> list[TopicPartition]:
        holds = log_dir.holds()
        ids = log_dir.hold_ids(holds)
        released = [topic_partition for topic_partition in holds if wanted(topic_partition)]
        if not released:
            return []
        with closing(Journal(log_dir.path, self._fs, may_wait=True)) as journal:  # it may let go what fills the disk
            for topic_partition in released:
                if not journal.record("release", self._means.clock.now_ms(), partition=str(topic_partition)):
                    self._means.listener.event("journal_waits", **topic_partition._asdict(), what="release")
        try:
            log_dir.write_holds({tp: since for tp, since in holds.items() if tp not in released}, self._fs, ids)
        except OutOfSpace as error:
            raise NoSpaceToRestore(error.path) from error
        for topic_partition in released:
            self._means.listener.event("partition_released", **topic_partition._asdict())
        return released


def put_back(fs: FileSystem, log_dir: LogDir, planned: Restoration) -> None:
    """Do steps 2 to 5 of a restore. Raises: CorruptCheckpoint, UnreadableFile, OutOfSpace, UnsafeOwner, OSError."""
    directory = log_dir.path / str(planned.facts.topic_partition)
    if planned.restorable or planned.moved_back:
        _put_back_epochs(fs, directory, planned)
        _put_back_checkpoints(fs, log_dir, planned)
        _rename_back(fs, directory, planned)
    if planned.emptied:
        _drop_rolled(fs, directory, planned.emptied)


def _put_back_checkpoints(fs: FileSystem, log_dir: LogDir, planned: Restoration) -> None:
    """A run since may have moved the first dirty offset up to the later log start: what comes back was dirty."""
    topic_partition, before = planned.facts.topic_partition, planned.oldest.cleaner_checkpoint
    cleaned = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT).get(topic_partition)
    first_dirty = None if before is None or cleaned is None else min(cleaned, before)
    changes = {CLEANER_OFFSET_CHECKPOINT: first_dirty, LOG_START_OFFSET_CHECKPOINT: planned.log_start_checkpoint}
    for name, changed in changes.items():
        offsets = {**log_dir.offsets(name), topic_partition: changed}
        log_dir.write_offsets(name, {key: offset for key, offset in offsets.items() if offset is not None}, fs)


def _put_back_epochs(fs: FileSystem, directory: Path, planned: Restoration) -> None:
    found = read_leader_epochs(directory)
    epochs = epochs_before(planned.oldest, found)
    if not planned.is_whole:
        epochs = truncate_from_start(epochs, planned.log_start_offset)
    if epochs != found:
        fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, format_leader_epochs(epochs), Purpose.CHECKPOINT)


def _rename_back(fs: FileSystem, directory: Path, planned: Restoration) -> None:
    segments = [verdict.segment for verdict in planned.restorable]
    waiting = [f for segment in segments for f in segment.files if f.waiting in planned.facts.files]
    for file in waiting:
        if file.name.kind is not FileKind.LOG:
            fs.rename(directory / str(file.waiting), directory / str(file.name), Purpose.RESTORE)
    fs.fsync_dir(directory, Purpose.RESTORE)
    for file in waiting:
        if file.name.kind is FileKind.LOG:
            fs.rename(directory / str(file.waiting), directory / str(file.name), Purpose.RESTORE)
            fs.fsync_dir(directory, Purpose.RESTORE)


def _drop_rolled(fs: FileSystem, directory: Path, deletion: DeletionFacts) -> None:
    assert deletion.roll_at_offset is not None
    kinds = [FileKind.INDEX, FileKind.TIME_INDEX, *([FileKind.SNAPSHOT] if deletion.rolled_snapshot else [])]
    for group in (kinds, [FileKind.LOG]):
        for kind in group:
            fs.unlink(directory / segment_file_name(deletion.roll_at_offset, kind), Purpose.RESTORE)
        fs.fsync_dir(directory, Purpose.RESTORE)


def _record(journal: Journal, now_ms: int, planned: Restoration) -> None:
    try:
        journal.record("restore", now_ms, **_journalled(planned))
    except JournalFull as error:
        remedy = (
            "make some by other means, since free and clean --delete-delay 0 would unlink what waits to be restored"
        )
        raise JournalFull(error.log_dir, remedy) from error


def _journalled(planned: Restoration) -> dict[str, object]:
    segments = [verdict.segment for verdict in planned.restorable]
    return {
        "partition": str(planned.facts.topic_partition),
        "bytes": planned.size_bytes,
        "log_start_offset": max(planned.log_start_offset, planned.log_start_checkpoint or 0),
        "segments": [{"base_offset": s.base_offset, "bytes": s.size_bytes} for s in segments],
    }
