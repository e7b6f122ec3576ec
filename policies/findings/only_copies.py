"""Tells which ``.deleted`` logs may be the only copy of records: the one rule, for everything that unlinks.

What retention takes lies below the first segment, and the leader epochs then begin above it. What lies below a log
whose epochs begin there, in a gap of the log, or behind an end that something puts further, is one of two things: the
source of a compaction, or a segment that somebody set aside.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from storage.names import TopicPartition

_BOTH: Final = 2
"""A cleaned log, and the last of its sources."""
_MS: Final = 1_000_000
"""In ns."""


class OnlyCopy(NamedTuple):
    """The offsets that a ``.deleted`` log may have alone."""

    first_offset: int
    last_offset: int
    others: tuple[str, ...]
    """The names of the other files of its segment that wait as ``.deleted``."""
    size_bytes: int = 0
    is_taken: bool = False
    """Whether the log has a segment of the same base offset, so that the name is not free."""


class KeptFile(NamedTuple):
    """A file that a run leaves although its kind may go: an only copy, or all that tells of missing records."""

    topic_partition: TopicPartition
    log_dir: str
    name: str
    copy: OnlyCopy | None = None
    """The offsets that a ``.deleted`` log has; None for an index file without a ``.log``."""
    unknown_because: str | None = None
    """Why nobody knows what the log lacks of a ``.deleted`` log."""


class RetiredLog(NamedTuple):
    """A ``.deleted`` log."""

    base_offset: int
    end_offset: int
    """The offset behind its last batch; its base offset where no batch parses."""
    changed_ns: int
    """The change time of the file, which a rename sets."""
    mtime_ns: int
    is_compacted: bool = False
    """Whether a line of our journal names it as a source whose survivors came into the segment of another one."""
    is_named: bool = False
    """Whether a line of our journal names it as any source."""


class SegmentBelow(NamedTuple):
    """The last segment of the log that begins at or below a retired one."""

    base_offset: int
    next_offset: int
    changed_ns: int
    mtime_ns: int
    is_put_in: bool = False
    """Whether the segment is still called ``.swap``. If so, its sources were renamed before, whatever the times say."""
    is_untouched: bool = False
    """Whether the segment is still a source that the journal's line of the compaction names. If so, the round ended
    before this segment."""


class LogAround(NamedTuple):
    """The rest of a log, for the judgement of one of its retired segments."""

    log_start_offset: int
    """The log start offset in the checkpoint; 0 without a line."""
    known_end_offset: int
    """Records were there up to here: by the high watermark and the recovery point; without both, by the newest producer
    snapshot, which a truncation takes with the records."""
    cleaned_to: int
    """The first dirty offset by the cleaner's checkpoint; 0 without a line."""
    logs_of_ms: Mapping[int, int]
    """How many logs have a file time, epoch ms, the retired ones among them."""
    metadata_changed_ns: int | None = None
    """The change time of ``partition.metadata``, which a broker writes once; None without the file. If it is later than
    a rename, something like ``chown -R`` gave every file a new change time, in any order.
    """


def lacking(
    retired: RetiredLog, below: SegmentBelow | None, above_base_offset: int | None, log: LogAround
) -> tuple[int, int] | None:
    """Return the range of offsets that the log needs of a retired log: the first offset, and the first behind; None if
    it needs none.

    Args:
        retired: the ``.deleted`` log.
        below: the segment below; None if the log begins above, though nobody moved its start, or has no segment.
        above_base_offset: of the first segment above; None if there is none.
        log: the rest of the log.
    """
    first = max(retired.base_offset, log.log_start_offset, below.next_offset if below else 0)
    end = retired.end_offset if above_base_offset is None else min(retired.end_offset, above_base_offset)
    is_tail = below is not None and above_base_offset is None
    return (first, end) if first < end and not (is_tail and log.known_end_offset <= first) else None


def is_source(retired: RetiredLog, below: SegmentBelow, following_ns: Collection[int], log: LogAround) -> bool:
    """Return whether a compaction put the survivors of a retired log into the segment below.

    Any of five signs suffices.

    Args:
        retired: a ``.deleted`` log in a gap.
        below: the segment that the gap lies behind.
        following_ns: the file times of the retired logs in the same gap, of this one and of those behind it; while the
            segment below is being put in, also those of the segments above, which may be sources as well.
        log: the rest of the log.

    Source: Kafka Cleaner.cleanSegments (the cleaned log gets the file time of its last source),
    LocalLog.replaceSegments (sources are renamed before the cleaned log takes its name).
    """
    if below.base_offset < retired.base_offset < below.next_offset:
        return True  # nothing but a compaction puts records of one segment into another
    if retired.is_compacted and not below.is_untouched:
        return True
    if not (below.is_put_in or below.changed_ns >= retired.changed_ns):
        return False
    is_time_of_one = any(_has_time_of(below.mtime_ns, source_ns) for source_ns in following_ns)
    is_in_its_place = below.base_offset == retired.base_offset and not below.is_untouched
    if is_time_of_one and retired.is_named and is_in_its_place:
        return True  # the line may have stopped before, but nothing else puts another log there with this time
    if is_time_of_one and log.logs_of_ms.get(below.mtime_ns // _MS) == _BOTH:
        return True  # where more logs have it, as after a copy, it tells nothing
    since_ns = log.metadata_changed_ns
    tells = below.is_put_in or since_ns is None or since_ns < retired.changed_ns
    return tells and retired.base_offset < log.cleaned_to and below.next_offset != retired.base_offset


def _has_time_of(cleaned_ns: int, source_ns: int) -> bool:
    """Return whether a cleaner gives a log this file time if the last source has the other.

    Kafka's cleaner leaves whole ms, ours the very ns or a ns beside it. Two logs that a broker wrote within a ms have
    neither.
    """
    return cleaned_ns in (source_ns, source_ns ^ 1, source_ns // _MS * _MS)
