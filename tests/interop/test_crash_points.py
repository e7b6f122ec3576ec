"""Kafka opens what a stopped clean left, as a broker that starts next would: it finds what we find, and we go on.

``LOGCLEANER_POWER_LOSSES=200`` hands it all of the states, not a sample.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.crash.conftest import expected, memory, scratch
from tests.crash.power import lay_down
from tests.crash.promises import Expected, Seen, State
from tests.crash.scenes import AT_MS, TOPICS
from tests.crash.stops import by_kill, steps_of, stopped
from tests.crash.tally import TALLY
from tests.crash.test_power_loss import STATES_AT_A_STEP, STATES_IN_CI, power_losses
from tests.interop.referee import Referee
from tests.interop.verdicts import Log

pytestmark = pytest.mark.kafka

__all__ = ["expected", "memory", "scratch"]
"""Fixtures."""
IN_CI: Final = STATES_AT_A_STEP <= STATES_IN_CI
SAMPLE: Final = 40
"""Of a scene's power losses, and as many of its kills, in CI."""


def test_kafka_finds_what_a_killed_clean_left_and_the_next_clean_finishes(
    referee: Referee, expected: Expected, scratch: Path
) -> None:
    every = max(1, steps_of(expected, scratch) // SAMPLE) if IN_CI else 1
    left = [
        shutil.copytree(log_dir, scratch / str(number))
        for number, log_dir in stopped(expected, scratch / "data", by_kill, every)
    ]
    check_with_kafka(referee, expected, left)


def test_kafka_finds_what_a_power_loss_left_and_the_next_clean_finishes(
    referee: Referee, expected: Expected, scratch: Path
) -> None:
    cleaned = scratch / "cleaned"
    states = power_losses(expected, cleaned)
    if IN_CI:
        states = Random(1).sample(states, min(SAMPLE, len(states)))
    left = [lay_down(state, cleaned, scratch / f"{place}-of-step-{n}") for place, (n, state) in enumerate(states)]
    check_with_kafka(referee, expected, left)


def check_with_kafka(referee: Referee, expected: Expected, log_dirs: list[Path]) -> None:
    """All of one topic at once, since they share its configuration."""
    for name in expected.before:
        found = read(referee, name, log_dirs)
        for log_dir, log in zip(log_dirs, found, strict=True):
            expected.check_partition(name, state_of(log), (log_dir.name, name))
    for log_dir in log_dirs:
        expected.finishes(log_dir, log_dir.name)
        TALLY.opened_by_kafka += 1


def read(referee: Referee, name: str, log_dirs: list[Path]) -> list[Log]:
    config = TOPICS[name.rpartition("-")[0]]
    directories = [log_dir / name for log_dir in log_dirs]
    return referee.read(directories, now_ms=AT_MS, shutdown="auto", checkpoints=True, config=config)


def state_of(log: Log) -> State:
    records = tuple(
        Seen(record.offset, record.timestamp, record.key or "", record.value)
        for batch in log.batches()
        if not batch.control
        for record in batch.records
    )
    aborted = frozenset((txn.producer_id, txn.last_offset) for segment in log.segments for txn in segment.aborted_txns)
    return State(log.log_start_offset, log.log_end_offset, records, aborted, {})
