"""The daemon's threads and signals, in this process."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from cleaner.cli.main import main
from cleaner.config.layers import LoadedLayers, Settings
from cleaner.daemon import daemon as module
from cleaner.daemon.configuration import Configuration
from cleaner.daemon.daemon import Daemon, Notifier
from cleaner.daemon.observer import DaemonState, Observer
from cleaner.daemon.worker import Worker
from cleaner.engine.clock import SystemClock
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.cleaner.daemon.test_worker import Recorded
from tests.partition_dirs import PartitionDir, committed, configured, keyed


class States(Observer):
    def __init__(self) -> None:
        self.states: list[DaemonState] = []
        self.deaths = 0
        self.states_when_configured: list[list[DaemonState]] = []

    def state(self, state: DaemonState) -> None:
        self.states.append(state)

    def configured(self, now_ms: int, *, succeeded: bool) -> None:
        self.states_when_configured.append(list(self.states))

    def worker_died(self, where: object = None) -> None:
        self.deaths += 1


@pytest.fixture
def log_dir(tmp_path):
    return committed(tmp_path / "data", PartitionDir(tmp_path / "data", "orders-0").segment(0, keyed(0, "a=1")))


class Running:
    """A daemon whose main loop runs in the main thread, and a script of what happens meanwhile in another."""

    def __init__(self, log_dir, *, observing: bool = False) -> None:
        loaded = LoadedLayers(configured(orders={"cleanup.policy": "delete"}), (log_dir,), None, Settings())
        self.log, self.observer = Recorded(), States()
        self.log.bind = lambda **_: self.log  # type: ignore[method-assign]
        configuration = Configuration(lambda: loaded)
        self.daemon = Daemon(configuration, SystemClock(), self.log, self.observer, {}, observing=observing)

    def run(self, *script) -> int:
        has_ended = threading.Event()

        def play() -> None:
            try:
                for step in script:
                    self.wait(step)
            finally:
                if not has_ended.is_set():  # else nobody takes the signal, and it would end the tests
                    os.kill(os.getpid(), signal.SIGTERM)

        player = threading.Thread(target=play)
        player.start()
        try:
            return self.daemon.run()
        finally:
            has_ended.set()
            player.join()

    def wait(self, step) -> None:
        deadline = time.monotonic() + 120
        while not step():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def is_ready(self) -> bool:
        return any(state.ready for state in self.observer.states)


def sending(number: signal.Signals):
    return lambda: os.kill(os.getpid(), number) is None


@pytest.mark.parametrize("once", [False, True])
def test_a_signal_right_behind_the_first_event_is_taken(log_dir, monkeypatch, once):
    running, before, then = Running(log_dir), signal.getsignal(signal.SIGTERM), []
    told = running.log.event

    def event(name, **fields):
        told(name, **fields)
        if name == "daemon_started":
            then.append(signal.getsignal(signal.SIGTERM))

    monkeypatch.setattr(running.log, "event", event)
    assert running.run(running.is_ready) if not once else running.daemon.once()
    assert then
    assert before not in then


def test_it_serves_until_it_is_asked_to_end(log_dir):
    running, others = Running(log_dir), {*threading.enumerate()}
    before = signal.getsignal(signal.SIGTERM)
    assert running.run(running.is_ready) == signal.SIGTERM
    assert {*threading.enumerate()} <= others
    assert signal.getsignal(signal.SIGTERM) is before
    first, *_, last = running.observer.states
    assert (first.ready, first.reason, last.reason) == (False, "starting", "stopping")
    assert "serving 1 partitions" in [state.reason for state in running.observer.states]
    assert (running.log.names()[0], running.log.names()[-1]) == ("daemon_started", "daemon_stopped")


def test_a_signal_stops_the_worker_of_a_single_turn(log_dir, monkeypatch):
    begun, stopped = threading.Event(), threading.Event()

    def tick(worker, *, is_once):
        begun.set()
        stopped.wait(30)

    monkeypatch.setattr(Worker, "tick", tick)
    monkeypatch.setattr(Worker, "stop", lambda worker: stopped.set())
    others = {*threading.enumerate()}
    player = threading.Thread(target=lambda: begun.wait(30) and os.kill(os.getpid(), signal.SIGTERM))
    player.start()
    _, ended_by = Running(log_dir).daemon.once()
    player.join()
    assert (ended_by, stopped.is_set(), {*threading.enumerate()} <= others) == (signal.SIGTERM, True, True)


def test_the_observer_knows_the_configuration_before_the_first_work(log_dir):
    running = Running(log_dir)
    running.run(running.is_ready)
    states = running.observer.states_when_configured[0]
    assert [(state.ready, state.reason) for state in states] == [(False, "starting")]


def test_signals_ask_for_a_reload_and_for_everything_now(log_dir, monkeypatch):
    wanted = []
    want = Worker.want
    monkeypatch.setattr(Worker, "want", lambda self, change: (wanted.append(change), want(self, change))[1])
    to_systemd = []
    monkeypatch.setattr(Notifier, "reloading", lambda _: to_systemd.append("reloading"))
    running = Running(log_dir)
    script = (running.is_ready, sending(signal.SIGHUP), lambda: len(wanted) == 1)
    jobs = {"reading the configuration again", "applying retention"}
    running.run(
        *(*script, sending(signal.SIGUSR1), lambda: len(wanted) == 2),
        lambda: jobs <= {state.reason for state in running.observer.states},
        lambda: any(totals.get("asked_by") == "SIGUSR1" for totals in running.log.rounds),
    )
    assert "round_asked" in running.log.names()
    assert to_systemd == ["reloading"]


def test_a_worker_that_died_is_started_again_and_counted(log_dir, monkeypatch):
    tick, calls = Worker.tick, []

    def dying(self) -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        return tick(self)

    monkeypatch.setattr(Worker, "tick", dying)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    running = Running(log_dir)
    running.run(running.is_ready)
    assert running.observer.deaths == 1
    assert "worker_died" in running.log.names()


def test_a_worker_that_hangs_is_seen_and_abandoned(log_dir, monkeypatch):
    monkeypatch.setattr(module, "HUNG_SECONDS", 0.1)
    monkeypatch.setattr(module, "STOP_SECONDS", 0.1)
    released = threading.Event()
    monkeypatch.setattr(Worker, "tick", lambda self: released.wait(30))
    running, others = Running(log_dir), {*threading.enumerate()}
    running.run(lambda: any(state.hung_since_ms for state in running.observer.states))
    left = {*threading.enumerate()} - others
    is_left_alone = {thread.daemon for thread in left} == {True}  # else Python waits for it
    released.set()
    assert any(state.hung_since_ms for state in running.observer.states)
    assert is_left_alone


def test_a_worker_that_has_nothing_to_do_is_not_taken_for_one_that_hangs(log_dir, monkeypatch):
    monkeypatch.setattr(module, "HUNG_SECONDS", 1.0)
    monkeypatch.setattr(module, "TICK_SECONDS", 0.1)
    monkeypatch.setattr(Worker, "tick", lambda self: False)
    running, until_seconds = Running(log_dir), time.monotonic() + 2.5
    running.run(lambda: time.monotonic() > until_seconds)
    assert not any(state.hung_since_ms for state in running.observer.states)


def test_while_a_broker_holds_the_log_dir_it_says_so(log_dir):
    running = Running(log_dir)
    with LogDir(log_dir).lock(FileSystem()):
        running.run(running.is_ready)
        running.wait(running.is_ready)
    ready = [state for state in running.observer.states if state.ready]
    assert any(state.observing and f"{log_dir} is held by" in state.reason for state in ready)


def test_what_others_do_is_told_once_a_tick(log_dir):
    running = Running(log_dir)

    def removes() -> bool:
        for base in (1, 2):
            (log_dir / "orders-0" / f"{base:020d}.log").write_bytes(b"")
        time.sleep(0.3)
        for base in (1, 2):
            (log_dir / "orders-0" / f"{base:020d}.log").unlink()
        (log_dir / "other-0").mkdir()
        return True

    running.run(running.is_ready, removes, lambda: {"files_vanished", "partition_appeared"} <= set(running.log.names()))
    assert sum(fields["files"] for name, fields in running.log.events if name == "files_vanished") == 2


class TestOnce:
    def test_does_a_round_and_ends(self, log_dir, capsys):
        args = ["run", "--once", "--log-dir", str(log_dir), "--set", "cleanup.policy=delete", "-v"]
        assert main([*args, "--set", "clock.jump.max=100000d"]) == 0
        assert "retention" in capsys.readouterr().err

    def test_observing_too(self, log_dir):
        assert main(["run", "--once", "--observe", "--log-dir", str(log_dir)]) == 5  # nobody stated a policy

    def test_a_held_log_dir_has_its_status(self, log_dir):
        with LogDir(log_dir).lock(FileSystem()):
            assert main(["run", "--once", "--log-dir", str(log_dir), "--set", "cleanup.policy=delete"]) == 3

    def test_a_failure_has_its_status(self, log_dir):
        (log_dir / "cleaner-offset-checkpoint").write_text("nonsense")
        assert main(["run", "--once", "--log-dir", str(log_dir), "--set", "cleanup.policy=delete"]) == 1

    def test_no_log_dir_is_wrong_usage_and_a_missing_one_not_there_yet(self, tmp_path, capsys):
        assert main(["run", "--once"]) == 2
        assert main(["run", "--once", "--log-dir", str(tmp_path / "nowhere")]) == 6
        assert "does not exist" in capsys.readouterr().err

    def test_a_signal_has_its_status(self, log_dir, monkeypatch):
        monkeypatch.setattr(Worker, "tick", lambda self, **_: os.kill(os.getpid(), signal.SIGINT) or time.sleep(0.5))
        assert main(["run", "--once", "--log-dir", str(log_dir), "--set", "cleanup.policy=delete"]) == 130


def test_the_daemon_serves_until_sigterm(log_dir, monkeypatch):
    monkeypatch.setattr(module.Daemon, "run", lambda self: signal.SIGTERM)
    assert main(["run", "--log-dir", str(log_dir)]) == 0
