"""The growth of a log: its rate, from the segments that were born lately, and the days on which it was written.

A segment is born at the time of its newest record. It was written between the newest record of the segment before it
and its own; its bytes are spread evenly over that time. The time before the oldest segment is not known, so the bytes
of that segment do not count in the rate. Bytes that retention or compaction has removed are not seen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from policies.facts import PartitionFacts, SegmentFacts
from policies.plan import Plan

DAY_MS: Final = 86_400_000
DAYS: Final = 7
WINDOW_MS: Final = DAYS * DAY_MS
"""The days over which the rate is taken: a week has every day of the week once."""
SPAN_MS_MIN: Final = 6 * 3_600_000
"""The least time for a rate: over a shorter time, a burst would pass for the rule."""
SPAN_OF_THE_REST_MS_MIN: Final = 3_600_000
"""The least time for the rate of a log whose older segments are gone, because its limits leave no longer time."""

UNDATED: Final = -1
"""The day of bytes whose day is not known: without a timestamp, with one in the future, or without a segment before."""


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


def seen_ms(plan: Plan) -> int:
    """Return the moment up to which a plan knows the written bytes: its own moment, but not later than the clock's."""
    clocks = (log_dir.facts.clock.now_ms for log_dir in plan.log_dirs if log_dir.facts.clock)
    return min((plan.request.now_ms, *clocks))


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


def bytes_by_day(log: PartitionFacts, now_ms: int, first_day: int) -> Counter[int]:
    """Return the day (days since 1970, UTC) -> the bytes of ``.log`` files that were written on it.

    The oldest segment has no day, because nobody knows how long it took, unless all of it is older than the first day.

    Args:
        log: the facts of one partition.
        now_ms: epoch ms.
        first_day: the first day that is asked for.
    """
    found: Counter[int] = Counter()
    before_ms: int | None = None
    for segment in log.segments:
        end_ms = segment.newest_record_ms
        if not segment.size_bytes:
            continue
        if not 0 <= end_ms <= now_ms:
            found[UNDATED] += segment.size_bytes
            continue
        if before_ms is None:
            found[end_ms // DAY_MS if end_ms < first_day * DAY_MS else UNDATED] += segment.size_bytes
            before_ms = end_ms
            continue
        _spread(found, segment.size_bytes, min(before_ms, end_ms), end_ms)
        before_ms = max(before_ms, end_ms)
    return found


def _born_ms(segment: SegmentFacts, now_ms: int) -> int:
    """Return the time of the newest record; if that lies in the future, the time of the file, at most now."""
    newest_ms = segment.largest_timestamp_ms
    return newest_ms if newest_ms <= now_ms else min(segment.mtime_ms, now_ms)


def _spread(found: Counter[int], size_bytes: int, start_ms: int, end_ms: int) -> None:
    """Add bytes to the days of a span, so that they sum up exactly."""
    first, last = start_ms // DAY_MS, end_ms // DAY_MS
    given = 0
    for day in range(first, last):
        upto = size_bytes * ((day + 1) * DAY_MS - start_ms) // (end_ms - start_ms)
        found[day] += upto - given
        given = upto
    found[last] += size_bytes - given
