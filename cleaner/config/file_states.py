"""What files look like from outside, to see cheaply whether anything changed: no file is opened.

A state is compared with another one of the same thing, and means nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from storage.names import LOCK_FILE

State = tuple[object, ...]


def state_of_files(paths: Iterable[Path]) -> State:
    """Of single files; one that is absent has its state too."""
    return tuple(_stat(path) for path in paths)


def state_of_directory(path: Path) -> State:
    """Of everything in a directory but a lock; that of nothing where it cannot be read.

    Of a log dir: what changes the names in a partition (a roll, a deletion, a compaction) or a checkpoint changes it,
    an append does not.
    """
    try:
        with os.scandir(path) as entries:
            return tuple(sorted((entry.name, *_stat(entry.path)) for entry in entries if entry.name != LOCK_FILE))
    except OSError:
        return ()


def state_of_entries(path: Path, names: Iterable[str]) -> State:
    """Return the state of some entries of a directory, as they stand in the state of the directory."""
    return tuple((name, *_stat(path / name)) for name in names)


def with_entries(state: State, before: State, after: State) -> State:
    """Return the state of a directory in which nothing but some entries changed.

    Args:
        state: of the directory, earlier.
        before: of the entries, just before the change: if they were others already, the state stays as it is.
        after: of the same entries, in the same order.
    """
    if not set(before) <= set(state):
        return state
    changes = dict(zip(before, after, strict=True))
    return tuple(changes.get(entry, entry) for entry in state)


def _stat(path: Path | str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116 - also of a scanned entry
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
