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


def _stat(path: Path | str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116 - also of a scanned entry
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
