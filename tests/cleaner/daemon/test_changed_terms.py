"""Work under a configuration ends with that configuration: after a change no swap and no further partition follow."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from cleaner.daemon import worker as round_module
from cleaner.daemon.child import CompactingChild
from cleaner.daemon.due import JobKind
from cleaner.daemon.messages import Done
from cleaner.engine.outcome import Outcome
from policies.plan import Plan
from storage.errors import NotALogDir
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir
from tests.cleaner.daemon.test_child import Listening, Supervised, nothing, started, task  # noqa: F401 - a fixture
from tests.cleaner.daemon.test_worker import SameProcess, World
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    committed,
    configured,
    file_names,
    keyed,
)

UNREADABLE = NotALogDir(Path("/gone"), "does not exist")


class Interrupted(SameProcess):
    """A child that does the task unless it is told to end it while the daemon does what is due of other partitions."""

    def compact(self, task, listener, meanwhile, is_wanted=lambda: True) -> Done:
        listener.event("compaction_begun")
        meanwhile()
        if not is_wanted():
            return Done(Plan(task.request, ()), Outcome(False, {}, interrupted=True))
        return super().compact(task, listener, meanwhile, is_wanted)


@pytest.fixture
def log_dir(tmp_path):
    state = PartitionDir(tmp_path / "data", "state-0")
    orders = [PartitionDir(tmp_path / "data", f"orders-{number}") for number in range(3)]
    for base, age_days in ((0, 3), (2, 2), (4, 0)):
        state.segment(base, keyed(base, "a=1", f"b={base}"))
        for partition in orders:
            partition.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS - age_days * DAY_MS))
    return committed(tmp_path / "data", state, *orders)


def reloaded_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch, layers: object) -> None:
    """The configuration becomes another one as soon as the compaction has begun."""
    monkeypatch.setattr(round_module, "CompactingChild", Interrupted)
    event = world.log.event

    def told(name: str, **fields: object) -> None:
        if name == "compaction_begun" and world.layers is not layers:
            world.layers = layers  # type: ignore[assignment]
            world.worker.want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
        event(name, **fields)

    monkeypatch.setattr(world.log, "event", told)


@pytest.mark.parametrize(
    "layers", [UNREADABLE, configured(state={"cleanup.policy": "delete"}), configured("log.cleaner.enable=false")]
)
def test_a_compaction_ends_with_the_configuration_that_it_began_with(log_dir, monkeypatch, layers):
    world = World(log_dir, state=COMPACT)
    reloaded_meanwhile(world, monkeypatch, layers)
    before = file_names(log_dir / "state-0")
    for _ in range(3):
        world.after(15_000)
    assert file_names(log_dir / "state-0") == before
    assert "segments_compacted" not in world.log.names()
    assert world.log.names().count("compaction_withdrawn") == 1


def test_a_compaction_that_was_ended_is_planned_anew(log_dir, monkeypatch):
    world = World(log_dir, state=COMPACT)
    reloaded_meanwhile(world, monkeypatch, configured(state={**COMPACT, "delete.retention.ms": "7"}))
    world.after(0)
    names = world.log.names()
    assert names.index("compaction_withdrawn") < names.index("segments_compacted")
    assert "partition_backs_off" not in names


def test_a_change_that_is_none_of_its_topic_s_lets_a_compaction_go_on(log_dir, monkeypatch):
    world = World(log_dir, state=COMPACT)
    reloaded_meanwhile(world, monkeypatch, configured(state=COMPACT, orders={"cleanup.policy": "delete"}))
    world.after(0)
    assert "config_reloaded" in world.log.names()
    assert world.log.names().count("segments_compacted") == 1
    assert "compaction_withdrawn" not in world.log.names()


def test_the_child_ends_a_task_that_is_not_wanted_any_more_before_its_swap(log_dir, started):  # noqa: F811
    before, listener, over = file_names(log_dir / "state-0"), Listening(), threading.Event()
    slow = "log.cleaner.io.max.bytes.per.second=20"
    with (
        LogDir(log_dir).lock(FileSystem()) as lock,
        closing(CompactingChild([lock.descriptor], Supervised())) as compactor,
    ):

        def wanted() -> bool:
            return "compaction_begun" not in listener.names or over.is_set()

        done = compactor.compact(task(log_dir, lock.descriptor, slow), listener, nothing, wanted)
        assert (done.outcome.interrupted, file_names(log_dir / "state-0")) == (True, before)
        over.set()
        assert compactor.compact(task(log_dir, lock.descriptor), listener, nothing).outcome.results
    assert len(started) == 1
    assert listener.names.count("segments_compacted") == 1


def test_nothing_is_swapped_in_once_all_is_read_and_the_task_is_to_end(log_dir, monkeypatch):
    """The last moment to stop is just before the swap, not just after the last read."""
    from cleaner.daemon import compacting

    relay = compacting.Relay(_Deaf())  # type: ignore[arg-type]
    fsync_dir = FileSystem.fsync_dir

    def last_step(fs, path, purpose) -> None:
        if purpose is Purpose.CLEAN:
            relay.stop()
        fsync_dir(fs, path, purpose)

    monkeypatch.setattr(FileSystem, "fsync_dir", last_step)
    before = file_names(log_dir / "state-0")
    with LogDir(log_dir).lock(FileSystem()) as lock:
        compacting.answer(task(log_dir, lock.descriptor), relay)
    assert file_names(log_dir / "state-0") == before


class _Deaf:
    def send(self, _message: object) -> None:
        pass


@pytest.mark.parametrize("layers", [UNREADABLE, configured(orders={"cleanup.policy": "delete"})])
def test_retention_begins_no_further_partition_under_a_configuration_that_changed(log_dir, monkeypatch, layers):
    monkeypatch.setattr(round_module, "CompactingChild", SameProcess)
    world = World(log_dir, orders=EXPIRING)
    source = log_dir.parent / "logcleaner.toml"
    source.write_text("")
    monkeypatch.setattr(type(world.configuration), "files", property(lambda _self: (source,)))
    world.configuration.reload()
    rename, touched = FileSystem.rename, set[str]()

    def renamed(fs, source_, target, purpose) -> None:
        rename(fs, source_, target, purpose)
        if purpose is Purpose.RETIRE and not touched:
            world.layers = layers  # type: ignore[assignment]
            source.write_text("another")
        if purpose is Purpose.RETIRE:
            touched.add(source_.parent.name)

    monkeypatch.setattr(FileSystem, "rename", renamed)
    world.after(30_000)
    assert len(touched) == 1
