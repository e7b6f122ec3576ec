"""Look up: from a timestamp to the first record that is as late.

Source: Kafka UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp,
``FileRecords.searchForTimestamp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from storage.errors import CorruptIndex
from storage.indexes import TimeIndexEntry, floor_by_timestamp, parse_time_index
from storage.log.read import companion_bytes, read_segment
from storage.names import FileKind
from storage.records import Record
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


class Bounds(NamedTuple):
    """Log start and log end (exclusive)."""

    start_offset: int
    end_offset: int


def lookup_timestamp(
    segments: Iterable[tuple[Segment, int]], bounds: Bounds, timestamp_ms: int
) -> TimestampOffset | None:
    """Find the first record at or behind a timestamp, or what a ``SpecialTimestamp`` means; None if there is none.

    Only the first segment whose largest timestamp is late enough is searched, as by a broker.

    Args:
        segments: ascending, each with its largest record timestamp, -1 for none; taken only as far as needed.
        bounds: of the log.
        timestamp_ms: epoch ms, or a ``SpecialTimestamp``.

    Raises: CorruptBatch, UnreadableFile, and what ``segments`` raises.
    """
    if min(SpecialTimestamp) <= timestamp_ms < 0:
        return _lookup_special(segments, bounds, SpecialTimestamp(timestamp_ms))
    for segment, largest_ms in segments:
        if (largest_ms if largest_ms >= 0 else segment.mtime_ms) >= timestamp_ms:
            return _find_by_timestamp(segment, timestamp_ms, bounds)
    return None


def _lookup_special(
    segments: Iterable[tuple[Segment, int]], bounds: Bounds, target: SpecialTimestamp
) -> TimestampOffset | None:
    match target:
        case SpecialTimestamp.LATEST:
            return TimestampOffset(-1, bounds.end_offset)
        case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
            return TimestampOffset(-1, bounds.start_offset)
        case SpecialTimestamp.MAX_TIMESTAMP:
            newest = max(segments, key=lambda one: one[1], default=None)
            return _find_largest(*newest, bounds.end_offset) if newest and newest[1] >= 0 else None
        case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
            return None  # nothing here is in remote storage


def _find_by_timestamp(segment: Segment, timestamp_ms: int, bounds: Bounds) -> TimestampOffset | None:
    """Find the first record of the segment, at or behind the log start, with that timestamp or a later one."""
    floor = floor_by_timestamp(time_entries(segment), timestamp_ms)
    first_offset = max(bounds.start_offset, floor.offset if floor else segment.base_offset)
    for batch in read_segment(segment, first_offset, bounds.end_offset):
        if batch.header.max_timestamp_ms < timestamp_ms:
            continue
        for record in batch.records():
            if record.timestamp_ms >= timestamp_ms and record.offset >= bounds.start_offset:
                return TimestampOffset(record.timestamp_ms, record.offset)
    return None


def _find_largest(segment: Segment, largest_ms: int, end_offset: int) -> TimestampOffset | None:
    """Find the first record of the segment that has its largest timestamp."""
    for batch in read_segment(segment, segment.base_offset, end_offset):
        if batch.header.max_timestamp_ms == largest_ms:
            return _first_with(batch.records(), largest_ms)
    return None


def _first_with(records: Sequence[Record], timestamp_ms: int) -> TimestampOffset | None:
    return next((TimestampOffset(r.timestamp_ms, r.offset) for r in records if r.timestamp_ms == timestamp_ms), None)


def time_entries(segment: Segment) -> list[TimeIndexEntry]:
    """Read the entries of the ``.timeindex``; none if it is absent or damaged. Raises: UnreadableFile."""
    with suppress(CorruptIndex):
        return parse_time_index(companion_bytes(segment, FileKind.TIME_INDEX), segment.base_offset, segment.log.path)
    return []
