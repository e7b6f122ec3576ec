"""An index file of which single entries are read: a search in one of 10 MiB reads 200 bytes.

The file is read, never mapped: a broker that cuts it meanwhile makes a short read, and no SIGBUS. What a broker
preallocated is zeros, which are no entries.

Source: Kafka AbstractIndex.indexSlotRangeFor, OffsetIndex.lookup, TimeIndex.lookup.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import open_sized
from storage.errors import UnreadableFile, as_unreadable
from storage.indexes import floor_slot
from storage.names import FileKind
from storage.segment import Segment

_LAYOUTS: Final = {FileKind.INDEX: struct.Struct(">ii"), FileKind.TIME_INDEX: struct.Struct(">qi")}


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

    def __init__(self, descriptor: int, size_bytes: int, segment: Segment, kind: FileKind) -> None:
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

        In a damaged index it is the entry at which Kafka's search ends.
        """
        slot = floor_slot(lambda number: self.entry(number).key, self.entries, key, self._layout.size)
        return None if slot is None else self.entry(slot)

    def _count(self, slots: int) -> int:
        """Count the entries before the zeros. One time entry of zeros and nothing else is an entry."""
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
            data = os.pread(self._descriptor, size, number * size)
        if len(data) < size:
            raise UnreadableFile(self.path, "it was cut off while it was read")
        self.bytes_read += size
        self.looked_at += 1
        return data


@contextmanager
def probing(segment: Segment, kind: FileKind) -> Iterator[Probe | None]:
    """Open an index of a segment, and close it in the end; None if there is no such file.

    Raises: UnreadableFile.
    """
    file = segment.files.get(kind)
    if file is None:
        yield None
        return
    try:
        descriptor, size_bytes = open_sized(file.path)
    except OSError as error:
        raise UnreadableFile(Path(file.path), error.strerror or str(error)) from error
    try:
        yield Probe(descriptor, size_bytes, segment, kind)
    finally:
        os.close(descriptor)
