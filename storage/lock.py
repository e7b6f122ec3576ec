"""The ``.lock`` of a log dir, shared with the broker.

An open-file-description lock. It and the JVM's POSIX record lock exclude each other. Unlike a POSIX lock, it does not
go when our own process closes another descriptor of the file.

The file system that the log dir lies on tells whether a lock taken there keeps everybody out. On a network file system,
or a folder that a virtual machine shares with its host, a lock may be this machine's alone: a broker on another one
would start beside us.

Source: proc(5), ``/proc/PID/mountinfo``. Not chosen: ``statfs``, which has one number for all of FUSE.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final, Self

from storage.directory import ImmutableFile, is_unchangeable, open_entry, open_plain, opened
from storage.errors import BE_THE_OWNER, ErrorKind, LogCleanerError, UnreadableFile, UnsafeFile, as_unreadable
from storage.filesystem import FileSystem, OutOfSpace, Purpose, UnsafeOwner, check_owner, created_like, typed
from storage.names import LOCK_FILE
from storage.segment import reading_here
from storage.stores.paths import StoredPath

MOUNT_INFO: Final = Path("/proc/self/mountinfo")
SHARED_TYPES: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph",
    "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
    "fuse.mfs", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs", "fuse.vmhgfs-fuse", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
})  # fmt: skip
"""File systems that other machines may have open at the same time."""
_NOBODY: Final = (-1, -1)
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_MOUNT_POINT, _SEPARATOR = 4, "-"

_FLOCK: Final = struct.Struct("hhqqixxxx")
_WHOLE_FILE: Final = (os.SEEK_SET, 0, 0)
SETTLE_SECONDS: Final = 0.2
"""A broker lets go of the lock, then deletes the file: the time that the second step may take."""
_ATTEMPTS_MAX: Final = 16
_NO_LOCKS: Final = frozenset({errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
_NO_WRITES: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_MODE: Final = 0o666
_STOP_IT: Final = "stop it, or use --dry-run"
_NO_ROOM: Final = "the disk is too full to create it; remove a file that is not Kafka's from it, then run again"


class LogDirLocked(LogCleanerError):
    """Another process holds ``.lock``. ``holder_pid`` is None where the lock does not tell (another container)."""

    kind = ErrorKind.LOCKED

    path: Path
    holder_pid: int | None

    def __str__(self) -> str:
        if self.holder_pid:
            return f"{self.path}: held by process {self.holder_pid} (a broker or another logcleaner); {_STOP_IT}"
        who = "another logcleaner (as a service: systemctl stop logcleaner) or a broker, perhaps in another container"
        return f"{self.path}: held by {who}; {_STOP_IT}"


class LockNotMade(UnreadableFile):
    """The failure to make the lock file, or to open it for writing, as this user or on this mount."""

    def __str__(self) -> str:
        return f"{self.path}: cannot be made or written: {self.cause}"


class LockLost(LogCleanerError):
    """The loss of a lock: the name now leads to another file than the locked one, so the lock keeps nobody out."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: somebody removed .lock while this run held it; nothing more is changed here, run again"


class UnreliableLock(LogCleanerError):
    """A ``.lock`` that may not keep a broker out, because of the file system that it lies on."""

    kind = ErrorKind.REFUSED

    path: Path
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.cause}: its lock may not keep a broker or another logcleaner out; make sure that none "
            f"runs on any machine, then say --force-lock"
        )


