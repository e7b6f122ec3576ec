"""The ends of a segment: its first batch, its next offset, and the bytes behind the last batch that are no batch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from storage.directory import OpenFile, size_of
from storage.errors import CorruptBatch, LogCleanerError
from storage.log.read import last_offset_entry
from storage.names import FileKind
from storage.records import BatchHeader, LegacyHeader, PositionedHeader, iter_headers
from storage.records.read_batches import walk_headers
from storage.segment import Segment, reading


class LogEndsBeforeItsStart(LogCleanerError):
    """Segments are missing at the end of a log: a starting broker would delete all other segments."""

    path: Path
    log_end_offset: int
    log_start_offset: int

    def __str__(self) -> str:
        return (
            f"{self.path}: ends at offset {self.log_end_offset}, below its checkpointed log start "
            f"{self.log_start_offset}: segments are missing, and a starting broker would delete the rest; "
            f"restore them first"
        )


class SegmentEnd(NamedTuple):
    """The end of a segment's batches."""

    next_offset: int
    torn_bytes: int
    """The bytes behind the last whole batch: of a write that was cut short, or preallocated zeros."""


class SegmentEdges(NamedTuple):
    """The first header of a segment, its end, and the largest timestamp that its time index may lack."""

    first: BatchHeader | LegacyHeader | None
    """None if no batch parses there."""
    end: SegmentEnd
    largest_ms: int
    """Of the batches from the last indexed one on, epoch ms; -1 for none.

    The time index of the segment that was active at an unclean stop ends early, and no checksum covers a time index:
    the headers tell the rest, within an index interval.
    """


def next_offset_of(segment: Segment) -> int:
    """Return the offset after the last batch, or the base offset of an empty segment.

    Source: Kafka LogSegment.readNextOffset.
    """
    return find_end(segment, trust_index=True).next_offset


def find_end(segment: Segment, *, trust_index: bool) -> SegmentEnd:
    """Walk the headers from the last indexed batch (``trust_index``: after a clean shutdown), else from the start.

    Raises: UnreadableFile.
    """
    entry = last_offset_entry(segment) if trust_index else None
    start = entry.position if entry and entry.position < segment.size_bytes else 0
    with reading(segment.log.location) as descriptor:
        return _end_of(segment, _walk(descriptor, segment, start), descriptor)


def ensure_headers_parse(segment: Segment, torn_bytes: int) -> None:
    """Walk all headers of a segment up to its end. The search for the end begins at the last indexed batch.

    Args:
        segment: its files.
        torn_bytes: the bytes behind its last batch.

    Raises: CorruptBatch, UnreadableFile.
    """
    path, end_bytes = segment.log.path, segment.size_bytes - torn_bytes
    with reading(path) as descriptor:
        position = walk_headers(descriptor, path, end_bytes)
    if position < end_bytes:
        raise CorruptBatch(path, position, "the batch does not end where the log does")


def end_bytes_of(segment: Segment) -> int:
    """Return the byte behind the last batch whose header parses, read from the beginning. Raises: UnreadableFile."""
    return segment.size_bytes - find_end(segment, trust_index=False).torn_bytes


def edges_of(segment: Segment, parent: int | None = None) -> SegmentEdges:
    """Read the first header of a segment, and those from the last indexed batch on.

    Args:
        segment: its files.
        parent: as for ``Segment.newest_entry``.

    Raises: UnreadableFile.
    """
    path = segment.files[FileKind.LOG].location
    with reading(path, parent) as descriptor:
        walked = _walk_behind_index(descriptor, segment, parent)
        first = walked.first
        if walked.start:
            with suppress(CorruptBatch):
                first = next(iter_headers(descriptor, path), None)
        return SegmentEdges(first.header if first else None, _end_of(segment, walked, descriptor), walked.largest_ms)


def largest_unindexed_timestamp(segment: Segment, parent: int | None = None) -> int:
    """Return ``SegmentEdges.largest_ms`` alone. Arguments and errors as of ``edges_of``."""
    with reading(segment.files[FileKind.LOG].location, parent) as descriptor:
        return _walk_behind_index(descriptor, segment, parent).largest_ms


def _walk_behind_index(descriptor: OpenFile, segment: Segment, parent: int | None) -> _Walk:
    """Walk from the last indexed batch on. Where the entry leads to no batch, all timestamps count."""
    entry, log = last_offset_entry(segment, parent), segment.files[FileKind.LOG]
    walked = _walk(descriptor, segment, entry.position if entry and entry.position < log.identity.size_bytes else 0)
    if entry is None or not walked.start or (walked.first and walked.first.header.last_offset == entry.offset):
        return walked
    return walked._replace(largest_ms=_walk(descriptor, segment, 0).largest_ms)


class _Walk(NamedTuple):
    start: int
    first: PositionedHeader | None
    end: SegmentEnd | None
    """None if no batch parses from the start on."""
    largest_ms: int


def _end_of(segment: Segment, walked: _Walk, descriptor: OpenFile) -> SegmentEnd:
    end = walked.end
    if end is None and walked.start:
        end = _walk(descriptor, segment, 0).end  # an index that points into a batch is wrong, the log is not
    return end or SegmentEnd(segment.base_offset, segment.size_bytes)


def _walk(descriptor: OpenFile, segment: Segment, start: int) -> _Walk:
    """Walk the headers from a batch boundary to the end of the file. The end lies where offsets go back, too."""
    size_bytes, first, largest_ms = size_of(descriptor), None, -1
    next_offset, end, is_ascending = segment.base_offset, start, True
    headers = iter_headers(descriptor, segment.files[FileKind.LOG].location, start, size_bytes)
    with suppress(CorruptBatch):  # for retention and reports the log ends before the first bytes that do not parse
        for found in headers:
            header, first = found.header, first or found
            behind = header.next_offset
            largest_ms = max(largest_ms, header.max_timestamp_ms)
            is_ascending = is_ascending and behind >= next_offset
            if is_ascending:
                next_offset, end = behind, headers.position
    is_found = end > start or size_bytes == start
    return _Walk(start, first, SegmentEnd(next_offset, size_bytes - end) if is_found else None, largest_ms)
