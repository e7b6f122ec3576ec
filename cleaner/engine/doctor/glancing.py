"""Tell what the ends of a segment's files show: the edges of the ``.log``, and one small read of the ``.timeindex``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from cleaner.engine.explain.contents import located_in
from cleaner.engine.explain.explaining import Glanced
from policies.findings.findings import Circumstances
from policies.reasons import moment
from storage.anomalies import Anomaly, CheckedSegment, EpochRun, SeenAnomaly, tail_seen
from storage.directory import OpenFile, opened_as_parent, pread
from storage.errors import LogCleanerError, as_unreadable
from storage.holes import data_extents
from storage.indexes import RELATIVE_OFFSET_MAX
from storage.kernels.layout import KEY_BYTES
from storage.log.end import SegmentEdges, find_end
from storage.names import FileKind
from storage.records import BatchHeader
from storage.segment import Segment, SegmentFile, reading

if TYPE_CHECKING:
    from storage.scan.small_segments import SmallLog, SmallSegments

_new: Final = tuple.__new__
_LOG: Final = FileKind.LOG
_CHUNK_BYTES: Final = 1 << 20
_TIME_ENTRY_BYTES: Final = 12


class Glance(NamedTuple):
    """The contents of the ends of the files of a partition."""

    facts: tuple[CheckedSegment, ...]
    unkeyed_offsets: tuple[int, ...]
    """Where segments begin with a batch that holds a record without a key, if anybody asked for that."""


def glance_at(
    glanced: Glanced, circumstances: Circumstances, end: LogEnd, *, is_unfinished: bool, keys: SmallSegments | None
) -> Glance:
    """Look at the ends of all segments of a partition.

    The index files of segments that the next start recovers are not looked at: it makes them anew.

    Args:
        glanced: the segments, and their edges.
        circumstances: of the partition.
        end: the end of the log.
        is_unfinished: whether a compaction was interrupted: a start makes the time indexes that it left out.
        keys: a reader that asks the records of the first batches for their keys; None if nobody asks.

    Raises: UnreadableFile.
    """
    segments, directory = glanced.listing.segments, glanced.listing.directory
    floor = circumstances.recovers_from([segment.base_offset for segment in segments])
    facts: list[CheckedSegment] = []
    unkeyed: list[int] = []
    with as_unreadable(directory), opened_as_parent(directory) as parent:
        for segment, edges, log, sealed, behind in zip_longest(
            segments, glanced.edges, glanced.logs, glanced.sealed, segments[1:]
        ):
            is_rebuilt = floor is not None and segment.base_offset >= floor
            found, first = _glance(segment, edges, behind, end), edges.first
            if not (is_rebuilt or sealed):
                found = _with_time_index(found, segment, edges, parent, is_unfinished=is_unfinished)
            facts.append(found)
            if keys and first and _is_first_unkeyed(segment, first.size_bytes, log, keys, parent):
                unkeyed.append(first.base_offset if isinstance(first, BatchHeader) else segment.base_offset)
    return Glance(tuple(facts), tuple(unkeyed))


class LogEnd(NamedTuple):
    """The end of a log."""

    offset: int | None
    """None if it is not known."""
    torn_bytes: int
    """The bytes behind the last batch of the active segment."""


def _glance(segment: Segment, edges: SegmentEdges, behind: Segment | None, end: LogEnd) -> CheckedSegment:
    """Return what the ends of a ``.log`` tell.

    Args:
        segment: its files.
        edges: of it.
        behind: the segment behind it; None for the active one.
        end: the end of the log.
    """
    base_offset, first, size_bytes = segment.base_offset, edges.first, segment.files[_LOG].identity.size_bytes
    next_offset, torn_bytes = edges.end
    if behind is None:
        next_offset, torn_bytes = next_offset if end.offset is None else end.offset, end.torn_bytes
    seen: tuple[SeenAnomaly, ...] = (tail_at_end(segment, torn_bytes, next_offset),) if torn_bytes else ()
    upper = end.offset if behind is None else behind.base_offset
    if upper is not None and upper - 1 - base_offset > RELATIVE_OFFSET_MAX:
        seen += tuple(_overflow(segment))
    epochs: tuple[EpochRun, ...] = ()
    if isinstance(first, BatchHeader):
        epochs = (_new(EpochRun, (first.partition_leader_epoch, first.base_offset, first.base_offset, 0)),)
    is_full = is_damaged = False
    of_ends = base_offset, size_bytes, size_bytes - torn_bytes, next_offset, edges.largest_ms, seen, (), epochs
    return _new(CheckedSegment, (*of_ends, {}, (), (), None, 0, is_full, is_damaged, 0, 0, 0))


def _with_time_index(
    facts: CheckedSegment, segment: Segment, edges: SegmentEdges, parent: int | None, *, is_unfinished: bool
) -> CheckedSegment:
    """Add what the time index shows: that it is missing, ends with zeros, or has no entry, though batches have times.

    Arguments: as of ``glance_at``; ``parent`` is a descriptor of the directory.
    """
    index, first_ms = segment.files.get(FileKind.TIME_INDEX), edges.first.max_timestamp_ms if edges.first else -1
    if index is None:
        return facts if is_unfinished else facts._replace(missing=(FileKind.TIME_INDEX,))
    size_bytes, base_offset = index.identity.size_bytes, index.name.base_offset
    if not size_bytes:
        if first_ms < 0 or is_unfinished:
            return facts
        text = f"it has no entry, and the first batch of the segment is of {moment(first_ms)}"
        seen = SeenAnomaly(Anomaly.TIME_END, FileKind.TIME_INDEX, 0, base_offset, text)
    else:
        if size_bytes <= _TIME_ENTRY_BYTES and first_ms <= 0:
            return facts  # the only timestamp of the segment may be 0
        if not (facts.size_bytes and _ends_with_a_zero_entry(index, parent)):
            return facts
        written = f", and the first batch of the segment is of {moment(first_ms)}" if first_ms > 0 else ""
        text, position = f"the time index ends with zeros{written}", max(size_bytes - _TIME_ENTRY_BYTES, 0)
        seen = SeenAnomaly(Anomaly.TIMES_ZERO, FileKind.TIME_INDEX, position, base_offset, text)
    return facts._replace(seen=(*facts.seen, seen))


def _overflow(segment: Segment) -> Iterator[SeenAnomaly]:
    """Yield that the last offset of a segment is one that no index can hold. Only where the next one begins so far
    behind it is it read."""
    last = find_end(segment, trust_index=False).next_offset - 1
    if last - segment.base_offset > RELATIVE_OFFSET_MAX:
        text = f"offset {last} lies more than 2^31 - 1 offsets behind the segment's base {segment.base_offset}"
        yield SeenAnomaly(Anomaly.OVERFLOW, FileKind.LOG, None, last, text)


def _ends_with_a_zero_entry(index: SegmentFile, parent: int | None) -> bool:
    size_bytes = index.identity.size_bytes
    last = size_bytes - size_bytes % _TIME_ENTRY_BYTES - _TIME_ENTRY_BYTES
    if last < 0:
        return False
    with reading(index.location, parent) as descriptor:
        entry = pread(descriptor, _TIME_ENTRY_BYTES, last)
    return len(entry) == _TIME_ENTRY_BYTES and not any(entry)


def _is_first_unkeyed(
    segment: Segment, batch_bytes: int, log: SmallLog | None, small: SmallSegments, parent: int | None
) -> bool:
    """Return whether the first batch, of so many bytes, holds a record without a key; damage and a marker hold none."""
    if log is not None and log.lacks_a_key is not None:
        return log.lacks_a_key
    with suppress(LogCleanerError):
        lacks = small.lacks_a_key(segment, batch_bytes, parent)
        if lacks is not None:
            return lacks
        return any(
            (located[KEY_BYTES] < 0).any() for located in located_in(segment, 0, batch_bytes, with_control=False)
        )
    return False


def tail_at_end(segment: Segment, size_bytes: int, offset: int | None) -> SeenAnomaly:
    """Return what the last bytes of a segment are, which are no batch. Raises: UnreadableFile."""
    position = segment.size_bytes - size_bytes
    with reading(segment.log.path) as descriptor:
        is_zero = all(
            _is_zero(descriptor, max(start, position), end)
            for start, end in data_extents(descriptor, segment.size_bytes)
            if end > position
        )
    return tail_seen(position, size_bytes, offset, is_zero=is_zero)


def _is_zero(descriptor: OpenFile, start: int, end: int) -> bool:
    """Return whether a range of a file holds zeros alone. A hole needs no look: nobody asks for one."""
    for at in range(start, end, _CHUNK_BYTES):
        found = pread(descriptor, min(_CHUNK_BYTES, end - at), at)
        if found.count(0) < len(found):
            return False
    return True
