"""The files of a partition directory while a start works on them: which are there, and what was done to which.

Names of directories and files are read as Kafka reads them, which lets more through than it ever writes.

Source: Kafka ``LocalLog.parseTopicPartitionName``, ``LogFileUtils.offsetFromFile``.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from policies.preflight.facts import FileBefore, KafkaFailure
from policies.preflight.start import StartStep, StartStepKind
from storage.names import DirState, TopicPartition

INDEX_SUFFIXES: Final = (".index", ".timeindex", ".txnindex")
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
SNAPSHOT: Final = ".snapshot"
SNAPSHOT_DELETED: Final = ".checkpoint.deleted"
OFFSET_MAX: Final = (1 << 63) - 1
_PARTITION: Final = re.compile(r"[+-]?\d+", re.ASCII)
_PARTITION_MAX: Final = (1 << 31) - 1


class LoadingStopped(Exception):
    """The exception that ends the loading of a partition, and the file that it is about."""

    def __init__(self, failure: KafkaFailure, file: str, *, is_split: bool = False) -> None:
        self.failure, self.file = failure, file
        self.is_split = is_split
        """Whether Kafka catches it, splits the segment, and begins again."""


class Files:
    """The files of one directory: name -> size, and the steps taken so far."""

    def __init__(self, files: Iterable[FileBefore]) -> None:
        self.sizes = {file.name: file.size_bytes for file in files}
        self.waiting: set[str] = set()
        """Names that carry ``.deleted``, and are unlinked after the delay."""
        self.steps: list[StartStep] = []
        self.renamed: dict[str, str] = {}
        """The present names of the files that got other names."""
        named = [name for name in self.sizes if name.endswith(SNAPSHOT)]
        self._snapshots = sorted(offset for name in named if (offset := _snapshot_offset(name)) is not None)
        """The offsets of the producer snapshots that Kafka named, ascending: it asks for them before each recovery of
        one of perhaps a hundred thousand segments."""
        self._has_odd_snapshots = len(self._snapshots) < len(named)

    def names(self) -> list[str]:
        """Return the names, sorted as Kafka sorts them."""
        return sorted(self.sizes)

    def snapshots(self) -> list[int]:
        """Return the offsets of the producer snapshots, ascending. Raises: LoadingStopped where a name is no offset."""
        if self._has_odd_snapshots:
            return sorted({base_offset_of(name) for name in self.names() if name.endswith(SNAPSHOT)})
        return self._snapshots.copy()

    def write_snapshot(self, offset: int, why: str) -> None:
        """Write a producer snapshot; one that is there is written anew without a step."""
        name = snapshot_name(offset)
        if name not in self.sizes:
            self.note(StartStepKind.WRITE, name, why)
            add_to(self._snapshots, offset)
        self.sizes[name] = 0

    def net_steps(self) -> tuple[StartStep, ...]:
        """Return the steps, without files that are both deleted and written anew, as producer snapshots are."""
        written = {step.file for step in self.steps if step.kind is StartStepKind.WRITE}
        deleted = {step.file for step in self.steps if step.kind is StartStepKind.DELETE}
        renewed = written & deleted
        pairs = (StartStepKind.WRITE, StartStepKind.DELETE)
        return tuple(step for step in self.steps if step.kind not in pairs or step.file not in renewed)

    def note(self, kind: StartStepKind, file: str, why: str, **places: int | None) -> None:
        """Note a step."""
        self.steps.append(StartStep(kind, file, why, **places))  # type: ignore[arg-type]

    def delete(self, name: str, why: str) -> None:
        """Unlink a file at once."""
        size_bytes = self._taken(name)
        if size_bytes is not None:
            self.note(StartStepKind.DELETE, name, why, size_bytes=size_bytes)

    def retire(self, name: str, why: str) -> None:
        """Rename a file to ``.deleted``; it is unlinked after the delay."""
        size_bytes = self._taken(name)
        if size_bytes is not None:
            self.waiting.add(name + DELETED)
            self.note(StartStepKind.DELETE_LATER, name, why, size_bytes=size_bytes)

    def rename(self, name: str, target: str, why: str) -> None:
        """Give a file another name; what had that name is gone."""
        self.sizes[target] = self.sizes.pop(name)
        self.renamed[target] = name
        self._has_odd_snapshots |= target.endswith(SNAPSHOT)
        self.note(StartStepKind.RENAME, name, why)

    def create(self, name: str, why: str) -> None:
        """Make an empty file unless the file exists."""
        if name not in self.sizes:
            self.sizes[name] = 0
            self.note(StartStepKind.CREATE, name, why)

    def _taken(self, name: str) -> int | None:
        """Take a file out. Return its size; None if it is not there."""
        size_bytes = self.sizes.pop(name, None)
        if size_bytes is not None and name.endswith(SNAPSHOT) and (offset := _snapshot_offset(name)) is not None:
            remove_from(self._snapshots, offset)
        return size_bytes


def parse_kafka_name(name: str, *, knows_stray: bool = True) -> TopicPartition | None:
    """Return the partition that Kafka takes a directory for; None where it refuses to start over the name.

    Args:
        name: of the directory.
        knows_stray: whether this Kafka has ``-stray`` directories.
    """
    for state in (DirState.DELETE, DirState.FUTURE, DirState.STRAY):
        if name.endswith(state.value) and (knows_stray or state is not DirState.STRAY):
            if not re.fullmatch(r"(\S+)-(\S+)\.(\S+)" + state.value, name):
                return None
            name = name[: name.rindex(".")]
            break
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not _PARTITION.fullmatch(partition):
        return None
    number = int(partition)
    return TopicPartition(topic, number) if -_PARTITION_MAX - 1 <= number <= _PARTITION_MAX else None


def base_offset_of(name: str) -> int:
    """Return the number before the first dot. Raises: LoadingStopped, as Kafka's ``NumberFormatException``."""
    text = name.partition(".")[0]
    found = _long(text)
    if found is None:
        raise LoadingStopped(KafkaFailure("NumberFormatException", f"{text!r} is no offset"), name)
    return found


