"""The worker, round by round, with a clock set by hand; the compacting child's side runs in this process."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from cleaner.config.layers import LoadedLayers, Settings
from cleaner.daemon import compacting
from cleaner.daemon import worker as round_module
from cleaner.daemon.child import ChildDied, CompactionRefused, CompactorUnstartable
from cleaner.daemon.configuration import Configuration
from cleaner.daemon.due import Schedule
from cleaner.daemon.messages import Advanced, Done, TaskRefused, ToldEvent
from cleaner.daemon.observer import JobDone, JobKind, Observer
from cleaner.daemon.telling import Teller
from cleaner.daemon.worker import Worker
from cleaner.engine.means import Means
from cleaner.events import EventLog
from policies.config.config_layers import ConfigLayers
from storage.errors import NotALogDir
from storage.filesystem import FileSystem, OutOfSpace, Purpose, UnsafeOwner
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    JOURNAL_FILE,
    ROTATED_JOURNAL_FILE,
    TopicPartition,
)
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    committed,
    configured,
    file_names,
    keyed,
    latest,
)

ORDERS, STATE = TopicPartition("orders", 0), TopicPartition("state", 0)
FIVE_MINUTES_MS = 300_000
DELETE_DELAY = "60000"


class Supervised:
    """A pulse that never asks for the end, unless told to."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_stopping = False
        self.reloads = 0

    def alive(self) -> None:
        pass

    def tell(self, text: str) -> None:
        self.told.append(text)

    def stopping(self) -> bool:
        return self.is_stopping

    def reloading(self) -> None:
        self.reloads += 1

    def reloaded(self) -> None:
        pass


class Recorded(EventLog):
    """A log that keeps its events."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.rounds: list[dict[str, Any]] = []
        """Totals of rounds, which are told beside what happened."""

    def event(self, name: str, **fields: object) -> None:
        if name == "round_done":
            self.rounds.append(fields)
        elif name != "job_begun":
            self.events.append((name, fields))

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def fields(self, name: str) -> dict[str, Any]:
        return next(fields for found, fields in self.events if found == name)


class Observed(Observer):
    def __init__(self) -> None:
        self.plans, self.runs, self.failures, self.deaths = 0, 0, list[tuple[JobKind, str]](), 0
        self.jobs: list[JobDone] = []

        self.failing: dict[str, bool] = {}

    def log_dirs(self, failing) -> None:
        self.failing = dict(failing)

    def did(self, job) -> None:
        self.jobs.append(job)

    def planned(self, plan, now_ms) -> None:
        self.plans += 1

    def ran(self, plan, outcome, started_ms, ended_ms) -> None:
        self.runs += 1

    def failed(self, where, error) -> None:
        self.failures.append((where, error))

    def worker_died(self, where=None) -> None:
        self.deaths += 1


class SameProcess:
    """In place of the child: what it does, done here; ``dies`` and ``refuses`` in place of the first task."""

    dies = refuses = unstartable = 0

    def __init__(self, locks, pulse) -> None:
        self.locks = locks

    def compact(self, task, listener, meanwhile, is_wanted=lambda: True) -> Done:
        assert Path(task.partition[0]).is_absolute(), "the child works in another directory"
        if SameProcess.unstartable:
            SameProcess.unstartable -= 1
            raise CompactorUnstartable("no memory")
        if SameProcess.dies:
            SameProcess.dies -= 1
            raise ChildDied(-9)
        if SameProcess.refuses:
            SameProcess.refuses -= 1
            raise CompactionRefused("no")
        sent: SimpleQueue[object] = SimpleQueue()
        answer = compacting.answer(task, compacting.Relay(_Sending(sent)))  # type: ignore[arg-type]
        while not sent.empty():
            match sent.get():
                case ToldEvent(name, fields):
                    listener.event(name, **fields)
                    meanwhile()
                case Advanced(done_bytes):
                    listener.progress(done_bytes)
        if isinstance(answer, TaskRefused):
            raise CompactionRefused(answer.error)
        return answer

    def close(self) -> None:
        pass


class _Sending:
    def __init__(self, queue: SimpleQueue[object]) -> None:
        self.send = queue.put


class World:
    def __init__(
        self, log_dir: Path, *set_options: str, observer: Observer | None = None, **topics: dict[str, str]
    ) -> None:
        self.log_dir, self.clock, self.pulse = log_dir, FakeClock(), Supervised()
        self.layers: ConfigLayers | Exception = configured(*set_options, **topics)
        self.log, self.observer = Recorded(), Observed()
        self.teller = Teller(self.log, observer or self.observer)
        self.teller.begin_round = lambda _number: None  # type: ignore[method-assign]
        self.configuration = Configuration(self._load)
        self.teller.configured(NOW_MS, self.configuration.loaded.log_dirs)
        self.worker = self.start()

    def start(self, *, observing: bool = False) -> Worker:
        self.worker = Worker(self.configuration, self.clock, self.teller, self.pulse, observing=observing)
        return self.worker

    def _load(self) -> LoadedLayers:
        if isinstance(self.layers, Exception):
            raise self.layers
        return LoadedLayers(self.layers, (self.log_dir,), None, Settings())

    def after(self, span_ms: int) -> World:
        self.clock.time_ms += span_ms
        self.worker.tick()
        return self


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    SameProcess.dies = SameProcess.refuses = SameProcess.unstartable = 0
    monkeypatch.setattr(round_module, "CompactingChild", SameProcess)


@pytest.fixture
def log_dir(tmp_path):
    """``orders`` has two segments that expired, ``state`` two that can be compacted."""
    orders, state = PartitionDir(tmp_path / "data", "orders-0"), PartitionDir(tmp_path / "data", "state-0")
    for base, age_days in ((0, 3), (2, 2), (4, 0)):
        orders.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS - age_days * DAY_MS))
        state.segment(base, keyed(base, "a=1", f"b={base}"))
    return committed(tmp_path / "data", orders, state)


EXPIRING_SOON = {**EXPIRING, "file.delete.delay.ms": DELETE_DELAY}


@pytest.fixture
def world(log_dir):
    return World(log_dir, orders=EXPIRING_SOON, state=COMPACT)


@pytest.fixture
def deleting(log_dir):
    """Nothing is compacted: of files that a swap retired, only the machine's clock knows when."""
    return World(log_dir, orders=EXPIRING_SOON, state={"cleanup.policy": "delete"})


