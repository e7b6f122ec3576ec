"""Directories and files, opened: of this machine by descriptors, of a store (``storage.stores``) by its catalogue.

On this machine an entry is opened by a descriptor of its directory, so that no symlink in the directory's place is
followed.

A path is resolved anew at every use, and whoever may write to a log dir can put a symlink where a partition directory
was. So each operation opens the directory that holds the entry, which must be a directory and no symlink, and names the
entry relative to that directory; an entry that is a symlink is not followed either. The path to a log dir is the user's
own: it is resolved once, when the log dir is opened.

A path in a store takes the same way as a local one: ``entries``, ``names_of``, ``status_of``, ``open_file``,
``read_whole``, and ``pread``, ``view``, ``size_of`` and ``close`` of what was opened. A caller that needs a descriptor,
because of a lock, an inode, a mapping or the page cache, says so: ``opened``, ``open_sized`` and ``open_plain`` give
an ``int``, or raise ``NotOnThisMachine``.

Assumes:    two operations may meet two directories of one name, both in the log dir; an action therefore looks at its
            files again just before it acts (``segment.ensure_unchanged``).
Not chosen: a descriptor kept for each partition: thousands of them stay open for a moment of use. A caller that reads
many entries of one directory opens the directory for as long as that takes, and hands the descriptor on as ``parent``.
A compaction holds its directory (``holding``), so that all its steps meet one directory, which is opened once.
openat2: not in every kernel and container we run on.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard, TypeVar

from storage.errors import LogCleanerError, PlanOutOfDate, UnreadableFile, UnsafeFile, as_unreadable
from storage.stores.errors import NotOnThisMachine
from storage.stores.paths import PREFIXES, StoredPath

if TYPE_CHECKING:
    from storage.stores.stored_file import StoredFile

OpenFile: TypeAlias = "int | StoredFile"
"""A file that is open for reading: a descriptor, or a file in a store."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTRY: Final = os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _ENTRY
"""Opening a FIFO that nobody writes to, or a device, must not wait."""


_FLAGS: Final = struct.Struct("@l")
_GET_FLAGS: Final = 2 << 30 | _FLAGS.size << 16 | ord("f") << 8 | 1
"""FS_IOC_GETFLAGS."""
_NO_FLAGS: Final = bytes(_FLAGS.size)
_UNCHANGEABLE: Final = 0x10 | 0x20
"""FS_IMMUTABLE_FL, FS_APPEND_FL."""
STATX: Final = getattr(ctypes.CDLL(None), "statx", None)
"""None in a C library that is older than the call."""
_ATTRIBUTES: Final = struct.Struct("=8xQ40xQ")
"""``stx_attributes``, and ``stx_attributes_mask``: those that the file system knows. Flags as of ``_UNCHANGEABLE``."""
_STATX_BYTES: Final = 256
_NOFOLLOW: Final = 0x100
"""AT_SYMLINK_NOFOLLOW."""
_LOOKS_MAX: Final = 8
_T = TypeVar("_T")


