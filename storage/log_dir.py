"""LogDir: one directory of ``log.dirs``: its lock, its checkpoints, the partitions found in it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from storage.checkpoints import (
    CorruptCheckpoint,
    HoldId,
    format_hold_ids,
    format_offset_checkpoint,
    parse_hold_ids,
    parse_offset_checkpoint,
)
from storage.directory import DirectoryEntry, entries, names_of, opened, read_whole, status_of
from storage.errors import BE_THE_OWNER, ErrorKind, LogCleanerError, NotALogDir, UnreadableFile, as_unreadable
from storage.filesystem import FileSystem, Purpose, UnsafeOwner, check_owner
from storage.lock import LogDirLock, LogDirReadLock, UnreliableLock, holder_of, shared_type
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    HOLD_IDS_FILE,
    HOLDS_FILE,
    INCOMPLETE_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    MANIFEST_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    DirState,
    TopicPartition,
    parse_partition_dir_name,
    parse_segment_file_name,
    parse_topic_partition,
)
from storage.stores.paths import StoredPath

Offsets = Mapping[TopicPartition, int]
TopicIds = Mapping[TopicPartition, str]

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
OFFSET_CHECKPOINTS: Final = (
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_MARKS_OF_A_LOG_DIR: Final = META_PROPERTIES_FILE, *OFFSET_CHECKPOINTS
_ENDLESS_BYTES: Final = 1 << 62
_IN_AN_EMPTY_FILE_SYSTEM: Final = frozenset({"lost+found"})


class IsAPartitionDir(NotALogDir):
    """The directory of one partition, named where a log dir is wanted."""

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; use its parent, {self.path.parent}, with --topic {self.path.name}"


class LogDirNotThere(NotALogDir):
    """A log directory that a later try may find: it is missing, or an empty mount point."""

    kind = ErrorKind.NOT_YET

    def __str__(self) -> str:
        remedy = "copy a log dir there" if isinstance(self.path, StoredPath) else "mount it"
        return f"{self.path}: {self.cause}; {remedy}, or name the directory that log.dirs of the broker names"


class ForbiddenLogDir(UnreadableFile):
    """A log directory that this user may not read, because of its permissions or those of a directory above it."""

    shut: Path
    uid: int
    gid: int

    def __str__(self) -> str:
        who = "" if self.shut == self.path else f"{self.shut} "
        return f"{self.path}: {who}belongs to uid {self.uid} gid {self.gid}, who let no other user in; {BE_THE_OWNER}"


class CorruptHolds(CorruptCheckpoint):
    """A list of partitions on hold that does not parse: nothing tells which files may be deleted."""

    remedy = "nothing is touched until it is mended, or removed to give up every hold"


class CorruptHoldIds(CorruptCheckpoint):
    """A list of the topic ids of holds that does not parse: nothing tells which holds have lapsed."""

    remedy = "nothing is touched until it is mended, or removed: then a hold counts for every topic of its name"


class Checkpoints(NamedTuple):
    """The three checkpoint files that decisions read, whether the broker stopped cleanly, and the holds."""

    high_watermarks: Offsets
    log_starts: Offsets
    cleaned: Offsets
    clean_shutdown: bool
    holds: Offsets
    """Our own: the time, epoch ms, since which a partition is on hold after a restore."""
    hold_ids: TopicIds
    """The topics that holds belong to, as far as that is known."""


class Space(NamedTuple):
    """The space of a file system, in bytes. Free is what an ordinary user can still take."""

    device: int
    size_bytes: int
    free_bytes: int
    used_bytes: int
    """The bytes that files take. The rest of the bytes that are not free is kept for root."""


_EXT4_OWN_BLOCKS_MAX: Final = 4096
INCOMPLETE_LOG_DIR: Final = "an incomplete log dir: a copy or a write of Spark was interrupted, or is still under way"


class IncompleteCopy(LogCleanerError):
    """A log dir without a manifest, marked by the run that makes it: a copy, or a write of Spark."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: {INCOMPLETE_LOG_DIR}; if nothing writes it any more, remove it and make it anew"


