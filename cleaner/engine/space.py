"""The space that log dirs take, added up as ``du`` does; what a run does to it; and files that no name keeps.

Only directories and /proc are read; nothing is changed.

Nouns: an *account* says what each kind of file takes, in a log dir or a partition directory; an *amount* is a number of
files with their sizes; *unlinked* files have no name any more, but a process keeps them open, and so their blocks.

The amounts of a log dir add up to what ``du`` prints. Partition directories are counted from the listings of an
inventory, everything else by a walk, by the rules of ``du``: entries are not followed, directories count themselves, a
file with several hard links counts once in a log dir (where it is met first), what cannot be read counts as far as it
could be looked at.

Each amount has two sizes. The apparent size is what ``ls`` shows. The disk size is what the blocks take: less for
sparse files (a broker preallocates an index file of an active segment as a hole of 10 MiB) and compressed ones, more
for small ones. What a run gives back to a disk are blocks, and none while another hard link keeps them.

A broker keeps a ``.log`` open, and its index files mapped, that somebody removed by hand. No directory names them, and
``du`` does not see them, but they take space until the broker closes them, at the latest when it ends. The kernel tells
of open files in ``/proc/PID/fd``, and of mapped ones, to root alone, in ``/proc/PID/map_files``.

Source: proc(5).
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.leftovers import leftovers_of
from cleaner.engine.repair.kept import is_kept_other
from policies.plan import LogDirPlan, Plan
from policies.rescue import Volume
from storage.directory import entries, opened_as_parent, status_of
from storage.errors import UnreadableFile
from storage.log.listing import Listing, list_partition
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    INCOMPLETE_FILE,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    MANIFEST_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    SCRATCH_SUFFIX,
    DirState,
    FileKind,
    FileState,
    PartitionDirName,
    TopicPartition,
    is_named,
    parse_partition_dir_name,
)
from storage.segment import BLOCK_BYTES, Segment, SegmentFile
from storage.stores.paths import path_of_text

OTHERS_MAX = 10
_OF_A_BROKER: Final = frozenset({
    LOCK_FILE, CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE,
    "bootstrap.checkpoint",
})  # fmt: skip
_BEING_WRITTEN: Final = ".tmp"
_OURS: Final = (SCRATCH_SUFFIX, MANIFEST_FILE, INCOMPLETE_FILE)
Inodes = set[tuple[int, int]]
"""Device and inode of files with several hard links that were counted."""

PROC: Final = Path("/proc")
LARGEST_MAX: Final = 10
_MARK: Final = " (deleted)"
"""The words that the kernel adds to the last path of an unlinked file. A file that still has a name may end so, too."""
Inode = tuple[int, int]


class SpaceKind(StrEnum):
    """The kinds of files in a log dir. Each file is of one kind; the values are keys of JSON documents."""

    SEGMENTS = "segments"
    """``.log`` files of partitions."""
    INDEXES = "indexes"
    """``.index``, ``.timeindex`` and ``.txnindex`` files."""
    SNAPSHOTS = "snapshots"
    """Producer snapshots."""
    DELETED = "deleted"
    """Files renamed to ``.deleted``, which wait for their delay."""
    CLEANED = "cleaned"
    """``.cleaned``: the unfinished output of a compaction."""
    SWAP = "swap"
    """``.swap``: the finished output of a compaction, before it takes the place of its sources."""
    DELETE_DIRS = "delete_dirs"
    """Files in ``-delete`` directories: of topics that were deleted."""
    STRAY_DIRS = "stray_dirs"
    """Files in ``-stray`` directories: of replicas that the broker no longer has."""
    FUTURE_DIRS = "future_dirs"
    """Files in ``-future`` directories: of replicas that move between log dirs."""
    CLUSTER_METADATA = "cluster_metadata"
    """Files of the KRaft metadata log, ``__cluster_metadata-0``."""
    METADATA = "metadata"
    """Checkpoints, ``meta.properties``, ``partition.metadata``, the lock: the small files of a broker."""
    LOGCLEANER = "logcleaner"
    """Our own files: the journal, holds, a manifest, unfinished output of ours."""
    DIRECTORIES = "directories"
    """The directories themselves, all of them."""
    OTHERS = "others"
    """Everything else."""


_OF_STATE: Final = {
    FileState.DELETED: SpaceKind.DELETED,
    FileState.CLEANED: SpaceKind.CLEANED,
    FileState.SWAP: SpaceKind.SWAP,
}
_OF_KIND: Final = {FileKind.LOG: SpaceKind.SEGMENTS, FileKind.SNAPSHOT: SpaceKind.SNAPSHOTS}
_OF_SEGMENT_FILE: Final = {
    (kind, state): _OF_STATE.get(state) or _OF_KIND.get(kind, SpaceKind.INDEXES)
    for kind in FileKind
    for state in FileState
}
_OF_DIR: Final = {
    DirState.DELETE: SpaceKind.DELETE_DIRS,
    DirState.FUTURE: SpaceKind.FUTURE_DIRS,
    DirState.STRAY: SpaceKind.STRAY_DIRS,
    DirState.LIVE: SpaceKind.CLUSTER_METADATA,
}


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of files with the sum of their two sizes. A file with several names (hard links) is counted once."""

    files: int = 0
    apparent_bytes: int = 0
    disk_bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.files + other.files,
            self.apparent_bytes + other.apparent_bytes,
            self.disk_bytes + other.disk_bytes,
        )