def test_the_first_roundsurveys_and_compacts(world):
    world.after(0)
    assert world.log.names() == ["compaction_begun", "segments_compacted", "job_done"]
    assert latest(world.log_dir / "state-0") == {b"a": b"1", b"b": b"4"}
    assert (world.observer.plans, world.observer.runs) == (1, 1)
    assert LogDir(world.log_dir).locked_by() is None
    assert any(text.startswith("compacting state-0") for text in world.pulse.told)
    assert [(job.kind, job.succeeded) for job in world.observer.jobs] == [
        (JobKind.SURVEY, True),
        (JobKind.COMPACTION, True),
    ]


@pytest.mark.parametrize("path", ["data", "link"])
def test_a_log_dir_named_by_a_relative_path_or_a_link_is_compacted(log_dir, path, monkeypatch):
    monkeypatch.chdir(log_dir.parent)
    Path("link").symlink_to(log_dir)
    World(Path(path), state=COMPACT).after(0)
    assert latest(log_dir / "state-0") == {b"a": b"1", b"b": b"4"}


@pytest.mark.parametrize(("stated", "threads"), [("3", 3), ("0", 1)])
def test_a_compaction_gets_the_threads_of_the_configuration(log_dir, monkeypatch, stated, threads):
    asked, compact = [], SameProcess.compact
    monkeypatch.setattr(
        SameProcess, "compact", lambda self, task, *rest: (asked.append(task.threads), compact(self, task, *rest))[1]
    )
    World(log_dir, f"log.cleaner.threads={stated}", state=COMPACT).after(0)
    assert asked == [threads]


def test_between_rounds_nothing_is_done(world):
    world.after(0)
    assert not world.worker.tick()


def test_retention_renames_and_the_removal_follows_when_the_delay_is_over(deleting):
    deleting.after(30_000)
    assert deleting.log.names().count("segment_deleted") == 2
    assert {name for name in file_names(deleting.log_dir / "orders-0") if name.endswith(".log.deleted")}
    deleting.after(15_000).after(44_000)
    assert "files_removed" not in deleting.log.names()
    deleting.after(61_000)
    assert "files_removed" in deleting.log.names()
    assert not [name for name in file_names(deleting.log_dir / "orders-0") if name.endswith(".deleted")]


