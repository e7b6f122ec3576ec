"""Partition directories that paths and globs name, opened, and the range of offsets to be read of each."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from cleaner.spark.options import Bound, Options
from storage.errors import InvalidConfig, NoSuchOffset, NotALogDir, UnreadableFile
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig, SpecialTimestamp
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import LOG_START_OFFSET_CHECKPOINT, DirState, TopicPartition, parse_partition_dir_name

Plan = TypeVar("Plan")

_LOOKS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition directory and the log start that its log dir's checkpoint says, 0 for none."""

    topic_partition: TopicPartition
    directory: Path
    log_start_offset: int

    def open(self) -> Log:
        """Read what is there. Raises: CorruptBatch, UnreadableFile."""
        return Log.open(self.directory, LogConfig(), FileSystem(), log_start_offset=self.log_start_offset)


def find_partitions(paths: Iterable[str]) -> list[FoundPartition]:
    """The partitions in some log dirs, ascending by name.

    Args:
        paths: globs of log dirs, or of partition directories.

    Raises: NotALogDir, InvalidConfig where two directories hold the same partition, CorruptCheckpoint, UnreadableFile.
    """
    found: dict[TopicPartition, FoundPartition] = {}
    for directory in _directories(paths):
        for partition in _partitions_in(directory):
            other = found.setdefault(partition.topic_partition, partition)
            if other.directory.resolve() != partition.directory.resolve():
                both = f"{other.directory} and {partition.directory}"
                raise InvalidConfig("path", None, f"{both} hold the same partition (replicas?); name one", "kafka-log")
    return [found[name] for name in sorted(found)]


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


def while_files_move(plan: Callable[[], Plan]) -> Plan:
    """Look again where a file was renamed or deleted between listing and opening it: no lock is held.

    Raises: UnreadableFile, and what ``plan`` raises.
    """
    for _ in range(_LOOKS_MAX - 1):
        try:
            return plan()
        except UnreadableFile as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
    return plan()


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition, the end exclusive."""

    start: int
    end: int


def check_named(bounds: Sequence[Bound | None], found: Sequence[FoundPartition]) -> None:
    """A bound that names partitions names all, and none besides, as in Spark's Kafka source. Raises: InvalidConfig."""
    there = {partition.topic_partition for partition in found}
    for bound in bounds:
        if bound is None or bound.partitions is None or bound.partitions.keys() == there:
            continue
        odd = ", ".join(sorted(map(str, there ^ bound.partitions.keys())))
        raise InvalidConfig("offsets", None, f"they must name every partition and no other; see {odd}", "kafka-log")


def range_of(log: Log, name: TopicPartition, options: Options, now_ms: int) -> OffsetRange:
    """What a batch reads of a partition.

    Args:
        log: the partition.
        name: of it.
        options: where to begin and to end.
        now_ms: epoch ms, for the expiry of producers.

    Raises: NoSuchOffset, CorruptBatch, CorruptIndex, UnreadableFile.
    """
    end = readable_end(log, read_committed=options.read_committed, now_ms=now_ms)
    starting = options.starting or Bound(None, SpecialTimestamp.EARLIEST)
    start = resolve(starting, log, name, end, fails=options.fail_on_data_loss)
    return OffsetRange(start, resolve(options.ending, log, name, end, fails=options.fail_on_data_loss))


def readable_end(log: Log, *, read_committed: bool, now_ms: int) -> int:
    """The log end, or where only committed records are read the last stable offset.

    Raises: CorruptBatch, UnreadableFile.
    """
    if not read_committed:
        return log.log_end_offset
    unstable = log.producer_state(now_ms).first_unstable_offset(log.log_end_offset)
    return log.log_end_offset if unstable is None else unstable


def resolve(bound: Bound, log: Log, name: TopicPartition, end: int, *, fails: bool) -> int:
    """The offset that a bound means.

    Args:
        bound: it names the partition, if any.
        log: the partition.
        name: of it.
        end: where what can be read of it ends.
        fails: whether an offset outside the log is an error; else the nearest is taken.

    Raises: NoSuchOffset, CorruptBatch, CorruptIndex, UnreadableFile.
    """
    asked = bound.special if bound.partitions is None else bound.partitions[name]
    if bound.by_timestamp:
        found = log.lookup_timestamp(asked)
        if found is None and not bound.falls_back:
            raise NoSuchOffset(str(name), f"a record of timestamp {asked} or later", log.log_start_offset, end)
        return end if found is None else min(found.offset, end)
    if asked == SpecialTimestamp.LATEST:
        return end
    if asked == SpecialTimestamp.EARLIEST:
        return min(log.log_start_offset, end)
    if fails and not log.log_start_offset <= asked <= end:
        raise NoSuchOffset(str(name), f"offset {asked}", log.log_start_offset, end)
    return max(log.log_start_offset, min(asked, end))
