"""The one reader of the batches of a segment: it walks over them window by window, slice by slice."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import numpy as np

from storage.errors import CorruptBatch
from storage.kernels.layout import BATCH
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.scan.files import FileBytes, MappedFile, ReadFile
from storage.scan.legacy_keys import read_keys
from storage.scan.slices import CAUSES, Position, Slice
from storage.segment import Segment

WINDOW_BYTES: Final = 8 << 20
"""What a kernel call works on: small enough to stay in cache between the checksum and the walk over the records, and
for signals to be served in between; a larger batch gets a window of its own."""
ROWS_MAX: Final = 16_384


def open_segment(
    segment: Segment, upper_offset: int, *, is_locked: bool, start: Position | None = None
) -> SegmentReader:
    """Open a segment.

    Args:
        segment: with a ``.log``.
        upper_offset: the next segment's base offset; a batch that reaches it is damaged.
        is_locked: whether we hold the lock of the log dir. If so, the file is mapped until the reader is closed.
        start: where its first batch to read begins; the beginning of the file if none is given.

    Raises: UnreadableFile, PlanOutOfDate if a file to map has another size than was listed.
    """
    file = MappedFile(segment) if is_locked else ReadFile(segment)
    return SegmentReader(segment, upper_offset, file, start or Position(0, segment.base_offset, 0, 0))


class SegmentReader:
    """The batches of one segment. The first walk over them is one thread's; slices of it, several may read again."""

    def __init__(self, segment: Segment, upper_offset: int, file: FileBytes, start: Position) -> None:
        self.path = segment.log.path
        self.start = start
        """Of the first slice."""
        self._size_bytes = segment.size_bytes
        self._upper_offset = upper_offset
        self._file = file

    @property
    def absent_bytes(self) -> int:
        """The number of bytes that were not in the page cache before the first walk."""
        return self._file.absent_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go, so that unlinking it gives its space back; calling it again does nothing."""
        self._file.close()

    def let_go(self) -> None:
        """Leave the page cache as it was found. No slice is in use."""
        self._file.let_go()

    def leave(self, start: int, end: int) -> None:
        """Say that nobody touches a stretch of the file any more: pages that lie in it in full are unmapped."""
        self._file.leave(start, end)

    def slice_at(self, start: Position, rows: int) -> Slice:
        """Return a slice of so many rows that was walked over before. Raises: as ``slices``."""
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
            buf, file_position = self._file.window(position, end)
            status, rows, stopped, next_offset, ordinal = scan_batches(
                buf, position - file_position, end - file_position, next_offset, ordinal, table
            )
            if rows:
                yield self._bounded(Slice(buf, file_position, table[:rows].copy(), row, self.path))
            elif status == Status.LEGACY_MAGIC:
                span = position - file_position, end - file_position
                stretch = read_keys(buf, span, file_position, self.path, next_offset, ordinal, rows_max, verify=verify)
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
        if status in CAUSES and not is_cut_by_window:
            raise CorruptBatch(self.path, position, CAUSES[Status(status)])
