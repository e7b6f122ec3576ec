"""The account of a log dir: what each kind of file in it takes. The amounts add up to what ``du`` prints.

Each amount has two sizes. The apparent size is what ``ls`` shows. The disk size is what the blocks take: less for
sparse files (a broker preallocates the index files of an active segment) and compressed ones, more for small ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from policies.rescue import Volume
from storage.names import TopicPartition


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
    largest: tuple[UnlinkedFile, ...] = ()
    """The largest by disk size first."""
    hidden_processes: int | None = None
    """The number of processes that this user may not look into; None if /proc cannot be read."""


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


OTHERS_MAX = 10


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