class LogDirLock:
    """The lock of a log dir, held from before the inventory to the last checkpoint. Leaving the ``with`` releases it.

    The file stays when the lock is released. Otherwise a broker that opened the file before, and locks it after, would
    hold a file without a name while the next process locks a new one. A broker deletes the file *after* it let go. So a
    lock on a file that was there already is believed only after ``SETTLE_SECONDS``, and as long as the file keeps its
    name (``ensure_named``).

    Source: Kafka FileLock.destroy.
    """

    def __init__(self, directory: Path, descriptors: tuple[int, ...], *, is_new: bool = False) -> None:
        """Take over descriptors that are locked already.

        Args:
            directory: the log dir.
            descriptors: of ``.lock``, then of the file of several names that ``.lock`` replaced, and that stays locked,
                too.
            is_new: we made the file.
        """
        self._directory = directory
        self._path = directory / LOCK_FILE
        self._location = str(self._path)
        self._descriptors = descriptors
        self._identity = _identity_of(os.fstat(descriptors[0]))
        """Of the locked file, which stays the same as long as its descriptor is open."""
        self._locked_seconds = time.monotonic()
        self._settled_seconds = self._locked_seconds if is_new else self._locked_seconds + SETTLE_SECONDS

    @classmethod
    def acquire(cls, directory: Path, fs: FileSystem, *, forced: bool = False) -> Self:
        """Take the lock. If forced, go on where the file system knows no locks, and nobody is kept out.

        Raises: LogDirLocked, UnreliableLock, UnreadableFile, UnsafeFile, UnsafeOwner, OutOfSpace.
        """
        path = directory / LOCK_FILE
        for _ in range(_ATTEMPTS_MAX):
            opened = _open(path, directory, fs, forced=forced)
            if opened is None:
                continue
            descriptors, is_new = opened
            try:
                _set_lock(descriptors[0], directory, forced=forced)
            except BaseException:
                _close(descriptors)
                raise
            if _is_at(path, descriptors[0]):
                return cls(directory, descriptors, is_new=is_new)
            _close(descriptors)  # its holder deleted the file on release: we locked one without a name
        raise LogDirLocked(directory, None)

    @classmethod
    def inherited(cls, directory: Path, descriptor: int) -> Self:
        """Return the lock that the parent process handed down; it lasts until every process closed its descriptor.

        Raises: LogDirLocked, UnreadableFile.
        """
        if not _is_at(directory / LOCK_FILE, descriptor):
            raise LogDirLocked(directory, None)
        _set_lock(descriptor, directory, forced=False)
        return cls(directory, (descriptor,), is_new=True)  # the parent waited

    @property
    def descriptor(self) -> int:
        """The descriptor of the lock, for a child process that inherits it."""
        return self._descriptors[0]

    @property
    def held_seconds(self) -> float:
        """Seconds since the lock was taken: a broker that started meanwhile was refused."""
        return time.monotonic() - self._locked_seconds

    def ensure_named(self) -> None:
        """Check, before a change, that the locked file still is the one that others open.

        The first call waits until a broker that let go just before us has deleted the file. Raises: LockLost.
        """
        if (early_seconds := self._settled_seconds - time.monotonic()) > 0:
            time.sleep(early_seconds)
        if _identity_at(self._location) != self._identity:
            raise LockLost(self._directory)

    def release(self) -> None:
        """Let go, and leave the file; calling it again does nothing."""
        _close(self._descriptors)
        self._descriptors = ()
        self._identity = _NOBODY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.release()