class ImmutableFile(LogCleanerError):
    """A file or directory that nobody may rename or remove, not even root."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: is immutable or append-only (lsattr shows it); take that off with chattr -i -a"


def despite_vanishing(read: Callable[[], _T]) -> _T:
    """Call ``read`` again, a few times, where a live broker deleted a file between its listing and its reading.

    Raises: as ``read`` does.
    """
    return despite_changes(read, lambda error: isinstance(error, UnreadableFile) and error.has_vanished)


def despite_changes(read: Callable[[], _T], is_change: Callable[[LogCleanerError], bool]) -> _T:
    """Call ``read`` again, a few times, where an error says that somebody changed what it reads.

    Raises: as ``read`` does.
    """
    for _ in range(_LOOKS_MAX - 1):
        try:
            return read()
        except LogCleanerError as error:
            if not is_change(error):
                raise
    return read()


def ensure_not_immutable(descriptor: int, path: Path) -> None:
    """Refuse what ``chattr`` made immutable or append-only. Raises: ImmutableFile."""
    if is_unchangeable(descriptor):
        raise ImmutableFile(path)


def ensure_none_immutable(parent: int, directory: Path, to_change: Iterable[str], to_read: Iterable[str]) -> None:
    """Refuse files that ``chattr`` made immutable or append-only; those that are gone are passed over.

    Args:
        parent: a descriptor of the directory.
        directory: the directory.
        to_change: names of files that are renamed or removed, which needs no permission to read.
        to_read: names of files that must also be readable.

    Raises: ImmutableFile, UnreadableFile.
    """
    attributes = ctypes.create_string_buffer(_STATX_BYTES)
    for names, and_readable in ((to_change, False), (to_read, True)):
        for name in names:
            if not and_readable and _is_known_changeable(parent, name, attributes):
                continue
            try:
                descriptor = os.open(name, READ_FLAGS, dir_fd=parent)
            except FileNotFoundError:
                continue
            except OSError as error:
                if and_readable:
                    raise UnreadableFile(directory / name, error.strerror or str(error)) from error
                continue
            try:
                if is_unchangeable(descriptor):  # not ensure_not_immutable: a path for each of 100,000 files takes long
                    raise ImmutableFile(directory / name)
            finally:
                os.close(descriptor)


def _is_known_changeable(parent: int, name: str, attributes: ctypes.Array[ctypes.c_char]) -> bool:
    """Return whether one call tells that a file is neither immutable nor append-only.

    To open a file, to ask and to close it takes three calls. They follow if the kernel, the file system or a sandbox
    does not tell the flags in this one.
    """
    if STATX is None or STATX(parent, os.fsencode(name), _NOFOLLOW, 0, attributes):
        return False
    found, known = _ATTRIBUTES.unpack_from(attributes)
    return known & _UNCHANGEABLE == _UNCHANGEABLE and not found & _UNCHANGEABLE


def is_unchangeable(descriptor: int) -> bool:
    """Return whether ``chattr`` made a file or directory immutable or append-only."""
    try:
        found = fcntl.ioctl(descriptor, _GET_FLAGS, _NO_FLAGS)
    except OSError:  # this file system has no such flags
        return False
    return bool(_FLAGS.unpack(found)[0] & _UNCHANGEABLE)


class DirectoryEntry(Protocol):
    """A name in a directory: an ``os.DirEntry``, or an entry of a store."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether the entry is a directory."""
        ...

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether the entry is a plain file."""
        ...

    def is_symlink(self) -> bool:
        """Return whether the entry is a symlink."""
        ...

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status of the entry."""
        ...


@contextmanager
def entries(directory: Path) -> Iterator[Iterable[DirectoryEntry]]:
    """Open a directory in order to look at all its entries. Raises: OSError, also for a symlink to one."""
    if isinstance(directory, StoredPath):
        yield directory.entries()
        return
    with opened(directory) as descriptor, os.scandir(descriptor) as found:
        yield found


@contextmanager
def entries_and_status(directory: Path) -> Iterator[tuple[Iterable[DirectoryEntry], os.stat_result]]:
    """Open a directory in order to look at itself and at all its entries. Raises: as ``entries``."""
    if isinstance(directory, StoredPath):
        yield directory.entries(), directory.stat()
        return
    with opened(directory) as descriptor, os.scandir(descriptor) as found:
        yield found, os.fstat(descriptor)


def names_of(directory: Path) -> list[str]:
    """Return the names in a directory, in no order. Raises: as ``entries``."""
    if isinstance(directory, StoredPath):
        return [entry.name for entry in directory.entries()]
    with opened(directory) as descriptor:
        return os.listdir(descriptor)  # noqa: PTH208 - a Path takes no descriptor


@contextmanager
def opened_as_parent(directory: Path) -> Iterator[int | None]:
    """Open a directory of which many files are opened; None for one in a store. Raises: as ``entries``."""
    if isinstance(directory, StoredPath):
        yield None
        return
    with opened(directory) as descriptor:
        yield descriptor


def opened(directory: Path | str) -> AbstractContextManager[int]:
    """Open a directory, unless this thread holds it. Raises: OSError, also for a symlink to one; NotOnThisMachine."""
    return _Opened(directory)


class _Opened:
    """Opens a directory and closes it again. A generator would take as long as the system does for both."""

    __slots__ = ("_descriptor", "_directory")

    def __init__(self, directory: Path | str) -> None:
        self._directory, self._descriptor = directory, -1

    def __enter__(self) -> int:
        held = _held.descriptors.get(str(self._directory))
        if held is not None:
            return held
        self._descriptor = os.open(self._directory, _DIRECTORY)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


