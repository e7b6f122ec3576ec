"""The small text files of a log dir: offset checkpoints, leader epochs, topic ids.

Reading is as strict as a broker's, which takes a log dir offline over a checkpoint that does not parse.
Formatting gives bytes; ``storage.filesystem`` writes them so that they last.

Source: Kafka ``CheckpointFile``, ``OffsetCheckpointFile``, ``LeaderEpochCheckpointFile``,
``LeaderEpochFileCache``, ``PartitionMetadataFile``.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from storage.errors import Corrupt
from storage.names import TopicPartition

_VERSION: Final = 0
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BLANKS: Final = re.compile(r"[ \t\n\x0b\f\r]+")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_INT32_BITS: Final = 32
_INT64_BITS: Final = 64
_UUID_CHARS: Final = 22
_UUID_BYTES: Final = 16


class CorruptCheckpoint(Corrupt):
    """A checkpoint or metadata text file that does not parse. ``line`` is 1-based, 0 for the whole file."""

    path: Path
    line: int
    cause: str
    remedy: ClassVar = "a broker would take the log dir offline: restore the file or remove it"

    def __str__(self) -> str:
        where = f"{self.path} line {self.line}" if self.line else str(self.path)
        return f"{where}: {self.cause}; {self.remedy}"


class LeaderEpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class HoldId(NamedTuple):
    """The topic that a hold belongs to. The time, epoch ms, tells the holds of one partition apart."""

    since_ms: int
    topic_id: str


def parse_offset_checkpoint(data: bytes, path: Path) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; an empty file has no entries, and a partition's last line counts.

    Raises:
        CorruptCheckpoint: another version, another number of entries than stated, a line that is not topic,
            partition and offset.
    """
    entries = {}
    for line, (topic, partition, offset) in _entries(data, path, fields=3):
        key = TopicPartition(topic, _integer(partition, _INT32_BITS, path, line))
        entries[key] = _integer(offset, _INT64_BITS, path, line)
    return entries


def format_offset_checkpoint(entries: Mapping[TopicPartition, int]) -> bytes:
    """Return the bytes of an offset checkpoint, entries in the given order."""
    return _format(f"{key.topic} {key.partition} {offset}" for key, offset in entries.items())


def parse_hold_ids(data: bytes, path: Path) -> dict[TopicPartition, HoldId]:
    """Read the topic ids of holds, a file of ours; each line ends with the CRC-32 of what stands before it.

    Raises:
        CorruptCheckpoint: as ``parse_offset_checkpoint``; also for no entry at all, a wrong checksum, no topic id.
    """
    entries = {}
    for line, (topic, partition, since, topic_id, checksum) in _entries(data, path, fields=5):
        entry = f"{topic} {partition} {since} {topic_id}"
        if checksum != _checksum(entry):
            raise CorruptCheckpoint(path, line, f"checksum {checksum} is not that of {entry!r}")
        if not _is_topic_id(topic_id):
            raise CorruptCheckpoint(path, line, f"{topic_id!r} is no topic id")
        key = TopicPartition(topic, _integer(partition, _INT32_BITS, path, line))
        entries[key] = HoldId(_integer(since, _INT64_BITS, path, line), topic_id)
    if not entries:
        raise CorruptCheckpoint(path, 0, "names no partition: it was cut short")
    return entries


def format_hold_ids(entries: Mapping[TopicPartition, HoldId]) -> bytes:
    """Return the bytes of the topic ids of holds, entries in the given order; there must be one."""
    lines = (f"{key.topic} {key.partition} {hold.since_ms} {hold.topic_id}" for key, hold in entries.items())
    return _format(f"{line} {_checksum(line)}" for line in lines)


def parse_leader_epochs(data: bytes, path: Path) -> list[LeaderEpochEntry]:
    """Read a ``leader-epoch-checkpoint``; ascending epochs, and of an epoch's several lines the last counts.

    Raises:
        CorruptCheckpoint: as ``parse_offset_checkpoint``.
    """
    starts = {}
    for line, (epoch, start_offset) in _entries(data, path, fields=2):
        starts[_integer(epoch, _INT32_BITS, path, line)] = _integer(start_offset, _INT64_BITS, path, line)
    return [LeaderEpochEntry(*entry) for entry in sorted(starts.items())]


