"""Scratch files of a run, on their way to the driver: they lie in partition directories, under meaningless names.

A broker, and our own listing, look at the last suffix. ``00000000000000000042.log.RUN-ATTEMPT.logcleaner`` is no
segment file to either. Every attempt of a task has names of its own. Files that no result names belong to nobody.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from storage.directory import opened
from storage.filesystem import FileSystem, Purpose
from storage.names import SCRATCH_SUFFIX


def new_suffix(run: str) -> str:
    """Return a new suffix for the files of one attempt of one task."""
    return f".{run}-{secrets.token_hex(8)}{SCRATCH_SUFFIX}"


def sweep(directories: Iterable[Path], fs: FileSystem) -> int:
    """Remove the scratch files of all runs, and return their number. We hold the lock, so no other run is active."""
    swept = 0
    for directory in directories:
        found = sorted(_names_in(directory))
        for name in found:
            fs.unlink(directory / name, Purpose.CLEAN)
        swept += len(found)
    return swept


def _names_in(directory: Path) -> list[str]:
    """Return the names of plain scratch files; none if the directory is gone, or if a symlink replaced it."""
    with suppress(OSError), opened(directory) as descriptor, os.scandir(descriptor) as entries:
        plain = (entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        return [name for name in plain if name.endswith(SCRATCH_SUFFIX)]
    return []
