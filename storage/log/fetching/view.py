"""A log at the moment of one call: its segments with their readers, and its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storage.log.fetching.open_segment import OpenSegment
from storage.log.fetching.open_segments import OpenSegments
from storage.segment import Segment

if TYPE_CHECKING:
    from storage.log.active import ActiveSegment
    from storage.log.leader_epochs import LeaderEpochs

_base_offset = attrgetter("base_offset")


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

    def reader(self, place: int) -> OpenSegment:
        """Return the reader of a segment. Raises: UnreadableFile."""
        if place + 1 < len(self.segments):
            return self.opened.reader(self.segments[place])
        if self.active is not None:
            return self.opened.of_active(self.active)
        segment = self.segments[place]
        return self.opened.reader(segment, segment.size_bytes - self.torn_bytes)

    def latest_epoch(self) -> int | None:
        """Return the newest leader epoch; None if none is known. Raises: CorruptCheckpoint, UnreadableFile."""
        entries = self.epochs.entries() if self.epochs else []
        return entries[-1].epoch if entries else None

    def earliest_epoch(self) -> int | None:
        """Return the leader epoch of the log start; None if none is known. Raises: as ``latest_epoch``."""
        entries = self.epochs.entries() if self.epochs else []
        return entries[0].epoch if entries and entries[0].start_offset <= self.start_offset else None
