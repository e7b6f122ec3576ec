"""The destinations of a round's output: in the place of its sources, in a copy, or nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.passes import Group
from cleaner.engine.deletion import retire_snapshots
from cleaner.engine.means import Stopped
from storage.filesystem import FileSystem, Purpose
from storage.guarded import Unwritten
from storage.log.listing import Listing
from storage.log.swap import remove_retired, swap_in
from storage.names import FileState, SegmentFileName
from storage.segment import Segment, SegmentFile


class Destination(Protocol):
    """Takes the groups of a round in ascending order."""

    def open(self, base_offset: int) -> CleanedSegment:
        """Return the segment that a group is written into."""
        ...

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """A group was written whole. Raises: OutOfSpace."""
        ...

    def keep(self, segment: Segment) -> None:
        """Keep a segment that loses nothing, and for which nothing was written. Raises: OutOfSpace."""
        ...


class InPlace:
    """Swaps each group in; needs the lock."""

    def __init__(
        self,
        listing: Listing,
        index_interval_bytes: int,
        fs: FileSystem,
        *,
        at_once: bool,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write nothing yet.

        Args:
            listing: of the partition.
            index_interval_bytes: of the topic.
            fs: the disk.
            at_once: unlink what a group replaces, since the next one may need the space.
            stopping: asked before each swap.
        """
        self._stopping = stopping
        self._listing = listing
        self._interval_bytes = index_interval_bytes
        self._fs = fs
        self._is_at_once = at_once
        self.freed_bytes = 0
        """Of the files that were replaced and unlinked."""

    def open(self, base_offset: int) -> CleanedSegment:
        """Write ``.cleaned`` files beside the sources."""
        return CleanedSegment(self._fs, self._listing.directory, base_offset, self._interval_bytes)

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """Swap it in. Raises: Stopped, and nothing is swapped in; the last moment for that."""
        segments = [walked.span.segment for _, walked in group]
        sealed = cleaned.seal(segments[-1].log.identity.mtime_ns, is_cold=_is_cold(group))
        if self._stopping():
            cleaned.unseal()
            raise Stopped
        self._swap(segments, sealed)
        if self._is_at_once:
            for reader, _ in group:
                reader.close()
            self.freed_bytes += remove_retired(self._fs, segments)

    def adopt(self, segments: Sequence[Segment], written: Segment) -> None:
        """Swap in what another process wrote, fsynced, in this directory under names that mean nothing."""
        self._swap(segments, renamed(self._fs, written, FileState.CLEANED))
        if self._is_at_once:
            self.freed_bytes += remove_retired(self._fs, segments)

    def _swap(self, segments: Sequence[Segment], sealed: Segment) -> None:
        swap_in(self._fs, sealed, segments)
        retire_snapshots(self._fs, self._listing, segments[1:])  # of bases that the group's segment took in

    def keep(self, segment: Segment) -> None:
        """It stays where it is."""


class IntoCopy:
    """Writes the segments of a copy, under their plain names: until its manifest is there, a copy is nothing."""

    def __init__(
        self, directory: Path, index_interval_bytes: int, fs: FileSystem, keep: Callable[[Segment], None]
    ) -> None:
        self._directory = directory
        self._interval_bytes = index_interval_bytes
        self._fs = fs
        self._keep = keep
        self.absorbed: list[Segment] = []
        """Segments that others took in: their bases are no segment's any more."""

    def open(self, base_offset: int) -> CleanedSegment:
        """Writes the files under their final names."""
        return CleanedSegment(self._fs, self._directory, base_offset, self._interval_bytes, FileState.PLAIN)

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """Make it last; nothing is replaced."""
        segments = [walked.span.segment for _, walked in group]
        cleaned.seal(segments[-1].log.identity.mtime_ns, is_cold=_is_cold(group))
        self.absorbed += segments[1:]

    def adopt(self, segments: Sequence[Segment], written: Segment) -> None:
        """Take what another process wrote, fsynced, in the copy under names that mean nothing."""
        renamed(self._fs, written, FileState.PLAIN)
        self.absorbed += segments[1:]

    def keep(self, segment: Segment) -> None:
        """Copy it as it is."""
        self._keep(segment)


def renamed(fs: FileSystem, written: Segment, state: FileState) -> Segment:
    """Give the files of a segment their names in a state; the caller makes these last."""
    for source, target in written.names(state):
        fs.rename(source, target, Purpose.CLEAN)
    names = [SegmentFileName(written.base_offset, kind, state) for kind in written.files]
    files = {name.kind: SegmentFile.at(written.directory, name) for name in names}
    return Segment(written.directory, written.base_offset, files)


class Nowhere:
    """Counts what would be written."""

    def __init__(self, directory: Path, index_interval_bytes: int) -> None:
        self._directory = directory
        self._interval_bytes = index_interval_bytes

    def open(self, base_offset: int) -> CleanedSegment:
        """Only counts its bytes."""
        return CleanedSegment(Unwritten(), self._directory, base_offset, self._interval_bytes)

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """Do nothing: nothing is written."""

    def keep(self, segment: Segment) -> None:
        """Do nothing: nothing is written."""


def _is_cold(group: Group) -> bool:
    """Return whether most of the sources had to be read from disk: nobody keeps them in memory for long."""
    return 2 * sum(reader.absent_bytes for reader, _ in group) > sum(walked.span.size_bytes for _, walked in group)
