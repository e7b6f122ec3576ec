"""Take deletions back: files that the journal names and that wait as ``.deleted`` become part of the log again.

The journal tells the past of a log dir: its deletions, whose files still wait, and later changes.

Order, each step safe to crash behind, and the next restore goes on where one ended:
    1. the journal's line; the hold, so that no run unlinks the waiting files;
    2. the files whose offsets go down: leader epochs, first dirty offset, log start offset. While the log begins later
       than they say, a broker takes its first segment for the start. The log start comes last: if no segment comes
       back, only the log start shows the next restore that work is left;
    3. of each segment all files except the ``.log``: without a ``.log`` they mean nothing; so, too, the index files
       among the segments that tell of missing records; fsync of the directory;
    4. the ``.log`` files, newest first, each followed by an fsync: the log grows at its start and never has a gap;
    5. the empty segment that was rolled because all segments went is removed, its ``.log`` last: then the log ends as
       before. A broker that starts in between deletes the waiting files, and has a log without a gap.

Source: Kafka LogLoader.load, LeaderEpochFileCache.truncateFromStart, LogManager.checkpointLogStartOffsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from cleaner.engine.inventory import Wanted
from cleaner.engine.journal import (
    DROPPED,
    GUARDED,
    SOURCES,
    Journal,
    JournalFull,
    ensure_space,
    partition_of,
    read_lines,
)
from cleaner.engine.locks import Locks, OwnLocks, guarded
from cleaner.engine.means import Means
from cleaner.engine.repair.reverting import RevertResult, revert_in, survey_reverts
from cleaner.engine.undo_notes import journalled_deletions, moved_partitions
from cleaner.errors import told
from policies.moving import MoveStep
from policies.restore import DeletionFacts, Restoration, RestoreFacts, belongs_to_another_topic, restoration
from storage.checkpoints import CorruptCheckpoint, LeaderEpochEntry, format_leader_epochs, truncate_from_start
from storage.directory import status_of
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log.leader_epochs import read_leader_epochs, topic_id_if_sound
from storage.log.listing import Listing, ensure_plain_files, list_partition
from storage.log_dir import LogDir, Offsets, TopicIds
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    FileKind,
    FileState,
    TopicPartition,
    segment_file_name,
)
from storage.stores.paths import path_of_text

if TYPE_CHECKING:
    from cleaner.engine.moving import Move, Mover

_OF_A_COMPACTION: Final = (GUARDED, DROPPED)
"""The kinds of lines with the result of the compaction before them."""


class NoSpaceToRestore(LogCleanerError):
    """A restore, or a release, found no space for a small file."""

    path: Path

    def __str__(self) -> str:
        remedy = "move something that is not Kafka's off this disk, then run again"
        return f"{self.path}: no space; {remedy} (free and --delete-delay 0 would unlink what waits to be restored)"


_WAITS: Final = "make some by other means, since free and clean --delete-delay 0 would unlink what waits to be restored"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The restorable or restored deletions of one partition."""

    topic_partition: TopicPartition
    log_dir: str
    restoration: Restoration | None
    """The verdicts on the partition's deletions; None if the partition cannot be read."""
    error: str | None = None
    """Why the partition cannot be read, or why its restore stopped; a second run goes on from there."""
    held_since_ms: int | None = None
    """Since when the partition is on hold, epoch ms; None if it is not."""
    is_done: bool = False
    """Whether everything restorable was restored."""
    lapsed_since_ms: int | None = None
    """The time, epoch ms, of a hold on another topic of this name, which does not count for this topic; None without
    such a hold.
    """


def survey_restores(log_dir: LogDir, wanted: Wanted, now_ms: int) -> list[RestoreResult]:
    """Return each wanted partition with deleted segments that wait, with a log start that can move back, or with a
    hold.

    Args:
        log_dir: the log dir.
        wanted: a predicate, asked about each partition.
        now_ms: the clock's time, epoch ms.

    Raises: CorruptCheckpoint, CorruptHolds, UnreadableFile of what concerns the whole log dir.
    """
    stated = _Stated.of(log_dir, now_ms)
    found = dict(_candidates(log_dir, wanted, {*stated.holds, *moved_partitions(log_dir.path, now_ms)}))
    if not found:
        return []
    deletions = journalled_deletions(log_dir.path, found, stated.cleaned)
    results = (
        _result(log_dir.path, topic_partition, listing, deletions[topic_partition], stated)
        for topic_partition, listing in found.items()
    )
    return [result for result in results if result]


