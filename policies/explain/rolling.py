"""Find the conditions that close the active segment, and their moments. Source: Kafka LogSegment.shouldRoll,
LogConfig.maxSegmentMs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.explain.observations import ActiveUse
from policies.facts import PartitionFacts
from policies.reasons import as_int64, duration

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_INDEX_ENTRY_BYTES: Final = 8
_TIME_INDEX_ENTRY_BYTES: Final = 12


class Roll(NamedTuple):
    """The conditions under which a broker closes the active segment. A broker checks them only when it appends."""

    key: str
    """``segment.ms``, or ``max.compaction.lag.ms`` where that is shorter and the topic is compacted."""
    earliest_ms: int | None
    """A record with this timestamp closes the segment at the earliest, epoch ms. None: the clock of the broker counts
    from the moment at which it opened the segment."""
    latest_ms: int | None
    """A record with this timestamp closes the segment in any case.

    It differs from ``earliest_ms`` by the random jitter.
    """
    bytes_left: int
    """The bytes that are left: a larger batch closes the segment."""
    index_entries_left: int
    """The entries that are left in the fuller one of the two indexes: behind them, the next batch closes the
    segment.
    """

    @property
    def index_bytes_left(self) -> int:
        """The entries that are left, as a number of the indexes' bytes."""
        return self.index_entries_left * _INDEX_ENTRY_BYTES


def roll_of(log: PartitionFacts, policy: TopicPolicy, use: ActiveUse) -> Roll | None:
    """Return the conditions that close the active segment; None if it is empty, because nothing closes it then.

    Args:
        log: the partition.
        policy: states the limits.
        use: the first timestamp and the index entries of the active segment.
    """
    if not log.segments or not log.active.size_bytes:
        return None
    key, limit_ms = "segment.ms", policy.segment_ms
    if policy.cleanup_compact and policy.max_compaction_lag_ms < limit_ms:
        key, limit_ms = "max.compaction.lag.ms", policy.max_compaction_lag_ms
    earliest_ms = latest_ms = None
    if use.first_batch_ms >= 0:
        latest_ms = as_int64(use.first_batch_ms + limit_ms + 1)
        earliest_ms = latest_ms - jitter_max_ms(policy)
    slots = policy.segment_index_bytes // _INDEX_ENTRY_BYTES - use.index_entries
    # Kafka keeps the last slot of a time index free for the entry that seals the segment
    time_slots = policy.segment_index_bytes // _TIME_INDEX_ENTRY_BYTES - 1 - use.time_index_entries
    bytes_left = policy.segment_bytes - log.active.size_bytes
    return Roll(key, earliest_ms, latest_ms, max(bytes_left, 0), max(min(slots, time_slots), 0))


def closing_sooner(log: PartitionFacts, policy: TopicPolicy, key: str) -> str:
    """Return the command that lets a broker close segments sooner: after a day, an hour, or half of what holds now.

    Args:
        log: the partition.
        policy: states the limits.
        key: ``segment.ms``, or ``max.compaction.lag.ms``.
    """
    now_ms = policy.segment_ms if key == "segment.ms" else policy.max_compaction_lag_ms
    sooner_ms = next((usual_ms for usual_ms in (_DAY_MS, _HOUR_MS) if usual_ms < now_ms), max(now_ms // 2, 1))
    if key != "segment.ms":
        sooner_ms = max(sooner_ms, policy.min_compaction_lag_ms)
    topic = log.topic_partition.topic
    change = f"--alter --entity-type topics --entity-name {topic} --add-config {key}={sooner_ms}"
    return f"kafka-configs.sh --bootstrap-server HOST:PORT {change} ({duration(sooner_ms)})"


def jitter_max_ms(policy: TopicPolicy) -> int:
    """Return the most by which a broker shortens ``segment.ms``, at random for each segment."""
    return max(min(policy.segment_jitter_ms, policy.segment_ms) - 1, 0)
