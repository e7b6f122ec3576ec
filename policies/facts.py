"""Everything that the policies may know of a log directory: frozen facts.

Only ``cleaner.engine.inventory`` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from storage.names import FileIdentity, TopicPartition

NO_TIMESTAMP: Final = -1


class SegmentFacts(NamedTuple):
    """The facts of one segment. Sizes are in bytes, times in epoch ms. A named tuple is cheap: there are many."""

    base_offset: int
    size_bytes: int
    """The size of the ``.log`` alone: Kafka's retention and grouping count nothing else."""
    companions_bytes: int
    """The size of the segment's index files."""
    index_bytes: int
    time_index_bytes: int
    mtime_ms: int
    newest_record_ms: int
    """The timestamp of the last entry of the time index; NO_TIMESTAMP if the index has no entry."""
    identity: FileIdentity
    first_batch_ms: int = NO_TIMESTAMP
    """The largest timestamp of the first batch; read only if ``max.compaction.lag.ms`` needs it."""
    companions_identity: int | None = None
    """The identity of the index files, like ``identity`` of the ``.log``; None if nobody looked at the index files."""
    newest_record_offset: int | None = None
    """The last offset of the batch with the newest record, according to the time index."""
    disk_bytes: int = 0
    """The space that the blocks of all the segment's files take. Holes and compression make it less than the sizes."""
    links: int = 1
    """The most hard links that any file of the segment has. With more than one, deleting the segment frees nothing."""

    @property
    def frees_bytes(self) -> int:
        """The space that a disk gets back if the segment is deleted."""
        return self.disk_bytes if self.links == 1 else 0

    @property
    def largest_timestamp_ms(self) -> int:
        """The time of the newest record, else the file time. Source: Kafka LogSegment.largestTimestamp."""
        return self.newest_record_ms if self.newest_record_ms >= 0 else self.mtime_ms


class MissingRecords(NamedTuple):
    """Records that a log lacks, with the file that tells of them: their only copy, or an index file without its
    ``.log``.
    """

    base_offset: int
    name: str
    """The name of the file."""
    newest_ms: int = NO_TIMESTAMP
    """The timestamp of the last entry of their time index, epoch ms; NO_TIMESTAMP if there is none."""


class KeyCount(NamedTuple):
    """The number of records of a compaction round about which a key decides, and of those without a key.

    Markers, other control records and the records of aborted transactions do not count.
    """

    records: int
    unkeyed: int


class CountedRound(NamedTuple):
    """The count of an earlier round that a guard rail held back. It holds for the same round over the same files."""

    first_dirty_offset: int
    end_offset: int
    found: KeyCount