class Restorer:
    """Restores and releases partitions of some log dirs."""

    def __init__(self, log_dirs: Sequence[LogDir], means: Means, locks: Locks | None = None) -> None:
        """Prepare the restorer. ``locks``: of the log dirs; without it, the restorer takes them itself."""
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

    def rehearsed(self, wanted: Wanted) -> tuple[RestoreResult, ...]:
        """Plan, with the errors of log dirs that have no space for it. Raises: as ``plan``."""
        return tuple(_with_space(result) for result in self.plan(wanted))

    def held(self, wanted: Wanted) -> tuple[TopicPartition, ...]:
        """Return the wanted partitions that are on hold. Raises: CorruptHolds, UnreadableFile."""
        return tuple(sorted({tp for log_dir in self._log_dirs for tp in log_dir.holds() if wanted(tp)}))

    def restore(self, wanted: Wanted) -> tuple[RestoreResult, ...]:
        """Restore the restorable deletions of the wanted partitions, and put these partitions on hold.

        Raises: LogDirLocked, UnreliableLock, UnsafeOwner; as ``plan``.
        """
        with self._locked():
            return tuple(result for log_dir in self._log_dirs for result in self._restore_in(log_dir, wanted))

    def release(self, wanted: Wanted) -> tuple[TopicPartition, ...]:
        """Release the wanted partitions: retention and compaction apply to them again.

        Returns:
            The partitions that were on hold.

        Raises: as ``restore``; OutOfSpace.
        """
        with self._locked():
            return tuple(sorted({tp for log_dir in self._log_dirs for tp in self._release_in(log_dir, wanted)}))

    def repairs(self, wanted: Wanted) -> tuple[RevertResult, ...]:
        """Return the repairs of the wanted partitions that can be taken back; takes no lock. Raises: UnreadableFile."""
        return tuple(result for log_dir in self._log_dirs for result in survey_reverts(log_dir, wanted))

    def repairs_rehearsed(self, wanted: Wanted) -> tuple[RevertResult, ...]:
        """Return them with the errors of log dirs that have no space for it. Raises: UnreadableFile."""
        found = self.repairs(wanted)
        return tuple(replace(one, error=_no_space(one.log_dir)) if one.revertible else one for one in found)

    def revert(self, wanted: Wanted) -> tuple[RevertResult, ...]:
        """Take the repairs of the wanted partitions back. Raises: as ``restore``."""
        with self._locked():
            means = replace(self._means, fs=self._fs)
            return tuple(result for log_dir in self._log_dirs for result in revert_in(log_dir, wanted, means))

    def moves(self, wanted: Wanted) -> tuple[Move, ...]:
        """Return the moves of the wanted partitions that can be taken back, or why not; takes no lock.

        Raises: UnreadableFile.
        """
        return tuple(move for _, move in self._moves(wanted))

    def move_back(self, wanted: Wanted) -> tuple[Move, ...]:
        """Take the moves of the wanted partitions back, or finish what was begun of that. Raises: as ``restore``."""
        with self._locked():
            due = self._moves(wanted)
            return tuple(done for mover, move in due for done in mover.move([move.topic_partition]))

    def _moves(self, wanted: Wanted) -> list[tuple[Mover, Move]]:
        """Return what is due, one step of each partition, with who does it: what is to be forgotten comes last."""
        from cleaner.engine.moving import Mover, moved_out_of  # noqa: PLC0415 - loads numpy, which few need

        means, due = replace(self._means, fs=self._fs), []
        for log_dir in self._log_dirs:
            mover = Mover(self._log_dirs, log_dir, means, copies=False)
            planned = mover.plan([name for name in moved_out_of(log_dir) if wanted(name)])
            due += [(mover, move) for move in planned if move.step is not MoveStep.NOTHING or move.error is not None]
        due.sort(key=lambda one: one[1].step is MoveStep.FORGET)
        once = {move.topic_partition: (mover, move) for mover, move in reversed(due)}
        return [once[name] for name in sorted(once)]

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
        """Restore one partition. A failure becomes its result, and the other partitions go on."""
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
            if held_since_ms is not None:  # a part of the restore may be done
                with suppress(LogCleanerError, OSError):
                    partition = str(result.topic_partition)
                    journal.record("restore-failed", self._means.clock.now_ms(), partition=partition, error=told(error))
            self._means.listener.event("partition_failed", **place, error=told(error))
            return replace(result, error=told(error))
        segments = len(planned.restorable)
        self._means.listener.event("partition_restored", **place, segments=segments, bytes=planned.size_bytes)
        return replace(result, held_since_ms=held_since_ms, lapsed_since_ms=None, is_done=True)

    def _hold(self, log_dir: LogDir, facts: RestoreFacts, journal: Journal) -> int:
        """Put a partition on hold.

        Return since when it is on hold, epoch ms; a second restore does not change this time.

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
        with closing(Journal(log_dir.path, self._fs, may_wait=True)) as journal:  # the release may let space be freed
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


def _with_space(result: RestoreResult) -> RestoreResult:
    has_work = result.restoration is not None and result.restoration.has_work
    return replace(result, error=result.error or _no_space(result.log_dir, _WAITS)) if has_work else result


def _no_space(log_dir: str, remedy: str | None = None) -> str | None:
    """Return the error of a log dir that has no space for a line; None if it has. ``remedy``: instead of the usual."""
    try:
        ensure_space(path_of_text(log_dir))
    except JournalFull as error:
        return told(JournalFull(error.log_dir, remedy or error.remedy))
    return None


def put_back(fs: FileSystem, log_dir: LogDir, planned: Restoration) -> None:
    """Do steps 2 to 5 of a restore. Raises: CorruptCheckpoint, UnreadableFile, OutOfSpace, UnsafeOwner, OSError."""
    directory = log_dir.path / str(planned.facts.topic_partition)
    if planned.restorable or planned.moved_back:
        _put_back_epochs(fs, directory, planned)
        _put_back_checkpoints(fs, log_dir, planned)
        _rename_back(fs, directory, planned)
    if planned.emptied:
        _drop_rolled(fs, directory, planned.emptied)


def epochs_before(deletion: DeletionFacts, found: Sequence[LeaderEpochEntry]) -> list[LeaderEpochEntry]:
    """Return the leader epochs from before a deletion, and the epochs that began since."""
    before = [LeaderEpochEntry(*entry) for entry in deletion.leader_epochs]
    newest = before[-1].epoch if before else -1
    return before + [entry for entry in found if entry.epoch > newest]


@dataclass(frozen=True, slots=True)
class History:
    """The entries of one journal."""

    log_dir: str
    entries: tuple[Mapping[str, Any], ...]
    """Oldest first; each has ``time_ms`` and ``what``, mostly ``partition`` and ``bytes``."""
    damaged_lines: int
    """The number of lines that a crash or a full disk cut short, or that somebody altered. Their content is lost."""
    first_dirty_offsets: Mapping[str, int] = field(default_factory=dict)
    """Partition -> its first dirty offset; 0 without a line in the cleaner's checkpoint."""
    partitions: frozenset[str] | None = None
    """The partitions of the log dir; None if not read."""

    def is_missing(self, entry: Mapping[str, Any]) -> bool:
        """Return whether no partition of this name is there: it was deleted since, or its import was killed."""
        return self.partitions is not None and str(entry.get("partition")) not in self.partitions

    def is_unfinished(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a compaction may be done in part: the cleaner's checkpoint lies below its end."""
        end_offset, first_dirty = entry.get("end_offset"), self.first_dirty_offsets.get(str(entry.get("partition")))
        return isinstance(end_offset, int) and first_dirty is not None and first_dirty < end_offset


def read_history(log_dir: LogDir, wanted: Wanted) -> History:
    """Return the entries of the wanted partitions and of the log dir as a whole, without the fields for a restore.

    A compaction that a guard rail held back changed nothing. Its ``compact`` line is left out; the ``guarded`` line
    stays. A compaction that dropped records without a key has their number as ``records_unkeyed``.

    Raises: UnreadableFile.
    """
    entries: list[Mapping[str, Any]] = []
    damaged_lines = 0
    for entry in read_lines(log_dir.path):
        if entry is None:
            damaged_lines += 1
        elif "partition" not in entry or ((topic_partition := partition_of(entry)) and wanted(topic_partition)):
            if entry["what"] == "erase" and (unfinished := _as_before(log_dir.path, entry)):
                entry["unfinished"] = unfinished
            for noted in ("undo", SOURCES):
                entry.pop(noted, None)
            newest = _newest_compaction(entries, entry.get("partition")) if entry["what"] in _OF_A_COMPACTION else None
            if newest is not None and entry["what"] == DROPPED:
                entries[newest] = {**entries[newest], "records_unkeyed": entry.get("records_unkeyed")}
                continue
            if newest is not None:
                del entries[newest]
            entries.append(entry)
    here = frozenset(str(topic_partition) for topic_partition, _ in log_dir.partitions())
    return History(str(log_dir.path), tuple(entries), damaged_lines, _first_dirty_offsets(log_dir), here)


def _as_before(log_dir: Path, entry: Mapping[str, Any]) -> int:
    """Return how many of the logs that an erasure was to replace still are in their place."""
    found = 0
    for base_offset, size_bytes, mtime_ns in entry.get(SOURCES, ()):
        with suppress(OSError):
            path = log_dir / str(entry.get("partition")) / segment_file_name(base_offset, FileKind.LOG)
            status = status_of(path)
            found += (status.st_size, status.st_mtime_ns) == (size_bytes, mtime_ns)
    return found


def compactions(log_dirs: Iterable[LogDir], wanted: Wanted) -> dict[TopicPartition, int]:
    """Return the wanted partitions that a compaction rewrote, and when the newest one did, epoch ms.

    Raises: UnreadableFile.
    """
    found: dict[TopicPartition, int] = {}
    for log_dir in log_dirs:
        for entry in read_history(log_dir, wanted).entries:
            if entry["what"] == "compact" and (topic_partition := partition_of(entry)) is not None:
                found[topic_partition] = entry["time_ms"]
    return found


class _Stated(NamedTuple):
    """The facts about the partitions of a log dir that a restore needs."""

    holds: Offsets
    hold_ids: TopicIds
    log_starts: Offsets
    cleaned: Offsets
    now_ms: int

    @classmethod
    def of(cls, log_dir: LogDir, now_ms: int) -> Self:
        """Read the facts. Raises: CorruptCheckpoint, CorruptHolds, CorruptHoldIds, UnreadableFile."""
        holds = log_dir.holds()
        log_starts, cleaned = (log_dir.offsets(n) for n in (LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT))
        return cls(holds, log_dir.hold_ids(holds), log_starts, cleaned, now_ms)


def _candidates(
    log_dir: LogDir, wanted: Wanted, named: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, Listing | LogCleanerError]]:
    for topic_partition, path in log_dir.partitions():
        if not wanted(topic_partition):
            continue
        try:
            listing = list_partition(path)
        except LogCleanerError as error:
            yield topic_partition, error
            continue
        if topic_partition in named or listing.in_state(FileState.DELETED):
            yield topic_partition, listing


