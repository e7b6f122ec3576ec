"""The few operations that change a log directory: every mutation goes through this module, with its purpose.

What we assume of a disk:
- a rename within one directory is atomic: after a crash either name is there, never both and never neither;
- a file's bytes last once the file is fsynced, a name once its directory is; between two fsyncs of a directory any
  subset of its renames may survive, in any order;
- unlink works on a full disk; creating a file, growing one, and renaming to a longer name may not.

Every path is worked on by way of its directory, which is not followed if it is a symlink (``storage.directory``).

Not assumed: that a write is atomic, that rename implies fsync of the data, that ``mtime`` moves forward.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Final, Self

from storage.directory import OpenFile, open_plain, open_to_change, opened, pread, read_ahead, split, status_of
from storage.errors import BE_THE_OWNER, LogCleanerError, OSErrorsAs, UnsafeFile, as_unreadable
from storage.holes import data_extents

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_COPY_BYTES_MAX: Final = 1 << 30
_WRITE_OUT_BYTES: Final = 32 << 20
_MODE_OF_A_FILE: Final = 0o666


class UnsafeOwner(LogCleanerError):
    """We could not give a new file the owner of its directory: a broker could not open it."""

    path: Path
    uid: int
    gid: int

    def __str__(self) -> str:
        return (
            f"{self.path}: belongs to uid {self.uid} gid {self.gid}, and files made here could not be given to "
            f"them; {BE_THE_OWNER}"
        )


class OutOfSpace(LogCleanerError):
    """ENOSPC or EDQUOT."""

    path: Path
    wanted_bytes: int
    remedy: str = "let retention make some first: free, or clean --delete-delay 0"

    def __str__(self) -> str:
        wanted = f" for {self.wanted_bytes} bytes" if self.wanted_bytes else ""
        return f"{self.path}: no space{wanted}; {self.remedy}"


class Purpose(Enum):
    """The reason for a mutation: one word list for fault tests, the journal and the metrics."""

    LOCK = "lock"
    JOURNAL = "journal"
    CHECKPOINT = "checkpoint"
    RETIRE = "retire"
    """A rename to ``.deleted``."""
    REMOVE = "remove"
    """The unlink of a file that no longer belongs to the log."""
    CLEAN = "clean"
    """Writing ``.cleaned`` files."""
    SWAP_IN = "swap-in"
    """Renames of ``.cleaned`` to ``.swap`` and of ``.swap`` to the plain name."""
    ROLL = "roll"
    APPEND = "append"
    RECOVER = "recover"
    RESTORE = "restore"
    """Taking a deletion, or a repair, back."""
    REPAIR = "repair"
    """Making a derived file anew, and cutting zeros off a ``.log``."""
    COPY = "copy"
    """Writing a cleaned copy beside an untouched original."""
    IMPORT = "import"
    """Making a new partition."""
    MOVE = "move"
    """Copying a partition into another log dir, and setting the old directory aside."""
    SWEEP = "sweep"
    """The removal of a leftover that a person named."""


class NewFile:
    """A file being written: created exclusively, owned like ``like``, closed (and forgotten by us) on leaving the
    ``with``."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size_bytes = 0
        self.descriptor = descriptor
        self._written_out_bytes = 0
        self._is_synced = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append all of ``data``. Raises: OutOfSpace."""
        rest = memoryview(data).cast("B")
        try:
            while rest:
                written = os.write(self.descriptor, rest)
                self.size_bytes += written
                rest = rest[written:]
        except OSError as error:
            raise typed(error, self.path, len(rest)) from error

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of ``data`` at a byte of a file that ``open_to_write`` opened. Raises: OutOfSpace."""
        rest = memoryview(data).cast("B")
        try:
            while rest:
                written = os.pwrite(self.descriptor, rest, position)
                position += written
                rest = rest[written:]
        except OSError as error:
            raise typed(error, self.path, len(rest)) from error
        self.size_bytes = max(self.size_bytes, position)

    def copy_from(self, source: OpenFile, offset_bytes: int, count_bytes: int) -> None:
        """Append bytes of an open file without moving them through user space where the kernel can.

        Args:
            source: a file that is open for reading.
            offset_bytes: where to start in it.
            count_bytes: how many; the file must hold them.

        Raises: OutOfSpace, EOFError where the source ends early, because it changed meanwhile.
        """
        remaining = count_bytes
        if not isinstance(source, int):
            self._copy_by_reading(source, offset_bytes, remaining)
            return
        try:
            while remaining:
                copied = os.copy_file_range(
                    source, self.descriptor, min(remaining, _COPY_BYTES_MAX), offset_src=offset_bytes
                )
                if copied == 0:
                    raise EOFError(f"{count_bytes - remaining} of {count_bytes} bytes")
                offset_bytes += copied
                remaining -= copied
                self.size_bytes += copied
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise typed(error, self.path, remaining) from error
            self._copy_by_reading(source, offset_bytes, remaining)

    def _copy_by_reading(self, source: OpenFile, offset_bytes: int, remaining: int) -> None:
        while remaining:
            piece = pread(source, min(remaining, 1 << 20), offset_bytes)
            if not piece:
                raise EOFError(f"{remaining} bytes missing")
            self.write(piece)
            offset_bytes += len(piece)
            remaining -= len(piece)

    def copy_sparse(self, source: OpenFile, size_bytes: int) -> None:
        """Copy an open file from its beginning into this new one; holes stay holes.

        Args:
            source: a file that is open for reading.
            size_bytes: how much of it; the file must hold that.

        Raises: as ``copy_from``.
        """
        read_ahead(source, 0, size_bytes)
        for start, end in data_extents(source, size_bytes):
            self.extend_to(start)
            self.copy_from(source, start, end - start)
        self.extend_to(size_bytes)

    def extend_to(self, size_bytes: int) -> None:
        """Append a hole up to a size; does nothing if the file has it. Raises: OutOfSpace."""
        if size_bytes == self.size_bytes:
            return
        with _as_typed(self.path):
            os.ftruncate(self.descriptor, size_bytes)
            os.lseek(self.descriptor, size_bytes, os.SEEK_SET)
        self.size_bytes = size_bytes

    def write_out(self) -> None:
        """Have the disk begin to write once there is much to write, so that ``fsync`` waits less. This makes nothing
        durable.

        The advice starts the writing of dirty pages, and drops clean pages; bytes that were just appended have no clean
        page.
        """
        start, size_bytes = self._written_out_bytes, self.size_bytes - self._written_out_bytes
        if size_bytes >= _WRITE_OUT_BYTES:
            os.posix_fadvise(self.descriptor, start, size_bytes, os.POSIX_FADV_DONTNEED)
            self._written_out_bytes = self.size_bytes

    def found_bytes(self) -> int:
        """Return the size that the file has now, whoever wrote to it; 0 if it has lost its name."""
        found = os.fstat(self.descriptor)
        return found.st_size if found.st_nlink else 0

    def fsync(self) -> None:
        """Make the bytes last. Raises: OutOfSpace: with delayed allocation a full disk shows only here."""
        with _as_typed(self.path):
            os.fsync(self.descriptor)
        self._is_synced = True

    def let_go(self) -> None:
        """Take the file out of the page cache, after ``fsync``."""
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def set_mtime(self, mtime_ns: int) -> None:
        """Set the time, before ``fsync``, which makes it last. Raises: OutOfSpace.

        Kafka gives a cleaned segment the time of its last source: retention falls back to it.
        """
        assert not self._is_synced, f"{self.path}: a power cut would lose a time that is set behind the fsync"
        with _as_typed(self.path):
            os.utime(self.descriptor, ns=(mtime_ns, mtime_ns))

    def close(self) -> None:
        """Close; calling it again does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class FileSystem:
    """The real disk. Fault tests derive from it and stop, or lose what was not fsynced, at any step."""

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        """Create ``path``, which must not exist, with owner and mode of ``like`` (a directory lends its mode less x).

        Raises: FileExistsError, OutOfSpace, UnsafeOwner; UnsafeFile where ``like`` is no plain file or directory.
        """
        model = status_of(like)
        if not (stat.S_ISREG(model.st_mode) or stat.S_ISDIR(model.st_mode)):
            raise UnsafeFile(like, "is neither a plain file nor a directory")
        mode = stat.S_IMODE(model.st_mode) & _MODE_OF_A_FILE
        with _as_typed(path):
            descriptor = created_like(path, model, mode, os.O_WRONLY)
        return NewFile(path, descriptor)

    def make_dir(self, path: Path, like: Path, purpose: Purpose) -> None:
        """Create a directory with the mode of ``like``, and its owner where we may give things away.

        Raises: FileExistsError, FileNotFoundError without its parent, OutOfSpace.
        """
        model = like.stat()
        with _as_typed(path):
            path.mkdir(mode=stat.S_IMODE(model.st_mode))
            with suppress(PermissionError):
                os.chown(path, model.st_uid, model.st_gid)

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        """Open an existing plain file, without a second hard link, for appending.

        Raises: FileNotFoundError, UnsafeFile.
        """
        descriptor = open_to_change(path, os.O_WRONLY | os.O_APPEND)
        opened = NewFile(path, descriptor)
        opened.size_bytes = os.fstat(descriptor).st_size
        return opened

    def open_to_write(self, path: Path, purpose: Purpose) -> NewFile:
        """Open an existing plain file, without a second hard link, for ``write_at``. Raises: as ``open_to_append``."""
        descriptor = open_to_change(path, os.O_WRONLY)
        opened = NewFile(path, descriptor)
        opened.size_bytes = os.fstat(descriptor).st_size
        return opened

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        """Rename within one directory, replacing ``target``. Raises: OutOfSpace, FileNotFoundError."""
        directory, name = split(source)
        target_directory, new_name = split(target)
        assert directory == target_directory
        with _as_typed(target), opened(directory) as descriptor:
            os.rename(name, new_name, src_dir_fd=descriptor, dst_dir_fd=descriptor)

    def move_dir(self, source: Path, target: Path, purpose: Purpose) -> None:
        """Move a directory into another directory of the same file system, under a name that is free there.

        Raises: FileExistsError, OutOfSpace, FileNotFoundError.
        """
        with _as_typed(target), opened(source.parent) as before, opened(target.parent) as after:
            if os.access(target.name, os.F_OK, dir_fd=after, follow_symlinks=False):
                raise FileExistsError(errno.EEXIST, "exists already", str(target))
            os.rename(source.name, target.name, src_dir_fd=before, dst_dir_fd=after)

    def unlink(self, path: Path, purpose: Purpose) -> None:
        """Remove a file. A missing file is as wanted.

        Raises: OutOfSpace, where a disk writes anew what it changes.
        """
        with _as_typed(path), suppress(FileNotFoundError):
            _unlink(path)

    def remove_dir(self, path: Path, purpose: Purpose) -> None:
        """Remove an empty directory. A missing directory is as wanted. Raises: OSError if it holds anything."""
        with _as_typed(path), suppress(FileNotFoundError), opened(path.parent) as directory:
            os.rmdir(path.name, dir_fd=directory)

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        """Make the names in a directory last. Raises: OutOfSpace."""
        with opened(path) as descriptor, _as_typed(path):
            os.fsync(descriptor)

    def sha256_of(self, path: Path) -> str:
        """Return the SHA-256 of a file's bytes, hexadecimal. Raises: UnreadableFile."""
        with as_unreadable(path), open(open_plain(path), "rb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
            return hashlib.file_digest(file, "sha256").hexdigest()

    def settle(self, root: Path, purpose: Purpose) -> None:
        """Make the names in a directory, and in the directories in it, last. Raises: OutOfSpace."""
        for directory in (*filter(Path.is_dir, sorted(root.iterdir())), root):
            self.fsync_dir(directory, purpose)

    def truncate(self, path: Path, size_bytes: int, purpose: Purpose) -> None:
        """Trim a preallocated index to its entries, or the journal to its whole lines; let a file grow by a hole.

        Only a repair that a person asks for by name cuts bytes off a ``.log``: those behind its last batch.

        Raises: as ``open_to_append``.
        """
        descriptor = open_to_change(path, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, size_bytes)
        finally:
            os.close(descriptor)

    def replace_file(self, path: Path, data: bytes, purpose: Purpose) -> None:
        """Write ``data`` to ``path`` so that a crash leaves the old content or the new one, and the new one lasts.

        Source: Kafka CheckpointFile: ``.tmp``, fsync, rename, fsync of the directory. Raises: OutOfSpace, UnsafeOwner,
        and no ``.tmp`` is left then.
        """
        temporary = path.with_name(path.name + ".tmp")
        self.unlink(temporary, purpose)
        try:
            with self.create(temporary, path if path.exists() else path.parent, purpose) as file:
                file.write(data)
                file.fsync()
            self.rename(temporary, path, purpose)
        except (OutOfSpace, OSError):
            self.unlink(temporary, purpose)
            raise
        self.fsync_dir(path.parent, purpose)


def created_like(path: Path, model: os.stat_result, mode: int, flags: int) -> int:
    """Create a file, which must not exist, and return its descriptor.

    A file for another user gets its name once it has owner and mode, where the file system makes nameless files. A run
    that ends in between must not leave a file that a broker may not read, since the broker's start would fail.
    Source: Kafka LogLoader.removeTempFilesAndCollectSwapFiles.

    Args:
        path: of the file.
        model: whose owner it gets.
        mode: that it gets.
        flags: with which it is opened.

    Raises: OSError, also FileExistsError; OutOfSpace, UnsafeOwner.
    """
    directory, name = split(path)
    with opened(directory) as parent:
        if model.st_uid != os.geteuid():
            with suppress(OSError), _created(".", parent, flags | os.O_TMPFILE) as descriptor:
                _dress(descriptor, path, model, mode)
                os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=parent)
                return descriptor
        with _created(name, parent, flags | os.O_CREAT | os.O_EXCL) as descriptor:
            try:
                _dress(descriptor, path, model, mode)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name, dir_fd=parent)
                raise
            return descriptor


