"""Looks whether a ``.deleted`` log may be the only copy of records that its log lacks.

What retention deletes lies below the first segment, and what a compaction replaced went into a segment below it: that
one got its name after the sources lost theirs. All else that lies in a gap, or behind an end that a checkpoint puts
further, is gone for no reason that anybody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from policies.checking.sweeping import OnlyCopy
from storage.errors import LogCleanerError
from storage.log.end import next_offset_of
from storage.log.listing import Listing, list_partition, segments_of
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    FileState,
    TopicPartition,
)
from storage.segment import Segment, SegmentFile

_ENDS: Final = (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT)


def only_copies(log_dir: LogDir, topic_partition: TopicPartition, listing: Listing) -> Iterator[tuple[str, OnlyCopy]]:
    """Yield the ``.deleted`` logs of a partition that may be the only copy of records, with their paths.

    Where the cleaner came by, the times of files tell too little for a claim: ``only_copy`` is there to refuse.
    """
    retired = [file for file in listing.in_state(FileState.DELETED) if file.name.kind is FileKind.LOG]
    with suppress(LogCleanerError):  # ``diagnose`` tells of what cannot be read
        cleaned_to = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT).get(topic_partition, 0) if retired else 0
        for file in retired:
            copy = only_copy(log_dir, topic_partition, file) if file.name.base_offset >= cleaned_to else None
            if copy is not None:
                yield str(file.path), copy


def only_copy(log_dir: LogDir, topic_partition: TopicPartition, retired: SegmentFile) -> OnlyCopy | None:
    """Return the offsets that a ``.deleted`` log may have alone; None if the log has them, or needs them no more.

    Args:
        log_dir: that holds it.
        topic_partition: whose directory it lies in.
        retired: a file of any kind; what is no ``.log`` has no records.

    Raises: CorruptCheckpoint, UnreadableFile; as ``plan_recovery`` where nobody knows what the log has.
    """
    if retired.name.kind is not FileKind.LOG:
        return None
    listing = list_partition(retired.directory)
    waiting = listing.in_state(FileState.DELETED)
    listing = plan_recovery(listing).listing
    own = _retired_segment(retired)
    first, end = own.base_offset, next_offset_of(own)
    start = log_dir.offsets(LOG_START_OFFSET_CHECKPOINT).get(topic_partition, 0)
    below = [segment for segment in listing.segments if segment.base_offset <= first]
    above = [segment for segment in listing.segments if segment.base_offset > first]
    if end <= max(first, start) or not below or next_offset_of(below[-1]) >= end:
        return None
    if above:
        if above[0].base_offset <= max(first, next_offset_of(below[-1])):
            return None
        cleaned_to = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT).get(topic_partition, 0)
        if first < cleaned_to and _is_source(below[-1], retired):
            return None
    elif all(log_dir.offsets(name).get(topic_partition, 0) <= first for name in _ENDS):
        return None
    return OnlyCopy(first, end - 1, _others(waiting, first))


def _retired_segment(retired: SegmentFile) -> Segment:
    plain = retired._replace(name=retired.name._replace(state=FileState.PLAIN))
    (segment,) = segments_of(retired.directory, (plain,))
    return segment


def _is_source(below: Segment, retired: SegmentFile) -> bool:
    """Return whether a compaction may have put a file's survivors into the segment below it."""
    was_put_in_later = below.log.changed_ns >= retired.changed_ns or below.log.file_name != str(below.log.name)
    return was_put_in_later and next_offset_of(below) != retired.name.base_offset


def _others(waiting: Iterable[SegmentFile], base_offset: int) -> tuple[str, ...]:
    """Return the other files of the segment that wait."""
    return tuple(f.file_name for f in waiting if f.name.base_offset == base_offset and f.name.kind is not FileKind.LOG)
