"""Read an offset range of a log, every batch with its checksum: count its records, or find the first as late as a time.

The headers of batches are enough, but at the ends of the range, and in the batch that has the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from policies.record_deletion import RecordDeletion
from storage.errors import LogCleanerError
from storage.kernels import check_usable
from storage.kernels.layout import CONTROL, OFFSET, TIMESTAMP
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.names import TopicPartition
from storage.scan.extents import Wanted, cut_partition
from storage.scan.partitions import OffsetRange
from storage.scan.segments import open_extent
from storage.scan.slices import Damage, Slice
from storage.segment import Segment

EXTENT_BYTES: Final = 64 << 20


class Counted(NamedTuple):
    """The number of records of a range, or why nobody knows it."""

    records: int | None
    damage: str | None = None
    """The first thing that could not be read: file, byte and cause."""


def count_records(
    name: TopicPartition, segments: Sequence[Segment], offsets: OffsetRange, advance: Callable[[int], None]
) -> Counted:
    """Return the number of data records in a range of offsets.

    Args:
        name: of the partition.
        segments: of the log, ascending.
        offsets: the range.
        advance: hears the number of bytes read since the last call.

    Raises: SegmentGone, UnreadableFile, CorruptBatch.
    """
    records = 0
    for found in _read(name, segments, offsets, advance):
        if isinstance(found, Damage):
            return Counted(None, str(found.error))
        records += _count(found, offsets)
    return Counted(records)


def first_as_late(
    name: TopicPartition, segments: Sequence[Segment], offsets: OffsetRange, timestamp_ms: int
) -> int | None:
    """Return the offset of the first record of a range that is at or behind a time; None if there is none.

    The function asks no index, so that a wrong time index costs no record.

    Args:
        name: of the partition.
        segments: of the log, ascending.
        offsets: the range.
        timestamp_ms: epoch ms.

    Raises: CorruptBatch for the first batch up to there that cannot be read; SegmentGone, UnreadableFile.
    """
    for found in _read(name, segments, offsets, lambda _: None):
        if isinstance(found, Damage):
            raise found.error
        if (offset := _first_as_late(found, offsets, timestamp_ms)) is not None:
            return offset
    return None


def _read(
    name: TopicPartition, segments: Sequence[Segment], offsets: OffsetRange, advance: Callable[[int], None]
) -> Iterator[Slice | Damage]:
    for extent in cut_partition(name, segments, Wanted(offsets, None, EXTENT_BYTES, read_committed=False)):
        with open_extent(extent) as reader:
            yield from reader.slices_and_damage()
        advance(extent.size_bytes)


def _count(found: Slice, offsets: OffsetRange) -> int:
    if found.located is not None:
        inside = found.located[OFFSET]
        return int(((inside >= offsets.start) & (inside < offsets.end)).sum())
    table = found.table
    is_data = (table["attributes"] & CONTROL) == 0
    touches = (table["last_offset"] >= offsets.start) & (table["base_offset"] < offsets.end) & is_data
    is_inside = touches & (table["base_offset"] >= offsets.start) & (table["last_offset"] < offsets.end)
    records = int(table["record_count"][is_inside].sum(dtype=np.int64))
    for row in np.flatnonzero(touches & ~is_inside).tolist():
        batch = found.v2_batch(row)
        records += sum(offsets.start <= record.offset < offsets.end for record in batch.records())
    return records


def _first_as_late(found: Slice, offsets: OffsetRange, timestamp_ms: int) -> int | None:
    if found.located is not None:
        inside, times = found.located[OFFSET], found.located[TIMESTAMP]
        late = inside[(times >= timestamp_ms) & (inside >= offsets.start) & (inside < offsets.end)]
        return int(late[0]) if late.size else None
    table = found.table
    touches = (table["last_offset"] >= offsets.start) & (table["base_offset"] < offsets.end)
    for row in np.flatnonzero(touches & (table["max_timestamp"] >= timestamp_ms)).tolist():
        for record in found.v2_batch(row).records():
            if record.timestamp_ms >= timestamp_ms and offsets.start <= record.offset < offsets.end:
                return record.offset
    return None


def count_in(
    directory: Path, decided: RecordDeletion, expect: Callable[[int], None], advance: Callable[[int], None]
) -> Counted:
    """Return the number of records that a deletion makes unreadable; none if they cannot be read, or without kernels.

    Args:
        directory: of the partition.
        decided: the deletion.
        expect: hears the number of bytes that are going to be read.
        advance: hears the number of bytes read since the last call.
    """
    facts, offsets = decided.facts, OffsetRange(decided.facts.log_start_offset, decided.log_start_offset)
    try:
        check_usable()
        segments = plan_recovery(list_partition(directory)).listing.segments
        touched = [s for s in segments if s.base_offset < offsets.end]
        expect(sum(segment.size_bytes for segment in touched))
        return count_records(facts.topic_partition, touched, offsets, advance)
    except LogCleanerError as error:
        return Counted(None, str(error))
