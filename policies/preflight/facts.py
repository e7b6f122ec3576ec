"""Facts of log dirs before a start of Kafka, and the questions that the rules ask of the contents of files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from storage.names import TopicPartition

Offsets = Mapping[TopicPartition, int]


class Release(NamedTuple):
    """A version of Kafka, such as 4.3."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


NEWEST: Final = Release(4, 4)
"""The newest version whose starts were compared with the rules."""


class KafkaFailure(NamedTuple):
    """The exception that Kafka raises at something."""

    exception: str
    """The class of Kafka's exception, without its package."""
    cause: str
    is_io: bool = False
    """Whether Kafka treats it as an error of the disk: it takes the log dir offline, and goes on with the others."""


class FileBefore(NamedTuple):
    """One file of a partition directory."""

    name: str
    size_bytes: int
    is_readable: bool = True
    """Whether the broker's user may read it."""
    is_writable: bool = True
    """Whether that user may read and write it."""


class RecoveredLog(NamedTuple):
    """The findings of Kafka's recovery of a segment, which reads the batches in order and checks the CRC of each."""

    valid_bytes: int
    next_offset: int | None
    """The offset behind the last valid batch; None if there is none."""
    producers_end: int | None
    """The same, of batches of v2; they alone move the producer state."""
    aborts: bool
    """Whether a marker of an aborted transaction is among the valid batches."""
    cause: str | None
    """Why the batch at ``valid_bytes`` is not valid; None at the end of the file."""
    failure: KafkaFailure | None = None
    """The exception that leaves the recovery; None if it ends as usual."""
    split_failure: KafkaFailure | None = None
    """If an offset does not fit the index: why Kafka cannot split the segment, either."""
    zero_bytes: int = 0
    """The number of zeros at the end of the file, behind the valid bytes: no record was there."""


class Contents(Protocol):
    """Answers about the contents of the files of one partition directory. Each answer is read when it is asked for."""

    def next_offset(self, log: str, index: str | None, base_offset: int) -> int | KafkaFailure:
        """Return the offset behind the last batch, as found from the last entry of the offset index on."""
        ...

    def uncounted_bytes(self, log: str, index: str | None, base_offset: int) -> int:
        """Return the number of bytes behind the last batch that ``next_offset`` finds."""
        ...

    def recovered(self, log: str, base_offset: int) -> RecoveredLog:
        """Return what the recovery of a segment finds."""
        ...

    def replay(self, log: str, index: str | None, base_offset: int, start_offset: int) -> KafkaFailure | None:
        """Return the exception at which the rebuilding of the producer state ends in this segment, if any."""
        ...

    def snapshot_is_valid(self, name: str) -> bool:
        """Return whether a producer snapshot has a known version, a right CRC and all its entries."""
        ...

    def txn_index_failure(self, name: str, base_offset: int) -> KafkaFailure | None:
        """Return the exception of Kafka's sanity check of a transaction index, if any."""
        ...


class ReadTopicId(NamedTuple):
    """The topic id that Kafka reads in ``partition.metadata``."""

    id: str | None
    failure: KafkaFailure | None = None


class PartitionBefore(NamedTuple):
    """One directory of a log dir that Kafka loads as a partition."""

    name: str
    topic_partition: TopicPartition
    files: tuple[FileBefore, ...]
    leader_epochs: KafkaFailure | None
    topic_id: ReadTopicId
    contents: Contents
    is_writable: bool = True
    disk_bytes: int | None = None
    """What the blocks of a ``-delete`` or ``-stray`` directory take, as ``du`` counts; None of other directories."""


class Replicas(NamedTuple):
    """The brokers of each partition, from the cluster metadata, as far as the broker will read it."""

    node_id: int
    brokers: Mapping[tuple[str, int], tuple[int, ...]]
    """Topic id and partition -> the ids of the brokers that host it."""
    names: Mapping[str, str]
    """Topic id -> name."""
    directories: Mapping[tuple[str, int], tuple[str, ...]] = MappingProxyType({})
    """Topic id and partition -> the ids of the log dirs, in the order of the brokers; none before Kafka 3.7."""

    def directory_of(self, topic_id: str | None, partition: int) -> str | None:
        """Return the id of the log dir that this broker has a partition in; None if none is stated."""
        if topic_id is None:
            return None
        key = topic_id, partition
        return dict(zip(self.brokers.get(key, ()), self.directories.get(key, ()), strict=False)).get(self.node_id)


class LogDirBefore(NamedTuple):
    """A log dir before the start."""

    path: str
    is_clean: bool
    """Whether the marker of a clean shutdown lies there."""
    recovery_points: Offsets | KafkaFailure
    log_starts: Offsets | KafkaFailure
    high_watermarks: Offsets | KafkaFailure
    partitions: tuple[PartitionBefore, ...]
    unparsable: tuple[str, ...]
    """Names of directories that are no partition directory."""
    has_metadata: bool = False
    """Whether ``__cluster_metadata-0`` lies there."""
    locked_by: str | None = None
    failure: KafkaFailure | None = None
    """Why the dir cannot be used at all."""
    cleaner_offsets: Offsets | KafkaFailure = MappingProxyType({})
    """Of ``cleaner-offset-checkpoint``; empty, too, where the log cleaner is off."""
    is_made: bool = False
    """Whether the directory is not there, and the start makes it."""
