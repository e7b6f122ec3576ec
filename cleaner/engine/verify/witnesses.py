"""Reads what index files name behind the ends of their ``.log`` files: evidence of records that are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

from policies.findings.of_missing import IndexedTail, NamedBatch, NamedTime
from storage.anomalies import CheckedSegment
from storage.errors import CorruptBatch
from storage.log.listing import Listing
from storage.log.read import companion_bytes, offset_entries
from storage.names import FileKind
from storage.records import iter_headers
from storage.segment import Segment, reading

_BATCH: Final = Struct(">ii")
_TIME: Final = Struct(">qi")
_POSITION_MAX: Final = 1 << 30
"""A segment is no larger by default."""
_TIMESTAMP_MAX_MS: Final = 1 << 43
"""A time in the year 2248. A greater number is rather no timestamp."""


def tails_of(listing: Listing, facts: Sequence[CheckedSegment]) -> Iterator[IndexedTail]:
    """Yield the ends of the segments whose indexes do not agree with them. Raises: UnreadableFile."""
    segments = {segment.base_offset: segment for segment in listing.segments}
    for one in facts:
        if (one.seen or one.aborted) and one.base_offset in segments:
            yield _tail(segments[one.base_offset], one)


def _tail(segment: Segment, facts: CheckedSegment) -> IndexedTail:
    base_offset, next_offset = facts.base_offset, facts.next_offset
    data = companion_bytes(segment, FileKind.INDEX)
    entries = _BATCH.iter_unpack(_entries(data, _BATCH.size))
    batches = [
        NamedBatch(base_offset + offset, position)
        for offset, position in entries
        if base_offset + offset >= next_offset and 0 <= position < _POSITION_MAX and (offset or position)
    ]
    data = companion_bytes(segment, FileKind.TIME_INDEX)
    times = [
        NamedTime(timestamp_ms, base_offset + offset)
        for timestamp_ms, offset in _TIME.iter_unpack(_entries(data, _TIME.size))
        if base_offset + offset >= next_offset and 0 < timestamp_ms < _TIMESTAMP_MAX_MS
    ]
    aborted = [entry.last_offset for entry in facts.aborted if entry.last_offset >= next_offset]
    shift_bytes = _shift_bytes(segment) if facts.seen and not facts.is_damaged and facts.size_bytes else 0
    return IndexedTail(base_offset, facts.end_position, facts.largest_ms, batches, times, aborted, shift_bytes)


def _entries(data: bytes, size: int) -> bytes:
    """Return whole entries, without the zeros behind them: an open index is allocated ahead."""
    used = -(-len(data.rstrip(b"\0")) // size) * size
    return data[: min(used, len(data) // size * size)]


def _shift_bytes(segment: Segment) -> int:
    """Return how far behind their batches the last entries of the offset index lead, all alike; 0 if they do not.

    Raises: UnreadableFile.
    """
    entries = {entry.offset: entry.position for entry in offset_entries(segment)}
    shifts = []
    with reading(segment.log.path) as descriptor, suppress(CorruptBatch):
        for position, header in iter_headers(descriptor, segment.log.path, 0):
            if header.last_offset in entries:
                shifts.append(entries[header.last_offset] - position)
    behind = shifts[next((place for place, shift in enumerate(shifts) if shift), len(shifts)) :]
    return behind[0] if behind and behind[0] > 0 and len(set(behind)) == 1 else 0
