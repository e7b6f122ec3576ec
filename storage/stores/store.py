"""The questions that a store answers. Names are keys: parts with slashes between them, none at the ends."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import blake2b
from typing import ClassVar, Final, NamedTuple, Protocol

BLOCK_BYTES: Final = 512
_DIRECTORY: Final = stat.S_IFDIR | 0o555
_FILE: Final = stat.S_IFREG | 0o444


class StoredEntry(NamedTuple):
    """A name in a directory of a store. It answers what an ``os.DirEntry`` answers."""

    name: str
    size_bytes: int = 0
    version: str = ""
    """What tells one version of a file from another, such as its ETag; empty for a directory."""
    mtime_ns: int = 0
    is_directory: bool = False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Return whether it is a directory."""
        return self.is_directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Return whether it is a file."""
        return not self.is_directory

    def is_symlink(self) -> bool:
        """Return that a store holds no symlink."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002
        """Return its status. The number of its version stands for the inode."""
        mode, times = (_DIRECTORY if self.is_directory else _FILE), (self.mtime_ns // 1_000_000_000,) * 3
        blocks = -(-self.size_bytes // BLOCK_BYTES)
        status = (mode, version_number(self.version), 0, 1, os.geteuid(), os.getegid(), self.size_bytes, *times)
        more = {f"st_{name}time_ns": self.mtime_ns for name in "amc"} | {"st_blocks": blocks, "st_blksize": BLOCK_BYTES}
        return os.stat_result(status, more)


class Piece(NamedTuple):
    """Bytes of one version of a file."""

    data: memoryview
    version: str
    file_bytes: int
    """The size of the whole file in that version."""


class Upload(Protocol):
    """A file on its way into a store. Nobody sees it there before ``finish``.

    ``write`` and ``finish`` raise as ``Store``; nothing is left behind then.
    """

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        ...

    def finish(self) -> StoredEntry:
        """Have the file there, whole, and return its entry."""
        ...

    def abort(self) -> None:
        """Give up, and take away what was sent. Calling it again does nothing."""
        ...


class Store(Protocol):
    """A bucket or an HDFS.

    Each method raises: FileNotFoundError for a name that is not there; NoSuchBucket, ForbiddenStore,
    ExpiredCredentials, StoreUnreachable (after several attempts), StoreFailed.
    """

    has_empty_directories: ClassVar[bool]
    """Whether a directory can lie there without a file below it."""

    @property
    def moves_files(self) -> bool:
        """Return whether ``move`` sends no byte through this machine, and is done when it returns."""
        ...

    def list(self, directory: str) -> list[StoredEntry]:
        """Return the names in a directory. A directory without a name in it does not exist in an object store."""
        ...

    def walk(self, directory: str) -> Iterator[tuple[str, StoredEntry]]:
        """Yield every file below a directory, each with the directory that holds it."""
        ...

    def look(self, name: str) -> StoredEntry:
        """Return the entry of one file."""
        ...

    def range(self, name: str, start: int, end: int, version: str | None) -> Piece:
        """Read ``[start, end)`` of a file, less if the file ends before.

        Args:
            name: of the file.
            start: the first byte, within the file.
            end: the byte behind the last one; more than ``start``.
            version: the one to read; None for the one that is there.

        Raises: ObjectChanged if the file has another version; as every method.
        """
        ...

    def whole(self, name: str, version: str | None) -> Piece:
        """Read a whole file. Arguments and errors as of ``range``."""
        ...

    def put(self, name: str, data: bytes | bytearray, *, is_new: bool) -> StoredEntry:
        """Write a whole file, and return its entry.

        Args:
            name: of the file.
            data: its bytes.
            is_new: refuse to replace a file, as far as the store knows such a condition.

        Raises: FileExistsError; StoreFull; as every method.
        """
        ...

    def upload(self, name: str) -> Upload:
        """Begin to write a file that is larger than memory should hold. Raises: StoreFull; as every method."""
        ...

    def move(self, name: str, target: str, size_bytes: int) -> StoredEntry:
        """Give a file another name, and return its entry.

        Args:
            name: of the file.
            target: its new name, which no file has.
            size_bytes: of the file.

        Raises: as every method; the file has one of the names, or both.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove a file. A missing one is as wanted. Raises: as every method."""
        ...


def version_number(version: str) -> int:
    """Return a number of 63 bits for a version, which stands where a local file has its inode."""
    return int.from_bytes(blake2b(version.encode(), digest_size=8).digest(), "big") >> 1 if version else 0
