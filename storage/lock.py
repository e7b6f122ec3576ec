"""The ``.lock`` of a log dir, shared with the broker.

An open-file-description lock: it excludes the JVM's POSIX record lock in both directions, and, other than that one,
does not go when our own process happens to close another descriptor of the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from storage.directory import open_entry, open_plain, open_to_change
from storage.errors import LogDirLocked, OutOfSpace, UnreadableFile, UnreliableLock, UnsafeOwner
from storage.filesystem import FileSystem, Purpose, check_owner, give_away, typed
from storage.names import LOCK_FILE

_FLOCK: Final = struct.Struct("hhqqixxxx")
_WHOLE_FILE: Final = (os.SEEK_SET, 0, 0)
_ATTEMPTS_MAX: Final = 16
_NO_LOCKS: Final = frozenset({errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
_NO_WRITES: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_MODE: Final = 0o644
_NO_ROOM: Final = "the disk is too full to create it; remove a file that is not Kafka's from it, then run again"


def ensure_unlocked(directory: Path) -> None:
    """For a reader that needs a log dir at rest, and may not write to it. Raises: LogDirLocked."""
    if holder_of(directory) is not None:
        raise LogDirLocked(directory, _holder_pid(directory))


class LogDirLock:
    """Held from before the inventory to the last checkpoint. Released on leaving the ``with``."""

    def __init__(self, directory: Path, descriptor: int, fs: FileSystem) -> None:
        self._path = directory / LOCK_FILE
        self._descriptor = descriptor
        self._fs = fs

    @classmethod
    def acquire(cls, directory: Path, fs: FileSystem, *, forced: bool = False) -> Self:
        """Take the lock; forced, also where the file system knows no locks and nobody is kept out.

        Raises: LogDirLocked, UnreliableLock, UnreadableFile, UnsafeFile, UnsafeOwner, OutOfSpace.
        """
        path = directory / LOCK_FILE
        for _ in range(_ATTEMPTS_MAX):
            if (descriptor := _open(path, directory)) is None:
                continue
            try:
                _set_lock(descriptor, directory, forced=forced)
            except BaseException:
                os.close(descriptor)
                raise
            if _is_at(path, descriptor):
                return cls(directory, descriptor, fs)
            os.close(descriptor)  # its holder deleted the file on release: we locked one without a name
        raise LogDirLocked(directory, None)

    @property
    def descriptor(self) -> int:
        """For a child process that is to inherit the lock."""
        return self._descriptor

    def release(self) -> None:
        """Delete the file and let go, as Kafka does since 3.8; calling it again does nothing.

        Where the file cannot be deleted, it lets go all the same. Raises: OSError, OutOfSpace.
        """
        if self._descriptor >= 0:
            try:
                self._fs.unlink(self._path, Purpose.LOCK)
            finally:  # a file that cannot be deleted must not keep the lock held
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class LogDirReadLock:
    """Keeps brokers and cleaners out of a log dir that is only read; other readers may stand beside us.

    It works through a read-only descriptor, so on a read-only mount too. A ``.lock`` that is not there is made, and
    stays: a broker may have opened it meanwhile, and without its name would hold a lock that nobody else meets.

    If no ``.lock`` can be made, or the file system has no locks, nobody is kept out: a reader has to see for itself
    that nothing changed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        """-1 if nobody is kept out."""

    @classmethod
    def acquire(cls, directory: Path, fs: FileSystem) -> Self:
        """Take the lock. Raises: LogDirLocked, UnreadableFile."""
        path = directory / LOCK_FILE
        for _ in range(_ATTEMPTS_MAX):
            descriptor = _open_to_read(path)
            if descriptor is None and not _can_make(path, directory, fs):
                return cls(-1)
            if descriptor is None:
                continue
            try:
                is_locked = _set_read_lock(descriptor, directory)
            except BaseException:
                os.close(descriptor)
                raise
            if is_locked and _is_at(path, descriptor):
                return cls(descriptor)
            os.close(descriptor)
            if not is_locked:
                return cls(-1)
        raise LogDirLocked(directory, None)

    def release(self) -> None:
        """Let go, and leave the file; calling it again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def holder_of(directory: Path) -> str | None:
    """Who holds the lock, in words, without creating or taking it; None where nobody does."""
    try:
        descriptor = open_plain(directory / LOCK_FILE)
    except (OSError, UnreadableFile):
        return None
    try:
        request = _FLOCK.pack(fcntl.F_WRLCK, *_WHOLE_FILE, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    except OSError:  # no locks there, so no holder
        return None
    finally:
        os.close(descriptor)
    if kind == fcntl.F_UNLCK:
        return None
    return f"process {pid}" if pid > 0 else "a process that cannot be seen from here"


def check_inherited(directory: Path, descriptor: int) -> None:
    """Check that a descriptor which the parent process handed down holds the lock of ``directory``.

    The lock lasts until every process that has the descriptor closed it. Raises: LogDirLocked, UnreadableFile.
    """
    if not _is_at(directory / LOCK_FILE, descriptor):
        raise LogDirLocked(directory, None)
    _set_lock(descriptor, directory, forced=False)


def _open(path: Path, directory: Path) -> int | None:
    """None where somebody made the file in between. One that is there keeps its owner: it may be no file of ours."""
    try:
        with suppress(FileNotFoundError):
            return open_to_change(path, os.O_RDWR)
        descriptor = open_entry(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError:
        return None
    except OSError as error:
        full = isinstance(typed(error, path, 0), OutOfSpace)
        raise UnreadableFile(path, _NO_ROOM if full else error.strerror or str(error)) from error
    try:
        give_away(descriptor, path, directory.stat())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_to_read(path: Path) -> int | None:
    """Open the lock file. Return None if there is none. Raises: UnreadableFile."""
    try:
        return open_plain(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(path, error.strerror or str(error)) from error


def _can_make(path: Path, directory: Path, fs: FileSystem) -> bool:
    """Make the lock file, owned like its directory. Return False if that cannot be: then no file is left.

    Raises: UnreadableFile.
    """
    try:
        check_owner(directory)
        fs.create(path, directory, Purpose.LOCK).close()
    except FileExistsError:
        return True
    except (OutOfSpace, UnsafeOwner):
        return False
    except OSError as error:
        if error.errno in _NO_WRITES:
            return False
        raise UnreadableFile(path, error.strerror or str(error)) from error
    return True


def _set_lock(descriptor: int, directory: Path, *, forced: bool) -> None:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, *_WHOLE_FILE, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise LogDirLocked(directory, _holder_pid(directory)) from error
        if error.errno in _NO_LOCKS and forced:
            return
        if error.errno in _NO_LOCKS:
            raise UnreliableLock(directory, f"lies on a file system without locks ({error.strerror})") from error
        raise UnreadableFile(directory / LOCK_FILE, f"cannot be locked: {error.strerror}") from error


def _set_read_lock(descriptor: int, directory: Path) -> bool:
    """Set the read lock. Return False if the file system has no locks. Raises: LogDirLocked, UnreadableFile."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, *_WHOLE_FILE, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise LogDirLocked(directory, _holder_pid(directory)) from error
        if error.errno in _NO_LOCKS:
            return False
        raise UnreadableFile(directory / LOCK_FILE, f"cannot be locked: {error.strerror}") from error
    return True


def _holder_pid(directory: Path) -> int | None:
    words = (holder_of(directory) or "").split()
    return int(words[1]) if len(words) == 2 else None


def _is_at(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        named, held = path.stat(follow_symlinks=False), os.fstat(descriptor)
        return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
    return False
