"""Files of a run on their way to the driver: in the partitions' directories, under names that mean nothing there.

A broker, and our own listing, look at the last suffix: ``00000000000000000042.log.RUN-ATTEMPT.logcleaner`` is no
segment file to either. Every attempt of a task has names of its own; what the driver does not hear of is nobody's.
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
    """For the files of one attempt of one task of a run."""
    return f".{run}-{secrets.token_hex(8)}{SCRATCH_SUFFIX}"


def sweep(directories: Iterable[Path], fs: FileSystem) -> int:
    """Remove such files of any run; we hold the lock, so none is going on. Gives how many there were."""
    swept = 0
    for directory in directories:
        found = sorted(_names_in(directory))
        for name in found:
            fs.unlink(directory / name, Purpose.CLEAN)
        swept += len(found)
    return swept


def _names_in(directory: Path) -> list[str]:
    """Return the names of the plain scratch files; none of a directory that is gone, or that a symlink took over."""
    with suppress(OSError), opened(directory) as descriptor, os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.name.endswith(SCRATCH_SUFFIX) and _is_plain(entry)]
    return []


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)
