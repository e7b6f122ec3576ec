"""The one reader of batches in bulk: window by window, by the kernel that reads headers.

It takes the batches that follow one another, and tells what stands behind them. The caller decides what that means, and
where reading goes on: ``segments`` acts on records, ``walking`` looks for damage, ``as_stored`` shows a file, sound or
not.

Source: Kafka ``FileLogInputStream``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from storage.arrays import Bytes, Table
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.records.read_batches import PREFIX_BYTES, batch_size

ReadWindow = Callable[[int, int], tuple[Bytes, int]]
"""Returns a buffer that holds a range of bytes of a file, and the position of its first byte in the file. The buffer
ends early if the file does."""


class Found(NamedTuple):
    """Batches that lie side by side, and the status of the bytes behind them."""

    buf: Bytes
    """The window."""
    file_position: int
    """The position of ``buf[0]`` in the file."""
    span: tuple[int, int]
    """The bytes of the window that were read: from the first batch on."""
    table: Table
    """``layout.BATCH``, valid until the next batches are read; without rows if the span does not begin with a batch."""
    status: Status
    """The status of the bytes behind the batches; END_OF_BUFFER without a row means a batch that ends behind the end of
    the file.
    """
    least_offset: int
    """The least offset that the first batch could have."""
    first_ordinal: int

    @property
    def position(self) -> int:
        """The position in the file of the first batch, or of the bytes that are no batch."""
        return self.file_position + self.span[0]


class BatchReader:
    """A reading of the batches of a file. The caller may set where the reading goes on, and which offsets fit there."""

    def __init__(self, window: ReadWindow, start: int, end: int, table: Table, window_bytes: int) -> None:
        """Prepare to read.

        Args:
            window: gives the bytes.
            start: where the first batch begins.
            end: the byte of the file at which the last batch ends.
            table: ``layout.BATCH``: room for the rows.
            window_bytes: read at once. A larger batch gets a window of its own.
        """
        self.position, self.next_offset, self.ordinal = start, 0, 0
        self.end = end
        self._window, self._table, self._window_bytes = window, table, window_bytes
        self._buf: Bytes = np.empty(0, np.uint8)
        self._file_position = self._window_start = self._window_end = start

    def go_on(self, position: int, next_offset: int, ordinal: int | None = None) -> None:
        """Set where the next batch begins, and its least offset; without an ordinal, the numbers go on, too."""
        self.position, self.next_offset = position, next_offset
        self.ordinal = self.ordinal if ordinal is None else ordinal

    def read(self, takes: Callable[[int, int], bool] | None = None) -> Found | None:
        """Read on, and return the batches found; None at the end.

        Args:
            takes: whether the batch at a position, of so many bytes, is worth a window of its own.

        Raises: what the reading of a window raises.
        """
        while self.position < self.end:
            if not self._window_start <= self.position < self._window_end:
                self._read(self._window_bytes)
            at = self._file_position
            span, numbers = (self.position - at, self._window_end - at), (self.next_offset, self.ordinal)
            status, rows, stopped, *next_numbers = scan_batches(self._buf, *span, *numbers, self._table)
            if rows or status != Status.END_OF_BUFFER or not self._grows(takes):
                self.go_on(at + stopped, *next_numbers)
                return Found(self._buf, at, span, self._table[:rows], Status(status), *numbers)
        return None

    def bytes_here(self, size_bytes: int) -> memoryview | None:
        """Return a number of bytes, valid until the next are read; None if the file ends before. Raises: as
        ``read``.
        """
        if self._window_end - self.position < size_bytes:
            if self.end - self.position < size_bytes:
                return None
            self._read(max(size_bytes, self._window_bytes))
        start = self.position - self._file_position
        data = self._buf[start : min(start + size_bytes, self._window_end - self._file_position)].data
        return data if len(data) == size_bytes else None

    def _read(self, size_bytes: int) -> None:
        self._window_start, end = self.position, min(self.position + size_bytes, self.end)
        self._buf, self._file_position = self._window(self._window_start, end)
        self._window_end = min(end, self._file_position + self._buf.size)
        if self._window_end < end:
            self.end = self._window_end  # the file shrank

    def _grows(self, takes: Callable[[int, int], bool] | None) -> bool:
        """Read a larger window if only the window cuts off the batch here. Return whether it does."""
        is_known = self._window_end - self.position >= PREFIX_BYTES
        prefix = self.bytes_here(PREFIX_BYTES)
        if prefix is None or not is_known:
            return prefix is not None
        size_bytes = batch_size(prefix, self.end - self.position)
        if size_bytes is None or not (takes is None or takes(self.position, size_bytes)):
            return False
        return self.bytes_here(size_bytes) is not None
