"""Walks over the headers of a ``.log``, and reads whole batches.

A piece too short for a batch's first 17 bytes, or a batch longer than what is left, ends the log without an error: that
is how a write that did not finish looks.

Source: Kafka ``FileLogInputStream``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import OpenFile, pread, size_of
from storage.errors import CorruptBatch, InvalidRecord, UnreadableFile, as_unreadable
from storage.records.legacy import MESSAGE_BYTES_MIN, LegacyBatch, LegacyHeader, parse_legacy_header
from storage.records.v2 import (
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    V2_HEADER_BYTES,
    Batch,
    BatchHeader,
    parse_header,
)

_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8
PREFIX_BYTES: Final = MAGIC_POSITION + 1
"""Offset, length, four bytes that differ by version, and the magic byte, at the same place in every version."""
_LENGTH_MIN: Final = min(MESSAGE_BYTES_MIN.values())
_WINDOW_BYTES: Final = 4096
"""The bytes that are read at once for headers: many small batches, or one header and little of a large batch."""


class PositionedHeader(NamedTuple):
    """A header, and the position of its batch in the file."""

    position: int
    header: BatchHeader | LegacyHeader


class LogBytes:
    """The bytes of a file, read in windows: never mapped, so that a file that shrinks crashes nothing."""

    def __init__(self, descriptor: OpenFile, window_bytes: int = 1 << 20, end: int | None = None) -> None:
        """Prepare to read a number of bytes at once, up to an end; default: the file's present size."""
        self.descriptor = descriptor
        self.size_bytes = size_of(descriptor) if end is None else end
        self.bytes_read = 0
        self._window_bytes = window_bytes
        self._start, self._window = 0, memoryview(b"")

    def at(self, position: int, size_bytes: int) -> memoryview:
        """Return some bytes; fewer where the file ends. Raises: OSError."""
        offset = position - self._start
        if offset < 0 or offset + size_bytes > len(self._window):
            wanted = max(size_bytes, min(self._window_bytes, self.size_bytes - position))
            self._window, self._start, offset = memoryview(pread(self.descriptor, wanted, position)), position, 0
            self.bytes_read += len(self._window)
        return self._window[offset : offset + size_bytes]


class HeaderIterator(Iterator[PositionedHeader]):
    """The headers of a file's batches; ``position`` is the start of the next batch and, after the walk, the end of the
    log. ``bytes_read`` counts the bytes read so far.
    """

    def __init__(self, descriptor: OpenFile, path: Path | str, start: int, end: int) -> None:
        self._log, self._path = LogBytes(descriptor, _WINDOW_BYTES, end), path
        self.position = start

    @property
    def bytes_read(self) -> int:
        """The number of bytes that were read of the file so far."""
        return self._log.bytes_read

    def __next__(self) -> PositionedHeader:
        position, bytes_left = self.position, self._log.size_bytes - self.position
        if bytes_left <= 0:
            raise StopIteration
        wanted_bytes = min(V2_HEADER_BYTES, bytes_left)
        try:
            data = self._log.at(position, wanted_bytes)
            if len(data) < wanted_bytes:
                raise _shrunk(self._path, position + wanted_bytes)
            size_bytes = batch_size(data, bytes_left)
        except OSError as error:
            raise UnreadableFile(Path(self._path), error.strerror or str(error)) from error
        except InvalidRecord as error:
            raise CorruptBatch(Path(self._path), position, error.cause) from error
        if size_bytes is None:
            raise StopIteration
        header = _parse_any_header(data[:size_bytes], self._path, position)
        self.position += size_bytes
        return tuple.__new__(PositionedHeader, (position, header))


def iter_headers(descriptor: OpenFile, path: Path | str, start: int = 0, end: int | None = None) -> HeaderIterator:
    """Walk over the headers of the batches in a file without reading their records.

    Args:
        descriptor: of the file, open for reading; its file position is neither used nor moved.
        path: the file, for errors; as text for callers that open thousands of files.
        start: where a batch starts.
        end: where the log is taken to end; default: the file's present size.

    Returns:
        An iterator; its ``position`` tells where the log ended. It raises CorruptBatch at a batch with an impossible
        length, magic or header, and UnreadableFile where the file cannot be read, or shrank.
    """
    return HeaderIterator(descriptor, path, start, size_of(descriptor) if end is None else end)


def walk_headers(descriptor: OpenFile, path: Path, end: int) -> int:
    """Walk over all headers in front of a byte, and return where the last batch ends. Raises: as ``iter_headers``."""
    headers = iter_headers(descriptor, path, 0, end)
    for _ in headers:
        pass
    return headers.position


def read_batch(descriptor: OpenFile, path: Path, found: PositionedHeader) -> Batch | LegacyBatch:
    """Read the whole batch of a header that ``iter_headers`` gave.

    Raises:
        CorruptBatch: the bytes there are no longer a batch.
        UnreadableFile: the file cannot be read, or shrank.
    """
    size_bytes = found.header.size_bytes
    with as_unreadable(path):
        data = pread(descriptor, size_bytes, found.position)
    if len(data) < size_bytes:
        raise _shrunk(path, found.position + size_bytes)
    return parse_batch(memoryview(data), path, found.position)


def batch_size(data: memoryview, bytes_left: int) -> int | None:
    """Return the size in bytes of the batch at the start of ``data``; None if the log ends there.

    Args:
        data: at least the first 17 bytes, where the file has them.
        bytes_left: of the log, from there on.

    Raises: InvalidRecord for a length that cannot be.
    """
    if bytes_left <= PREFIX_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(data, _LENGTH_POSITION)
    if length < _LENGTH_MIN:
        raise InvalidRecord(f"batch length {length} is less than {_LENGTH_MIN}")
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


def _parse_any_header(data: memoryview, path: Path | str, position: int) -> BatchHeader | LegacyHeader:
    if data[MAGIC_POSITION] in MESSAGE_BYTES_MIN:
        return parse_legacy_header(data, 0, path, position)
    return parse_header(data, 0, path, position)


def _shrunk(path: Path | str, size_bytes: int) -> UnreadableFile:
    return UnreadableFile(Path(path), f"shorter than {size_bytes} bytes: it shrank while it was read")
