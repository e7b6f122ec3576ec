"""The child process in which the daemon compacts. It ends with its work, and its memory goes with it.

``python -m cleaner.daemon.compacting PID FD``: PID is the daemon, FD a connection to it, over which values come and go.

What they say is in ``cleaner.daemon.messages``; where either closes the connection, the child ends between two steps.
The child inherits the descriptors of the locks, so that the log dirs stay locked as long as it lives. Should the daemon
die, the system kills the child: every step is safe to crash behind, and a broker that starts need not wait for its end.
SIGTERM and SIGINT end a task between two steps.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from cleaner.daemon.messages import Advanced, CompactionTask, Done, Ready, TaskRefused, ToldEvent, Unusable
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.locks import LentLocks
from cleaner.engine.means import Means
from cleaner.errors import told
from storage.errors import LogCleanerError
from storage.kernels import why_unusable
from storage.lock import LogDirLock

_PR_SET_PDEATHSIG: Final = 1


class Relay:
    """A listener that passes events on to the daemon. If the daemon is gone, the listener ends the task."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.cleaner: Cleaner | None = None

    def event(self, name: str, **fields: object) -> None:
        """Pass an event on to the daemon."""
        self._send(ToldEvent(name, fields))

    def expect(self, size_bytes: int) -> None:
        """Send nothing: the event ``compaction_begun`` tells the daemon the size."""

    def progress(self, done_bytes: int) -> None:
        """Pass on how many bytes were done."""
        self._send(Advanced(done_bytes))

    def _send(self, message: object) -> None:
        try:
            self._connection.send(message)
        except OSError:
            self.stop()

    def stop(self, *_signal: object) -> None:
        """End the task between two steps."""
        if self.cleaner:
            self.cleaner.stop()


def main(descriptor: int) -> None:
    """Do tasks until the daemon closes the connection."""
    with Connection(descriptor) as connection:
        relay = Relay(connection)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, relay.stop)
        if error := why_unusable():
            connection.send(Unusable(error))
            return
        import cleaner.engine.compaction  # noqa: F401, PLC0415 - behind the handlers: it takes a while

        message: Ready | Done | TaskRefused = Ready()
        while True:
            try:
                connection.send(message)
                message = answer(connection.recv(), relay)
            except (EOFError, OSError):
                return


def answer(task: CompactionTask, relay: Relay) -> Done | TaskRefused:
    """Do one task. Return its result; an error is a result, too."""
    try:
        relay.cleaner = _cleaner(task, relay)
        return Done(*relay.cleaner.clean(task.request))
    except (LogCleanerError, OSError, MemoryError) as error:
        return TaskRefused(told(error))


def _cleaner(task: CompactionTask, relay: Relay) -> Cleaner:
    log_dir, wanted = task.partition
    lock = LogDirLock.inherited(Path(log_dir), task.lock)
    return Cleaner(
        task.configured._replace(log_dirs=(Path(log_dir),)),
        Means(listener=relay, threads=task.threads),
        locks=LentLocks(lambda _path: lock),  # the daemon holds it, and so do we
        wanted=lambda topic_partition: topic_partition == wanted,
    )


def end_with(daemon_pid: int) -> None:
    """Have this process killed when the daemon's thread that started it ends; at once if the daemon is gone already.

    Source: prctl(2), PR_SET_PDEATHSIG. If the system refuses, a closed connection ends the task between two steps.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != daemon_pid:
        sys.exit("the daemon is gone")


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    main(int(sys.argv[2]))
