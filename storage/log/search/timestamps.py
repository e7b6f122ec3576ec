"""The answer of a log to a timestamp, or to one of the words that Kafka's ListOffsets takes for one.

Source: Kafka UnifiedLog.fetchOffsetByTimestamp, ListOffsetsRequest.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from storage.log.search.search import LogSearch
from storage.log.search.steps import Lookup
from storage.segment import Segment


class SpecialTimestamp(IntEnum):
    """Timestamps that a lookup takes for a word. Source: Kafka ListOffsetsRequest."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class TimestampOffset(NamedTuple):
    """An offset found by time; ``timestamp_ms`` is its record's, -1 for the start or the end of the log."""

    timestamp_ms: int
    offset: int
    leader_epoch: int | None = None
    """The epoch of its batch. For the start or the end of the log, the epoch by ``leader-epoch-checkpoint``."""


def lookup_record(segments: Sequence[Segment], log_start_offset: int, timestamp_ms: int) -> TimestampOffset | None:
    """Find the first record at or behind a timestamp, or with the largest one; None if there is none.

    Args:
        segments: ascending.
        log_start_offset: as of ``LogSearch``.
        timestamp_ms: epoch ms, or ``SpecialTimestamp.MAX_TIMESTAMP``.

    Raises: CorruptBatch, UnreadableFile.
    """
    search = LogSearch(segments, log_start_offset, trusts_times=False)
    if timestamp_ms == SpecialTimestamp.MAX_TIMESTAMP:
        return _answer(search.newest())
    return _answer(search.by_timestamp(timestamp_ms))


def _answer(found: Lookup) -> TimestampOffset | None:
    if found.record is None or found.batch is None:
        return None
    epoch = found.batch.leader_epoch
    return TimestampOffset(found.record.timestamp_ms, found.record.offset, epoch if epoch >= 0 else None)
