"""Count what a run does to the space of a disk, in blocks as ``du`` counts them, not in sizes of files.

The size of a file says little of its blocks: a broker preallocates index files of 10 MiB, which are holes. What a
disk gets back are blocks, and none while another hard link keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from storage.names import FileKind
from storage.segment import Segment


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


def exchanged(sources: Sequence[Segment], made: Segment, *, at_once: bool) -> DiskFigures:
    """Return the figures of segments for which compaction wrote another one.

    Args:
        sources: the segments that it replaces.
        made: the segment that it wrote.
        at_once: the sources are unlinked, and not only renamed.
    """
    disk_bytes, _ = made.on_disk
    return _left(sources, at_once=at_once)._replace(
        added_disk_bytes=disk_bytes,
        index_saved_bytes=_companions_bytes(sources) - made.companions_bytes,
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


def _left(sources: Sequence[Segment], *, at_once: bool) -> DiskFigures:
    found = (segment.on_disk for segment in sources)
    return DiskFigures.left(sum(disk_bytes for disk_bytes, links in found if links == 1), at_once=at_once)


def _companions_bytes(segments: Iterable[Segment]) -> int:
    return sum(segment.companions_bytes for segment in segments)


NO_CHANGE: Final = DiskFigures()
"""The figures of a run that did nothing."""
