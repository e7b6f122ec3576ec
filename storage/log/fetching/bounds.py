"""How far consumers may read: the high watermark, and the last stable offset.

Whoever replicates a log tells its high watermark. As in Kafka it is an offset alone at first. The first fetch that asks
for it finds its place, and from then on it is the base offset of the batch there.

Source: Kafka UnifiedLog.updateHighWatermark, fetchHighWatermarkMetadata, fetchLastStableOffsetMetadata.
"""

from __future__ import annotations

from storage.log.fetching.view import LogView, Place
from storage.log.producer_state import ProducerState


class FetchBounds:
    """The high watermark of one log, and what follows from it."""

    def __init__(self, log_start_offset: int) -> None:
        self.high_watermark = log_start_offset
        self._is_located = False

    def update(self, offset: int, view: LogView) -> int:
        """Move the high watermark to an offset, within the log, and return it."""
        self.high_watermark = max(view.start_offset, min(offset, view.end_offset))
        self._is_located = self.high_watermark >= view.end_offset
        return self.high_watermark

    def keep_within(self, start_offset: int, end_offset: int) -> None:
        """Have the high watermark within a log that was cut."""
        kept = max(start_offset, min(self.high_watermark, end_offset))
        self._is_located = self._is_located and kept == self.high_watermark
        self.high_watermark = kept

    def locate(self, view: LogView) -> Place:
        """Find the place of the high watermark. Raises: CorruptBatch, UnreadableFile."""
        found = view.place_of(self.high_watermark)
        if self._is_located:
            return found._replace(offset=self.high_watermark)
        self.high_watermark, self._is_located = found.offset, True
        return found

    def last_stable(self, view: LogView, producers: ProducerState) -> Place | None:
        """Find the first offset of a transaction that is not over below the high watermark; None if there is none.

        Raises: CorruptBatch, UnreadableFile.
        """
        unstable = producers.first_unstable_offset(self.high_watermark)
        if unstable is None:
            return None
        place = view.place_of(max(unstable, view.start_offset))
        return place if place.offset < self.high_watermark else None
