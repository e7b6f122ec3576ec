"""Where two sides of a life differ: in an answer, in what they say of themselves, in a file."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from storage.errors import LogCleanerError
from storage.records import Batch, LegacyBatch
from tests.batches import iter_batches
from tests.interop.lives.steps import Answer, Step

_RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_INDEX_ENTRY: Final = struct.Struct(">qi")
_SHOWN: Final = 6

STUMBLES: Final = (
    "ArithmeticException",
    "BufferUnderflowException",
    "IllegalArgumentException",
    "IllegalStateException",
    "IndexOutOfBoundsException",
    "KafkaException",
    "NullPointerException",
    "OutOfMemoryError",
    "SnappyError",
)
"""Exceptions that Kafka did not mean to throw: where it stumbles over the input, ours refuses it by its own name.

Kafka may have noted a leader epoch or begun a segment by then.
"""


def answer_differences(step: Step, kafka: Answer, ours: Answer) -> Iterator[str]:
    """Say where two answers differ."""
    if kafka.error == "InvalidRecordException" and ours.message.startswith("UndecompressableRecords"):
        return  # Kafka reads the records as they are decompressed, and finds what is wrong with them first
    if kafka.error != ours.error:
        yield f"error: kafka {kafka.error} ({kafka.message}), ours {ours.error} ({ours.message})"
        return
    theirs: Mapping[str, Any] = kafka.result or {}
    own: Mapping[str, Any] = ours.result or {}
    for name, value in own.items():
        expected = theirs.get(name)
        if expected != value:
            yield f"{step.kind} {name}: kafka {expected}, ours {value}"
    for name, value in ours.state.items():
        pair = kafka.state.get(name), value
        if name == "epochs":
            pair = _that_wrote(pair[0], ours.state["log_end_offset"]), _that_wrote(value, ours.state["log_end_offset"])
        if pair[0] != pair[1]:
            yield from _value_differences(f"state {name}", *pair)


def _that_wrote(epochs: Any, log_end_offset: int) -> list[Any]:
    """The epochs below the log end: a start of Kafka forgets one that begins there, ours with the first append."""
    return [one for one in epochs if one[1] < log_end_offset]


def _value_differences(what: str, kafka: Any, ours: Any) -> Iterator[str]:
    if isinstance(kafka, list) and isinstance(ours, list):
        theirs = [one for one in kafka if one not in ours]
        own = [one for one in ours if one not in kafka]
        yield f"{what}:\n    kafka alone {theirs}\n    ours alone  {own}"
    else:
        yield f"{what}: kafka {kafka}, ours {ours}"


def file_differences(kafka: Path, ours: Path, *, recompresses: bool, strays: Collection[str] = ()) -> Iterator[str]:
    """Say where the files of two partition directories differ.

    Args:
        kafka: the directory that Kafka's log has.
        ours: the directory that our log has.
        recompresses: compare the content of compressed records, not their bytes, nor the positions that depend on them.
        strays: files that one side may lack.
    """
    theirs, own = _files(kafka), _files(ours)
    lacking = theirs.keys() - own.keys() - set(strays)
    if missing := sorted(name for name in lacking if not _is_made_by_looking(name, theirs)):
        yield f"files that only kafka has: {missing}"
    if additional := sorted(own.keys() - theirs.keys() - set(strays)):
        yield f"files that only ours has: {additional}"
    for name in sorted(theirs.keys() & own.keys()):
        if theirs[name] != own[name] and not (recompresses and _says_the_same(name, theirs[name], own[name])):
            yield f"{name}: {_file_difference(name, theirs[name], own[name])}"


def checkpoint_differences(kafka: Path, ours: Path) -> Iterator[str]:
    """Say where the recovery points that a flush wrote differ."""
    theirs, own = (_content(directory.parent / _RECOVERY_POINTS) for directory in (kafka, ours))
    if theirs != own:
        yield f"{_RECOVERY_POINTS}: kafka {theirs!r}, ours {own!r}"


def decoded(data: bytes) -> list[Any]:
    """What a ``.log`` says, without what hangs on how its records are compressed."""
    told: list[Any] = []
    found = iter_batches(data, Path("compared"))
    try:
        for batch in found:
            header: Any = batch.header
            told.append(header._replace(crc=0, batch_length=0) if isinstance(batch, Batch) else tuple(header)[:1])
            told.append(list(batch.records()))
    except LogCleanerError as error:
        told.append(type(error).__name__)
    told.append(data[found.position :] if not told else len(data) - found.position)
    return told


def _says_the_same(name: str, kafka: bytes, ours: bytes) -> bool:
    if ".log" in name:
        return decoded(kafka) == decoded(ours)
    if ".index" in name:
        return [one for one, _ in _entries(kafka)] == [one for one, _ in _entries(ours)]
    return False


def _is_made_by_looking(name: str, kafka: Mapping[str, bytes]) -> bool:
    """Whether a file is an index of an empty segment: Kafka makes it with the first look, ours does not."""
    stem, _, suffix = name.partition(".")
    kind, _, state = suffix.partition(".")
    log = f"{stem}.log.{state}" if state else f"{stem}.log"
    return kind in ("index", "timeindex") and not kafka.get(log, b"1").rstrip(b"\0")


def _entries(index: bytes) -> list[tuple[int, ...]]:
    return list(_INDEX_ENTRY.iter_unpack(index[: len(index) // 8 * 8]))


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def _content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _file_difference(name: str, kafka: bytes, ours: bytes) -> str:
    place = next((at for at, pair in enumerate(zip(kafka, ours, strict=False)) if pair[0] != pair[1]), None)
    where = "the longer one goes on" if place is None else f"first at byte {place}"
    told = f"\n    kafka {_told(name, kafka)}\n    ours  {_told(name, ours)}"
    return f"kafka {len(kafka)} bytes, ours {len(ours)}, {where}{told}"


def _told(name: str, content: bytes) -> str:
    if ".timeindex" in name:
        entries: list[Any] = list(_TIME_INDEX_ENTRY.iter_unpack(content[: len(content) // 12 * 12]))
        return f"{entries[:_SHOWN]}{'...' if len(entries) > _SHOWN else ''}"
    if ".index" in name:
        return f"{_entries(content)[:_SHOWN]}{'...' if len(content) > _SHOWN * 8 else ''}"
    if ".log" in name:
        return _headlines(content)
    if ".snapshot" in name:
        return content.hex(" ", 8)
    return repr(content[:300])


def _headlines(data: bytes) -> str:
    """The batches of a ``.log``, a few words each."""
    found, told = iter_batches(data, Path("shown")), []
    try:
        for batch in found:
            if isinstance(batch, LegacyBatch):
                told.append(f"legacy@{batch.position}")
            else:
                header = batch.header
                told.append(
                    f"{header.base_offset}-{header.last_offset}@{batch.position}"
                    f" attr {header.attributes} pid {header.producer_id}/{header.producer_epoch}/{header.base_sequence}"
                    f" epoch {header.partition_leader_epoch} max {header.max_timestamp_ms}"
                )
    except LogCleanerError as error:
        told.append(f"{type(error).__name__}: {error}")
    rest = f" + {len(data) - found.position} bytes"
    return "; ".join(told[-_SHOWN:]) + rest
