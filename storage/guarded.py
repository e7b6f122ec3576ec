"""File systems that change less than the disk allows.

``Guarded`` changes a log dir only while the lock of that log dir holds; ``Unwritten`` changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storage.directory import OpenFile
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.lock import LogDirLock


class Guarded(FileSystem):
    """Passes every operation on, after a look at the lock of the log dir that the path lies in."""

    def __init__(self, fs: FileSystem, locks: Mapping[Path, LogDirLock]) -> None:
        """Guard log dirs.

        Args:
            fs: the file system that does the work.
            locks: log dir -> its lock. A path in another directory is not looked at.
        """
        self._fs = fs
        self._locks = {str(log_dir): lock for log_dir, lock in locks.items()}

    def _ensure_locked(self, path: Path) -> None:
        directory, _, _ = str(path).rpartition("/")
        lock = self._locks.get(directory.rpartition("/")[0]) or self._locks.get(directory)
        if lock:
            lock.ensure_named()

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        return self._fs.create(path, like, purpose)

    def make_dir(self, path: Path, like: Path, purpose: Purpose) -> None:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        self._fs.make_dir(path, like, purpose)

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        return self._fs.open_to_append(path, purpose)

    def open_to_write(self, path: Path, purpose: Purpose) -> NewFile:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        return self._fs.open_to_write(path, purpose)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(source)
        self._fs.rename(source, target, purpose)

    def move_dir(self, source: Path, target: Path, purpose: Purpose) -> None:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(target)
        self._fs.move_dir(source, target, purpose)

    def unlink(self, path: Path, purpose: Purpose) -> None:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        self._fs.unlink(path, purpose)

    def remove_dir(self, path: Path, purpose: Purpose) -> None:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        self._fs.remove_dir(path, purpose)

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        """Do as the guarded file system does, without a look at the lock: nothing is changed."""
        self._fs.fsync_dir(path, purpose)

    def truncate(self, path: Path, size_bytes: int, purpose: Purpose) -> None:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        self._fs.truncate(path, size_bytes, purpose)

    def replace_file(self, path: Path, data: bytes, purpose: Purpose) -> None:
        """Do as the guarded file system does. Raises also: LockLost."""
        self._ensure_locked(path)
        self._fs.replace_file(path, data, purpose)


class Unwritten(FileSystem):
    """A file system that accepts every operation and changes nothing: a dry run counts the bytes that would be
    written.
    """

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        """Return a file that only counts its bytes."""
        return _Counted(path, -1)

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        """Return a file that only counts the bytes appended."""
        return _Counted(path, -1)

    def open_to_write(self, path: Path, purpose: Purpose) -> NewFile:
        """Return a file that only counts the bytes written."""
        return _Counted(path, -1)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        """Do nothing."""

    def move_dir(self, source: Path, target: Path, purpose: Purpose) -> None:
        """Do nothing."""

    def unlink(self, path: Path, purpose: Purpose) -> None:
        """Do nothing."""

    def remove_dir(self, path: Path, purpose: Purpose) -> None:
        """Do nothing."""

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        """Do nothing."""

    def truncate(self, path: Path, size_bytes: int, purpose: Purpose) -> None:
        """Do nothing."""

    def replace_file(self, path: Path, data: bytes, purpose: Purpose) -> None:
        """Do nothing."""


class _Counted(NewFile):
    def write_out(self) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.size_bytes += len(memoryview(data).cast("B"))

    def copy_from(self, source: OpenFile, offset_bytes: int, count_bytes: int) -> None:
        self.size_bytes += count_bytes

    def extend_to(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def fsync(self) -> None:
        pass

    def set_mtime(self, mtime_ns: int) -> None:
        pass
