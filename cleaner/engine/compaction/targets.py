"""The destinations of a round's output: in the place of its sources, in a copy, or nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.passes import Group
from cleaner.engine.deletion import retire_snapshots
from cleaner.engine.space import NO_CHANGE, DiskFigures, exchanged, expected
from storage.errors import Stopped
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.guarded import Unwritten
from storage.log.listing import Listing
from storage.log.swap import remove_retired, swap_in
from storage.names import FileState, SegmentFileName
from storage.segment import BLOCK_BYTES, Segment, SegmentFile
from storage.stores.paths import StoredPath
from storage.uploads import Sent, Uploads


class Destination(Protocol):
    """A destination takes the groups of a round in ascending order."""

    space: DiskFigures
    """The space that the replaced segments gave back."""

    def open(self, base_offset: int) -> CleanedSegment:
        """Return the segment that a group is written into."""
        ...

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """Take a group that was written whole. Raises: OutOfSpace."""
        ...

    def keep(self, segment: Segment) -> None:
        """Keep a segment that loses nothing, and for which nothing was written. Raises: OutOfSpace."""
        ...


@dataclass(eq=False)
class InPlace:
    """The destination that swaps each group in; it needs the lock."""

    listing: Listing
    """The listing of the partition."""
    index_interval_bytes: int
    fs: FileSystem
    at_once: bool = field(kw_only=True)
    """Whether to unlink the replaced segments at once, because the next group may need the space."""
    stopping: Callable[[], bool] = field(default=lambda: False, kw_only=True)
    """Asked before each swap."""
    freed_bytes: int = 0
    """The size of the files that were replaced and unlinked."""
    space: DiskFigures = NO_CHANGE

    def open(self, base_offset: int) -> CleanedSegment:
        """Write ``.cleaned`` files beside the sources."""
        return CleanedSegment(self.fs, self.listing.directory, base_offset, self.index_interval_bytes)

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """Swap the group in. Raises: Stopped: nothing was swapped in."""
        segments = [walked.span.segment for _, walked in group]
        sealed = cleaned.seal(segments, is_cold=_is_cold(group))
        if self.stopping():
            cleaned.unseal()
            raise Stopped
        self._swap(segments, sealed)
        if self.at_once:
            for reader, _ in group:
                reader.close()
            self.freed_bytes += remove_retired(self.fs, segments)

    def adopt(self, segments: Sequence[Segment], written: Segment, sent: Sequence[Sent]) -> None:
        """Swap in a segment that another process wrote and fsynced in this directory, under temporary names."""
        assert not sent, "a store holds no partition that changes in place"
        self._swap(segments, renamed(self.fs, written, FileState.CLEANED))
        if self.at_once:
            self.freed_bytes += remove_retired(self.fs, segments)

    def _swap(self, segments: Sequence[Segment], sealed: Segment) -> None:
        space = exchanged(segments, sealed, at_once=self.at_once)
        swap_in(self.fs, sealed, segments)
        self.space = self.space.plus(space)
        retire_snapshots(self.fs, self.listing, segments[1:])  # of segments that became part of the group's segment

    def keep(self, segment: Segment) -> None:
        """Leave the segment in its place."""


@dataclass(eq=False)
class IntoCopy:
    """The destination in a copy. It uses plain names, because a directory without a manifest is no copy yet."""

    directory: Path
    index_interval_bytes: int
    fs: FileSystem
    keep: Callable[[Segment], None]
    """Copies a segment as it is."""
    absorbed: list[Segment] = field(default_factory=list)
    """Segments that became part of others, and so are not in the copy."""
    space: DiskFigures = NO_CHANGE

    def open(self, base_offset: int) -> CleanedSegment:
        """Write the files under their final names."""
        return CleanedSegment(self.fs, self.directory, base_offset, self.index_interval_bytes, FileState.PLAIN)

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """Make the segment durable; nothing is replaced."""
        segments = [walked.span.segment for _, walked in group]
        sealed = cleaned.seal(segments, is_cold=_is_cold(group))
        self.space = self.space.plus(exchanged(segments, sealed, at_once=False))
        self.absorbed += segments[1:]

    def adopt(self, segments: Sequence[Segment], written: Segment, sent: Sequence[Sent]) -> None:
        """Take a segment that another process wrote in the copy: fsynced under temporary names, or sent to a store."""
        if isinstance(self.fs, Uploads):
            self.fs.adopt(sent)
        else:
            renamed(self.fs, written, FileState.PLAIN)
        self.space = self.space.plus(exchanged(segments, written, at_once=False))
        self.absorbed += segments[1:]


def with_room_hint(error: Exception, command: str, *, at_once: bool, has_replaced: bool) -> Exception:
    """Return an error for a person; of a full disk it says what makes room.

    Args:
        error: any.
        command: what the user ran.
        at_once: whether the run unlinks each replaced segment as soon as the new one is swapped in.
        has_replaced: whether the run replaced a segment before, which waits as ``.deleted``.
    """
    if not isinstance(error, OutOfSpace) or at_once:
        return error
    then = f"then {command} with --delete-delay 0, which needs the space of one segment"
    if has_replaced:
        remedy = f"the replaced segments wait there: clean --delete-delay 0 unlinks them; {then}"
        return OutOfSpace(error.path, error.wanted_bytes, remedy)
    return OutOfSpace(error.path, error.wanted_bytes, f"{error.remedy}; {then}")


def renamed(fs: FileSystem, written: Segment, state: FileState) -> Segment:
    """Rename the files of a segment to their names in a state. The caller makes the names durable."""
    for source, target in written.names(state):
        fs.rename(source, target, Purpose.CLEAN)
    names = [SegmentFileName(written.base_offset, kind, state) for kind in written.files]
    files = {name.kind: SegmentFile.at(written.directory, name) for name in names}
    return Segment(written.directory, written.base_offset, files)


@dataclass(eq=False)
class Nowhere:
    """The destination of a rehearsal: it counts the bytes that would be written."""

    directory: Path
    index_interval_bytes: int
    at_once: bool = field(default=False, kw_only=True)
    """Whether the sources would be unlinked at once."""
    space: DiskFigures = NO_CHANGE

    def open(self, base_offset: int) -> CleanedSegment:
        """Return a segment that only counts its bytes."""
        return CleanedSegment(Unwritten(), self.directory, base_offset, self.index_interval_bytes)

    def replace(self, group: Group, cleaned: CleanedSegment) -> None:
        """Count the blocks; nothing is written."""
        segments = [walked.span.segment for _, walked in group]
        self.space = self.space.plus(expected(segments, cleaned.measured(), self._block_bytes(), at_once=self.at_once))

    def _block_bytes(self) -> int:
        return BLOCK_BYTES if isinstance(self.directory, StoredPath) else os.statvfs(self.directory).f_frsize

    def keep(self, segment: Segment) -> None:
        """Do nothing: nothing is written."""


def _is_cold(group: Group) -> bool:
    """Return whether most of the sources had to be read from disk, so that nobody else keeps them in memory."""
    return 2 * sum(reader.absent_bytes for reader, _ in group) > sum(walked.span.size_bytes for _, walked in group)
