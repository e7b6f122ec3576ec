"""A log at the moment of one call: its segments with their readers, and its offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storage.log.fetching.open_segment import OpenSegment
from storage.log.fetching.open_segments import OpenSegments
from storage.records import BatchHeader, PositionedHeader
from storage.segment import Segment

if TYPE_CHECKING:
    from storage.log.active import ActiveSegment
    from storage.log.leader_epochs import LeaderEpochs

_base_offset = attrgetter("base_offset")


class Place(NamedTuple):
    """The place of an offset: the batch that reaches it first, by its base offset, or the log end."""

    offset: int
    segment_base_offset: int
    position: int


class ReachingBatch(NamedTuple):
    """The first batch that reaches an offset, and the segment that has it."""

    place: int
    reader: OpenSegment
    found: PositionedHeader

    @property
    def start(self) -> Place:
        """The place of the batch. A compressed batch of an old format is decompressed for it. Raises: CorruptBatch."""
        position, header = self.found
        base_offset = (
            header.base_offset if isinstance(header, BatchHeader) else self.reader.whole(self.found).base_offset
        )
        return Place(base_offset, self.reader.base_offset, position)


class LogView(NamedTuple):
    """The log; the call that has it holds the log's lock."""

    directory: Path
    opened: OpenSegments
    segments: Sequence[Segment]
    """Ascending; the last one as it was when it was listed, if the log is being written to."""
    active: ActiveSegment | None
    """The last segment if the log is being written to."""
    start_offset: int
    end_offset: int
    torn_bytes: int = 0
    """How many bytes behind the last batch are no part of the log."""
    epochs: LeaderEpochs | None = None
    """None: nobody asks for them."""

    def find(self, offset: int) -> ReachingBatch | None:
        """Find the first batch that reaches an offset, in its segment or in a later one; None if none does.

        Raises: CorruptBatch, UnreadableFile.
        """
        first = max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)
        for place in range(first, len(self.segments)):
            reader = self.reader(place)
            found = reader.find_offset(offset)
            if found is not None:
                return ReachingBatch(place, reader, found)
        return None

    def has_segment_of(self, offset: int) -> bool:
        """Return whether a segment begins at or below an offset; a log that was begun anew may start below all."""
        return not self.segments or self.segments[0].base_offset <= offset

    def place_of(self, offset: int) -> Place:
        """Return the place of an offset within the log. Raises: CorruptBatch, UnreadableFile.

        Source: Kafka LocalLog.convertToOffsetMetadataOrThrow.
        """
        found = self.find(offset) if offset < self.end_offset else None
        return found.start if found else self.log_end()

    def log_end(self) -> Place:
        """Return the place of the log end. Raises: UnreadableFile."""
        if not self.segments:
            return Place(self.end_offset, self.end_offset, 0)
        reader = self.reader(len(self.segments) - 1)
        return Place(self.end_offset, reader.base_offset, reader.end_position)

    def reader(self, place: int) -> OpenSegment:
        """Return the reader of a segment. Raises: UnreadableFile."""
        if place + 1 < len(self.segments):
            return self.opened.reader(self.segments[place])
        if self.active is not None:
            return self.opened.of_active(self.active)
        segment = self.segments[place]
        return self.opened.reader(segment, segment.size_bytes - self.torn_bytes)

    def upper_offset(self, place: int) -> int:
        """Return where the next segment begins, or the log ends."""
        return self.segments[place + 1].base_offset if place + 1 < len(self.segments) else self.end_offset

    def latest_epoch(self) -> int | None:
        """Return the newest leader epoch; None if none is known. Raises: CorruptCheckpoint, UnreadableFile."""
        entries = self.epochs.entries() if self.epochs else []
        return entries[-1].epoch if entries else None

    def earliest_epoch(self) -> int | None:
        """Return the leader epoch of the log start; None if none is known. Raises: as ``latest_epoch``."""
        entries = self.epochs.entries() if self.epochs else []
        return entries[0].epoch if entries and entries[0].start_offset <= self.start_offset else None