def test_a_look_that_finds_nothing_changed_plans_nothing(deleting):
    deleting.after(30_000).after(15_000)
    plans = deleting.observer.plans
    deleting.after(15_000).after(15_000)
    assert deleting.observer.plans == plans
    (deleting.log_dir / "state-0" / "x").touch()
    deleting.after(15_000)
    assert deleting.observer.plans == plans + 1


def test_after_a_removal_alone_the_last_plan_holds_still(deleting):
    deleting.after(30_000).after(15_000)
    plans = deleting.observer.plans
    deleting.after(61_000)
    assert "files_removed" in deleting.log.names()
    deleting.after(15_000).after(15_000)
    assert deleting.observer.plans == plans
    (deleting.log_dir / "orders-0" / "x").touch()
    deleting.after(15_000)
    assert deleting.observer.plans == plans + 1


def test_what_others_change_beside_a_removal_is_planned_with(deleting, monkeypatch):
    deleting.after(30_000).after(15_000)
    plans, unlink = deleting.observer.plans, FileSystem.unlink

    def unlinked(self, path, purpose) -> None:
        (deleting.log_dir / "state-0" / "x").touch()
        unlink(self, path, purpose)

    with monkeypatch.context() as patched:
        patched.setattr(FileSystem, "unlink", unlinked)
        deleting.after(61_000)
    deleting.after(15_000)
    assert deleting.observer.plans == plans + 1


def test_what_others_changed_in_the_partition_before_its_removal_is_planned_with(deleting):
    deleting.after(30_000).after(15_000)
    plans = deleting.observer.plans
    deleting.worker.want(
        lambda schedule: replace(schedule, last_ms={**schedule.last_ms, JobKind.SURVEY: far(schedule)})
    )
    (deleting.log_dir / "orders-0" / "x").touch()
    deleting.after(61_000)
    assert "files_removed" in deleting.log.names()
    assert deleting.observer.plans == plans
    deleting.after(15_000)
    assert deleting.observer.plans == plans + 1


def far(schedule: Schedule) -> int:
    """When a survey would have been done last, so that none is due in the next minute."""
    return schedule.last_ms[JobKind.SURVEY] + 61_000


def test_after_a_removal_what_waits_still_is_removed_in_its_turn(deleting, monkeypatch):
    deleting.after(30_000).after(15_000)
    key = (str(deleting.log_dir), ORDERS)
    monkeypatch.setattr("cleaner.daemon.worker.next_removals", lambda _: [(key, NOW_MS + 10**9)])
    deleting.after(61_000)
    assert "files_removed" in deleting.log.names()
    schedules: list[Schedule] = []
    deleting.worker.want(lambda schedule: schedules.append(schedule) or schedule)
    deleting.after(0)
    assert schedules[0].removals_ms == {key: NOW_MS + 10**9}


def test_what_time_alone_makes_cleanable_is_planned_in_time(log_dir):
    world = World(log_dir, state={**COMPACT, "min.compaction.lag.ms": "100000"}, orders=EXPIRING)
    world.after(0).after(15_000)
    assert "segments_compacted" not in world.log.names()
    world.after(90_000)
    assert "segments_compacted" in world.log.names()


def test_observing_only_plans(log_dir):
    world = World(log_dir, orders=EXPIRING_SOON, state=COMPACT)
    world.start(observing=True)
    before = {name: file_names(log_dir / name) for name in ("orders-0", "state-0")}
    world.after(30_000).after(15_000).after(FIVE_MINUTES_MS)
    assert {name: file_names(log_dir / name) for name in before} == before
    assert (world.observer.plans, world.observer.runs, world.log.names()) == (2, 0, [])


def test_while_another_process_has_the_log_dir_nothing_is_changed(world):
    with LogDir(world.log_dir).lock(FileSystem()):
        world.after(30_000).after(15_000)
        assert world.teller.held.keys() == {world.log_dir}
    world.after(15_000)
    assert world.teller.held == {}
    assert world.log.names()[:2] == ["log_dir_held", "log_dir_free"]
    assert "segments_compacted" in world.log.names()


def test_a_compaction_whose_log_dir_is_taken_meanwhile_waits(world, monkeypatch):
    world.worker.want(lambda schedule: schedule.surveyed([(str(world.log_dir), STATE)], {}, corrections=False))
    world.worker.want(lambda schedule: schedule.began(next(iter(surveys(schedule))), NOW_MS))
    with LogDir(world.log_dir).lock(FileSystem()):
        world.after(0)
    assert world.log.names() == ["log_dir_held"]


