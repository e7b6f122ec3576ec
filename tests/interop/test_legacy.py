"""Logs of formats v0 and v1, cleaned by Kafka on one copy and by us on another.

Kafka 4.0 and later write version 2 whatever they keep: with ``compaction.upgrade.format`` so do we, and all is equal.
Without it the same records stay in the format they had, and all is equal to what Kafka 2.8 leaves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.interop.referee import Config, Referee
from tests.interop.sides import (
    Side,
    clean_with_ours,
    copy,
    differences,
    files_of,
    partition_dir,
    side,
    untouched,
    written_otherwise,
)
from tests.interop.verdicts import Log
from tests.legacy_logs import legacy_log_dir
from tests.partition_dirs import DAY_MS, NOW_MS

pytestmark = pytest.mark.kafka

LOGS: Final = 30
CONFIG: Final[Config] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": DAY_MS,
    "segment.bytes": 1 << 20,
    "index.interval.bytes": 200,
}
UPGRADING: Final[Config] = {**CONFIG, "compaction.upgrade.format": "true"}
KEEPING: Final[Config] = {**CONFIG, "delete.retention.ms": 1_000 * DAY_MS}
"""No tombstone goes: those of v2 go by other rules in Kafka 2.8."""


def drawn(referee: Referee, tmp_path: Path, seed: int) -> Path:
    """A log dir with one partition, as a broker leaves it; every other one has a clean section."""
    log_dir = tmp_path / "log"
    made = legacy_log_dir(log_dir, seed)
    bases = sorted(int(path.stem) for path in made.path.glob("*.log"))
    if seed % 2:
        checkpoint = f"0\n1\nrandom 0 {bases[2]}\n"
        (log_dir / "cleaner-offset-checkpoint").write_text(checkpoint)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n0\n")
    (log_dir / "recovery-point-offset-checkpoint").write_text(f"0\n1\nrandom 0 {made.end_offset}\n")
    referee.read([made.path], now_ms=NOW_MS, checkpoints=True, batches_only=True, config=CONFIG)
    return log_dir


def cleaned_by_kafka(referee: Referee, log_dir: Path, config: Config = CONFIG) -> Side:
    theirs = copy(log_dir, "kafka")
    (found,) = referee.clean([partition_dir(theirs)], config=config, now_ms=NOW_MS, checkpoints=True)
    assert found.end_offset is not None
    return side(referee, partition_dir(theirs), NOW_MS, CONFIG)


def cleaned_by_us(referee: Referee, log_dir: Path, config: Config) -> tuple[Side, frozenset[str]]:
    """What we leave, and the names of the files that are as they were."""
    own = copy(log_dir, "ours")
    before = files_of(partition_dir(own))
    clean_with_ours(own, config, NOW_MS)
    as_before = untouched(before, files_of(partition_dir(own)))
    return side(referee, partition_dir(own), NOW_MS, CONFIG), as_before


def formats(log: Log) -> Counter[tuple[int, str]]:
    return Counter((batch.magic, batch.codec) for batch in log.batches())


@pytest.mark.parametrize("seed", range(LOGS))
def test_upgraded_log_equals_kafkas(referee: Referee, tmp_path: Path, seed: int) -> None:
    log_dir = drawn(referee, tmp_path, seed)
    kafka = cleaned_by_kafka(referee, log_dir)
    ours, as_before = cleaned_by_us(referee, log_dir, UPGRADING)
    assert {batch.magic for batch in ours.log.batches()} == {2}
    told = list(differences(kafka, ours, as_before))
    assert not told, "\n".join(told)


@pytest.mark.parametrize("seed", range(LOGS))
def test_log_that_keeps_its_format_has_kafkas_records(referee: Referee, tmp_path: Path, seed: int) -> None:
    log_dir = drawn(referee, tmp_path, seed)
    (before,) = referee.read([partition_dir(copy(log_dir, "before"))], now_ms=NOW_MS, config=CONFIG)
    kafka = cleaned_by_kafka(referee, log_dir)
    ours, _ = cleaned_by_us(referee, log_dir, CONFIG)
    without_time = {record.offset for batch in ours.log.batches() if batch.magic == 0 for record in batch.records}
    assert list(ours.log.records()) == [
        replace(record, timestamp=-1) if record.offset in without_time else record for record in kafka.log.records()
    ]
    assert {magic for magic, _ in formats(before)} > {2}
    assert not formats(ours.log) - formats(before)


@pytest.mark.parametrize("seed", range(LOGS // 2))
def test_log_that_keeps_its_format_equals_that_of_a_kafka_that_did(
    old_referee: Referee, tmp_path: Path, seed: int
) -> None:
    log_dir = drawn(old_referee, tmp_path, seed)
    kafka = cleaned_by_kafka(old_referee, log_dir, KEEPING)
    ours, as_before = cleaned_by_us(old_referee, log_dir, KEEPING)
    told = list(differences(kafka, ours, as_before, written_otherwise(ours)))
    assert not told, "\n".join(told)


def test_upgraded_log_reopens_after_a_crash(referee: Referee, tmp_path: Path) -> None:
    log_dir = drawn(referee, tmp_path, seed=0)
    ours, _ = cleaned_by_us(referee, log_dir, UPGRADING)
    opened = log_dir.with_name("ours")
    (opened / "recovery-point-offset-checkpoint").unlink()
    (log,) = referee.read([partition_dir(opened)], shutdown="unclean", checkpoints=True, config=CONFIG)
    assert log.segments == ours.log.segments
