"""The batches of a ``.log`` as they are stored, sound or not, for commands that show them.

No offset is expected of a batch and no checksum is required: a batch is passed over only if not even its length can be
believed. Batches that the kernels can read come as rows; the others come one by one, for Python to read.

Source: Kafka ``FileLogInputStream``: where a batch ends beyond the file, or fewer than 18 bytes are left, the log ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes, Table
from storage.directory import OpenFile, read_ahead
from storage.errors import CorruptBatch, InvalidRecord, as_unreadable
from storage.kernels.crc import first_bad_crc
from storage.kernels.layout import BATCH, CODEC_MASK
from storage.records.read_batches import PREFIX_BYTES, batch_size
from storage.scan.files import Buffer
from storage.scan.reader import BatchReader
from storage.scan.slices import Slice

_WINDOW_BYTES: Final = 4 << 20
_ROWS_MAX: Final = 8192
_CODEC_MAX: Final = 4


class StoredRows(NamedTuple):
    """Batches of version 2 whose headers are sound. The table is valid until the next ones are taken."""

    slice: Slice
    is_valid: npt.NDArray[np.bool_]
    """Whether the CRC-32C of each row agrees."""


class StoredBatch(NamedTuple):
    """A batch of any version, for Python to read."""

    position: int
    data: memoryview


class StoredBatches(Iterator[StoredRows | StoredBatch]):
    """The batches of a file from its beginning."""

    def __init__(self, descriptor: OpenFile, path: Path, end: int, start: int = 0) -> None:
        """Prepare to read.

        Args:
            descriptor: of the file, open for reading; one in a store is read ahead.
            path: of the file, for errors.
            end: the byte at which the log is taken to end, if the file does not end before.
            start: the byte at which the first batch starts.
        """
        self._descriptor, self._path, self._buffer = descriptor, path, Buffer()
        read_ahead(descriptor, start, end)
        self._reader = BatchReader(self._window, start, end, np.zeros(_ROWS_MAX, BATCH), _WINDOW_BYTES)

    @property
    def position(self) -> int:
        """The byte at which the next batch starts; after the last batch, the byte at which the log ends."""
        return self._reader.position

    def __next__(self) -> StoredRows | StoredBatch:
        """Return the next rows, or the next batch. Raises: CorruptBatch for an impossible length; UnreadableFile."""
        reader = self._reader
        if reader.end - reader.position > PREFIX_BYTES and (found := reader.read()) is not None:
            if rows := _rows_of_known_codecs(found.table):
                return self._rows(Slice(found.buf, found.file_position, found.table[:rows], 0, self._path))
            reader.go_on(found.position, 0)
            data = self._batch_here()
            if data is not None:
                reader.go_on(found.position + len(data), 0)
                return StoredBatch(found.position, data)
        raise StopIteration

    def _batch_here(self) -> memoryview | None:
        """Return the bytes of the next batch; None if the log ends here. Raises: CorruptBatch."""
        reader = self._reader
        prefix = reader.bytes_here(PREFIX_BYTES)
        try:
            size_bytes = None if prefix is None else batch_size(prefix, reader.end - reader.position)
        except InvalidRecord as error:
            raise CorruptBatch(self._path, self.position, error.cause) from error
        return None if size_bytes is None else reader.bytes_here(size_bytes)

    def _rows(self, found: Slice) -> StoredRows:
        table = found.table
        is_valid, row = np.ones(table.size, np.bool_), 0
        while (row := int(first_bad_crc(found.buf, table, row, table.size))) >= 0:
            is_valid[row] = False
            row += 1
        self._reader.go_on(found.position_of(0) + found.size_bytes, 0)
        return StoredRows(found, is_valid)

    def _window(self, start: int, end: int) -> tuple[Bytes, int]:
        with as_unreadable(self._path):
            return self._buffer.read(self._descriptor, start, end), start


def _rows_of_known_codecs(table: Table) -> int:
    is_unknown = table["attributes"] & CODEC_MASK > _CODEC_MAX
    return int(np.argmax(is_unknown)) if is_unknown.any() else table.size
