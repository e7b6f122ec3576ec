"""One segment, open for lookups: its descriptor, and its indexes in memory.

An index is a hint, and no checksum covers it. So an entry is used only where it fits: the batches from its position on
reach its offset exactly; a time entry's batch has its timestamp. Once an entry does not fit, or a file is not there,
both indexes are made anew, in memory, from the headers of the batches, as a starting broker makes them.

The files are read, never mapped: a broker that cuts one meanwhile makes a short read, and no SIGBUS. An index is read
as a whole, once; a lookup then reads the header of one to three batches.

Source: Kafka LogSegment, OffsetIndex, TimeIndex, FileRecords.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from storage.errors import CorruptBatch
from storage.indexes import IndexBuilder, OffsetIndex, OffsetIndexEntry, TimeIndex, TimeIndexEntry
from storage.log.read import companion_bytes
from storage.names import FileKind
from storage.records import Batch, BatchHeader, LegacyBatch, PositionedHeader, iter_headers, read_batch
from storage.records.header import MAGIC_POSITION, MAGIC_V2, V2_HEADER_BYTES, parse_header
from storage.segment import Segment, open_to_read

_INTERVAL_BYTES: Final = 4096
"""How many bytes lie between two entries of an index that is made anew."""


class OpenSegment:
    """A segment that is looked up in again and again. ``end_position`` is where its batches end."""

    def __init__(self, segment: Segment, end_position: int | None = None, live: IndexBuilder | None = None) -> None:
        """Open the ``.log``; the indexes are read when they are first asked for.

        Args:
            segment: its files.
            end_position: default: the size of the file now.
            live: makes the indexes of the active segment, which are taken from there.

        Raises: UnreadableFile.
        """
        self.segment = segment
        self.base_offset = segment.base_offset
        self.path = segment.log.path
        self._live = live
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._largest: TimeIndexEntry | None = None
        self._can_rebuild = live is None
        if live is not None:
            self._offsets, self._times = live.live
        self._descriptor = open_to_read(segment.log.location)
        self.end_position = os.fstat(self._descriptor).st_size if end_position is None else end_position

    def close(self) -> None:
        """Let go of the file; calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()

    @property
    def index_bytes(self) -> int:
        """The memory that the indexes take, those of an active segment left out."""
        if self._live is not None:
            return 0
        return sum(index.size_bytes for index in (self._offsets, self._times) if index is not None)

    @property
    def modified_ms(self) -> int:
        """The file time of the ``.log`` now, epoch ms."""
        return os.fstat(self._descriptor).st_mtime_ns // 1_000_000

    def batch_at(self, position: int) -> PositionedHeader | None:
        """Read the header of the batch that starts at a byte; None if the batches end there.

        Raises: CorruptBatch, UnreadableFile.
        """
        data = os.pread(self._descriptor, V2_HEADER_BYTES, position)
        if len(data) == V2_HEADER_BYTES and data[MAGIC_POSITION] == MAGIC_V2:
            with suppress(CorruptBatch):  # a batch that is cut off ends the log, whatever its header says: see below
                header = parse_header(data, 0, self.path, position)
                return PositionedHeader(position, header) if position + header[1] + 12 <= self.end_position else None
        return next(iter_headers(self._descriptor, self.path, position, self.end_position), None)

    def batch_behind(self, found: PositionedHeader) -> PositionedHeader | None:
        """Read the header of the next batch. Returns and raises as ``batch_at``."""
        return self.batch_at(found.position + found.header.size_bytes)

    def whole(self, found: PositionedHeader) -> Batch | LegacyBatch:
        """Read the whole batch of a header. Raises: CorruptBatch, UnreadableFile."""
        position, header = found
        if isinstance(header, BatchHeader):
            data = os.pread(self._descriptor, header.size_bytes, position)
            if len(data) == header.size_bytes:
                return Batch(header, memoryview(data), self.path, position)
        return read_batch(self._descriptor, self.path, found)

    def read(self, position: int, size_bytes: int) -> bytes:
        """Read bytes of the ``.log``; fewer where the file ends."""
        return os.pread(self._descriptor, size_bytes, position)

    def find_offset(self, offset: int) -> PositionedHeader | None:
        """Find the first batch that reaches an offset; None if none does.

        Raises: CorruptBatch, UnreadableFile.

        Source: Kafka LogSegment.translateOffset.
        """
        found = self._fitting_floor(offset) if offset > self.base_offset else None
        if found is None:
            found = self.batch_at(0)
        while found is not None and found.header.last_offset < offset:
            found = self.batch_behind(found)
        return found

    def find_as_late(self, timestamp_ms: int, start_offset: int) -> PositionedHeader | None:
        """Find the batch from which on to look for the first record that is as late, and not below an offset.

        Raises: CorruptBatch, UnreadableFile.

        Source: Kafka LogSegment.findOffsetByTimestamp.
        """
        entry = self._time_index().floor(timestamp_ms)
        if entry is None or (entry.timestamp_ms <= timestamp_ms and entry.offset <= start_offset):
            return self.find_offset(start_offset)
        found = self._batch_of(entry) if entry.timestamp_ms <= timestamp_ms else None
        if found is not None:
            return found
        return self.find_as_late(timestamp_ms, start_offset) if self._rebuild() else self.find_offset(start_offset)

    def largest(self) -> TimeIndexEntry:
        """Return the largest timestamp, -1 for none, and the last offset of the first batch that has it.

        A broker takes the last entry of the time index for it. So is it here, if that entry fits; then the headers
        behind its batch tell whether the index was cut short.

        Raises: CorruptBatch, UnreadableFile.
        """
        if self._live is not None:
            return self._live.largest
        if self._largest is None:
            entry = self._time_index().last()
            found = self._batch_of(entry) if entry else None
            if found is not None and entry is not None:
                self._largest = self._largest_from(entry, found.position)
            elif not self._rebuild() and self._largest is None:
                self._largest = self._largest_from(TimeIndexEntry(-1, self.base_offset), 0)
        assert self._largest is not None
        return self._largest

    @property
    def effective_ms(self) -> int:
        """The timestamp that the segment counts by when one is looked up: its largest one, else that of its file.

        A segment that lost its batches counts by the last entry of its time index, as in Kafka, or it would hide the
        segments behind it.

        Raises: CorruptBatch, UnreadableFile.
        """
        largest_ms = self.largest().timestamp_ms
        if largest_ms < 0 and self._live is None and FileKind.TIME_INDEX in self.segment.files:
            stated = TimeIndex(companion_bytes(self.segment, FileKind.TIME_INDEX), self.base_offset).last()
            largest_ms = stated.timestamp_ms if stated else -1
        return largest_ms if largest_ms >= 0 else self.modified_ms

    def _fitting_floor(self, offset: int) -> PositionedHeader | None:
        """Return the batch whose offset the index has last at or below one; None if it has none that fits."""
        entry = self._offset_index().floor(offset)
        if entry is None:
            return None
        found = self._fits(entry) if entry.offset <= offset else None
        if found is not None:
            return found
        return self._fitting_floor(offset) if self._rebuild() else None

    def _fits(self, entry: OffsetIndexEntry) -> PositionedHeader | None:
        """Return the batch that ends with the entry's offset if those from its position on lead there, else None.

        Brokers up to 3.9 indexed the first of several batches that came together by the last offset of all.
        """
        offset, position = entry
        if not (self.base_offset <= offset and 0 <= position < self.end_position):
            return None
        with suppress(CorruptBatch):
            found = self.batch_at(position)
            while found is not None and found.header.last_offset < offset:
                found = self.batch_behind(found)
            if found is not None and found.header.last_offset == offset:
                return found
        return None

    def _batch_of(self, entry: TimeIndexEntry) -> PositionedHeader | None:
        """Return the batch that a time entry names if it has that timestamp, else None."""
        with suppress(CorruptBatch):
            found = self.find_offset(entry.offset) if entry.offset >= self.base_offset else None
            if found is not None and found.header.max_timestamp_ms == entry.timestamp_ms:
                header = found.header
                if not isinstance(header, BatchHeader) or header.base_offset <= entry.offset:
                    return found
        return None

    def _largest_from(self, largest: TimeIndexEntry, position: int) -> TimeIndexEntry:
        with suppress(CorruptBatch):  # what is damaged is told by who reads there
            for _, header in iter_headers(self._descriptor, self.path, position, self.end_position):
                if header.max_timestamp_ms > largest.timestamp_ms:
                    largest = TimeIndexEntry(header.max_timestamp_ms, header.last_offset)
        return largest

    def _offset_index(self) -> OffsetIndex:
        if self._offsets is None:
            if FileKind.INDEX not in self.segment.files and self._rebuild():
                return self._offset_index()
            self._offsets = OffsetIndex(companion_bytes(self.segment, FileKind.INDEX), self.base_offset)
        return self._offsets

    def _time_index(self) -> TimeIndex:
        if self._times is None:
            if FileKind.TIME_INDEX not in self.segment.files and self._rebuild():
                return self._time_index()
            self._times = TimeIndex(companion_bytes(self.segment, FileKind.TIME_INDEX), self.base_offset)
        return self._times

    def _rebuild(self) -> bool:
        """Make both indexes anew from the headers; False if that was done before, and the log is damaged itself.

        Behind a damaged header it goes on where the next entry of the file leads: else what is found behind the damage
        would depend on what was looked up before.

        Source: Kafka LogSegment.recover, which cuts the log there.
        """
        if not self._can_rebuild:
            return False
        self._can_rebuild = False
        builder = IndexBuilder(self.base_offset, _INTERVAL_BYTES, self.path)
        start: int | None = 0
        end, last_offset = 0, self.base_offset - 1
        while start is not None:
            with suppress(CorruptBatch):
                for position, header in iter_headers(self._descriptor, self.path, start, self.end_position):
                    builder.append(position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
                    end, last_offset = position + header.size_bytes, header.last_offset
            start = self._resumed_at(end, last_offset) if end < self.end_position else None
            builder.skip()
        self._offsets, self._times = builder.live
        self._largest = builder.largest
        return True

    def _resumed_at(self, position: int, offset: int) -> int | None:
        """Return where the first entry of the ``.index`` file leads behind a byte and an offset; None if none does."""
        if FileKind.INDEX not in self.segment.files:
            return None
        stated = OffsetIndex(companion_bytes(self.segment, FileKind.INDEX), self.base_offset)
        behind = (entry for entry in stated.entries() if entry.position > position and entry.offset > offset)
        return next((entry.position for entry in behind if self._fits(entry) is not None), None)
