"""A partition after a round, as files and as Kafka reads it; two of them are compared in everything they hold."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from cleaner import Cleaner
from cleaner.engine.means import Means
from policies import Request
from policies.config.config_layers import ConfigLayers, Configured
from policies.config.config_sources import ConfigSources, Said
from policies.plan import PartitionPlan
from storage.names import TopicPartition
from tests.batches import iter_batches
from tests.interop.kafka_jars import judging_version, release
from tests.interop.referee import Config, Referee
from tests.interop.tally import TALLY
from tests.interop.verdicts import Batch, Log, Segment

PARTITION: Final = TopicPartition("random", 0)
BY_HIGH_WATERMARK: Final = (4, 4, 0)
"""The first release that keeps an empty batch at the high watermark, and not at the end of the round."""
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


def clean_with_ours(log_dir: Path, config: Config, now_ms: int, kafka: str | None = None) -> PartitionPlan:
    """One run of our engine; gives what it planned.

    Args:
        log_dir: is changed.
        config: of the topic.
        now_ms: the moment of the run.
        kafka: the release beside which we clean; by default the one that judges us.
    """
    means = Means(keeps_round_end=release(kafka or judging_version()) < BY_HIGH_WATERMARK)
    overrides = {key: Said(str(value), "the test") for key, value in config.items()}
    cleaner = Cleaner(Configured((log_dir,), ConfigLayers.read(ConfigSources(overrides=overrides))), means)
    plan, outcome = cleaner.clean(Request(now_ms, confirmed=True, delete_delay_ms=0))
    assert not plan.failures
    assert not outcome.errors
    assert not [result.error for result in outcome.results.values() if result.error]
    return next(found for found in plan.partitions if found.facts.topic_partition == PARTITION)


def reopened_after_a_crash(
    referee: Referee, log_dir: Path, ours: Side, config: Config, now_ms: int, as_before: frozenset[str]
) -> None:
    """Kafka recovers every segment of our result: it truncates nothing, and rebuilds the indexes that we wrote."""
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log,) = referee.read(
        [partition_dir(log_dir)],
        now_ms=now_ms,
        shutdown="auto",
        checkpoints=True,
        batches_only=True,  # each of them with its CRC
        config=config,
    )
    recovered, left = ([_without_records(one, as_before) for one in of.segments] for of in (log, ours.log))
    assert recovered == left
    assert (log.log_start_offset, log.log_end_offset) == (ours.log.log_start_offset, ours.log.log_end_offset)
    rebuilt = files_of(partition_dir(log_dir))
    for path in (Path(name) for name in ours.files if name.endswith(".log") and name not in as_before):
        for companion in (path.with_suffix(".index").name, path.with_suffix(".timeindex").name):
            assert rebuilt[companion].content == ours.files[companion].content, companion


def written_otherwise(ours: Side) -> frozenset[str]:
    """Names of the files that Kafka 2.8 writes with other bytes.

    It stamps no delete horizon, and an index has an entry for what it wrote at once, not one for each batch.
    """
    indexes = {name for name in ours.files if name.endswith("index")}
    logs = {name for name, file in ours.files.items() if name.endswith(".log") and _has_horizon(file.content)}
    return frozenset(indexes | logs)


def differences(
    kafka: Side, ours: Side, as_before: frozenset[str], other_bytes: frozenset[str] = frozenset()
) -> Iterator[str]:
    """In what our result differs from Kafka's.

    Args:
        kafka: cleaned by Kafka.
        ours: cleaned by us.
        as_before: ``.log`` files that our round left, since they lose nothing: Kafka writes them anew with the same
            bytes, and with index entries that need not lie where the original ones do.
        other_bytes: names of files of which this version of Kafka writes other bytes.
    """
    TALLY.compared += 1
    TALLY.batches += sum(1 for _ in ours.log.batches())
    yield from _of_values("log", _without_segments(kafka.log), _without_segments(ours.log))
    yield from _of_values("checkpoint", kafka.checkpoints, ours.checkpoints)
    yield from _of_values("set of files", _names(kafka), _names(ours))
    for name in kafka.files.keys() & ours.files.keys():
        yield from _of_files(name, kafka, ours, as_before, compares_bytes=name not in other_bytes)
    for theirs, own in zip(kafka.log.segments, ours.log.segments, strict=False):
        yield from _of_segments(theirs, own, as_before)


def _without_records(segment: Segment, as_before: frozenset[str]) -> Segment:
    """Batches alone; the transaction index is rebuilt from what is left of the transactions."""
    batches = [replace(batch, records=[]) for batch in segment.batches]
    timestamp = _largest_timestamp(segment, as_before)
    return replace(segment, largest_timestamp=timestamp, aborted_txns=(), batches=batches)


def _largest_timestamp(segment: Segment, as_before: frozenset[str]) -> int:
    """Return the largest timestamp as retention sees it; 0 if it does not come from the segment's content.

    An empty segment has the time of its file. One that is left keeps its time index: for messages of version 0, which
    have no timestamp, the old Kafka writes there those that newer clients gave them, and rebuilds the index without.
    """
    is_left = f"{segment.base_offset:020}.log" in as_before
    if not segment.batches or (is_left and any(batch.magic == 0 for batch in segment.batches)):
        return 0
    return segment.largest_timestamp


def _has_horizon(segment: bytes) -> bool:
    return any(batch.header.has_delete_horizon for batch in iter_batches(segment, Path("ours")))


def _lines(path: Path, beginning: str) -> frozenset[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return frozenset(line for line in lines if line.startswith(beginning))


def _names(side: Side) -> dict[str, None]:
    """Kafka makes the indexes of an empty active segment when they are first used."""
    names = {name for name in side.files if not name.startswith(f"{side.log.segments[-1].base_offset:020}")}
    return dict.fromkeys(sorted(names))


def _without_segments(log: Log) -> dict[str, Any]:
    return asdict(replace(log, dir="", segments=[]))


def _of_files(name: str, kafka: Side, ours: Side, as_before: frozenset[str], *, compares_bytes: bool) -> Iterator[str]:
    """Bytes where no compressor had a say, and the time of the files that retention may go by."""
    theirs, own = kafka.files[name], ours.files[name]
    stem, _, suffix = name.rpartition(".")
    is_plain = all(_is_plain(side.log, stem) for side in (kafka, ours))
    if suffix in ("index", "timeindex"):
        is_compared = is_plain and f"{stem}.log" not in as_before
    else:
        is_compared = suffix != "log" or is_plain
    if compares_bytes and is_compared and theirs.content != own.content:
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


def _of_segments(kafka: Segment, ours: Segment, as_before: frozenset[str]) -> Iterator[str]:
    name = f"segment {kafka.base_offset}"
    yield from _of_values(name, _header(kafka, as_before), _header(ours, as_before))
    yield from _of_values(f"{name}, batches", _by_offset(kafka), _by_offset(ours))


def _header(segment: Segment, as_before: frozenset[str]) -> dict[str, Any]:
    """Without its size, which is the compressor's."""
    timestamp = _largest_timestamp(segment, as_before)
    return asdict(replace(segment, size_bytes=0, largest_timestamp=timestamp, batches=[]))


def _by_offset(segment: Segment) -> dict[int, Batch]:
    """Without a batch's place and bytes, which depend on the compressor; all else does not."""
    return {batch.base_offset: replace(batch, position=0, size_bytes=0, crc=0) for batch in segment.batches}


def _of_values(what: str, kafka: Mapping[Any, Any], ours: Mapping[Any, Any]) -> Iterator[str]:
    for key in [*kafka, *(key for key in ours if key not in kafka)]:
        if kafka.get(key, "absent") != ours.get(key, "absent"):
            yield f"{what} {key}:\n  kafka {kafka.get(key, 'absent')}\n  ours  {ours.get(key, 'absent')}"