class LogDirReadLock:
    """A lock that keeps brokers and cleaners, but not other readers, out of a log dir that is only read.

    It works through a read-only descriptor, so on a read-only mount, too. A ``.lock`` that is not there is made, and
    stays: a broker may have opened it meanwhile, and without its name would hold a lock that nobody else meets.

    If no ``.lock`` can be made, or the file system has no locks, nobody is kept out: the reader itself has to check
    that nothing changed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        """-1 if nobody is kept out."""

    @classmethod
    def acquire(cls, directory: Path, fs: FileSystem, *, may_make: bool = True) -> Self:
        """Take the lock; in a store there is none.

        Args:
            directory: the log dir.
            fs: the disk.
            may_make: whether a ``.lock`` that is not there is made.

        Raises: LogDirLocked, UnreadableFile.
        """
        if isinstance(directory, StoredPath):
            return cls(-1)
        path = directory / LOCK_FILE
        for _ in range(_ATTEMPTS_MAX):
            descriptor = _open_to_read(path)
            if descriptor is None and not (may_make and _can_make(path, directory, fs)):
                return cls(-1)
            if descriptor is None:
                continue
            try:
                is_locked = _why_without_locks(descriptor, directory, fcntl.F_RDLCK) is None
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

    def __exit__(self, *_raised: object) -> None:
        self.release()


def holder_of(directory: Path) -> str | None:
    """Return in words who holds the lock, without creating or taking it; None if nobody does."""
    if isinstance(directory, StoredPath):  # nobody can hold one there
        return None
    request = _FLOCK.pack(fcntl.F_WRLCK, *_WHOLE_FILE, 0)
    with suppress(OSError, UnreadableFile), reading_here(directory / LOCK_FILE) as descriptor:  # no locks: no holder
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
        if kind != fcntl.F_UNLCK:
            return f"process {pid}" if pid > 0 else "a process that cannot be seen from here"
    return None


def shared_type(path: Path, mount_info: Path = MOUNT_INFO) -> str | None:
    """Return the type of the file system that a path lies on if other machines may share it; else None.

    Args:
        path: absolute, symlinks resolved.
        mount_info: of this process. Where it cannot be read, nothing is known to be shared.
    """
    try:
        text = mount_info.read_text(errors="surrogateescape")
    except OSError:
        return None
    found = type_of(path, text)
    return found if found in SHARED_TYPES else None


def type_of(path: PurePath, mount_info: str) -> str | None:
    """Return the type of the file system that a path lies on; None if no line tells.

    Args:
        path: absolute, symlinks resolved.
        mount_info: lines of ``/proc/PID/mountinfo``, in the order of the mounts: of two at one place the later holds.
    """
    return fields[0] if (fields := _mounted(path, mount_info)) else None


def is_read_only(path: Path, mount_info: Path = MOUNT_INFO) -> bool:
    """Return whether a file system is read-only for every process, as after errors of its disk; a mount for one
    container does not count.
    """
    try:
        fields = _mounted(path.resolve(), mount_info.read_text(errors="surrogateescape"))
    except (OSError, RuntimeError):
        return False
    return "ro" in fields[-1].split(",") if fields else False


def _mounted(path: PurePath, mount_info: str) -> list[str]:
    """Return type, source and options of the file system that a path lies on; nothing if no line tells."""
    deepest, found = -1, list[str]()
    for line in mount_info.splitlines():
        fields = line.split(" ")
        if _SEPARATOR not in fields[_MOUNT_POINT + 1 : -1]:
            continue
        point = PurePath(_OCTAL.sub(_character, fields[_MOUNT_POINT]))
        if path.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), fields[fields.index(_SEPARATOR, _MOUNT_POINT) + 1 :]
    return found


def _set_lock(descriptor: int, directory: Path, *, forced: bool) -> None:
    cause = _why_without_locks(descriptor, directory, fcntl.F_WRLCK)
    if cause and not forced:
        raise UnreliableLock(directory, f"lies on a file system without locks ({cause})")


def _why_without_locks(descriptor: int, directory: Path, kind: int) -> str | None:
    """Lock the whole file. Return the reason if the file system has no locks, else None.

    Raises: LogDirLocked, UnreadableFile.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, *_WHOLE_FILE, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise LogDirLocked(directory, _holder_pid(directory)) from error
        if error.errno in _NO_LOCKS:
            return error.strerror or str(error)
        raise UnreadableFile(directory / LOCK_FILE, f"cannot be locked: {error.strerror}") from error
    return None


