"""The private directory of an import: its name, what it may hold, and its removal after a kill.

Invariant:  what import did not write stays, whatever its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from storage.directory import opened
from storage.errors import ErrorKind, LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir
from storage.names import (
    IMPORT_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_segment_file_name,
    parse_topic_partition,
)

_NAME_BYTES_MAX: Final = 255


def _and_next(*names: str) -> frozenset[str]:
    """Return names of files, and of their next contents before they get their names."""
    return frozenset({*names, *(f"{name}.tmp" for name in names)})


_PRIVATE_FILES: Final = _and_next(RECOVERY_POINT_CHECKPOINT)
"""The files that a flushed log leaves in the directory above its own."""
_METADATA_FILES: Final = _and_next(PARTITION_METADATA_FILE, LEADER_EPOCH_CHECKPOINT)


class NotOurs(LogCleanerError):
    """A directory with the name of a private one, and something in it that import does not write."""

    kind = ErrorKind.USAGE

    path: Path
    found: str

    def __str__(self) -> str:
        return f"{self.path}: holds {self.found}, which import did not write: move it away; nothing was imported"


def remove_leftovers(fs: FileSystem, log_dir: LogDir) -> Iterator[tuple[Path, str]]:
    """Remove what a killed import left in a log dir.

    Yields:
        Each directory, with what import did not write in it, and why it therefore stays; empty if it was removed.

    Raises: UnreadableFile, OSError.
    """
    for name in sorted(os.listdir(log_dir.path)):  # noqa: PTH208 - names alone
        if not name.endswith(IMPORT_SUFFIX):
            continue
        path = log_dir.path / name
        strange = _strange(path)
        if not strange:
            remove(fs, path)
        yield path, strange


def check_private(log_dir: LogDir, wanted: TopicPartition) -> None:
    """Refuse to write where something lies that import did not write. Raises: NotOurs, UnreadableFile."""
    path = log_dir.path / private_name(wanted)
    if os.path.lexists(path) and (strange := _strange(path)):
        raise NotOurs(path, strange)


def _strange(private: Path) -> str:
    """Return the first thing in a private directory that import does not write; empty if there is none."""
    if private.is_symlink() or not private.is_dir():
        return "a symlink" if private.is_symlink() else "no directory"
    stem = private.name.removesuffix(IMPORT_SUFFIX)
    if parse_topic_partition(stem) is None:
        return "no partition, as its name says"
    inner = [name for name in _names(private) if not _is_file(private, name, _PRIVATE_FILES)]
    if not inner:
        return ""
    directory = private / inner[0]
    if len(inner) > 1 or directory.is_symlink() or not directory.is_dir() or not _is_of(inner[0], stem):
        return min((name for name in inner if name != stem), default=stem)
    return next((f"{inner[0]}/{n}" for n in sorted(_names(directory)) if not _is_segment_file(directory, n)), "")


def _is_of(name: str, stem: str) -> bool:
    """Return whether a directory is the partition of a private directory, whose name may be cut."""
    found, cut = parse_topic_partition(name), parse_topic_partition(stem)
    if found is None or cut is None:
        return False
    return found.partition == cut.partition and found.topic.startswith(cut.topic)


def _is_segment_file(directory: Path, name: str) -> bool:
    is_known = parse_segment_file_name(name.removesuffix(".tmp")) is not None
    return _is_file(directory, name, {name} if is_known else _METADATA_FILES)


def _is_file(directory: Path, name: str, known: Collection[str]) -> bool:
    return name in known and stat.S_ISREG((directory / name).lstat().st_mode)


def private_name(wanted: TopicPartition) -> str:
    """Return the name of the private directory. A long topic is cut, as Kafka cuts it for a deleted one."""
    suffix = f"-{wanted.partition}{IMPORT_SUFFIX}"
    return wanted.topic[: _NAME_BYTES_MAX - len(suffix)] + suffix


def remove(fs: FileSystem, private: Path) -> None:
    """Remove a private directory with the partition in it; nothing in it is followed."""
    for name in _names(private):
        inner = private / name
        if inner.is_dir() and not inner.is_symlink():
            for file_name in _names(inner):
                fs.unlink(inner / file_name, Purpose.IMPORT)
            fs.remove_dir(inner, Purpose.IMPORT)
        else:
            fs.unlink(inner, Purpose.IMPORT)
    fs.remove_dir(private, Purpose.IMPORT)
    fs.fsync_dir(private.parent, Purpose.IMPORT)


def _names(directory: Path) -> list[str]:
    with as_unreadable(directory), opened(directory) as descriptor:
        return os.listdir(descriptor)  # noqa: PTH208 - a path would be followed
