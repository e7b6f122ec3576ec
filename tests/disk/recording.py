"""What a process did to a disk: the directory that it began with, and each operation, in order."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

CONTENT_BYTES_MAX: Final = 16 << 20


class Attributes(NamedTuple):
    """Of a file or a directory."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int


class Made(NamedTuple):
    """A file or a directory gets its first name."""

    directory: int
    name: str
    inode: int
    is_directory: bool
    attributes: Attributes


class Linked(NamedTuple):
    """A file gets another name."""

    directory: int
    name: str
    inode: int


class Moved(NamedTuple):
    """A file or a directory is renamed."""

    directory: int
    name: str
    inode: int
    source_directory: int
    source_name: str


class Unlinked(NamedTuple):
    """A file, or an empty directory, loses a name."""

    directory: int
    name: str
    inode: int


Change = Made | Linked | Moved | Unlinked
"""Of a directory."""


class Wrote(NamedTuple):
    """Bytes of a file."""

    inode: int
    offset: int
    data: bytes
    is_direct: bool
    mtime_ns: int


class Truncated(NamedTuple):
    """A file ends elsewhere: sooner, or later by a hole."""

    inode: int
    size: int
    mtime_ns: int


class Attributed(NamedTuple):
    """Mode, owner or time."""

    inode: int
    attributes: Attributes


class Synced(NamedTuple):
    """An fsync, of a file or of a directory. One that failed leaves pages that no later one writes."""

    inode: int
    has_failed: bool = False


Operation = Change | Wrote | Truncated | Attributed | Synced


class Begun(NamedTuple):
    """A file or a directory that was there before, durably."""

    path: str
    inode: int
    attributes: Attributes
    content: bytes | None
    """None of a directory. What is larger than ``CONTENT_BYTES_MAX`` is left out: whoever records that has a copy."""


def attributes_of(status: os.stat_result) -> Attributes:
    return Attributes(status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)


def beginning_of(root: Path) -> tuple[Begun, ...]:
    """What is there now, the root first."""

    def begun(path: Path) -> Begun:
        status = path.lstat()
        content = None if stat.S_ISDIR(status.st_mode) else b""
        if content is not None and status.st_size <= CONTENT_BYTES_MAX:
            content = path.read_bytes()
        return Begun(path.relative_to(root).as_posix(), status.st_ino, attributes_of(status), content)

    return tuple(begun(path) for path in (root, *sorted(root.rglob("*"))))


@dataclass(frozen=True, slots=True)
class Recording:
    """Of one mount."""

    beginning: tuple[Begun, ...]
    operations: tuple[Operation, ...]
    times_ns: tuple[int, ...]
    """When each of them was done, by a clock that all processes share."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what a mount has written, up to its end."""
        beginning, *done = _pickles(path)
        return cls(beginning, tuple(operation for operation, _ in done), tuple(time_ns for _, time_ns in done))


def _pickles(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)
