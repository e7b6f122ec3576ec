"""The wait for the lock of a log dir, and the answer to SIGINT and SIGTERM while a command changes log dirs.

Around a broker's start and stop, another process releases the lock soon.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

from cleaner.cli.exit_status import Terminated, complain
from storage.stores import ENDING

if TYPE_CHECKING:
    from storage.lock import LogDirLock


WAIT_SECONDS: Final = 10.0
"""Within this time a broker that stops, or the daemon, releases the lock. A broker that runs does not."""
_LOOK_SECONDS: Final = 0.1


class Stoppable(Protocol):
    """A run that can be asked to end."""

    def stop(self) -> None:
        """Ask it to end between two steps."""
        ...


class Waiting:
    """Takes a lock as soon as it is free, waits for ten seconds in all, and prints once that it waits."""

    def __init__(self) -> None:
        self._until_seconds: float | None = None
        self.stopping: Callable[[], bool] = lambda: False
        """A predicate that ends the wait early: whether a signal came."""

    def __call__(self, take: Callable[[], LogDirLock]) -> LogDirLock:
        """Return the lock. Raises: LogDirLocked once the time is over; any other error of ``take`` at once."""
        from storage.lock import LogDirLocked

        while True:
            try:
                return take()
            except LogDirLocked as error:
                if self._until_seconds is None:
                    self._until_seconds = time.monotonic() + WAIT_SECONDS
                    holder = f"process {error.holder_pid}" if error.holder_pid else "another process"
                    complain(f"{error.path}: held by {holder}; waiting for it up to {WAIT_SECONDS:.0f} s")
                if time.monotonic() >= self._until_seconds or self.stopping():
                    raise
            time.sleep(_LOOK_SECONDS)


@contextmanager
def stopping_on_signals(run: Stoppable) -> Iterator[list[int]]:
    """Let SIGINT and SIGTERM end the run between two steps. A second signal ends it at once; recovery cleans up.

    Yields: the numbers of the signals that came.
    """
    with noting_signals(run.stop) as came:
        try:
            yield came
        except (KeyboardInterrupt, Terminated):
            if came:
                complain(
                    "ended at once by a second signal; logcleaner history says what was done, the next run does the "
                    "rest"
                )
            raise


@contextmanager
def noting_signals(stop: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Note SIGINT and SIGTERM instead of ending at once. A second signal ends the command at once.

    Args:
        stop: called at the first signal, in its handler.

    Yields: the numbers of the signals that came.
    """
    came: list[int] = []
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        ENDING.by = number
        stop()
        restore()

    for number in previous:
        signal.signal(number, note)
    try:
        yield came
    finally:
        restore()
