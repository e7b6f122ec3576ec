"""The daemon, and a partition of which a compaction would drop too many records without a key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cleaner.daemon.observer import JobKind
from cleaner.metrics.registry import Metrics
from policies.reasons import ReasonCode
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, JOURNAL_FILE, TopicPartition
from tests.cleaner.daemon.test_worker import FIVE_MINUTES_MS, World, in_this_process  # noqa: F401 - a fixture
from tests.cleaner.engine.test_unkeyed_guard import ALL_ALLOWED, all_keyed, mixed, seen
from tests.partition_dirs import COMPACT, NOW_MS, committed, latest

HELD = "MAX_UNKEYED_RATIO: {}/orders-0: compaction would drop 3 of 5 records"


@pytest.fixture
def log_dir(tmp_path) -> Path:
    return committed(tmp_path / "data", mixed(tmp_path / "data"), all_keyed(tmp_path / "data"))


@pytest.fixture
def world(log_dir) -> World:
    return World(log_dir, orders=COMPACT, state=COMPACT)


def compactions_of_orders(world: World) -> int:
    begun = [fields["topic"] for name, fields in world.log.events if name == "compaction_begun"]
    return begun.count("orders")


def test_it_is_told_once_and_the_others_are_compacted(world):
    before = seen(world.log_dir / "orders-0")
    world.after(0)
    (told,) = (fields["guard"] for name, fields in world.log.events if name == "held_back")
    assert told.startswith(HELD.format(world.log_dir))
    assert seen(world.log_dir / "orders-0") == before
    assert latest(world.log_dir / "state-0") == {b"a": b"2", b"b": b"1"}
    assert LogDir(world.log_dir).offsets(CLEANER_OFFSET_CHECKPOINT) == {TopicPartition("state", 0): 2}
    assert {job.succeeded for job in world.observer.jobs if job.kind is JobKind.COMPACTION} == {True}
    assert not world.teller.has_failed
    assert world.teller.newest is not None
    assert world.teller.newest.is_held_back  # the exit status of --once


def test_the_same_files_are_not_read_again(world):
    world.after(0)
    for _ in range(5):
        world.after(FIVE_MINUTES_MS)
    assert compactions_of_orders(world) == 1
    assert world.log.names().count("held_back") == 1


def test_a_daemon_that_starts_knows_it_from_the_journal(log_dir, world):
    world.after(0)
    another = World(log_dir, orders=COMPACT, state=COMPACT)
    another.after(0).after(FIVE_MINUTES_MS)
    assert compactions_of_orders(another) == 0
    assert another.log.names().count("held_back") == 1


def test_other_files_are_read_again(world):
    world.after(0)
    os.utime(world.log_dir / "orders-0" / f"{0:020d}.log", ns=(NOW_MS, NOW_MS))
    world.after(FIVE_MINUTES_MS)
    assert compactions_of_orders(world) == 2
    assert world.log.names().count("held_back") == 2


def test_a_configuration_that_lets_it_through_has_it_compacted(world):
    world.after(0)
    world.layers = World(world.log_dir, orders=ALL_ALLOWED, state=COMPACT).layers
    world.worker.want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
    world.after(15_000)
    assert latest(world.log_dir / "orders-0") == {b"a": b"2", b"b": b"1"}
    assert world.teller.newest is not None
    world.after(FIVE_MINUTES_MS)
    assert not world.teller.newest.is_held_back


def test_a_journal_that_lost_the_line_costs_one_more_reading(world):
    world.after(0)
    (world.log_dir / JOURNAL_FILE).unlink()
    world.after(FIVE_MINUTES_MS).after(FIVE_MINUTES_MS)
    assert compactions_of_orders(world) == 2


def test_metrics_show_the_bytes_that_it_keeps(world, monkeypatch):
    plans = []
    monkeypatch.setattr(world.observer, "planned", lambda plan, now_ms: plans.append((plan, now_ms)))
    world.after(0)
    metrics = Metrics()
    metrics.planned(*plans[-1])
    text = metrics.text().decode()
    kept = sum((world.log_dir / "orders-0" / f"{base:020d}.log").stat().st_size for base in (0, 3))
    series = f'logcleaner_kept_bytes{{log_dir="{world.log_dir}",reason="{ReasonCode.MAX_UNKEYED_RATIO}"}}'
    assert f"{series} {float(kept)}" in text
