"""Logs that Kafka 2.8.2 wrote, in v0, v1 and v2: cleaned by it on one copy and by us on another, formats kept.

It knows no delete horizons: tombstones of every format go by the age of their segment. We stamp one into v2 batches, as
Kafka does since 3.1. So in half of the logs no tombstone is old enough to go, and in the other half v2 has none.

``LOGCLEANER_RANDOM_LOGS=5000`` compares more of them; a failing one comes back as ``-k 'equals_kafkas[17]'``.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.interop.kafka_jars import OLD
from tests.interop.referee import Config, Referee
from tests.interop.scenarios import ALL_CODECS, HOUR_MS, MINUTE_MS
from tests.interop.sides import (
    PARTITION,
    Side,
    clean_with_ours,
    copy,
    differences,
    files_of,
    partition_dir,
    reopened_after_a_crash,
    side,
    untouched,
    written_otherwise,
)
from tests.interop.tally import TALLY
from tests.interop.verdicts import Log, Round

pytestmark = pytest.mark.kafka

LOGS_IN_CI: Final = 24
LOGS: Final = int(os.environ.get("LOGCLEANER_RANDOM_LOGS", str(LOGS_IN_CI)))
DAY_MS: Final = 24 * HOUR_MS
LEGACY_CODECS: Final = ("none", "gzip", "snappy", "lz4")
VERSIONS: Final = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
"""``message.format.version`` by magic."""
SHAPES: Final[Counter[str]] = Counter()
"""How many rounds had what makes a round worth comparing."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Batches in one format, by clients of all formats."""

    magic: int
    codecs: tuple[str, ...]
    timestamp_type: str
    appends: int
    unkeyed: bool
    """Of v0 and v1 alone: in place of a last v2 batch that is dropped, Kafka now leaves an empty one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One round, and what is appended before it."""

    stretches: tuple[Stretch, ...]
    first_dirty: float | None
    """A share of the log, which the checkpoint is set to; None leaves it where it was."""


@dataclass(frozen=True, slots=True)
class Life:
    """What the seed decides."""

    seed: int
    sizes: Config
    cleaning: Config
    tombstones_go: bool
    age_step_ms: int
    """Between the file times of neighbouring segments."""
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, seed: int) -> Life:
        dice = random.Random(seed)
        segment_bytes = dice.randrange(6_000, 12_000)
        sizes = {"index.interval.bytes": dice.choice((0, 64, 512, 4_096))}
        tombstones_go = seed % 2 == 1
        cleaning = {
            **sizes,
            "cleanup.policy": "compact",
            "segment.bytes": segment_bytes * dice.choice((1, 2, 8)),
            "delete.retention.ms": dice.choice((0, DAY_MS)) if tombstones_go else 1_000 * DAY_MS,
            "min.cleanable.dirty.ratio": 0.0,
            "min.compaction.lag.ms": dice.choice((0, 0, 10 * MINUTE_MS)),
        }
        return cls(
            seed,
            {**sizes, "segment.bytes": segment_bytes},
            cleaning,
            tombstones_go,
            dice.choice((MINUTE_MS, 5 * HOUR_MS, DAY_MS)),
            tuple(_step(dice) for _ in range(dice.choice((2, 3)))),
        )


def _step(dice: random.Random) -> Step:
    stretches = tuple(_stretch(dice) for _ in range(dice.choice((1, 2, 3))))
    return Step(stretches, dice.random() if dice.random() < 0.3 else None)


def _stretch(dice: random.Random) -> Stretch:
    magic = dice.choice((0, 0, 1, 1, 2))
    codecs = ALL_CODECS if magic == 2 else LEGACY_CODECS
    return Stretch(
        magic,
        dice.choice((("none",), codecs)),
        dice.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        appends=dice.randrange(10, 50),
        unkeyed=magic < 2 and dice.random() < 0.3,
    )


@pytest.mark.parametrize("seed", range(LOGS))
def test_random_log_keeps_its_formats_and_equals_kafkas(old_referee: Referee, tmp_path: Path, seed: int) -> None:
    life = Life.of(seed)
    log_dir, now_ms = tmp_path / "round-0", 0
    log_dir.mkdir()
    for number, step in enumerate(life.steps):
        now_ms = appended(old_referee, log_dir, life, number, now_ms)
        place_first_dirty(log_dir, step.first_dirty)
        config = {**life.cleaning, "message.format.version": VERSIONS[step.stretches[-1].magic]}
        ours = cleaned_by_both(old_referee, log_dir, life, config, now_ms)
        log_dir = copy(ours, f"round-{number + 1}")
    shutil.rmtree(tmp_path)


