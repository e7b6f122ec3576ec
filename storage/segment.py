"""Segment: a ``.log`` and its companions, as one listing of the partition directory found them."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import (
    DirectoryEntry,
    OpenFile,
    close,
    ensure_none_immutable,
    ensure_not_immutable,
    open_file,
    open_plain,
    opened,
    status_of,
)
from storage.errors import PlanOutOfDate, UnreadableFile, as_unreadable
from storage.indexes import TimeIndexEntry, last_time_index_entry, sealed_time_index_end
from storage.names import (
    SEGMENT_KINDS,
    FileIdentity,
    FileKind,
    FileState,
    SegmentFileName,
    parse_segment_file_name,
    segment_file_name,
)
from storage.stores.paths import StoredPath

BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks``, whatever the file system's own is."""
_IN_A_LOG: Final = (FileState.PLAIN, FileState.SWAP)
_LOGS: Final = frozenset(f"{FileKind.LOG}{state}"[1:] for state in _IN_A_LOG)
_CHANGED: Final = frozenset(f"{kind}{state}"[1:] for kind in SEGMENT_KINDS for state in _IN_A_LOG)
"""The suffixes of a segment's files, also of files to which recovery is about to give their plain name."""
_LOG: Final = FileKind.LOG
_INDEX: Final = FileKind.INDEX
_TIME_INDEX: Final = FileKind.TIME_INDEX
"""To look a member of an enum up takes as long as all else that is done for a file."""
_new: Final = tuple.__new__
"""Makes a named tuple in half the time, which counts where there are hundreds of thousands."""


class SegmentFile(NamedTuple):
    """One file of a partition directory: of a segment or a producer snapshot, in any state. Cheap: there are many."""

    directory: Path
    file_name: str
    """The name on disk. It may carry a ``.swap`` that recovery is about to take off; ``name`` is without it already."""
    name: SegmentFileName
    identity: FileIdentity
    changed_ns: int
    """``ctime``: a rename sets it, so it tells how long a ``.deleted`` file has waited."""
    disk_bytes: int = 0
    """The bytes of its blocks, fewer than its size by holes and compression; 0 in a listing that does not ask for them.
    """
    links: int = 1
    """The number of hard links; with more than one, to unlink the file frees nothing."""

    @staticmethod
    def at(directory: Path, name: SegmentFileName, suffix: str = "") -> SegmentFile:
        """Look at a file, which may carry one more suffix than its name. Raises: FileNotFoundError."""
        file_name = f"{name}{suffix}"
        return listed(directory, file_name, name, status_of(directory / file_name))

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.directory / self.file_name

    @property
    def location(self) -> str:
        """The path as text, for callers that open thousands of files: to make a Path takes longer than to read the end
        of an index.
        """
        return f"{self.directory}/{self.file_name}"

    @property
    def size_bytes(self) -> int:
        """The size of the file when it was listed."""
        return self.identity.size_bytes

    def ensure_as_listed(self) -> None:
        """Look at the file again, just before an action. Raises: PlanOutOfDate if it is another file, or has another
        size or time.
        """
        with opened(self.directory) as descriptor:
            _ensure_as_listed(self, descriptor)


class SegmentSizes(NamedTuple):
    """The sizes of a segment's files, in bytes, and the identities of the files."""

    identity: FileIdentity
    """Of the ``.log``."""
    companions_bytes: int
    companions_identity: int
    index_bytes: int
    time_index_bytes: int
    disk_bytes: int
    """The bytes of the blocks of all files."""
    links: int
    """The greatest number of hard links of a file."""


class Segment(NamedTuple):
    """The files of one base offset; a ``.log`` is always among them. Cheap: there are many."""

    directory: Path
    base_offset: int
    files: Mapping[FileKind, SegmentFile]

    @property
    def log(self) -> SegmentFile:
        """The record batches."""
        return self.files[_LOG]

    @property
    def size_bytes(self) -> int:
        """The size of the ``.log``, which Kafka calls the size of a segment."""
        return self.log.size_bytes

    @property
    def companions_bytes(self) -> int:
        """The size of the index files."""
        return self.sizes.companions_bytes

    @property
    def companions_identity(self) -> int:
        """A hash of the index files' identities: one number that changes with any of them."""
        return self.sizes.companions_identity

    @property
    def sizes(self) -> SegmentSizes:
        """All sizes in the listing, added up in one pass, because there are many segments."""
        companions: list[FileIdentity] = []
        companions_bytes = index_bytes = time_index_bytes = disk_bytes = 0
        links = 1
        for kind, (_, _, _, identity, _, file_disk_bytes, file_links) in self.files.items():
            disk_bytes += file_disk_bytes
            if file_links > links:  # noqa: PLR1730 - a call of max for each file takes as long as all the rest
                links = file_links
            if kind is _LOG:
                of_log = identity
                continue
            companions.append(identity)
            _, _, size_bytes, _ = identity
            companions_bytes += size_bytes
            if kind is _INDEX:
                index_bytes = size_bytes
            elif kind is _TIME_INDEX:
                time_index_bytes = size_bytes
        companions_identity = hash(frozenset(companions))
        return _new(
            SegmentSizes,
            (of_log, companions_bytes, companions_identity, index_bytes, time_index_bytes, disk_bytes, links),
        )

    def ensure_as_listed(self) -> None:
        """Look again at all files, just before acting. Raises: PlanOutOfDate if one is not as it was listed."""
        with opened(self.directory) as descriptor:
            for file in self.files.values():
                _ensure_as_listed(file, descriptor)

    @property
    def mtime_ms(self) -> int:
        """The file time of the ``.log``, epoch ms."""
        return self.log.identity.mtime_ms

    def bytes_of(self, kind: FileKind) -> int:
        """Return the size of one companion; 0 if it is absent."""
        file = self.files.get(kind)
        return file.size_bytes if file else 0

    def newest_record_ms(self) -> int:
        """Return the largest record timestamp by the time index; -1 if it has none. Raises: as ``newest_entry``."""
        entry = self.newest_entry()
        return entry.timestamp_ms if entry else -1

    def newest_entry(self, parent: int | None = None) -> TimeIndexEntry | None:
        """Read the last entry of the time index: the largest record timestamp, and the last offset of its batch.

        Args:
            parent: a descriptor of the segment's directory, where the caller has it open.

        Source: Kafka LogSegment.maxTimestampSoFar. Raises: CorruptIndex, UnreadableFile.
        """
        file = self.files.get(_TIME_INDEX)
        if file is None:
            return None
        if parent is not None:
            end = sealed_time_index_end(file.file_name, file.identity.size_bytes, self.base_offset, parent)
            if end is not None:
                return end
        return last_time_index_entry(file.location, self.base_offset, parent)

    def names(self, state: FileState) -> list[tuple[Path, Path]]:
        """List the renames that bring every file into ``state``, in Kafka's order: log, index, timeindex, txnindex."""
        return [
            (self.files[kind].path, self.directory / segment_file_name(self.base_offset, kind, state))
            for kind in SEGMENT_KINDS
            if kind in self.files
        ]


