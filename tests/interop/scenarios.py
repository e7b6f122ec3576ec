"""What happens to a random log: drawn from a seed, so that a failing one comes back by its number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from tests.interop.referee import Config

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
ROUNDS: Final = (2, 3)
ALL_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Step:
    """One round, and what comes before it.

    Shares place an offset in the log, 0.0 at its start and 1.0 at its end; None leaves it where it was.
    """

    appends: int
    """Batches, markers, rolls and changes of epoch."""
    unkeyed: bool
    timestamp_type: str
    wait_ms: int
    """From the last record to the round."""
    log_start: float | None
    high_watermark: float | None
    first_dirty: float | None
    """Outside 0.0 to 1.0: a checkpoint that Kafka does not accept."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A log's life."""

    seed: int
    codecs: tuple[str, ...]
    appending: Config
    cleaning: Config
    steps: tuple[Step, ...]


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    dice = random.Random(seed)
    segment_bytes = dice.randrange(3_000, 12_000)
    interval_bytes = dice.choice((0, 64, 512, 4_096))
    # Kafka's cleaner fails where entries of a shorter interval fill a merged time index that small.
    index_bytes = dice.choice((1 << 16, 600)) if interval_bytes >= 512 else 1 << 16
    sizes = {"segment.index.bytes": index_bytes, "index.interval.bytes": interval_bytes}
    return Scenario(
        seed,
        ("none",) if dice.random() < 0.4 else ALL_CODECS,
        {"segment.bytes": segment_bytes, **sizes},
        {"segment.bytes": segment_bytes * dice.choice((1, 2, 2, 8)), **sizes, **_cleaning(dice)},
        tuple(_step(dice, first=number == 0) for number in range(dice.choice(ROUNDS))),
    )


def _cleaning(dice: random.Random) -> dict[str, str | int | float]:
    deletes = dice.random() < 0.3
    min_lag_ms = dice.choice((0, 0, 0, 40 * MINUTE_MS, 90 * MINUTE_MS))
    return {
        "cleanup.policy": "compact,delete" if deletes else "compact",
        "retention.ms": dice.choice((-1, HOUR_MS, 12 * HOUR_MS)) if deletes else -1,
        "retention.bytes": dice.choice((-1, 30_000)) if deletes else -1,
        "delete.retention.ms": dice.choice((0, HOUR_MS, 24 * HOUR_MS)),
        "min.cleanable.dirty.ratio": dice.choice((0.0, 0.0, 0.5)),
        "min.compaction.lag.ms": min_lag_ms,
        "max.compaction.lag.ms": max(min_lag_ms, dice.choice((2 * HOUR_MS, (1 << 63) - 1))),
    }


def _step(dice: random.Random, *, first: bool) -> Step:
    return Step(
        appends=dice.randrange(30, 100) if first or dice.random() < 0.8 else 0,
        unkeyed=dice.random() < 0.2,
        timestamp_type=dice.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        wait_ms=dice.choice((1_000, 10 * MINUTE_MS, 2 * HOUR_MS, 26 * HOUR_MS)),
        log_start=_maybe(dice, 0.25, 0.0, 0.6),
        high_watermark=_maybe(dice, 0.15, 0.6, 1.0),
        first_dirty=_maybe(dice, 0.35, -0.1, 1.05),
    )


def _maybe(dice: random.Random, chance: float, low: float, high: float) -> float | None:
    return dice.uniform(low, high) if dice.random() < chance else None