class _Held(threading.local):
    """The directories that this thread holds open."""

    def __init__(self) -> None:
        self.descriptors: dict[str, int] = {}
        """The path, as text -> the descriptor."""


_held: Final = _Held()


@contextmanager
def holding(directory: Path) -> Iterator[None]:
    """Hold a directory open: until the end of the ``with``, whatever this thread does in it meets this one directory.

    Raises: UnreadableFile; as ``ensure_named``, at the end.
    """
    path = str(directory)
    assert path not in _held.descriptors, path
    with ExitStack() as stack:
        with as_unreadable(directory):
            _held.descriptors[path] = stack.enter_context(opened(directory))
        stack.callback(_held.descriptors.pop, path)
        yield
        ensure_named(directory)


def ensure_named(directory: Path) -> None:
    """Check that a directory that this thread holds still has its name. Raises: PlanOutOfDate, UnreadableFile."""
    held = _held.descriptors.get(str(directory))
    if held is None:
        return
    with as_unreadable(directory):
        named, ours = os.lstat(directory), os.fstat(held)
    if (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino):
        raise PlanOutOfDate(directory, "another directory or a symlink took its place")


def split(path: Path | str) -> tuple[str, str]:
    """Return the directory and the name of a path as text, sooner than a Path gives them. Raises: NotOnThisMachine."""
    directory, name = os.path.split(path)
    return directory or ".", name


def open_entry(path: Path | str, flags: int, mode: int = 0) -> int:
    """Open a file by its directory; the caller closes it. Raises: OSError, also for symlinks; NotOnThisMachine."""
    if is_stored(path):
        raise NotOnThisMachine(str(path))
    directory, name = split(path)
    with opened(directory) as parent:
        return os.open(name, flags | _ENTRY, mode, dir_fd=parent)


def open_plain(path: Path | str) -> int:
    """Open a plain file for reading; the caller closes it. Raises: as ``open_sized``."""
    return open_sized(path)[0]


def open_sized(path: Path | str, parent: int | None = None) -> tuple[int, int]:
    """Open as ``open_plain`` does. Return the descriptor and the file's size in bytes.

    Args:
        path: the file.
        parent: a descriptor of its directory, where the caller has it open.

    Raises: OSError, also for symlinks; UnreadableFile for FIFOs, devices and sockets; NotOnThisMachine.
    """
    if parent is None:
        descriptor = open_entry(path, READ_FLAGS)
    else:
        name = path.rpartition("/")[2] if isinstance(path, str) else path.name
        descriptor = os.open(name, READ_FLAGS, dir_fd=parent)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise UnreadableFile(Path(path), "is no plain file")
    return descriptor, status.st_size


def open_file(path: Path | str, parent: int | None = None) -> tuple[OpenFile, int]:
    """Open a plain file for reading, wherever it lies; the caller closes it by ``close``. Return its size, too.

    Arguments and errors as of ``open_sized``; for files in stores also those of ``StoredFile.open``.
    """
    if parent is None and is_stored(path):  # no directory of a store has a descriptor
        from storage.stores.stored_file import StoredFile  # noqa: PLC0415 - who reads no URL does without

        file = StoredFile.open(stored(path))
        return file, file.size_bytes
    return open_sized(path, parent)


def read_whole(path: Path | str) -> bytes:
    """Read a small plain file, wherever it lies. Raises: as ``open_file``."""
    if is_stored(path):
        return stored(path).read_bytes()
    descriptor, size_bytes = open_sized(path)
    try:
        return b"".join(iter(lambda: os.read(descriptor, size_bytes or mmap.PAGESIZE), b""))
    finally:
        os.close(descriptor)


def read_end(path: Path | str, size_bytes: int, parent: int | None = None) -> tuple[bytes, int]:
    """Read the last bytes of a plain file, wherever it lies. Return them, and the size of the file.

    Arguments and errors as of ``open_file``.
    """
    file, file_bytes = open_file(path, parent)
    try:
        start = max(0, file_bytes - size_bytes)
        return pread(file, file_bytes - start, start), file_bytes
    finally:
        close(file)


