"""Random logs over six rounds with key filters on, against Kafka's cleaner, with every kind of ``delete.retention.ms``.

Of most segments nothing is superseded in most rounds: rounds pass over them by their filters, where Kafka rewrites all.
The day draws 10 of 100 logs, each retention among them.
``LOGCLEANER_FILTERED_LOGS=300`` compares more; a failing one comes back as ``-k 'log[17]'``.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.compaction import filters
from cleaner.engine.compaction.key_map import KeyMap
from cleaner.engine.compaction.passes import Span, Spared
from storage.log_dir import LogDir
from storage.names import RECOVERY_POINT_CHECKPOINT
from storage.scan import segments
from tests.interop.referee import Config, Referee
from tests.interop.scenarios import ALL_CODECS, HOUR_MS, MINUTE_MS
from tests.interop.sides import PARTITION, clean_with_ours, copy, differences, files_of, partition_dir, side, untouched
from tests.interop.tally import TALLY
from tests.interop.test_random_logs import rounds_differ
from tests.sampled import some

pytestmark = pytest.mark.kafka

LOGS_IN_CI: Final = 10
ASKED: Final = os.environ.get("LOGCLEANER_FILTERED_LOGS")
ROUNDS: Final = 6
RETENTIONS_MS: Final = (0, 1, HOUR_MS, 24 * HOUR_MS, 1 << 62, (1 << 63) - 1)
WAITS_MS: Final = (0, 1, 2, MINUTE_MS, 2 * HOUR_MS, 26 * HOUR_MS)
KEYS_A_ROUND: Final = 40
SEEDS: Final = range(int(ASKED)) if ASKED else some(range(100), LOGS_IN_CI, always=range(len(RETENTIONS_MS)))
SEEN: Final[Counter[str]] = Counter()
"""What the rounds had that makes them worth comparing."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the seed decides."""

    codecs: tuple[str, ...]
    segment_bytes: int
    retentions_ms: tuple[int, ...]
    """Of each round; most logs keep to one."""
    transactions: tuple[bool, ...]
    first_keys: tuple[int, ...]
    """New keys, or those of an earlier round."""
    waits_ms: tuple[int, ...]
    largest_bytes: int
    """Of a merged segment; below that of any segment, each is a group of its own."""

    @classmethod
    def of(cls, seed: int) -> Drawn:
        dice = random.Random(seed)
        retention_ms = RETENTIONS_MS[seed % len(RETENTIONS_MS)]
        changes, segment_bytes = dice.random() < 0.2, dice.randrange(3_000, 8_000)
        return cls(
            ("none",) if dice.random() < 0.6 else ALL_CODECS,
            segment_bytes,
            tuple(dice.choice(RETENTIONS_MS) if changes else retention_ms for _ in range(ROUNDS)),
            tuple(dice.random() < 0.15 for _ in range(ROUNDS)),
            tuple(
                KEYS_A_ROUND * (number if dice.random() < 0.5 else dice.randrange(number + 1))
                for number in range(ROUNDS)
            ),
            tuple(dice.choice(WAITS_MS) for _ in range(ROUNDS)),
            dice.choice((14, 14, segment_bytes, 2 * segment_bytes)),
        )

    @property
    def sizes(self) -> Config:
        """Of the segments."""
        return {"segment.bytes": self.segment_bytes, "index.interval.bytes": 512}

    def cleaning(self, number: int) -> Config:
        """The topic's configuration in a round."""
        return {
            **self.sizes,
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": 0.0,
            "segment.bytes": self.largest_bytes,
            "delete.retention.ms": self.retentions_ms[number],
        }


@pytest.fixture(autouse=True)
def passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many segments each round passed over; of these small segments, too, filters are made."""
    counts: list[int] = []
    spare = filters.Filters.spare

    def counting(self: filters.Filters, of: Sequence[Span], first_dirty: int, key_map: KeyMap) -> tuple[Spared, ...]:
        counts.append(len(spared := spare(self, of, first_dirty, key_map)))
        return spared

    monkeypatch.setattr(filters.Filters, "spare", counting)
    monkeypatch.setattr(filters, "SEGMENT_BYTES_MIN", 1)
    monkeypatch.setattr(filters, "cache_root", lambda: tmp_path / "cache")
    return counts


@pytest.mark.parametrize("seed", SEEDS)
def test_random_filtered_log(
    referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed_over: list[int], seed: int
) -> None:
    if seed % 2:  # each batch a slice of its own: these logs are smaller than a window
        monkeypatch.setattr(segments, "WINDOW_BYTES", 1)
    drawn, log_dir, now_ms = Drawn.of(seed), tmp_path / "log", 0
    log_dir.mkdir()
    for number in range(ROUNDS):
        now_ms = appended(referee, log_dir, drawn, number, now_ms) + drawn.waits_ms[number]
        cleaned_by_both(referee, log_dir, drawn, number, now_ms)
    SEEN["passed over"] += sum(passed_over)
    shutil.rmtree(tmp_path)


def appended(referee: Referee, log_dir: Path, drawn: Drawn, number: int, now_ms: int) -> int:
    """Append what the round cleans; gives the moment of the last record."""
    (generated,) = referee.workload(
        [partition_dir(log_dir)],
        seed=1_000 + number,
        config=drawn.sizes,
        now_ms=now_ms or None,
        checkpoints=True,
        steps=12,
        codecs=drawn.codecs,
        transactions=drawn.transactions[number],
        first_key=drawn.first_keys[number],
    )
    end = LogDir(log_dir).offsets(RECOVERY_POINT_CHECKPOINT)[PARTITION]
    (log_dir / "replication-offset-checkpoint").write_text(f"0\n1\n{PARTITION.topic} {PARTITION.partition} {end}\n")
    return generated.now_ms


def cleaned_by_both(referee: Referee, log_dir: Path, drawn: Drawn, number: int, now_ms: int) -> None:
    """One round by Kafka on a copy, and by us in place, where the filters know the files."""
    TALLY.rounds += 1
    config = drawn.cleaning(number)
    # A starting broker takes away what is stray: then what is missing afterwards was taken away by the round.
    referee.read([partition_dir(log_dir)], now_ms=now_ms, checkpoints=True, batches_only=True, config=config)
    theirs = copy(log_dir, "kafka")
    before = files_of(partition_dir(log_dir))
    (found,) = referee.clean([partition_dir(theirs)], config=config, now_ms=now_ms, checkpoints=True, expires=True)
    plan = clean_with_ours(log_dir, config, now_ms)
    as_before = untouched(before, files_of(partition_dir(log_dir)))
    opened = copy(log_dir, "opened")
    kafka, ours = (side(referee, partition_dir(path), now_ms, config) for path in (theirs, opened))
    told = [*rounds_differ(found, plan), *differences(kafka, ours, as_before)]
    assert not told, f"round {number}\n" + "\n".join(told)
    batches = list(ours.log.batches())
    SEEN["rounds"] += found.end_offset is not None
    SEEN["tombstones"] += any(record.value is None for batch in batches for record in batch.records)
    SEEN["horizons"] += any(batch.delete_horizon_ms is not None for batch in batches)
    SEEN["at the moment of the round"] += any(batch.delete_horizon_ms == now_ms for batch in batches)


def test_the_logs_had_what_they_are_for() -> None:
    if SEEN["rounds"] < LOGS_IN_CI * ROUNDS // 2:
        pytest.skip("only some of the random logs were compared")
    print(dict(SEEN))
    assert SEEN["passed over"] > 2 * LOGS_IN_CI
    assert min(SEEN.values()) >= LOGS_IN_CI // 3
