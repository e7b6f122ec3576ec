"""Move partitions into another log dir of a broker that is stopped.

No rename is atomic over two disks, so the order decides. Each step is durable before the next one, and safe to crash
behind; the same command, run again, goes on where a run ended:
    1. the partition is copied into a private directory of the target, TOPIC-PARTITION.move-delete: every file with its
       time, owner and mode. Then each batch of the copy is read, with its checksum;
    2. the journal's line in both log dirs; the target's lines of the checkpoints, and its hold if there is one;
    3. the copy moves to its name. Now both log dirs have the partition, and a broker refuses to start;
    4. the old directory gets a name with the suffix ``-stray``, which a start keeps and does not serve;
    5. the lines of the source's checkpoints go.

Invariant:  under its name the partition is whole in one log dir, or the same in both. It is never in neither: a broker
            would begin it empty.
A crash:    in step 1 leaves the private directory. A broker that starts removes it; the next run makes it anew. Between
            3 and 4 both have it: the next run sets the old one aside, if no log has changed since.
Assumes:    the locks of all log dirs, so that no broker writes to either.
Not chosen: the suffix ``-future`` for the copy. A broker that starts takes such a directory for its own move, fetches
            on behind the end that it finds, and puts it in the place of the partition: a copy that a crash cut short in
            a log dir with ``.kafka_cleanshutdown`` would keep its torn end. Nor to leave a whole ``-future`` directory
            to the broker: it takes its place only once the broker served the old one, whose disk may be the reason for
            the move. Nor ``-delete`` for the old directory, which a start removes.

``.kafka_cleanshutdown`` says that a broker need not recover a log dir. If only the target has it, the copy leaves out
the index files of the segments behind the recovery point. A start then reads these segments whole, and makes their
indexes anew, as it recovers them. Their batches were all checked.

Source: Kafka LogManager.loadLog, LogManager.loadLogs; LogLoader.loadSegmentFiles; LocalLog.logStrayDirName;
ReplicaManager.maybeAddLogDirFetchers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from cleaner.engine.copy.copying import OutputDir, as_it_is_bytes
from cleaner.engine.copy.manifest import CopyDoesNotFit
from cleaner.engine.copy.moment import SeenDirectory, SourceChanged
from cleaner.engine.delete_records import count_records
from cleaner.engine.journal import Journal, ensure_space, partition_of, read_entries
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.private import is_of_a_start, name_of_private, names_in, private_directory, remove_private
from cleaner.engine.repair.topic_ids import ids_of, read_assigned
from cleaner.engine.streams import read_streams
from cleaner.errors import told
from policies.moving import DueStep, MoveFacts, MoveStep, RefusedMove, move_verdict
from storage.errors import LogCleanerError, PlanOutOfDate, UnreadableFile
from storage.filesystem import OutOfSpace, Purpose
from storage.kernels import check_usable
from storage.log.leader_epochs import topic_id_if_sound
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.log_dir import OFFSET_CHECKPOINTS, LogDir, TopicIds
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    MOVE_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
    DirState,
    FileKind,
    TopicPartition,
    parse_partition_dir_name,
)
from storage.properties import read_properties
from storage.scan.partitions import OffsetRange

MOVE: Final = "move"
"""The kind of the journal's line."""
OFFSET_MAX: Final = (1 << 63) - 1
_SMALL_FILES_BYTES: Final = 1 << 20
_IDENTITY: Final = ("cluster.id", "node.id", "broker.id")
_INDEXES: Final = (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_MAKE_ROOM: Final = "make room there, name another log dir, or move fewer partitions"
_DAMAGED: Final = "logcleaner verify tells what is wrong; verify --repair=log-end cuts a write that a crash tore off"
_OTHER_DISK: Final = "the disk of that log dir fails: name a log dir on another one"
_COPY_FIRST: Final = "if this disk dies, copy the log dir to another one, as far as it can be read, and move from there"
_EITHER: Final = (
    f"one of the two disks fails: name a log dir on another one; {_COPY_FIRST.replace('this', 'the first')}"
)
_METADATA: Final = "name the log dir of the metadata log, too, or metadata.log.dir"


class MoveRefused(LogCleanerError):
    """A partition that is not moved. Nothing of it was changed."""

    topic_partition: TopicPartition
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.topic_partition}: {self.cause}; not moved: {self.remedy}"


