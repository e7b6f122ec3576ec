"""Count the records of an offset range by the headers of their batches; only batches at its ends are decompressed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from policies.record_deletion import RecordDeletion
from storage.errors import LogCleanerError
from storage.kernels import check_usable
from storage.kernels.layout import CONTROL, OFFSET
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.names import TopicPartition
from storage.scan.extents import Wanted, cut_partition
from storage.scan.partitions import OffsetRange
from storage.scan.segments import open_extent
from storage.scan.slices import Damage, Slice
from storage.segment import Segment

EXTENT_BYTES: Final = 64 << 20


def count_records(
    name: TopicPartition, segments: Sequence[Segment], offsets: OffsetRange, advance: Callable[[int], None]
) -> int | None:
    """Return the number of data records in a range of offsets; None if a part of it is damaged.

    Args:
        name: of the partition.
        segments: of the log, ascending.
        offsets: the range.
        advance: hears the number of bytes read since the last call.

    Raises: SegmentGone, UnreadableFile, CorruptBatch.
    """
    records = 0
    for extent in cut_partition(name, segments, Wanted(offsets, None, EXTENT_BYTES, read_committed=False)):
        with open_extent(extent) as reader:
            for found in reader.slices_and_damage():
                if isinstance(found, Damage):
                    return None
                records += _count(found, offsets)
        advance(extent.size_bytes)
    return records


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


def count_in(
    directory: Path, decided: RecordDeletion, expect: Callable[[int], None], advance: Callable[[int], None]
) -> int | None:
    """Return the number of records that a deletion makes unreadable; None if they cannot be read, or without kernels.

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
    except LogCleanerError:
        return None
