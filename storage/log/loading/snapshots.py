"""The producer snapshots of a partition: which there are, up to where the last one reaches, when the next is due.

Source: Kafka ``ProducerStateManager``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from storage.filesystem import FileSystem, Purpose
from storage.log.listing import list_partition
from storage.log.producer_state import CorruptSnapshot, ProducerState, parse_snapshot
from storage.log.roll import write_snapshot
from storage.log_dir import read_file
from storage.names import FileKind, FileState, segment_file_name
from storage.segment import Segment, reading


class ProducerSnapshots:
    """The snapshots that are known of. ``map_end`` is the offset that the producer state reaches."""

    def __init__(self, fs: FileSystem, directory: Path, offsets: Iterable[int]) -> None:
        """Know of snapshots; their files are not looked at."""
        self._fs, self._directory = fs, directory
        self.offsets = set(offsets)
        self.map_end = 0
        self.last = 0
        """The newest one that was read or written: there is no other at or below it to be written."""

    @classmethod
    def listed(cls, fs: FileSystem, directory: Path) -> Self:
        """Look at the snapshots that are there. Raises: UnreadableFile."""
        return cls(fs, directory, (file.name.base_offset for file in list_partition(directory).snapshots))

    def take(self, state: ProducerState) -> None:
        """Write a snapshot at ``map_end``, unless the last one reaches it. Raises: OutOfSpace, UnsafeOwner."""
        if self.map_end > self.last:
            write_snapshot(self._fs, self._directory, self.map_end, state.to_snapshot_bytes())
            self.offsets.add(self.map_end)
            self.last = self.map_end

    def load_newest(self, log_start_offset: int, now_ms: int, expiration_ms: int) -> ProducerState:
        """Read the newest snapshot that is whole, without producers that expired; those that are not whole go.

        Source: Kafka ProducerStateManager.loadFromSnapshot.
        """
        while self.offsets:
            newest = max(self.offsets)
            try:
                entries = parse_snapshot(read_file(self._path(newest)) or b"", self._path(newest))
            except CorruptSnapshot:
                self.delete(newest)
                continue
            self.last = self.map_end = newest
            return ProducerState([entry for entry in entries if not entry.is_expired(now_ms, expiration_ms)])
        self.last = self.map_end = log_start_offset
        return ProducerState()

    def begin_at(self, log_start_offset: int) -> None:
        """Follow a log start that moved on. Source: Kafka ProducerStateManager.onLogStartOffsetIncremented."""
        self.map_end = max(self.map_end, log_start_offset)
        self.last = max(self.offsets, default=log_start_offset)

    def start_over(self, offset: int) -> None:
        """Delete all of them: the log begins anew. Source: Kafka ProducerStateManager.truncateFullyAndStartAt."""
        for known in sorted(self.offsets):
            self.delete(known)
        self.last, self.map_end = 0, offset

    def remove_strays(self, bases: Collection[int]) -> None:
        """Delete those that no segment begins at, but for the newest where it lies at or behind the last segment."""
        strays = sorted(self.offsets.difference(bases))
        kept = strays[-1:] if strays and strays[-1] >= max(bases, default=0) else []
        for offset in strays:
            if offset not in kept:
                self.delete(offset)

    def delete(self, offset: int) -> None:
        """Unlink one."""
        self.offsets.discard(offset)
        self._fs.unlink(self._path(offset), Purpose.RECOVER)

    def retire(self, bases: Iterable[int]) -> None:
        """Have the snapshots of segments that go wait as their files do."""
        for base in bases:
            if base in self.offsets:
                self.offsets.discard(base)
                source = self._path(base)
                if source.exists():
                    self._fs.rename(source, source.with_name(f"{source.name}{FileState.DELETED}"), Purpose.RETIRE)

    def _path(self, offset: int) -> Path:
        return self._directory / segment_file_name(offset, FileKind.SNAPSHOT)


class ProducerTerms(NamedTuple):
    """The values that a rebuilding of producers goes by. Times in ms."""

    log_start_offset: int
    end_offset: int
    now_ms: int
    expiration_ms: int
    trusts_absence: bool = False
    """After a clean shutdown a log without any snapshot is not replayed."""


def rebuild_producers(
    snapshots: ProducerSnapshots, state: ProducerState, segments: Sequence[Segment], terms: ProducerTerms
) -> ProducerState:
    """Return the state of the producers at an offset; snapshots are deleted and written on the way.

    Args:
        snapshots: of the partition.
        state: the one so far, at ``snapshots.map_end``.
        segments: ascending.
        terms: how far, and by which clock.

    Raises: CorruptBatch, UnreadableFile, OutOfSpace.
    Source: Kafka UnifiedLog.rebuildProducerState, ProducerStateManager.truncateAndReload.
    """
    bases, end = [segment.base_offset for segment in segments], terms.end_offset
    to_write = [*bases[-2:], end]
    if not snapshots.offsets and terms.trusts_absence:
        for offset in to_write:
            snapshots.map_end = offset
            snapshots.take(state)
        return state
    was_empty = not state.producers and snapshots.map_end >= end
    for offset in sorted(snapshots.offsets):
        if offset > end or offset <= terms.log_start_offset:
            snapshots.delete(offset)
    if end == snapshots.map_end:
        snapshots.begin_at(terms.log_start_offset)
    else:
        emptied = state
        state = snapshots.load_newest(terms.log_start_offset, terms.now_ms, terms.expiration_ms)
        state.take_order_of(emptied)
    if end > snapshots.map_end and not was_empty:
        for segment in segments_from(segments, snapshots.map_end):
            if segment.base_offset >= end:
                break
            start = snapshots.map_end = max(segment.base_offset, snapshots.map_end, terms.log_start_offset)
            if segment.base_offset in to_write:
                snapshots.take(state)
            with reading(segment.log.path) as descriptor:
                state.replay(descriptor, segment.log.path, start, end)
    snapshots.map_end = end
    snapshots.take(state)
    return state


def segments_from(segments: Sequence[Segment], offset: int) -> list[Segment]:
    """Return the segments from the one that holds an offset on. Source: Kafka ``LogSegments.values``."""
    floor = max((segment.base_offset for segment in segments if segment.base_offset <= offset), default=None)
    return [segment for segment in segments if floor is None or segment.base_offset >= floor]