def surveys(schedule: Schedule):
    from cleaner.daemon.due import due

    return (job for job in due(schedule, NOW_MS) if job.kind is JobKind.SURVEY)


def test_a_child_that_dies_is_counted_and_the_partition_backs_off(world):
    SameProcess.dies = 1
    world.after(0).after(59_000)
    assert world.observer.deaths == 1
    assert "segments_compacted" not in world.log.names()
    assert world.log.fields("partition_backs_off")["pause_ms"] == 60_000
    world.after(1_000)
    assert "segments_compacted" in world.log.names()


def test_a_child_that_cannot_start_is_told_once_and_tried_again_after_a_pause(log_dir):
    for number in range(1, 40):
        shutil.copytree(log_dir / "state-0", log_dir / f"state-{number}")
    partitions = {TopicPartition("state", number): 6 for number in range(40)}
    LogDir(log_dir).write_offsets(HIGH_WATERMARK_CHECKPOINT, partitions, FileSystem())
    world = World(log_dir, orders=EXPIRING_SOON, state=COMPACT)
    SameProcess.unstartable = 3
    world.after(0)
    for _ in range(11):
        world.after(1_000)
    assert world.log.names() == ["compactor_unstartable"]
    assert world.log.fields("compactor_unstartable")["pause_ms"] == 60_000
    world.after(60_000).after(60_000).after(60_000)
    told = [fields["pause_ms"] for name, fields in world.log.events if name == "compactor_unstartable"]
    assert told == [60_000, 120_000, 240_000]
    world.after(3_600_000)
    world.after(3_600_000)
    assert world.log.names().count("segments_compacted") == 40
    assert not world.log.names().count("partition_backs_off")


def test_a_child_that_dies_because_all_ends_is_not_counted(world):
    SameProcess.dies = 1
    world.pulse.told = _EndsAt(world.pulse, "compacting state-0")
    world.after(0)
    assert (world.observer.deaths, world.log.names()) == (0, [])


class _EndsAt(list[str]):
    """Ends the worker when a line is told."""

    def __init__(self, pulse: Supervised, line: str) -> None:
        super().__init__()
        self.pulse, self.line = pulse, line

    def append(self, line: str) -> None:
        if line == self.line:
            self.pulse.is_stopping = True
        super().append(line)


def test_a_child_that_cannot_begin_makes_the_partition_back_off(world):
    SameProcess.refuses = 2
    world.after(0).after(60_000)
    failures = [fields["failures"] for name, fields in world.log.events if name == "partition_backs_off"]
    assert failures == [1, 2]
    assert world.teller.has_failed


def damaged(log_dir: Path) -> Path:
    path = log_dir / "state-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    return path


def test_damage_is_told_and_tried_again_when_the_files_change(world):
    good = (world.log_dir / "state-0" / f"{0:020d}.log").read_bytes()
    path = damaged(world.log_dir)
    world.after(30_000)
    assert "pause_ms" not in world.log.fields("partition_backs_off")
    assert "segment_deleted" in world.log.names()  # of the other partition
    for _ in range(5):
        world.after(FIVE_MINUTES_MS)
    assert world.log.names().count("partition_backs_off") == 1
    path.write_bytes(good)
    world.after(FIVE_MINUTES_MS)
    assert "segments_compacted" in world.log.names()


def test_retention_of_a_damaged_partition_goes_on(log_dir):
    both = {**EXPIRING_SOON, **COMPACT, "cleanup.policy": "compact,delete"}
    world = World(log_dir, orders=both, state=both)
    damaged(log_dir)
    world.after(0)
    world.after(30_000)
    assert [fields["topic"] for name, fields in world.log.events if name == "segment_deleted"] == ["orders"] * 2


def test_complaints_are_logged_once_for_as_long_as_they_last(log_dir):
    world = World(log_dir, orders={**EXPIRING, "max.delete.ratio": "0.1"})
    PartitionDir(log_dir, "broken-0").log(0).write_bytes(b"")
    (log_dir / "broken-0" / "leader-epoch-checkpoint").write_text("nonsense")
    world.after(0).after(FIVE_MINUTES_MS).after(FIVE_MINUTES_MS)
    assert sorted(world.log.names()) == ["config_unknown", "held_back", "partition_failed"]
    assert world.log.fields("config_unknown")["topic"] == "state"
    assert world.teller.newest is not None
    assert (world.teller.newest.has_failures, world.teller.newest.is_held_back) == (True, True)


