"""A partition after a round, as files and as Kafka reads it; two of them are compared in everything they hold."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from cleaner import Cleaner
from policies import Request
from policies.config_layers import ConfigLayers
from policies.config_sources import ConfigSources, Said
from policies.plan import PartitionPlan
from storage.names import TopicPartition
from tests.interop.referee import TALLY, Config, Referee
from tests.interop.verdicts import Batch, Log, Segment

PARTITION: Final = TopicPartition("random", 0)
# The log start is compared as Kafka finds it: it writes that checkpoint once a minute.
LOG_DIR_FILES: Final = (
    "cleaner-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)


@dataclass(frozen=True, slots=True)
class File:
    """One file, as it was before Kafka opened the log."""

    content: bytes
    mtime_ms: int
    inode: int


@dataclass(frozen=True, slots=True)
class Side:
    """A partition after a round."""

    files: Mapping[str, File]
    checkpoints: Mapping[str, frozenset[str]]
    """The partition's lines."""
    log: Log


def partition_dir(log_dir: Path) -> Path:
    """Where the partition lies in it."""
    return log_dir / str(PARTITION)


def copy(log_dir: Path, name: str) -> Path:
    """A copy beside it, file times kept."""
    target = log_dir.with_name(name)
    shutil.rmtree(target, ignore_errors=True)
    return shutil.copytree(log_dir, target)


def files_of(directory: Path) -> dict[str, File]:
    """All files of a directory, by name."""
    found = {}
    for path in directory.iterdir():
        status = path.stat()
        found[path.name] = File(path.read_bytes(), status.st_mtime_ns // 1_000_000, status.st_ino)
    return found


def side(referee: Referee, directory: Path, now_ms: int, config: Config) -> Side:
    """Take the files as they are, then let Kafka open and read the partition as after a clean shutdown."""
    files = files_of(directory)
    topic, _, partition = directory.name.rpartition("-")
    checkpoints = {name: _lines(directory.with_name(name), f"{topic} {partition} ") for name in LOG_DIR_FILES}
    (log,) = referee.read([directory], now_ms=now_ms, checkpoints=True, config=config)
    return Side(files, checkpoints, log)


def untouched(before: Mapping[str, File], after: Mapping[str, File]) -> frozenset[str]:
    """Files that a round left as they were: it writes new ones and renames them, and never changes one in place."""
    return frozenset(name for name in after if name in before and before[name].inode == after[name].inode)


def clean_with_ours(log_dir: Path, config: Config, now_ms: int) -> PartitionPlan:
    """One run of our engine; gives what it planned."""
    overrides = {key: Said(str(value), "the test") for key, value in config.items()}
    cleaner = Cleaner([log_dir], ConfigLayers.read(ConfigSources(overrides=overrides)))
    plan, outcome = cleaner.clean(Request(now_ms, confirmed=True), delete_delay_ms=0)
    assert not plan.failures
    assert not outcome.errors
    assert not [result.error for result in outcome.results.values() if result.error]
    return next(found for found in plan.partitions if found.facts.topic_partition == PARTITION)


def differences(kafka: Side, ours: Side, as_before: frozenset[str]) -> Iterator[str]:
    """In what our result differs from Kafka's.

    Args:
        kafka: cleaned by Kafka.
        ours: cleaned by us.
        as_before: ``.log`` files that our round left, since they lose nothing: Kafka writes them anew with the same
            bytes, and with index entries that need not lie where the original ones do.
    """
    TALLY.compared += 1
    TALLY.batches += sum(1 for _ in ours.log.batches())
    yield from _of_values("log", _without_segments(kafka.log), _without_segments(ours.log))
    yield from _of_values("checkpoint", kafka.checkpoints, ours.checkpoints)
    yield from _of_values("set of files", _names(kafka), _names(ours))
    for name in kafka.files.keys() & ours.files.keys():
        yield from _of_files(name, kafka, ours, as_before)
    for theirs, own in zip(kafka.log.segments, ours.log.segments, strict=False):
        yield from _of_segments(theirs, own)


def _lines(path: Path, beginning: str) -> frozenset[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return frozenset(line for line in lines if line.startswith(beginning))


def _names(side: Side) -> dict[str, None]:
    """Kafka makes the indexes of an empty active segment when they are first used."""
    names = {name for name in side.files if not name.startswith(f"{side.log.segments[-1].base_offset:020}")}
    return dict.fromkeys(sorted(names))


def _without_segments(log: Log) -> dict[str, Any]:
    return asdict(replace(log, dir="", segments=[]))


def _of_files(name: str, kafka: Side, ours: Side, as_before: frozenset[str]) -> Iterator[str]:
    """Bytes where no compressor had a say, and the time of the files that retention may go by."""
    theirs, own = kafka.files[name], ours.files[name]
    stem, _, suffix = name.rpartition(".")
    is_plain = all(_is_plain(side.log, stem) for side in (kafka, ours))
    if suffix in ("index", "timeindex"):
        is_compared = is_plain and f"{stem}.log" not in as_before
    else:
        is_compared = suffix != "log" or is_plain
    if is_compared and theirs.content != own.content:
        yield f"{name}: {len(own.content)} bytes differ from Kafka's {len(theirs.content)}"
    if own.content and suffix == "log" and theirs.mtime_ms != own.mtime_ms:
        yield f"{name}: file time {own.mtime_ms}, Kafka's {theirs.mtime_ms}"


def _is_plain(log: Log, stem: str) -> bool:
    return all(
        batch.codec == "none"
        for segment in log.segments
        if f"{segment.base_offset:020}" == stem
        for batch in segment.batches
    )


def _of_segments(kafka: Segment, ours: Segment) -> Iterator[str]:
    name = f"segment {kafka.base_offset}"
    yield from _of_values(name, _header(kafka), _header(ours))
    yield from _of_values(f"{name}, batches", _by_offset(kafka), _by_offset(ours))


def _header(segment: Segment) -> dict[str, Any]:
    """Without its size, which is the compressor's; an empty one's largest timestamp is the time of its file."""
    timestamp = segment.largest_timestamp if segment.size_bytes else 0
    return asdict(replace(segment, size_bytes=0, largest_timestamp=timestamp, batches=[]))


def _by_offset(segment: Segment) -> dict[int, Batch]:
    """Without a batch's place and bytes, which depend on the compressor; all else does not."""
    return {batch.base_offset: replace(batch, position=0, size_bytes=0, crc=0) for batch in segment.batches}


def _of_values(what: str, kafka: Mapping[Any, Any], ours: Mapping[Any, Any]) -> Iterator[str]:
    for key in [*kafka, *(key for key in ours if key not in kafka)]:
        if kafka.get(key, "absent") != ours.get(key, "absent"):
            yield f"{what} {key}:\n  kafka {kafka.get(key, 'absent')}\n  ours  {ours.get(key, 'absent')}"