def _holder_pid(directory: Path) -> int | None:
    words = (holder_of(directory) or "").split()
    return int(words[1]) if len(words) == 2 else None


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _open(path: Path, directory: Path, fs: FileSystem, *, forced: bool) -> tuple[tuple[int, ...], bool] | None:
    """Open or make the lock file. Return its descriptors, and whether we made it; None if somebody else did meanwhile.

    A file that is there keeps its owner, unless the owner of the directory, a broker, could not open it.
    """
    try:
        descriptor = open_entry(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        made = _made(path, directory)
        return None if made is None else ((made,), True)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        status = _plain(descriptor, path)
        if status.st_nlink > 1:
            fresh = _renewed(path, directory, descriptor, fs, forced=forced)
            if fresh is None:
                os.close(descriptor)
                return None
            return (fresh, descriptor), False
        _hand_over(descriptor, status, directory.stat())
    except BaseException:
        os.close(descriptor)
        raise
    return (descriptor,), False


def _plain(descriptor: int, path: Path) -> os.stat_result:
    """Return the status of a plain file. Raises: UnsafeFile if it is something else."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFile(path, "is no plain file")
    return status


def _hand_over(descriptor: int, status: os.stat_result, owner: os.stat_result) -> None:
    """Let the owner of the directory open the file: root may have made it for itself."""
    if os.geteuid() not in (0, status.st_uid):
        return
    if status.st_uid != owner.st_uid and not status.st_mode & stat.S_IWOTH:
        with suppress(OSError):
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    if not status.st_mode & stat.S_IWUSR:
        with suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)


def _made(path: Path, directory: Path) -> int | None:
    """Make the file, owned like its directory; None if somebody else did."""
    try:
        model = directory.stat()
        mode = stat.S_IMODE(model.st_mode) & _MODE | stat.S_IRUSR | stat.S_IWUSR
        return created_like(path, model, mode, os.O_RDWR)
    except FileExistsError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UnreadableFile:
    with suppress(OSError):
        owner = path.parent.stat()
        if error.errno == errno.EROFS:
            return LockNotMade(path, f"{path.parent} is mounted read-only; mount it for writing, or use --dry-run")
        if error.errno == errno.EPERM:
            with opened(path.parent) as directory:
                if is_unchangeable(directory):
                    return LockNotMade(path, str(ImmutableFile(path.parent)))
        if error.errno in (errno.EACCES, errno.EPERM):
            whose = f"{path.parent} belongs to uid {owner.st_uid} gid {owner.st_gid}"
            return LockNotMade(path, f"{whose}; {BE_THE_OWNER}")
    full = isinstance(typed(error, path), OutOfSpace)
    return UnreadableFile(path, _NO_ROOM if full else error.strerror or str(error))


def _renewed(path: Path, directory: Path, linked: int, fs: FileSystem, *, forced: bool) -> int | None:
    """Put a fresh file in the place of one that has several names, as ``cp -al`` gives it.

    Return None if somebody else did so between our opening of the file and our lock on it.

    A lock on the old file would hold for the backup, too. The old file is locked first, so it is replaced only if
    nobody holds it, and stays locked as long as the new one: a broker may have opened it before.
    """
    _set_lock(linked, directory, forced=forced)
    if not _is_at(path, linked):
        return None
    fresh = path.with_name(f"{path.name}.tmp")
    fs.unlink(fresh, Purpose.LOCK)
    descriptor = _made(fresh, directory)
    if descriptor is None:
        raise LogDirLocked(directory, None)
    try:
        fs.rename(fresh, path, Purpose.LOCK)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    with as_unreadable(path):
        return _identity_at(str(path)) == _identity_of(os.fstat(descriptor))


def _identity_at(path: str) -> tuple[int, int] | None:
    """Return the identity of a file; None without one. Raises: UnreadableFile."""
    try:
        return _identity_of(os.lstat(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(Path(path), error.strerror or str(error)) from error


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _open_to_read(path: Path) -> int | None:
    """Open the lock file. Return None if it is missing. Raises: UnreadableFile."""
    with as_unreadable(path), suppress(FileNotFoundError):
        return open_plain(path)
    return None


def _can_make(path: Path, directory: Path, fs: FileSystem) -> bool:
    """Make the lock file, owned like its directory. Return False, and leave no file, if that fails.

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


def _character(escape: re.Match[str]) -> str:
    """Return the character that an octal escape stands for: blank, tab, newline or backslash."""
    return chr(int(escape[1], 8))
