"""One line a round with its totals, what each job did by which limit, and the answer to SIGUSR1."""

from __future__ import annotations

from typing import Any

import pytest

from cleaner.daemon.due import Schedule
from cleaner.daemon.telling import Teller
from cleaner.metrics.registry import Metrics
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from tests.cleaner.daemon.test_lock_holds import PARTITIONS, Slow, expiring, holds
from tests.cleaner.daemon.test_what_is_told import measured, value, world
from tests.cleaner.daemon.test_worker import FIVE_MINUTES_MS, World, in_this_process, log_dir
from tests.partition_dirs import EXPIRING

__all__ = ["in_this_process", "log_dir", "measured", "world"]


def jobs(world: World) -> list[dict[str, Any]]:
    return [fields for found, fields in world.log.events if found == "job_done"]


def test_a_round_is_told_with_its_totals_and_by_which_limits(world):
    world.after(30_000)
    (done,) = world.log.rounds
    retention, compaction = jobs(world)
    sums = ("deleted_segments", "deleted_bytes", "freed_bytes", "compacted_from_bytes", "compacted_to_bytes")
    assert [done[name] for name in sums] == [retention[name] + compaction[name] for name in sums]
    assert done["deleted_segments"] == 2
    assert done["compacted_from_bytes"] > 0
    assert done["limits"] == {"retention.ms": 2}
    assert (done["partitions"], done["changed_partitions"], done["failures"]) == (2, 2, 0)
    assert {"held", "asked_by"} & done.keys() == set()
    assert done["seconds"] >= 0


def test_a_job_says_what_it_did_by_which_limit(world):
    world.after(30_000)
    retention, compaction = jobs(world)
    assert retention["changed"] == {"orders-0": "2 segments deleted by retention.ms=1d (test)"}
    assert list(compaction["changed"]) == ["state-0"]
    assert compaction["changed"]["state-0"].startswith("2 segments compacted by min.cleanable.dirty.ratio=")
    world.after(60_000)
    removal = jobs(world)[-1]
    assert removal["job"] == "removal"
    assert removal["freed_bytes"] > 0
    assert removal["changed"]["orders-0"] == "the delay of deleted files is over"


def test_a_retention_with_nothing_to_do_is_a_sign_of_life_and_a_mere_look_is_none(world):
    world.after(30_000).after(60_000).after(1_000)
    count = len(world.log.rounds)
    world.after(15_000).after(15_000)
    assert len(world.log.rounds) == count
    world.after(FIVE_MINUTES_MS)
    assert len(world.log.rounds) == count + 1
    assert (world.log.rounds[-1]["changed_partitions"], world.log.rounds[-1]["limits"]) == (0, {})


@pytest.mark.parametrize("observing", [False, True])
def test_who_asks_for_a_round_is_answered(world, observing):
    world.start(observing=observing)
    world.after(30_000).after(61_000).after(1)
    world.log.rounds.clear()
    world.worker.want(Schedule.asked_for_everything)
    world.after(1)
    assert [fields["asked_by"] for fields in world.log.rounds] == ["SIGUSR1"]
    world.after(FIVE_MINUTES_MS)
    assert [fields for fields in world.log.rounds[1:] if "asked_by" in fields] == []


def test_nobody_asked_for_the_only_round_of_a_run_once(world):
    world.start()
    world.worker.want(Schedule.asked_for_everything)
    assert world.worker.tick(is_once=True)
    assert [fields for fields in world.log.rounds if "asked_by" in fields] == []
    assert world.log.rounds


def test_a_round_beside_a_broker_says_who_holds_the_log_dir(world):
    with LogDirLock.acquire(world.log_dir, FileSystem()):
        world.worker.want(Schedule.asked_for_everything)
        world.after(30_000)
    (done,) = world.log.rounds
    assert done["held"][0].startswith(f"{world.log_dir} by ")
    assert done["changed_partitions"] == 0


def test_a_run_is_the_whole_round_and_not_its_last_job(measured):
    world, metrics = measured
    world.after(30_000)  # retention, then compaction
    series = f'{{log_dir="{world.log_dir}"}}'
    assert value(metrics, f"logcleaner_last_run_deleted_segments{series}") == 2
    assert value(metrics, f"logcleaner_last_run_compacted_segments{series}") == 2
    world.after(61_000)
    assert value(metrics, f"logcleaner_last_run_deleted_segments{series}") == 0
    assert value(metrics, "logcleaner_last_run_swept_bytes") > 0


def test_a_round_that_lets_the_locks_go_in_between_is_one_round(tmp_path, monkeypatch):
    world, metrics = World(expiring(tmp_path / "data"), "lock.hold.max=10s", orders=EXPIRING), Metrics()
    world.teller = Teller(world.log, metrics)
    world.teller.configured(world.clock.now_ms(), world.configuration.loaded.log_dirs)
    world.start()
    slow = Slow(world, monkeypatch)
    world.clock.time_ms += 30_000
    assert holds(world, slow) == [3, 3]
    (done,) = world.log.rounds
    assert (done["deleted_segments"], done["changed_partitions"]) == (2 * PARTITIONS, PARTITIONS)
    series = f'logcleaner_last_run_deleted_segments{{log_dir="{world.log_dir}"}}'
    assert value(metrics, series) == 2 * PARTITIONS
