"""The configuration of one log: what rolls a segment, what an append may be, how densely it is indexed."""

from __future__ import annotations

from dataclasses import dataclass

_WEEK_MS = 7 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configs that writing needs, each with Kafka's default; sizes in bytes, times in ms."""

    segment_bytes: int = 1 << 30
    segment_ms: int = _WEEK_MS
    """Already the smaller of ``segment.ms`` and ``max.compaction.lag.ms`` where the topic is compacted."""
    segment_jitter_ms: int = 0
    """Taken off ``segment_ms`` as it is; whoever wants it random draws it, as Kafka does up to this key."""
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = (1 << 20) + 12
    """Of one record batch, its 12 bytes of offset and length counted."""
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