@dataclass(frozen=True)
class PartitionFacts:
    """The facts of one partition in one log dir. Segments ascend by base offset; the last one is the active segment."""

    topic_partition: TopicPartition
    log_dir: str
    segments: tuple[SegmentFacts, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    """The checkpointed high watermark, at most the log end offset; None if nobody checkpointed one."""
    last_stable_offset: int | None = None
    """None if it was not read (no compaction wanted), or if the high watermark is unknown."""
    cleaner_checkpoint: int | None = None
    """The first dirty offset in ``cleaner-offset-checkpoint``; None if the file has no line for the partition."""
    torn_tail_bytes: int = 0
    """The number of bytes behind the last batch that parses. The log ends before these bytes."""
    leftover_files: int = 0
    """The number of files renamed to ``.deleted`` that are still there."""
    lone_indexes: tuple[str, ...] = ()
    """The names of index files without a ``.log`` that recovery leaves: they tell of records that are missing."""
    missing: tuple[MissingRecords, ...] = ()
    """The records that the log lacks and that a file tells of, ascending."""
    held_since_ms: int | None = None
    """The time at which a restore put the partition on hold, epoch ms; None if the partition is not on hold."""
    counted: CountedRound | None = None
    """None if no round over these files was held back."""
    in_tier: frozenset[int] = frozenset()
    """The base offsets of the segments that a tier has, and no log dir."""

    @property
    def active(self) -> SegmentFacts:
        """The active segment: a broker would append to it."""
        return self.segments[-1]

    @cached_property
    def size_bytes(self) -> int:
        """The size of all ``.log`` files."""
        return sum(segment.size_bytes for segment in self.segments)

    @cached_property
    def disk_bytes(self) -> int:
        """The space that the blocks of the segments' files take."""
        return sum(segment.disk_bytes for segment in self.segments)

    def upper_offset(self, index: int) -> int:
        """Return the base offset of the next segment; for the active segment, return the log end offset."""
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else self.log_end_offset

    def without_oldest(self, count: int) -> PartitionFacts:
        """Return the facts as they will be without the ``count`` oldest segments. At least one segment must stay."""
        assert count < len(self.segments)
        if not count:
            return self
        kept = self.segments[count:]
        return replace(self, segments=kept, log_start_offset=max(self.log_start_offset, kept[0].base_offset))


class UnreadablePartition(NamedTuple):
    """A partition whose facts could not be read. A run reports the partition, leaves it alone, and goes on."""

    topic_partition: TopicPartition
    log_dir: str
    error: str
    size_bytes: int = 0
    disk_bytes: int = 0
    """The space that the blocks of its files take."""


class Boot(NamedTuple):
    """A boot of the machine: its id, and its time by the present wall clock.

    ``booted_ms``, epoch ms, is the wall clock minus the time since the boot. It changes only if the wall clock is set.
    """

    boot_id: str
    booted_ms: int


class LastRun(NamedTuple):
    """The last journal entry: its wall clock, epoch ms, and its boot. ``boot`` is None if the system does not tell."""

    time_ms: int
    boot: Boot | None


class ClockFacts(NamedTuple):
    """The wall clock, and the facts that tell whether it can be believed. Times are in epoch ms."""

    now_ms: int
    boot: Boot | None
    last_run: LastRun | None
    """The last journal entry; None if there is no journal."""
    newest_file_ms: int | None
    """The file time of the newest file; None if the log dir holds no file."""


class ConfigFacts(NamedTuple):
    """The facts that tell whether a configuration was written for a log dir's broker. None means "not stated"."""

    stated_by: str = ""
    """The source of the broker's configuration: the broker's own file, or another one."""
    stated_node_id: str | None = None
    """``node.id`` or ``broker.id`` in that source."""
    own_node_id: str | None = None
    """``node.id`` or ``broker.id`` in ``meta.properties`` of the log dir."""
    names_log_dir: bool = True
    """True if ``log.dirs`` of the broker's file, or the configuration file, names the log dir."""
    missing: str | None = None
    """The missing source without which the limits of the log dir's broker are unknown."""
    metadata_cluster_id: str | None = None
    """``cluster.id`` in the directory whose cluster metadata was read."""
    own_cluster_id: str | None = None
    """``cluster.id`` in ``meta.properties`` of the log dir."""
    metadata_newest_ms: int | None = None
    """The timestamp of the newest record in the cluster metadata that was read, epoch ms."""
    metadata_torn_bytes: int = 0
    """The number of bytes at the end of the cluster metadata that are no batch: a record may be missing there."""


@dataclass(frozen=True, slots=True)
class LogDirFacts:
    """The facts of one log dir."""

    path: str
    locked_by: str | None
    free_bytes: int
    size_bytes: int
    """The size of the segments' ``.log`` and index files, and of all files of partitions that cannot be read."""
    partitions: tuple[PartitionFacts | UnreadablePartition, ...]
    errors: tuple[str, ...] = ()
    """The faults of the dir itself, such as a garbled checkpoint. With any, a run touches nothing in the dir."""
    clock: ClockFacts | None = None
    """None asks for no comparison."""
    config: ConfigFacts | None = None
    """None asks for no comparison."""
    disk_bytes: int = 0
    """The space that the blocks of the files of ``size_bytes`` take."""
