"""Values: what is known of a segment in a tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import NamedTuple

from storage.checkpoints import LeaderEpochEntry
from storage.names import TopicPartition


class SegmentState(IntEnum):
    """The life of a remote segment. Source: Kafka RemoteLogSegmentState."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class TierFile(StrEnum):
    """The files of a segment that a broker copies, by the suffix that they have in a log dir."""

    LOG = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"
    """The producers at the end of the segment."""
    LEADER_EPOCHS = ".leader_epoch_checkpoint"
    """All leader epochs from the log start to the end of the segment."""


class TieredPartition(NamedTuple):
    """A partition of a topic, told apart from those of earlier topics of that name. ``topic_id``: 22 characters."""

    topic: str
    partition: int
    topic_id: str

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, whatever the topic's id."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class StoredObject(NamedTuple):
    """A file of a tier as it was listed."""

    path: Path
    size_bytes: int
    mtime_ms: int
    version: str


class RemoteName(NamedTuple):
    """The parts of the name of a segment. ``segment_id``: 22 characters."""

    partition: TieredPartition
    start_offset: int
    segment_id: str


class StoredSegment(NamedTuple):
    """The files of a tier that belong to one segment, by their suffix."""

    name: RemoteName
    objects: Mapping[str, StoredObject]

    @property
    def size_bytes(self) -> int:
        """The bytes that the segment takes in the tier."""
        return sum(found.size_bytes for found in self.objects.values())

    @property
    def newest_ms(self) -> int:
        """The time when the last of its files was written, epoch ms."""
        return max(found.mtime_ms for found in self.objects.values())


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment in a tier: what the metadata tell of it, or else its files. ``None`` is for what nobody tells."""

    partition: TieredPartition
    segment_id: str
    start_offset: int
    end_offset: int | None = None
    """The last offset, inclusive."""
    epochs: tuple[LeaderEpochEntry, ...] | None = None
    """The leader epochs of its records, ascending; the first one may have begun before the segment."""
    max_timestamp_ms: int | None = None
    size_bytes: int | None = None
    """The size of the original ``.log``."""
    state: SegmentState | None = None
    event_ms: int | None = None
    """When a broker wrote the last event about it."""
    broker_id: int | None = None
    custom_metadata: bytes | None = None
    stored: StoredSegment | None = None
    """Its files; None if no file of it lies in the tier."""
    problem: str = ""
    """Why its files tell less than they should; empty if nothing is wrong."""
    has_metadata: bool = field(default=False)
    """Whether ``__remote_log_metadata`` names it."""

    @property
    def next_offset(self) -> int | None:
        """The offset behind the last one."""
        return None if self.end_offset is None else self.end_offset + 1

    @property
    def is_readable(self) -> bool:
        """Return whether a broker reads it: its copy ended, and no deletion began."""
        return self.state in (None, SegmentState.COPY_SEGMENT_FINISHED)

    def __str__(self) -> str:
        return f"{self.partition} {self.start_offset}-{self.segment_id}"
