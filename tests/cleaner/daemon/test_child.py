"""The compacting child, from both sides: a real process, and what it does, done here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import pytest

from cleaner.daemon import child as module
from cleaner.daemon import compacting
from cleaner.daemon.child import ChildDied, CompactingChild, CompactionRefused, CompactorUnstartable
from cleaner.daemon.messages import Advanced, CompactionTask, Done, Ready, TaskRefused, ToldEvent, Unusable
from cleaner.engine.means import Silent
from policies.config.config_layers import Configured
from policies.plan import Only, Request
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import TopicPartition
from tests.partition_dirs import COMPACT, NOW_MS, PartitionDir, committed, configured, keyed, latest


class Listening(Silent):
    def __init__(self) -> None:
        self.names: list[str] = []

    def event(self, name: str, **fields: object) -> None:
        self.names.append(name)


class Supervised:
    def __init__(self) -> None:
        self.is_stopping = False

    def alive(self) -> None:
        pass

    def tell(self, text: str) -> None:
        pass

    def stopping(self) -> bool:
        return self.is_stopping

    def reloading(self) -> None:
        pass

    def reloaded(self) -> None:
        pass


@pytest.fixture
def log_dir(tmp_path):
    drawn = PartitionDir(tmp_path / "data", "state-0")
    for base in (0, 2, 4):
        drawn.segment(base, keyed(base, "a=1", f"b={base}"))
    return committed(tmp_path / "data", drawn)


@pytest.fixture
def lock(log_dir):
    with LogDir(log_dir).lock(FileSystem()) as lock:
        yield lock


def task(log_dir: Path, lock: int, *set_options: str) -> CompactionTask:
    request = Request(NOW_MS, Only.COMPACTION)
    found = Configured((log_dir,), configured(*set_options, state=COMPACT))
    return CompactionTask((str(log_dir), TopicPartition("state", 0)), found, request, 1, lock)


def nothing() -> None:
    pass


@pytest.fixture
def started(monkeypatch):
    """Every process that is started."""
    processes, start = [], subprocess.Popen.__init__

    def noted(process, *args, **options) -> None:
        processes.append(process)
        start(process, *args, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    return processes


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_child_starts_where_there_is_no_dev_null_and_leaves_no_descriptor_open(log_dir, lock, monkeypatch):
    monkeypatch.setattr(os, "devnull", "/nowhere/null")  # as in a bare chroot
    before = descriptors()
    with closing(CompactingChild([lock.descriptor], Supervised())) as child:
        done = child.compact(task(log_dir, lock.descriptor), Listening(), nothing)
    assert done.outcome.results
    assert descriptors() == before


def test_a_child_compacts_one_partition_after_the_other_and_ends(log_dir, lock, started):
    listener, meanwhile = Listening(), []
    with closing(CompactingChild([lock.descriptor], Supervised())) as compactor:
        done = compactor.compact(task(log_dir, lock.descriptor), listener, lambda: meanwhile.append(1))
        assert not compactor.compact(task(log_dir, lock.descriptor), listener, nothing).outcome.results
    assert [process.returncode for process in started] == [0]
    assert [result.error for result in done.outcome.results.values()] == [None]
    assert listener.names == ["compaction_begun", "segments_compacted"]
    assert latest(log_dir / "state-0") == {b"a": b"1", b"b": b"4"}
    assert meanwhile
    compactor.close()


def test_what_the_child_is_not_given_the_lock_of_it_does_not_touch(log_dir, lock):
    other = os.open(log_dir / ".lock", os.O_RDWR)
    with (
        closing(CompactingChild([other], Supervised())) as compactor,
        pytest.raises(CompactionRefused, match="held by"),
    ):
        compactor.compact(task(log_dir, other), Listening(), nothing)
    os.close(other)


def stub(monkeypatch, code: str) -> None:
    """A child that runs this instead; FD is its connection."""
    start = "import sys, time, signal; from multiprocessing.connection import Connection"
    command = ["-c", f"{start}\nc = Connection(int(sys.argv[-1]))\n{code}"]
    popen = module.subprocess.Popen

    def instead(arguments, **options):
        return popen([sys.executable, *command, arguments[-1]], **options)

    monkeypatch.setattr(module.subprocess, "Popen", instead)


def test_a_child_that_stands_still_is_killed_and_told(log_dir, lock, monkeypatch):
    monkeypatch.setattr(module, "STILL_SECONDS_MAX", 1.0)
    monkeypatch.setattr(module, "SIGNS_SECONDS", 0.1)
    stub(monkeypatch, "c.send(0); c.recv(); import os; os.kill(os.getpid(), signal.SIGSTOP); c.send(0)")
    with (
        closing(CompactingChild([lock.descriptor], Supervised())) as compactor,
        pytest.raises(ChildDied, match="stood still for 1 s"),
    ):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)


def test_a_child_that_works_or_sleeps_between_two_steps_does_not_stand_still(log_dir, lock, monkeypatch):
    monkeypatch.setattr(module, "STILL_SECONDS_MAX", 1.0)
    monkeypatch.setattr(module, "SIGNS_SECONDS", 0.1)
    works = "t = time.monotonic()\nwhile time.monotonic() < t + 2: pass\n"
    sleeps = "[time.sleep(0.3) for _ in range(8)]\n"
    stub(monkeypatch, f"c.send(0); c.recv()\n{works}{sleeps}sys.exit(3)")
    with (
        closing(CompactingChild([lock.descriptor], Supervised())) as compactor,
        pytest.raises(ChildDied, match="process exited with"),
    ):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)


def test_while_the_daemon_itself_is_busy_nobody_says_that_the_child_stands_still(log_dir, lock, monkeypatch):
    monkeypatch.setattr(module, "STILL_SECONDS_MAX", 1.0)
    monkeypatch.setattr(module, "SIGNS_SECONDS", 0.1)
    told = "from cleaner.daemon.messages import ToldEvent\nfrom cleaner.events import Event"
    begun = "c.send(ToldEvent(Event.COMPACTION_BEGUN, {})); time.sleep(2.2); sys.exit(3)"
    stub(monkeypatch, f"{told}\nc.send(0); c.recv(); {begun}")
    with (
        closing(CompactingChild([lock.descriptor], Supervised())) as compactor,
        pytest.raises(ChildDied, match="process exited with"),
    ):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), lambda: time.sleep(1.5))


class Pinged(Supervised):
    def __init__(self) -> None:
        super().__init__()
        self.pings = 0

    def alive(self) -> None:
        self.pings += 1


def test_no_sign_of_life_is_given_for_a_child_that_cannot_even_be_killed(log_dir, lock, monkeypatch):
    monkeypatch.setattr(module, "STILL_SECONDS_MAX", 0.3)
    monkeypatch.setattr(module, "SIGNS_SECONDS", 0.1)
    monkeypatch.setattr(module, "UNKILLED_SECONDS_MAX", 0.0)
    pinged, pings_at_kill = Pinged(), []

    def unkillable(process) -> None:
        pings_at_kill.append(pinged.pings)
        if len(pings_at_kill) == 12:
            process.send_signal(signal.SIGKILL)

    monkeypatch.setattr(subprocess.Popen, "kill", unkillable)
    stub(monkeypatch, "c.send(0); c.recv(); import os; os.kill(os.getpid(), signal.SIGSTOP)")
    with closing(CompactingChild([lock.descriptor], pinged)) as compactor, pytest.raises(ChildDied):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)
    assert len(set(pings_at_kill)) == 1


@pytest.mark.parametrize(
    ("program", "told"), [("/bin/false", "exited with status 1"), ("/no/such/python", "No such file")]
)
def test_a_child_that_cannot_be_started_is_no_fault_of_the_partition(log_dir, lock, monkeypatch, program, told):
    monkeypatch.setattr(sys, "executable", program)
    with (
        closing(CompactingChild([lock.descriptor], Supervised())) as compactor,
        pytest.raises(CompactorUnstartable, match=told),
    ):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)


def test_a_child_that_has_no_kernels_is_no_fault_of_the_partition_and_ends(log_dir, lock, monkeypatch, started):
    stub(monkeypatch, "from cleaner.daemon.messages import Unusable; c.send(Unusable('not compiled')); c.poll(9)")
    told = "cannot be started: not compiled; nothing is compacted until it can"
    with closing(CompactingChild([lock.descriptor], Supervised())) as compactor:
        with pytest.raises(CompactorUnstartable, match=told):
            compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)
        assert [process.returncode is None for process in started] == [False]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("c.send(0); c.recv(); sys.exit(3)", "exited with status 3"),
        ("c.send(0); c.recv(); sys.exit(0)", "exited with status 0"),
        ("c.send(0); c.recv(); import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
    ],
)
def test_a_child_that_dies_is_told_and_the_next_task_starts_another(log_dir, lock, monkeypatch, code, told):
    compactor = CompactingChild([lock.descriptor], Supervised())
    with monkeypatch.context() as stubbed:
        stub(stubbed, code)
        with pytest.raises(ChildDied, match=told):
            compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)
    with closing(compactor):
        assert compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing).outcome.results


def test_a_child_that_somebody_tells_to_end_has_died_like_one_that_is_killed(log_dir, lock, started):
    class Terminating(Listening):
        def event(self, name: str, **fields: object) -> None:
            super().event(name, **fields)
            started[0].terminate()

    slow = task(log_dir, lock.descriptor, "log.cleaner.io.max.bytes.per.second=20")
    compactor = CompactingChild([lock.descriptor], Supervised())
    with closing(compactor), pytest.raises(ChildDied, match="killed by signal 15"):
        compactor.compact(slow, Terminating(), nothing)


_PARENT = """
import os, sys, time
from pathlib import Path
from cleaner.daemon.child import CompactingChild
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.cleaner.daemon.test_child import Listening, Supervised, nothing, task
def stand_still():
    (pid,) = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    os.kill(int(pid), 19)
    print(pid, flush=True)
    time.sleep(100)
