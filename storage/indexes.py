"""Offset and time index of a segment: sparse, sorted entries of a fixed size. Parse, look up, build.

An index is only a hint where to start looking: a reader checks the batch it lands on. The index files of an
active segment are preallocated, so that after an unclean stop their entries are followed by zeros, megabytes
of them.

Source: Kafka ``OffsetIndex``, ``TimeIndex``, ``AbstractIndex``, ``LogSegment``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from storage.directory import READ_FLAGS, close, open_file, pread, read_end
from storage.errors import CorruptBatch, CorruptIndex, UnreadableFile

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
OFFSET_ENTRY_BYTES: Final = _OFFSET_ENTRY.size
TIME_ENTRY_BYTES: Final = _TIME_ENTRY.size
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
"""Entries hold offsets relative to the base as int32."""
_NO_TIMESTAMP: Final = -1
_WARM_BYTES: Final = 8192
"""Kafka searches this many bytes at the end of an index first. In a damaged index, the answer depends on it."""
_TAIL_ENTRIES: Final = 64
"""The bytes at the end of an index that a search for its last entry reads first."""


AnyEntry = TypeVar("AnyEntry")


class OffsetIndexEntry(NamedTuple):
    """``offset`` is the last offset of the batch that starts at byte ``position`` of the ``.log``."""

    offset: int
    position: int


class TimeIndexEntry(NamedTuple):
    """The segment's largest timestamp (epoch ms) up to here, and the last offset of its batch."""

    timestamp_ms: int
    offset: int


def parse_offset_index(data: bytes, base_offset: int, path: Path) -> list[OffsetIndexEntry]:
    """Read the entries of an ``.index``: absolute offsets, ascending. A torn last entry and zeros are left out.

    Raises:
        CorruptIndex: offsets or positions that do not ascend.
    """
    entries: list[OffsetIndexEntry] = []
    for at in range(0, _without_zeros(data, _OFFSET_ENTRY.size), _OFFSET_ENTRY.size):
        relative_offset, position = _OFFSET_ENTRY.unpack_from(data, at)
        entry = OffsetIndexEntry(base_offset + relative_offset, position)
        previous = entries[-1] if entries else OffsetIndexEntry(base_offset - 1, -1)
        if entry.offset <= previous.offset or entry.position <= previous.position:
            raise CorruptIndex(path, at, f"offset {entry.offset} at {position} does not follow {previous}")
        entries.append(entry)
    return entries


def parse_time_index(data: bytes, base_offset: int, path: Path) -> list[TimeIndexEntry]:
    """Read the entries of a ``.timeindex``: absolute offsets, ascending. A torn last entry and zeros are left out.

    Raises:
        CorruptIndex: timestamps that do not ascend, or offsets that descend.
    """
    entries: list[TimeIndexEntry] = []
    for at in range(0, _without_zeros(data, _TIME_ENTRY.size), _TIME_ENTRY.size):
        timestamp_ms, relative_offset = _TIME_ENTRY.unpack_from(data, at)
        entry = TimeIndexEntry(timestamp_ms, base_offset + relative_offset)
        previous = entries[-1] if entries else TimeIndexEntry(_NO_TIMESTAMP, base_offset)
        if timestamp_ms <= previous.timestamp_ms or entry.offset < previous.offset:
            raise CorruptIndex(path, at, f"timestamp {timestamp_ms} of {entry.offset} does not follow {previous}")
        entries.append(entry)
    return entries


