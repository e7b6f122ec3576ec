"""What is stopped: a clean, a ``free``, a restore, a sweep; each is run the same way again by who goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from unittest.mock import patch

from cleaner.engine.doctor.sweeping import Named, Sweeper
from cleaner.engine.means import Means
from cleaner.engine.outcome import Silent
from cleaner.engine.undo.restore import Restorer
from policies.rescue import SpaceTarget
from storage.filesystem import FileSystem
from storage.log_dir import LogDir, Space
from storage.segment import BLOCK_BYTES
from tests.partition_dirs import COMPACT, DAY_MS, EXPIRING, NOW_MS, FakeClock, a_cleaner, configured, request

FS: Final = FileSystem()
AT_MS: Final = max(NOW_MS, time.time_ns() // 1_000_000 + DAY_MS)
"""When everything happens; later than the change times of real files, or none of them could be swept."""
GROUPS: Final = {"segment.bytes": "420", "index.interval.bytes": "0"}
"""Groups of two or three segments."""
TOPICS: Final = {
    "clicks": EXPIRING,
    "gone": EXPIRING,
    "orders": {**COMPACT, **GROUPS},
    "prices": {**COMPACT, **GROUPS, "segment.bytes": "700"},
    "payments": {**COMPACT, **GROUPS, "segment.bytes": "1200"},
    "accounts": {**COMPACT, **EXPIRING, "cleanup.policy": "compact,delete"},
    "drawn": {**COMPACT, **GROUPS, "segment.bytes": "1000"},
}
LAYERS: Final = configured(**TOPICS)
STRAY: Final = f"old-0.{'ab' * 16}-stray"
DELETE: Final = f"older-0.{'cd' * 16}-delete"
SWEPT: Final = (
    *(f"{partition}/{0:020d}{kind}.deleted" for partition in ("clicks-0", "gone-0") for kind in (".log", ".index")),
    STRAY,
    DELETE,
)
"""What a sweep is asked for."""
Act = Callable[[Path, FileSystem], object]
"""Does something to a log dir; failures of a partition are in what it returns."""


def clean(log_dir: Path, fs: FileSystem) -> object:
    """What is retired waits as ``.deleted``, which a restore can take back."""
    return a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)).clean(request(AT_MS))


def clean_at_once(log_dir: Path, fs: FileSystem) -> object:
    """What is retired is unlinked."""
    return a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)).clean(request(AT_MS, delete_delay_ms=0))


def free(log_dir: Path, fs: FileSystem) -> object:
    """As much as policy allows, compactions too. What other processes write to the file system is not counted."""
    space_of = LogDir.space
    with patch.object(LogDir, "space", lambda self: _space_alone(space_of, self)):
        return a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)).free(request(AT_MS), SpaceTarget(100, is_percent=True))


def _space_alone(space_of: Callable[[LogDir], Space], log_dir: LogDir) -> Space:
    blocks = sum(path.lstat().st_blocks for path in log_dir.path.rglob("*"))
    return space_of(log_dir)._replace(used_bytes=blocks * BLOCK_BYTES)


def restore(log_dir: Path, fs: FileSystem) -> object:
    """Everything that still waits."""
    return Restorer([LogDir(log_dir)], Means(fs, FakeClock(AT_MS), Silent())).restore(lambda _: True)


def sweep(log_dir: Path, fs: FileSystem) -> object:
    """Files that wait, a stray directory, and one of a deleted topic."""
    named = [Named(LogDir(log_dir), name) for name in SWEPT]
    return Sweeper(Means(fs, FakeClock(AT_MS), Silent()), lambda: LAYERS).sweep(named)
