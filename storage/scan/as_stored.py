"""The batches of a ``.log`` as they lie there, sound or not, for who shows them.

No offset is expected of a batch and no checksum is required: a batch is passed over only if not even its length can be
believed. What the kernels can read comes as rows; the rest comes batch by batch, for Python to read.

Source: Kafka ``FileLogInputStream``: where a batch ends beyond the file, or fewer than 18 bytes are left, the log ends.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.errors import CorruptBatch, as_unreadable
from storage.kernels.crc import first_bad_crc
from storage.kernels.layout import BATCH, CODEC_MASK
from storage.kernels.scan import scan_batches
from storage.records.header import LOG_OVERHEAD_BYTES, MAGIC_POSITION
from storage.scan.slices import Slice

_WINDOW_BYTES: Final = 4 << 20
_ROWS_MAX: Final = 8192
_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8
_LENGTH_MIN: Final = 14
"""Kafka LegacyRecord.RECORD_OVERHEAD_V0."""
_CODEC_MAX: Final = 4


class StoredRows(NamedTuple):
    """Batches of version 2 whose headers are sound. The table is valid until the next ones are taken."""

    slice: Slice
    is_valid: npt.NDArray[np.bool_]
    """For each row, whether its CRC-32C agrees."""


class StoredBatch(NamedTuple):
    """A batch of any version, for Python to read."""

    position: int
    data: memoryview


class StoredBatches(Iterator[StoredRows | StoredBatch]):
    """The batches of a file from its beginning. ``position`` is where the next batch starts, and in the end where the
    log ends."""

    def __init__(self, descriptor: int, path: Path, end: int, start: int = 0) -> None:
        """Prepare to read.

        Args:
            descriptor: of the file, open for reading.
            path: of the file, for errors.
            end: the byte at which the log is taken to end.
            start: the byte at which the first batch starts.
        """
        self._descriptor, self._path, self._end = descriptor, path, end
        self._buf = np.empty(0, np.uint8)
        self._window_start = self._window_end = start
        self._table = np.zeros(_ROWS_MAX, BATCH)
        self.position = start

    def __next__(self) -> StoredRows | StoredBatch:
        """Return what comes next. Raises: CorruptBatch for a length that cannot be; UnreadableFile."""
        while self._end - self.position > MAGIC_POSITION + 1:
            start, end = self.position - self._window_start, self._window_end - self._window_start
            _, rows, _, _, _ = scan_batches(self._buf, start, end, 0, 0, self._table)
            if rows := self._rows_of_known_codecs(rows):
                return self._rows(rows)
            size_bytes = self._size_bytes(start) if end - start > MAGIC_POSITION else _WINDOW_BYTES
            if size_bytes <= end - start:
                self.position += size_bytes
                return StoredBatch(self._window_start + start, self._buf[start : start + size_bytes].data)
            if self._window_end == self._end:
                break
            self._read(size_bytes)
        raise StopIteration

    def _rows_of_known_codecs(self, rows: int) -> int:
        is_unknown = self._table["attributes"][:rows] & CODEC_MASK > _CODEC_MAX
        return int(np.argmax(is_unknown)) if is_unknown.any() else rows

    def _rows(self, rows: int) -> StoredRows:
        table = self._table[:rows]
        is_valid, row = np.ones(rows, np.bool_), 0
        while (row := int(first_bad_crc(self._buf, table, row, rows))) >= 0:
            is_valid[row] = False
            row += 1
        self.position = self._window_start + int(table["position"][-1] + table["size"][-1])
        return StoredRows(Slice(self._buf, self._window_start, table, 0, self._path), is_valid)

    def _size_bytes(self, start: int) -> int:
        """Return the size of the batch that starts at a byte of the window. Raises: CorruptBatch."""
        (length,) = _LENGTH.unpack_from(self._buf.data, start + _LENGTH_POSITION)
        if length < _LENGTH_MIN:
            raise CorruptBatch(self._path, self.position, f"batch length {length} is less than {_LENGTH_MIN}")
        size_bytes: int = LOG_OVERHEAD_BYTES + length
        return size_bytes

    def _read(self, size_bytes: int) -> None:
        """Read a window that begins at the next batch, and holds so many bytes if the file has them."""
        wanted = min(max(size_bytes, _WINDOW_BYTES), self._end - self.position)
        buf, filled = np.empty(wanted, np.uint8), 0
        with as_unreadable(self._path):
            while filled < wanted and (
                read := os.preadv(self._descriptor, [buf[filled:].data], self.position + filled)
            ):
                filled += read
        self._buf, self._window_start, self._window_end = buf[:filled], self.position, self.position + filled
        if filled < wanted:  # the file shrank: what is there is shown
            self._end = self._window_end
