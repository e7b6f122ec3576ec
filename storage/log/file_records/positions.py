"""Finds where an offset lies in a ``.log``, by its offset index as it is, right or wrong.

Source: Kafka ``OffsetIndex``, ``FileRecords.searchForOffsetFromPosition``, ``LogSegment.readNextOffset``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import UnreadableFile, as_unreadable
from storage.indexes import floor_slot
from storage.log.file_records.walk import CorruptRecord, WalkedBatch, check_wrapper, last_of, walk
from storage.names import FileKind
from storage.records.header import MAGIC_V2
from storage.records.read_batches import LogBytes
from storage.segment import Segment, reading

_ENTRY: Final = struct.Struct(">ii")


class StoredIndex:
    """The entries of an offset index, right or wrong; zeros at the end are entries, too, as to Kafka."""

    def __init__(self, descriptor: int | None, base_offset: int) -> None:
        """Take an open index; None for one that is missing, and so has no entries."""
        self._descriptor, self._base = descriptor, base_offset
        self.count = 0 if descriptor is None else os.fstat(descriptor).st_size // _ENTRY.size
        self.last_offset = self.entry(self.count - 1)[0] if self.count else base_offset

    @staticmethod
    @contextmanager
    def at(path: Path | None, base_offset: int) -> Iterator[StoredIndex]:
        """Open the index at a path; without a path, one without entries. Raises: UnreadableFile."""
        if path is None:
            yield StoredIndex(None, base_offset)
            return
        with reading(path) as descriptor, as_unreadable(path):
            yield StoredIndex(descriptor, base_offset)

    def entry(self, place: int) -> tuple[int, int]:
        """Return the offset and the position of an entry."""
        assert self._descriptor is not None
        data = os.pread(self._descriptor, _ENTRY.size, place * _ENTRY.size)
        if len(data) < _ENTRY.size:
            raise UnreadableFile(Path("index"), "it shrank")
        relative, position = _ENTRY.unpack(data)
        return self._base + relative, position

    def lookup(self, offset: int) -> int:
        """Return the position from which on an offset is looked for. Source: Kafka ``AbstractIndex``."""
        slot = floor_slot(lambda place: self.entry(place)[0], self.count, offset)
        return 0 if slot is None else self.entry(slot)[1]


def translate(
    log: LogBytes, indexed_at: int, offset: int, end: int | None = None, *, unwraps: bool = False
) -> int | None:
    """Return where the batch with an offset begins; None if there is none. Raises: CorruptRecord.

    Args:
        log: the segment.
        indexed_at: where its offset index has a reader begin.
        offset: to be found, or the next one that is there.
        end: of the batches; default: the file's size.
        unwraps: whether the search looks for the first message of compressed ones, as Kafka 4 does.
    """
    previous: WalkedBatch | None = None
    for batch in walk(log, max(indexed_at, 0), end):
        if unwraps and batch.magic < MAGIC_V2:
            check_wrapper(log, batch)
        if batch.base_offset == offset:
            return batch.position
        if batch.base_offset > offset:
            is_within = previous is not None and previous.last_offset >= offset
            return previous.position if is_within and previous else batch.position
        previous = batch
    return previous.position if previous is not None and previous.last_offset >= offset else None


class CountedEnd(NamedTuple):
    """The end of a log as a start counts it that looks for no end: behind a clean stop."""

    next_offset: int
    """The offset that the next record gets. The base offset if the offset index leads behind the last whole batch."""
    end_bytes: int
    """What lies behind this byte is not counted."""


def counted_end(log: LogBytes, index: StoredIndex, base_offset: int, *, unwraps: bool = False) -> CountedEnd:
    """Return the end of the last segment, as Kafka finds it. Raises: CorruptRecord."""
    start = translate(log, index.lookup(index.last_offset), index.last_offset, unwraps=unwraps)
    last = None if start is None else last_of(log, start)
    if last is None:
        return CountedEnd(base_offset, start or 0)
    return CountedEnd(last.last_offset + 1, last.position + last.size_bytes)


def counted_end_of(segment: Segment) -> CountedEnd | None:
    """Return the end of the last segment, as Kafka finds it; None if it fails. Raises: UnreadableFile."""
    index = segment.files.get(FileKind.INDEX)
    path = index.path if index else None
    with (
        suppress(CorruptRecord),
        reading(segment.log.path) as descriptor,
        StoredIndex.at(path, segment.base_offset) as entries,
    ):
        return counted_end(LogBytes(descriptor), entries, segment.base_offset, unwraps=True)
    return None
