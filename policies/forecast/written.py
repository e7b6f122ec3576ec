"""Tell on which days the bytes of a log were written, as far as its segments say.

A segment was written between the newest record of the segment before it and its own newest record; its bytes are spread
evenly over that time. What retention or compaction has removed is not seen.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from policies.facts import PartitionFacts
from policies.forecast.births import DAY_MS

UNDATED: Final = -1
"""The day of bytes of which nobody knows it: no timestamp, one in the future, or no segment before."""


def bytes_by_day(log: PartitionFacts, now_ms: int, first_day: int) -> Counter[int]:
    """Return the day (days since 1970, UTC) -> the bytes of ``.log`` files that were written on it.

    The oldest segment has no day, because nobody knows how long it took; but what is older than the first day is older.

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


def _spread(found: Counter[int], size_bytes: int, start_ms: int, end_ms: int) -> None:
    """Add bytes to the days of a span, so that they sum up exactly."""
    first, last = start_ms // DAY_MS, end_ms // DAY_MS
    given = 0
    for day in range(first, last):
        upto = size_bytes * ((day + 1) * DAY_MS - start_ms) // (end_ms - start_ms)
        found[day] += upto - given
        given = upto
    found[last] += size_bytes - given
