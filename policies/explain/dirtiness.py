"""Compute how far a dirty section is from a round: the bytes that are missing, or since when the round is due."""

from __future__ import annotations

from typing import NamedTuple

from policies.compaction import Cleanable
from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts


class Due(NamedTuple):
    """The time since which a round is due, epoch ms, and the number of segments that were closed since."""

    since_ms: int
    closed_since: int


def bytes_missing(section: Cleanable, least_ratio: float) -> int | None:
    """Return the least number of dirty bytes that must come, so that the dirty ratio is above ``least_ratio``.

    Return 0 if the ratio is above it already, and None if no number is enough: no ratio is above 1.
    """
    dirty_bytes, all_bytes = section.dirty_bytes, section.clean_bytes + section.dirty_bytes

    def is_enough(more_bytes: int) -> bool:
        total_bytes = all_bytes + more_bytes
        return total_bytes > 0 and (dirty_bytes + more_bytes) / total_bytes > least_ratio

    if is_enough(0):
        return 0
    low, high = 0, 1
    while not is_enough(high):
        if high > 1 << 80:
            return None
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def due_since(log: PartitionFacts, policy: TopicPolicy, section: Cleanable) -> Due | None:
    """Return since when a broker's cleaner would have begun a round; None if none is due.

    A segment counts from its file time on: it was written to until then, and closed soon after.

    Args:
        log: the partition, as retention leaves it.
        policy: states the ratio and the lags.
        section: the dirty section of the log.
    """
    uppers = [segment.base_offset for segment in log.segments[1:]]
    dirty = [
        segment
        for segment, upper in zip(log.segments, uppers, strict=False)
        if segment.base_offset < section.first_uncleanable_offset and upper > section.first_dirty_offset
    ]
    found: list[Due] = []
    dirty_bytes = 0
    for place, segment in enumerate(dirty, 1):
        dirty_bytes += segment.size_bytes
        total_bytes, least = section.clean_bytes + dirty_bytes, policy.min_cleanable_dirty_ratio
        after = len(dirty) - place
        if total_bytes and dirty_bytes / total_bytes > least:
            lag_over_ms = segment.largest_timestamp_ms + policy.min_compaction_lag_ms
            found.append(Due(max(segment.mtime_ms, lag_over_ms if policy.min_compaction_lag_ms else 0), after))
        if segment.first_batch_ms > 0:
            found.append(Due(max(segment.mtime_ms, segment.first_batch_ms + policy.max_compaction_lag_ms + 1), after))
    return min(found, default=None)
