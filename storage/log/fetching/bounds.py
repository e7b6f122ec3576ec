"""The bounds of what consumers may read: the high watermark, and the last stable offset.

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
        self._replicated_to = log_start_offset
        self._held: tuple[int | None] | None = None

    def update(self, offset: int, view: LogView) -> int:
        """Move the high watermark to an offset, within the log, and return it."""
        self.high_watermark = max(view.start_offset, min(offset, view.end_offset))
        self._is_located = self.high_watermark >= view.end_offset
        self._replicated_to = max(self._replicated_to, self.high_watermark)
        self._held = None
        return self.high_watermark

    def hold(self, unstable: int | None) -> None:
        """Go by a first unstable offset until something moves: a truncation below the high watermark finds no other.

        The transactions that ended are read again then, and each counts as not replicated until the high watermark is
        told again. Source: Kafka UnifiedLog.truncateTo, maybeIncrementFirstUnstableOffset.
        """
        self._held, self._replicated_to = (unstable,), 0

    def release(self) -> None:
        """Look at the producers again: something was appended."""
        self._held = None

    def unstable(self, producers: ProducerState) -> int | None:
        """Return the first offset of a transaction that is not over, or not replicated; None if there is none."""
        return producers.first_unstable_offset(self._replicated_to) if self._held is None else self._held[0]

    def locate(self, view: LogView) -> Place:
        """Find the place of the high watermark. Raises: CorruptBatch, UnreadableFile."""
        found = view.place_of(self.high_watermark)
        if self._is_located:
            return found._replace(offset=self.high_watermark)
        self.high_watermark, self._is_located = found.offset, True
        self._replicated_to, self._held = max(self._replicated_to, found.offset), None
        return found

    def last_stable(self, view: LogView, producers: ProducerState) -> Place | None:
        """Find the first offset of a transaction that is not over below the high watermark; None if there is none.

        Raises: CorruptBatch, UnreadableFile.
        """
        unstable = self.unstable(producers)
        if unstable is None:
            return None
        place = view.place_of(max(unstable, view.start_offset))
        return place if place.offset < self.high_watermark else None
