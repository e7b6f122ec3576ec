"""Predict how long a disk lasts if it goes on filling as it did lately, by a mean of the growth between observations.

On the first day the mean is over all observations. Later it forgets older ones, with a time constant of a day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_MEMORY_SECONDS: Final = 86_400.0
OBSERVED_SECONDS_MIN: Final = 3_600.0
"""Over a shorter time, a burst of some minutes would pass for the rule."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The speed at which the free space of a log dir's file system shrinks. Deletions in between count."""

    at_ms: int
    """The time of the last observation, epoch ms."""
    free_bytes: int
    bytes_per_second: float = 0.0
    """The mean growth of the used space; below 0 if the file system gains free space."""
    observed_seconds: float = 0.0
    """The time between the first observation and the last one."""

    def seen(self, free_bytes: int, now_ms: int) -> Growth:
        """Return the growth after another observation; one that is not later than the last changes nothing."""
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
        """The time until the disk is full; infinite if it does not fill, None before an hour of observation."""
        if self.observed_seconds < OBSERVED_SECONDS_MIN:
            return None
        return self.free_bytes / self.bytes_per_second if self.bytes_per_second > 0 else math.inf