def format_leader_epochs(entries: Iterable[LeaderEpochEntry]) -> bytes:
    """Return the bytes of a ``leader-epoch-checkpoint``."""
    return _format(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def truncate_from_start(entries: Sequence[LeaderEpochEntry], start_offset: int) -> list[LeaderEpochEntry]:
    """Return the epochs that remain if the log starts at ``start_offset``: the epoch of that offset then begins there.

    Source: Kafka LeaderEpochFileCache.truncateFromStart.
    """
    older = [entry for entry in entries if entry.start_offset <= start_offset]
    newer = [entry for entry in entries if entry.start_offset > start_offset]
    return [LeaderEpochEntry(older[-1].epoch, start_offset), *newer] if older else newer


def truncate_from_end(entries: Sequence[LeaderEpochEntry], end_offset: int) -> list[LeaderEpochEntry]:
    """Return the epochs that remain if the log ends at ``end_offset``, exclusive.

    Source: Kafka LeaderEpochFileCache.truncateFromEnd.
    """
    return [entry for entry in entries if entry.start_offset < end_offset]


def parse_partition_metadata(data: bytes, path: Path) -> str:
    """Read the topic id in a ``partition.metadata``: 22 characters.

    Raises:
        CorruptCheckpoint: other lines than ``version:`` and ``topic_id:``, a negative version, no topic id.
    """
    lines = _lines(data, path)
    version = _labelled(lines, 1, "version", path)
    if _integer(version, _INT32_BITS, path, 1) < 0:
        raise CorruptCheckpoint(path, 1, f"version {version}")
    topic_id = _labelled(lines, 2, "topic_id", path)
    if not _is_topic_id(topic_id):
        raise CorruptCheckpoint(path, 2, f"{topic_id!r} is no topic id")
    return topic_id


def format_partition_metadata(topic_id: str) -> bytes:
    """Return the bytes of a ``partition.metadata``. ``topic_id``: 22 characters of URL-safe base64."""
    return f"version: {_VERSION}\ntopic_id: {topic_id}".encode()


def _entries(data: bytes, path: Path, fields: int) -> list[tuple[int, list[str]]]:
    """Return the lines behind version and count, split into ``fields``, each with its number in the file."""
    lines = _lines(data, path)
    if not lines:
        return []
    if (version := _integer(lines[0], _INT32_BITS, path, 1)) != _VERSION:
        raise CorruptCheckpoint(path, 1, f"version {version}")
    if len(lines) == 1:
        return []
    if (count := _integer(lines[1], _INT32_BITS, path, 2)) != len(lines) - 2:
        raise CorruptCheckpoint(path, 2, f"states {count} entries and has {len(lines) - 2}")
    return [(number, _split(line, fields, path, number)) for number, line in enumerate(lines[2:], start=3)]


def _split(line: str, fields: int, path: Path, number: int) -> list[str]:
    """Split at blanks as Java does: blanks at the start make an empty field, those at the end none."""
    found = _BLANKS.split(line.rstrip(" \t\n\x0b\f\r"))
    if len(found) != fields or not all(found):
        raise CorruptCheckpoint(path, number, f"{line!r} is not {fields} fields")
    return found


def _lines(data: bytes, path: Path) -> list[str]:
    try:
        lines = _LINE_END.split(data.decode())
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(path, 0, f"not UTF-8: {error.reason} at byte {error.start}") from error
    return lines if lines[-1] else lines[:-1]


def _integer(text: str, bits: int, path: Path, line: int) -> int:
    # the length first: int() of a megabyte of digits is slow, and refused
    if len(text) > bits or not _INTEGER.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise CorruptCheckpoint(path, line, f"{text[:bits]!r} is no {bits}-bit number")
    return int(text)


def _labelled(lines: Sequence[str], number: int, label: str, path: Path) -> str:
    """Return the value of line ``number``, which must be ``label: value``."""
    line = lines[number - 1] if number <= len(lines) else ""
    found, colon, value = line.partition(":")
    if found != label or not colon or not value.strip():
        raise CorruptCheckpoint(path, number, f"{line!r} is not '{label}: ...'")
    return value.strip()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _is_topic_id(text: str) -> bool:
    if len(text) != _UUID_CHARS or not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        return False
    raw = base64.urlsafe_b64decode(text + "==")
    return len(raw) == _UUID_BYTES and any(raw)


def _format(lines: Iterable[str]) -> bytes:
    listed = list(lines)
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(listed)), *listed)).encode()
