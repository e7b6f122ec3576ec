"""Choose one segment of a partition by its base offset, by an offset in it or by a timestamp, and read it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from cleaner.engine.explain.contents import RecordFound, SegmentContents, contents_of, record_at
from cleaner.engine.explain.explaining import PartitionChanged
from policies.explain.explanation import PartitionExplanation
from policies.explain.fates import SegmentFate
from policies.plan import path_of
from policies.reasons import moment, offsets
from storage.errors import InvalidConfig
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.log.search import lookup_record
from storage.segment import Segment
from storage.stores.paths import path_of_text


@dataclass(frozen=True, slots=True)
class Wish:
    """The segment that a person asks for: one of the three is set, or none for all segments."""

    base_offset: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None

    @property
    def is_one(self) -> bool:
        """True if one segment is asked for."""
        return any(one is not None for one in (self.base_offset, self.offset, self.timestamp_ms))


@dataclass(frozen=True, slots=True)
class ChosenSegment:
    """One segment with its contents, and the record that was asked for."""

    fate: SegmentFate
    contents: SegmentContents
    offset: int | None = None
    """The offset that was asked for, or that has the timestamp that was asked for."""
    record: RecordFound | None = None
    """The record at ``offset``; None if compaction took it, or none was asked for."""


def choose(explained: PartitionExplanation, wish: Wish) -> ChosenSegment:
    """Find and read the segment that a person asks for.

    Raises:
        InvalidConfig: the log does not have it.
        CorruptBatch, UnreadableFile, PartitionChanged: it cannot be read.
    """
    directory = path_of_text(path_of(explained.planned.facts))
    listing = plan_recovery(list_partition(directory)).listing
    segments = {segment.base_offset: segment for segment in listing.segments}
    if any(fate.facts.base_offset not in segments for fate in explained.segments):
        raise PartitionChanged(directory)
    if wish.base_offset is not None:
        fate = _with_base(explained, wish.base_offset)
        return ChosenSegment(fate, contents_of(segments[fate.facts.base_offset], fate.upper_offset))
    offset = _offset_at(explained, segments, wish.timestamp_ms) if wish.timestamp_ms is not None else wish.offset
    assert offset is not None
    fate = _holding(explained, offset)
    segment = segments[fate.facts.base_offset]
    return ChosenSegment(fate, contents_of(segment, fate.upper_offset), offset, record_at(segment, offset))


def _with_base(explained: PartitionExplanation, base_offset: int) -> SegmentFate:
    bases = [fate.facts.base_offset for fate in explained.segments]
    if base_offset in bases:
        return explained.segments[bases.index(base_offset)]
    place = max(bisect_right(bases, base_offset) - 1, 0)
    near = f"; offset {base_offset} may lie in segment {bases[place]} (--offset {base_offset})" if bases else ""
    raise InvalidConfig("SEGMENT", str(base_offset), f"no segment of {_name(explained)} begins there{near}")


def _holding(explained: PartitionExplanation, offset: int) -> SegmentFate:
    facts = explained.planned.facts
    if facts.log_end_offset == facts.log_start_offset:
        raise InvalidConfig("--offset", str(offset), f"the log of {_name(explained)} has no record")
    first = explained.segments[0].facts.base_offset if explained.segments else facts.log_end_offset
    if not first <= offset < facts.log_end_offset:
        start = facts.log_start_offset
        ends = f"the log of {_name(explained)} has the {offsets(start, facts.log_end_offset)}"
        ends += f", and its files also {first} to {start - 1}" if first < start else ""
        gone = f"; logcleaner history {_name(explained)} tells what was deleted" if offset < first else ""
        raise InvalidConfig("--offset", str(offset), f"{ends}{gone}")
    bases = [fate.facts.base_offset for fate in explained.segments]
    return explained.segments[bisect_right(bases, offset) - 1]


def _offset_at(explained: PartitionExplanation, segments: dict[int, Segment], timestamp_ms: int) -> int:
    """Return the offset of the first record from a time on. Raises: InvalidConfig if there is none."""
    facts = explained.planned.facts
    listed = [segments[fate.facts.base_offset] for fate in explained.segments]
    found = lookup_record(listed, facts.log_start_offset, max(timestamp_ms, 0))
    if found is None or found.offset >= facts.log_end_offset:
        newest = _newest(explained.segments)
        raise InvalidConfig("--timestamp", moment(timestamp_ms), f"no record of {_name(explained)} is as late{newest}")
    return found.offset


def _newest(fates: Sequence[SegmentFate]) -> str:
    newest_ms = max((fate.times.newest_ms for fate in fates), default=-1)
    return f"; the newest one is of {moment(newest_ms)}" if newest_ms >= 0 else ""


def _name(explained: PartitionExplanation) -> str:
    return str(explained.planned.facts.topic_partition)
