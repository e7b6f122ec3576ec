"""The daemon of a life: one process that stays alive between steps, and does its turns when a step lets it.

Its worker waits at a gate before each turn, so that the world changes while the daemon knows what it knew. Clock and
gate lie in memory that both processes see. The compacting process is forked, too, so it lives by the same clock.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from cleaner.daemon import child, compacting, daemon
from cleaner.daemon.daemon import Daemon
from cleaner.daemon.worker import Worker
from storage.filesystem import Purpose
from tests.faults import SteppingFileSystem
from tests.lives.running import Breaks, LifeClock, Told, log_of, put_under, start

_MOMENTS_MAX: Final = 4_000
_ASKED, _SERVED, _WANTED, _KILL_IN, _CHILD, _NOW, _BOOTED, _MOMENTS, _HEAD = range(9)
"""Places in the memory that both see: turns asked for and done, signals taken, changes before a SIGKILL, the
compacting process, and the clock."""
_PATIENCE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.002
ALIVE: Final = -1
"""The status of a daemon that lives and that told of an error."""


class Resident:
    """A daemon that lives."""

    def __init__(self, words: tuple[str, ...], clock: LifeClock, room: Path, log_dir: Path, breaks: Breaks | None):
        """Start it, and wait until its worker waits at the gate."""
        self._clock, self._read, self.has_failed = clock, 0, False
        self._shared = np.frombuffer(mmap.mmap(-1, 8 * (_HEAD + 2 * _MOMENTS_MAX)), dtype=np.int64)
        self._shared[_SERVED] = -1
        self._tell_clock()

        def prepares() -> None:
            if breaks:
                breaks()
            _wait_at_gate(self._shared)

        seen: Any = _Following(self._shared)
        self._started = start(words, seen, room, log_dir, None, prepares)
        self.status: int | None = None
        self._await(lambda: self._shared[_SERVED] == self._shared[_ASKED])

    @property
    def is_alive(self) -> bool:
        """Return whether it lives."""
        if self.status is None:
            pid, status = os.waitpid(self._started.pid, os.WNOHANG)
            if pid:
                self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
                self._await_child()
        return self.status is None

    def takes(self, number: int) -> None:
        """Send a signal, and wait until the daemon took it; none of those that end it."""
        if self.is_alive:
            before = self._shared[_WANTED]
            os.kill(self._started.pid, number)
            self._await(lambda: self._shared[_WANTED] > before)

    @contextmanager
    def turns(self, kill_in: int = 0) -> Iterator[None]:
        """Let it do its turns until nothing is due.

        Args:
            kill_in: the change before which SIGKILL ends the process that makes it; 0 for none.
        """
        self._tell_clock()
        self._shared[_KILL_IN] = kill_in
        self._shared[_ASKED] += 1
        yield
        self._await(lambda: self._shared[_SERVED] == self._shared[_ASKED])
        self._shared[_KILL_IN] = 0

    def ends(self, number: int) -> int:
        """Send a signal that ends it; return its status."""
        if self.is_alive:
            os.kill(self._started.pid, number)
            self._await(lambda: False)
        assert self.status is not None
        return self.status

    def told(self, *, was_killed: bool = False) -> Told:
        """Return what it said since the last time."""
        said = log_of(self._started)[self._read :]
        self._read += len(said)
        is_quiet = not any(level in said for level in ("[warning", "[error", "[critical", "Traceback"))
        self.has_failed |= not is_quiet
        status = (0 if is_quiet else ALIVE) if self.is_alive else self.status or 0
        return Told(self._started.words, status, "", said, was_killed or status == ALIVE)

    def _await(self, is_so: Callable[[], bool]) -> None:
        """Wait for something, or for its end."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while self.is_alive and not is_so():
            if time.monotonic() > until:
                raise TimeoutError(f"the daemon does not go on: {log_of(self._started)[-2000:]}")
            time.sleep(_LOOK_SECONDS)

    def _await_child(self) -> None:
        """Wait for the end of the compacting process, which the system kills with the daemon."""
        if pid := int(self._shared[_CHILD]):
            with suppress(OSError):
                while Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z":
                    time.sleep(_LOOK_SECONDS)

    def _tell_clock(self) -> None:
        moments = np.array(self._clock.moments, dtype=np.int64).ravel()
        self._shared[_HEAD : _HEAD + moments.size] = moments
        self._shared[[_NOW, _BOOTED, _MOMENTS]] = self._clock.now_ms, self._clock.booted_ms, moments.size


