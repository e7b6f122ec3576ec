"""The three ways to stop, each at every step or at every so many-th one; what holds then is checked, and counted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.crash.acts import AT_MS, TOPICS
from tests.crash.power import RecordingFileSystem, lay_down, power_losses
from tests.crash.promises import Expected, Seen, State, states_of
from tests.crash.stops import Stop, by_kill, stopped
from tests.crash.tally import TALLY
from tests.interop.referee import Referee
from tests.interop.verdicts import Log


@dataclass(frozen=True, slots=True)
class Thoroughness:
    """How much is tried."""

    every: int = 1
    """Only so many-th steps are stopped before; the three ways begin at different ones."""
    states_at_a_step: int = 40
    """Of what a power loss may leave."""
    states_max: int | None = None
    """Of a scene."""
    seed: int = 0


def try_stops(expected: Expected, scratch: Path, stop: Stop, thoroughness: Thoroughness) -> None:
    """Stop, look, go on."""
    first = thoroughness.every // 2 if stop is by_kill else 0
    for number, log_dir in stopped(expected, scratch, stop, first, thoroughness.every):
        where = f"{stop.__name__}, step {number}"
        expected.check_stopped(states_of(log_dir), where)
        expected.finishes(log_dir, where)
        if stop is by_kill:
            TALLY.kills += 1
        else:
            TALLY.errors += 1


def try_power_losses(
    expected: Expected,
    scratch: Path,
    thoroughness: Thoroughness,
    disk: type[RecordingFileSystem] = RecordingFileSystem,
) -> None:
    """Lose power, look, go on."""
    for number, log_dir in powerless(expected, scratch, thoroughness, disk):
        where = f"power loss, step {number}"
        expected.check_stopped(states_of(log_dir), where)
        expected.finishes(log_dir, where)
        shutil.rmtree(log_dir)
        TALLY.power_losses += 1


def powerless(
    expected: Expected,
    scratch: Path,
    thoroughness: Thoroughness,
    disk: type[RecordingFileSystem] = RecordingFileSystem,
) -> Iterator[tuple[int, Path]]:
    """Log dirs that a power loss left, each with the step."""
    dice = Random(thoroughness.seed)
    acted = shutil.copytree(expected.drawn, scratch / "acted")
    states = power_losses(acted, expected.scene.act, thoroughness.states_at_a_step, dice, disk)
    if thoroughness.states_max and len(states) > thoroughness.states_max:
        states = dice.sample(states, thoroughness.states_max)
    for place, (number, left) in enumerate(states):
        yield number, lay_down(left, acted, scratch / f"{place}-of-step-{number}")


def try_with_kafka(referee: Referee, expected: Expected, scratch: Path, thoroughness: Thoroughness) -> None:
    """Kafka opens what kills and power losses left, as a broker that starts next would; then we go on. Where it would
    refuse them, we go on first.
    """
    killed = stopped(expected, scratch / "killed", by_kill, thoroughness.every // 2, thoroughness.every)
    left = [shutil.copytree(log_dir, scratch / f"killed-{number}") for number, log_dir in killed]
    left += [log_dir for _, log_dir in powerless(expected, scratch, thoroughness)]
    if expected.scene.is_refused:
        for log_dir in left:
            expected.finishes(log_dir, log_dir.name)
    for name in expected.before:
        for log_dir, log in zip(left, opened_by_kafka(referee, name, left), strict=True):
            expected.check_partition(name, state_of(log), (log_dir.name, name))
    for log_dir in left:
        if not expected.scene.grows:  # a broker that starts deletes what a restore would take back
            expected.finishes(log_dir, log_dir.name)
        TALLY.opened_by_kafka += 1


def opened_by_kafka(referee: Referee, name: str, log_dirs: list[Path]) -> list[Log]:
    """All of one topic at once, since they share its configuration."""
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