@contextmanager
def _created(name: str, directory: int, flags: int) -> Iterator[int]:
    """Close the file again if the ``with`` fails."""
    descriptor = os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _dress(descriptor: int, path: Path, model: os.stat_result, mode: int) -> None:
    give_away(descriptor, path, model)
    os.fchmod(descriptor, mode)


def _unlink(path: Path) -> None:
    directory, name = split(path)
    with opened(directory) as descriptor:
        os.unlink(name, dir_fd=descriptor)


def give_away(descriptor: int, path: Path, model: os.stat_result) -> None:
    """Give an open file the owner of ``model``: a file that a broker cannot open stops the broker.

    Raises: UnsafeOwner, OutOfSpace (the new owner's quota may be used up).
    """
    found = os.fstat(descriptor)
    if (found.st_uid, found.st_gid) == (model.st_uid, model.st_gid):
        return
    try:
        os.fchown(descriptor, model.st_uid, model.st_gid)
    except OSError as error:
        full = typed(error, path)
        raise full if isinstance(full, OutOfSpace) else UnsafeOwner(path.parent, model.st_uid, model.st_gid) from error


def check_owner(directory: Path) -> None:
    """Refuse, before the first step, a directory to whose owner new files could not be given.

    Raises: UnsafeOwner, UnreadableFile.
    """
    with as_unreadable(directory):
        model = directory.stat()
    uid = os.geteuid()
    if uid == 0:
        return
    if model.st_uid != uid or model.st_gid not in {os.getegid(), *os.getgroups()}:
        raise UnsafeOwner(directory, model.st_uid, model.st_gid)


def typed(error: OSError, path: Path, wanted_bytes: int = 0) -> Exception:
    """Return the error to raise for an ``OSError``: OutOfSpace if the disk or quota is full, else the same error with
    the whole path, which a call relative to a directory does not know.
    """
    if error.errno in _NO_SPACE:
        return OutOfSpace(path, wanted_bytes)
    return type(error)(error.errno, error.strerror, str(path)) if error.errno else error


def _as_typed(path: Path) -> OSErrorsAs:
    """Turn an ``OSError`` within the ``with`` into the error of ``typed``."""
    return OSErrorsAs(path, typed)
