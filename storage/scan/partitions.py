"""Partition directories that paths and globs name, opened, and how far each can be read."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.directory import followed
from storage.errors import InvalidConfig, NotALogDir
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import LOG_START_OFFSET_CHECKPOINT, DirState, TopicPartition, parse_partition_dir_name
from storage.scan.choice import EVERYTHING, Choice


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition directory and the log start that its log dir's checkpoint says, 0 for none."""

    topic_partition: TopicPartition
    directory: Path
    log_start_offset: int

    def open(self) -> Log:
        """Read what is there. Raises: CorruptBatch, UnreadableFile."""
        return Log.open(self.directory, LogConfig(), FileSystem(), log_start_offset=self.log_start_offset)


def find_partitions(paths: Iterable[str], choice: Choice = EVERYTHING) -> list[FoundPartition]:
    """Return the partitions in some log dirs, ascending by name.

    Args:
        paths: globs of log dirs, or of partition directories.
        choice: what is left out need not be in one place only.

    Raises: NotALogDir, InvalidConfig where two directories hold the same partition, CorruptCheckpoint, UnreadableFile.
    """
    found: dict[TopicPartition, FoundPartition] = {}
    for directory in _directories(paths):
        for partition in _partitions_in(directory):
            if not choice.wants(partition.topic_partition):
                continue
            other = found.setdefault(partition.topic_partition, partition)
            if other.directory.resolve() != partition.directory.resolve():
                both = f"{other.directory} and {partition.directory}"
                raise InvalidConfig("path", None, f"{both} hold the same partition (replicas?); name one", "kafka-log")
    return [found[name] for name in sorted(found)]


def names_in(paths: Iterable[str]) -> set[TopicPartition]:
    """Return the names of all partitions in some log dirs. Raises: NotALogDir, CorruptCheckpoint, UnreadableFile."""
    return {partition.topic_partition for directory in _directories(paths) for partition in _partitions_in(directory)}


def _directories(paths: Iterable[str]) -> Iterator[Path]:
    for path in paths:
        if not glob.has_magic(path):
            yield Path(path)
            continue
        matches = [Path(match) for match in sorted(glob.glob(path)) if Path(match).is_dir()]  # noqa: PTH207
        if not matches:
            raise NotALogDir(Path(path), "matches no directory")
        yield from matches


def _partitions_in(directory: Path) -> Iterator[FoundPartition]:
    directory = followed(directory)
    name = parse_partition_dir_name(directory.absolute().name)
    if name and directory.is_dir() and any(list_partition(directory).files):
        if name.state is DirState.LIVE:
            starts = LogDir(directory.absolute().parent).offsets(LOG_START_OFFSET_CHECKPOINT)
            yield FoundPartition(name.topic_partition, directory.absolute(), starts.get(name.topic_partition, 0))
        return
    log_dir = LogDir.open(directory)
    starts = log_dir.offsets(LOG_START_OFFSET_CHECKPOINT)
    for topic_partition, path in log_dir.partitions():
        yield FoundPartition(topic_partition, path, starts.get(topic_partition, 0))


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition, the end exclusive."""

    start: int
    end: int


def readable_end(log: Log, *, read_committed: bool, now_ms: int) -> int:
    """Return the log end, or the last stable offset if only committed records are read.

    Raises: CorruptBatch, UnreadableFile.
    """
    if not read_committed:
        return log.log_end_offset
    unstable = log.producer_state(now_ms).first_unstable_offset(log.log_end_offset)
    return log.log_end_offset if unstable is None else unstable
