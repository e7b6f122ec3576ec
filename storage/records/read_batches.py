"""Walking over the headers of a ``.log``, and reading whole batches.

Source: Kafka ``FileLogInputStream``: a piece too short for a batch's first 17
bytes, or a batch longer than what is left, ends the log without an error: that is how a write that did not
finish looks.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import CorruptBatch, UnreadableFile
from storage.records.header import (
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    V2_HEADER_BYTES,
    BatchHeader,
    parse_header,
)
from storage.records.legacy import MESSAGE_BYTES_MIN, LegacyBatch, LegacyHeader, parse_legacy_header
from storage.records.v2 import Batch

_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8
_PREFIX_BYTES: Final = MAGIC_POSITION + 1
_LENGTH_MIN: Final = min(MESSAGE_BYTES_MIN.values())
_WINDOW_BYTES: Final = 4096
"""Read at once when only headers are wanted: many small batches, or one header and little of a large
batch."""


class PositionedHeader(NamedTuple):
    """A header and where its batch starts in the file."""

    position: int
    header: BatchHeader | LegacyHeader


class HeaderIterator(Iterator[PositionedHeader]):
    """The headers of a file's batches; ``position`` is where the next one starts, and at the end where the
    log ends. ``bytes_read`` counts what was read of the file so far."""

    def __init__(self, descriptor: int, path: Path, start: int, end: int) -> None:
        self._descriptor, self._path, self._end = descriptor, path, end
        self._window = memoryview(b"")
        self._window_start = start
        self.position = start
        self.bytes_read = 0

    def __next__(self) -> PositionedHeader:
        position = self.position
        data = self._bytes_at(position)
        size_bytes = _batch_size(data, self._end - position, self._path, position)
        if size_bytes is None:
            raise StopIteration
        header = _parse_any_header(data[:size_bytes], self._path, position)
        self.position += size_bytes
        return PositionedHeader(position, header)

    def _bytes_at(self, position: int) -> memoryview:
        """Return at least a v2 header's bytes from ``position`` on, or all up to the end."""
        wanted_bytes = max(0, min(V2_HEADER_BYTES, self._end - position))
        offset = position - self._window_start
        if len(self._window) - offset < wanted_bytes:
            window_bytes = min(_WINDOW_BYTES, self._end - position)
            self._window = memoryview(_pread(self._descriptor, self._path, position, window_bytes))
            self._window_start, offset = position, 0
            self.bytes_read += window_bytes
        return self._window[offset:]


def iter_headers(descriptor: int, path: Path, start: int = 0, end: int | None = None) -> HeaderIterator:
    """Walk over the headers of the batches in a file without reading their records.

    Args:
        descriptor: of the file, open for reading; its file position is neither used nor moved.
        path: the file, for errors.
        start: where a batch starts.
        end: where the log is taken to end; default: the file's size now.

    Returns:
        An iterator; its ``position`` tells where the log ended. It raises CorruptBatch at a batch whose length,
        magic or header cannot be, and UnreadableFile where the file cannot be read, or shrank.
    """
    return HeaderIterator(descriptor, path, start, os.fstat(descriptor).st_size if end is None else end)


def read_batch(descriptor: int, path: Path, found: PositionedHeader) -> Batch | LegacyBatch:
    """Read the whole batch of a header that ``iter_headers`` gave.

    Raises:
        CorruptBatch: the bytes there are no longer a batch.
        UnreadableFile: the file cannot be read, or shrank.
    """
    data = memoryview(_pread(descriptor, path, found.position, found.header.size_bytes))
    return parse_batch(data, path, found.position)


def _batch_size(data: memoryview, bytes_left: int, path: Path, position: int) -> int | None:
    """Return the size in bytes of the batch at the start of ``data``; None if the log ends there."""
    if bytes_left <= _PREFIX_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(data, _LENGTH_POSITION)
    if length < _LENGTH_MIN:
        raise CorruptBatch(path, position, f"batch length {length} is less than {_LENGTH_MIN}")
    size_bytes: int = LOG_OVERHEAD_BYTES + length
    return None if size_bytes > bytes_left else size_bytes


def parse_batch(data: memoryview, path: Path, position: int) -> Batch | LegacyBatch:
    """Read the header of a batch that is there in full. Raises: CorruptBatch."""
    header = _parse_any_header(data, path, position)
    if header.size_bytes != len(data):
        raise CorruptBatch(path, position, "the batch changed while it was read")
    if isinstance(header, LegacyHeader):
        return LegacyBatch(header, data, path, position)
    return Batch(header, data, path, position)


def _parse_any_header(data: memoryview, path: Path, position: int) -> BatchHeader | LegacyHeader:
    if data[MAGIC_POSITION] in MESSAGE_BYTES_MIN:
        return parse_legacy_header(data, 0, path, position)
    return parse_header(data, 0, path, position)


def _pread(descriptor: int, path: Path, position: int, size_bytes: int) -> bytes:
    try:
        data = os.pread(descriptor, size_bytes, position)
    except OSError as error:
        raise UnreadableFile(path, error.strerror or str(error)) from error
    if len(data) < size_bytes:
        raise UnreadableFile(path, f"shorter than {position + size_bytes} bytes: it shrank while it was read")
    return data
