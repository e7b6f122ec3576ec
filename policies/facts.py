"""All that the policies may know of a log directory: frozen facts, made by ``cleaner.engine.inventory`` alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from storage.names import FileIdentity, TopicPartition

NO_TIMESTAMP: Final = -1


class TimestampSource(Enum):
    """Where a segment's largest timestamp comes from."""

    TIME_INDEX = "its newest record"
    MTIME = "the file time of its .log (no record has a timestamp)"


class SegmentFacts(NamedTuple):
    """One segment. Sizes in bytes, times in epoch ms. Cheap: there are many."""

    base_offset: int
    size_bytes: int
    """Of the ``.log`` alone: what Kafka's retention and grouping count."""
    companions_bytes: int
    """Of its index files."""
    index_bytes: int
    time_index_bytes: int
    mtime_ms: int
    newest_record_ms: int
    """Last entry of the time index; NO_TIMESTAMP where it has none."""
    identity: FileIdentity
    first_batch_ms: int = NO_TIMESTAMP
    """Largest timestamp of the first batch; read only where ``max.compaction.lag.ms`` needs it."""
    companions_identity: int | None = None
    """As ``identity``, of the index files; None where nobody looked at them."""
    newest_record_offset: int | None = None
    """Last offset of the batch with the newest record, by the time index."""
    disk_bytes: int = 0
    """What the blocks of all its files take. Holes and compression make it less than the sizes."""
    links: int = 1
    """The most hard links that one of its files has; with more than one, deleting it frees nothing."""

    @property
    def largest_timestamp_ms(self) -> int:
        """Source: Kafka LogSegment.largestTimestamp: the time index, else the file time."""
        return self.newest_record_ms if self.newest_record_ms >= 0 else self.mtime_ms

    @property
    def timestamp_source(self) -> TimestampSource:
        """Which of the two it was."""
        return TimestampSource.TIME_INDEX if self.newest_record_ms >= 0 else TimestampSource.MTIME


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition of one log dir, its segments in ascending base offset; the last one is the active segment."""

    topic_partition: TopicPartition
    log_dir: str
    segments: tuple[SegmentFacts, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    """Checkpointed, bounded by the log end; None where nobody checkpointed one."""
    last_stable_offset: int | None = None
    """None where it was not read (no compaction wanted) or the high watermark is unknown."""
    cleaner_checkpoint: int | None = None
    """First dirty offset as ``cleaner-offset-checkpoint`` has it."""
    torn_tail_bytes: int = 0
    """Bytes behind the last batch that parses; the log ends before them."""
    leftover_files: int = 0
    """Files renamed to ``.deleted`` that are still there."""
    held_since_ms: int | None = None
    """When a restore put it on hold, epoch ms; None where it is on none."""

    @property
    def active(self) -> SegmentFacts:
        """The segment that a broker would append to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """Of all ``.log`` files."""
        return sum(segment.size_bytes for segment in self.segments)

    def upper_offset(self, index: int) -> int:
        """The base offset of the next segment, or the log end offset for the active one."""
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else self.log_end_offset

    def without_oldest(self, count: int) -> PartitionFacts:
        """The facts as they will be when the ``count`` oldest segments are gone; at least one segment must stay."""
        assert count < len(self.segments)
        kept = self.segments[count:]
        return (
            replace(self, segments=kept, log_start_offset=max(self.log_start_offset, kept[0].base_offset))
            if count
            else self
        )


@dataclass(frozen=True, slots=True)
class UnreadablePartition:
    """A partition whose facts could not be read; it is reported, left alone, and stops nobody else."""

    topic_partition: TopicPartition
    log_dir: str
    error: str
    size_bytes: int = 0


class Boot(NamedTuple):
    """A boot of the machine: its id, and when it was, as the wall clock of the moment has it.

    ``booted_ms``, epoch ms, is the wall clock less the time since the boot: it moves only where the wall clock is set.
    """

    boot_id: str
    booted_ms: int


class LastRun(NamedTuple):
    """The last journal entry: the wall clock then, epoch ms, and the boot; None where the system does not tell."""

    time_ms: int
    boot: Boot | None


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """The wall clock, and what tells whether it can be believed. Times in epoch ms."""

    now_ms: int
    boot: Boot | None
    last_run: LastRun | None
    """None without a journal."""
    newest_file_ms: int | None
    """None where the log dir holds none."""


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """What tells whether a configuration was written for the broker of a log dir. None stands for "not stated"."""

    stated_by: str = ""
    """The broker's own file, or what else a broker's configuration was taken from."""
    stated_node_id: str | None = None
    """``node.id`` or ``broker.id`` there."""
    own_node_id: str | None = None
    """The same in ``meta.properties`` of the log dir."""
    names_log_dir: bool = True
    """Whether ``log.dirs`` of that file, or the configuration file, names the log dir."""
    missing: str | None = None
    """What would be needed to know the limits of the log dir's broker, and was not found."""
    metadata_cluster_id: str | None = None
    """``cluster.id`` beside the cluster metadata that was read."""
    own_cluster_id: str | None = None
    """``cluster.id`` in ``meta.properties`` of the log dir."""
    metadata_newest_ms: int | None = None
    """Timestamp of the newest record in the cluster metadata that was read, epoch ms."""
    metadata_torn_bytes: int = 0
    """At the end of the cluster metadata, bytes that are no batch: a record that was there may be missing."""


@dataclass(frozen=True, slots=True)
class LogDirFacts:
    """A log dir as a plan sees it."""

    path: str
    locked_by: str | None
    free_bytes: int
    size_bytes: int
    partitions: tuple[PartitionFacts | UnreadablePartition, ...]
    errors: tuple[str, ...] = ()
    """What is wrong with the dir itself (a garbled checkpoint): nothing in it is touched then."""
    clock: ClockFacts | None = None
    """None asks for no comparison."""
    config: ConfigFacts | None = None
    """None asks for no comparison."""