def offset_if_any(name: str) -> int | None:
    """Return the number before the first dot; None if there is none."""
    text, dot, _ = name.partition(".")
    return _long(text) if dot else None


@lru_cache(maxsize=64)  # the files of a segment follow each other
def _long(text: str) -> int | None:
    """Return the number that Kafka reads as a long; None if it reads none."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 40):
        return None
    number = int(text)
    return number if abs(number) <= OFFSET_MAX else None


def log_name(base_offset: int) -> str:
    """Return the name of a ``.log``."""
    return f"{base_offset:020d}.log"


class SegmentNames(NamedTuple):
    """The names of a segment's files."""

    log: str
    offset_index: str
    time_index: str
    txn_index: str


@lru_cache(maxsize=64)  # asked for several times in a row, of perhaps a hundred thousand segments
def names_of(base_offset: int) -> SegmentNames:
    """Return the names of the files of a segment."""
    stem = f"{base_offset:020d}"
    return SegmentNames(f"{stem}.log", f"{stem}.index", f"{stem}.timeindex", f"{stem}.txnindex")


def snapshot_name(offset: int) -> str:
    """Return the name of a producer snapshot."""
    return f"{offset:020d}{SNAPSHOT}"


def _snapshot_offset(name: str) -> int | None:
    """Return the offset of a producer snapshot that Kafka named; None for another name."""
    offset = offset_if_any(name)
    return offset if offset is not None and snapshot_name(offset) == name else None


def add_to(ascending: list[int], offset: int) -> None:
    """Put an offset into a list in its place, unless it is there."""
    place = bisect_left(ascending, offset)  # a partition may have a hundred thousand segments
    if ascending[place : place + 1] != [offset]:
        ascending.insert(place, offset)


def floor_place(ascending: Sequence[int], offset: int) -> int:
    """Return the place of the last base offset at or below an offset; 0 if all lie above it."""
    return max(bisect_right(ascending, offset) - 1, 0)


def remove_from(ascending: list[int], offset: int) -> bool:
    """Take an offset out of an ascending list. Return whether it was there."""
    place = bisect_left(ascending, offset)
    is_there = ascending[place : place + 1] == [offset]
    del ascending[place : place + is_there]
    return is_there
