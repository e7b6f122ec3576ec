"""Glance at the ends of a segment's files: two small reads of the ``.log``, one of the ``.timeindex``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from policies.findings.shapes.of_files import TIME_ENTRY_BYTES
from policies.findings.shapes.symptoms import NO_EPOCH, OverflowingSegment, SegmentGlance, ZeroTail
from storage.directory import opened
from storage.errors import LogCleanerError, as_unreadable
from storage.holes import data_extents
from storage.indexes import RELATIVE_OFFSET_MAX
from storage.kernels.layout import KEY_BYTES
from storage.log.end import find_end
from storage.log.file_records.positions import counted_end_of
from storage.log.read import last_offset_entry
from storage.names import FileKind, parse_topic_partition
from storage.records import BatchHeader, iter_headers
from storage.records.header import OFFSET_MAX
from storage.segment import Segment, SegmentFile, reading

_TAIL_BYTES: Final = 64
"""No batch ends with so many zeros unless its last value does."""
_CHUNK_BYTES: Final = 1 << 20
_WALKED_BYTES_MAX: Final = 1 << 20
"""The headers of so large a segment are read although it has no index entry to begin at."""


def glance_at(segments: Sequence[Segment], *, with_keys: bool) -> tuple[SegmentGlance, ...]:
    """Look at the ends of all segments of a partition.

    Args:
        segments: ascending.
        with_keys: whether the records of the first batches are asked for their keys.

    Raises: UnreadableFile.
    """
    if not segments:
        return ()
    directory = segments[0].directory
    with as_unreadable(directory), opened(directory) as parent:
        return tuple([_glance(segment, parent, with_keys=with_keys) for segment in segments])


def _glance(segment: Segment, parent: int, *, with_keys: bool) -> SegmentGlance:
    first_offset, first_epoch, first_ms, zeros, batch_bytes = None, NO_EPOCH, -1, False, 0
    if segment.size_bytes:
        with reading(segment.log.location, parent) as descriptor:
            with suppress(LogCleanerError):
                found = next(iter_headers(descriptor, segment.log.path), None)
                if found is not None:
                    header, batch_bytes = found.header, found.header.size_bytes
                    first_ms = header.max_timestamp_ms
                    first_offset = header.base_offset if isinstance(header, BatchHeader) else segment.base_offset
                    first_epoch = header.partition_leader_epoch if isinstance(header, BatchHeader) else NO_EPOCH
            zeros = not any(os.pread(descriptor, _TAIL_BYTES, max(segment.size_bytes - _TAIL_BYTES, 0)))
    index = segment.files.get(FileKind.TIME_INDEX)
    return SegmentGlance(
        str(segment.log.path),
        segment.base_offset,
        segment.size_bytes,
        first_offset,
        first_epoch,
        first_ms,
        zeros,
        index.size_bytes if index else None,
        _ends_with_a_zero_entry(index, parent) if index else False,
        with_keys and batch_bytes > 0 and _is_first_unkeyed(segment, batch_bytes),
    )


def _ends_with_a_zero_entry(index: SegmentFile, parent: int) -> bool:
    last = index.size_bytes - index.size_bytes % TIME_ENTRY_BYTES - TIME_ENTRY_BYTES
    if last < 0:
        return False
    with reading(index.location, parent) as descriptor:
        entry = os.pread(descriptor, TIME_ENTRY_BYTES, last)
    return len(entry) == TIME_ENTRY_BYTES and not any(entry)


def _is_first_unkeyed(segment: Segment, batch_bytes: int) -> bool:
    """Return whether the first batch, of so many bytes, holds a record without a key; damage and a marker hold none."""
    from storage.scan.chunks import Chunk, chunks  # noqa: PLC0415 - with the next three it loads the kernels
    from storage.scan.extents import Extent  # noqa: PLC0415
    from storage.scan.partitions import OffsetRange  # noqa: PLC0415
    from storage.scan.segments import open_extent  # noqa: PLC0415

    name = parse_topic_partition(segment.directory.name)
    assert name is not None
    inode, all_offsets = segment.log.identity.inode, OffsetRange(0, OFFSET_MAX)
    extent = Extent(name, segment.log.path, inode, segment.base_offset, 0, batch_bytes, all_offsets, None, ())
    with suppress(LogCleanerError), open_extent(extent) as reader:
        found = next(chunks(reader, extent, with_control=False), None)
        return isinstance(found, Chunk) and bool((found.located[KEY_BYTES] < 0).any())
    return False


def tails_of(
    segments: Sequence[Segment], glances: Sequence[SegmentGlance], torn_bytes: int, *, is_deep: bool = False
) -> Iterator[ZeroTail]:
    """Yield the bytes behind the last batch of each segment.

    The headers are read from the last index entry on: a few, with a sound index. Without one all of them would be: of a
    large segment only where its last bytes are zeros.

    Args:
        segments: ascending.
        glances: at them.
        torn_bytes: of the active segment, as the facts have it.
        is_deep: whether as much may be read as it takes.

    Raises: UnreadableFile.
    """
    for place, (segment, glance) in enumerate(zip(segments, glances, strict=True)):
        if place == len(segments) - 1:
            if torn_bytes:
                yield tail_of(segment, torn_bytes, is_active=True)
            continue
        is_looked_at = is_deep or glance.ends_with_zeros or segment.size_bytes <= _WALKED_BYTES_MAX
        if is_looked_at or last_offset_entry(segment) is not None:
            size_bytes = find_end(segment, trust_index=True).torn_bytes
            if size_bytes:
                yield tail_of(segment, size_bytes, is_active=False)


def counted_end_at(segments: Sequence[Segment]) -> int | None:
    """Return the offset that a start behind a clean stop takes for the end of a log; None if it fails, or has none.

    Raises: UnreadableFile.
    """
    end = counted_end_of(segments[-1]) if segments else None
    return end.next_offset if end else None


def tail_of(segment: Segment, size_bytes: int, *, is_active: bool) -> ZeroTail:
    """Return what the last bytes of a segment are, which are no batch. Raises: UnreadableFile."""
    position = segment.size_bytes - size_bytes
    with reading(segment.log.path) as descriptor:
        is_zero = all(
            _is_zero(descriptor, max(start, position), end)
            for start, end in data_extents(descriptor, segment.size_bytes)
            if end > position
        )
    return ZeroTail(str(segment.log.path), position, size_bytes, is_zero, is_active)


def _is_zero(descriptor: int, start: int, end: int) -> bool:
    """Return whether a range of a file holds zeros alone. A hole needs no look: nobody asks for one."""
    for at in range(start, end, _CHUNK_BYTES):
        found = os.pread(descriptor, min(_CHUNK_BYTES, end - at), at)
        if found.count(0) < len(found):
            return False
    return True


def overflowing(segments: Sequence[Segment], log_end_offset: int) -> Iterator[OverflowingSegment]:
    """Yield the segments whose last offset no index can hold. Only where the next one begins that far is it read.

    Raises: UnreadableFile.
    """
    if not segments:  # all were lost, and the log may end anywhere
        return
    uppers = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, upper in zip(segments, uppers, strict=True):
        if upper - 1 - segment.base_offset > RELATIVE_OFFSET_MAX:
            last = find_end(segment, trust_index=False).next_offset - 1
            if last - segment.base_offset > RELATIVE_OFFSET_MAX:
                yield OverflowingSegment(str(segment.log.path), segment.base_offset, last)
