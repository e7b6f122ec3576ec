"""Files of a run on their way to the driver: in the partitions' directories, under names that mean nothing there.

A broker, and our own listing, look at the last suffix: ``00000000000000000042.log.RUN-ATTEMPT.logcleaner`` is no
segment file to either. Every attempt of a task has names of its own; what the driver does not hear of is nobody's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from storage.filesystem import FileSystem, Purpose
from storage.names import SCRATCH_SUFFIX


def new_suffix(run: str) -> str:
    """For the files of one attempt of one task of a run."""
    return f".{run}-{secrets.token_hex(8)}{SCRATCH_SUFFIX}"


def sweep(directories: Iterable[Path], fs: FileSystem) -> int:
    """Remove such files of any run; we hold the lock, so none is going on. Gives how many there were."""
    swept = 0
    for directory in directories:
        found = sorted(directory.glob(f"*{SCRATCH_SUFFIX}"))
        for path in found:
            fs.unlink(path, Purpose.CLEAN)
        swept += len(found)
    return swept
