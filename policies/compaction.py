"""Decide which part of a log is dirty, whether a round is worth its cost, and which segments are compacted together.

Pure functions over facts. Source: Kafka LogCleanerManager.cleanableOffsets, LogToClean, Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts, SegmentFacts
from policies.reasons import Limit, Reason, ReasonCode, age_beside, as_int64, share_beside
from policies.retention import NO_HIGH_WATERMARK, before_missing

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
"""The most offsets of a segment: an index holds offsets relative to its segment's base as 32-bit integers."""


class Cleanable(NamedTuple):
    """The dirty section ``[first_dirty_offset, first_uncleanable_offset)``, with the reason for its upper end."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    bound: Reason
    """Why the segments from ``first_uncleanable_offset`` on are not compacted."""
    clean_bytes: int
    dirty_bytes: int
    is_first: bool = False
    """True if no compaction was checkpointed: the dirty section then begins at the log start."""
    checkpoint_is_invalid: bool = False
    """True if the checkpoint lies outside the log: a run then rewrites it even if the run compacts nothing."""

    @property
    def dirty_ratio(self) -> float:
        """The share of dirty bytes. As in Kafka, a segment across the first dirty offset counts on both sides."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


class CompactionRound(NamedTuple):
    """One round over a partition: it reads every segment below ``end_offset``. Each group becomes one segment."""

    first_dirty_offset: int
    end_offset: int
    groups: tuple[tuple[int, ...], ...]
    """The base offsets of the segments of each group, ascending."""


def cleanable(log: PartitionFacts, policy: TopicPolicy, now_ms: int) -> Cleanable:
    """Find the dirty section of a log.

    Args:
        log: facts of the partition, with ``last_stable_offset`` if the high watermark is known.
        policy: lags and ratios.
        now_ms: epoch ms.

    Returns:
        The section. Its upper end is aligned down to a segment's base offset, so it contains no part of a segment.
    """
    first_dirty, is_invalid = _first_dirty(log)
    bound_offset, bound = _upper_bound(log, policy, first_dirty, now_ms)
    first_uncleanable = _aligned(log, max(bound_offset, first_dirty))
    return Cleanable(
        first_dirty,
        first_uncleanable,
        bound,
        is_first=is_invalid or log.cleaner_checkpoint is None,
        checkpoint_is_invalid=is_invalid,
        clean_bytes=_bytes_between(log, -1, first_dirty),
        dirty_bytes=_bytes_between(log, min(first_dirty, first_uncleanable), first_uncleanable),
    )


def refusal(
    log: PartitionFacts, policy: TopicPolicy, section: Cleanable, now_ms: int, *, forced: bool
) -> Reason | None:
    """Return why the dirty section is not compacted now; None if it is. ``forced`` disregards the dirty ratio."""
    if section.dirty_bytes == 0:
        since = f"compacted up to offset {section.first_dirty_offset}, nothing newer is cleanable"
        return Reason(ReasonCode.NOTHING_DIRTY, "nothing is cleanable yet" if section.is_first else since)
    if forced or cause(log, policy, section, now_ms) is not None:
        return None
    least = policy.value_of("min.cleanable.dirty.ratio")
    ratio = share_beside(section.dirty_ratio, policy.min_cleanable_dirty_ratio)
    text = f"dirty ratio {ratio} is not above {least.sentence}"
    return Reason(ReasonCode.DIRTY_RATIO_LOW, text, limit=Limit(least, section.dirty_ratio))


def cause(log: PartitionFacts, policy: TopicPolicy, section: Cleanable, now_ms: int) -> Limit | None:
    """Return the limit that makes a round due: the dirty ratio or, first, the age of a dirty record; None if none does.

    Args:
        log, policy, now_ms: as for ``cleanable``.
        section: the dirty section.
    """
    age_ms = now_ms - _oldest_dirty_ms(log, section, now_ms)
    if age_ms > policy.max_compaction_lag_ms:  # the dirty ratio then does not matter
        return Limit(policy.value_of("max.compaction.lag.ms"), age_ms)
    if section.dirty_ratio > policy.min_cleanable_dirty_ratio:
        return Limit(policy.value_of("min.cleanable.dirty.ratio"), section.dirty_ratio)
    return None


def compaction_round(log: PartitionFacts, policy: TopicPolicy, section: Cleanable) -> CompactionRound:
    """Group all segments below the first uncleanable offset. As in Kafka, clean segments take part."""
    return CompactionRound(
        section.first_dirty_offset,
        section.first_uncleanable_offset,
        grouped(log.segments, policy, section.first_uncleanable_offset, section.first_uncleanable_offset),
    )


def grouped(
    segments: Sequence[SegmentFacts], policy: TopicPolicy, end_offset: int, first_uncleanable_offset: int
) -> tuple[tuple[int, ...], ...]:
    """Group the segments below an offset, oldest first, and return the base offsets of each group.

    A segment joins the group before it as long as log, index and offset range stay within a segment's limits.

    Args:
        segments: the segments of the log, ascending.
        policy: states the limits.
        end_offset: the end of the round. If it lies within a segment, the whole segment belongs to the round.
        first_uncleanable_offset: greater than every offset of the last segment.
    """
    segments = [segment for segment in segments if segment.base_offset < end_offset]
    bases = [segment.base_offset for segment in segments]
    groups: list[_Group] = []
    for segment, upper_offset in zip(segments, [*bases, first_uncleanable_offset][1:], strict=True):
        if not groups or not groups[-1].has_room_for(segment, upper_offset - 1, policy):
            groups.append(_Group(segment.base_offset))
        groups[-1].add(segment)
    return tuple(tuple(group.bases) for group in groups)


