"""Fetch: from an offset, the bytes of whole batches, as far as the isolation allows.

One fetch reads one segment: where the segment of the offset has nothing at or behind it, the next one. What it returns
begins with the batch that reaches the offset, and may end within a batch: only the first is whole, if asked for.

Source: Kafka UnifiedLog.read, LocalLog.read, LogSegment.read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from storage.log.errors import OffsetOutOfRange
from storage.log.fetching.open_segment import OpenSegment
from storage.log.fetching.view import LogView
from storage.log.read import companion_bytes
from storage.log_dir import read_file
from storage.names import FileKind, segment_file_name
from storage.txn_index import AbortedTxn, collect_aborted_txns, parse_txn_index


class Fetched(NamedTuple):
    """The answer to a fetch. ``position`` is where its bytes begin in the ``.log`` of ``segment_base_offset``."""

    data: bytes
    start_offset: int
    """The offset that was asked for; the log end, or the bound of the isolation, where nothing is to be read."""
    segment_base_offset: int
    position: int
    aborted: tuple[AbortedTxn, ...] | None = None
    """The aborted transactions that may have records in the data; None if the isolation asks for none."""
    is_first_incomplete: bool = False
    """Whether not even the first batch fits into what was asked for."""


class _Place(NamedTuple):
    """A batch, or the end of the log: the offset that was asked for, and the place in its segment."""

    offset: int
    segment_base_offset: int
    position: int


class _Found(NamedTuple):
    place: int
    reader: OpenSegment
    position: int
    size_bytes: int


class Fetch(NamedTuple):
    """A fetch as it is asked for. ``upper_offset`` is the bound of the isolation."""

    start_offset: int
    bytes_max: int
    upper_offset: int
    min_one_message: bool
    with_aborted: bool


def fetch(view: LogView, asked: Fetch) -> Fetched:
    """Read the batches from an offset on. Raises: OffsetOutOfRange, CorruptBatch, CorruptIndex, UnreadableFile."""
    if asked.bytes_max < 0:
        raise ValueError(f"a fetch of {asked.bytes_max} bytes")
    start_offset = asked.start_offset
    if start_offset < view.start_offset:
        raise OffsetOutOfRange(view.directory, f"offset {start_offset} lies below the log start {view.start_offset}")
    if start_offset > view.end_offset:
        raise OffsetOutOfRange(view.directory, f"offset {start_offset} lies above the log end {view.end_offset}")
    none_aborted = () if asked.with_aborted else None
    if start_offset >= asked.upper_offset:
        return Fetched(b"", *_place_at(view, start_offset), none_aborted)
    found = _find(view, start_offset)
    if found is None:
        return Fetched(b"", *_log_end(view))
    bytes_max = max(asked.bytes_max, found.size_bytes) if asked.min_one_message else asked.bytes_max
    end_position = _end_position(view, found, asked.upper_offset)
    size_bytes = max(min(end_position - found.position, bytes_max), 0)
    return Fetched(
        found.reader.read(found.position, size_bytes) if size_bytes else b"",
        start_offset,
        found.reader.base_offset,
        found.position,
        _aborted(view, found, start_offset, size_bytes) if asked.with_aborted else None,
        0 < bytes_max < found.size_bytes,
    )


def _find(view: LogView, offset: int) -> _Found | None:
    """Find the first batch that reaches an offset, in its segment or in a later one; None if none does."""
    for place in range(max(view.place_of(offset), 0), len(view.segments)):
        reader = view.reader(place)
        found = reader.find_offset(offset)
        if found is not None:
            return _Found(place, reader, found.position, found.header.size_bytes)
    return None


def _place_at(view: LogView, offset: int) -> _Place:
    """Return the place of an offset within the log. Source: Kafka LocalLog.convertToOffsetMetadataOrThrow."""
    found = _find(view, offset) if offset < view.end_offset else None
    return _Place(offset, found.reader.base_offset, found.position) if found else _log_end(view)


def _log_end(view: LogView) -> _Place:
    if not view.segments:
        return _Place(view.end_offset, view.end_offset, 0)
    reader = view.reader(len(view.segments) - 1)
    return _Place(view.end_offset, reader.base_offset, reader.end_position)


def _end_position(view: LogView, found: _Found, upper_offset: int) -> int:
    """Return the byte of the found segment at which the isolation ends the fetch."""
    if upper_offset >= view.upper_offset(found.place):
        return found.reader.end_position
    bound = found.reader.find_offset(upper_offset)
    return bound.position if bound else found.reader.end_position


def _aborted(view: LogView, found: _Found, start_offset: int, size_bytes: int) -> tuple[AbortedTxn, ...]:
    """Return the aborted transactions that may have records in what is fetched.

    The bound is that of the next index entry, as a broker's: the list may name more than the data needs.

    Source: Kafka LocalLog.addAbortedTransactions.
    """
    upper_offset = found.reader.upper_bound(found.position + size_bytes)
    if upper_offset is None:
        upper_offset = view.upper_offset(found.place)
    return tuple(collect_aborted_txns(_txn_indexes(view, found.place), start_offset, upper_offset))


def _txn_indexes(view: LogView, place: int) -> Iterable[Sequence[AbortedTxn]]:
    for segment in view.segments[place:-1] if view.active else view.segments[place:]:
        if FileKind.TXN_INDEX in segment.files:
            yield parse_txn_index(companion_bytes(segment, FileKind.TXN_INDEX), segment.files[FileKind.TXN_INDEX].path)
    if view.active is not None:
        path = view.directory / segment_file_name(view.active.base_offset, FileKind.TXN_INDEX)
        yield parse_txn_index(read_file(path) or b"", path)