class HalfMoved(LogCleanerError):
    """A partition whose move stopped behind the copy."""

    topic_partition: TopicPartition
    cause: str
    where: str

    def __str__(self) -> str:
        return f"{self.topic_partition}: {self.cause}; it lies {self.where}: the same command, run again, goes on"


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one partition: planned, done, or failed."""

    topic_partition: TopicPartition
    target: str
    step: MoveStep = MoveStep.NOTHING
    """The step at which it begins."""
    source: str | None = None
    """The log dir that has or had the partition; None if it is refused, or nothing is left to do."""
    files: int = 0
    """The files that are copied."""
    size_bytes: int = 0
    """Their size."""
    needed_bytes: int = 0
    """The space that they take in the target."""
    set_aside: str | None = None
    """The name of the old directory in the source; None if it is not known yet, or there is none."""
    left_out: tuple[str, ...] = ()
    """Index files that a start makes anew."""
    records: int | None = None
    """The data records of the copy; None if nothing was copied."""
    is_done: bool = False
    error: str | None = None
    """Why the partition is not moved; None if nothing failed."""


class _Noted(NamedTuple):
    """The newest line of the target's journal about a move of a partition into it."""

    source: str
    set_aside: str


class MovedAway(NamedTuple):
    """A partition that a move took out of a log dir, whose directory waits there."""

    topic_partition: TopicPartition
    target: str
    """The log dir that it was moved into."""
    set_aside: str
    """The name of the directory."""
    offsets: Mapping[str, int]
    """Its lines of the checkpoints, by file name."""


