"""Private directories: a partition is made in one, and no broker loads it.

A broker takes the directory for that of a deleted topic: it looks at no directory in it, and removes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from storage.directory import opened
from storage.errors import LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, Purpose
from storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA_FILE,
    FileKind,
    TopicPartition,
    parse_segment_file_name,
)

NAME_BYTES_MAX: Final = 255


def name_of_private(wanted: TopicPartition, suffix: str) -> str:
    """Return the name of a private directory. A long topic is cut, as Kafka cuts it for a deleted one."""
    ending = f"-{wanted.partition}{suffix}"
    return wanted.topic[: NAME_BYTES_MAX - len(ending)] + ending


@contextmanager
def private_directory(fs: FileSystem, private: Path, purpose: Purpose) -> Iterator[None]:
    """Make a private directory in a log dir, and remove it at the end, with the files that are still in it."""
    try:
        fs.make_dir(private, private.parent, purpose)
        fs.fsync_dir(private.parent, purpose)
        yield
    finally:
        with suppress(LogCleanerError, OSError):  # the next run finds it
            remove_private(fs, private, purpose)


def remove_private(fs: FileSystem, private: Path, purpose: Purpose) -> None:
    """Remove a private directory with the partition in it; nothing in it is followed."""
    for name in names_in(private):
        inner = private / name
        if inner.is_dir() and not inner.is_symlink():
            for file_name in names_in(inner):
                fs.unlink(inner / file_name, purpose)
            fs.remove_dir(inner, purpose)
        else:
            fs.unlink(inner, purpose)
    fs.remove_dir(private, purpose)
    fs.fsync_dir(private.parent, purpose)


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory. Raises: UnreadableFile."""
    with as_unreadable(directory), opened(directory) as descriptor:
        return os.listdir(descriptor)  # noqa: PTH208 - a path would be followed


def is_of_a_start(path: Path) -> bool:
    """Return whether a start of Kafka put a file into a private directory: it makes an empty log there, which it
    removes behind its delay."""
    found = parse_segment_file_name(path.name)
    is_log = found is not None and found.kind is FileKind.LOG
    is_known = found is not None or path.name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE)
    return is_known and not path.is_symlink() and path.is_file() and not (is_log and path.stat().st_size)
