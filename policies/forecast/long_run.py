"""Compute what a partition comes to hold in the long run, if it goes on being written as lately and limits stay.

Retention deletes whole segments, so a log holds what its limit keeps and up to one segment more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.forecast.births import DAY_MS, Births, births
from policies.plan import PartitionPlan
from policies.reasons import as_int64


class LongRun(NamedTuple):
    """The size that partitions come to, in bytes of ``.log`` files.

    Attributes:
        size_bytes: the size of the partitions that stop growing: a limit holds them, or nobody writes to them.
        growing_bytes_per_day: the growth of the partitions that nothing limits.
        unknown: the number of partitions whose size and growth are unknown.
    """

    size_bytes: int = 0
    growing_bytes_per_day: int = 0
    unknown: int = 0

    @property
    def is_known(self) -> bool:
        """False if some partitions are unknown and the others come to nothing: 0 bytes would be no answer."""
        return not self.unknown or self.size_bytes > 0 or self.growing_bytes_per_day > 0


UNKNOWN: Final = LongRun(unknown=1)
_EVER_MS: Final = 100 * 365 * DAY_MS
"""A limit that a log reaches later than this is no limit."""


class Limited(NamedTuple):
    """The limit that holds a log at a size, and that size."""

    by_time: bool
    size_bytes: float


def total(found: Iterable[LongRun]) -> LongRun:
    """Add up partitions."""
    sums = (sum(column) for column in zip(*found, strict=True))
    return LongRun(*sums)


def long_run(planned: PartitionPlan, now_ms: int) -> LongRun:
    """Return what one partition comes to hold.

    What a compacted partition comes to hold depends on its keys, which nobody read. Nor is it known of a partition that
    a run does not touch, or whose rate is not known.

    Args:
        planned: the plan of the partition.
        now_ms: epoch ms.
    """
    facts, policy = planned.facts, planned.policy
    if facts.log_end_offset == 0 and facts.size_bytes == 0:
        return LongRun()  # no record was ever written
    born = None if is_left_out(planned) else births(facts, now_ms)
    if born is None:
        return UNKNOWN
    if limited := limit_of(policy, born):
        return LongRun(as_int64(round(limited.size_bytes)))
    if born.size_bytes == 0:
        deleted = len(planned.deletion.segments) if planned.deletion else 0
        left_bytes = sum(segment.size_bytes for segment in facts.segments[deleted:])
        return LongRun(left_bytes)
    return LongRun(growing_bytes_per_day=round(born.bytes_per_ms * DAY_MS))


def is_left_out(planned: PartitionPlan) -> bool:
    """Return whether nothing can be said of a partition: it is compacted, or a run does not touch it."""
    policy = planned.policy
    return policy.cleanup_compact or policy.is_hands_off or planned.facts.held_since_ms is not None


def limit_of(policy: TopicPolicy, born: Births) -> Limited | None:
    """Return the limit under which a log holds least; None if no limit ever stops its growth."""
    if not policy.cleanup_delete:
        return None
    rate, segment_bytes = born.bytes_per_ms, segment_bytes_of(policy, born)
    limits = []
    if policy.retention_ms >= 0:
        limits.append(Limited(True, rate * policy.retention_ms + segment_bytes))
    if policy.retention_bytes >= 0 and born.size_bytes:
        limits.append(Limited(False, policy.retention_bytes + segment_bytes))
    reached = (limit for limit in limits if limit.size_bytes <= rate * _EVER_MS)
    return min(reached, key=lambda limit: limit.size_bytes, default=None)


def segment_bytes_of(policy: TopicPolicy, born: Births) -> float:
    """Return the size at which a broker begins a new segment, by its size or its age, at the present rate."""
    return min(policy.segment_bytes, born.bytes_per_ms * policy.segment_ms)
