"""Predict how long a disk lasts at its present growth, and the size of its logs in the long run.

A daemon watches the disk: ``Growth`` is the mean growth of the used space between observations. On the first day the
mean is over all observations. Later it forgets older observations, with a time constant of a day.

A single look has no observations, but segments with times: ``runway`` takes the bytes born lately, and the bytes that
retention will free meanwhile. It computes what the logs hold at each moment to come. So it can tell a disk that fills
until the first segments expire from a disk that fills for ever.

In the long run, while a partition is written as lately and its limits stay, retention deletes whole segments: the log
holds the bytes that its limit keeps, and up to one segment more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.forecast.births import DAY_MS, Births, births, seen_ms
from policies.plan import PartitionPlan, Plan
from policies.reasons import as_int64

if TYPE_CHECKING:
    from policies.rescue import Volume

_EVER_MS: Final = 100 * 365 * DAY_MS
"""The latest time, from now, at which a limit counts: a limit that a log reaches later is no limit."""

_MEMORY_SECONDS: Final = 86_400.0
OBSERVED_SECONDS_MIN: Final = 3_600.0
"""Over a shorter time, a burst of some minutes would pass for the rule."""

_STILL: Final = 1e-6
"""Bytes per ms. A slower growth counts as none, because sums of floats leave a rest."""
_HOUR_MS: Final = 3_600_000


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
        """Return the growth after another observation. An observation that is not the latest changes nothing."""
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


@dataclass(frozen=True, slots=True)
class Runway:
    """The time until a file system is full, if its logs go on being written as lately and retention is applied."""

    log_dirs: tuple[str, ...]
    free_bytes: int
    born_bytes_per_day: int
    """The bytes that are written each day to the logs that count."""
    days: float | None
    """The days until the file system is full; infinite if the counted partitions never fill it, None if no rate is
    known.
    """
    counted: int
    """The partitions that count."""
    left_out: int
    """The number of partitions that do not count: compacted, untouched, or with an unknown rate."""

    @property
    def is_endless(self) -> bool:
        """True if the file system does not fill: every partition on it counts, and retention keeps up with all."""
        return self.days == math.inf and not self.left_out

    @property
    def is_endless_in_part(self) -> bool:
        """True if the counted partitions do not fill the file system, and the growth of the others is not known."""
        return self.days == math.inf and self.left_out > 0


def runway(volume: Volume, plan: Plan) -> Runway:
    """Return the time until a file system is full.

    Args:
        volume: the file system, with the log dirs on it.
        plan: of these log dirs, and others.
    """
    partitions, now_ms = [p for p in plan.partitions if p.facts.log_dir in volume.log_dirs], seen_ms(plan)
    changes: list[_Change] = []
    drops: Counter[int] = Counter()
    counted, rate = 0, 0.0
    for planned in partitions:
        gone = planned.deletion.segments if planned.deletion else ()
        drops[0] += sum(segment.frees_bytes for segment in gone)
        born = None if is_left_out(planned) else births(planned.facts, now_ms)
        if born is not None:
            counted, rate = counted + 1, rate + born.bytes_per_ms
            changes += _changes(planned, born, len(gone))
            if (limited := limit_of(planned.policy, born)) and limited.by_time:
                _add_expiries(planned, len(gone), now_ms, drops)
    changes += (_Change(hour * _HOUR_MS, 0.0, -size_bytes) for hour, size_bytes in drops.items())
    full_ms = _full_after_ms(changes, volume.free_bytes) if counted else None
    days = None if full_ms is None else full_ms / DAY_MS
    return Runway(volume.log_dirs, volume.free_bytes, round(rate * DAY_MS), days, counted, len(partitions) - counted)


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
        """False if some partitions are unknown and all others are empty: 0 bytes would be no answer."""
        return not self.unknown or self.size_bytes > 0 or self.growing_bytes_per_day > 0


UNKNOWN: Final = LongRun(unknown=1)


class Limited(NamedTuple):
    """The limit that holds a log at a size, and that size."""

    by_time: bool
    size_bytes: float


def long_run(planned: PartitionPlan, now_ms: int) -> LongRun:
    """Return the size that one partition reaches.

    The size of a compacted partition depends on its keys, which nobody read. Also unknown is the size of a partition
    that a run does not touch, or whose rate is not known.

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


def total(found: Iterable[LongRun]) -> LongRun:
    """Add up partitions."""
    sums = (sum(column) for column in zip(*found, strict=True))
    return LongRun(*sums)


def is_left_out(planned: PartitionPlan) -> bool:
    """Return whether the growth of a partition cannot be told, because it is compacted, or a run does not touch it."""
    policy = planned.policy
    return policy.cleanup_compact or policy.is_hands_off or planned.facts.held_since_ms is not None


def limit_of(policy: TopicPolicy, born: Births) -> Limited | None:
    """Return the limit that keeps the least of a log; None if no limit ever stops its growth."""
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


class _Change(NamedTuple):
    """A moment, in ms from now, at which the speed of growth changes, or bytes are freed."""

    after_ms: float
    bytes_per_ms: float
    size_bytes: int


def _full_after_ms(changes: Iterable[_Change], free_bytes: int) -> float:
    """Return the ms until the added bytes take all free space; infinite if that never happens."""
    at_ms = used_bytes = rate = 0.0
    for change in sorted(changes):
        grown_bytes = used_bytes + rate * (change.after_ms - at_ms)
        if rate > _STILL and grown_bytes >= free_bytes:
            break
        at_ms, used_bytes, rate = change.after_ms, grown_bytes + change.size_bytes, rate + change.bytes_per_ms
    return at_ms + max(free_bytes - used_bytes, 0) / rate if rate > _STILL else math.inf


def _changes(planned: PartitionPlan, born: Births, gone: int) -> Iterator[_Change]:
    """Yield when a partition begins to grow, and when its limit stops the growth: then as many bytes go as come."""
    rate = born.bytes_per_ms
    if not rate:
        return
    yield _Change(0, rate, 0)
    if limited := limit_of(planned.policy, born):
        held_bytes = 0 if limited.by_time else sum(s.size_bytes for s in planned.facts.segments[gone:])
        yield _Change(max(limited.size_bytes - held_bytes, 0) / rate, -rate, 0)


def _add_expiries(planned: PartitionPlan, gone: int, now_ms: int, drops: Counter[int]) -> None:
    """Add the bytes of the present segments that time retention will free: hour from now -> bytes."""
    newest_ms = 0
    for segment in planned.facts.segments[gone:]:
        newest_ms = max(newest_ms, segment.largest_timestamp_ms)
        hour = -(-(newest_ms + planned.policy.retention_ms - now_ms) // _HOUR_MS)
        drops[max(hour, 0)] += segment.frees_bytes