def _result(
    log_dir: Path,
    topic_partition: TopicPartition,
    listing: Listing | LogCleanerError,
    deletions: Sequence[DeletionFacts],
    stated: _Stated,
) -> RestoreResult | None:
    """Return the facts about a partition; None if it has neither a hold nor a waiting deletion in the journal."""
    try:
        if isinstance(listing, LogCleanerError):
            raise listing
        ensure_plain_files(listing)
        epochs, topic_id = read_leader_epochs(listing.directory), topic_id_if_sound(listing.directory)
    except LogCleanerError as error:
        return RestoreResult(topic_partition, str(log_dir), None, str(error))
    since_ms = stated.holds.get(topic_partition)
    has_lapsed = belongs_to_another_topic(stated.hold_ids.get(topic_partition), topic_id)
    facts = RestoreFacts(
        topic_partition,
        str(log_dir),
        tuple(replace(d, has_other_epochs=not _fit(d, epochs)) for d in deletions),
        {file.name: file.identity for file in listing.files},
        stated.log_starts.get(topic_partition),
        None if has_lapsed else since_ms,
        stated.cleaned.get(topic_partition),
        topic_id,
        stated.now_ms,
    )
    planned = restoration(facts)
    if not planned.verdicts and not planned.moves and since_ms is None:
        return None
    lapsed_since_ms = since_ms if has_lapsed else None
    return RestoreResult(
        topic_partition,
        str(log_dir),
        planned,
        held_since_ms=facts.held_since_ms,
        lapsed_since_ms=lapsed_since_ms,
    )


