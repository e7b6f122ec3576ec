"""Roll: when a segment ends, and how the next one comes to be.

Steps:      (of a new segment) leftovers of its base offset go; ``.timeindex`` and ``.index`` are created,
            then the ``.log``; the directory is fsynced.
Invariant:  a segment exists, whole, once its ``.log`` exists; index files without a ``.log`` are nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.indexes import OFFSET_ENTRY_BYTES, RELATIVE_OFFSET_MAX, TIME_ENTRY_BYTES
from storage.names import SEGMENT_KINDS, FileKind, FileState, SegmentFileName, segment_file_name
from storage.segment import Segment, SegmentFile

if TYPE_CHECKING:
    from storage.log.config import LogConfig

_CREATED_KINDS: Final = (FileKind.TIME_INDEX, FileKind.INDEX, FileKind.LOG)


class ActiveFacts(NamedTuple):
    """The facts about the active segment that rolling asks for. Sizes in bytes, times in epoch ms."""

    base_offset: int
    size_bytes: int
    first_batch_ms: int
    """Largest timestamp of the first batch; negative without a batch or a timestamp."""
    created_ms: int
    """The time when this process opened the segment; Kafka stores no other."""
    index_bytes: int
    time_index_bytes: int
    jitter_ms: int = 0
    """The milliseconds that this segment takes off ``segment.ms``."""

    def behind(self, arrival: Arrival) -> ActiveFacts:
        """Return the facts once the arrival is appended; the indexes may grow less than these say."""
        return self._replace(
            size_bytes=self.size_bytes + arrival.size_bytes,
            first_batch_ms=self.first_batch_ms if self.size_bytes else arrival.max_timestamp_ms,
            index_bytes=self.index_bytes + OFFSET_ENTRY_BYTES,
            time_index_bytes=self.time_index_bytes + TIME_ENTRY_BYTES,
        )


class Arrival(NamedTuple):
    """The facts about the batches to append that rolling asks for."""

    size_bytes: int
    max_timestamp_ms: int
    last_offset: int


def must_roll(active: ActiveFacts, arrival: Arrival, config: LogConfig, now_ms: int) -> bool:
    """Return whether the arrival needs a new segment: by size, by time, by a full index, or by offsets out of reach.

    Source: Kafka LogSegment.shouldRoll.
    """
    return (
        active.size_bytes > config.segment_bytes - arrival.size_bytes
        or (active.size_bytes > 0 and _waited_ms(active, arrival, now_ms) > config.segment_ms - active.jitter_ms)
        or _is_full(active, config)
        or not 0 <= arrival.last_offset - active.base_offset <= RELATIVE_OFFSET_MAX
    )


def _waited_ms(active: ActiveFacts, arrival: Arrival, now_ms: int) -> int:
    """Return for how long the segment waited, by the records' own time if they have one.

    The clock alone rolls no segment.

    Source: Kafka LogSegment.timeWaitedForRoll.
    """
    if active.first_batch_ms >= 0:
        return arrival.max_timestamp_ms - active.first_batch_ms
    return now_ms - active.created_ms


def _is_full(active: ActiveFacts, config: LogConfig) -> bool:
    """Return whether an index is full.

    Kafka keeps the last slot of a time index free for the entry that seals the segment.
    """
    index_slots, time_index_slots = config.segment_index_bytes // 8, config.segment_index_bytes // 12
    return active.index_bytes // 8 >= index_slots or active.time_index_bytes // 12 >= time_index_slots - 1


def create_segment(
    fs: FileSystem,
    directory: Path,
    base_offset: int,
    kinds: Sequence[FileKind] = _CREATED_KINDS,
    preallocated_bytes: int = 0,
) -> Segment:
    """Create an empty segment that lasts, its files owned like the directory.

    Index files of that base without a ``.log`` are removed first, as Kafka's roll does.

    Args:
        fs: the disk.
        directory: of the partition.
        base_offset: of the segment.
        kinds: the files to make; the ``.log`` last.
        preallocated_bytes: the length that the ``.log`` gets at once, all zeros.

    Raises: FileExistsError where there is a ``.log``; OutOfSpace, UnsafeOwner: nothing new is left then.
    """
    log = directory / segment_file_name(base_offset, FileKind.LOG)
    if log.exists():
        raise FileExistsError(errno.EEXIST, "a segment begins there already", str(log))
    for kind in SEGMENT_KINDS:
        fs.unlink(directory / segment_file_name(base_offset, kind), Purpose.ROLL)
    try:
        for kind in kinds:
            with fs.create(directory / segment_file_name(base_offset, kind), directory, Purpose.ROLL) as file:
                if kind is FileKind.LOG:
                    file.extend_to(preallocated_bytes)
                file.fsync()
    except OutOfSpace:
        for kind in kinds:
            fs.unlink(directory / segment_file_name(base_offset, kind), Purpose.ROLL)
        raise
    fs.fsync_dir(directory, Purpose.ROLL)
    return segment_at(directory, base_offset)


def segment_at(directory: Path, base_offset: int) -> Segment:
    """Return the segment of one base offset as its files are now. Raises: FileNotFoundError without a ``.log``."""
    names = [SegmentFileName(base_offset, kind, FileState.PLAIN) for kind in SEGMENT_KINDS]
    present = [name for name in names if name.kind is FileKind.LOG or (directory / str(name)).exists()]
    return Segment(directory, base_offset, {name.kind: SegmentFile.at(directory, name) for name in present})


def write_snapshot(fs: FileSystem, directory: Path, offset: int, data: bytes) -> None:
    """Write the producer snapshot of ``offset``; a crash leaves the old one, or none, or the whole new one.

    Kafka writes in place without truncating, which leaves a corrupt snapshot in the place of a longer one.
    Raises: OutOfSpace, UnsafeOwner.
    """
    path = directory / segment_file_name(offset, FileKind.SNAPSHOT)
    fs.replace_file(path, data, Purpose.ROLL)
