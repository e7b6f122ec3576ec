"""The states of files and directories, which show cheaply, without opening a file, whether anything changed.

A state means nothing by itself: callers compare it with another state of the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from storage.names import LOCK_FILE

State = tuple[object, ...]


def state_of_file(path: Path | str) -> tuple[int, ...]:
    """Return the state of a single file, or of an entry of a directory; an absent file has a state, too."""
    try:
        found = os.stat(path)  # noqa: PTH116 - the path may be that of a scanned entry
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def state_of_directory(path: Path) -> State:
    """Return the state of all entries of a directory but the lock; the empty state if it cannot be read.

    The state of a log dir changes with a checkpoint, and with the names in a partition (a roll, a deletion, a
    compaction). It does not change with an append.
    """
    try:
        with os.scandir(path) as entries:
            return tuple(
                sorted((entry.name, *state_of_file(entry.path)) for entry in entries if entry.name != LOCK_FILE)
            )
    except OSError:
        return ()


def state_of_entries(path: Path, names: Iterable[str]) -> State:
    """Return the state of some entries of a directory, in the form that the directory's state has."""
    return tuple((name, *state_of_file(path / name)) for name in names)


def with_entries(state: State, before: State, after: State) -> State:
    """Return the state of a directory after a change of some entries alone.

    Args:
        state: the earlier state of the directory.
        before: the state of the entries just before the change; if ``state`` does not have it, ``state`` is returned.
        after: the state of the same entries after the change, in the same order.
    """
    if not set(before) <= set(state):
        return state
    changes = dict(zip(before, after, strict=True))
    return tuple(changes.get(entry, entry) for entry in state)
