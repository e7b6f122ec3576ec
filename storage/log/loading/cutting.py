"""Cut a segment off at an offset. Its index files keep the entries behind it, as Kafka's do: nobody counts them.

Source: Kafka LogSegment.truncateTo, OffsetIndex.truncateTo, TimeIndex.truncateTo, TransactionIndex.truncateTo.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from storage.filesystem import FileSystem, Purpose
from storage.indexes import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, TimeIndexEntry, floor_slot
from storage.log.loading.positions import translate
from storage.log.loading.walk import LogBytes, walk
from storage.log_dir import read_file
from storage.names import FileKind, segment_file_name
from storage.segment import reading
from storage.txn_index import TXN_ENTRY_BYTES

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_MARKER_OFFSET: Final = struct.Struct(">q")
_MARKER_OFFSET_POSITION: Final = 18


class SegmentEntries(NamedTuple):
    """The entries of a segment's indexes, and how many bytes of its ``.log`` are batches."""

    offset_index: bytes
    time_index: bytes
    size_bytes: int


class CutSegment(NamedTuple):
    """A segment after the cut."""

    entries: SegmentEntries
    largest: TimeIndexEntry
    """The largest timestamp that is left; -1 for none."""


def cut_segment(fs: FileSystem, directory: Path, base_offset: int, offset: int, found: SegmentEntries) -> CutSegment:
    """Take the batches from the one with ``offset`` on out of a segment.

    Args:
        fs: the disk.
        directory: of the partition.
        base_offset: of the segment.
        offset: the batch that holds it goes whole.
        found: the segment so far. Its index files may go on with zeros.

    Raises: CorruptRecord, OutOfSpace, UnreadableFile.
    """
    log_path = directory / segment_file_name(base_offset, FileKind.LOG)
    with reading(log_path) as descriptor:
        log = LogBytes(descriptor)
        at = translate(log, _position_of(found.offset_index, offset - base_offset), offset, found.size_bytes)
        index = _cut_offsets(found.offset_index, offset - base_offset)
        time_index = _cut_times(found.time_index, offset - base_offset)
        size_bytes = found.size_bytes if at is None else at
        largest = _largest(log, base_offset, SegmentEntries(index, time_index, size_bytes))
    _cut_txn_index(fs, directory / segment_file_name(base_offset, FileKind.TXN_INDEX), offset)
    if at is not None:
        fs.truncate(log_path, at, Purpose.RECOVER)
    return CutSegment(SegmentEntries(index, time_index, size_bytes), largest)


def _position_of(index: bytes, relative_offset: int) -> int:
    slot = _slot(index, _OFFSET_ENTRY, 0, relative_offset)
    return 0 if slot is None else int(_OFFSET_ENTRY.unpack_from(index, slot * OFFSET_ENTRY_BYTES)[1])


def _cut_offsets(index: bytes, relative_offset: int) -> bytes:
    return index[: _kept(index, _OFFSET_ENTRY, 0, relative_offset) * OFFSET_ENTRY_BYTES]


def _cut_times(time_index: bytes, relative_offset: int) -> bytes:
    return time_index[: _kept(time_index, _TIME_ENTRY, 1, relative_offset) * TIME_ENTRY_BYTES]


def _kept(data: bytes, layout: struct.Struct, field: int, relative_offset: int) -> int:
    """Return how many entries stay: those below the offset."""
    slot = _slot(data, layout, field, relative_offset)
    if slot is None:
        return 0
    return slot if layout.unpack_from(data, slot * layout.size)[field] == relative_offset else slot + 1


def _slot(data: bytes, layout: struct.Struct, field: int, key: int) -> int | None:
    return floor_slot(
        lambda place: int(layout.unpack_from(data, place * layout.size)[field]), len(data) // layout.size, key
    )


def _largest(log: LogBytes, base_offset: int, left: SegmentEntries) -> TimeIndexEntry:
    """Return the largest timestamp by the time index and the batches behind its last entry.

    Source: Kafka LogSegment.readLargestTimestamp.
    """
    largest = TimeIndexEntry(-1, base_offset)
    if left.time_index:
        at = len(left.time_index) - TIME_ENTRY_BYTES
        timestamp_ms, relative_offset = _TIME_ENTRY.unpack_from(left.time_index, at)
        largest = TimeIndexEntry(timestamp_ms, base_offset + relative_offset)
    for batch in walk(log, _position_of(left.offset_index, largest.offset - base_offset), left.size_bytes):
        if batch.max_timestamp_ms > largest.timestamp_ms:
            largest = TimeIndexEntry(batch.max_timestamp_ms, batch.last_offset)
    return largest


def _cut_txn_index(fs: FileSystem, path: Path, offset: int) -> None:
    data = read_file(path)
    if data is None:
        return
    for at in range(0, len(data) - len(data) % TXN_ENTRY_BYTES, TXN_ENTRY_BYTES):
        if _MARKER_OFFSET.unpack_from(data, at + _MARKER_OFFSET_POSITION)[0] >= offset:
            fs.truncate(path, at, Purpose.RECOVER)
            return
