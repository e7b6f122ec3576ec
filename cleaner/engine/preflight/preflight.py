"""Predicts a start: reads the facts, in the order in which a broker does, and asks the rules."""

from __future__ import annotations

import mmap
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.doctor.missing import missing_records
from cleaner.engine.preflight.contents import DirectoryContents, ReadingBudget
from cleaner.engine.space import account_of
from cleaner.engine.verify.log_dir_files import read_identity
from policies.preflight.facts import FileBefore, KafkaFailure, LogDirBefore, Offsets, PartitionBefore, Release, Replicas
from policies.preflight.files import parse_kafka_name
from policies.preflight.identity import Identities, IdentityBefore, check_identities, check_zookeeper_identities
from policies.preflight.metadata import METADATA_DIR, MetadataBefore, MetadataStart, load_metadata, with_features
from policies.preflight.prediction import REMOTE_SINCE, STRAY_SINCE, StartSurroundings, predict
from policies.preflight.start import (
    LogDirStart,
    PartitionFate,
    Start,
    StartStepKind,
    StartUser,
    StartVerdict,
    verdict_of,
)
from policies.preflight.texts import leader_epochs_failure, read_offset_checkpoint, read_topic_id
from storage.directory import opened
from storage.errors import CorruptBatch, InvalidRecord, LogCleanerError, UnreadableFile, as_unreadable
from storage.lock import holder_of, is_read_only
from storage.log.file_records import CorruptRecord, walk
from storage.log_dir import LogDir, read_file
from storage.metadata.assignments import Placements
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    DirState,
    TopicPartition,
)
from storage.records import Batch
from storage.records.read_batches import LogBytes, parse_batch
from storage.segment import reading

_SAMPLE_BYTES_MAX: Final = 64 << 20
_SAMPLE_SECONDS_MAX: Final = 0.5
_PIECE_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 4096
_ENTRY_BYTES: Final = 8 + 12
_NEW_PARTITION_FILES: Final = 5


class StartNeed(NamedTuple):
    """The time and the space that a start needs for one log dir."""

    recovered_bytes: int
    """The bytes of the segments that are read batch by batch."""
    bytes_per_second: float | None
    """The speed at which a sample of the recovered segments was read, past the page cache; None if nothing is
    recovered."""
    space_bytes: int
    """Free space for what the start writes: rebuilt indexes, producer snapshots, new partitions."""
    free_bytes: int

    @property
    def lacks_space(self) -> bool:
        """Return whether the disk fills up as Kafka starts."""
        return self.space_bytes > self.free_bytes

    @property
    def seconds(self) -> float:
        """The time that reading takes at that speed."""
        return self.recovered_bytes / self.bytes_per_second if self.bytes_per_second else 0.0


def need_of(log_dir: LogDirStart, interval_bytes: int) -> StartNeed:
    """Measure and add up what a start needs of a log dir.

    Args:
        log_dir: what happens to it.
        interval_bytes: of the log between two entries of an index.
    """
    recovered = _recovered(log_dir)
    return StartNeed(
        sum(size_bytes for _, size_bytes in recovered),
        _speed([path for path, size_bytes in recovered if size_bytes]),
        _space_bytes(log_dir, interval_bytes),
        _free_bytes(log_dir.path),
    )


def full_disks(start: Start, interval_bytes: int) -> list[str]:
    """Return the log dirs whose disks fill up as Kafka starts. See ``need_of``."""
    return [one.path for one in start.log_dirs if _space_bytes(one, interval_bytes) > _free_bytes(one.path)]


def _recovered(log_dir: LogDirStart) -> list[tuple[Path, int]]:
    """Return the segments that are read batch by batch, and their sizes in bytes."""
    return [
        (Path(log_dir.path, log.name, step.file), step.size_bytes)
        for log in log_dir.logs
        for step in log.steps
        if step.kind is StartStepKind.RECOVER
    ]


