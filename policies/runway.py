"""How long a disk lasts if it goes on filling as it did lately: a mean of the growth seen between two looks at it.

The mean is over all looks of the first day, and forgets with the span of a day after that; three numbers hold it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_MEMORY_SECONDS: Final = 86_400.0
OBSERVED_SECONDS_MIN: Final = 3_600.0
"""Before so much was seen, a burst of minutes would be taken for the rule."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How fast the free space of one log dir's file system shrinks, what is deleted meanwhile taken into account."""

    at_ms: int
    """Of the last look, epoch ms."""
    free_bytes: int
    bytes_per_second: float = 0.0
    """Below 0 where space is gained."""
    observed_seconds: float = 0.0
    """How long it was looked at in all."""

    def seen(self, free_bytes: int, now_ms: int) -> Growth:
        """The growth after another look; one that is not later than the last changes nothing."""
        span_seconds = (now_ms - self.at_ms) / 1000
        if span_seconds <= 0:
            return self
        weight_seconds = min(self.observed_seconds, _MEMORY_SECONDS)
        lately = (self.free_bytes - free_bytes) / span_seconds
        step = span_seconds / (weight_seconds + span_seconds)
        rate = self.bytes_per_second + (lately - self.bytes_per_second) * step
        return Growth(now_ms, free_bytes, rate, self.observed_seconds + span_seconds)

    @property
    def runway_seconds(self) -> float | None:
        """Until the disk is full; infinite where it does not fill, None before an hour was seen."""
        if self.observed_seconds < OBSERVED_SECONDS_MIN:
            return None
        return self.free_bytes / self.bytes_per_second if self.bytes_per_second > 0 else math.inf