@dataclass(frozen=True, slots=True)
class LogDir:
    """A directory that a broker names in ``log.dirs``."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> LogDir:
        """Check that ``path`` is a log dir: a Kafka file or a partition directory lies in it.

        Raises: LogDirNotThere if it may be a log dir later, NotALogDir, ForbiddenLogDir, UnreadableFile;
            IncompleteCopy.
        """
        try:
            names = set(_names_in(path))
        except FileNotFoundError as error:
            raise LogDirNotThere(path, "does not exist") from error
        except NotADirectoryError as error:
            raise NotALogDir(path, "is not a directory") from error
        except PermissionError as error:
            raise forbidden(path, error) from error
        except OSError as error:
            raise UnreadableFile(path, error.strerror or str(error)) from error
        found = cls(path.resolve())
        if INCOMPLETE_FILE in names and MANIFEST_FILE not in names:
            raise IncompleteCopy(path)
        if names.isdisjoint(_MARKS_OF_A_LOG_DIR) and next(found.partitions(), None) is None:
            if parse_topic_partition(found.path.name) and any(map(parse_segment_file_name, names)):
                raise IsAPartitionDir(found.path, "is a partition directory")
            if names <= _IN_AN_EMPTY_FILE_SYSTEM:
                raise LogDirNotThere(path, "is empty")
            raise NotALogDir(path, "holds no Kafka file and no partition directory")
        return found

    def lock(self, fs: FileSystem, *, forced: bool = False) -> LogDirLock:
        """Exclude the broker and other cleaners.

        Args:
            fs: the disk.
            forced: take the lock also where it may exclude nobody.

        Raises: LogDirLocked, UnreliableLock, UnsafeOwner, UnreadableFile, OutOfSpace.
        """
        check_owner(self.path)
        if not forced and (shared := shared_type(self.path)):
            raise UnreliableLock(self.path, f"lies on {shared}, which other machines may share")
        return LogDirLock.acquire(self.path, fs, forced=forced)

    def refusal(self) -> str | None:
        """Return why this process may not change the directory, apart from its lock; None if it may."""
        if isinstance(self.path, StoredPath):
            return f"{self.path} lies in a store, which is read only"
        try:
            check_owner(self.path)
            if os.statvfs(self.path).f_flag & os.ST_RDONLY:
                return f"{self.path} is mounted read-only"
            if not os.access(self.path, os.W_OK | os.X_OK, effective_ids=True):
                return f"{self.path}: this user may not write to it"
        except (UnsafeOwner, UnreadableFile) as error:
            return str(error)
        except OSError as error:
            return f"{self.path}: {error.strerror}"
        return None

    def lock_to_read(self, fs: FileSystem) -> LogDirReadLock:
        """Keep brokers and cleaners out while the log dir is read, as far as a lock can be taken.

        A finished copy gets no ``.lock`` that it does not have: its manifest counts only until somebody worked there.

        Raises: LogDirLocked, UnreadableFile.
        """
        return LogDirReadLock.acquire(self.path, fs, may_make=not (self.path / MANIFEST_FILE).exists())

    def locked_by(self) -> str | None:
        """Return in words who holds the lock; None if nobody does."""
        return holder_of(self.path)

    def partitions(
        self, wants: Callable[[TopicPartition], bool] = lambda _: True
    ) -> Iterator[tuple[TopicPartition, Path]]:
        """Yield the live partition directories but that of the metadata log, as far as they are wanted.

        Raises: UnreadableFile.
        """
        return self._partitions_that(lambda entry: entry.is_dir(follow_symlinks=False), wants)

    def symlinked_partitions(self) -> Iterator[tuple[TopicPartition, Path]]:
        """Yield the symlinks with names of live partitions: they are not followed. Raises: UnreadableFile."""
        return self._partitions_that(lambda entry: entry.is_symlink())

    def _partitions_that(
        self, fits: Callable[[DirectoryEntry], bool], wants: Callable[[TopicPartition], bool] = lambda _: True
    ) -> Iterator[tuple[TopicPartition, Path]]:
        with as_unreadable(self.path), entries(self.path) as listed:
            found = [entry.name for entry in listed if fits(entry)]
        for name in sorted(found):
            parsed = parse_partition_dir_name(name)
            if parsed is None or parsed.state is not DirState.LIVE or not wants(parsed.topic_partition):
                continue
            if parsed.topic_partition.topic != CLUSTER_METADATA_TOPIC:
                yield parsed.topic_partition, self.path / name

    def newest_change_ms(self) -> int | None:
        """Return when a broker or a cleaner last changed a checkpoint or a name in a partition directory, epoch ms.

        None for a dir without either. Raises: UnreadableFile.
        """
        paths = (*(self.path / name for name in _MARKS_OF_A_LOG_DIR), *(path for _, path in self.partitions()))
        times_ms = []
        for path in paths:
            with as_unreadable(path), suppress(FileNotFoundError):  # beside a live broker
                times_ms.append(status_of(path).st_mtime_ns // 1_000_000)
        return max(times_ms, default=None)

    def checkpoints(self) -> Checkpoints:
        """Read the checkpoint files; an absent one is empty. Raises: CorruptCheckpoint, UnreadableFile."""
        holds = self.holds()
        return Checkpoints(
            self.offsets(HIGH_WATERMARK_CHECKPOINT),
            self.offsets(LOG_START_OFFSET_CHECKPOINT),
            self.offsets(CLEANER_OFFSET_CHECKPOINT),
            (self.path / CLEAN_SHUTDOWN_FILE).exists(),
            holds,
            self.hold_ids(holds),
        )

    def offsets(self, name: str) -> Offsets:
        """Read one offset checkpoint file. Raises: CorruptCheckpoint, UnreadableFile."""
        path = self.path / name
        data = read_file(path)
        return parse_offset_checkpoint(data, path) if data is not None else {}

    def write_offsets(self, name: str, offsets: Offsets, fs: FileSystem) -> None:
        """Replace one offset checkpoint file; does nothing where it says the same already. Raises: OutOfSpace."""
        if offsets != self.offsets(name):
            fs.replace_file(self.path / name, format_offset_checkpoint(offsets), Purpose.CHECKPOINT)

    def forget(self, names: Collection[TopicPartition], fs: FileSystem) -> None:
        """Remove the lines of partitions that are to appear: they are of earlier ones, which somebody removed by hand.

        A broker that starts deletes a log that ends below its line of the log starts.

        Raises: CorruptCheckpoint, UnreadableFile; OutOfSpace.
        """
        for name in OFFSET_CHECKPOINTS:
            kept = {key: offset for key, offset in self.offsets(name).items() if key not in names}
            self.write_offsets(name, kept, fs)

    def holds(self) -> Offsets:
        """Read which partitions are on hold, and since when (epoch ms), from a file of ours that a broker ignores.

        Raises: CorruptHolds, UnreadableFile.
        """
        try:
            holds = self.offsets(HOLDS_FILE)
        except CorruptCheckpoint as error:
            raise CorruptHolds(error.path, error.line, error.cause) from error
        path = self.path / HOLDS_FILE
        if not holds and path.exists():  # a broker's checkpoint may be empty; this one is never written so
            raise CorruptHolds(path, 0, "names no partition: it was cut short")
        return holds

    def hold_ids(self, holds: Offsets) -> TopicIds:
        """Return the topic id of each hold that has one: a file of ours, beside the one that older versions read.

        An id counts only for its own hold: of the same partition and the same time.

        Raises: CorruptHoldIds, UnreadableFile.
        """
        noted = self._noted_hold_ids()
        return {tp: noted[tp].topic_id for tp, ms in holds.items() if tp in noted and noted[tp].since_ms == ms}

    def write_holds(self, holds: Offsets, fs: FileSystem, ids: TopicIds | None = None) -> None:
        """Replace the holds and the topic ids that they belong to; without any there is no file.

        The id of a new hold is written before the hold, and a hold is removed before its id: at whatever step a crash
        stops this, no hold has the id of another one.

        Args:
            holds: since when, epoch ms, which partitions are on hold.
            fs: the disk.
            ids: topic ids of the partitions on hold, as far as they are known.

        Raises: CorruptHoldIds, UnreadableFile; OutOfSpace.
        """
        noted = {tp: HoldId(holds[tp], topic_id) for tp, topic_id in (ids or {}).items() if tp in holds}
        self._write_hold_ids({**self._noted_hold_ids(), **noted}, fs)
        if holds:
            self.write_offsets(HOLDS_FILE, holds, fs)
        else:
            self._remove(HOLDS_FILE, fs)
        self._write_hold_ids(noted, fs)

    def _noted_hold_ids(self) -> Mapping[TopicPartition, HoldId]:
        path = self.path / HOLD_IDS_FILE
        data = read_file(path)
        try:
            return parse_hold_ids(data, path) if data is not None else {}
        except CorruptCheckpoint as error:
            raise CorruptHoldIds(error.path, error.line, error.cause) from error

    def _write_hold_ids(self, noted: Mapping[TopicPartition, HoldId], fs: FileSystem) -> None:
        if noted == self._noted_hold_ids():
            return
        if noted:
            fs.replace_file(self.path / HOLD_IDS_FILE, format_hold_ids(noted), Purpose.CHECKPOINT)
        else:
            self._remove(HOLD_IDS_FILE, fs)

    def _remove(self, name: str, fs: FileSystem) -> None:
        fs.unlink(self.path / name, Purpose.CHECKPOINT)
        fs.fsync_dir(self.path, Purpose.CHECKPOINT)

    def space(self) -> Space:
        """Measure the space of the file system of this directory. A store tells no end of its space.

        Raises: UnreadableFile.
        """
        if isinstance(self.path, StoredPath):
            return Space(0, _ENDLESS_BYTES, _ENDLESS_BYTES, 0)
        with as_unreadable(self.path):
            status, device = os.statvfs(self.path), self.path.stat().st_dev
        block_bytes = status.f_frsize
        blocks, used_blocks = status.f_blocks, status.f_blocks - status.f_bfree
        return Space(device, blocks * block_bytes, status.f_bavail * block_bytes, used_blocks * block_bytes)

    def sync_file_system(self) -> None:
        """Write out all that the file system holds back; some file systems free the space of unlinked files only then.
        Raises: OSError.
        """
        with opened(self.path) as descriptor:
            if _LIBC.syncfs(descriptor):
                raise OSError(ctypes.get_errno(), "syncfs", str(self.path))


def _names_in(path: Path) -> list[str]:
    """Return the names in a directory that may be a log dir; the path may be a symlink. Raises: OSError, as of
    a store.
    """
    if isinstance(path, StoredPath):
        return names_of(path)
    names = os.listdir(path)  # noqa: PTH208 - its error says what is in the way
    os.stat(f"{path}/.")  # noqa: PTH116 - whether names in it may be looked up; a Path has no /.
    return names


def forbidden(path: Path, error: OSError) -> UnreadableFile:
    """Return the error for a log dir that this user may not enter, with the directory that forbids it."""
    for shut in (path, *path.parents):
        with suppress(OSError):
            status = shut.stat()
            return ForbiddenLogDir(path, "Permission denied", shut, status.st_uid, status.st_gid)
    return UnreadableFile(path, error.strerror or str(error))


def writable_bytes(directory: Path) -> int:
    """Return the space that this user can still take; root may take what is kept for root.

    Not even root gets what ext4 keeps for itself: a fiftieth, but at most 4,096 clusters. The fortieth here allows for
    blocks that ``f_blocks`` leaves out.

    Source: Linux ext4_set_resv_clusters, ext4_has_free_clusters. Raises: UnreadableFile.
    """
    if isinstance(directory, StoredPath):
        return _ENDLESS_BYTES
    with as_unreadable(directory):
        space = os.statvfs(directory)
    blocks = space.f_bavail
    if os.geteuid() == 0:
        blocks = max(blocks, space.f_bfree - min(space.f_blocks // 40, _EXT4_OWN_BLOCKS_MAX))
    return blocks * space.f_frsize


def read_file(path: Path) -> bytes | None:
    """Read a small file; None if it is absent. Raises: UnreadableFile, also if it is no plain file."""
    with as_unreadable(path), suppress(FileNotFoundError):
        return read_whole(path)
    return None