def _space_bytes(log_dir: LogDirStart, interval_bytes: int) -> int:
    recovered = _recovered(log_dir)
    indexes = sum(_blocks(size_bytes // max(interval_bytes, 1) * _ENTRY_BYTES) for _, size_bytes in recovered)
    written = sum(step.kind is StartStepKind.WRITE for log in log_dir.logs for step in log.steps)
    made = sum(step.kind is StartStepKind.CREATE for step in log_dir.steps) * _NEW_PARTITION_FILES
    return indexes + (written + made) * _BLOCK_BYTES


def _free_bytes(path: str) -> int:
    try:
        return LogDir(Path(path)).space().free_bytes
    except UnreadableFile:
        return 0


def _blocks(size_bytes: int) -> int:
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def _speed(paths: list[Path]) -> float | None:
    """Read some of the files, past the page cache where the file system can, and return bytes a second."""
    read_bytes, started = 0, time.monotonic()
    with mmap.mmap(-1, _PIECE_BYTES) as buffer:  # page-aligned, as direct reading asks
        for path in paths:
            for piece_bytes in _pieces(path, buffer):
                read_bytes += piece_bytes
                seconds = time.monotonic() - started
                if read_bytes >= _SAMPLE_BYTES_MAX or seconds >= _SAMPLE_SECONDS_MAX:
                    return read_bytes / max(seconds, 1e-6)
    return read_bytes / max(time.monotonic() - started, 1e-6) if read_bytes else None


def _pieces(path: Path, buffer: mmap.mmap) -> Iterator[int]:
    with suppress(OSError):
        descriptor = _opened(path)
        try:
            at = 0
            while piece_bytes := os.preadv(descriptor, [buffer], at):
                yield piece_bytes
                at += piece_bytes
                if piece_bytes % _BLOCK_BYTES:
                    return
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError:
        return os.open(path, flags)


Interval = Callable[[TopicPartition], int]
"""``index.interval.bytes`` of a partition."""


class User(NamedTuple):
    """The user that the broker runs as."""

    uid: int
    gid: int

    def may(self, status: os.stat_result, bits: int) -> bool:
        """Return whether the mode gives this user some of ``rwx``, as the bits 4, 2 and 1."""
        if self.uid == 0:
            return True
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return (status.st_mode >> shift) & bits == bits


_CHECKPOINTS = RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT
_UNWRAPPED_SINCE = 4
_READ_WRITE = 6
_ALL = 7
_READ = 4
_MAKE = 3  # an entry in a directory


def _may(user: User, path: Path, bits: int) -> bool:
    """Return whether a user may do something with a file, which may be missing."""
    try:
        return user.may(path.stat(), bits)
    except OSError:
        return True


def read_identity_as(user: User, path: Path) -> IdentityBefore:
    """Read ``meta.properties`` as a user."""
    if not _may(user, path / META_PROPERTIES_FILE, _READ):
        return IdentityBefore(str(path), None, f"user {user.uid} may not read it")
    try:
        return read_identity(path)
    except UnreadableFile as error:
        is_absent = not path.is_dir() and not path.exists()
        return IdentityBefore(str(path), None, None if is_absent else str(error))


def read_log_dir(
    path: Path,
    user: User,
    interval: Interval,
    release: Release,
    *,
    cleans: bool,
    makes_missing: bool,
    budget: ReadingBudget | None = None,
) -> LogDirBefore:
    """Read the facts of a log dir.

    Args:
        path: of the log dir.
        user: who the broker runs as.
        interval: see ``Interval``.
        release: of the Kafka that is to start; it decides which names of directories are known.
        cleans: whether its log cleaner runs.
        makes_missing: whether it makes a log dir that is not there, as with ZooKeeper.
        budget: bounds what is read whole; None for no bound.
    """
    if makes_missing and _may_be_made(path, user):
        return LogDirBefore(str(path), False, {}, {}, {}, (), (), is_made=True)
    failure = _unusable(path, user)
    if failure:
        return LogDirBefore(str(path), False, {}, {}, {}, (), (), failure=failure)
    names, unparsable = _directories(path, release)
    partitions = [_read_partition(path, name, partition, user, interval, release, budget) for name, partition in names]
    return LogDirBefore(
        str(path),
        (path / CLEAN_SHUTDOWN_FILE).exists(),
        _offsets(path / RECOVERY_POINT_CHECKPOINT, user, release),
        _offsets(path / LOG_START_OFFSET_CHECKPOINT, user, release),
        _offsets(path / HIGH_WATERMARK_CHECKPOINT, user, release),
        tuple(one for one in partitions if one is not None),
        tuple(unparsable),
        (path / METADATA_DIR).is_dir(),
        holder_of(path),
        cleaner_offsets=_offsets(path / CLEANER_OFFSET_CHECKPOINT, user, release) if cleans else {},
    )


def _may_be_made(path: Path, user: User) -> bool:
    """Return whether a path is not there, and a user may make it, with its parents. Source: Kafka LogManager."""
    if path.exists() or path.is_symlink():
        return False
    above = next(parent for parent in path.parents if parent.exists())
    return above.is_dir() and user.may(above.stat(), _MAKE)


def _unusable(path: Path, user: User) -> KafkaFailure | None:
    try:
        status = path.stat()
    except OSError as error:
        return KafkaFailure("IOException", error.strerror or str(error), is_io=True)
    if not stat.S_ISDIR(status.st_mode) or not user.may(status, _READ):
        return KafkaFailure("IOException", "is not a readable log directory", is_io=True)
    if is_read_only(path):
        return KafkaFailure("FileSystemException", "its file system is read-only", is_io=True)
    if not user.may(status, _ALL):
        missing = [name for name in (LOCK_FILE, *_CHECKPOINTS) if not (path / name).exists()]
        cause = f"user {user.uid} may not write to it" + (f", and {missing[0]} is missing" if missing else "")
        is_fatal = bool(missing) and LOCK_FILE not in missing  # Kafka makes its checkpoints outside of any catch
        return KafkaFailure("AccessDeniedException", cause, is_io=not is_fatal)
    if not _may(user, path / LOCK_FILE, _READ_WRITE):
        return KafkaFailure("AccessDeniedException", f"user {user.uid} may not write its {LOCK_FILE}", is_io=True)
    return None


def _directories(path: Path, release: Release) -> tuple[list[tuple[str, TopicPartition]], list[str]]:
    found, unparsable = [], []
    with as_unreadable(path), opened(path) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if not entry.is_dir() or (entry.name == REMOTE_INDEX_CACHE and release >= REMOTE_SINCE):
                continue
            topic_partition = parse_kafka_name(entry.name, knows_stray=release >= STRAY_SINCE)
            if topic_partition is None:
                unparsable.append(entry.name)
            elif topic_partition.topic != CLUSTER_METADATA_TOPIC:
                found.append((entry.name, topic_partition))
    return sorted(found), sorted(unparsable)


def _read_partition(
    log_dir: Path,
    name: str,
    topic_partition: TopicPartition,
    user: User,
    interval: Interval,
    release: Release,
    budget: ReadingBudget | None = None,
) -> PartitionBefore | None:
    """Read the facts of a partition directory; None if a live broker has deleted it meanwhile."""
    directory = log_dir / name
    if directory.is_symlink():
        directory = directory.resolve()  # Kafka follows it
    try:
        files = tuple(_files(directory, user))
        status = directory.stat()
    except FileNotFoundError:
        return None
    except LogCleanerError:
        if not directory.exists():
            return None
        raise
    is_aside = name.endswith((DirState.DELETE.value, DirState.STRAY.value))
    return PartitionBefore(
        name,
        topic_partition,
        files,
        leader_epochs_failure(read_file(directory / LEADER_EPOCH_CHECKPOINT), release),
        read_topic_id(read_file(directory / PARTITION_METADATA_FILE)),
        DirectoryContents(
            directory, interval(topic_partition), unwraps=release.major >= _UNWRAPPED_SINCE, budget=budget
        ),
        user.may(status, _ALL),
        account_of(directory).total.disk_bytes if is_aside else None,
    )


def read_metadata(log_dir: Path, user: User, release: Release) -> MetadataBefore:
    """Read the facts of the metadata log, which may be missing."""
    directory = log_dir / METADATA_DIR
    topic_partition = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
    found = None
    if directory.is_dir():
        found = _read_partition(log_dir, METADATA_DIR, topic_partition, user, lambda _: 4096, release)
    empty = PartitionBefore(
        METADATA_DIR, topic_partition, (), None, read_topic_id(None), DirectoryContents(directory, 4096)
    )
    return MetadataBefore(found or empty, read_file(directory / "quorum-state") if found else None)


def _files(directory: Path, user: User) -> Iterator[FileBefore]:
    rights: dict[tuple[int, int, int], tuple[bool, bool]] = {}  # few, of perhaps hundreds of thousands of files
    with as_unreadable(directory), opened(directory) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            whose = status.st_mode, status.st_uid, status.st_gid
            found = rights.get(whose)
            if found is None:
                if not stat.S_ISREG(status.st_mode):
                    continue
                found = rights[whose] = user.may(status, _READ), user.may(status, _READ_WRITE)
            yield tuple.__new__(FileBefore, (entry.name, status.st_size, *found))  # half the time of a call


def _offsets(path: Path, user: User, release: Release) -> Offsets | KafkaFailure:
    if not _may(user, path, _READ):
        return KafkaFailure("AccessDeniedException", f"user {user.uid} may not read it", is_io=True)
    return read_offset_checkpoint(read_file(path), release)


_INTERVAL_BYTES: Final = 4096
_INTERVAL_KEY: Final = "index.interval.bytes"
_KRAFT_ONLY: Final = 4
_GLANCED_BYTES_MAX: Final = 256 << 20
GLANCED_FILE_BYTES_MAX: Final = 16 << 20
_NOT_SERVED: Final = (PartitionFate.STRAY, PartitionFate.DELETED)


@dataclass(frozen=True, slots=True)
class Node:
    """The broker that is to start.

    Attributes:
        release: its Kafka.
        node_id: ``node.id`` or ``broker.id``; None if no configuration states it.
        metadata_dir: the log dir of the metadata log; None: the first one that has it, else the first one.
        interval_bytes: ``log.index.interval.bytes``.
        intervals: topic -> ``index.interval.bytes``, for topics that have none in the metadata log.
        cleans: ``log.cleaner.enable``.
    """

    release: Release
    node_id: int | None = None
    metadata_dir: Path | None = None
    interval_bytes: int = _INTERVAL_BYTES
    intervals: Callable[[str], int] | None = None
    cleans: bool = True


def predict_start(log_dirs: Sequence[Path], node: Node) -> Start:
    """Return what a start of a broker does with its log dirs. Nothing is changed, and no lock is taken.

    Raises: UnreadableFile where the rules need what may not be read.
    """
    befores, start = _predicted(log_dirs, node)
    pairs = zip(befores, start.log_dirs, strict=True)
    return start._replace(log_dirs=tuple(_with_missing(before, log_dir) for before, log_dir in pairs))


def start_verdict(log_dirs: Sequence[Path], node: Node, *, reads_all: bool = False) -> StartVerdict:
    """Return in a sentence what a start of a broker does with its log dirs.

    Args:
        log_dirs: of the broker.
        node: the broker.
        reads_all: whether all segments that the start recovers are read. If not, small segments are read, and the ends
            of large ones.
    """
    budget = None if reads_all else ReadingBudget(_GLANCED_BYTES_MAX, GLANCED_FILE_BYTES_MAX)
    try:
        _, start = _predicted(log_dirs, node, budget, is_all=False)
    except (LogCleanerError, OSError) as error:
        text = f"Nobody can say whether Kafka {node.release} will start: {error}."
        return StartVerdict(str(node.release), None, text)
    if start.is_stopped_by_locks_alone:
        return StartVerdict(str(node.release), None, f"No start is predicted: {start.refusals[0].failure.cause}.")
    full = full_disks(start, node.interval_bytes)
    return verdict_of(start, full, budget.unread_bytes if budget else 0)


def _predicted(
    log_dirs: Sequence[Path], node: Node, budget: ReadingBudget | None = None, *, is_all: bool = True
) -> tuple[list[LogDirBefore], Start]:
    """Return the facts, and what a start does.

    Args:
        log_dirs: of the broker.
        node: the broker.
        budget: bounds what is read whole; None for no bound.
        is_all: whether the broker has no other log dirs. If it has, the metadata log may lie in another log dir.

    Raises: as ``predict_start``.
    """
    metadata_dir = node.metadata_dir or next((p for p in log_dirs if (p / METADATA_DIR).is_dir()), log_dirs[0])
    user = _user_of(dict.fromkeys((metadata_dir, *log_dirs)))
    identities = [read_identity_as(user, path) for path in dict.fromkeys((*log_dirs, metadata_dir))]
    around = StartSurroundings(
        node.release, check_identities(identities, node.node_id, str(metadata_dir)), str(metadata_dir), None, None
    )
    placements: Placements | None = None
    if has_quorum := _has_quorum(node.release, identities, metadata_dir):
        metadata = load_metadata(read_metadata(metadata_dir, user, node.release), str(metadata_dir))
        placements = read_placements(metadata_dir / METADATA_DIR, metadata)
        metadata = with_features(metadata, placements.features, str(metadata_dir / METADATA_DIR), node.release)
        node_id = _node_id(node, identities)
        around = around._replace(metadata=metadata)
        is_known = is_all or (metadata_dir / METADATA_DIR).is_dir()
        if node_id is not None and metadata.refusal is None and is_known:
            replicas = Replicas(node_id, placements.brokers, placements.names, placements.directories)
            around = around._replace(replicas=replicas)
    else:
        around = around._replace(identities=_of_zookeeper(identities, node))

    def interval(topic_partition: TopicPartition) -> int:
        text = placements.configs.get((topic_partition.topic, _INTERVAL_KEY)) if placements else None
        if text and text.isdigit():
            return int(text)
        return node.intervals(topic_partition.topic) if node.intervals else node.interval_bytes

    befores = [
        read_log_dir(
            path, user, interval, node.release, cleans=node.cleans, makes_missing=not has_quorum, budget=budget
        )
        for path in log_dirs
    ]
    return befores, predict(befores, around)._replace(user=StartUser(user.uid, user.gid, _name_of(user)))


def _with_missing(before: LogDirBefore, log_dir: LogDirStart) -> LogDirStart:
    """Add what its partitions lack already. A partition that the start sets aside or deletes is not looked at."""
    partitions = [
        log.topic_partition
        for log in log_dir.logs
        if log.fate not in _NOT_SERVED and log.name == str(log.topic_partition) and log.name != METADATA_DIR
    ]
    found = missing_records(Path(log_dir.path), partitions, is_live=before.locked_by is not None)
    return log_dir._replace(missing=tuple(found))


def _user_of(log_dirs: Iterable[Path]) -> User:
    """Return the first owner of a log dir who is not root: the broker is taken to run as that user."""
    for path in log_dirs:
        with suppress(OSError):  # one that is missing: the broker makes it, or cannot start
            status = path.stat()
            if status.st_uid:
                return User(status.st_uid, status.st_gid)
    return User(0, 0)


def _name_of(user: User) -> str | None:
    with suppress(KeyError):
        return pwd.getpwuid(user.uid).pw_name
    return None


def _has_quorum(release: Release, identities: Sequence[IdentityBefore], metadata_dir: Path) -> bool:
    """Return whether the broker is a KRaft node: since 4.0 always, before that if a log dir was formatted for it."""
    if release.major >= _KRAFT_ONLY:
        return True
    if release.major < 3:
        return False
    is_formatted = any((one.properties or {}).get("version") == "1" for one in identities)
    return is_formatted or (metadata_dir / METADATA_DIR).is_dir()


def _node_id(node: Node, identities: Sequence[IdentityBefore]) -> int | None:
    """Return the id of the node; None if neither the configuration nor a ``meta.properties`` states it."""
    if node.node_id is not None:
        return node.node_id
    for identity in identities:
        for key in ("node.id", "broker.id"):
            text = (identity.properties or {}).get(key, "")
            if text.lstrip("-").isdigit():
                return int(text)
    return None


def _of_zookeeper(identities: Sequence[IdentityBefore], node: Node) -> Identities:
    return check_zookeeper_identities(identities, node.node_id)


def read_placements(directory: Path, metadata: MetadataStart) -> Placements:
    """Read which broker hosts which partition, from the metadata log as it will be cut."""
    placements = Placements()
    from_offset = 0
    if metadata.snapshot:
        from_offset = int(metadata.snapshot.partition("-")[0])
        _take(placements, directory / metadata.snapshot, None, 0)
    for name, valid_bytes in metadata.valid_bytes:
        if (directory / name).exists():
            _take(placements, directory / name, valid_bytes, from_offset)
    return placements


def _take(placements: Placements, path: Path, end: int | None, from_offset: int) -> None:
    with reading(path) as descriptor:
        log = LogBytes(descriptor)
        try:
            for found in walk(log, 0, end):
                if found.is_control or found.last_offset < from_offset:
                    continue
                batch = parse_batch(log.at(found.position, found.size_bytes), path, found.position)
                if isinstance(batch, Batch):
                    _take_records(placements, batch, from_offset)
        except (CorruptRecord, CorruptBatch):
            return


def _take_records(placements: Placements, batch: Batch, from_offset: int) -> None:
    for record in batch.records():
        if record.offset >= from_offset and record.value:
            try:
                placements.take(record.value)
            except InvalidRecord:
                continue