NOTHING = Amount()
Amounts = Mapping[SpaceKind, Amount]


class OtherEntry(NamedTuple):
    """A file of the kind ``OTHERS``, or a directory of such files, by its path from the log dir."""

    name: str
    amount: Amount


class Removal(NamedTuple):
    """The removal of ``.deleted`` files: the moment from which they may go, epoch ms, and their amount."""

    due_ms: int
    amount: Amount


@dataclass(frozen=True, slots=True)
class DirectoryAccount:
    """The account of one directory, with all that lies in it and the directory itself."""

    amounts: Amounts
    """The amounts of the kinds that occur."""
    others: tuple[OtherEntry, ...] = ()
    """The largest entries of the kind ``OTHERS``, the largest first."""
    unread: tuple[str, ...] = ()
    """Directories that cannot be read, with the cause. Like ``du``, the account does not count their contents."""

    @property
    def total(self) -> Amount:
        """The sum of all kinds."""
        return sum(self.amounts.values(), NOTHING)


class PartitionSpace(NamedTuple):
    """The account of one partition directory, and when logcleaner may unlink its ``.deleted`` files, ascending."""

    account: DirectoryAccount
    removals: tuple[Removal, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one log dir, or of the topics in it that were asked for."""

    path: str
    partitions: Mapping[TopicPartition, DirectoryAccount]
    """The accounts of the live partition directories."""
    rest: DirectoryAccount
    """The account of everything outside live partition directories."""
    removals: Mapping[TopicPartition, tuple[Removal, ...]] = field(default_factory=dict)
    """When logcleaner may unlink ``.deleted`` files, ascending. Partitions that it leaves alone are missing."""
    is_whole: bool = True
    """False if only the directories of some topics were asked for."""

    @property
    def amounts(self) -> Amounts:
        """The sum of each kind."""
        return added_up(account.amounts for account in (*self.partitions.values(), self.rest))

    @property
    def total(self) -> Amount:
        """The sum of all kinds: the figure that ``du`` prints."""
        return sum(self.amounts.values(), NOTHING)

    @property
    def others(self) -> tuple[OtherEntry, ...]:
        """The largest entries of the kind ``OTHERS``, the largest first."""
        found = [other for account in (*self.partitions.values(), self.rest) for other in account.others]
        return largest(found)

    @property
    def unread(self) -> tuple[str, ...]:
        """The files and directories that could not be read, each with the cause."""
        return tuple(cause for account in (*self.partitions.values(), self.rest) for cause in account.unread)


class UnlinkedFile(NamedTuple):
    """A file that no directory names any more, and that a process has open or mapped."""

    path: str
    """The last path of the file."""
    pid: int
    command: str
    processes: int
    """The number of processes that have the file open; ``pid`` and ``command`` belong to the process with the smallest
    pid.
    """
    apparent_bytes: int
    disk_bytes: int
    unlinked_ms: int = 0
    """When it lost its last name, epoch ms: its change time."""


@dataclass(frozen=True, slots=True)
class UnlinkedFiles:
    """The unlinked, open files of one file system, as far as this user may see them."""

    total: Amount = NOTHING
    files: tuple[UnlinkedFile, ...] = ()
    """Those that take space, the largest by disk size first."""
    hidden_processes: int | None = None
    """The number of processes that this user may not look into; None if /proc cannot be read."""

    @property
    def largest(self) -> tuple[UnlinkedFile, ...]:
        """The largest ones, for a report."""
        return self.files[:LARGEST_MAX]


@dataclass(frozen=True, slots=True)
class FileSystemAccount:
    """A file system of log dirs, with the unlinked files that take space on it."""

    volume: Volume
    unlinked: UnlinkedFiles


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of all log dirs of a plan, in its order, and of their file systems."""

    log_dirs: tuple[Account, ...] = ()
    file_systems: tuple[FileSystemAccount, ...] = ()


def account_of(directory: Path, listing: Listing | None = None, counted: Inodes | None = None) -> DirectoryAccount:
    """Return the account of one partition directory.

    Args:
        directory: of the partition.
        listing: of the directory, just made; without it the directory is listed.
        counted: files with several hard links that were counted before. The function adds such files of this directory.
    """
    tally = _Tally(directory.parent, set() if counted is None else counted)
    tally.add_directory(directory)
    try:
        found = listing or list_partition(directory)
        tally.add_files(found.files)
        with opened_as_parent(directory) as parent:
            for name in found.others:
                with suppress(FileNotFoundError):
                    path = directory / name
                    tally.add_entry(path, status_of(path, parent))
    except (UnreadableFile, OSError) as error:
        tally.cannot_read(directory, error)
    return tally.account()


class Accountant:
    """Hears of each listing that an inventory makes, and makes the accounts of its log dirs in the end.

    Hand it to ``Cleaner.plan`` as ``listed``, then ask for the accounts of that plan. So each partition directory is
    listed once for both.
    """

    def __init__(self, topics: Sequence[str] = ()) -> None:
        """Cover the topics that these globs name; without a glob, cover the whole log dir."""
        self._topics = tuple(topics)
        self._counted: defaultdict[Path, Inodes] = defaultdict(set)
        self._partitions: dict[Path, DirectoryAccount] = {}

    def __call__(self, listing: Listing) -> None:
        """Add the account of a partition directory that was just listed."""
        directory = listing.directory
        self._partitions[directory] = account_of(directory, listing, self._counted[directory.parent])

    def accounts_of(self, planned: Plan) -> tuple[Account, ...]:
        """Return the account of each log dir of the plan. Partitions that nobody listed are listed now."""
        return tuple(self._account(log_dir) for log_dir in planned.log_dirs)

    def _account(self, planned: LogDirPlan) -> Account:
        path = path_of_text(planned.facts.path)
        counted = self._counted[path]
        tally, partitions = _Tally(path, counted), {}
        if not self._topics:
            tally.add_directory(path)
        for name, status in tally.entries(path):
            parsed = parse_partition_dir_name(name) if stat.S_ISDIR(status.st_mode) else None
            if self._topics and not (parsed and is_named(parsed.topic_partition, self._topics)):
                continue
            if parsed and _is_live(parsed):
                found = self._partitions.get(path / name) or account_of(path / name, counted=counted)
                partitions[parsed.topic_partition] = found
            elif parsed:
                tally.add_tree(path / name, status, _OF_DIR[parsed.state])
            else:
                tally.add_entry(path / name, status)
        return Account(str(path), partitions, tally.account(), removals_of(planned), not self._topics)


def space_of(planned: LogDirPlan, topic_partition: TopicPartition) -> PartitionSpace:
    """Return what the directory of one partition of a plan takes."""
    removals = removals_of(planned).get(topic_partition, ())
    return PartitionSpace(account_of(path_of_text(planned.facts.path) / str(topic_partition)), removals)


def removals_of(planned: LogDirPlan) -> Mapping[TopicPartition, tuple[Removal, ...]]:
    """Return when the ``.deleted`` files of each partition may go, ascending; without partitions where none may."""
    removals = {}
    for left in leftovers_of(planned, None):
        by_moment: defaultdict[int, Amount] = defaultdict(Amount)
        for file in left.waiting:
            by_moment[left.due_ms(file)] += Amount(1, file.size_bytes, file.disk_bytes)
        for path, due_ms in left.others_due_ms():
            with suppress(FileNotFoundError):
                status = status_of(path)
                by_moment[due_ms] += Amount(1, status.st_size, status.st_blocks * BLOCK_BYTES)
        if by_moment:
            moments = tuple(Removal(due_ms, by_moment[due_ms]) for due_ms in sorted(by_moment))
            removals[left.partition.facts.topic_partition] = moments
    return removals


def unlinked_files(devices: frozenset[int], proc: Path = PROC) -> Mapping[int, UnlinkedFiles]:
    """Return the unlinked files on each of some devices. A file that several processes have open counts once."""
    try:
        pids = sorted(int(name) for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208 - names alone
    except OSError:
        return dict.fromkeys(devices, UnlinkedFiles())
    found: dict[Inode, UnlinkedFile] = {}
    hidden = 0
    for pid in pids:
        try:
            opened = _of_process(proc / str(pid), devices)
        except PermissionError:
            hidden += 1
            continue
        for inode, file in opened.items():
            before = found.get(inode)
            found[inode] = before._replace(processes=before.processes + 1) if before else file
    by_device: defaultdict[int, list[UnlinkedFile]] = defaultdict(list)
    for (device, _), file in found.items():
        by_device[device].append(file)
    return {device: _summed(by_device[device], hidden) for device in devices}


def file_systems_of(volumes: Iterable[Volume], proc: Path = PROC) -> tuple[FileSystemAccount, ...]:
    """Return the file systems, each with the unlinked files on it that this user may see."""
    devices = {volume: os.stat(volume.log_dirs[0]).st_dev for volume in volumes}  # noqa: PTH116 - a path as text
    unlinked = unlinked_files(frozenset(devices.values()), proc)
    return tuple(FileSystemAccount(volume, unlinked[device]) for volume, device in devices.items())


def largest(others: Iterable[OtherEntry]) -> tuple[OtherEntry, ...]:
    """Return the largest entries by disk size, at most ``OTHERS_MAX``, the largest first."""
    return tuple(sorted(others, key=lambda other: (-other.amount.disk_bytes, other.name))[:OTHERS_MAX])


def added_up(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum for each kind, in the order of the kinds."""
    sums: dict[SpaceKind, Amount] = {}
    for each in amounts:
        for kind, amount in each.items():
            sums[kind] = sums.get(kind, NOTHING) + amount
    return {kind: sums[kind] for kind in SpaceKind if kind in sums}


class DiskFigures(NamedTuple):
    """The blocks that leave logs and that come to them, in bytes; and what compaction saves in index files."""

    left_disk_bytes: int = 0
    """The blocks of the files that left a log: those renamed to ``.deleted``, and those unlinked."""
    freed_disk_bytes: int = 0
    """The blocks of the unlinked files."""
    added_disk_bytes: int = 0
    """The blocks of the segments that compaction wrote."""
    index_saved_bytes: int = 0
    """The size of the index files that compaction read, less the size of those that it wrote."""

    @property
    def reclaimed_disk_bytes(self) -> int:
        """The space that the disk has gained, once the ``.deleted`` files are unlinked, too."""
        return self.left_disk_bytes - self.added_disk_bytes

    @property
    def waiting_disk_bytes(self) -> int:
        """The space of the files that were renamed to ``.deleted`` and still exist."""
        return self.left_disk_bytes - self.freed_disk_bytes

    def plus(self, other: DiskFigures) -> DiskFigures:
        """Return the figures of both."""
        return DiskFigures(*(one + another for one, another in zip(self, other, strict=True)))

    @classmethod
    def total(cls, found: Iterable[DiskFigures]) -> DiskFigures:
        """Add up."""
        return cls(*(sum(column) for column in zip(cls(), *found, strict=True)))

    @classmethod
    def left(cls, disk_bytes: int, *, at_once: bool) -> DiskFigures:
        """Return the figures of files that leave a log. ``at_once``: they are unlinked, and not only renamed."""
        return cls(disk_bytes, disk_bytes if at_once else 0)


NO_CHANGE: Final = DiskFigures()
"""The figures of a run that did nothing."""


def exchanged(sources: Sequence[Segment], made: Segment, *, at_once: bool) -> DiskFigures:
    """Return the figures of segments that compaction replaced by one new segment.

    Args:
        sources: the segments that compaction replaces.
        made: the segment that it wrote.
        at_once: the sources are unlinked, and not only renamed.
    """
    new = made.sizes
    return _left(sources, at_once=at_once)._replace(
        added_disk_bytes=new.disk_bytes,
        index_saved_bytes=_companions_bytes(sources) - new.companions_bytes,
    )


def expected(
    sources: Sequence[Segment], made: Mapping[FileKind, int], block_bytes: int, *, at_once: bool
) -> DiskFigures:
    """Return the same figures of a segment that nobody wrote: each file takes whole blocks.

    Args:
        sources: the segments that it would replace.
        made: kind -> the size that its file would have.
        block_bytes: of the file system.
        at_once: as above.
    """
    index_bytes = sum(size_bytes for kind, size_bytes in made.items() if kind is not FileKind.LOG)
    return _left(sources, at_once=at_once)._replace(
        added_disk_bytes=sum(-(-size_bytes // block_bytes) * block_bytes for size_bytes in made.values()),
        index_saved_bytes=_companions_bytes(sources) - index_bytes,
    )


class _Tally:
    """An account while it is added up."""

    def __init__(self, log_dir: Path, counted: Inodes) -> None:
        self._log_dir = log_dir
        self._counted = counted
        self._sums: dict[SpaceKind, Amount] = {}
        self._others: list[OtherEntry] = []
        self._unread: list[str] = []

    def account(self) -> DirectoryAccount:
        """Return what was added."""
        amounts = {kind: self._sums[kind] for kind in SpaceKind if kind in self._sums}
        return DirectoryAccount(amounts, largest(self._others), tuple(self._unread))

    def add(self, kind: SpaceKind, status: os.stat_result) -> Amount:
        """Count one file or directory. Return the amount that it adds."""
        is_directory = stat.S_ISDIR(status.st_mode)
        if status.st_nlink > 1 and not is_directory and self._was_counted(status.st_dev, status.st_ino):
            return NOTHING
        amount = Amount(1, status.st_size, status.st_blocks * BLOCK_BYTES)
        self._sums[kind] = self._sums.get(kind, NOTHING) + amount
        return amount

    def add_directory(self, path: Path) -> None:
        """Count a directory itself, unless it is gone."""
        try:
            self.add(SpaceKind.DIRECTORIES, path.stat(follow_symlinks=False))
        except OSError as error:
            self.cannot_read(path, error)

    def add_files(self, files: Iterable[SegmentFile]) -> None:
        """Count the files of a listing. There are many, so that no object is made for each file."""
        sums: dict[tuple[FileKind, FileState], list[int]] = {}
        for _, _, (_, kind, state), (device, inode, size_bytes, _), _, disk_bytes, links in files:
            if links > 1 and self._was_counted(device, inode):
                continue
            entry = sums.get((kind, state))
            if entry is None:
                entry = sums[kind, state] = [0, 0, 0]
            entry[0] += 1
            entry[1] += size_bytes
            entry[2] += disk_bytes
        for place, entry in sums.items():
            space_kind = _OF_SEGMENT_FILE[place]
            self._sums[space_kind] = self._sums.get(space_kind, NOTHING) + Amount(*entry)

    def add_entry(self, path: Path, status: os.stat_result) -> None:
        """Count an entry that is no part of a log, by its name; a directory with all that lies in it."""
        if stat.S_ISDIR(status.st_mode):
            amount = self.add_tree(path, status, SpaceKind.OTHERS)
        else:
            kind = _kind_of(path.name, status)
            amount = self.add(kind, status)
            if kind is not SpaceKind.OTHERS:
                return
        self._others.append(OtherEntry(str(path.relative_to(self._log_dir)), amount))

    def add_tree(self, top: Path, status: os.stat_result, kind: SpaceKind) -> Amount:
        """Count a directory and all that lies in it, the files as of one kind. Return what the files add."""
        self.add(SpaceKind.DIRECTORIES, status)
        files, directories = NOTHING, [top]
        while directories:
            directory = directories.pop()
            for name, found in self.entries(directory):
                if stat.S_ISDIR(found.st_mode):
                    self.add(SpaceKind.DIRECTORIES, found)
                    directories.append(directory / name)
                else:
                    files += self.add(kind, found)
        return files

    def entries(self, directory: Path) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the entries of a directory by name. What cannot be read is noted, what has vanished is left out."""
        found = []
        try:
            with entries(directory) as listed:
                for entry in listed:
                    with suppress(FileNotFoundError):
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
        except OSError as error:
            self.cannot_read(directory, error)
        yield from sorted(found)

    def cannot_read(self, path: Path, error: OSError | UnreadableFile) -> None:
        """Note what could not be read, unless it is gone."""
        if isinstance(error, UnreadableFile):
            if not error.has_vanished:
                self._unread.append(str(error))
        elif not isinstance(error, FileNotFoundError):
            self._unread.append(str(UnreadableFile(path, error.strerror or str(error))))

    def _was_counted(self, device: int, inode: int) -> bool:
        if (device, inode) in self._counted:
            return True
        self._counted.add((device, inode))
        return False


def _kind_of(name: str, status: os.stat_result) -> SpaceKind:
    if not stat.S_ISREG(status.st_mode):
        return SpaceKind.OTHERS
    if is_kept_other(name):
        return SpaceKind.DELETED
    if name.removesuffix(_BEING_WRITTEN) in _OF_A_BROKER:
        return SpaceKind.METADATA
    return SpaceKind.LOGCLEANER if name.startswith(_OURS) or name.endswith(SCRATCH_SUFFIX) else SpaceKind.OTHERS


def _is_live(name: PartitionDirName) -> bool:
    return name.state is DirState.LIVE and name.topic_partition.topic != CLUSTER_METADATA_TOPIC


def _summed(files: Sequence[UnlinkedFile], hidden_processes: int) -> UnlinkedFiles:
    total = Amount(len(files), sum(f.apparent_bytes for f in files), sum(f.disk_bytes for f in files))
    by_size = sorted((f for f in files if f.disk_bytes), key=lambda file: (-file.disk_bytes, file.pid, file.path))
    return UnlinkedFiles(total, tuple(by_size), hidden_processes)


def _of_process(process: Path, devices: frozenset[int]) -> Mapping[Inode, UnlinkedFile]:
    """Return the unlinked files of a process; none if it has ended. Raises: PermissionError."""
    found: dict[Inode, UnlinkedFile] = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        command = (process / "comm").read_text(errors="surrogateescape").removesuffix("\n")
        for link in (*_descriptors(process), *_mappings(process)):
            with suppress(OSError):  # closed since, or a mapping that only root may follow
                path = os.readlink(link)  # noqa: PTH115 - there are thousands
                if not path.endswith(_MARK):
                    continue
                status = os.stat(link)  # noqa: PTH116 - it is not the path that it shows
                if status.st_nlink == 0 and status.st_dev in devices:
                    name, disk_bytes = path.removesuffix(_MARK), status.st_blocks * BLOCK_BYTES
                    pid, unlinked_ms = int(process.name), status.st_ctime_ns // 1_000_000
                    file = UnlinkedFile(name, pid, command, 1, status.st_size, disk_bytes, unlinked_ms)
                    found.setdefault((status.st_dev, status.st_ino), file)
    return found


def _descriptors(process: Path) -> Iterator[str]:
    directory = f"{process}/fd"
    return (f"{directory}/{name}" for name in os.listdir(directory))  # noqa: PTH208 - names alone, of thousands


def _mappings(process: Path) -> Iterator[str]:
    """Yield the links of the mapped files without a name. A broker maps thousands of files: the text names them all."""
    with suppress(PermissionError):  # another security module than the one that guards the descriptors
        for line in (process / "maps").read_bytes().split(b"\n"):
            if line.endswith(_MARK.encode()):
                start, _, end = line.partition(b" ")[0].decode().partition("-")
                yield f"{process}/map_files/{int(start, 16):x}-{int(end, 16):x}"


def _left(sources: Sequence[Segment], *, at_once: bool) -> DiskFigures:
    found = (segment.sizes for segment in sources)
    return DiskFigures.left(sum(sizes.disk_bytes for sizes in found if sizes.links == 1), at_once=at_once)


def _companions_bytes(segments: Iterable[Segment]) -> int:
    return sum(segment.companions_bytes for segment in segments)
