"""Finds where an offset lies in a ``.log``, by its offset index as it is, right or wrong.

Source: Kafka ``OffsetIndex``, ``FileRecords.searchForOffsetFromPosition``, ``LogSegment.readNextOffset``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage.errors import UnreadableFile, as_unreadable
from storage.indexes import floor_slot
from storage.log.loading.walk import LogBytes, WalkedBatch, last_of, walk
from storage.segment import reading

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


def translate(log: LogBytes, indexed_at: int, offset: int, end: int | None = None) -> int | None:
    """Return where the batch with an offset begins; None if there is none. Raises: CorruptRecord.

    Args:
        log: the segment.
        indexed_at: where its offset index has a reader begin.
        offset: to be found, or the next one that is there.
        end: of the batches; default: the file's size.
    """
    previous: WalkedBatch | None = None
    for batch in walk(log, max(indexed_at, 0), end):
        if batch.base_offset == offset:
            return batch.position
        if batch.base_offset > offset:
            is_within = previous is not None and previous.last_offset >= offset
            return previous.position if is_within and previous else batch.position
        previous = batch
    return previous.position if previous is not None and previous.last_offset >= offset else None


def next_offset(log: LogBytes, index: StoredIndex, base_offset: int) -> int:
    """Return the offset behind the last batch, as Kafka finds it. Raises: CorruptRecord."""
    start = translate(log, index.lookup(index.last_offset), index.last_offset)
    last = None if start is None else last_of(log, start)
    return base_offset if last is None else last.last_offset + 1
