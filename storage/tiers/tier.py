"""One tier: the segments of each partition, of the metadata and of the files together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from storage.checkpoints import CorruptCheckpoint, LeaderEpochEntry, parse_leader_epochs, truncate_from_start
from storage.errors import LogCleanerError, as_unreadable
from storage.tiers.aiven import AivenLayout, parse_topic
from storage.tiers.errors import NotATier
from storage.tiers.extent import extent_of
from storage.tiers.joining import OFFSET_MAX, merged_epochs, newest, with_older
from storage.tiers.layout import Layout
from storage.tiers.local import ROOT, LocalLayout, partition_of
from storage.tiers.metadata import NO_METADATA, TierMetadata, read_metadata
from storage.tiers.objects import listed
from storage.tiers.segments import RemoteSegment, SegmentState, StoredSegment, TieredPartition, TierFile

_EMPTY: Final = "holds no segment of a tier"
_PREFIX_BYTES: Final = 16
_AT_ONCE: Final = 16
"""So many segments are asked about at the same time."""
_CLOCKS_DIFFER_MS: Final = 60_000
"""A file that was written so long before the metadata end must be named there."""


class WrongSize(NamedTuple):
    """A file that has another size than was copied."""

    path: Path
    size_bytes: int
    due_bytes: int


class Tier:
    """A tier, as a layout and the metadata tell of it. Listings are made when they are asked for, and kept."""

    def __init__(self, path: Path, layout: Layout, metadata: TierMetadata = NO_METADATA) -> None:
        """Take what reads the files, and what is known of them."""
        self.path, self.layout, self.metadata = path, layout, metadata
        self._segments: dict[TieredPartition, tuple[RemoteSegment, ...]] = {}

    @classmethod
    def open(cls, path: Path, log_dirs: Iterable[Path] = (), keys: Sequence[str] = ()) -> Tier:
        """Find out the layout of a tier, and read the metadata that lie in log dirs.

        Args:
            path: of the tier.
            log_dirs: may hold partitions of ``__remote_log_metadata``.
            keys: the files of private keys, each as ``ID=FILE`` or ``FILE``.

        Raises: NotATier, UnreadableFile, CorruptBatch; as a store.
        """
        paths = tuple(log_dirs)
        tier = cls(path, layout_of(path, keys), read_metadata(paths))
        if not paths and not tier.partitions:
            raise NotATier(path, _EMPTY)
        return tier

    @cached_property
    def partitions(self) -> tuple[TieredPartition, ...]:
        """The partitions of which files lie there, or of which the metadata name a segment. Raises: as ``Layout``."""
        with as_unreadable(self.path):
            return tuple(sorted({*self._stored_partitions, *self.metadata.partitions()}))

    @cached_property
    def _stored_partitions(self) -> frozenset[TieredPartition]:
        return frozenset(self.layout.partitions())

    def segments(self, partition: TieredPartition) -> tuple[RemoteSegment, ...]:
        """Return all segments of a partition, by start offset: those that are named, and those that lie there.

        Raises: NotATier, UnreadableFile, as a store.
        """
        if partition not in self._segments:
            with as_unreadable(self.path):
                self._segments[partition] = tuple(self._found(partition))
        return self._segments[partition]

    def _found(self, partition: TieredPartition) -> Iterator[RemoteSegment]:
        stored = self._stored(partition)
        named = self.metadata.segments_of(partition)
        segments = [self.layout.located(replace(s, stored=stored.get(s.segment_id))) for s in named.values()]
        deleted = self.metadata.replay.deleted.get(partition, set())
        for segment_id, found in stored.items():
            if segment_id in named:
                continue
            state = SegmentState.DELETE_SEGMENT_FINISHED if segment_id in deleted else None
            segments.append(RemoteSegment(partition, segment_id, found.name.start_offset, state=state, stored=found))
        segments.sort(key=lambda segment: (segment.start_offset, segment.event_ms or 0))
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            described = list(threads.map(self._described, segments))
            yield from threads.map(self._as_its_log, described, self._bounds(described))

    def _stored(self, partition: TieredPartition) -> Mapping[str, StoredSegment]:
        if partition not in self._stored_partitions:
            return {}
        return {found.name.segment_id: found for found in self.layout.stored(partition)}

    def _described(self, segment: RemoteSegment) -> RemoteSegment:
        if segment.has_metadata or segment.state is not None:
            return segment
        return self.layout.described(segment)

    def _bounds(self, segments: Sequence[RemoteSegment]) -> list[int | None]:
        """Return for each segment where another one begins within it, the log's end for the last; None for the rest.

        Nothing but its log can then tell which offsets it has.
        """
        last = max((segment.next_offset or 0 for segment in segments), default=0)
        starts = sorted({segment.start_offset for segment in segments})
        bounds: list[int | None] = []
        for segment in segments:
            place, end = bisect_right(starts, segment.start_offset), segment.next_offset
            following = starts[place] if place < len(starts) else OFFSET_MAX
            is_alone = end is None or (end <= following and end < last)
            bounds.append(None if is_alone else following)
        return bounds

    def _as_its_log(self, segment: RemoteSegment, following: int | None) -> RemoteSegment:
        """Return a segment that only its files tell of, with what its log says against its name and its manifest."""
        if following is None or segment.problem or segment.has_metadata or segment.state is not None:
            return segment
        try:
            files = self.layout.files(segment)
            if TierFile.LOG not in files:
                return segment
            log = files[TierFile.LOG]
            first, end = extent_of(log, files.get(TierFile.INDEX))
            if first is None and any(log.read(0, _PREFIX_BYTES)):
                return segment  # who reads it meets the damage; zeros look like the end of a log
        except (LogCleanerError, OSError):
            return segment  # who reads the file tells of it
        known_end: int | None = None
        if first is None:
            cause = "does not begin with a batch"
        elif first >= following:
            cause = f"begins at offset {first}, and another segment at {following}: these are the bytes of another one"
        elif end != segment.next_offset:
            known_end, cause = end - 1, f"its last batch ends at offset {end - 1}, not at {segment.end_offset}"
        else:
            return segment
        return replace(segment, end_offset=known_end, problem=f"{log.found.path}: {cause}")

    def is_orphan(self, segment: RemoteSegment) -> bool | None:
        """Return whether nobody names the files of a segment; None if the metadata that tell are not here."""
        if segment.has_metadata:
            return False
        if segment.state is SegmentState.DELETE_SEGMENT_FINISHED:
            return True
        end_ms = self.metadata.speaks_of(segment.partition)
        if end_ms is None or segment.stored is None or segment.stored.newest_ms + _CLOCKS_DIFFER_MS > end_ms:
            return None
        return True

    def wrong_sizes(self, segment: RemoteSegment) -> list[WrongSize]:
        """Return the files of a segment that have another size than was copied.

        Raises: LogCleanerError, FileNotFoundError if they cannot be read.
        """
        stored = segment.stored
        if stored is None:
            return []
        files, found = self.layout.files(segment), stored.objects
        wrong = [
            WrongSize(found[suffix].path, found[suffix].size_bytes, due)
            for suffix, due in self.layout.sizes(segment).items()
            if suffix in found and found[suffix].size_bytes != due
        ]
        log, due = files.get(TierFile.LOG), segment.size_bytes
        if not wrong and segment.has_metadata and due is not None and log is not None and log.size_bytes != due:
            wrong.append(WrongSize(found[TierFile.LOG].path, log.size_bytes, due))
        return wrong

    def wrong_epochs(self, segment: RemoteSegment) -> CorruptCheckpoint | None:
        """Return what is wrong with the leader epochs that were copied with a segment; None if nothing is.

        Raises: LogCleanerError, FileNotFoundError if they cannot be read.
        """
        try:
            self._epochs_with(segment)
        except CorruptCheckpoint as error:
            return error
        return None

    def _epochs_with(self, segment: RemoteSegment) -> list[LeaderEpochEntry]:
        """Return the leader epochs that were copied with a segment; none without that file.

        Raises: CorruptCheckpoint, also if its records have others; as ``Layout.files``.
        """
        found = self.layout.files(segment).get(TierFile.LEADER_EPOCHS)
        if found is None:
            return []
        path = found.found.path
        entries = parse_leader_epochs(bytes(found.read(0, found.size_bytes)), path)
        if _within(entries, segment) != _within(segment.epochs or (), segment):
            raise CorruptCheckpoint(path, 0, "it has other leader epochs than the segment")
        return entries

    def readable(self, partition: TieredPartition) -> list[RemoteSegment]:
        """Return the segments that a broker reads, as far as is known, and whose files are there."""
        return [
            segment
            for segment in self.segments(partition)
            if segment.is_readable and segment.stored and segment.end_offset is not None and not self.is_orphan(segment)
        ]

    def lineage(self, partition: TieredPartition) -> tuple[LeaderEpochEntry, ...]:
        """Return the leader epochs of a partition as the latest leader had them when it copied last, and older ones.

        Raises: as a store.
        """
        segments = self.readable(partition)
        epochs = [segment.epochs for segment in segments]
        last = newest(segments)
        if last is not None:
            try:
                if found := self._epochs_with(last):
                    return with_older(found, epochs)
            except (CorruptCheckpoint, LogCleanerError, FileNotFoundError):
                pass  # verify tells of the file; the segments tell of the epochs
        return merged_epochs(epochs)


def _within(epochs: Sequence[LeaderEpochEntry], segment: RemoteSegment) -> list[LeaderEpochEntry]:
    """Return the epochs of the offsets of a segment."""
    end = segment.start_offset if segment.end_offset is None else segment.end_offset
    return [entry for entry in truncate_from_start(epochs, segment.start_offset) if entry.start_offset <= end]


def layout_of(path: Path, keys: Sequence[str] = ()) -> Layout:
    """Find out the layout of a tier, by the names in it.

    A prefix of Aiven's plugin may end within a name; then no directory has the name, and others begin with it.

    Args:
        path: of the tier.
        keys: as of ``Tier.open``.

    Raises: NotATier, UnreadableFile, as a store.
    """
    with as_unreadable(path):
        try:
            names = directories_in(path)
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                if any(parse_topic(name, path.name) for name in directories_in(path.parent)):
                    return AivenLayout(path.parent, path.name, keys)
            raise NotATier(path, "does not exist") from None
        except NotADirectoryError:
            raise NotATier(path, "is not a directory") from None
        if ROOT in names:
            return LocalLayout(path / ROOT)
        if path.name == ROOT:
            return LocalLayout(path)
        for name in names:
            is_local, is_aiven = partition_of(name) is not None, parse_topic(name) is not None
            if is_local and is_aiven:  # the topic orders-0 of Aiven, or partition 0 of orders
                is_local = not any(number.isdecimal() for number in directories_in(path / name))
            if is_local:
                return LocalLayout(path)
            if is_aiven:
                return AivenLayout(path, keys=keys)
    raise NotATier(path, _EMPTY)


def directories_in(path: Path) -> list[str]:
    """Return the names of the directories in a directory. Raises: OSError, as a store."""
    return [name for name, found in listed(path) if found is None]
