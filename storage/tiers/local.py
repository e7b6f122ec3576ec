"""The layout of Kafka's own ``LocalTieredStorage``: the files of a segment as they were, one directory a partition.

    kafka-tiered-storage/TOPIC-PARTITION-TOPICID/STARTOFFSET-SEGMENTID.{log,index,timeindex,txnindex,snapshot,...}

Start offsets have 20 digits; earlier revisions wrote them without zeros.

Source: Kafka ``RemoteLogSegmentFileset``, ``RemoteTopicPartitionDirectory``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from storage.checkpoints import LeaderEpochEntry, parse_leader_epochs, truncate_from_start
from storage.directory import status_of
from storage.errors import LogCleanerError
from storage.indexes import last_time_index_entry
from storage.log.end import next_offset_of
from storage.names import FileKind, FileState, SegmentFileName, parse_topic_partition
from storage.records.v2 import MAGIC_POSITION, MAGIC_V2
from storage.segment import Segment, SegmentFile, listed
from storage.tiers.errors import CorruptTier
from storage.tiers.objects import listed as listed_objects
from storage.tiers.objects import read_all, read_range
from storage.tiers.segments import (
    RemoteName,
    RemoteSegment,
    StoredObject,
    StoredSegment,
    TieredPartition,
    TierFile,
)

ROOT: Final = "kafka-tiered-storage"
_DIRECTORY: Final = re.compile(r"(?P<topic_partition>.+)-(?P<id>[A-Za-z0-9_-]{22})", re.ASCII)
_FILE: Final = re.compile(r"(?P<start>\d{1,20})-(?P<id>[A-Za-z0-9_-]{22})(?P<suffix>\.[a-z_]+)", re.ASCII)
_EPOCH_POSITION: Final = 12
_OPTIONAL: Final = frozenset({TierFile.TXN_INDEX})
_KINDS: Final = {
    TierFile.LOG: FileKind.LOG,
    TierFile.INDEX: FileKind.INDEX,
    TierFile.TIME_INDEX: FileKind.TIME_INDEX,
}


def partition_of(name: str) -> TieredPartition | None:
    """Return the partition of a directory, by its name; None for any other name."""
    found = _DIRECTORY.fullmatch(name)
    parsed = parse_topic_partition(found["topic_partition"]) if found else None
    return TieredPartition(parsed.topic, parsed.partition, found["id"]) if found and parsed else None


class LocalFile(NamedTuple):
    """A file that is in the tier as it was."""

    found: StoredObject

    @property
    def size_bytes(self) -> int:
        """Return its size."""
        return self.found.size_bytes

    @property
    def version(self) -> str:
        """Return its version."""
        return self.found.version

    def read(self, start: int, end: int) -> memoryview:
        """Read a range. Raises: as ``OriginalFile``."""
        return read_range(self.found, start, end)


class LocalLayout:
    """A directory of ``LocalTieredStorage``, as a ``Layout``."""

    def __init__(self, root: Path) -> None:
        """Prepare to read below ``root``, which holds the directories of partitions."""
        self.root = root

    @property
    def name(self) -> str:
        """Return the name of the layout, for people."""
        return "LocalTieredStorage"

    def partitions(self) -> list[TieredPartition]:
        """Return the partitions that have a directory. Raises: as ``Layout``."""
        names = (name for name, found in listed_objects(self.root) if found is None)
        return sorted(found for name in names if (found := partition_of(name)))

    def stored(self, partition: TieredPartition) -> list[StoredSegment]:
        """Return the segments of which files lie there. Raises: as ``Layout``."""
        objects: defaultdict[RemoteName, dict[str, StoredObject]] = defaultdict(dict)
        for name, found in listed_objects(self._directory(partition)):
            parsed = _FILE.fullmatch(name)
            if parsed and found is not None:
                key = RemoteName(partition, int(parsed["start"]), parsed["id"])
                objects[key][parsed["suffix"]] = found
        return [StoredSegment(name, objects[name]) for name in sorted(objects, key=lambda name: name.start_offset)]

    def located(self, segment: RemoteSegment) -> RemoteSegment:
        """Return the segment: its name tells its place."""
        return segment

    def described(self, segment: RemoteSegment) -> RemoteSegment:
        """Return a segment with its size, its end and its epochs, read from its files."""
        stored = segment.stored
        if stored is None or TierFile.LOG not in stored.objects:
            return replace(segment, problem="its .log is not there")
        try:
            return self._read(segment, stored)
        except FileNotFoundError:
            return replace(segment, problem="it was removed while it was read")
        except LogCleanerError as error:
            return replace(segment, problem=str(error))

    def _read(self, segment: RemoteSegment, stored: StoredSegment) -> RemoteSegment:
        size_bytes = segment.size_bytes or stored.objects[TierFile.LOG].size_bytes
        epochs, end, newest_ms = segment.epochs, segment.end_offset, segment.max_timestamp_ms
        if epochs is None and (found := stored.objects.get(TierFile.LEADER_EPOCHS)):
            epochs = tuple(truncate_from_start(parse_leader_epochs(read_all(found), found.path), segment.start_offset))
            if epochs and not _fits(epochs[0], segment.start_offset, stored.objects[TierFile.LOG]):
                epochs = None
        if end is None:
            listed_segment = _segment_of(stored)
            end = next_offset_of(listed_segment) - 1
            if end < segment.start_offset:
                raise CorruptTier(stored.objects[TierFile.LOG].path, "does not begin with a batch")
            if index := listed_segment.files.get(FileKind.TIME_INDEX):
                entry = last_time_index_entry(index.path, segment.start_offset)
                newest_ms = entry.timestamp_ms if entry else None
        return replace(segment, size_bytes=size_bytes, epochs=epochs, end_offset=end, max_timestamp_ms=newest_ms)

    def missing(self, stored: StoredSegment) -> list[str]:
        """Return the suffixes of files that are missing."""
        return [kind.value for kind in TierFile if kind not in _OPTIONAL and kind not in stored.objects]

    def sizes(self, segment: RemoteSegment) -> Mapping[str, int]:
        """Return the size that the metadata state."""
        return {TierFile.LOG: segment.size_bytes} if segment.has_metadata and segment.size_bytes is not None else {}

    def files(self, segment: RemoteSegment) -> Mapping[TierFile, LocalFile]:
        """Return the files of a segment. Raises: CorruptTier if there is none."""
        if segment.stored is None:
            raise CorruptTier(self._directory(segment.partition), f"no file of {segment} is there")
        objects = segment.stored.objects
        return {kind: LocalFile(objects[kind]) for kind in TierFile if kind in objects}

    def _directory(self, partition: TieredPartition) -> Path:
        return self.root / f"{partition}-{partition.topic_id}"


def _fits(entry: LeaderEpochEntry, start_offset: int, log: StoredObject) -> bool:
    """Return whether the first batch of a log has the epoch that an entry states at its start."""
    header = read_range(log, 0, MAGIC_POSITION + 1)
    if entry.start_offset != start_offset or len(header) <= MAGIC_POSITION or header[MAGIC_POSITION] != MAGIC_V2:
        return True
    return int.from_bytes(header[_EPOCH_POSITION:MAGIC_POSITION], "big", signed=True) == entry.epoch


def _segment_of(stored: StoredSegment) -> Segment:
    """Return the files as a segment, under the names that they have in the tier."""
    files: dict[FileKind, SegmentFile] = {}
    for suffix, kind in _KINDS.items():
        if suffix in stored.objects:
            path = stored.objects[suffix].path
            name = SegmentFileName(stored.name.start_offset, kind, FileState.PLAIN)
            files[kind] = listed(path.parent, path.name, name, status_of(path))
    return Segment(stored.objects[TierFile.LOG].path.parent, stored.name.start_offset, files)