log_dir = Path(sys.argv[1])
with LogDir(log_dir).lock(FileSystem()) as lock:
    slow = task(log_dir, lock.descriptor, "log.cleaner.io.max.bytes.per.second=1")
    CompactingChild([lock.descriptor], Supervised()).compact(slow, Listening(), nothing, stand_still)
"""


def test_a_child_does_not_outlive_the_daemon_even_if_it_stands_still(log_dir):
    """Such a child would hold the locks, and keep brokers out."""
    with subprocess.Popen([sys.executable, "-c", _PARENT, str(log_dir)], stdout=subprocess.PIPE) as daemon:
        pid = int(daemon.stdout.readline())
        time.sleep(0.2)
        daemon.kill()
    until_seconds = time.monotonic() + 120
    while is_alive(pid) and time.monotonic() < until_seconds:
        time.sleep(0.05)
    died = not is_alive(pid)
    if not died:
        os.kill(pid, signal.SIGKILL)
    assert died


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_whose_daemon_is_gone_already_ends_at_once():
    done = subprocess.run(
        [sys.executable, "-m", "cleaner.daemon.compacting", "1", "0"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"the daemon is gone\n")


def test_a_child_that_tells_nothing_for_long_is_killed(log_dir, lock, monkeypatch):
    stub(monkeypatch, "c.send(0); c.recv(); time.sleep(100)")

    def not_so_long() -> None:
        monkeypatch.setattr(module, "SILENT_SECONDS_MAX", 0.0)  # once it has told that it is ready

    with (
        closing(CompactingChild([lock.descriptor], Supervised())) as compactor,
        pytest.raises(ChildDied, match="signal 9"),
    ):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), not_so_long)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("c.send(0); c.recv(); time.sleep(100)", "signal 15"),
        ("signal.signal(15, signal.SIG_IGN); c.send(0); c.recv(); time.sleep(100)", "signal 9"),
    ],
)
def test_when_all_ends_the_child_is_asked_and_then_killed(log_dir, lock, monkeypatch, code, told):
    monkeypatch.setattr(module, "STOP_SECONDS", 1.0)
    stub(monkeypatch, code)
    supervised = Supervised()
    threading.Timer(1.0, lambda: setattr(supervised, "is_stopping", True)).start()
    with closing(CompactingChild([lock.descriptor], supervised)) as compactor, pytest.raises(ChildDied, match=told):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)


def test_a_child_that_does_not_end_is_killed(log_dir, lock, monkeypatch, started):
    monkeypatch.setattr(module, "END_SECONDS", 0.2)
    refuses = "from cleaner.daemon.messages import TaskRefused; c.send(TaskRefused('no'))"
    stub(monkeypatch, f"c.send(0); c.recv(); {refuses}; time.sleep(100)")
    compactor = CompactingChild([lock.descriptor], Supervised())
    with pytest.raises(CompactionRefused):
        compactor.compact(task(log_dir, lock.descriptor), Listening(), nothing)
    compactor.close()
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_the_child_does_tasks_until_the_connection_is_closed(log_dir, lock):
    ours, theirs = Pipe()
    heard: list[object] = []

    def daemon() -> None:
        assert ours.recv() == Ready()
        for one in (task(log_dir, lock.descriptor), task(log_dir, -1)):
            ours.send(one)
            while not isinstance(message := ours.recv(), Done | TaskRefused):
                heard.append(message)
            heard.append(message)
        ours.close()

    other_side = threading.Thread(target=daemon)
    other_side.start()
    previous = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    compacting.main(os.dup(theirs.fileno()))
    for number, handler in zip((signal.SIGTERM, signal.SIGINT), previous, strict=True):
        signal.signal(number, handler)
    other_side.join()
    kinds = [type(message) for message in heard]
    assert (kinds[0], kinds[-2], kinds[-1]) == (ToldEvent, Done, TaskRefused)
    assert Advanced in kinds


def test_a_child_without_kernels_says_so_before_its_first_task(monkeypatch):
    monkeypatch.setattr(compacting, "why_unusable", lambda: "not compiled")
    monkeypatch.setattr(compacting.signal, "signal", lambda *_: None)
    ours, theirs = Pipe()
    compacting.main(os.dup(theirs.fileno()))
    theirs.close()
    assert ours.recv() == Unusable("not compiled")
    with pytest.raises(EOFError):
        ours.recv()


def test_where_the_daemon_is_gone_the_child_ends_between_two_steps(log_dir, lock):
    ours, theirs = Pipe()
    ours.close()
    relay = compacting.Relay(theirs)
    answer = compacting.answer(task(log_dir, lock.descriptor), relay)
    assert isinstance(answer, Done)
    assert answer.outcome.interrupted
    assert latest(log_dir / "state-0") == {b"a": b"1", b"b": b"4"}


def test_a_signal_before_the_first_task_ends_none(log_dir, lock):
    ours, theirs = Pipe()
    relay = compacting.Relay(theirs)
    relay.stop()
    answer = compacting.answer(task(log_dir, lock.descriptor), relay)
    assert isinstance(answer, Done)
    assert (answer.outcome.interrupted, ours.poll()) == (False, True)
    assert latest(log_dir / "state-0") == {b"a": b"1", b"b": b"4"}
