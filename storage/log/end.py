"""The end of a segment: its next offset, and the bytes behind the last batch that are no batch."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from storage.errors import CorruptBatch
from storage.log.read import last_offset_entry
from storage.records import iter_headers
from storage.segment import Segment, reading


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