def pread(file: OpenFile, size_bytes: int, position: int) -> bytes:
    """Read so many bytes of an open file from a position on, fewer where it ends. Raises: OSError, as of a store."""
    return os.pread(file, size_bytes, position) if isinstance(file, int) else bytes(file.pread(size_bytes, position))


def pread_within(parent: int, name: str, size_bytes: int) -> bytes:
    """Read so many bytes from the beginning of a file in an open directory, fewer where it ends.

    Three system calls, and nothing else. Raises: OSError, also for symlinks, and for anything that has no positions.
    """
    descriptor = os.open(name, READ_FLAGS, dir_fd=parent)
    try:
        return os.pread(descriptor, size_bytes, 0)
    finally:
        os.close(descriptor)


def view(file: OpenFile, size_bytes: int, position: int) -> bytes | memoryview:
    """Read as ``pread`` does; what a store holds in memory already is not copied. Raises: as ``pread``."""
    return os.pread(file, size_bytes, position) if isinstance(file, int) else file.pread(size_bytes, position)


def size_of(file: OpenFile) -> int:
    """Return the size of an open file, in bytes; of a file in a store, the size when it was listed. Raises: OSError."""
    return os.fstat(file).st_size if isinstance(file, int) else file.size_bytes


def read_ahead(file: OpenFile, start: int, end: int) -> None:
    """Say that ``[start, end)`` will be read, ascending.

    A store needs to be told; the system of this machine notices.
    """
    if not isinstance(file, int):
        file.read_ahead(start, end)


def close(file: OpenFile) -> None:
    """Close an open file."""
    if isinstance(file, int):
        os.close(file)
    else:
        file.close()


def is_stored(path: Path | str) -> TypeGuard[StoredPath | str]:
    """Return whether a path lies in a store; of a text, whether it is a URL."""
    return isinstance(path, StoredPath) or (isinstance(path, str) and path.startswith(PREFIXES))


def stored(path: StoredPath | str) -> StoredPath:
    """Return the path in a store that a URL of ours names."""
    return path if isinstance(path, StoredPath) else StoredPath(path)


def open_to_change(path: Path, flags: int) -> int:
    """Open a plain file in order to change it in place; the caller closes it.

    Raises: OSError, also for symlinks; UnsafeFile for anything but a plain file, and for a file with a second hard
        link, which would carry the change out of the log dir.
    """
    descriptor = open_entry(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise UnsafeFile(path, "is no plain file, or has a second hard link")
    return descriptor


def world_writable_mode(path: Path) -> int | None:
    """Return the permissions of a file or directory if everybody may write to it, symlinks followed; else None."""
    try:
        mode = path.stat().st_mode
    except OSError:  # whoever opens it raises the error
        return None
    return stat.S_IMODE(mode) if mode & stat.S_IWOTH else None


def is_read_once(path: Path) -> bool:
    """Return whether there is a pipe, a FIFO or a device at a path, which nobody can read a second time."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def is_pipe(path: Path) -> bool:
    """Return whether a path leads to a pipe, as that of a shell's ``<(...)`` does."""
    return not isinstance(path, StoredPath) and path.is_fifo()


def followed(directory: Path) -> Path:
    """Return the directory that a symlink leads to; any other path as it is.

    This is for a path that the user names, such as a log dir on another disk; symlinks within it are never followed.
    """
    if isinstance(directory, StoredPath):
        return directory
    # both return False where this user may not look; whoever opens the path raises the error
    leads_there = os.path.islink(directory) and os.path.isdir(directory)  # noqa: PTH112, PTH114
    return directory.resolve() if leads_there else directory


def is_there(path: Path) -> bool:
    """Return whether there is an entry, a symlink too. Raises: as of a store."""
    return path.exists() if isinstance(path, StoredPath) else os.path.lexists(path)


def status_of(path: Path, parent: int | None = None) -> os.stat_result:
    """Return the status of an entry; that of a symlink, not of its target. Raises: OSError, as of a store.

    Args:
        path: of the entry.
        parent: as for ``open_sized``.
    """
    if parent is not None:
        return os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    if isinstance(path, StoredPath):
        return path.stat()
    held = _held.descriptors.get(str(path))
    if held is not None:
        return os.fstat(held)
    directory, name = split(path)
    with opened(directory) as its_directory:
        return os.stat(name, dir_fd=its_directory, follow_symlinks=False)
