"""One listing of a partition directory: segments, snapshots and the leftovers of an interrupted run."""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Final

from storage.directory import DirectoryEntry, entries, status_of
from storage.errors import LogCleanerError, UnreadableFile, as_unreadable
from storage.names import FileKind, FileState, segment_file_name, segment_files_among
from storage.segment import Segment, SegmentFile, listed_together

_KINDS_OF_ENTRIES: Final = {
    stat.S_IFLNK: "a symlink",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


class UnseenSegment(LogCleanerError):
    """A file of a segment, or a snapshot, that is no plain file. A broker follows a symlink, and so counts records,
    aborted transactions and timestamps that we never read."""

    path: Path
    what: str

    def __str__(self) -> str:
        is_log = self.path.suffix == FileKind.LOG or self.path.name.endswith(f"{FileKind.LOG}{FileState.SWAP}")
        unread, thing = ("its records are not read", "segment") if is_log else ("it is not read", "file")
        return (
            f"{self.path}: is {self.what}, and {unread}; the partition is left alone: "
            f"put the {thing} itself in its place, as a plain file"
        )


@dataclass(frozen=True)  # no slots: cached properties keep their answers, of hundreds of files
class Listing:
    """The segment files that one ``scandir`` of a partition directory found."""

    directory: Path
    files: tuple[SegmentFile, ...]
    others: tuple[str, ...] = ()
    """The names of all other entries, in no order. They are no part of a log, and nobody looked at them."""

    def in_state(self, state: FileState) -> Sequence[SegmentFile]:
        """Return the files with one suffix state, ascending by base offset, snapshots among them."""
        return self._by_state.get(state, ())

    @cached_property
    def _by_state(self) -> Mapping[FileState, Sequence[SegmentFile]]:
        found: defaultdict[FileState, list[SegmentFile]] = defaultdict(list)
        for file in self.files:
            found[file.name.state].append(file)
        return found

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Segments that have a plain ``.log``, ascending."""
        return segments_of(self.directory, self.in_state(FileState.PLAIN))

    @cached_property
    def snapshots(self) -> tuple[SegmentFile, ...]:
        """Producer snapshots, ascending by offset."""
        return tuple([f for f in self.in_state(FileState.PLAIN) if f.name.kind is _SNAPSHOT])

    def snapshots_of(self, segments: Iterable[Segment]) -> list[SegmentFile]:
        """Return the producer snapshots that go with segments.

        The newest snapshot stays: without it a start replays the log.
        """
        bases = {segment.base_offset for segment in segments}
        return [snapshot for snapshot in self.snapshots[:-1] if snapshot.name.base_offset in bases]

    @property
    def needs_recovery(self) -> bool:
        """Return whether a swap or a compaction was interrupted."""
        return bool(self.in_state(FileState.CLEANED) or self.in_state(FileState.SWAP))


def list_partition(directory: Path) -> Listing:
    """List a partition directory. Of symlinks, devices and foreign names only the names are listed.

    Raises: UnreadableFile.
    """
    with as_unreadable(directory), entries(directory) as found:
        files, others = listed_together(directory, found)
    return Listing(directory, tuple(sorted(files, key=_file_name)), tuple(others))


def list_ends(directory: Path) -> Listing:
    """List the first and the last ``.log`` of a partition, and the last ``.index``: enough to tell where a log begins
    and ends.

    Where a recovery is due, or a name of the log is no plain file, everything is listed.

    Raises: UnreadableFile.
    """
    with as_unreadable(directory), entries(directory) as found:
        present = {entry.name: entry for entry in found}
        logs = [name for name in present if name.endswith(FileKind.LOG)]
        if logs and all(map(_is_settled, present.values())) and {*map(len, logs)} == {_LOG_NAME_LENGTH}:
            first, last = min(logs), max(logs)  # names of one length, whose order is that of their numbers
            ends = {first, last, last.removesuffix(FileKind.LOG) + FileKind.INDEX} & present.keys()
            files, others = listed_together(directory, [present[name] for name in ends])
            if not others:
                return Listing(directory, tuple(sorted(files, key=_file_name)))
    return list_partition(directory)


def _is_settled(entry: DirectoryEntry) -> bool:
    """Return whether an entry is a plain file that calls for no recovery."""
    return entry.is_file(follow_symlinks=False) and not entry.name.endswith(_UNSETTLED)


def ensure_plain_files(listing: Listing) -> None:
    """Refuse a partition in which a file of a segment, or a snapshot, is no plain file.

    The records of a ``.log`` decide over other segments, too. Without its ``.timeindex`` a segment would be as old as
    its file, and without its ``.txnindex`` its aborted records would count as committed.

    Raises: UnseenSegment, UnreadableFile.
    """
    for name in strange_files(listing):
        path = listing.directory / name
        try:
            with as_unreadable(path):
                mode = status_of(path).st_mode
        except UnreadableFile as error:
            if error.has_vanished:
                continue
            raise
        if not stat.S_ISREG(mode):
            raise UnseenSegment(path, _KINDS_OF_ENTRIES.get(stat.S_IFMT(mode), "a device"))


def strange_files(listing: Listing) -> list[str]:
    """Return the names of segment files and snapshots that were no plain files when they were listed, ``.log`` first.

    Files in a state that is no part of the log, and that recovery makes no part of it, are left out.
    """
    parsed = segment_files_among(listing.others).items()
    strange = [(found.kind is not FileKind.LOG, name) for name, found in parsed if found.state in _STATES_OF_A_LOG]
    return [name for _, name in sorted(strange)]


_STATES_OF_A_LOG: Final = (FileState.PLAIN, FileState.SWAP)
_UNSETTLED: Final = (FileState.SWAP.value, FileState.CLEANED.value)
"""The suffixes of files that call for a recovery."""
_LOG_NAME_LENGTH: Final = len(segment_file_name(0, FileKind.LOG))
_LOG: Final = FileKind.LOG
_SNAPSHOT: Final = FileKind.SNAPSHOT
_file_name = attrgetter("file_name")


def segments_of(directory: Path, files: Iterable[SegmentFile]) -> tuple[Segment, ...]:
    """Group files by base offset; an index without its ``.log`` is nothing (a broker deletes it at start)."""
    by_base: defaultdict[int, dict[FileKind, SegmentFile]] = defaultdict(dict)
    for file in files:
        base_offset, kind, _ = file.name
        if kind is not _SNAPSHOT:
            by_base[base_offset][kind] = file
    return tuple([Segment(directory, base, kinds) for base, kinds in sorted(by_base.items()) if _LOG in kinds])
