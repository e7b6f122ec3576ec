"""The configuration of one log: when a segment is rolled, which appends are let in, how they are written, and how
densely they are indexed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from storage.codecs.compression import Compression

_WEEK_MS = 7 * 24 * 60 * 60 * 1000
_HOUR_MS = 60 * 60 * 1000
NO_LIMIT_MS: Final = (1 << 63) - 1
"""The value of a time or an interval that sets no limit."""
_NEVER: Final = NO_LIMIT_MS


class TimestampType(IntEnum):
    """The clock of a record's timestamp: ``message.timestamp.type``, and the bit of a batch's attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def _drawn(below: int) -> int:
    from random import randrange  # noqa: PLC0415 (a run that writes no log need not load it)

    return randrange(below)  # noqa: S311 (it spreads rolls, it guards nothing)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configs that writing needs, each with Kafka's default; sizes in bytes, times in ms."""

    segment_bytes: int = 1 << 30
    segment_ms: int = _WEEK_MS
    """Already the smaller of ``segment.ms`` and ``max.compaction.lag.ms`` where the topic is compacted."""
    segment_jitter_ms: int = 0
    """The greatest deduction from ``segment_ms``; each segment draws its own when it is opened."""
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = (1 << 20) + 12
    """The most bytes of one record batch, with its 12 bytes of offset and length."""
    producer_id_expiration_ms: int = 24 * _HOUR_MS
    compression_type: str = "producer"
    """``producer``: as the batch came; else ``uncompressed``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``."""
    gzip_level: int = -1
    lz4_level: int = 9
    zstd_level: int = 3
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = _NEVER
    timestamp_after_max_ms: int = _HOUR_MS
    is_compacted: bool = False
    """Whether ``cleanup.policy`` has ``compact``: then every record needs a key."""
    flush_messages: int = _NEVER
    flush_ms: int = _NEVER
    preallocate: bool = False
    draw: Callable[[int], int] = field(default=_drawn, compare=False)
    """Draws a number from 0 to below the given one: the jitter of a segment."""

    def level_of(self, codec: Compression) -> int | None:
        """Return the level at which the topic has a codec; None for a codec without levels."""
        levels = {Compression.GZIP: self.gzip_level, Compression.LZ4: self.lz4_level, Compression.ZSTD: self.zstd_level}
        return levels.get(codec)
