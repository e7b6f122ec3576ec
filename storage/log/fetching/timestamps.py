"""Look up: from a timestamp to the first record that is as late.

Only the first segment whose largest timestamp is late enough is searched, as by a broker: what it does not have is not
looked for in a later one.

Source: Kafka UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp, ``FileRecords.searchForTimestamp``,
``RecordBatch.offsetOfMaxTimestamp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from storage.log.fetching.open_segment import OpenSegment
from storage.log.fetching.open_segments import OpenSegments
from storage.log.fetching.view import LogView
from storage.records import Batch, PositionedHeader
from storage.records.as_late import TimedRecord, first_as_late, read_as_late
from storage.records.record import NO_LEADER_EPOCH, NO_TIMESTAMP
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


_NOTHING_TIERED = TimestampOffset(-1, -1, NO_LEADER_EPOCH)
"""What a broker answers that keeps no segment in remote storage."""


def lookup_timestamp(view: LogView, timestamp_ms: int) -> TimestampOffset | None:
    """Find the first record at or behind a timestamp, or what a ``SpecialTimestamp`` means; None if there is none.

    Args:
        view: the log.
        timestamp_ms: epoch ms, or a ``SpecialTimestamp``.

    Raises: CorruptBatch, CorruptCheckpoint (the leader epochs), UnreadableFile.
    """
    if min(SpecialTimestamp) <= timestamp_ms < 0:
        return _lookup_special(view, SpecialTimestamp(timestamp_ms))
    if not view.segments:
        return None
    last = len(view.segments) - 1
    place = view.opened.first_as_late(view.segments[:last], timestamp_ms)
    reader = view.reader(place)
    if place == last and reader.effective_ms < timestamp_ms:
        return None
    return find_in_segment(reader, timestamp_ms, view.start_offset)


def _lookup_special(view: LogView, target: SpecialTimestamp) -> TimestampOffset | None:
    match target:
        case SpecialTimestamp.LATEST:
            return TimestampOffset(NO_TIMESTAMP, view.end_offset, view.latest_epoch())
        case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
            return TimestampOffset(NO_TIMESTAMP, view.start_offset, view.earliest_epoch())
        case SpecialTimestamp.MAX_TIMESTAMP:
            return _find_largest(view)
        case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
            return _NOTHING_TIERED


def lookup_in(segments: Sequence[Segment], offsets: tuple[int, int], timestamp_ms: int) -> TimestampOffset | None:
    """Look a timestamp up once, in segments that nobody opened as a ``Log``.

    Args:
        segments: ascending.
        offsets: log start and log end.
        timestamp_ms: epoch ms, or a ``SpecialTimestamp``.

    Raises: CorruptBatch, UnreadableFile.
    """
    opened = OpenSegments()
    try:
        view = LogView(segments[0].directory if segments else Path(), opened, segments, None, *offsets)
        return lookup_timestamp(view, timestamp_ms)
    finally:
        opened.close()


def find_in_segment(reader: OpenSegment, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """Find the first record of a segment, at or behind an offset, that is as late; None if there is none.

    Raises: CorruptBatch, UnreadableFile.
    """
    found = reader.find_as_late(timestamp_ms, start_offset)
    while found is not None:
        if found.header.max_timestamp_ms >= timestamp_ms:
            record = _first_as_late(reader, found, timestamp_ms, start_offset)
            if record is not None:
                return TimestampOffset(*record, _epoch(found))
        found = reader.batch_behind(found)
    return None


def _first_as_late(
    reader: OpenSegment, found: PositionedHeader, timestamp_ms: int, start_offset: int
) -> TimedRecord | None:
    batch = reader.whole(found)
    if isinstance(batch, Batch):
        return first_as_late(batch, timestamp_ms, start_offset)
    return read_as_late(batch.records(), timestamp_ms, start_offset)


def _find_largest(view: LogView) -> TimestampOffset | None:
    """Find the first record with the largest timestamp, in the first segment that has it.

    A log without timestamps has -1 for it, and the first record of the first batch has that; but none of version 0.
    """
    largest_ms, offset, holder = NO_TIMESTAMP - 1, 0, None
    for place in range(len(view.segments)):
        reader = view.reader(place)
        if reader.largest().timestamp_ms > largest_ms:
            (largest_ms, offset), holder = reader.largest(), place
    if holder is None:
        return None
    reader = view.reader(holder)
    found = reader.find_offset(offset)
    while found is not None and found.header.max_timestamp_ms != largest_ms:
        found = reader.batch_behind(found)
    if found is None or found.header.magic == 0:
        return None
    records = reader.whole(found).records()
    place_found = next((TimedRecord(r.timestamp_ms, r.offset) for r in records if r.timestamp_ms == largest_ms), None)
    return TimestampOffset(*place_found, _epoch(found)) if place_found else None


def _epoch(found: PositionedHeader) -> int | None:
    """Return the leader epoch of a batch; None if it has none."""
    epoch = found.header.partition_leader_epoch
    return epoch if epoch >= 0 else None
