"""The end of a segment: its next offset, and the bytes behind the last batch that are no batch."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from storage.arrays import Bytes
from storage.errors import CorruptBatch
from storage.log.loading.walk import CorruptRecord, LogBytes, invalid, walk
from storage.log.read import last_offset_entry
from storage.records import iter_headers
from storage.records.header import LOG_OVERHEAD_BYTES, MAGIC_POSITION, MAGIC_V2
from storage.segment import Segment, reading

_WINDOW_BYTES: Final = 1 << 20
_LENGTH_POSITION: Final = 8
_LENGTH_BYTES: Final = 4
_LENGTH_MIN: Final = 14


class SegmentEnd(NamedTuple):
    """The end of a segment's batches."""

    next_offset: int
    torn_bytes: int
    """Bytes behind the last whole batch: a write that was cut short, or preallocated zeros."""


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
    found = _walk(segment, start)
    if found is None and start:
        found = _walk(segment, 0)  # an index that points into the middle of a batch is wrong, the log is not
    return found or SegmentEnd(segment.base_offset, segment.size_bytes)


def end_bytes_of(segment: Segment) -> int:
    """Return the byte behind the last batch whose header parses, read from the beginning. Raises: UnreadableFile."""
    return segment.size_bytes - find_end(segment, trust_index=False).torn_bytes


def whole_batch_behind(segment: Segment, start: int) -> int | None:
    """Return the byte at which a whole batch with a right checksum begins, at a byte or behind it; None if none does.

    Every byte is tried, because a damaged length says nothing of where the next batch begins. Raises: UnreadableFile.
    """
    with reading(segment.log.path) as descriptor:
        log = LogBytes(descriptor)
        for at in range(start, log.size_bytes, _WINDOW_BYTES):
            data = os.pread(descriptor, _WINDOW_BYTES + MAGIC_POSITION, at)
            for place in _plausible(np.frombuffer(data, np.uint8), log.size_bytes - at):
                with suppress(CorruptRecord):
                    batch = next(walk(log, at + place), None)
                    if batch is not None and invalid(log, batch) is None:
                        return at + place
    return None


def _plausible(data: Bytes, left_bytes: int) -> list[int]:
    """Return the bytes of a window at which a batch may begin, by its length and its version.

    Args:
        data: a window, with the beginning of the next one.
        left_bytes: of the file, from the window on.
    """
    count = data.size - MAGIC_POSITION
    if count <= 0:
        return []
    places = np.flatnonzero(data[MAGIC_POSITION:] <= MAGIC_V2)
    length = np.zeros(places.size, np.int64)
    for byte in range(_LENGTH_BYTES):
        length = (length << 8) | data[places + _LENGTH_POSITION + byte]
    fits = (length >= _LENGTH_MIN) & (places + LOG_OVERHEAD_BYTES + length <= left_bytes)
    return [int(place) for place in places[fits]]


def _walk(segment: Segment, start: int) -> SegmentEnd | None:
    """Find the end, starting at a batch boundary; None if not one batch parses there."""
    with reading(segment.log.path) as descriptor:
        size_bytes = os.fstat(descriptor).st_size
        next_offset, end = segment.base_offset, start
        headers = iter_headers(descriptor, segment.log.path, start, size_bytes)
        with suppress(CorruptBatch):  # the log ends before what does not parse; retention and reports go by that
            for _, header in headers:
                if header.next_offset < next_offset:
                    break
                next_offset, end = header.next_offset, headers.position
    return SegmentEnd(next_offset, size_bytes - end) if end > start or size_bytes == start else None
