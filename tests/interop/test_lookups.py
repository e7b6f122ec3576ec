"""Lookups by offset and by time, against those of Kafka's ``UnifiedLog`` over the same files."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from cleaner.engine.lookup import LogPlace, LookedUp, LookupTarget, look_up
from cleaner.report.lookups import range_error
from storage.log.search import LookupOutcome, StepBasis
from storage.log_dir import LogDir
from storage.names import LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.scan.partitions import FoundPartition
from tests.conftest import Samples
from tests.interop.referee import Config, Referee
from tests.interop.sides import copy, partition_dir
from tests.interop.verdicts import LookedUp as Verdict
from tests.legacy_logs import legacy_log_dir
from tests.partition_dirs import records_in
from tests.sampled import some

pytestmark = pytest.mark.kafka

LOGS: Final = 24
LEGACY_LOGS: Final = 8
ASKED: Final = 120
"""So many offsets, and as many times, a plain run asks of each log for."""
PLACES: Final = {-1: LogPlace.LATEST, -2: LogPlace.EARLIEST, -3: LogPlace.NEWEST}
SMALL: Final[dict[str, int]] = {"index.interval.bytes": 200, "segment.bytes": 1 << 14}
SEEN: Final[Counter[str]] = Counter()
"""What the logs had of all that makes a difference."""


@pytest.mark.parametrize("seed", range(LOGS))
def test_random_log(referee: Referee, tmp_path: Path, seed: int) -> None:
    random, log_dir = Random(seed), tmp_path / "log"
    partition_dir(log_dir).mkdir(parents=True)
    config = {**SMALL, "message.timestamp.type": random.choice(("CreateTime", "LogAppendTime"))}
    (generated,) = referee.workload([partition_dir(log_dir)], seed=seed, config=config, checkpoints=True, unkeyed=True)
    if seed % 3:
        cleaning: Config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", **SMALL}
        referee.clean([partition_dir(log_dir)], config=cleaning, now_ms=generated.now_ms, checkpoints=True)
    if seed % 4 == 1:
        start_in_the_middle(log_dir)
    if seed % 4 == 2:
        without_indexes(log_dir, random)
    compare(referee, log_dir)


@pytest.mark.parametrize("seed", range(LEGACY_LOGS))
def test_log_of_old_formats(referee: Referee, tmp_path: Path, seed: int) -> None:
    log_dir = tmp_path / "log"
    made = legacy_log_dir(log_dir, seed)
    (log_dir / "recovery-point-offset-checkpoint").write_text(f"0\n1\nrandom 0 {made.end_offset}\n")
    if seed % 2:
        referee.read([made.path], checkpoints=True, batches_only=True, config=SMALL)
        for index in made.path.glob("*.index"):
            index.unlink()
        referee.read([made.path], checkpoints=True, batches_only=True, config=SMALL)  # makes indexes with entries
    compare(referee, log_dir)


@pytest.mark.parametrize("stage", ["after", "after2"])
def test_logs_of_a_real_broker(referee: Referee, samples: Samples, tmp_path: Path, stage: str) -> None:
    compare_all(referee, samples.root / stage, tmp_path / "kafka")


@pytest.mark.parametrize("stage", ["before", "after"])
def test_logs_of_an_old_broker(referee: Referee, old_samples: Samples, tmp_path: Path, stage: str) -> None:
    compare_all(referee, old_samples.root / stage, tmp_path / "kafka")


@pytest.mark.parametrize("seed", [0])
def test_everything_occurred(seed: int) -> None:
    if SEEN["logs"] < LOGS + LEGACY_LOGS:
        pytest.skip("only some of the logs were compared")
    wanted = {
        *LookupOutcome,
        StepBasis.ENTRY,
        StepBasis.NO_ENTRY,
        StepBasis.NO_INDEX,
        StepBasis.FILE_TIME,
        "gap",
        "empty active",
    }
    assert {one for one in wanted if not SEEN[one]} == set()


def start_in_the_middle(log_dir: Path) -> None:
    """Move the log start offset into a batch, as DeleteRecords does."""
    offsets = [record.offset for record in records_in(partition_dir(log_dir))]
    (log_dir / LOG_START_OFFSET_CHECKPOINT).write_text(f"0\n1\nrandom 0 {offsets[len(offsets) // 3] + 1}\n")


def without_indexes(log_dir: Path, random: Random) -> None:
    """Remove some index files: Kafka makes them anew when it opens the log."""
    for path in sorted(partition_dir(log_dir).glob("*index")):
        if path.suffix != ".txnindex" and random.random() < 0.4:
            path.unlink()


def compare(referee: Referee, log_dir: Path) -> None:
    """Ask both for every offset, every timestamp and what lies beside it; a plain run for some of them."""
    directory = partition_dir(log_dir)
    records = records_in(directory)
    start = LogDir(log_dir).offsets(LOG_START_OFFSET_CHECKPOINT).get(TopicPartition("random", 0), 0)
    end = records[-1].offset
    offsets = range(max(min(start, records[0].offset) - 2, 0), end + 5)
    offsets = some(offsets, ASKED, always=(*offsets[:3], *offsets[-5:]))
    times_ms = sorted({r.timestamp_ms + by for r in records if r.timestamp_ms >= 0 for by in (-1, 0, 1)})
    times_ms = some(times_ms, ASKED, always=(*times_ms[:2], *times_ms[-2:]))
    times_ms += [0, times_ms[-1] + 10**12] if times_ms else [0]
    times_ms += [int(path.stat().st_mtime * 1000) for path in directory.glob("*.log")]
    found = FoundPartition(TopicPartition("random", 0), directory, start)
    ours = [look_up(found, target) for target in targets(offsets, [*times_ms, *PLACES])]
    theirs = referee.lookup(partition_dir(copy(log_dir, "kafka")), offsets, [*times_ms, *PLACES], config=SMALL)
    SEEN["logs"] += 1
    SEEN["empty active"] += max(directory.glob("*.log")).stat().st_size == 0
    for own, verdict in zip(ours, theirs, strict=True):
        assert answered(own) == judged(verdict), f"{verdict}\n{own}"
        note(own)
    shutil.rmtree(log_dir.with_name("kafka"))


def compare_all(referee: Referee, log_dir: Path, theirs: Path) -> None:
    """Ask both for some offsets and times of each partition of a log dir."""
    shutil.copytree(log_dir, theirs)
    starts, compared = LogDir(log_dir).offsets(LOG_START_OFFSET_CHECKPOINT), 0
    for name, directory in LogDir(log_dir).partitions():
        if any(path.stat().st_blocks == 0 < path.stat().st_size for path in directory.glob("*.log")):
            continue  # the archive holds only the sizes of these
        random, records, start = Random(str(name)), records_in(directory), starts.get(name, 0)
        end = records[-1].offset + 1 if records else start
        offsets = sorted({0, max(start - 1, 0), start, end, end + 1, *(random.randrange(end + 1) for _ in range(40))})
        drawn = random.sample(records, min(20, len(records)))
        times_ms = sorted({0, *(r.timestamp_ms + by for r in drawn for by in (-1, 0, 1) if r.timestamp_ms >= 0)})
        found = FoundPartition(name, directory, start)
        ours = [look_up(found, target) for target in targets(offsets, [*times_ms, *PLACES])]
        for own, verdict in zip(ours, referee.lookup(theirs / str(name), offsets, [*times_ms, *PLACES]), strict=True):
            assert answered(own) == judged(verdict), f"{verdict}\n{own}"
            note(own)
        compared += 1
    assert compared


def targets(offsets: Iterable[int], times_ms: list[int]) -> Iterator[LookupTarget]:
    yield from (LookupTarget(offset=offset) for offset in offsets)
    yield from (LookupTarget(place=PLACES[t]) if t in PLACES else LookupTarget(timestamp_ms=t) for t in times_ms)


def answered(one: LookedUp) -> tuple[object, ...]:
    """Our answer, as a broker would put it."""
    found = one.found
    if one.target.offset is not None:
        batch = found.batch
        place = (batch.base_offset, batch.segment_base_offset, batch.position) if batch else (None, None, None)
        return (*place, range_error(one))
    if found.outcome in (LookupOutcome.LOG_START, LookupOutcome.LOG_END):
        return found.log_start_offset if found.outcome is LookupOutcome.LOG_START else found.log_end_offset, -1
    return (found.record.offset, found.record.timestamp_ms) if found.record else (None, None)


def judged(verdict: Verdict) -> tuple[object, ...]:
    if verdict.by == "offset":
        return verdict.offset, verdict.segment, verdict.position, verdict.error
    return verdict.offset, verdict.timestamp


def note(one: LookedUp) -> None:
    found = one.found
    SEEN.update([found.outcome, *(step.source for step in found.steps)])
    record, offset = found.record, one.target.offset
    SEEN["gap"] += offset is not None and record is not None and record.offset > offset
    steps_are_true(one)


def steps_are_true(one: LookedUp) -> None:
    """Each entry and each batch that a step names is there, byte for byte."""
    for step in one.found.steps:
        if step.source is StepBasis.ENTRY and step.position is not None:
            is_time = step.path.suffix == ".timeindex"
            size = 12 if is_time else 8
            entry = step.path.read_bytes()[step.position : step.position + size]
            assert step.position == (step.entry or 0) * size
            last = int.from_bytes(entry[-4:], "big")
            assert (step.base_offset + last if is_time else last) == (step.offset if is_time else step.leads_to)
