"""Read: from an offset to the batches, by way of the offset index.

An index is a hint where to begin. The reader checks the batch at that place; if it is not the right one, the segment is
read from its start.

Source: Kafka LocalLog.read, LogSegment.translateOffset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress

from storage.errors import CorruptBatch, CorruptIndex
from storage.indexes import (
    OffsetIndexEntry,
    TimeIndexEntry,
    last_offset_index_entry,
    parse_offset_index,
    parse_time_index,
)
from storage.log.search.probe import probing
from storage.log_dir import read_file
from storage.names import FileKind
from storage.records import Batch, LegacyBatch, PositionedHeader, iter_headers, read_batch
from storage.segment import Segment, reading

AnyBatch = Batch | LegacyBatch


def floor_place(segments: Sequence[Segment], offset: int) -> int:
    """Return the place of the segment that may hold ``offset``: the last that begins at or below it, else the first."""
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def read_batches(segments: Sequence[Segment], start_offset: int, end_offset: int) -> Iterator[AnyBatch]:
    """Yield the batches that reach into ``[start_offset, end_offset)``; what lies behind that is not looked at.

    Raises: CorruptBatch, UnreadableFile.
    """
    for segment in segments[floor_place(segments, start_offset) :]:
        if segment.base_offset >= end_offset:
            return
        yield from read_segment(segment, start_offset, end_offset)


def read_segment(segment: Segment, start_offset: int, end_offset: int) -> Iterator[AnyBatch]:
    """Read the batches of one segment, as ``read_batches`` does."""
    path = segment.log.path
    with reading(path) as descriptor:
        start = position_of(descriptor, segment, start_offset)
        for found in iter_headers(descriptor, path, start):
            if found.header.last_offset < start_offset:
                continue
            batch = read_batch(descriptor, path, found)
            # the base offset last: a compressed legacy batch has to be decompressed for it
            if found.header.last_offset >= end_offset and batch.base_offset >= end_offset:
                return
            yield batch
            if found.header.next_offset >= end_offset:
                return


def last_offset_entry(segment: Segment, parent: int | None = None) -> OffsetIndexEntry | None:
    """Read the last entry of the offset index; None without a usable one. An index listed as empty is not opened."""
    file = segment.files.get(FileKind.INDEX)
    if file is None or not file.identity.size_bytes:
        return None
    with suppress(CorruptIndex):
        return last_offset_index_entry(file.location, segment.base_offset, parent)
    return None


def companion_bytes(segment: Segment, kind: FileKind) -> bytes:
    """Empty where the file is absent: indexes can be missed."""
    file = segment.files.get(kind)
    return (read_file(file.path) or b"") if file else b""


def indexed_position(segment: Segment, offset: int) -> int:
    """Return the byte from which the offset index has a reader scan for ``offset``, unchecked; 0 without an entry.

    Raises: UnreadableFile.

    Source: Kafka OffsetIndex.lookup.
    """
    entry = _floor_entry(segment, offset)
    return entry.position if entry else 0


def position_of(descriptor: int, segment: Segment, offset: int) -> int:
    """Return the byte at which to begin scanning for ``offset``. Raises: UnreadableFile."""
    return checked_position(descriptor, segment, _floor_entry(segment, offset))


def _floor_entry(segment: Segment, offset: int) -> OffsetIndexEntry | None:
    if offset <= segment.base_offset:
        return None
    with probing(segment, FileKind.INDEX) as probe:
        found = probe.floor(offset) if probe is not None else None
    return OffsetIndexEntry(found.key, found.value) if found and found.key <= offset else None


def checked_position(descriptor: int, segment: Segment, entry: OffsetIndexEntry | None) -> int:
    """Return the position of an index entry if its batch starts there, else 0."""
    if entry is None or entry.position < 0:
        return 0
    try:
        found: PositionedHeader | None = next(iter_headers(descriptor, segment.log.path, entry.position), None)
    except CorruptBatch:
        return 0
    return entry.position if found and found.header.last_offset == entry.offset else 0


def offset_entries(segment: Segment) -> list[OffsetIndexEntry]:
    """Read the entries of the ``.index``; none if it is absent or damaged. Raises: UnreadableFile."""
    with suppress(CorruptIndex):
        return parse_offset_index(companion_bytes(segment, FileKind.INDEX), segment.base_offset, segment.log.path)
    return []


def time_entries(segment: Segment) -> list[TimeIndexEntry]:
    """Read the entries of the ``.timeindex``; none if it is absent or damaged. Raises: UnreadableFile."""
    with suppress(CorruptIndex):
        return parse_time_index(companion_bytes(segment, FileKind.TIME_INDEX), segment.base_offset, segment.log.path)
    return []