class Mover:
    """Moves partitions into one log dir."""

    def __init__(self, log_dirs: Sequence[LogDir], target: LogDir, means: Means, *, copies: bool = True) -> None:
        """Look at nothing yet.

        Args:
            log_dirs: those of the broker, under their locks if something is to be changed.
            target: one of them.
            means: of the run.
            copies: whether partitions are copied; else a move is only taken back, or finished.
        """
        self._log_dirs, self._target, self._means, self._copies = log_dirs, target, means, copies
        self._fs = means.fs

    def plan(self, wanted: Sequence[TopicPartition]) -> tuple[Move, ...]:
        """Return what there is to do. Changes nothing.

        Raises: CopyDoesNotFit, UnreadableFile, CorruptCheckpoint of a whole log dir.
        """
        planned = tuple(self._planned(name) for name in wanted)
        needed_bytes = sum(move.needed_bytes for move in planned)
        if needed_bytes:
            needed_bytes += _SMALL_FILES_BYTES
            free_bytes = self._target.space().free_bytes
            if needed_bytes > free_bytes:
                raise CopyDoesNotFit(self._target.path, needed_bytes, free_bytes, _MAKE_ROOM)
        return planned

    def rehearsed(self, wanted: Sequence[TopicPartition]) -> tuple[Move, ...]:
        """Return what there is to do, with the errors of log dirs that have no space for it. Raises: as ``plan``."""
        return tuple(self._with_space(move) for move in self.plan(wanted))

    def _with_space(self, move: Move) -> Move:
        if move.error is not None or move.step is MoveStep.NOTHING:
            return move
        source = LogDir(Path(move.source)) if move.source else None
        try:
            ensure_space(self._target.path)
            if source and any(move.topic_partition in source.offsets(name) for name in OFFSET_CHECKPOINTS):
                ensure_space(source.path)
        except LogCleanerError as error:
            return replace(move, error=told(error))
        return move

    def move(self, wanted: Sequence[TopicPartition]) -> Iterator[Move]:
        """Plan again, and move the partitions. Yield each one; a failure stops no other partition.

        Raises: as ``plan``; KernelsUnusable.
        """
        planned = self.plan(wanted)
        if any(move.step is MoveStep.COPY for move in planned):
            check_usable()
        self._means.listener.expect(2 * sum(move.size_bytes for move in planned))
        for move in planned:
            yield self._moved(move)

    def _planned(self, name: TopicPartition) -> Move:
        move = Move(name, str(self._target.path))
        try:
            verdict = move_verdict(self._facts(name))
            if isinstance(verdict, RefusedMove):
                raise MoveRefused(name, *verdict)
            if verdict.step is MoveStep.COPY and not self._copies:
                cause = f"{verdict.source}/{name} changed since the move"
                raise MoveRefused(
                    name, cause, f"logcleaner move {name} --to-dir {self._target.path} moves what it is now"
                )
            return self._measured(move, verdict)
        except LogCleanerError as error:
            return replace(move, error=told(error))

    def _facts(self, name: TopicPartition) -> MoveFacts:
        dirs = {log_dir: _directories(log_dir, name) for log_dir in self._log_dirs}
        holders = [log_dir for log_dir, found in dirs.items() if found.get(str(name)) is DirState.LIVE]
        futures = [d.path / n for d, found in dirs.items() for n, state in found.items() if state is DirState.FUTURE]
        others = [log_dir for log_dir in holders if log_dir != self._target]
        noted = _noted(self._target, name)
        begun = next((d for d in self._log_dirs if noted and str(d.path) == noted.source), None)
        difference = obstacle = None
        away = moved_away(self._target, name)
        if len(others) == 1:
            (source,) = others
            obstacle = self._obstacle(source, name)
            difference = _difference(source.path / str(name), self._target.path / str(name))
            if away and _difference(source.path / str(name), self._target.path / away.set_aside) is not None:
                away = None
        return MoveFacts(
            name,
            str(self._target.path),
            tuple(str(log_dir.path) for log_dir in holders),
            tuple(map(str, futures)),
            str(begun.path) if begun else None,
            is_noted=begun is not None and _is_noted(begun, name),
            difference=difference,
            obstacle=obstacle,
            aside=away and away.set_aside,
        )

    def _obstacle(self, source: LogDir, name: TopicPartition) -> str | None:
        path = source.path / str(name)
        if path.is_symlink():
            return f"{path} is a symlink, which is not followed"
        seen = SeenDirectory.look(path)
        if strange := sorted(entry for entry in seen.entries if not seen.entries[entry].is_file):
            return f"{path / strange[0]} is no plain file"
        if any(name in batch.staged for batch in read_streams(source.path).values()):
            return f"{source.path} notes a batch of a stream that is not in the log yet"
        return _other_broker(source, self._target)

    def _measured(self, move: Move, verdict: DueStep) -> Move:
        name, stray = (
            move.topic_partition,
            name_of_private(move.topic_partition, f".{uuid4().hex}{DirState.STRAY.value}"),
        )
        move = replace(move, step=verdict.step, source=verdict.source)
        if verdict.step is MoveStep.RETURN:
            return replace(move, set_aside=stray if verdict.source else None)
        if verdict.source is None:
            return move
        if verdict.step is not MoveStep.COPY:
            noted = _noted(self._target, name)
            return replace(move, set_aside=noted.set_aside if noted else None)
        source = LogDir(Path(verdict.source))
        seen = SeenDirectory.look(source.path / str(name))
        left_out = self._not_trusted(source, seen, name)
        sizes = {file: seen.entries[file].identity.size_bytes for file in seen.entries if file not in left_out}
        return replace(
            move,
            files=len(sizes),
            size_bytes=sum(sizes.values()),
            needed_bytes=as_it_is_bytes(seen),
            set_aside=stray,
            left_out=left_out,
        )

    def _not_trusted(self, source: LogDir, seen: SeenDirectory, name: TopicPartition) -> tuple[str, ...]:
        """Return the index files that a start of the source would make anew, and one of the target would trust."""
        if (source.path / CLEAN_SHUTDOWN_FILE).exists() or not (self._target.path / CLEAN_SHUTDOWN_FILE).exists():
            return ()
        recovery_point = source.offsets(RECOVERY_POINT_CHECKPOINT).get(name, 0)
        segments = seen.listing().segments
        ends = [*(segment.base_offset for segment in segments[1:]), OFFSET_MAX]
        doubtful = [segment for segment, end in zip(segments, ends, strict=True) if end > recovery_point]
        return tuple(s.files[kind].file_name for s in doubtful for kind in _INDEXES if kind in s.files)

    def _moved(self, move: Move) -> Move:
        if move.error is not None:
            return move
        if move.step is MoveStep.NOTHING:
            return replace(move, is_done=True)
        source = None if move.source is None else LogDir(Path(move.source))
        name, records = move.topic_partition, None
        try:
            self._remove_leftover(self._target.path / name_of_private(name, MOVE_SUFFIX), name)
            if move.step is MoveStep.RETURN:
                records = self._return(source, move)
            elif move.step is MoveStep.COPY and source is not None:
                records = self._copy(source, move)
            if source is not None:
                self._finish(source, move)
        except (LogCleanerError, OSError) as error:
            remedy = _remedy_of(error, source.path, self._target.path) if source else ""
            return replace(move, error=f"{told(error)}{remedy}")
        self._means.listener.event("partition_moved", **name._asdict(), from_dir=move.source, to_dir=move.target)
        return replace(move, records=records, is_done=True)

    def _copy(self, source: LogDir, move: Move) -> int:
        """Do steps 1 to 3. Return the number of data records. Raises: MoveRefused, OutOfSpace, PlanOutOfDate."""
        name, fs = move.topic_partition, self._fs
        private = self._target.path / name_of_private(name, MOVE_SUFFIX)
        try:
            seen = SeenDirectory.look(source.path / str(name))
            with private_directory(fs, private, Purpose.MOVE):
                directory = private / str(name)
                self._copy_files(seen, directory, move.left_out)
                records = self._checked(name, directory, seen.path)
                seen.ensure_unchanged()
                self._take_name(source, move, directory)
        except OutOfSpace as error:
            raise OutOfSpace(error.path, error.wanted_bytes, _MAKE_ROOM) from error
        except SourceChanged as error:
            raise PlanOutOfDate(error.path, error.cause) from error
        fs.fsync_dir(self._target.path, Purpose.MOVE)
        return records

    def _return(self, source: LogDir | None, move: Move) -> int:
        """Give the directory that an earlier move set aside its name back: steps 2 and 3 of a move without a copy.

        Return the number of data records. Raises: MoveRefused.
        """
        away = moved_away(self._target, move.topic_partition)
        assert away is not None
        directory = self._target.path / away.set_aside
        records = self._checked(move.topic_partition, directory, directory)
        self._take_name(source, move, directory, away)
        self._fs.fsync_dir(self._target.path, Purpose.MOVE)
        return records

    def _remove_leftover(self, private: Path, name: TopicPartition) -> None:
        """Remove what a killed move left. Raises: MoveRefused if it holds anything else."""
        if not os.path.lexists(private):
            return
        if private.is_symlink() or not private.is_dir():
            raise MoveRefused(name, f"{private} is no directory", "move it away")
        strange = [
            file for file in sorted(names_in(private)) if file != str(name) and not is_of_a_start(private / file)
        ]
        if strange:
            raise MoveRefused(name, f"{private} holds {strange[0]}, which no move wrote", "move it away")
        remove_private(self._fs, private, Purpose.MOVE)

    def _copy_files(self, seen: SeenDirectory, directory: Path, left_out: tuple[str, ...]) -> None:
        fs, output = self._fs, OutputDir(directory.parent, self._fs)
        fs.make_dir(directory, seen.path, Purpose.MOVE)
        for file in sorted(seen.entries.keys() - set(left_out)):
            source, entry = seen.path / file, seen.entries[file]
            output.copy(source, entry, directory / file, like=source, purpose=Purpose.MOVE)
            self._means.listener.progress(entry.identity.size_bytes)
        fs.fsync_dir(directory, Purpose.MOVE)
        fs.fsync_dir(directory.parent, Purpose.MOVE)

    def _checked(self, name: TopicPartition, directory: Path, original: Path) -> int:
        """Read every batch of the copy, with its checksum. Return the number of data records. Raises: MoveRefused."""
        try:
            segments = plan_recovery(list_partition(directory)).listing.segments
            start_offset = segments[0].base_offset if segments else 0
            offsets = OffsetRange(start_offset, OFFSET_MAX)
            records, damage = count_records(name, segments, offsets, self._means.listener.progress)
        except UnreadableFile as error:  # of this log dir's disk, whatever the original is like
            raise MoveRefused(name, f"{error.path}: cannot be read: {error.cause}", _OTHER_DISK) from error
        except LogCleanerError as error:
            records, damage = None, told(error)
        if records is None:
            raise MoveRefused(name, str(damage).replace(str(directory), str(original)), _DAMAGED)
        return records

    def _take_name(self, source: LogDir | None, move: Move, directory: Path, away: MovedAway | None = None) -> None:
        """Do steps 2 and 3, but for the last fsync. ``away`` has the lines of a partition that is nowhere else."""
        name, fs, clock = move.topic_partition, self._fs, self._means.clock
        offsets = _offsets_of(source, name) if source else away.offsets if away else {}
        fields: dict[str, Any] = {"partition": str(name), "bytes": move.size_bytes, "renamed_to": move.set_aside}
        with ExitStack() as stack:
            new = stack.enter_context(closing(Journal(self._target.path, fs, clock.boot())))
            # its disk may be full
            old = (
                stack.enter_context(closing(Journal(source.path, fs, clock.boot(), may_wait=True))) if source else None
            )
            try:
                new.record(MOVE, clock.now_ms(), **fields, from_dir=move.source or (away and away.target))
                notes = {"to_dir": move.target, "offsets": offsets, "is_return": away is not None}
                if old and not old.record(MOVE, clock.now_ms(), **fields, **notes):
                    self._means.listener.event("journal_waits", **name._asdict(), what=MOVE)
                self._write_lines(source, name, offsets)
                fs.move_dir(directory, self._target.path / str(name), Purpose.MOVE)
            except (LogCleanerError, OSError, KeyboardInterrupt):
                if directory.exists():
                    for journal in filter(None, (new, old)):
                        journal.take_back()
                raise

    def _write_lines(self, source: LogDir | None, name: TopicPartition, offsets: Mapping[str, int]) -> None:
        """Give the target the partition's lines of the checkpoints, and its hold."""
        for checkpoint in OFFSET_CHECKPOINTS:
            lines = {key: at for key, at in self._target.offsets(checkpoint).items() if key != name}
            if checkpoint in offsets:
                lines[name] = offsets[checkpoint]
            self._target.write_offsets(checkpoint, lines, self._fs)
        since_ms = source.holds().get(name) if source else None
        if source and since_ms is not None:
            holds = self._target.holds()
            ids = {**self._target.hold_ids(holds), **_only(source.hold_ids(source.holds()), name)}
            self._target.write_holds({**holds, name: since_ms}, self._fs, ids)

    def _finish(self, source: LogDir, move: Move) -> None:
        """Do steps 4 and 5. Raises: HalfMoved."""
        old, name = source.path / str(move.topic_partition), move.topic_partition
        try:
            if move.step is not MoveStep.FORGET:
                assert move.set_aside is not None
                self._fs.rename(old, source.path / move.set_aside, Purpose.MOVE)
                self._fs.fsync_dir(source.path, Purpose.MOVE)
            source.forget({name}, self._fs)
            holds = source.holds()
            if name in holds:
                ids = source.hold_ids(holds)
                source.write_holds({key: at for key, at in holds.items() if key != name}, self._fs, ids)
        except (LogCleanerError, OSError) as error:
            where = "in both log dirs, so that no broker starts" if old.exists() else f"in {move.target}"
            raise HalfMoved(name, told(error), where) from error


