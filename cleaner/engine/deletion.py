"""Carry out a retention: the oldest segments leave the log, then the files that depend on the log start follow.

Order, each step safe to crash behind:
    1. if all segments go, an empty segment is rolled at the log end, with a producer snapshot;
    2. every ``.log``, oldest first, to ``.deleted``; fsync of the directory. A crash leaves a log with a later start
       or, after a power loss, with a gap among segments that were to go anyway: the next run takes the rest;
    3. their index files and the producer snapshots of the deleted bases, but never the newest; fsync. Not before: for a
       ``.log`` without its index files, a broker that was stopped cleanly forgets its producers;
    4. leader epochs are cut at the new log start.
The checkpoints of the log dir are the executor's, once for all partitions.

``retire_segments`` does this. On a full disk a longer name, or the leader epochs, may find no room: then every step is
undone.

``remove_segments`` unlinks in the same order, which works with 0 bytes free. The caller's journal line may wait until
the first file has made space for it: then the line tells whose index files a kill left. Step 4 needs a block. Step 2
has freed one, unless others fill the disk. So the caller does step 4, and can try again. A log without step 4 is sound:
a broker, too, cuts its leader epochs some time after a deletion.

Source: Kafka UnifiedLog.deleteSegments, LeaderEpochFileCache.truncateFromStart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from policies.facts import SegmentFacts
from policies.plan import Deletion
from storage.checkpoints import format_leader_epochs, truncate_from_start
from storage.errors import LogCleanerError, PlanOutOfDate
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import Listing, ensure_plain_files
from storage.log.roll import create_segment, write_snapshot
from storage.names import LEADER_EPOCH_CHECKPOINT, SEGMENT_KINDS, FileKind, FileState, segment_file_name
from storage.segment import Segment, SegmentFile

Renames = list[tuple[Path, Path]]


def retire_segments(fs: FileSystem, listing: Listing, deletion: Deletion, snapshot_at_end: Callable[[], bytes]) -> None:
    """Rename the segments of a deletion to ``.deleted``.

    Args:
        fs: the disk.
        listing: the partition, read under the lock.
        deletion: what policy decided.
        snapshot_at_end: makes the producer snapshot of the log end; called only if all segments go and there is no such
            snapshot.

    Raises: PlanOutOfDate if a file changed, CorruptCheckpoint if the leader epochs do not parse, OutOfSpace. The
        partition then stays as it was.
    """
    doomed = _checked(listing, deletion)
    rolled = _roll(fs, listing, deletion, snapshot_at_end)
    done: Renames = []
    try:
        for files in _in_order(listing, doomed):
            for file in files:
                file.ensure_as_listed()
                fs.rename(file.path, _retired(file), Purpose.RETIRE)
                done.append((file.path, _retired(file)))
            fs.fsync_dir(listing.directory, Purpose.RETIRE)
        truncate_leader_epochs(fs, listing.directory, deletion.new_log_start_offset)
    except (LogCleanerError, OSError):
        _undo(fs, listing.directory, done, rolled)
        raise


def remove_segments(
    fs: FileSystem,
    listing: Listing,
    deletion: Deletion,
    snapshot_at_end: Callable[[], bytes],
    *,
    made_space: Callable[[], None] = lambda: None,
) -> None:
    """Unlink the segments of a deletion; the leader epochs are left to the caller.

    Arguments and errors as above. ``made_space`` is called each time a file has gone. OutOfSpace is raised only if all
    segments go, before any is unlinked.
    """
    doomed = _checked(listing, deletion)
    for segment in doomed:
        segment.ensure_as_listed()
    _roll(fs, listing, deletion, snapshot_at_end)
    for files in _in_order(listing, doomed):
        for file in files:
            fs.unlink(file.path, Purpose.REMOVE)
            made_space()
        fs.fsync_dir(listing.directory, Purpose.REMOVE)


def _in_order(listing: Listing, doomed: Sequence[Segment]) -> tuple[list[SegmentFile], list[SegmentFile]]:
    """Do steps 2 and 3: every ``.log``, and all its companions.

    A power loss may leave index files of a segment among them whose ``.log`` is gone. These are removed, too, because a
    log needs nothing below its first segment.
    """
    companions = [segment.files[kind] for segment in doomed for kind in SEGMENT_KINDS[1:] if kind in segment.files]
    logs = {segment.base_offset for segment in listing.segments}
    last = max((segment.base_offset for segment in doomed), default=-1)
    left = min(logs - {segment.base_offset for segment in doomed}, default=last)
    for file in listing.in_state(FileState.PLAIN):
        base, kind, _ = file.name
        if kind in SEGMENT_KINDS[1:] and base < left and base not in logs:
            companions.append(file)
    return [segment.log for segment in doomed], companions + listing.snapshots_of(doomed)


def _checked(listing: Listing, deletion: Deletion) -> list[Segment]:
    """Check what must hold before the first step."""
    ensure_plain_files(listing)
    doomed = check_unchanged(listing.segments, deletion.segments)
    if deletion.roll_at_offset is not None and len(doomed) < len(listing.segments):
        rolled = max(listing.segments, key=lambda segment: segment.base_offset)
        raise PlanOutOfDate(rolled.log.path, "it was not there")
    read_leader_epochs(listing.directory)
    return doomed


def check_unchanged(found: Iterable[Segment], planned: Iterable[SegmentFacts]) -> list[Segment]:
    """Look the segments of a plan up again. Raises: PlanOutOfDate if one has changed since."""
    by_base = {segment.base_offset: segment for segment in found}
    directory = next((segment.directory for segment in by_base.values()), Path())
    segments: list[Segment] = []
    for facts in planned:
        segment = by_base.get(facts.base_offset)
        if segment is None:
            raise PlanOutOfDate(directory / segment_file_name(facts.base_offset, FileKind.LOG), "it is gone")
        is_same = segment.log.identity == facts.identity
        if not is_same or facts.companions_identity not in (None, segment.companions_identity):
            what = "an index file has another size or time" if is_same else "another size, time or file"
            raise PlanOutOfDate(segment.log.path, what)
        segments.append(segment)
    return segments


def _roll(
    fs: FileSystem, listing: Listing, deletion: Deletion, snapshot_at_end: Callable[[], bytes]
) -> tuple[Path, ...]:
    """Make the empty segment that stays if everything else is deleted.

    Returns: the files made, in the order in which they may be removed again.
    Raises: OutOfSpace, and none of the files is left.
    """
    offset = deletion.roll_at_offset
    if offset is None:
        return ()
    made: list[Path] = []
    try:
        if not any(s.name.base_offset == offset for s in listing.snapshots):
            write_snapshot(fs, listing.directory, offset, snapshot_at_end())
            made.append(listing.directory / segment_file_name(offset, FileKind.SNAPSHOT))
        segment = create_segment(fs, listing.directory, offset)
    except (LogCleanerError, OSError):
        _unlink(fs, listing.directory, made)
        raise
    return (*(file.path for file in segment.files.values()), *made)


def _undo(fs: FileSystem, directory: Path, done: Renames, rolled: Sequence[Path]) -> None:
    """Undo renames backwards, so that at any moment the log is whole or lacks its oldest segments only."""
    for source, target in reversed(done):
        fs.rename(target, source, Purpose.RETIRE)
    if done:
        fs.fsync_dir(directory, Purpose.RETIRE)
    _unlink(fs, directory, rolled)


def _unlink(fs: FileSystem, directory: Path, paths: Sequence[Path]) -> None:
    for path in paths:
        fs.unlink(path, Purpose.ROLL)
    if paths:
        fs.fsync_dir(directory, Purpose.ROLL)


def _retired(file: SegmentFile) -> Path:
    return file.path.with_name(str(file.name._replace(state=FileState.DELETED)))


def retire_snapshots(fs: FileSystem, listing: Listing, segments: Iterable[Segment]) -> None:
    """Rename the snapshots of segments that a swap replaced, or unlink them if there is no room for the longer name."""
    for snapshot in listing.snapshots_of(segments):
        try:
            fs.rename(snapshot.path, _retired(snapshot), Purpose.RETIRE)
        except OutOfSpace:
            fs.unlink(snapshot.path, Purpose.RETIRE)


def truncate_leader_epochs(fs: FileSystem, directory: Path, log_start_offset: int) -> None:
    """Cut ``leader-epoch-checkpoint`` at the log start; a partition without one has nothing to cut.

    Raises: CorruptCheckpoint, OutOfSpace.
    """
    epochs = read_leader_epochs(directory)
    kept = truncate_from_start(epochs, log_start_offset)
    if kept != epochs:
        fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, format_leader_epochs(kept), Purpose.CHECKPOINT)
