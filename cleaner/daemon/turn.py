"""A turn: from the taking of the locks to their release. Between two turns a broker can start."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cleaner.daemon.child import CompactingChild
from cleaner.daemon.pulse import Pulse
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from storage.log_dir import LogDir

OnRefusal = Callable[[Path, LogCleanerError | OSError], None]


@dataclass(eq=False)
class Turn:
    """Takes what it needs when it is first needed: locks for what changes log dirs, a child for what compacts."""

    log_dirs: tuple[Path, ...]
    """The log dirs of the configuration."""
    on_refusal: OnRefusal
    """Told of a log dir that another process holds, or that could not be locked."""
    seconds: Callable[[], float] = time.monotonic
    """A stopwatch."""
    _locks: dict[Path, LogDirLock] | None = None
    _compactor: CompactingChild | None = None
    _locked_seconds: float | None = None
    _told_seconds: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._compactor:
            self._compactor.close()
        for lock in (self._locks or {}).values():
            with suppress(OSError, LogCleanerError):  # it lets go, even where its file cannot be removed
                lock.release()

    @property
    def held_seconds(self) -> float:
        """Return for how many seconds a broker would have been refused by now."""
        return 0.0 if self._locked_seconds is None else self.seconds() - self._locked_seconds

    def newly_held_seconds(self) -> float:
        """Return for how long the locks were held since this was last asked."""
        seconds, self._told_seconds = self.held_seconds - self._told_seconds, self.held_seconds
        return seconds

    def holds(self, log_dir: Path) -> bool:
        """Return whether this turn has the lock."""
        return self._locks is not None and log_dir in self._locks

    def locked(self) -> tuple[Path, ...]:
        """Take the locks when first called. Return the log dirs that may be changed."""
        if self._locks is None:
            self._locks = {}
            for path in self.log_dirs:
                self._lock(path, self._locks)
        return tuple(self._locks)

    def lock_of(self, log_dir: Path) -> LogDirLock:
        """Return the lock of a log dir, which the turn has."""
        assert self._locks is not None
        return self._locks[log_dir]

    def compactor(self, pulse: Pulse) -> CompactingChild:
        """Return the one child of this turn; start it when first called."""
        if self._compactor is None:
            descriptors = [lock.descriptor for lock in (self._locks or {}).values()]
            self._compactor = CompactingChild(descriptors, pulse)
        return self._compactor

    def _lock(self, path: Path, locks: dict[Path, LogDirLock]) -> None:
        try:
            locks[path] = LogDir.open(path).lock(FileSystem())
        except (LogCleanerError, OSError) as error:
            self.on_refusal(path, error)
        else:
            self._locked_seconds = self.seconds() if self._locked_seconds is None else self._locked_seconds


def at_least_one(may_begin: Callable[[], bool]) -> Callable[[], bool]:
    """Return a predicate that is true when first asked: else a turn might end before anything was done."""
    passed: list[bool] = []

    def may() -> bool:
        is_allowed = not passed or may_begin()
        passed.append(True)
        return is_allowed

    return may
