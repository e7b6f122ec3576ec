"""The small text files as Kafka reads them: which exception each mistake raises decides what a start does.

An ``IOException`` takes the log dir offline; any other exception ends the broker. ``storage.checkpoints`` reads the
same files and treats all mistakes alike.

Source: Kafka ``CheckpointFile``, ``OffsetCheckpointFile``, ``LeaderEpochCheckpointFile``, ``PartitionMetadataFile``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final

from policies.preflight.facts import KafkaFailure, Offsets, ReadTopicId, Release
from storage.names import TopicPartition

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = re.compile(r"[ \t\n\x0b\f\r]+")
_COLON: Final = re.compile(r":[ \t\n\x0b\f\r]+")
_ENTRIES_MAX: Final = 50_000_000
"""For more entries a JVM of usual size has no memory."""
_OLD_MAJOR: Final = 2
_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_UUID_CHARS: Final = 22


class _Wrong(Exception):
    """A file that Kafka's reader refuses."""

    def __init__(self, exception: str, cause: str, *, is_io: bool = False) -> None:
        self.failure = KafkaFailure(exception, cause, is_io)


def read_offset_checkpoint(data: bytes | None, release: Release) -> Offsets | KafkaFailure:
    """Return the entries of an offset checkpoint; None is a missing file, which has none."""
    found: dict[TopicPartition, int] = {}

    def take(fields: list[str]) -> None:
        found[TopicPartition(fields[0], _integer(fields[1], 32))] = _integer(fields[2], 64)

    failure = _read_checkpoint(data, 3, take, release)
    return failure or found


def leader_epochs_failure(data: bytes | None, release: Release) -> KafkaFailure | None:
    """Return the exception that a ``leader-epoch-checkpoint`` raises, if any."""

    def take(fields: list[str]) -> None:
        epoch, offset = _integer(fields[0], 32), _integer(fields[1], 64)
        entries.append((epoch, offset))

    entries: list[tuple[int, int]] = []
    failure = _read_checkpoint(data, 2, take, release)
    if failure is None:
        for epoch, offset in entries:
            if epoch < 0 or offset < 0:
                cause = f"epoch {epoch} with start offset {offset}"
                return KafkaFailure("IllegalArgumentException", cause)
    return failure


def read_topic_id(data: bytes | None) -> ReadTopicId:
    """Return what Kafka reads in ``partition.metadata``; without the file there is no topic id."""
    if data is None:
        return ReadTopicId(None)
    try:
        return ReadTopicId(_topic_id(data))
    except _Wrong as wrong:
        return ReadTopicId(None, wrong.failure)


def _topic_id(data: bytes) -> str:
    lines = _lines(data)
    version = _labelled(lines, 0)
    if not _is_integer(version, 32):
        raise _Wrong("IOException", f"version {version!r}", is_io=True)
    if int(version) < 0:
        raise _Wrong("IOException", f"version {version}", is_io=True)
    text = _labelled(lines, 1)
    raw = uuid_bytes(text)
    if raw is None:
        raise _Wrong("IllegalArgumentException", f"{text!r} is no topic id")
    if not any(raw):
        raise _Wrong("IOException", "the topic id is zero", is_io=True)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes | None:
    """Return the 16 bytes of an id; None if Kafka reads none in the text. Source: Kafka ``Uuid.fromString``."""
    return base64.urlsafe_b64decode(text[:_UUID_CHARS] + "==") if _UUID.fullmatch(text) else None


def _labelled(lines: list[str], place: int) -> str:
    if place >= len(lines):
        raise _Wrong("NullPointerException", f"line {place + 1} is missing")
    parts = _COLON.split(lines[place])
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    if len(parts) != 2:
        raise _Wrong("IOException", f"line {place + 1} is {lines[place]!r}", is_io=True)
    return parts[1]


def _read_checkpoint(
    data: bytes | None, fields: int, take: Callable[[list[str]], None], release: Release
) -> KafkaFailure | None:
    try:
        for line in _entries(data or b""):
            parts = _BLANKS.split(line.rstrip(" \t\n\x0b\f\r")) if line.strip(" \t\n\x0b\f\r") else [line]
            if len(parts) != fields:
                return KafkaFailure("IOException", f"malformed line {line!r}", is_io=True)
            take(parts)
        _check_count(data or b"")
    except _Wrong as wrong:
        if release.major <= _OLD_MAJOR and not wrong.failure.is_io:  # Kafka 2.8 says "malformed" of each wrong number
            return KafkaFailure("IOException", wrong.failure.cause, is_io=True)
        return wrong.failure
    return None


def _entries(data: bytes) -> list[str]:
    lines = _lines(data)
    if not lines:
        return []
    if not _is_integer(lines[0], 32):
        raise _Wrong("IOException", f"malformed line {lines[0]!r}", is_io=True)
    if int(lines[0]) != 0:
        raise _Wrong("IOException", f"version {lines[0]}", is_io=True)
    if len(lines) == 1:
        return []
    if not _is_integer(lines[1], 32):
        raise _Wrong("IOException", f"malformed line {lines[1]!r}", is_io=True)
    if int(lines[1]) < 0:
        raise _Wrong("IllegalArgumentException", f"{lines[1]} entries")
    if int(lines[1]) > _ENTRIES_MAX:
        raise _Wrong("OutOfMemoryError", f"{lines[1]} entries")
    return lines[2:]


def _check_count(data: bytes) -> None:
    lines = _lines(data)
    if len(lines) > 1 and int(lines[1]) != len(lines) - 2:
        cause = f"{lines[1]} entries are stated, and {len(lines) - 2} are there"
        raise _Wrong("IOException", cause, is_io=True)


def _lines(data: bytes) -> list[str]:
    try:
        lines = _LINE_END.split(data.decode())
    except UnicodeDecodeError:
        raise _Wrong("MalformedInputException", "not UTF-8", is_io=True) from None
    return lines if lines[-1] else lines[:-1]


def _is_integer(text: str, bits: int) -> bool:
    return bool(_INTEGER.fullmatch(text)) and len(text) <= bits and -(1 << bits - 1) <= int(text) < 1 << bits - 1


def _integer(text: str, bits: int) -> int:
    if not _is_integer(text, bits):
        raise _Wrong("NumberFormatException", f"{text[:40]!r} is no number")
    return int(text)
