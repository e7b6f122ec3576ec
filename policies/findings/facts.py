"""The facts of a partition that the rules judge: what its segments tell, in their order, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from storage.anomalies import CheckedSegment
from storage.names import FileKind, segment_file_name


class Standing(NamedTuple):
    """The place of a segment in its log, and the state of its broker."""

    directory: str
    base_offset: int
    is_last: bool
    """Whether it is the active segment."""
    is_live: bool
    """Whether a broker, or another process, holds the lock of the log dir."""
    is_recovered: bool
    """Whether the next start of the broker recovers the segment: it did not stop cleanly, or it is the metadata log."""

    @property
    def is_clean(self) -> bool:
        """Return whether the broker stopped cleanly, and wrote all that it knew."""
        return not (self.is_live or self.is_recovered)

    def path_of(self, kind: FileKind) -> str:
        """Return the path of one of its files."""
        return f"{self.directory}/{segment_file_name(self.base_offset, kind)}"


class SegmentHistory(NamedTuple):
    """The facts that a check of one segment gives, and where it stands."""

    standing: Standing
    facts: CheckedSegment


class LogHistory(NamedTuple):
    """The facts that the segments of a partition tell, ascending."""

    directory: str
    segments: Sequence[SegmentHistory]

    @property
    def start_offset(self) -> int:
        """The base offset of the first segment."""
        return self.segments[0].standing.base_offset if self.segments else 0

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        return self.segments[-1].facts.next_offset if self.segments else 0

    @property
    def is_damaged(self) -> bool:
        """Return whether a part of a segment was not understood."""
        return any(segment.facts.is_damaged for segment in self.segments)

    @property
    def is_whole(self) -> bool:
        """Return whether no batch and no record between start and end is gone: nothing was compacted away."""
        return (
            not self.is_damaged
            and all(segment.facts.is_full and not segment.facts.gaps for segment in self.segments)
            and all(one.facts.next_offset == other.standing.base_offset for one, other in pairwise(self.segments))
        )