def reassignment(opened: OpenLogDirs, target: Path, wanted: Sequence[TopicPartition]) -> dict[str, Any]:
    """Return the JSON by which ``kafka-reassign-partitions --execute`` has a running broker do the move.

    Args:
        opened: the log dirs of the broker.
        target: the log dir, by the path that ``log.dirs`` has.
        wanted: the partitions.

    Raises: MoveRefused if the cluster metadata do not tell the replicas of a partition.
    """
    assigned = read_assigned(opened.log_dirs, opened.means.broker.metadata_log_dir)
    node_id = next((found for log_dir in opened.log_dirs if (found := ids_of(log_dir)[0]) is not None), None)
    partitions = []
    for name in wanted:
        key = (assigned.topic_ids.get(name.topic, ""), name.partition) if assigned else ("", 0)
        replicas = assigned.partitions[key].replicas if assigned and key in assigned.partitions else ()
        if node_id not in replicas:
            raise MoveRefused(name, "no cluster metadata that can be read here place it on this broker", _METADATA)
        log_dirs = [str(target) if replica == node_id else "any" for replica in replicas]
        partitions.append({**name._asdict(), "replicas": list(replicas), "log_dirs": log_dirs})
    return {"version": 1, "partitions": partitions}


def moved_away(log_dir: LogDir, name: TopicPartition) -> MovedAway | None:
    """Return the newest move of a partition out of a log dir, if its directory waits there.

    None if the newest one took an earlier move back. Raises: UnreadableFile.
    """
    newest = None
    for entry in read_entries(log_dir.path, MOVE):
        match entry:
            case {"to_dir": str(target), "renamed_to": str(set_aside)} if partition_of(entry) == name:
                offsets = entry.get("offsets")
                found = MovedAway(name, target, set_aside, offsets if isinstance(offsets, dict) else {})
                newest = None if entry.get("is_return") else found
    path = log_dir.path / newest.set_aside if newest else None
    return newest if path and path.is_dir() and not path.is_symlink() else None


