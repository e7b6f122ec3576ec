"""Rounds that end where Kafka's offset map is full: our twin of them ends at the same record.

Each log is cleaned round by round until Kafka's manager finds nothing dirty any more; every round starts from what ours
left, and the results are compared in all that they hold, the checkpoint included.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.interop.referee import Config, Referee
from tests.interop.scenarios import ALL_CODECS, HOUR_MS
from tests.interop.sides import clean_with_ours, copy, differences, files_of, partition_dir, side, untouched
from tests.interop.tally import TALLY
from tests.interop.verdicts import Round
from tests.kafka_rounds import as_kafka
from tests.sampled import some

pytestmark = pytest.mark.kafka

SEEDS: Final = (0, 2, 3, 4, 6, 7, 8, 9, 21, 29)
"""Others below 10 draw so few keys that the map holds all; in 8, 21 and 29 a round begins behind an abort marker that
Kafka's scan skips."""
KEY_BYTES: Final = 24
LOAD_FACTOR: Final = 0.9
LEAST_BUFFER_BYTES: Final = (1 << 20) + KEY_BYTES
"""Kafka's configuration takes no smaller one; its cleaner does. Ours gets the same capacity by the load factor."""
ROUNDS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the seed decides."""

    codecs: tuple[str, ...]
    appending: Config
    cleaning: Config
    map_bytes: int
    wait_ms: int
    """Between rounds."""

    @classmethod
    def of(cls, seed: int) -> Drawn:
        dice = random.Random(seed)
        segment_bytes = dice.randrange(4_096, 12_000)
        cleaning = {
            "cleanup.policy": "compact",
            "segment.bytes": segment_bytes * dice.choice((1, 2, 8)),
            "delete.retention.ms": dice.choice((0, HOUR_MS)),
            "min.cleanable.dirty.ratio": 0.0,
            "index.interval.bytes": 512,
        }
        return cls(
            ("none",) if dice.random() < 0.5 else ALL_CODECS,
            {"segment.bytes": segment_bytes, "index.interval.bytes": 512},
            cleaning,
            KEY_BYTES * dice.choice((6, 10, 16)) + dice.randrange(KEY_BYTES),
            dice.choice((1_000, 2 * HOUR_MS)),
        )


@pytest.mark.parametrize("seed", some(SEEDS, 3, always=(21,)))
def test_rounds_with_a_small_map_end_where_kafkas_do(referee: Referee, tmp_path: Path, seed: int) -> None:
    drawn, log_dir = Drawn.of(seed), tmp_path / "log"
    log_dir.mkdir()
    (generated,) = referee.workload(
        [partition_dir(log_dir)], seed=seed, config=drawn.appending, codecs=drawn.codecs, unkeyed=seed % 3 == 0
    )
    ends: list[int] = []
    for number in count(1):
        log_dir, found = one_round(referee, log_dir, drawn, generated.now_ms + number * drawn.wait_ms)
        if found.end_offset is None:
            break
        ends.append(found.end_offset)
        assert number < ROUNDS_MAX
    assert len(ends) > 1, "the map held every key: nothing was shown"
    assert ends == sorted(set(ends))


def one_round(referee: Referee, log_dir: Path, drawn: Drawn, now_ms: int) -> tuple[Path, Round]:
    """Clean a copy with each; gives what ours left, and what Kafka said of its round."""
    TALLY.rounds += 1
    referee.read([partition_dir(log_dir)], now_ms=now_ms, checkpoints=True, batches_only=True, config=drawn.cleaning)
    theirs, own = copy(log_dir, "kafka"), copy(log_dir, "ours")
    before = files_of(partition_dir(own))
    (found,) = referee.clean(
        [partition_dir(theirs)], config=drawn.cleaning, now_ms=now_ms, checkpoints=True, map_bytes=drawn.map_bytes
    )
    keys_max = int(drawn.map_bytes // KEY_BYTES * LOAD_FACTOR)
    capacity = {
        "compaction.upgrade.format": "true",
        "log.cleaner.dedupe.buffer.size": LEAST_BUFFER_BYTES,
        "log.cleaner.io.buffer.load.factor": (keys_max + 0.5) / (LEAST_BUFFER_BYTES // KEY_BYTES),
    }
    with as_kafka():
        clean_with_ours(own, {**drawn.cleaning, **capacity}, now_ms)
    as_before = untouched(before, files_of(partition_dir(own)))
    kept = copy(own, "kept")
    kafka, ours = (side(referee, partition_dir(path), now_ms, drawn.cleaning) for path in (theirs, own))
    told = list(differences(kafka, ours, as_before))
    assert not told, "\n".join(told)
    return kept, found
