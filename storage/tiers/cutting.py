"""A part of a segment, as if it were a segment: its bytes from one batch to another, and its indexes to match.

Copies of one log need not end at the same batches, because each leader rolls its own segments. So a joined log may need
the first or the last batches of a copy alone.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from storage.indexes import TimeIndexEntry
from storage.log.read import position_of
from storage.records import iter_headers
from storage.segment import Segment, reading
from storage.tiers.layout import OriginalFile
from storage.tiers.segments import TierFile
from storage.txn_index import format_aborted_txn, parse_txn_index

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


class MadeFile(NamedTuple):
    """A small file that is made here, because the tier has none that fits."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        """Return its size."""
        return len(self.data)

    @property
    def version(self) -> str:
        """Return what tells it from another file of its size."""
        return f"made-{hashlib.blake2b(self.data, digest_size=8).hexdigest()}"

    def read(self, start: int, end: int) -> memoryview:
        """Return a range of it."""
        return memoryview(self.data)[start:end]


class FilePart(NamedTuple):
    """The bytes ``[start, end)`` of a file."""

    whole: OriginalFile
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Return the size of the part."""
        return self.end - self.start

    @property
    def version(self) -> str:
        """Return the version of the whole."""
        return self.whole.version

    def read(self, start: int, end: int) -> memoryview:
        """Read a range of the part. Raises: as ``OriginalFile``."""
        return self.whole.read(self.start + start, min(self.start + end, self.end))


class _Cut(NamedTuple):
    start: int
    """The position of the first batch."""
    end: int
    """The position behind the last batch."""
    base_offset: int
    largest: TimeIndexEntry
    """The largest timestamp of the batches that were looked at; -1 if there were none."""


def cut(
    segment: Segment, files: Mapping[TierFile, OriginalFile], start: int, end: int
) -> tuple[int, dict[TierFile, OriginalFile]]:
    """Return the first offset and the files of the batches of a segment that lie in ``[start, end)``.

    A batch that reaches over ``end`` is left out, as a truncation leaves it out.

    Args:
        segment: the files, where they can be opened.
        files: the same files.
        start: an offset.
        end: an offset, exclusive.

    Raises: CorruptBatch, CorruptIndex, UnreadableFile; as ``OriginalFile``.
    """
    found = _positions(segment, start, end)
    made: dict[TierFile, OriginalFile] = {TierFile.LOG: FilePart(files[TierFile.LOG], found.start, found.end)}
    if index := files.get(TierFile.INDEX):
        made[TierFile.INDEX] = MadeFile(_offset_index(_whole(index), segment.base_offset, found))
    if index := files.get(TierFile.TIME_INDEX):
        made[TierFile.TIME_INDEX] = MadeFile(_time_index(_whole(index), segment, found, end))
    if index := files.get(TierFile.TXN_INDEX):
        entries = parse_txn_index(_whole(index), segment.log.path)
        kept = [format_aborted_txn(entry) for entry in entries if start <= entry.last_offset < end]
        if kept:
            made[TierFile.TXN_INDEX] = MadeFile(b"".join(kept))
    return found.base_offset, made


def _whole(file: OriginalFile) -> bytes:
    return bytes(file.read(0, file.size_bytes))


def _positions(segment: Segment, start: int, end: int) -> _Cut:
    path = segment.log.path
    first, base_offset = 0, segment.base_offset
    with reading(path) as file:
        if start > segment.base_offset:
            first, base_offset = segment.size_bytes, start
            for found in iter_headers(file, path, position_of(file, segment, start)):
                if found.header.last_offset >= start:
                    first, base_offset = found.position, max(start, getattr(found.header, "base_offset", start))
                    break
        last, largest = first, TimeIndexEntry(-1, base_offset)
        headers = iter_headers(file, path, max(first, position_of(file, segment, end)))
        for found in headers:
            if found.header.last_offset >= end:
                return _Cut(first, max(first, found.position), base_offset, largest)
            last = headers.position
            if found.header.max_timestamp_ms > largest.timestamp_ms:
                largest = TimeIndexEntry(found.header.max_timestamp_ms, found.header.last_offset)
    return _Cut(first, last, base_offset, largest)


def _offset_index(data: bytes, base_offset: int, found: _Cut) -> bytes:
    shift = base_offset - found.base_offset
    return b"".join(
        _OFFSET_ENTRY.pack(relative + shift, position - found.start)
        for relative, position in _OFFSET_ENTRY.iter_unpack(data[: len(data) - len(data) % _OFFSET_ENTRY.size])
        if found.start < position < found.end
    )


def _time_index(data: bytes, segment: Segment, found: _Cut, end: int) -> bytes:
    """Return the entries of the part, and a last one of its largest timestamp, as that of a segment that was sealed."""
    shift = segment.base_offset - found.base_offset
    entries = [
        TimeIndexEntry(timestamp_ms, relative + segment.base_offset)
        for timestamp_ms, relative in _TIME_ENTRY.iter_unpack(data[: len(data) - len(data) % _TIME_ENTRY.size])
    ]
    kept = [entry for entry in entries if found.base_offset <= entry.offset < end]
    largest = found.largest
    if found.start and entries and entries[-1].offset < found.base_offset:  # the largest of all lies before the part
        largest = _largest_within(segment, found)
    if largest.timestamp_ms > (kept[-1].timestamp_ms if kept else -1):
        kept.append(largest)
    return b"".join(_TIME_ENTRY.pack(entry.timestamp_ms, entry.offset - segment.base_offset + shift) for entry in kept)


def _largest_within(segment: Segment, found: _Cut) -> TimeIndexEntry:
    largest, path = found.largest, segment.log.path
    with reading(path) as file:
        for header in iter_headers(file, path, found.start, found.end):
            if header.header.max_timestamp_ms > largest.timestamp_ms:
                largest = TimeIndexEntry(header.header.max_timestamp_ms, header.header.last_offset)
    return largest