def ensure_changeable(directory: Path, base_offsets: Collection[int], *, and_readable: bool = False) -> None:
    """Refuse a partition of which some file cannot be renamed or removed, before anything of it is touched.

    Unlike ``list_partition``, this asks only for the names, because a directory may have a hundred thousand files.

    Args:
        directory: of the partition.
        base_offsets: of the segments that are to be renamed or removed; segments that are gone are passed over.
        and_readable: refuse also a ``.log`` that cannot be opened.

    A store is not asked: the plan for a copy of a log dir there does not depend on this.

    Raises: ImmutableFile, UnreadableFile.
    """
    if isinstance(directory, StoredPath):
        return
    with as_unreadable(directory), opened(directory) as parent:
        ensure_not_immutable(parent, directory)
        to_change: list[str] = []
        to_read: list[str] = []
        for file_name in sorted(os.listdir(parent)):  # noqa: PTH208 - a Path takes no descriptor
            base, _, suffixes = file_name.partition(".")
            if suffixes in _CHANGED and base.isdecimal() and int(base) in base_offsets:
                (to_read if and_readable and suffixes in _LOGS else to_change).append(file_name)
        ensure_none_immutable(parent, directory, to_change, to_read)


def _ensure_as_listed(file: SegmentFile, directory: int) -> None:
    try:
        found = identity_of(os.stat(file.file_name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        raise PlanOutOfDate(file.path, "it is gone") from None
    if found != file.identity:
        raise PlanOutOfDate(file.path, "another size, time or file")


def listed(directory: Path, file_name: str, name: SegmentFileName, status: os.stat_result) -> SegmentFile:
    """Return a file as ``stat`` found it."""
    identity = identity_of(status)
    disk_bytes = status.st_blocks * BLOCK_BYTES
    return _new(SegmentFile, (directory, file_name, name, identity, status.st_ctime_ns, disk_bytes, status.st_nlink))


def listed_together(directory: Path, entries: Iterable[DirectoryEntry]) -> tuple[list[SegmentFile], list[str]]:
    """Return the segment files and snapshots among the entries of a directory, and the names of all other entries.

    An entry that is no plain file is one of the others, and so is a file that a live broker has removed since.
    """
    files, others = [], []
    for entry in entries:
        file_name = entry.name
        if name := parse_segment_file_name(file_name):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                others.append(file_name)
                continue
            if stat.S_ISREG(status.st_mode):
                files.append(listed(directory, file_name, name, status))
                continue
        others.append(file_name)
    return files, others


def identity_of(status: os.stat_result) -> FileIdentity:
    """Return device, inode, size and mtime of a file."""
    return _new(FileIdentity, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


def open_to_read(path: Path | str, parent: int | None = None) -> OpenFile:
    """Open a file for reading; the caller closes it. ``parent``: see ``Segment.newest_entry``.

    Raises: UnreadableFile, also for anything but a plain file; as ``Store``.
    """
    try:
        return open_file(path, parent)[0]
    except OSError as error:
        raise UnreadableFile(Path(path), error.strerror or str(error)) from error


def open_here(path: Path) -> int:
    """Open a file of this machine for reading; the caller closes the descriptor.

    Raises: as ``open_to_read``; NotOnThisMachine.
    """
    with as_unreadable(path):
        return open_plain(path)


@contextmanager
def reading_here(path: Path) -> Iterator[int]:
    """Open a file of this machine for reading, and close it in the end. Errors as of ``open_here``."""
    descriptor = open_here(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def reading(path: Path | str, parent: int | None = None) -> AbstractContextManager[OpenFile]:
    """Open a file for reading, and close it in the end. Arguments and errors as of ``open_to_read``."""
    return _Reading(path, parent)


class _Reading:
    """Opens a file and closes it again. A generator would take as long as the system does for both."""

    __slots__ = ("_file", "_parent", "_path")

    def __init__(self, path: Path | str, parent: int | None) -> None:
        self._path, self._parent = path, parent

    def __enter__(self) -> OpenFile:
        self._file = open_to_read(self._path, self._parent)
        return self._file

    def __exit__(self, *_: object) -> None:
        close(self._file)