def test_a_garbled_checkpoint_is_told_and_nothing_is_touched(world):
    (world.log_dir / "log-start-offset-checkpoint").write_text("nonsense")
    world.after(30_000)
    assert set(world.log.names()) == {"log_dir_failed"}


def test_a_reload_applies_what_is_valid_and_keeps_what_was_where_it_is_not(world):
    world.after(0)
    world.layers = NotALogDir(Path("/gone"), "does not exist")
    world.worker.want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
    world.after(0)
    assert world.log.names()[-1] == "config_rejected"
    assert world.observer.failures[-1][0] is JobKind.RELOAD
    world.layers = configured("log.retention.check.interval.ms=1000", orders=EXPIRING_SOON, state=COMPACT)
    world.worker.want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
    world.after(0)
    assert world.log.fields("config_reloaded")["changes"]
    assert world.pulse.reloads == 2
    world.after(30_000).after(1_000)
    assert "segment_deleted" in world.log.names()


def test_a_log_dir_that_is_gone_is_told_and_found_again(world):
    world.log_dir.rename(world.log_dir.with_name("away"))
    world.after(30_000)
    assert "log_dir_failed" in world.log.names()
    world.log_dir.with_name("away").rename(world.log_dir)
    world.after(FIVE_MINUTES_MS)
    assert {"segment_deleted", "segments_compacted"} <= set(world.log.names())


def test_a_log_dir_that_was_away_has_leftovers_finished_like_one_of_the_start(deleting):
    deleting.after(30_000).after(61_000)
    deleting.log_dir.rename(deleting.log_dir.with_name("away"))
    deleting.after(FIVE_MINUTES_MS)
    leftover = deleting.log_dir / "orders-0" / f"{0:020d}.log.cleaned"
    deleting.log_dir.with_name("away").rename(deleting.log_dir)
    leftover.write_bytes(b"half")
    deleting.after(FIVE_MINUTES_MS)
    assert not leftover.exists()


def test_a_log_dir_that_cannot_be_locked_is_told_once_and_when_it_is_over(deleting, monkeypatch):
    def refused(*_args: object, **_kwargs: object) -> None:
        raise UnsafeOwner(deleting.log_dir, 7, 7)

    with monkeypatch.context() as broken:
        broken.setattr(LogDir, "lock", refused)
        deleting.after(30_000).after(FIVE_MINUTES_MS).after(FIVE_MINUTES_MS)
        assert deleting.log.names() == ["log_dir_failed"]
        assert deleting.observer.failing == {str(deleting.log_dir): True}
        assert not any(job.is_whole for job in deleting.observer.jobs if job.kind is JobKind.RETENTION)
    deleting.after(FIVE_MINUTES_MS)
    assert deleting.log.names()[1] == "log_dir_back"
    assert deleting.observer.failing == {str(deleting.log_dir): False}


def test_a_checkpoint_outside_its_log_is_corrected(log_dir):
    world = World(log_dir, orders=EXPIRING, state={**COMPACT, "min.cleanable.dirty.ratio": "1.0"})
    LogDir(log_dir).write_offsets(CLEANER_OFFSET_CHECKPOINT, {STATE: 10_000}, FileSystem())
    (log_dir / "state-0" / f"{0:020d}.log").unlink()
    world.after(0)
    assert LogDir(log_dir).offsets(CLEANER_OFFSET_CHECKPOINT)[STATE] < 10_000
    assert "segments_compacted" not in world.log.names()


def test_run_now_does_everything_at_once(world):
    world.worker.want(Schedule.asked_for_everything)
    world.after(0)
    assert {"segment_deleted", "segments_compacted"} <= set(world.log.names())


def test_with_the_cleaner_disabled_nothing_is_compacted(log_dir):
    world = World(log_dir, "log.cleaner.enable=false", orders=EXPIRING, state=COMPACT)
    world.after(30_000)
    assert "segment_deleted" in world.log.names()
    assert "segments_compacted" not in world.log.names()


