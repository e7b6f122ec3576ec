"""The segments that a round reads: mapped under our lock, scanned and verified slice by slice."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from cleaner.engine.compaction.legacy_rewrite import legacy_batch, read_stretch
from storage.arrays import Bytes, Table
from storage.errors import CorruptBatch, PlanOutOfDate
from storage.kernels.crc import first_bad_crc
from storage.kernels.layout import BATCH, CODEC_MASK
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.records import Batch, LegacyBatch, parse_header
from storage.scan.page_cache import Range, absent_ranges, let_go, populate, unmap_pages
from storage.segment import Segment, open_to_read

WINDOW_BYTES: Final = 8 << 20
"""What a kernel call works on: small enough to stay in cache between the checksum and the walk over the records, and
for signals to be served in between; a larger batch gets a window of its own."""
ROWS_MAX: Final = 16_384
_READ_AHEAD_BYTES: Final = 16 << 20
"""So far ahead the system reads at most: twice its setting, which is seldom above 8 MiB."""

_CAUSES: Final = {
    Status.END_OF_BUFFER: "the file ends within a batch",
    Status.BAD_MAGIC: "unknown record format",
    Status.BAD_SIZE: "impossible batch length",
    Status.BAD_COUNT: "impossible record count",
    Status.BAD_OFFSETS: "offsets that go back or lie outside their batch",
    Status.BAD_VARINT: "a varint that does not end",
    Status.BAD_LENGTH: "a record that does not end where it says",
    Status.BAD_CRC: "CRC-32C mismatch",
    Status.BAD_HEADERS: "record headers that do not parse",
}


@dataclass(frozen=True, slots=True)
class Slice:
    """Some batches of a segment."""

    buf: Bytes
    """The window that ``table`` speaks of."""
    file_position: int
    """Of ``buf[0]``."""
    table: Table
    """``layout.BATCH``."""
    first_row: int
    """Place of ``table[0]`` among the segment's batches."""
    path: Path
    keys: Bytes | None = None
    """Of a slice of v0 and v1 messages: the arena in which ``records_start`` of all rows lies."""

    @property
    def is_legacy(self) -> bool:
        """Whether this is a slice of v0 and v1 messages; no slice holds both these and v2 batches."""
        return self.keys is not None

    @property
    def is_plain(self) -> bool:
        """Whether no row is compressed, and none legacy."""
        return not self.is_legacy and not (self.table["attributes"] & CODEC_MASK).any()

    def legacy_batch(self, row: int) -> LegacyBatch:
        """The message, or wrapper, of a row."""
        return legacy_batch(self.buf, int(self.table["position"][row]), self.path, self.file_position)

    def v2_batch(self, row: int) -> Batch:
        """The v2 batch of a row, for Python to read. Raises: CorruptBatch."""
        position, size = int(self.table["position"][row]), int(self.table["size"][row])
        header = parse_header(self.buf.data, position, self.path, self.file_position)
        return Batch(header, self.buf[position : position + size].data, self.path, self.file_position + position)

    def verify(self, first: int, last: int) -> None:
        """Check the CRC-32C of some rows: of v2 batches; older messages are checked as they are read.

        Raises: CorruptBatch.
        """
        if self.is_legacy:
            return
        bad = first_bad_crc(self.buf, self.table, first, last)
        if bad >= 0:
            raise self.fail(Status.BAD_CRC, bad)

    @property
    def size_bytes(self) -> int:
        """Of its batches, which lie side by side."""
        return int(self.table["position"][-1] + self.table["size"][-1] - self.table["position"][0])

    def position_of(self, row: int) -> int:
        """Where a batch starts in the file."""
        return self.file_position + int(self.table["position"][row])

    def rows_before(self, position: int) -> int:
        """How many batches start before a byte of the file."""
        return int(np.searchsorted(self.table["position"], position - self.file_position))

    def fail(self, status: int, row: int) -> CorruptBatch:
        """The error of a kernel that stopped at ``row``."""
        return CorruptBatch(self.path, self.position_of(row), _CAUSES[Status(status)])


