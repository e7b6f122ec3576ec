"""A log dir at one moment: the states of its directories, files and checkpoints before the plan was made.

Order:      the moment is taken, then the configuration is read and the plan made, then files are read, then
            ``ensure_unchanged``.
Invariant:  if ``ensure_unchanged`` finds no change, everything that was read in between is of one moment: each entry
            was the same from the first look to the last.
Compared:   device, inode, size, mtime and ctime of files; ctime shows a write under an old mtime, and a change that was
            reverted. Device, inode and mtime of partition directories; their topic ids, since an inode number may come
            again with the next directory. The bytes of the checkpoints. In a store, version, size and time of each
            file, as they are listed anew.
Assumes:    two changes of a file within one tick of the file system's clock do not leave its size as it was.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from storage.checkpoints import parse_offset_checkpoint
from storage.directory import DirectoryEntry, entries_and_status
from storage.errors import PlanOutOfDate, UnreadableFile, as_unreadable
from storage.log.listing import Listing
from storage.log_dir import LogDir, Offsets, read_file
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    JOURNAL_FILE,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    ROTATED_JOURNAL_FILE,
    DirState,
    FileIdentity,
    FileState,
    TopicPartition,
    is_named,
    parse_partition_dir_name,
    parse_segment_file_name,
)
from storage.segment import BLOCK_BYTES, SegmentFile, identity_of
from storage.stores.paths import StoredPath, look_anew

CHECKPOINTS: Final = (
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
METADATA_DIR: Final = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
IGNORED: Final = frozenset({LOCK_FILE, JOURNAL_FILE, ROTATED_JOURNAL_FILE})
"""The files of the log dir that a copy ignores; files of partitions may have these names."""
_KAFKAS: Final = frozenset({META_PROPERTIES_FILE, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE, "quorum-state"})
_METADATA_SNAPSHOT_SUFFIX: Final = ".checkpoint"


class SourceChanged(PlanOutOfDate):
    """A source that changed since the plan was made. The copy would mix two moments, so it is not finished."""

    remedy: str = "remove what there is of it, and run again while nothing writes to the log dir"

    def __str__(self) -> str:
        return f"{self.path}: changed since the copy was planned ({self.cause}); no copy was finished: {self.remedy}"


class EntrySeen(NamedTuple):
    """The file or directory that a name led to."""

    format: int
    """File, directory, symlink, ...: as ``stat.S_IFMT`` has it."""
    identity: FileIdentity
    """The identity of a file or directory. Size and mtime of a directory are 0, because its entries do not matter here.
    """
    changed_ns: int
    """``ctime`` of a file."""
    disk_bytes: int = 0
    """The bytes that the file's blocks take."""
    links: int = 1
    """Hard links of a file."""

    @classmethod
    def of(cls, status: os.stat_result) -> EntrySeen:
        """Return the values by which a later look sees whether the entry changed."""
        if stat.S_ISREG(status.st_mode):
            disk_bytes = status.st_blocks * BLOCK_BYTES
            return cls(stat.S_IFREG, identity_of(status), status.st_ctime_ns, disk_bytes, status.st_nlink)
        return cls(stat.S_IFMT(status.st_mode), FileIdentity(status.st_dev, status.st_ino, 0, 0), 0)

    @property
    def is_file(self) -> bool:
        """Return whether the entry is a plain file."""
        return self.format == stat.S_IFREG

    @property
    def is_dir(self) -> bool:
        """Return whether the entry is a directory, and not a symlink."""
        return self.format == stat.S_IFDIR

    def change_to(self, other: EntrySeen) -> str | None:
        """Return how the entry changed, in words; None if it did not."""
        if (self.format, self.identity) != (other.format, other.identity):
            return "another directory has its name" if self.is_dir else "another size, time or file"
        return "its content, mode, owner or links changed" if self.changed_ns != other.changed_ns else None