def test_a_job_that_fails_does_not_stop_the_others(world, monkeypatch):
    def refused(*_args: object, **_kwargs: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("cleaner.engine.cleaner.Cleaner.clean", refused)
        world.after(30_000).after(15_000)
    assert "job_failed" in world.log.names()
    succeeded = {job.kind: job.succeeded for job in world.observer.jobs}
    assert (succeeded[JobKind.SURVEY], succeeded[JobKind.RETENTION]) == (True, False)


def test_a_removal_that_fails_backs_off(deleting, monkeypatch):
    deleting.after(30_000).after(15_000)

    def refused(*_args: object) -> None:
        raise OSError(1, "Operation not permitted")

    with monkeypatch.context() as broken:
        broken.setattr(FileSystem, "unlink", refused)
        deleting.after(61_000)
    assert "partition_backs_off" in deleting.log.names()
    deleting.after(59_000)
    assert "files_removed" not in deleting.log.names()
    deleting.after(1_000)
    assert "files_removed" in deleting.log.names()


def test_planning_stops_between_two_partitions(world):
    world.pulse.told = _EndsAt(world.pulse, "looking for what there is to do")
    world.after(0)
    assert (world.observer.plans, world.log.names()) == (0, [])


def test_stopping_ends_the_round_between_two_jobs(world):
    world.pulse.is_stopping = True
    world.after(30_000)
    assert world.log.names() == []
    world.worker.stop()


class NoJournal(FileSystem):
    """A disk that takes no line of a journal while ``is_full``."""

    is_full = True

    def create(self, path, like, purpose):
        if purpose is Purpose.JOURNAL and NoJournal.is_full:
            raise OutOfSpace(path, 0)
        return super().create(path, like, purpose)


def use(fs: FileSystem, monkeypatch) -> None:
    """Let the worker, and the child, change log dirs through this file system."""
    for module in ("worker", "compacting"):
        monkeypatch.setattr(f"cleaner.daemon.{module}.Means", partial(Means, fs))


@pytest.fixture
def full(world, monkeypatch):
    use(NoJournal(), monkeypatch)
    monkeypatch.setattr(NoJournal, "is_full", True)
    return world


def contents(log_dir: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in log_dir.glob("*-0/*")}


def failed_jobs(world: World) -> list[str]:
    return [where for where, error in world.observer.failures if "no space for the journal" in error]


def test_a_journal_without_space_stops_everything_and_is_tried_again_each_round(full):
    before = contents(full.log_dir)
    full.after(30_000)
    assert failed_jobs(full) == ["retention"]
    full.after(15_000).after(15_000)
    assert failed_jobs(full) == ["retention"], "not every 15 s"
    full.after(FIVE_MINUTES_MS)
    assert failed_jobs(full) == ["retention"] * 2
    assert contents(full.log_dir) == before
    NoJournal.is_full = False
    full.after(FIVE_MINUTES_MS)
    assert {"segment_deleted", "segments_compacted"} <= set(full.log.names())


def test_one_compaction_that_meets_a_full_journal_speaks_for_its_log_dir(log_dir, full):
    for number in (1, 2, 3):
        state = PartitionDir(log_dir, f"state-{number}")
        for base in (0, 2, 4):
            state.segment(base, keyed(base, "a=1", f"b={base}"))
    full.after(0)
    assert failed_jobs(full) == ["compaction"]
    full.after(15_000).after(FIVE_MINUTES_MS)
    assert failed_jobs(full) == ["compaction", "retention"]


def test_what_a_crash_left_waits_for_the_journal_and_is_then_recovered(log_dir, full):
    left = log_dir / "orders-0" / f"{4:020d}.log.cleaned"
    left.write_bytes(b"")
    full.layers = configured(orders={"cleanup.policy": "delete"})
    full.configuration.reload()
    full.after(30_000)
    assert left.exists()
    NoJournal.is_full = False
    full.after(FIVE_MINUTES_MS)
    assert not left.exists()


def test_removal_goes_on_without_a_journal(deleting, monkeypatch):
    deleting.after(30_000).after(15_000)
    use(NoJournal(), monkeypatch)
    monkeypatch.setattr(NoJournal, "is_full", True)
    (deleting.log_dir / JOURNAL_FILE).rename(deleting.log_dir / ROTATED_JOURNAL_FILE)
    PartitionDir(deleting.log_dir, "orders-1").segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS - 3 * DAY_MS))
    deleting.after(61_000)
    assert "files_removed" in deleting.log.names()
    assert "partition_backs_off" not in deleting.log.names()
