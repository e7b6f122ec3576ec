"""Read: from an offset to the batches, by way of the offset index.

An index is a hint where to begin. The reader checks the batch at that place; if it is not the right one, the segment is
read from its start.

Of an index file single entries are read: a search in one of 10 MiB reads 200 bytes. The file is read, never mapped: a
broker that cuts it meanwhile makes a short read, and no SIGBUS. The zeros that a broker preallocated are no entries.

Source: Kafka LocalLog.read, LogSegment.translateOffset, AbstractIndex.indexSlotRangeFor, OffsetIndex.lookup,
TimeIndex.lookup.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import OpenFile, close, open_file, pread
from storage.errors import CorruptBatch, CorruptIndex, UnreadableFile, as_unreadable
from storage.indexes import (
    OffsetIndexEntry,
    TimeIndexEntry,
    floor_slot,
    last_offset_index_entry,
    parse_offset_index,
    parse_time_index,
)
from storage.log_dir import read_file
from storage.names import FileKind
from storage.records import Batch, LegacyBatch, PositionedHeader, iter_headers, read_batch
from storage.segment import Segment, reading

_LAYOUTS: Final = {FileKind.INDEX: struct.Struct(">ii"), FileKind.TIME_INDEX: struct.Struct(">qi")}

AnyBatch = Batch | LegacyBatch


def read_batches(segments: Sequence[Segment], start_offset: int, end_offset: int) -> Iterator[AnyBatch]:
    """Yield the batches that reach into ``[start_offset, end_offset)``; nothing behind them is read.

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


def floor_place(segments: Sequence[Segment], offset: int) -> int:
    """Return the place of the segment that may hold ``offset``: the last segment that begins at or below it, else the
    first one.
    """
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def last_offset_entry(segment: Segment, parent: int | None = None) -> OffsetIndexEntry | None:
    """Read the last entry of the offset index; None without a usable one. An index listed as empty is not opened."""
    file = segment.files.get(FileKind.INDEX)
    if file is None or not file.identity.size_bytes:
        return None
    with suppress(CorruptIndex):
        return last_offset_index_entry(file.location, segment.base_offset, parent)
    return None


def companion_bytes(segment: Segment, kind: FileKind) -> bytes:
    """Return the bytes of an index file; none if the file is absent, because a reader can do without it."""
    file = segment.files.get(kind)
    return (read_file(file.path) or b"") if file else b""


def indexed_position(segment: Segment, offset: int) -> int:
    """Return the byte from which the offset index has a reader scan for ``offset``, unchecked; 0 without an entry.

    Raises: UnreadableFile.

    Source: Kafka OffsetIndex.lookup.
    """
    entry = _floor_entry(segment, offset)
    return entry.position if entry else 0


def position_of(descriptor: OpenFile, segment: Segment, offset: int) -> int:
    """Return the byte at which to begin scanning for ``offset``. Raises: UnreadableFile."""
    return checked_position(descriptor, segment, _floor_entry(segment, offset))


def checked_position(descriptor: OpenFile, segment: Segment, entry: OffsetIndexEntry | None) -> int:
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


class IndexedEntry(NamedTuple):
    """One entry: an offset with a position (``.index``), or a timestamp with an offset (``.timeindex``)."""

    number: int
    """The number of the entry, from 0."""
    position: int
    """The position of the entry in the index file."""
    key: int
    """The offset, absolute; of a time index the timestamp, epoch ms."""
    value: int
    """The position in the ``.log``; of a time index the offset, absolute."""


class Probe:
    """The entries of one index, of which each look reads one."""

    def __init__(self, descriptor: OpenFile, size_bytes: int, segment: Segment, kind: FileKind) -> None:
        self.path = segment.files[kind].path
        self._descriptor, self._layout = descriptor, _LAYOUTS[kind]
        self._base_offset, self._kind = segment.base_offset, kind
        self.bytes_read = 0
        self.looked_at = 0
        self.entries = self._count(size_bytes // self._layout.size)

    def entry(self, number: int) -> IndexedEntry:
        """Read an entry. Raises: UnreadableFile, also if the file was cut since."""
        first, second = self._layout.unpack(self._read(number))
        is_offset_index = self._kind is FileKind.INDEX
        key, value = (first + self._base_offset, second) if is_offset_index else (first, second + self._base_offset)
        return IndexedEntry(number, number * self._layout.size, key, value)

    def last(self) -> IndexedEntry | None:
        """Read the last entry; None if there is none. Raises: as ``entry``."""
        return self.entry(self.entries - 1) if self.entries else None

    def floor(self, key: int) -> IndexedEntry | None:
        """Find the last entry whose key is at or below a key; None if there is none. Raises: as ``entry``.

        In a damaged index the result is the entry at which Kafka's search ends.
        """
        slot = floor_slot(lambda number: self.entry(number).key, self.entries, key, self._layout.size)
        return None if slot is None else self.entry(slot)

    def _count(self, slots: int) -> int:
        """Count the entries before the zeros. In a time index with one entry, an entry of zeros counts."""
        if not slots or any(self._read(slots - 1)) or (slots == 1 and self._kind is FileKind.TIME_INDEX):
            return slots
        low, high = 0, slots - 1
        while low < high:
            middle = (low + high) // 2
            if any(self._read(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, number: int) -> bytes:
        size = self._layout.size
        with as_unreadable(self.path):
            data = pread(self._descriptor, size, number * size)
        if len(data) < size:
            raise UnreadableFile(self.path, "it was cut off while it was read")
        self.bytes_read += size
        self.looked_at += 1
        return data


@contextmanager
def probing(segment: Segment, kind: FileKind) -> Iterator[Probe | None]:
    """Open an index of a segment for the ``with``; None if there is no such file.

    Raises: UnreadableFile.
    """
    file = segment.files.get(kind)
    if file is None:
        yield None
        return
    try:
        descriptor, size_bytes = open_file(file.path)
    except OSError as error:
        raise UnreadableFile(Path(file.path), error.strerror or str(error)) from error
    try:
        yield Probe(descriptor, size_bytes, segment, kind)
    finally:
        close(descriptor)


def _floor_entry(segment: Segment, offset: int) -> OffsetIndexEntry | None:
    if offset <= segment.base_offset:
        return None
    with probing(segment, FileKind.INDEX) as probe:
        found = probe.floor(offset) if probe is not None else None
    return OffsetIndexEntry(found.key, found.value) if found and found.key <= offset else None