@dataclass(frozen=True, slots=True)
class SeenDirectory:
    """The state of a directory: its own, that of its entries, and its topic id."""

    path: Path
    itself: EntrySeen
    mtime_ns: int
    entries: Mapping[str, EntrySeen]
    topic_id: bytes | None
    """The topic id in ``partition.metadata``."""

    @classmethod
    def look(cls, path: Path, ignored: Collection[str] = ()) -> SeenDirectory:
        """List a directory; names in ``ignored`` are left out. Raises: UnreadableFile."""
        with as_unreadable(path), entries_and_status(path) as (found, status):
            entries = dict(_entries(entry for entry in found if entry.name not in ignored))
        is_told = PARTITION_METADATA_FILE in entries and entries[PARTITION_METADATA_FILE].is_file
        if isinstance(path, StoredPath):
            is_told = False  # the version of that file tells as much
        topic_id = read_file(path / PARTITION_METADATA_FILE) if is_told else None
        return cls(path, EntrySeen.of(status), status.st_mtime_ns, entries, topic_id)

    def listing(self) -> Listing:
        """Return the segment files, as ``list_partition`` would have listed them at that moment."""
        files = []
        for name, entry in sorted(self.entries.items()):
            parsed = parse_segment_file_name(name)
            if parsed is not None and entry.is_file:
                files.append(SegmentFile(self.path, name, parsed, *entry[1:]))
        return Listing(self.path, tuple(files))

    def plain_files(self) -> list[str]:
        """Return the names of the plain files."""
        return sorted(name for name, entry in self.entries.items() if entry.is_file)

    def strays(self) -> list[str]:
        """Return the names of entries that are no plain files and mean nothing to Kafka: directories, symlinks, FIFOs.
        Raises: UnreadableFile for an entry with the name of a file of the log, of a topic or of the node.
        """
        strays = sorted(name for name, entry in self.entries.items() if not entry.is_file)
        for name in filter(_means_something, strays):
            raise UnreadableFile(self.path / name, "it is no plain file, and the name is one of Kafka's")
        return strays

    def ensure_unchanged(self) -> None:
        """Look again. Raises: SourceChanged, UnreadableFile."""
        found = _looked_at(self.path)
        if (cause := self.itself.change_to(found.itself)) is not None:
            raise SourceChanged(self.path, cause)
        if self.topic_id is not None and found.topic_id is not None and self.topic_id != found.topic_id:
            raise SourceChanged(self.path / PARTITION_METADATA_FILE, "another topic id")
        self.ensure_same_entries(found)
        if self.mtime_ns != found.mtime_ns:
            raise SourceChanged(self.path, "files in it were added or removed")

    def ensure_same_entries(self, found: SeenDirectory) -> None:
        """Compare the entries of two states of the directory, and nothing else. Raises: SourceChanged."""
        for name in sorted(self.entries.keys() | found.entries.keys()):
            seen, now = self.entries.get(name), found.entries.get(name)
            if seen is None or now is None:
                raise SourceChanged(self.path / name, "it was not there" if seen is None else "it is gone")
            if (cause := seen.change_to(now)) is not None:
                raise SourceChanged(self.path / name, cause)


