"""Makes accounts: of partition directories from the listings of an inventory, of everything else by a walk.

The rules are those of ``du``: entries are not followed, directories count themselves, a file with several hard links
counts once in a log dir (where it is met first), what cannot be read counts as far as it could be looked at.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cleaner.engine.inventory import is_named
from cleaner.engine.leftovers import leftovers_of
from cleaner.engine.repair.kept import is_kept_other
from cleaner.engine.space.account import (
    NOTHING,
    Account,
    Amount,
    DirectoryAccount,
    OtherEntry,
    PartitionSpace,
    Removal,
    SpaceKind,
    largest,
)
from policies.plan import LogDirPlan, Plan
from storage.directory import opened, status_of
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
    parse_partition_dir_name,
)
from storage.segment import BLOCK_BYTES, SegmentFile

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
_OF_A_BROKER: Final = frozenset({
    LOCK_FILE, CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE,
    "bootstrap.checkpoint",
})  # fmt: skip
_BEING_WRITTEN: Final = ".tmp"
_OURS: Final = (SCRATCH_SUFFIX, MANIFEST_FILE, INCOMPLETE_FILE)

Inodes = set[tuple[int, int]]
"""Device and inode of files with several hard links that were counted."""


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
        path = Path(planned.facts.path)
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


def account_of(directory: Path, listing: Listing | None = None, counted: Inodes | None = None) -> DirectoryAccount:
    """Return the account of one partition directory.

    Args:
        directory: of the partition.
        listing: of the directory, just made; without it the directory is listed.
        counted: files with several hard links that count no more; those of this directory are added.
    """
    tally = _Tally(directory.parent, set() if counted is None else counted)
    tally.add_directory(directory)
    try:
        found = listing or list_partition(directory)
        tally.add_files(found.files)
        with opened(directory) as descriptor:
            for name in found.others:
                with suppress(FileNotFoundError):
                    tally.add_entry(directory / name, os.stat(name, dir_fd=descriptor, follow_symlinks=False))
    except (UnreadableFile, OSError) as error:
        tally.cannot_read(directory, error)
    return tally.account()


def space_of(planned: LogDirPlan, topic_partition: TopicPartition) -> PartitionSpace:
    """Return what the directory of one partition of a plan takes."""
    removals = removals_of(planned).get(topic_partition, ())
    return PartitionSpace(account_of(Path(planned.facts.path) / str(topic_partition)), removals)


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


def _is_live(name: PartitionDirName) -> bool:
    return name.state is DirState.LIVE and name.topic_partition.topic != CLUSTER_METADATA_TOPIC


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
        """Count one file or directory. Return what it adds."""
        is_directory = stat.S_ISDIR(status.st_mode)
        if status.st_nlink > 1 and not is_directory and self._was_counted(status.st_dev, status.st_ino):
            return NOTHING
        amount = Amount(1, status.st_size, status.st_blocks * BLOCK_BYTES)
        self._sums[kind] = self._sums.get(kind, NOTHING) + amount
        return amount

    def add_directory(self, path: Path) -> None:
        """Count a directory itself, unless it is gone."""
        try:
            self.add(SpaceKind.DIRECTORIES, path.lstat())
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
            with opened(directory) as descriptor, os.scandir(descriptor) as entries:
                for entry in entries:
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
