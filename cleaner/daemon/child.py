"""The daemon's side of the compacting child: starts it, hands it one partition at a time, ends it.

What can go wrong: the child cannot be started, which is no fault of a partition (``CompactorUnstartable``); it dies
(killed for want of memory, a bug): ``ChildDied`` says so, and the log dir is as after any crash; it does not end in
time, or stands still, or is silent for long: then it is killed, with the same result.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from cleaner.daemon.messages import Advanced, CompactionTask, Done, TaskRefused, ToldEvent, Unusable
from cleaner.daemon.pulse import Pulse
from cleaner.engine.means import Listener
from cleaner.events import Event
from storage.errors import LogCleanerError

STOP_SECONDS: Final = 0.8
"""The time that a child has to end between two steps, in seconds; the daemon itself has two seconds."""
END_SECONDS: Final = 10.0
"""The time that an idle child has to end when there is no hurry, in seconds."""
SILENT_SECONDS_MAX: Final = 900.0
"""The longest silence of a child, in seconds.

A child that is silent for longer hangs, even if it uses its processor.
"""
STILL_SECONDS_MAX: Final = 60.0
"""The longest time without progress, by processor time and wake-ups. A child that stands still for longer is stopped,
or waits for a dead disk."""
UNKILLED_SECONDS_MAX: Final = 10.0
"""The time in which a killed child must be gone, in seconds.