def moved_out_of(log_dir: LogDir) -> list[TopicPartition]:
    """Return the partitions that a move took, or that one takes back, of which a step may be left, sorted.

    Raises: UnreadableFile.
    """
    newest = {partition_of(entry): entry for entry in read_entries(log_dir.path, MOVE)}
    here = {name for name, _ in log_dir.partitions()}
    return sorted(
        name
        for name, entry in newest.items()
        if name and (moved_away(log_dir, name) if name not in here else "from_dir" in entry)
    )


def _offsets_of(log_dir: LogDir, name: TopicPartition) -> dict[str, int]:
    """Return a partition's lines of the checkpoints, by file name. Raises: CorruptCheckpoint, UnreadableFile."""
    found = {checkpoint: log_dir.offsets(checkpoint).get(name) for checkpoint in OFFSET_CHECKPOINTS}
    return {checkpoint: offset for checkpoint, offset in found.items() if offset is not None}


def _remedy_of(error: LogCleanerError | OSError, source: Path, target: Path) -> str:
    """Return what to do if a disk refused a read or a write of a partition that is as it was; else nothing."""
    cause = error if isinstance(error, OSError) else error.__cause__
    is_refused = isinstance(cause, OSError) and cause.errno in (errno.EIO, errno.EROFS)
    if not is_refused or isinstance(error, (HalfMoved, MoveRefused)) or not told(error).startswith(str(source)):
        return ""
    return f"; {_EITHER if str(target) in told(error) else _COPY_FIRST}"


