"""Estimate how fast a log grows, from the segments that were born lately.

A segment is born at the time of its newest record. What came before the oldest segment is not known, so its own bytes
do not count: nobody knows how long they took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.facts import PartitionFacts, SegmentFacts
from policies.plan import Plan

DAY_MS: Final = 86_400_000
DAYS: Final = 7
WINDOW_MS: Final = DAYS * DAY_MS
"""The rate is that of these last days: a week has every day of the week once."""
SPAN_MS_MIN: Final = 6 * 3_600_000
"""Over a shorter time, a burst would pass for the rule."""
SPAN_OF_THE_REST_MS_MIN: Final = 3_600_000
"""The same for a log whose older segments are gone: its limits leave no longer time to look at."""


@dataclass(frozen=True, slots=True)
class Births:
    """The bytes of ``.log`` files that were written within a span of time up to now."""

    size_bytes: int
    span_ms: int

    @property
    def bytes_per_ms(self) -> float:
        """The rate at which the log is written."""
        return self.size_bytes / self.span_ms


def births(log: PartitionFacts, now_ms: int) -> Births | None:
    """Return the bytes that were written lately; None if the log tells too little.

    The function takes the newest segment that is older than the window, else the oldest segment, and counts the
    segments behind it: their bytes were written after its newest record. A log with one segment tells too little,
    unless that segment is older than the window: then nothing was written since. A log whose segments span less than
    six hours (one hour, if older segments were deleted) tells too little, too.

    Args:
        log: the facts of one partition.
        now_ms: epoch ms.
    """
    if log.log_end_offset == 0 and log.size_bytes == 0:
        return Births(0, WINDOW_MS)  # no record was ever written
    born_bytes = 0
    for place in range(len(log.segments) - 1, -1, -1):
        segment = log.segments[place]
        age_ms = now_ms - _born_ms(segment, now_ms)
        if age_ms >= WINDOW_MS:
            return Births(born_bytes, age_ms)
        if place == 0:
            least_ms = SPAN_OF_THE_REST_MS_MIN if log.log_start_offset else SPAN_MS_MIN
            spanned_ms = _born_ms(log.segments[-1], now_ms) - _born_ms(segment, now_ms)
            return Births(born_bytes, age_ms) if len(log.segments) > 1 and spanned_ms >= least_ms else None
        born_bytes += segment.size_bytes
    return None


def births_by_day(log: PartitionFacts, now_ms: int) -> tuple[int, ...]:
    """Return the bytes of the segments that were born on each of the last days, the oldest day first.

    As in ``births``, the oldest segment does not count: all its bytes on one day would be a false peak.

    Args:
        log: the facts of one partition.
        now_ms: epoch ms; the last day ends then.
    """
    days = [0] * DAYS
    for segment in log.segments[1:]:
        age_days = max(now_ms - _born_ms(segment, now_ms), 0) // DAY_MS
        if age_days < DAYS:
            days[DAYS - 1 - age_days] += segment.size_bytes
    return tuple(days)


def seen_ms(plan: Plan) -> int:
    """Return the moment up to which a plan knows what was written: its own, but not later than the clock's."""
    clocks = (log_dir.facts.clock.now_ms for log_dir in plan.log_dirs if log_dir.facts.clock)
    return min((plan.request.now_ms, *clocks))


def _born_ms(segment: SegmentFacts, now_ms: int) -> int:
    """Return the time of the newest record; if that lies in the future, the time of the file, at most now."""
    newest_ms = segment.largest_timestamp_ms
    return newest_ms if newest_ms <= now_ms else min(segment.mtime_ms, now_ms)