A child that stays longer hangs in the system, and the watchdog acts.
"""
_LOOK_SECONDS: Final = 0.1
SIGNS_SECONDS: Final = 1.0
_END_LOOK_SECONDS: Final = 0.02


def _always() -> bool:
    return True


class ChildDied(LogCleanerError):
    """The child ended before its task did."""

    status: int
    still_seconds: float | None = None

    @property
    def how(self) -> str:
        """Return how it ended."""
        killed = f"was killed by signal {-self.status}" if self.status < 0 else f"exited with status {self.status}"
        return killed if self.still_seconds is None else f"stood still for {self.still_seconds:.0f} s and {killed}"

    def __str__(self) -> str:
        return f"the compacting process {self.how}; what it left is recovered, and the partition tried again later"


class CompactorUnstartable(LogCleanerError):
    """The child ended before its first task."""

    cause: str

    def __str__(self) -> str:
        return f"the compacting process cannot be started: {self.cause}; nothing is compacted until it can"


class CompactionRefused(LogCleanerError):
    """The child could not begin."""

    cause: str


class CompactingChild:
    """One child, started with its first task, ended by ``close``."""

    def __init__(self, locks: Iterable[int], pulse: Pulse) -> None:
        """Prepare the child, without starting it.

        Args:
            locks: descriptors that the child inherits.
            pulse: says when the daemon must end.
        """
        self._locks = tuple(locks)
        self._pulse = pulse
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._kill_at_seconds = 0.0
        self._signs = _Signs()
        self._is_asked_to_end = False
        self._is_wanted: Callable[[], bool] = _always

    def compact(
        self,
        task: CompactionTask,
        listener: Listener,
        meanwhile: Callable[[], None],
        is_wanted: Callable[[], bool] = _always,
    ) -> Done:
        """Have the child compact one partition, and wait for the result.

        After the child died, the next task starts another one.

        Args:
            task: the partition.
            listener: hears what the child tells.
            meanwhile: called again and again while the child starts, and once its line is in the journal.
            is_wanted: asked behind each ``meanwhile``; once it returns False, the child ends the task between two
            steps, and so before the next swap.

        Raises: ChildDied, also if a signal told the child to end the task; CompactionRefused;
            CompactorUnstartable.
        """
        self._is_wanted = _always  # a child that starts does not read messages yet
        process, connection = self._child = self._child or self._start(meanwhile)
        self._is_wanted = is_wanted
        try:
            connection.send(task)
        except OSError as lost:
            raise self._death() from lost
        beside = _nothing  # until its line is in the journal, which has one writer at a time
        while True:
            match self._next(process, connection, beside):
                case ToldEvent(name, fields):
                    listener.event(name, **fields)
                    beside = meanwhile if name == Event.COMPACTION_BEGUN else beside
                case Advanced(done_bytes):
                    listener.progress(done_bytes)
                case TaskRefused(error):
                    raise CompactionRefused(error)
                case Done() as done:
                    if _was_ended_early(done, task) and is_wanted() and not self._is_asked_to_end:
                        raise ChildDied(-signal.SIGTERM)
                    return done

    def close(self) -> None:
        """End the child: between two steps if it gets there in time. Calling it again does nothing."""
        if self._child is None:
            return
        process, connection = self._child
        self._child = None
        connection.close()
        started_seconds = time.monotonic()
        while process.poll() is None:
            limit_seconds = STOP_SECONDS if self._pulse.stopping() else END_SECONDS
            if time.monotonic() - started_seconds > limit_seconds:
                process.kill()
                process.wait()
            time.sleep(_END_LOOK_SECONDS)

    def _start(self, meanwhile: Callable[[], None]) -> tuple[subprocess.Popen[bytes], Connection]:
        try:
            return self._started(meanwhile)
        except ChildDied as error:
            raise CompactorUnstartable(f"it {error.how}") from error
        except OSError as error:
            raise CompactorUnstartable(str(error)) from error

    def _started(self, meanwhile: Callable[[], None]) -> tuple[subprocess.Popen[bytes], Connection]:
        """Start a child, and return it once it is ready for its first task. Raises: ChildDied, CompactorUnstartable."""
        ours, theirs = Pipe()
        with theirs, _nothing_to_read() as stdin:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "cleaner.daemon.compacting", str(os.getpid()), str(theirs.fileno())],
                pass_fds=(theirs.fileno(), *self._locks),
                stdin=stdin,
                stdout=sys.stderr,
                env=_environment(),
                process_group=0,  # Ctrl-C is for the daemon, which ends the child
            )
        self._child = process, ours
        self._kill_at_seconds = time.monotonic() + SILENT_SECONDS_MAX
        self._signs = _Signs()
        match self._next(process, ours, meanwhile):
            case Unusable(error):
                self.close()
                raise CompactorUnstartable(error)
        return process, ours

    def _next(self, process: subprocess.Popen[bytes], connection: Connection, beside: Callable[[], None]) -> object:
        """Return the next message of the child. Raises: ChildDied."""
        killed_seconds: float | None = None
        while True:
            self._end_if_asked(process)
            if time.monotonic() > self._kill_at_seconds or self._signs.is_still(process.pid):
                killed_seconds = killed_seconds or time.monotonic()
                process.kill()
            if killed_seconds is None or time.monotonic() - killed_seconds < UNKILLED_SECONDS_MAX:
                self._pulse.alive()
            if not self._is_asked_to_end and killed_seconds is None:
                beside()
                if not self._is_wanted():
                    process.terminate()  # again and again: the first may come before the child has begun the task
            try:
                if connection.poll(_LOOK_SECONDS):
                    message = connection.recv()
                    break
            except (EOFError, OSError) as error:
                raise self._death() from error
        if not self._is_asked_to_end:
            self._kill_at_seconds = time.monotonic() + SILENT_SECONDS_MAX
        return message

    def _end_if_asked(self, process: subprocess.Popen[bytes]) -> None:
        if self._pulse.stopping() and not self._is_asked_to_end:
            process.terminate()
            self._kill_at_seconds, self._is_asked_to_end = time.monotonic() + STOP_SECONDS, True

    def _death(self) -> ChildDied:
        assert self._child is not None
        process, _ = self._child
        still_seconds = STILL_SECONDS_MAX if self._signs.has_stopped else None
        self.close()
        return ChildDied(process.returncode, still_seconds)


class _Signs:
    """The progress of a process: whether it used a processor, or at least woke up, since the last look."""

    def __init__(self) -> None:
        self._signs: tuple[bytes, ...] = ()
        self._moved_seconds = self._looked_seconds = time.monotonic()
        self.has_stopped = False

    def is_still(self, pid: int) -> bool:
        """Return whether the process has been still for too long; time in which nobody looked does not count."""
        now_seconds = time.monotonic()
        since_seconds = now_seconds - self._looked_seconds
        if since_seconds < SIGNS_SECONDS:
            return self.has_stopped
        self._looked_seconds = now_seconds
        signs = _signs_of_life(pid)
        if signs != self._signs or not signs or since_seconds > 10 * SIGNS_SECONDS:
            self._signs, self._moved_seconds = signs, now_seconds
        self.has_stopped = now_seconds - self._moved_seconds > STILL_SECONDS_MAX
        return self.has_stopped


def _signs_of_life(pid: int) -> tuple[bytes, ...]:
    """Return counters that change while a process makes progress; None if the system does not tell them."""
    try:
        times = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[11:13]  # utime, stime
        status = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return ()
    return (*times, *(line for line in status if b"ctxt_switches" in line))


def _was_ended_early(done: Done, task: CompactionTask) -> bool:
    """Return whether a signal ended the task before its partition was compacted."""
    result = done.outcome.results.get(task.partition)
    return done.outcome.interrupted and not (result and (result.compacted_from_bytes or result.error))


@contextmanager
def _nothing_to_read() -> Iterator[int]:
    """Yield a descriptor that is at its end, as /dev/null is, which a bare chroot does not have."""
    reading, writing = os.pipe()
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def _nothing() -> None:
    pass


def _environment() -> dict[str, str]:
    """Return our environment without the variables for the service's main process."""
    return {name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}