def _only(ids: TopicIds, name: TopicPartition) -> TopicIds:
    return {name: ids[name]} if name in ids else {}


def _directories(log_dir: LogDir, name: TopicPartition) -> dict[str, DirState]:
    """Return the directories of a partition in a log dir, by name. Raises: UnreadableFile."""
    found = {entry: parse_partition_dir_name(entry) for entry in names_in(log_dir.path)}
    return {entry: one.state for entry, one in found.items() if one and one.topic_partition == name}


def _noted(target: LogDir, name: TopicPartition) -> _Noted | None:
    """Return the newest move of a partition into a log dir; None if there was none. Raises: UnreadableFile."""
    newest = None
    for entry in read_entries(target.path, MOVE):
        match entry:
            case {"from_dir": str(source), "renamed_to": str(set_aside)} if partition_of(entry) == name:
                newest = _Noted(source, set_aside)
    return newest


def _is_noted(log_dir: LogDir, name: TopicPartition) -> bool:
    """Return whether a log dir has a line of a partition in a checkpoint, or holds it. Raises: CorruptCheckpoint."""
    return name in log_dir.holds() or bool(_offsets_of(log_dir, name))


def _difference(one: Path, other: Path) -> str | None:
    """Return the first difference of two directories of a partition; None without one, or if one is not there.

    A copy keeps the times of its files, so that a log of equal name, size and time is the same.
    """
    if not (one.is_dir() and other.is_dir()):
        return None
    if topic_id_if_sound(one) != topic_id_if_sound(other):
        return "their topic ids differ"
    first, second = (
        {
            (f.file_name, f.size_bytes, f.identity.mtime_ns)
            for f in list_partition(path).files
            if f.name.kind is FileKind.LOG
        }
        for path in (one, other)
    )
    differing = sorted(name for name, _, _ in first ^ second)
    return f"{differing[0]} differs" if differing else None


def _other_broker(one: LogDir, other: LogDir) -> str | None:
    """Return in words that two log dirs belong to different brokers; None if nothing says so."""
    first, second = (_identity(log_dir) for log_dir in (one, other))
    for key in _IDENTITY:
        if key in first and key in second and first[key] != second[key]:
            return f"{key} is {first[key]} in {one.path} and {second[key]} in {other.path}, which is another broker's"
    return None


def _identity(log_dir: LogDir) -> dict[str, str]:
    with suppress(UnreadableFile):
        return {key: found.value for key, found in read_properties(log_dir.path / META_PROPERTIES_FILE).items()}
    return {}
