"""Compute how many bytes retention would leave, as a function of its limit: every limit at which the bytes change.

Pure functions over facts. The rules are those of ``policies.retention``: whole segments go, oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts
from policies.retention import barrier, below_log_start, left_bytes, newest


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A step of the curve: every limit above the previous point's, up to this one's, leaves ``kept_bytes``."""

    limit: int | None
    """The ``retention.ms`` or ``retention.bytes``. None stands for all greater limits, and for no limit at all."""
    kept_bytes: int
    """The size of the ``.log`` files that stay."""


def curve_by_time(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> tuple[CurvePoint, ...]:
    """Return the bytes that each ``retention.ms`` keeps, as if no other limit held.

    Args:
        log: the facts of one partition.
        policy: says which time of a segment counts; its limits do not matter.
        now_ms: epoch ms.

    Returns:
        The points by rising limit. No limit is below 0: a segment whose age is negative always stays.
    """
    ages_ms = (now_ms - newest(log.segments[place], policy, now_ms)[0] for place in _deletable(log))
    youngest_so_far_ms = accumulate(ages_ms, min)  # a segment goes once it and all older ones are beyond the limit
    return _curve(log, [age_ms - 1 for age_ms in youngest_so_far_ms])


def curve_by_size(log: PartitionFacts) -> tuple[CurvePoint, ...]:
    """Return the bytes that each ``retention.bytes`` keeps, as if no other limit held.

    A limit never keeps less than itself, unless the partition holds less.

    Args:
        log: the facts of one partition.

    Returns:
        The points by rising limit.
    """
    left = left_bytes(log)
    return _curve(log, [left[place + 1] for place in _deletable(log)])


def _deletable(log: PartitionFacts) -> Iterator[int]:
    """Yield the places of the segments that some limit may delete; no limit may delete the others."""
    for place in range(len(below_log_start(log)), len(log.segments)):
        if barrier(log, place):
            return
        yield place


def _curve(log: PartitionFacts, greatest_limits: Sequence[int]) -> tuple[CurvePoint, ...]:
    """Build the curve from the greatest limit at which each segment still goes: oldest first, never rising."""
    first, left = len(below_log_start(log)), left_bytes(log)
    points = [CurvePoint(None, left[first])]
    for place, limit in enumerate(greatest_limits, first):
        if limit < 0:
            break
        if points[-1].limit == limit:
            points.pop()
        points.append(CurvePoint(limit, left[place + 1]))
    return tuple(reversed(points))
