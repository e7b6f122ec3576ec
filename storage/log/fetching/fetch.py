"""Fetch: from an offset, the bytes of whole batches, as far as the isolation allows.

One fetch reads one segment: where the segment of the offset has nothing at or behind it, the next one. What it returns
begins with the batch that reaches the offset, and may end within a batch: only the first is whole, if asked for.

Source: Kafka UnifiedLog.read, LocalLog.read, LogSegment.read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from storage.log.errors import OffsetOutOfRange
from storage.log.fetching.view import LogView, Place, ReachingBatch
from storage.log.read import companion_bytes
from storage.log_dir import read_file
from storage.names import FileKind, segment_file_name
from storage.txn_index import AbortedTxn, collect_aborted_txns, parse_txn_index


class Fetched(NamedTuple):
    """The answer to a fetch. ``position`` is where its bytes begin in the ``.log`` of ``segment_base_offset``."""

    data: bytes
    start_offset: int
    """The base offset of the first batch; the log end, or the bound of the isolation, where nothing is to be read."""
    segment_base_offset: int
    position: int
    aborted: tuple[AbortedTxn, ...] | None = None
    """The aborted transactions that may have records in the data; None if the isolation asks for none."""
    is_first_incomplete: bool = False
    """Whether not even the first batch fits into what was asked for."""


class Fetch(NamedTuple):
    """A fetch as it is asked for."""

    start_offset: int
    bytes_max: int
    min_one_message: bool
    with_aborted: bool


def ensure_not_below_start(view: LogView, offset: int) -> None:
    """Refuse an offset below the log start. Raises: OffsetOutOfRange."""
    if offset < view.start_offset:
        raise OffsetOutOfRange(view.directory, f"offset {offset} lies below the log start {view.start_offset}")


def fetch(view: LogView, asked: Fetch, upper: Place | None = None) -> Fetched:
    """Read the batches from an offset on.

    Args:
        view: the log.
        asked: for what.
        upper: the bound of the isolation; default: the log end.

    Raises: OffsetOutOfRange, CorruptBatch, CorruptIndex, UnreadableFile.
    """
    if asked.bytes_max < 0:
        raise ValueError(f"a fetch of {asked.bytes_max} bytes")
    start_offset = asked.start_offset
    ensure_not_below_start(view, start_offset)
    if start_offset > view.end_offset or not view.has_segment_of(start_offset):
        raise OffsetOutOfRange(view.directory, f"offset {start_offset} lies above the log end {view.end_offset}")
    if start_offset >= (view.end_offset if upper is None else upper.offset):
        place = view.place_of(start_offset) if upper is None or start_offset > upper.offset else upper
        return Fetched(b"", *place, () if asked.with_aborted else None)
    batch = view.find(start_offset)
    if batch is None:
        return Fetched(b"", *view.log_end())
    place, size_bytes = batch.start, batch.found.header.size_bytes
    bytes_max = max(asked.bytes_max, size_bytes) if asked.min_one_message else asked.bytes_max
    end_position = _end_position(batch, upper)
    data, is_incomplete = b"", False
    if end_position is not None and bytes_max > 0:
        data = batch.reader.read(place.position, max(min(end_position - place.position, bytes_max), 0))
        is_incomplete = bytes_max < size_bytes
    aborted = _aborted(view, batch, start_offset, len(data)) if asked.with_aborted else None
    return Fetched(data, *place, aborted, is_incomplete)


def _end_position(batch: ReachingBatch, upper: Place | None) -> int | None:
    """Return the byte of the found segment at which the isolation ends the fetch; None if that is in front of it."""
    base_offset = batch.reader.base_offset
    if upper is None or base_offset < upper.segment_base_offset:
        return batch.reader.end_position
    return upper.position if base_offset == upper.segment_base_offset else None


def _aborted(view: LogView, batch: ReachingBatch, start_offset: int, size_bytes: int) -> tuple[AbortedTxn, ...]:
    """Return the aborted transactions that may have records in what is fetched.

    The bound is that of the next index entry, as a broker's: the list may name more than the data needs.

    Source: Kafka LocalLog.addAbortedTransactions.
    """
    upper_offset = batch.reader.upper_bound(batch.found.position + size_bytes)
    if upper_offset is None:
        upper_offset = view.upper_offset(batch.place)
    return tuple(collect_aborted_txns(_txn_indexes(view, batch.place), start_offset, upper_offset))


def _txn_indexes(view: LogView, place: int) -> Iterable[Sequence[AbortedTxn]]:
    for segment in view.segments[place:-1] if view.active else view.segments[place:]:
        if FileKind.TXN_INDEX in segment.files:
            yield parse_txn_index(companion_bytes(segment, FileKind.TXN_INDEX), segment.files[FileKind.TXN_INDEX].path)
    if view.active is not None:
        path = view.directory / segment_file_name(view.active.base_offset, FileKind.TXN_INDEX)
        yield parse_txn_index(read_file(path) or b"", path)
