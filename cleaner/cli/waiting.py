"""The wait for the lock of a log dir: around a broker's start and stop, others let go of it soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import complain

if TYPE_CHECKING:
    from storage.lock import LogDirLock

WAIT_SECONDS: Final = 10.0
"""A broker that ends, and a hold of the daemon, are over by then; a broker that runs stays."""
_LOOK_SECONDS: Final = 0.1


class Waiting:
    """Takes a lock as soon as it is free, for ten seconds in all; says once that it waits."""

    def __init__(self) -> None:
        self._until_seconds: float | None = None
        self.stopping: Callable[[], bool] = lambda: False
        """Ends the wait early: a signal came."""

    def __call__(self, take: Callable[[], LogDirLock]) -> LogDirLock:
        """Return the lock. Raises: LogDirLocked once the time is over; at once what else ``take`` raises."""
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
