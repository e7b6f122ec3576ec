"""The readers of one log's segments, of which only so many are open at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from storage.log.fetching.open_segment import OpenSegment
from storage.segment import Segment

if TYPE_CHECKING:
    from storage.log.active import ActiveSegment

_READERS_MAX: Final = 128
_INDEX_BYTES_MAX: Final = 64 << 20


class OpenSegments:
    """The readers that were used last. A reader belongs to one ``Segment``: another listing of it gets another."""

    def __init__(self) -> None:
        self._readers: dict[int, OpenSegment] = {}
        """By base offset, the one used last at the end."""
        self._of_active: tuple[ActiveSegment, OpenSegment] | None = None
        self._timed: list[Segment] = []
        self._latest: list[int] = []
        """Of each segment of ``_timed``: the largest timestamp of all up to it."""

    def reader(self, segment: Segment, end_position: int | None = None) -> OpenSegment:
        """Return the reader of a segment. Arguments and errors as of ``OpenSegment``."""
        reader = self._readers.pop(segment.base_offset, None)
        if reader is None or reader.segment is not segment or end_position not in (None, reader.end_position):
            if reader is not None:
                reader.close()
            self._make_room()
            reader = OpenSegment(segment, end_position)
        self._readers[segment.base_offset] = reader
        return reader

    def of_active(self, active: ActiveSegment) -> OpenSegment:
        """Return the reader of the active segment, up to its last batch. Raises: UnreadableFile."""
        if self._of_active is None or self._of_active[0] is not active:
            self._close_active()
            self._of_active = active, OpenSegment(active.segment(), active.size_bytes, active.indexes)
        reader = self._of_active[1]
        reader.end_position = active.size_bytes
        return reader

    def first_as_late(self, segments: Sequence[Segment], timestamp_ms: int) -> int:
        """Return the place of the first segment whose largest timestamp is as late; behind the last one if none is.

        A segment without timestamps has that of its file. What was found is kept for as long as the segments are the
        same.

        Args:
            segments: ascending, none of which changes any more.
            timestamp_ms: epoch ms.

        Raises: CorruptBatch, UnreadableFile.
        """
        if self._timed != segments[: len(self._timed)]:
            self._timed, self._latest = [], []
        latest = self._latest
        for segment in segments[len(latest) :]:
            if latest and latest[-1] >= timestamp_ms:
                break
            largest_ms = self.reader(segment).effective_ms
            latest.append(max(largest_ms, latest[-1]) if latest else largest_ms)
            self._timed.append(segment)
        found = bisect_left(latest, timestamp_ms)
        return found if found < len(latest) else len(segments)

    def close(self) -> None:
        """Let go of all files; who asks again opens them again."""
        while self._readers:
            self._readers.popitem()[1].close()
        self._close_active()

    def _close_active(self) -> None:
        if self._of_active is not None:
            self._of_active[1].close()
            self._of_active = None

    def _make_room(self) -> None:
        """Close what was not used for the longest, until another one may be opened."""
        index_bytes = sum(reader.index_bytes for reader in self._readers.values())
        while self._readers and (len(self._readers) >= _READERS_MAX or index_bytes > _INDEX_BYTES_MAX):
            reader = self._readers.pop(next(iter(self._readers)))
            index_bytes -= reader.index_bytes
            reader.close()