def floor_slot(key_at: Callable[[int], int], count: int, key: int, entry_bytes: int = _OFFSET_ENTRY.size) -> int | None:
    """Return the slot that Kafka finds for a key; None if it starts at the beginning of the segment.

    In an index that is in order this is the last entry at or below the key. In a damaged index, or in an index that
    ends in zeros, it is the entry at which Kafka's search ends.

    Args:
        key_at: gives the key in a slot: an offset, a timestamp, or a position.
        count: how many slots the index has, zeros among them.
        key: as those of ``key_at``.
        entry_bytes: the size of an entry: it decides where Kafka's search begins.

    Source: Kafka ``AbstractIndex.indexSlotRangeFor``, ``binarySearch``.
    """
    if not count:
        return None
    first_warm = max(0, count - 1 - _WARM_BYTES // entry_bytes)
    if key_at(first_warm) < key:
        low, high = first_warm, count - 1
    elif key_at(0) > key:
        return None
    else:
        low, high = 0, first_warm
    while low < high:
        middle = (low + high + 1) // 2
        found = key_at(middle)
        if found == key:
            return middle
        low, high = (low, middle - 1) if found > key else (middle, high)
    return low


def last_offset_index_entry(path: Path | str, base_offset: int, parent: int | None = None) -> OffsetIndexEntry | None:
    """Read the last entry of an ``.index``; None if it is empty. Arguments and cost: see ``last_time_index_entry``.

    Raises:
        UnreadableFile: the file is missing or cannot be read.
        CorruptIndex: an entry whose offset or position is negative, or not above that before it.
    """
    found = _read_last_entry(path, _OFFSET_ENTRY, parent)
    return OffsetIndexEntry(base_offset + found[0], found[1]) if found else None


def last_time_index_entry(path: Path | str, base_offset: int, parent: int | None = None) -> TimeIndexEntry | None:
    """Read the last entry of a ``.timeindex``: a sealed segment's largest timestamp; None if the index is empty.

    One small read at the file's end; where that is all (preallocated) zeros, a binary search for their start.

    Args:
        path: the file.
        base_offset: of the segment.
        parent: a descriptor of the file's directory, where the caller has it open.

    Raises:
        UnreadableFile: the file is missing or cannot be read.
        CorruptIndex: an entry whose timestamp or offset is negative, or that does not follow the one before it.
    """
    found = _read_last_entry(path, _TIME_ENTRY, parent)
    return TimeIndexEntry(found[0], base_offset + found[1]) if found else None


def sealed_time_index_end(name: str, size_bytes: int, base_offset: int, parent: int) -> TimeIndexEntry | None:
    """Read the last entry of a ``.timeindex`` that ends as those of sealed segments do: with a sound entry, not zeros.

    Three system calls, and nothing else. Where anything is unusual, return None: ``last_time_index_entry`` tells what.

    Args:
        name: of the file in its directory.
        size_bytes: of the file, as it was listed.
        base_offset: of the segment.
        parent: a descriptor of the file's directory.
    """
    if not size_bytes or size_bytes % TIME_ENTRY_BYTES:
        return None
    start = max(0, size_bytes - 2 * TIME_ENTRY_BYTES)
    try:
        descriptor = os.open(name, READ_FLAGS, dir_fd=parent)
        try:
            tail = os.pread(descriptor, size_bytes - start, start)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if len(tail) != size_bytes - start:
        return None
    previous_ms, previous_offset = _TIME_ENTRY.unpack_from(tail) if len(tail) > TIME_ENTRY_BYTES else (-1, 0)
    timestamp_ms, offset = _TIME_ENTRY.unpack_from(tail, len(tail) - TIME_ENTRY_BYTES)
    if 0 < timestamp_ms > previous_ms and 0 <= offset >= previous_offset:  # calls of max take as long as the reading
        return tuple.__new__(TimeIndexEntry, (timestamp_ms, base_offset + offset))
    return None


def _read_last_entry(path: Path | str, layout: struct.Struct, parent: int | None) -> tuple[int, int] | None:
    """Read the last entry that is not all zeros; None without one.

    The first read mostly holds the entry before it, too.
    """
    try:
        tail, size_bytes = read_end(path, (_TAIL_ENTRIES + 1) * layout.size - 1, parent)
        start, entries = size_bytes - len(tail), size_bytes // layout.size
        first = -(-start // layout.size)
        tail = tail[first * layout.size - start : entries * layout.size - start]
        used_bytes = _without_zeros(tail, layout.size)
        if used_bytes == 0 and first > 0:
            first, tail = _last_before_zeros(path, first, layout.size, parent)
            used_bytes = _without_zeros(tail, layout.size) if any(tail) else 0
    except OSError as error:
        raise UnreadableFile(Path(path), error.strerror or str(error)) from error
    if not used_bytes:
        return None
    at = used_bytes - layout.size
    place = first * layout.size + at
    first_field, second_field = layout.unpack_from(tail, at)
    if first_field < 0 or second_field < 0:
        raise CorruptIndex(Path(path), place, f"negative entry ({first_field}, {second_field})")
    previous = layout.unpack_from(tail, at - layout.size) if at else (-1, 0)
    if first_field <= previous[0] or second_field < previous[1]:
        raise CorruptIndex(Path(path), place, f"entry ({first_field}, {second_field}) does not follow {previous}")
    return first_field, second_field


def _last_before_zeros(path: Path | str, count: int, entry_bytes: int, parent: int | None) -> tuple[int, bytes]:
    """Return the place and the bytes of the last entry before the zeros, among the first ``count``.

    Entries ascend, so only the first entry can be zero.
    """
    file, _ = open_file(path, parent)
    try:
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if any(pread(file, entry_bytes, middle * entry_bytes)):
                low = middle + 1
            else:
                high = middle
        last = max(0, low - 1)
        return last, pread(file, entry_bytes, last * entry_bytes)
    finally:
        close(file)


def _without_zeros(data: bytes, entry_bytes: int) -> int:
    """Return how many bytes of ``data`` reach to the end of the last entry that is not all zeros.

    A time index with one entry, all zeros, has that entry: the only timestamp of the sealed segment is 0.
    """
    if len(data) == entry_bytes == _TIME_ENTRY.size:
        return entry_bytes
    used_bytes = len(data[: len(data) - len(data) % entry_bytes].rstrip(b"\0"))
    return -(-used_bytes // entry_bytes) * entry_bytes


class IndexBuilder:
    """Makes the indexes of a segment from its batches, entry for entry as a broker does when it appends them.

    Rule, for each batch: (a) a larger timestamp than any before becomes the largest so far; (b) more than
    ``index.interval.bytes`` since the last entry: an offset entry for this batch, and a time entry for the
    largest so far; (c) the batch's bytes count towards the next entry. On sealing, a last time entry. Hence
    the first batch never gets an entry, and the time index ends with the segment's largest timestamp.

    Source: Kafka LogSegment.append, LogSegment.recover, TimeIndex.maybeAppend.
    """

    def __init__(self, base_offset: int, index_interval_bytes: int, path: Path) -> None:
        self._base_offset, self._interval_bytes, self._path = base_offset, index_interval_bytes, path
        self._bytes_since_entry = 0
        self.largest = TimeIndexEntry(_NO_TIMESTAMP, base_offset)
        """Largest timestamp so far and its batch's last offset; timestamp -1 for none."""
        self._last_timestamp_ms = _NO_TIMESTAMP
        self._offset_index = bytearray()
        self._time_index = bytearray()

    @classmethod
    def resumed(
        cls, base_offset: int, index_interval_bytes: int, path: Path, index: bytes, time_index: bytes
    ) -> IndexBuilder:
        """Go on with the indexes of a sealed segment as a broker that opens the segment: the count of bytes begins
        anew.

        Source: Kafka LogSegment.open, readMaxTimestampAndOffsetSoFar.
        """
        resumed = cls(base_offset, index_interval_bytes, path)
        resumed._offset_index += index
        resumed._time_index += time_index
        if time_index:
            timestamp_ms, relative_offset = _TIME_ENTRY.unpack_from(time_index, len(time_index) - _TIME_ENTRY.size)
            resumed.largest = TimeIndexEntry(timestamp_ms, base_offset + relative_offset)
            resumed._last_timestamp_ms = timestamp_ms
        return resumed

    @property
    def offset_index(self) -> bytearray:
        """The entries of the offset index so far."""
        return self._offset_index

    @property
    def time_index(self) -> bytearray:
        """The entries of the time index so far."""
        return self._time_index

    def mark(self) -> tuple[int, TimeIndexEntry, int, int, int]:
        """Return the present state, for ``back_to``."""
        sizes = len(self._offset_index), len(self._time_index)
        return self._bytes_since_entry, self.largest, self._last_timestamp_ms, *sizes

    def back_to(self, mark: tuple[int, TimeIndexEntry, int, int, int]) -> None:
        """Forget all batches since a mark was taken."""
        self._bytes_since_entry, self.largest, self._last_timestamp_ms, index_bytes, time_index_bytes = mark
        del self._offset_index[index_bytes:]
        del self._time_index[time_index_bytes:]

    def reopen(self) -> None:
        """Go on as a broker that recovered the segment: the segment is sealed, and the count of bytes begins anew."""
        self.seal()
        self._bytes_since_entry = 0

    def append(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Take the next batch of the segment: its position, size, last offset and largest timestamp.

        Raises:
            CorruptBatch: the offset is not within 2^31-1 of the segment's base.
        """
        if max_timestamp_ms > self.largest.timestamp_ms:
            self.largest = TimeIndexEntry(max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self._interval_bytes:
            self._offset_index += _OFFSET_ENTRY.pack(self._relative(last_offset, position), position)
            self._append_time_entry(position)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def seal(self) -> tuple[bytes, bytes]:
        """Return the bytes of ``.index`` and ``.timeindex``, after the last batch."""
        self._append_time_entry(position=0)
        return bytes(self._offset_index), bytes(self._time_index)

    def _append_time_entry(self, position: int) -> None:
        timestamp_ms, offset = self.largest
        if timestamp_ms > self._last_timestamp_ms:
            self._time_index += _TIME_ENTRY.pack(timestamp_ms, self._relative(offset, position))
            self._last_timestamp_ms = timestamp_ms

    def _relative(self, offset: int, position: int) -> int:
        relative_offset = offset - self._base_offset
        if not 0 <= relative_offset <= RELATIVE_OFFSET_MAX:
            raise CorruptBatch(self._path, position, f"offset {offset} in a segment of base {self._base_offset}")
        return relative_offset
