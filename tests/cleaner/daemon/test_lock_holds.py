"""How long the daemon keeps brokers out: after ``lock.hold.max`` it begins no further partition, and lets go."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.daemon import worker as round_module
from cleaner.daemon.worker import REST_SECONDS
from storage.filesystem import FileSystem, Purpose
from storage.lock import LogDirLock
from storage.log_dir import LogDir
from tests.cleaner.daemon.test_worker import SameProcess, World
from tests.partition_dirs import COMPACT, DAY_MS, EXPIRING, NOW_MS, PartitionDir, committed, keyed

PARTITIONS = 6
SLOW_SECONDS = 4.0
"""What each partition takes here; the default of ``lock.hold.max`` is 10 s."""


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(round_module, "CompactingChild", SameProcess)


def expiring(path: Path) -> Path:
    drawn = [PartitionDir(path, f"orders-{number}") for number in range(PARTITIONS)]
    for number, partition in enumerate(drawn):
        for base, age_days in ((0, 3), (2, 2), (4, 0)):
            values = "b=" + "x" * number
            partition.segment(base, keyed(base, "a=1", values, timestamp_ms=NOW_MS - age_days * DAY_MS))
    return committed(path, *drawn)


def compactable(path: Path) -> Path:
    drawn = [PartitionDir(path, f"state-{number}") for number in range(PARTITIONS)]
    for partition in drawn:
        for base in (0, 2, 4):
            partition.segment(base, keyed(base, "a=1", f"b={base}"))
    return committed(path, *drawn)


class Slow:
    """Each partition takes its time, by the stopwatch of the world."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.begun = world, []
        rename = FileSystem.rename

        def slow(fs, source, target, purpose):
            if purpose in (Purpose.RETIRE, Purpose.SWAP_IN) and source.parent.name not in self.begun:
                self.begun.append(source.parent.name)
                world.clock.sleep(SLOW_SECONDS)
            return rename(fs, source, target, purpose)

        monkeypatch.setattr(FileSystem, "rename", slow)


def holds(world: World, slow: Slow) -> list[int]:
    """Partitions done in each round, until nothing is due; the lock is free in between."""
    counts = []
    while len(slow.begun) < PARTITIONS:
        before = len(slow.begun)
        assert world.worker.tick()
        counts.append(len(slow.begun) - before)
        LogDirLock.acquire(world.log_dir, FileSystem()).release()
        assert not world.worker.tick()  # it rests
        world.clock.sleep(REST_SECONDS)
        assert len(counts) <= PARTITIONS
    return counts


@pytest.mark.parametrize(("hold_max", "counts"), [("10s", [3, 3]), ("1h", [6]), ("0", [1] * 6)])
def test_a_retention_of_many_partitions_lets_go_in_between(tmp_path, monkeypatch, hold_max, counts):
    world = World(expiring(tmp_path / "data"), f"lock.hold.max={hold_max}", orders=EXPIRING)
    slow = Slow(world, monkeypatch)
    world.clock.time_ms += 30_000
    if hold_max == "1h":
        assert world.worker.tick()
        assert len(slow.begun) == PARTITIONS
    else:
        assert holds(world, slow) == counts
    assert len(set(slow.begun)) == PARTITIONS


def test_compactions_let_go_in_between_and_go_on_in_their_order(tmp_path, monkeypatch):
    world = World(compactable(tmp_path / "data"), state=COMPACT)
    slow = Slow(world, monkeypatch)
    assert holds(world, slow) == [3, 3]
    assert slow.begun == [f"state-{number}" for number in range(PARTITIONS)]


def test_what_was_left_has_its_turn_before_what_is_due_since(tmp_path, monkeypatch):
    """A small partition that expires later would else go before a large one again and again."""
    log_dir = expiring(tmp_path / "data")
    world = World(log_dir, "lock.hold.max=0", orders=EXPIRING, late=EXPIRING)
    slow = Slow(world, monkeypatch)
    world.clock.time_ms += 30_000
    world.worker.tick()
    late = PartitionDir(log_dir, "late-0")
    late.segment(0, keyed(0, "a=1", timestamp_ms=1)).segment(1, keyed(1, "a=1"))
    ends = LogDir(log_dir).offsets("replication-offset-checkpoint")
    committed(log_dir, late)
    merged = {**ends, **LogDir(log_dir).offsets("replication-offset-checkpoint")}
    LogDir(log_dir).write_offsets("replication-offset-checkpoint", merged, FileSystem())
    for _ in range(PARTITIONS):
        world.clock.sleep(REST_SECONDS)
        world.worker.tick()
    assert slow.begun[-1] == "late-0"
    assert len(slow.begun) == PARTITIONS + 1


def test_once_is_one_round_however_long_it_takes(tmp_path, monkeypatch):
    world = World(expiring(tmp_path / "data"), orders=EXPIRING)
    slow = Slow(world, monkeypatch)
    world.clock.time_ms += 30_000
    assert world.worker.tick(is_once=True)
    assert len(slow.begun) == PARTITIONS


def test_the_seconds_are_told(tmp_path, monkeypatch):
    world = World(expiring(tmp_path / "data"), orders=EXPIRING)
    held: list[float] = []
    world.observer.held_locks = held.append  # type: ignore[method-assign]
    slow = Slow(world, monkeypatch)
    world.clock.time_ms += 30_000
    holds(world, slow)
    assert sum(held) == PARTITIONS * SLOW_SECONDS