@dataclass(frozen=True, slots=True)
class Moment:
    """A log dir as it was at one moment."""

    root: SeenDirectory
    directories: Mapping[str, SeenDirectory]
    """Partitions and the metadata log, by name."""
    checkpoints: Mapping[str, bytes]
    """The bytes of the four files, by name. A file that was missing has no entry."""
    ignored: frozenset[str] = IGNORED
    """The files of the log dir itself that do not matter."""

    @classmethod
    def of(cls, log_dir: LogDir, topics: Sequence[str], ignored: frozenset[str] = IGNORED) -> Moment:
        """Look at everything that a copy of some topics contains.

        Args:
            log_dir: under its lock, if it has one.
            topics: globs over topic or partition names; empty means all.
            ignored: the files of the log dir itself that do not matter.

        Raises: UnreadableFile; SourceChanged if a directory vanishes meanwhile.
        """
        root = SeenDirectory.look(log_dir.path, ignored)
        contents = {name: read_file(log_dir.path / name) for name in CHECKPOINTS}
        names = [name for name, entry in sorted(root.entries.items()) if _is_copied(name, entry, topics, log_dir.path)]
        directories = {name: _looked_at(log_dir.path / name) for name in names}
        known = {name: data for name, data in contents.items() if data is not None}
        return cls(root, directories, known, ignored)

    def offsets(self) -> dict[str, Offsets]:
        """Return the offsets of the checkpoints at that moment, by file name. Raises: CorruptCheckpoint."""
        return {name: parse_offset_checkpoint(data, self.root.path / name) for name, data in self.checkpoints.items()}

    def entry(self, path: Path) -> EntrySeen:
        """Return the entry that lay at a path in the log dir, or in one of ``directories``."""
        directory = self.root if path.parent == self.root.path else self.directories[path.parent.name]
        return directory.entries[path.name]

    def left_out(self, copied: Collection[str]) -> list[str]:
        """Return the names that a copy leaves out: other directories, and everything that is no plain file.

        Replica moves, topics that were deleted or not asked for, foreign directories; symlinks, FIFOs, devices.

        Args:
            copied: the names of the directories in the copy.

        Raises: as ``SeenDirectory.strays``.
        """
        names = [name for name in self.root.strays() if name not in copied]
        names += [f"{place}/{name}" for place in copied for name in self.directories[place].strays()]
        return sorted(names)

    def ensure_unchanged(self) -> None:
        """Look at everything again. Raises: SourceChanged, UnreadableFile."""
        look_anew([self.root.path])
        for name in CHECKPOINTS:
            data, now = self.checkpoints.get(name), read_file(self.root.path / name)
            if data is not None and now is not None and data != now:
                raise SourceChanged(self.root.path / name, "its offsets changed")
        self.root.ensure_same_entries(SeenDirectory.look(self.root.path, self.ignored))
        for directory in self.directories.values():
            directory.ensure_unchanged()


def _looked_at(path: Path) -> SeenDirectory:
    """List a directory that was there a moment ago. Raises: SourceChanged, UnreadableFile."""
    try:
        return SeenDirectory.look(path)
    except UnreadableFile as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise SourceChanged(path, "it is gone") from error
        raise


def _is_copied(name: str, entry: EntrySeen, topics: Sequence[str], log_dir: Path) -> bool:
    """Return whether a copy of some topics has this directory.

    Raises: UnreadableFile for a live partition that is no directory: a broker would follow a symlink.
    """
    if name == METADATA_DIR:
        return entry.is_dir
    parsed = parse_partition_dir_name(name)
    if parsed is None or parsed.state is not DirState.LIVE or entry.is_file:
        return False
    if parsed.topic_partition.topic == CLUSTER_METADATA_TOPIC or not is_named(parsed.topic_partition, topics):
        return False
    if not entry.is_dir:
        raise UnreadableFile(log_dir / name, "it is no directory, and the name is a partition's")
    return True


def _entries(found: Iterable[DirectoryEntry]) -> Iterator[tuple[str, EntrySeen]]:
    for entry in found:
        try:
            yield entry.name, EntrySeen.of(entry.stat(follow_symlinks=False))
        except FileNotFoundError:  # it vanished since the listing: the next look finds so, too
            continue


def _means_something(name: str) -> bool:
    """Return whether Kafka would read a file of this name.

    Without the file the copy would be another log, topic or node.
    """
    parsed = parse_segment_file_name(name)
    if parsed is not None:
        return parsed.state is not FileState.DELETED
    return name in _KAFKAS or name.endswith(_METADATA_SNAPSHOT_SUFFIX)
