"""The partition directories that paths and globs name, opened, and the offset up to which each can be read."""

from __future__ import annotations

import fnmatch
import glob
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import followed, names_of
from storage.errors import InvalidConfig, NotALogDir
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import list_ends, list_partition
from storage.log_dir import LogDir
from storage.names import LOG_START_OFFSET_CHECKPOINT, DirState, TopicPartition, parse_partition_dir_name
from storage.stores.paths import StoredPath, located, look_anew


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of partitions by one option; without an option all partitions are chosen."""

    topics: frozenset[str] | None = None
    """``subscribe``."""
    pattern: str | None = None
    """``subscribePattern``: a regular expression that the whole name of a topic matches."""
    partitions: frozenset[TopicPartition] | None = None
    """``assign``."""

    def wants(self, name: TopicPartition) -> bool:
        """Return whether a partition is chosen."""
        if self.topics is not None:
            return name.topic in self.topics
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name.topic) is not None
        return self.partitions is None or name in self.partitions

    def missing_from(self, found: Iterable[TopicPartition]) -> tuple[str, str] | None:
        """Return the option and the first name in it that was not found; None if all were found."""
        names = set(found)
        missing = sorted((self.topics or set()) - {name.topic for name in names})
        if missing:
            return "subscribe", missing[0]
        if self.pattern is not None and not names:
            return "subscribePattern", self.pattern
        gone = sorted((self.partitions or set()) - names)
        return ("assign", str(gone[0])) if gone else None


EVERYTHING: Final = Choice()
_READ_ONLY: Final = LogConfig()
"""The limits of appends, of which there are none."""


class ReplicaChoice(StrEnum):
    """The directory that is read if several hold one partition."""

    ERROR = "error"
    """None: it is not known which of them is meant."""
    FIRST = "first"
    """The first one, in the order of the paths."""
    NEWEST = "newest"
    """The one with the last leader epoch; of these the longest, and of these the first one."""


def parse_topics(text: str) -> Choice:
    """Read ``subscribe``. Raises: ValueError."""
    topics = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not topics:
        raise ValueError("a topic, or several with commas")
    return Choice(topics=topics)


def parse_pattern(text: str) -> Choice:
    """Read ``subscribePattern``. Raises: ValueError."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return Choice(pattern=text)


def parse_partitions(text: str) -> Choice:
    """Read ``assign``. Raises: ValueError."""
    shape = ValueError('not JSON like {"orders": [0, 1]}')
    try:
        pairs = [(topic, number) for topic, numbers in json.loads(text).items() for number in numbers]
    except (ValueError, AttributeError, TypeError) as error:
        raise shape from error
    if not pairs or any(type(number) is not int or number < 0 for _, number in pairs):
        raise shape
    return Choice(partitions=frozenset(TopicPartition(topic, number) for topic, number in pairs))


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition directory, and its log start by the checkpoint of its log dir, 0 without one."""

    topic_partition: TopicPartition
    directory: Path
    log_start_offset: int

    def open(self) -> Log:
        """Open the log of the partition. Raises: CorruptBatch, UnreadableFile."""
        return Log.open(self.directory, _READ_ONLY, FileSystem(), log_start_offset=self.log_start_offset)

    def open_ends(self) -> Log:
        """Open the log with its first and its last segment alone, which tell where it begins and ends.

        Raises: as ``open``.
        """
        return Log(self.directory, _READ_ONLY, FileSystem(), list_ends(self.directory), self.log_start_offset)


def find_partitions(
    paths: Iterable[str], choice: Choice = EVERYTHING, replica: ReplicaChoice = ReplicaChoice.ERROR
) -> list[FoundPartition]:
    """Return the partitions in some log dirs, ascending by name.

    Args:
        paths: globs of log dirs, or of partition directories.
        choice: the others are passed over.
        replica: which directory counts where several hold the same chosen partition.

    Raises: NotALogDir, InvalidConfig where no replica is chosen of several, CorruptCheckpoint, UnreadableFile; of the
        newest one also CorruptBatch.
    """
    paths = list(paths)
    look_anew(map(located, paths))
    found: dict[TopicPartition, FoundPartition] = {}
    others: defaultdict[TopicPartition, list[FoundPartition]] = defaultdict(list)
    for directory in _directories(paths):
        for partition in _partitions_in(directory, choice):
            first = found.setdefault(partition.topic_partition, partition)
            if first is partition or first.directory.resolve() == partition.directory.resolve():
                continue
            if replica is ReplicaChoice.ERROR:
                both = f"{first.directory} and {partition.directory}"
                cause = f"{both} hold the same partition (replicas?); name one, or say replica=newest or replica=first"
                raise InvalidConfig("path", None, cause, "kafka-log")
            others[partition.topic_partition].append(partition)
    if replica is ReplicaChoice.NEWEST:
        found |= {name: max((found[name], *replicas), key=_age) for name, replicas in others.items()}
    return [found[name] for name in sorted(found)]


def _age(partition: FoundPartition) -> tuple[int, int]:
    """Return the last leader epoch and the log end offset; a newer replica has greater ones."""
    epochs = read_leader_epochs(partition.directory)
    return epochs[-1].epoch if epochs else -1, partition.open_ends().log_end_offset


def log_dirs_in(paths: Iterable[str]) -> list[Path]:
    """Return the log dirs among some paths, without the partition directories. Raises: NotALogDir."""
    found = (followed(directory).absolute() for directory in _directories(paths))
    return [directory for directory in found if parse_partition_dir_name(directory.name) is None]


def names_in(paths: Iterable[str]) -> set[TopicPartition]:
    """Return the names of all partitions in some log dirs. Raises: NotALogDir, CorruptCheckpoint, UnreadableFile."""
    return {partition.topic_partition for directory in _directories(paths) for partition in _partitions_in(directory)}


def _directories(paths: Iterable[str]) -> Iterator[Path]:
    for path in paths:
        named = located(path)
        if not glob.has_magic(path):
            yield named
            continue
        matches = [match for match in _matches(named) if match.is_dir()]
        if not matches:
            raise NotALogDir(named, "matches no directory")
        yield from matches


def _matches(pattern: Path) -> list[Path]:
    """Return the paths that match a glob, ascending. Raises: as of a store."""
    if not isinstance(pattern, StoredPath):
        return [Path(match) for match in sorted(glob.glob(str(pattern)))]  # noqa: PTH207 - as a shell does
    if not glob.has_magic(pattern.key):
        return [pattern]
    with suppress(FileNotFoundError):
        return sorted(
            parent / name
            for parent in _matches(pattern.parent)
            if parent.is_dir()
            for name in names_of(parent)
            if fnmatch.fnmatchcase(name, pattern.name)
        )
    return []


def _partitions_in(directory: Path, choice: Choice = EVERYTHING) -> Iterator[FoundPartition]:
    directory = followed(directory)
    name = parse_partition_dir_name(directory.absolute().name)
    if name and directory.is_dir() and any(list_partition(directory).files):
        if name.state is DirState.LIVE and choice.wants(name.topic_partition):
            starts = LogDir(directory.absolute().parent).offsets(LOG_START_OFFSET_CHECKPOINT)
            yield FoundPartition(name.topic_partition, directory.absolute(), starts.get(name.topic_partition, 0))
        return
    log_dir = LogDir.open(directory)
    starts = log_dir.offsets(LOG_START_OFFSET_CHECKPOINT)
    for topic_partition, path in log_dir.partitions(choice.wants):
        yield FoundPartition(topic_partition, path, starts.get(topic_partition, 0))


class OffsetRange(NamedTuple):
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
