"""Carry out a retention: the oldest segments leave the log, become ``.deleted``, and what depends on the log start
follows.

Order, each step safe to crash behind:
    1. where everything goes, an empty segment is rolled at the log end, with a producer snapshot;
    2. the segments, oldest first, to ``.deleted``; fsync of the directory. What a crash leaves is a log with a later
       start, or, after a power loss, one with a gap among segments that were to go anyway: the next run takes the rest;
    3. producer snapshots of the deleted bases, but never the newest;
    4. leader epochs are cut at the new log start.
The checkpoints of the log dir are the executor's, once for all partitions.

Source: Kafka UnifiedLog.deleteSegments, LeaderEpochFileCache.truncateFromStart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from policies.facts import SegmentFacts
from policies.plan import Deletion
from storage.checkpoints import format_leader_epochs, truncate_from_start
from storage.errors import PlanOutOfDate
from storage.filesystem import FileSystem, Purpose
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import Listing
from storage.log.roll import create_segment, write_snapshot
from storage.names import LEADER_EPOCH_CHECKPOINT, FileKind, FileState, segment_file_name
from storage.segment import Segment, SegmentFile, identity_of
from storage.swap import retire


def delete_segments(fs: FileSystem, listing: Listing, deletion: Deletion, snapshot_at_end: Callable[[], bytes]) -> None:
    """Retire the segments of a deletion.

    Args:
        fs: the disk.
        listing: the partition, read under the lock.
        deletion: what policy decided.
        snapshot_at_end: makes the producer snapshot of the log end; called only where everything goes and there is
            none.

    Raises: PlanOutOfDate before the first step where a file is not as it was, CorruptCheckpoint where the leader
        epochs do not parse; OutOfSpace.
    """
    directory = listing.directory
    doomed = check_unchanged(listing.segments, deletion.segments)
    read_leader_epochs(directory)
    if deletion.roll_at_offset is not None:
        _roll(fs, listing, deletion.roll_at_offset, snapshot_at_end)
    for segment in doomed:
        retire(fs, segment)
    retire_snapshots(fs, listing, {segment.base_offset for segment in doomed})
    fs.fsync_dir(directory, Purpose.RETIRE)
    truncate_leader_epochs(fs, directory, deletion.new_log_start_offset)


def check_unchanged(found: Iterable[Segment], planned: Iterable[SegmentFacts]) -> list[Segment]:
    """The segments of a plan, looked up again. Raises: PlanOutOfDate where one changed since."""
    by_base = {segment.base_offset: segment for segment in found}
    segments: list[Segment] = []
    for facts in planned:
        segment = by_base.get(facts.base_offset)
        if segment is None or identity_of(segment.log.path.stat()) != facts.identity:
            path = segment.log.path if segment else Path(segment_file_name(facts.base_offset, FileKind.LOG))
            raise PlanOutOfDate(path, "another size, time or file" if segment else "it is gone")
        segments.append(segment)
    return segments


def _roll(fs: FileSystem, listing: Listing, offset: int, snapshot_at_end: Callable[[], bytes]) -> None:
    if not any(s.name.base_offset == offset for s in listing.snapshots):
        write_snapshot(fs, listing.directory, offset, snapshot_at_end())
    create_segment(fs, listing.directory, offset)


def retire_snapshots(fs: FileSystem, listing: Listing, bases: set[int]) -> None:
    """Rename the snapshots of segments that are gone; the newest one stays, a long replay is the price of losing it."""
    for snapshot in retired_snapshots(listing, bases):
        target = segment_file_name(snapshot.name.base_offset, FileKind.SNAPSHOT, FileState.DELETED)
        fs.rename(snapshot.path, snapshot.path.with_name(target), Purpose.RETIRE)


def retired_snapshots(listing: Listing, bases: set[int]) -> list[SegmentFile]:
    """Producer snapshots that go with the segments of these bases."""
    return [snapshot for snapshot in listing.snapshots[:-1] if snapshot.name.base_offset in bases]


def truncate_leader_epochs(fs: FileSystem, directory: Path, log_start_offset: int) -> None:
    """Cut ``leader-epoch-checkpoint`` at the log start; a partition without one has nothing to cut.

    Raises: CorruptCheckpoint, OutOfSpace.
    """
    epochs = read_leader_epochs(directory)
    kept = truncate_from_start(epochs, log_start_offset)
    if kept != epochs:
        fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, format_leader_epochs(kept), Purpose.CHECKPOINT)