@dataclass(frozen=True, slots=True)
class Position:
    """Between two slices: where a walk can begin."""

    position: int
    """In the file."""
    next_offset: int
    """The least that the next batch can have."""
    ordinal: int
    row: int

    @classmethod
    def behind(cls, slice_: Slice) -> Position:
        """Where the next slice begins."""
        last = slice_.table[-1]
        return cls(
            slice_.file_position + int(last["position"] + last["size"]),
            int(last["last_offset"]) + 1,
            int(last["first_ordinal"] + last["record_count"]),
            slice_.first_row + slice_.table.size,
        )


class Source:
    """A segment of a round, read window by window.

    Under the lock its ``.log`` is mapped for the round, and every window's pages are populated before they are
    touched: a file that was truncated gives an error there, not a SIGBUS in a kernel. Without the lock windows are
    read into memory.

    The first walk is one thread's; what it walked over, several may read again.
    """

    def __init__(self, segment: Segment, upper_offset: int, *, is_locked: bool, start: Position | None = None) -> None:
        """Open a segment.

        Args:
            segment: with a ``.log``.
            upper_offset: the next segment's base offset; a batch that reaches it is damaged.
            is_locked: whether we hold the lock of the log dir.
            start: where its first batch to read begins; the beginning of the file if none is given.

        Raises: UnreadableFile, PlanOutOfDate where the file has another size than was listed.
        """
        self.path = segment.log.path
        self.start = start or Position(0, segment.base_offset, 0, 0)
        """Of the first slice."""
        self._upper_offset = upper_offset
        self._size_bytes = segment.size_bytes
        self._map = _mapped(segment) if is_locked else None
        self._mapped_buf: Bytes | None = np.frombuffer(self._map, np.uint8) if self._map else None
        self._populated_to = 0
        self._absent: list[Range] = []
        self._noted_to = 0
        self._walked_to = 0
        self._asks = True
        """Whether absent pages must be asked for before they are brought in."""

    @property
    def absent_bytes(self) -> int:
        """What of it was not in the page cache before the first walk."""
        return sum(end - start for start, end in self._absent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go, so that unlinking it gives its space back; calling it again does nothing."""
        self._mapped_buf = None
        if self._map is not None:
            with suppress(BufferError):  # an error on its way up still holds a view; the map goes with it
                self._map.close()

    def let_go(self) -> None:
        """Leave the page cache as it was found. No slice is in use."""
        if self._mapped_buf is not None:
            unmap_pages(self._mapped_buf, 0, self._size_bytes)
            self._populated_to = 0
        if not self._absent:
            return
        file = open_to_read(self.path)
        try:
            let_go(file, self._absent)
        finally:
            os.close(file)

    def leave(self, start: int, end: int) -> None:
        """No byte of a stretch of the file is touched any more: unmap the pages that lie in it in full."""
        if self._mapped_buf is not None:
            unmap_pages(self._mapped_buf, start + -start % mmap.PAGESIZE, end - end % mmap.PAGESIZE)

    def slice_at(self, start: Position, rows: int) -> Slice:
        """One of so many rows that was walked over before. Raises: as ``slices``."""
        return next(self.slices(verify=False, start=start, rows_max=rows))

    def slices(self, *, verify: bool, start: Position | None = None, rows_max: int | None = None) -> Iterator[Slice]:
        """Walk over the batches.

        Args:
            start: where to begin; ``self.start`` if none is given.
            rows_max: of a slice.
            verify: check the CRC of v0 and v1 messages as they are read; v2 batches by ``Slice.verify``: once a round,
                before a byte of them is used.

        Raises: CorruptBatch, PlanOutOfDate, UnreadableFile.
        """
        start = start or self.start
        position, next_offset, ordinal, row = start.position, start.next_offset, start.ordinal, start.row
        rows_max = rows_max or ROWS_MAX
        table = np.zeros(rows_max, BATCH)
        window_bytes = WINDOW_BYTES
        while position < self._size_bytes:
            end = min(position + window_bytes, self._size_bytes)
            buf, file_position = self._window(position, end)
            status, rows, stopped, next_offset, ordinal = scan_batches(
                buf, position - file_position, end - file_position, next_offset, ordinal, table
            )
            if rows:
                yield self._bounded(Slice(buf, file_position, table[:rows].copy(), row, self.path))
            elif status == Status.LEGACY_MAGIC:
                span = position - file_position, end - file_position
                stretch = read_stretch(
                    buf, span, file_position, self.path, next_offset, ordinal, rows_max, verify=verify
                )
                rows, stopped = stretch.table.size, stretch.stopped
                next_offset, ordinal = stretch.next_offset, stretch.next_ordinal
                yield self._bounded(Slice(buf, file_position, stretch.table, row, self.path, stretch.keys))
            row += rows
            position = file_position + stopped
            self._check(status, position, end)
            window_bytes = WINDOW_BYTES if rows else window_bytes * 2

    def _bounded(self, found: Slice) -> Slice:
        """Refuse the first batch that reaches into the next segment."""
        last_offsets = found.table["last_offset"]
        if last_offsets[-1] >= self._upper_offset:
            row = int(np.searchsorted(last_offsets, self._upper_offset))
            cause = f"offsets reach {last_offsets[row] + 1}, beyond the next segment's base {self._upper_offset}"
            raise CorruptBatch(self.path, found.position_of(row), cause)
        return found

    def _check(self, status: int, position: int, end: int) -> None:
        is_cut_by_window = status == Status.END_OF_BUFFER and end < self._size_bytes
        if status in _CAUSES and not is_cut_by_window:
            raise CorruptBatch(self.path, position, _CAUSES[Status(status)])

    def _window(self, start: int, end: int) -> tuple[Bytes, int]:
        """A buffer that holds ``[start, end)`` of the file, and the file position of its first byte."""
        if self._asks and self._noted_to < self._size_bytes:
            self._note_absent(min(end + _READ_AHEAD_BYTES, self._size_bytes))
        if self._mapped_buf is None:
            return _read(self.path, start, end), start
        had_to_read = self._populate(start, end)
        if end > self._walked_to:
            self._asks = had_to_read or (self._asks and start > 0)
            self._walked_to, self._noted_to = end, max(end, self._noted_to)
        return self._mapped_buf, 0

    def _note_absent(self, end: int) -> None:
        """Before the system reads ahead of a window.

        Asking takes half as long as bringing in, so it is done for the first windows, and again from the first one on
        that had to be read from disk without having been asked for: that one stays in memory.
        """
        file = open_to_read(self.path)
        try:
            self._absent += absent_ranges(file, self._noted_to, end)
        finally:
            os.close(file)
        self._noted_to = end

    def _populate(self, start: int, end: int) -> bool:
        """Bring in what of a window is not mapped; gives whether pages of it may have been read from disk."""
        assert self._mapped_buf is not None
        start = max(start, self._populated_to)
        if end <= start:
            return False
        try:
            had_to_read = populate(self._mapped_buf, start - start % mmap.PAGESIZE, end)
        except OSError as error:
            if error.errno != errno.EINVAL:  # before Linux 5.14: pages come in as they are touched
                raise PlanOutOfDate(self.path, "it was truncated while it was read") from error
            return True
        if start == self._populated_to:
            self._populated_to = end
        return had_to_read


def _mapped(segment: Segment) -> mmap.mmap | None:
    """The whole ``.log``; None for an empty one."""
    descriptor = open_to_read(segment.log.path)
    try:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes != segment.size_bytes:
            raise PlanOutOfDate(segment.log.path, f"{size_bytes} bytes instead of {segment.size_bytes}")
        return mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ) if size_bytes else None
    finally:
        os.close(descriptor)


def _read(path: Path, start: int, end: int) -> Bytes:
    buf = np.empty(end - start, np.uint8)
    descriptor = open_to_read(path)
    try:
        filled = 0
        while filled < buf.size:
            count = os.preadv(descriptor, [buf[filled:].data], start + filled)
            if count == 0:
                raise PlanOutOfDate(path, "it was truncated while it was read")
            filled += count
    finally:
        os.close(descriptor)
    return buf
