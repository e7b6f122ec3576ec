"""The locks of the log dirs: a run takes them itself, or a caller that holds them lends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final, Protocol

from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.guarded import Guarded
from storage.lock import LogDirLock, LogDirReadLock
from storage.log_dir import LogDir

_READINGS_MAX: Final = 8
"""How often the log dirs may change between finding and locking them, before the run gives up."""


class LogDirsChange(LogCleanerError):
    """The configuration names other log dirs each time it is read, so no set of locks covers them."""

    paths: tuple[Path, ...]

    def __str__(self) -> str:
        named = ", ".join(map(str, self.paths))
        return f"log.dirs changes while the log dirs are locked (last: {named}); nothing was done, run again"


AnyLock = LogDirLock | LogDirReadLock | None
LockContext = AbstractContextManager[AnyLock]
Patience = Callable[[Callable[[], LogDirLock]], LogDirLock]
"""A function that takes a lock, and may try several times."""
TakeLock = Callable[[LogDir, FileSystem], LockContext]


def guarded(fs: FileSystem, taken: Mapping[Path, AnyLock]) -> Guarded:
    """Return a file system that changes each of the locked log dirs only while its lock holds."""
    return Guarded(fs, {path: lock for path, lock in taken.items() if isinstance(lock, LogDirLock)})


class Locks(Protocol):
    """Locks of log dirs, each taken for as long as its context lasts."""

    def lock(self, log_dir: LogDir, fs: FileSystem) -> LockContext:
        """Lock a log dir that is to be changed. Raises: LogDirLocked, UnreliableLock, UnsafeOwner."""
        ...

    def lock_to_read(self, log_dir: LogDir, fs: FileSystem) -> LockContext:
        """Lock a log dir that is only read, as far as that is possible. Raises: LogDirLocked."""
        ...

    def holds(self, path: Path) -> bool:
        """Return whether this run, or its caller, has the lock of a log dir."""
        ...


class OwnLocks:
    """Takes the locks itself."""

    def __init__(self, *, forced: bool = False, patience: Patience | None = None) -> None:
        """Prepare to take locks.

        Args:
            forced: go on even if the lock of a log dir may keep nobody out.
            patience: waits for a lock that another process holds; without it, such a lock is an error at once.
        """
        self._forced = forced
        self._patience = patience or (lambda take: take())
        self._held: set[Path] = set()

    def lock(self, log_dir: LogDir, fs: FileSystem) -> LockContext:
        """Hold the lock within the context."""
        return self._noted(log_dir.path, self._patience(lambda: log_dir.lock(fs, forced=self._forced)))

    def lock_to_read(self, log_dir: LogDir, fs: FileSystem) -> LockContext:
        """Hold a read lock within the context."""
        return self._noted(log_dir.path, log_dir.lock_to_read(fs))

    def holds(self, path: Path) -> bool:
        """Return whether the lock is taken now."""
        return path in self._held

    @contextmanager
    def _noted(self, path: Path, lock: LogDirLock | LogDirReadLock) -> Iterator[AnyLock]:
        with lock:
            self._held.add(path)
            try:
                yield lock
            finally:
                self._held.discard(path)


class LentLocks:
    """Passes on the locks of the caller, who also releases them."""

    def __init__(self, lock_of: Callable[[Path], LogDirLock | None]) -> None:
        """Remember ``lock_of``, which returns the lock of a log dir; None if the caller does not hold it."""
        self._lock_of = lock_of

    def lock(self, log_dir: LogDir, _fs: FileSystem) -> LockContext:
        """Return the caller's lock."""
        return nullcontext(self._lock_of(log_dir.path))

    lock_to_read = lock

    def holds(self, path: Path) -> bool:
        """Return whether the caller holds the lock."""
        return self._lock_of(path) is not None


def lock_and_read(
    locks: ExitStack, take: TakeLock, fs: FileSystem, log_dirs: Sequence[LogDir], read: Callable[[], Sequence[LogDir]]
) -> Iterator[Mapping[Path, AnyLock]]:
    """Take every lock, yield them, then read the configuration; start over if it names other log dirs by now.

    Args:
        locks: the stack that holds the locks.
        take: takes the lock of one log dir.
        fs: the disk.
        log_dirs: as the configuration names them before the locks are taken.
        read: reads the configuration again, and returns the log dirs that it names.

    Raises: LogDirsChange.
    """
    for _ in range(_READINGS_MAX):
        locked = log_dirs
        yield {log_dir.path: locks.enter_context(take(log_dir, fs)) for log_dir in locked}
        log_dirs = read()
        if log_dirs == locked:
            return
        locks.close()
    raise LogDirsChange(tuple(log_dir.path for log_dir in log_dirs))