def _fit(deletion: DeletionFacts, found: Sequence[LeaderEpochEntry]) -> bool:
    """Return whether the epochs are as before the deletion, or as the deletion leaves them."""
    before = epochs_before(deletion, found)
    return list(found) == before or (bool(found) and list(found) == truncate_from_start(before, found[0].start_offset))


def _record(journal: Journal, now_ms: int, planned: Restoration) -> None:
    try:
        journal.record("restore", now_ms, **_journalled(planned))
    except JournalFull as error:
        raise JournalFull(error.log_dir, _WAITS) from error


def _journalled(planned: Restoration) -> dict[str, object]:
    segments = [verdict.segment for verdict in planned.restorable]
    return {
        "partition": str(planned.facts.topic_partition),
        "bytes": planned.size_bytes,
        "log_start_offset": max(planned.log_start_offset, planned.log_start_checkpoint or 0),
        "segments": [{"base_offset": s.base_offset, "bytes": s.size_bytes} for s in segments],
    }


def _put_back_epochs(fs: FileSystem, directory: Path, planned: Restoration) -> None:
    found = read_leader_epochs(directory)
    epochs = epochs_before(planned.oldest, found)
    if not planned.is_whole:
        epochs = truncate_from_start(epochs, planned.log_start_offset)
    if epochs != found:
        fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, format_leader_epochs(epochs), Purpose.CHECKPOINT)