@dataclass(slots=True)
class _Group:
    """The segments that become one segment, with running totals."""

    base_offset: int
    bases: list[int] = field(default_factory=list)
    size_bytes: int = 0
    index_bytes: int = 0
    time_index_bytes: int = 0

    def has_room_for(self, segment: SegmentFacts, last_offset_max: int, policy: TopicPolicy) -> bool:
        return (
            self.size_bytes + segment.size_bytes <= policy.segment_bytes
            and self.index_bytes + segment.index_bytes <= policy.segment_index_bytes
            and self.time_index_bytes + segment.time_index_bytes <= policy.segment_index_bytes
            and (segment.size_bytes == 0 or last_offset_max - self.base_offset <= RELATIVE_OFFSET_MAX)
        )

    def add(self, segment: SegmentFacts) -> None:
        self.bases.append(segment.base_offset)
        self.size_bytes += segment.size_bytes
        self.index_bytes += segment.index_bytes
        self.time_index_bytes += segment.time_index_bytes


def _first_dirty(log: PartitionFacts) -> tuple[int, bool]:
    """Return the first dirty offset, and whether the checkpoint is invalid.

    A checkpoint outside the log is invalid: the dirty section then begins at the log start.
    """
    checkpoint = log.cleaner_checkpoint
    if checkpoint is None:
        return log.log_start_offset, False
    if checkpoint < log.log_start_offset or checkpoint > log.log_end_offset:
        return log.log_start_offset, True
    return checkpoint, False


def _upper_bound(log: PartitionFacts, policy: TopicPolicy, first_dirty: int, now_ms: int) -> tuple[int, Reason]:
    """Return the lowest of: last stable offset, active segment, first segment within min.compaction.lag.ms.

    One rule is ours: a round ends below missing records. Beyond them the round would take tombstones of keys that the
    missing records may have. It would also put records from behind the gap into a segment that begins before it: then
    nobody could put the missing records back.
    """
    active_base = log.active.base_offset
    bound = (active_base, Reason(ReasonCode.ACTIVE_SEGMENT, "the active segment is never compacted"))
    if log.high_watermark is None or log.last_stable_offset is None:
        return log.log_start_offset, NO_HIGH_WATERMARK
    if (fresh := _first_within_lag(log, policy, first_dirty, now_ms)) is not None and fresh.base_offset < bound[0]:
        bound = fresh.base_offset, _within_lag(fresh, policy, now_ms)
    if log.last_stable_offset < bound[0]:
        bound = (log.last_stable_offset, _unstable(log))
    if log.missing and log.missing[0].base_offset < bound[0]:
        bound = log.missing[0].base_offset, before_missing(log.missing[0], "; a round ends below them")
    return bound


def _within_lag(fresh: SegmentFacts, policy: TopicPolicy, now_ms: int) -> Reason:
    lag, age_ms = policy.value_of("min.compaction.lag.ms"), now_ms - fresh.largest_timestamp_ms
    age = age_beside(age_ms, policy.min_compaction_lag_ms)
    text = f"the newest record of {fresh.base_offset} is {age} old, within {lag.sentence}"
    until_ms = as_int64(fresh.largest_timestamp_ms + policy.min_compaction_lag_ms)
    return Reason(ReasonCode.MIN_COMPACTION_LAG, text, until_ms, Limit(lag, age_ms))


def _unstable(log: PartitionFacts) -> Reason:
    if log.last_stable_offset == log.high_watermark:
        return Reason(ReasonCode.ABOVE_HIGH_WATERMARK, f"reaches above the high watermark {log.high_watermark}")
    return Reason(ReasonCode.OPEN_TRANSACTION, f"a transaction is open since offset {log.last_stable_offset}")


def _first_within_lag(log: PartitionFacts, policy: TopicPolicy, first_dirty: int, now_ms: int) -> SegmentFacts | None:
    if policy.min_compaction_lag_ms <= 0:
        return None
    sealed = log.segments[_floor(log, first_dirty) : -1]
    return next((s for s in sealed if s.largest_timestamp_ms > now_ms - policy.min_compaction_lag_ms), None)


def _aligned(log: PartitionFacts, offset: int) -> int:
    """Return the base offset of the segment that holds ``offset``; of the active segment if none does."""
    return log.segments[_floor(log, offset)].base_offset


def _floor(log: PartitionFacts, offset: int) -> int:
    """Return the place of the segment with the greatest base at or below ``offset``; 0 if there is none."""
    return max(bisect_right(log.segments, offset, key=attrgetter("base_offset")) - 1, 0)


def _bytes_between(log: PartitionFacts, start: int, end: int) -> int:
    """Return the size of Kafka's ``values(start, end)``: from the segment with ``start`` to before base ``end``."""
    if start == end:
        return 0
    return sum(s.size_bytes for s in log.segments[_floor(log, start) :] if s.base_offset < end)


def _oldest_dirty_ms(log: PartitionFacts, section: Cleanable, now_ms: int) -> int:
    """Return the time of the oldest dirty batch, as far as it was read (``first_batch_ms``); ``now_ms`` if none was."""
    dirty = log.segments[_floor(log, section.first_dirty_offset) : -1]
    return min((s.first_batch_ms for s in dirty if s.first_batch_ms > 0), default=now_ms)