def appended(referee: Referee, log_dir: Path, life: Life, number: int, now_ms: int) -> int:
    """Append what the round appends and set the files' times; gives the moment of the round."""
    for place, stretch in enumerate(life.steps[number].stretches):
        as_said = {
            "message.format.version": VERSIONS[stretch.magic],
            "message.timestamp.type": stretch.timestamp_type,
        }
        (generated,) = referee.workload(
            [partition_dir(log_dir)],
            seed=life.seed * 100 + number * 10 + place,
            config={**life.sizes, **as_said},
            now_ms=now_ms or None,
            checkpoints=True,
            steps=stretch.appends,
            codecs=stretch.codecs,
            unkeyed=stretch.unkeyed,
            tombstones=stretch.magic < 2 or not life.tombstones_go,
        )
        now_ms = generated.now_ms
    for age, path in enumerate(sorted(partition_dir(log_dir).glob("*.log"), reverse=True)):
        modified_ns = (now_ms - age * life.age_step_ms) * 1_000_000
        os.utime(path, ns=(modified_ns, modified_ns))
    return now_ms


def place_first_dirty(log_dir: Path, share: float | None) -> None:
    if share is not None:
        end = int((log_dir / "recovery-point-offset-checkpoint").read_text().split()[-1])
        first_dirty = f"{PARTITION.topic} {PARTITION.partition} {round(share * end)}"
        (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\n{first_dirty}\n")


def cleaned_by_both(referee: Referee, log_dir: Path, life: Life, config: Config, now_ms: int) -> Path:
    """One round by each, on copies; gives the log dir that ours left."""
    TALLY.rounds += 1
    # A starting broker takes away what is stray: then what is missing afterwards was taken away by the round.
    (before,) = referee.read([partition_dir(log_dir)], now_ms=now_ms, checkpoints=True, config=config)
    theirs, own = copy(log_dir, f"{log_dir.name}-kafka"), copy(log_dir, f"{log_dir.name}-ours")
    files = files_of(partition_dir(own))
    (found,) = referee.clean([partition_dir(theirs)], config=config, now_ms=now_ms, checkpoints=True)
    clean_with_ours(own, life.cleaning, now_ms, OLD)
    as_before = untouched(files, files_of(partition_dir(own)))
    opened = copy(own, f"{log_dir.name}-opened")
    kafka, ours = (side(referee, partition_dir(path), now_ms, config) for path in (theirs, opened))
    told = list(differences(kafka, ours, as_before, written_otherwise(ours)))
    assert not told, "\n".join(told)
    reopened_after_a_crash(referee, copy(own, f"{log_dir.name}-crashed"), ours, config, now_ms, as_before)
    SHAPES.update(shapes(before, found, ours, as_before))
    return own


def shapes(before: Log, found: Round, ours: Side, as_before: frozenset[str]) -> list[str]:
    """What the round had of all that can make a difference."""
    batches, records = list(ours.log.batches()), list(ours.log.records())
    offsets = {record.offset for record in records}
    latest = {record.key: record for record in before.records() if record.key is not None}.values()
    bases = {segment.base_offset for segment in before.segments}
    had = {
        "compared": True,
        "cleaned": found.end_offset is not None,
        "merged": len(ours.log.segments) < len(before.segments),
        "left as it was": any(name.endswith(".log") for name in as_before),
        "first dirty within a segment": found.first_dirty_offset not in bases,
        "unkeyed dropped": found.invalid_records > 0,
        "tombstone gone": any(record.value is None and record.offset not in offsets for record in latest),
        "tombstone left": any(record.value is None for record in records),
        "delete horizon": any(name.endswith(".log") for name in written_otherwise(ours)),
        "headers": any(record.headers for record in records),
        "log append time": any(batch.timestamp_type == "LogAppendTime" for batch in batches),
        "leader epochs": bool(ours.log.leader_epochs),
        "formats in one segment": any(len({batch.magic for batch in one.batches}) > 1 for one in ours.log.segments),
        **{f"v{batch.magic} {batch.codec}": True for batch in batches},
    }
    return [shape for shape, is_there in had.items() if is_there]


def test_every_shape_occurred() -> None:
    if SHAPES["compared"] < 2 * LOGS_IN_CI:
        pytest.skip("only some of the logs were compared")
    print(dict(SHAPES))
    assert min(SHAPES.values()) >= 3
    assert len(SHAPES) == 26