def _put_back_checkpoints(fs: FileSystem, log_dir: LogDir, planned: Restoration) -> None:
    """Put the checkpoints back.

    A later run may have moved the first dirty offset up to the later log start, though the restored records are dirty.
    """
    topic_partition, before = planned.facts.topic_partition, planned.oldest.cleaner_checkpoint
    cleaned = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT).get(topic_partition)
    first_dirty = None if before is None or cleaned is None else min(cleaned, before)
    changes = {CLEANER_OFFSET_CHECKPOINT: first_dirty, LOG_START_OFFSET_CHECKPOINT: planned.log_start_checkpoint}
    for name, changed in changes.items():
        offsets = {**log_dir.offsets(name), topic_partition: changed}
        log_dir.write_offsets(name, {key: offset for key, offset in offsets.items() if offset is not None}, fs)


def _rename_back(fs: FileSystem, directory: Path, planned: Restoration) -> None:
    segments = [verdict.segment for verdict in planned.restorable]
    waiting = [f for segment in segments for f in segment.files if f.waiting in planned.facts.files]
    for file in waiting:
        if file.name.kind is not FileKind.LOG:
            fs.rename(directory / str(file.waiting), directory / str(file.name), Purpose.RESTORE)
    for name in planned.telling:
        fs.rename(directory / str(name), directory / str(name._replace(state=FileState.PLAIN)), Purpose.RESTORE)
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


def _first_dirty_offsets(log_dir: LogDir) -> Mapping[str, int]:
    """Return no offset if the checkpoint is garbled, because then nobody knows which compactions were finished."""
    try:
        cleaned = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT)
    except CorruptCheckpoint:
        return {}
    return {str(topic_partition): cleaned.get(topic_partition, 0) for topic_partition, _ in log_dir.partitions()}


def _newest_compaction(entries: Sequence[Mapping[str, Any]], partition: object) -> int | None:
    """Return the place of the newest compaction of a partition in the journal; None if its line is gone."""
    for place in reversed(range(len(entries))):
        if (entries[place]["what"], entries[place].get("partition")) == ("compact", partition):
            return place
    return None