class _Following:
    """The clock of a life, as another process sees it."""

    def __init__(self, shared: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._shared = shared

    @property
    def now_ms(self) -> int:
        return int(self._shared[_NOW])

    @property
    def booted_ms(self) -> int:
        return int(self._shared[_BOOTED])

    def changed_ns(self, status: os.stat_result) -> int:
        """Return when a file was changed, by the clock of the life."""
        moments = self._shared[_HEAD : _HEAD + int(self._shared[_MOMENTS])].reshape(-1, 2)
        place = int(np.searchsorted(moments[:, 0], status.st_ctime_ns, "right"))
        return int(moments[max(place - 1, 0), 1]) * 1_000_000


# ---- in the process of the daemon ---------------------------------------------------------------------------------


class _KilledWhenTold(SteppingFileSystem):
    """Counts down to the end of the process that makes a change."""

    def __init__(self, shared: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._shared = shared

    def step(self, purpose: Purpose) -> None:
        if self._shared[_KILL_IN] > 0:
            self._shared[_KILL_IN] -= 1
            if not self._shared[_KILL_IN]:
                os.kill(os.getpid(), signal.SIGKILL)


def _wait_at_gate(shared: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """Make the daemon of this process wait before each turn until a step asks for it."""
    tick, want, judge = Worker.tick, Worker.want, os.getppid()

    def gated(self: Worker, **given: Any) -> bool:
        if shared[_SERVED] == -1:
            shared[_SERVED] = 0
        while shared[_SERVED] == shared[_ASKED]:
            if os.getppid() != judge:
                os._exit(1)
            if self._pulse.stopping():
                return False
            time.sleep(_LOOK_SECONDS)
        asked = int(shared[_ASKED])
        has_worked = tick(self, **given)
        if not has_worked:
            shared[_SERVED] = asked
        return has_worked

    def wanted(self: Worker, change: Any) -> None:
        want(self, change)
        shared[_WANTED] += 1

    @contextmanager
    def unscheduled(_daemon: Daemon) -> Iterator[None]:
        yield  # the gate takes the place of the scheduler

    put_under(_KilledWhenTold(shared))
    replaced: tuple[tuple[type, str, Any], ...] = (
        (Worker, "tick", gated),
        (Worker, "want", wanted),
        (Daemon, "_scheduler", unscheduled),
    )
    for owner, name, value in replaced:
        setattr(owner, name, value)
    for name, seconds in (("TICK_SECONDS", 0.2), ("_TICKS_MISSED_MAX", 0.01)):
        setattr(daemon, name, seconds)

    def forked(*given: Any, **options: Any) -> _Forked:
        made = _Forked(*given, **options)
        shared[_CHILD] = made.pid
        return made

    child.subprocess = SimpleNamespace(Popen=forked)  # type: ignore[assignment]


class _Forked:
    """The compacting process, in place of one that loads everything anew."""

    def __init__(self, words: list[str], *, pass_fds: tuple[int, ...], stdin: int, **_options: Any) -> None:
        self.returncode: int | None = None
        whole, descriptor = os.getpid(), int(words[-1])
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)
                os.dup2(stdin, 0)
                for number in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208 - numbers
                    if number > 2 and number not in pass_fds:
                        with suppress(OSError):
                            os.close(number)
                compacting.end_with(whole)
                compacting.main(descriptor)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)

    def poll(self) -> int | None:
        """Return its status if it ended."""
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end."""
        return self._ended(0)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
        return self.returncode
