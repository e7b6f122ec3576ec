"""What deletions really gave back: free space is measured before and behind them.

Blocks can outlive the file: a snapshot or a copy shares them, or a process has the file open. And they can come late:
ZFS and btrfs free them in the background, XFS and others a moment after the unlink. So where less is free than
expected the file system is synced, and looked at again for some seconds.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from cleaner.engine.means import Means
from policies.rescue import Gain
from storage.log_dir import LogDir
from storage.names import JOURNAL_FILE, ROTATED_JOURNAL_FILE
from storage.segment import BLOCK_BYTES

WAIT_SECONDS_MAX: Final = 10.0
_LOOK_SECONDS: Final = 0.2


class Gauge:
    """Measures what a deletion gives back to the file system of a log dir, from its making on."""

    def __init__(self, log_dir: LogDir, means: Means) -> None:
        self._log_dir = log_dir
        self._means = means
        self._before_bytes = self._taken_by_others()

    def gain(self, expected_bytes: int) -> Gain:
        """Return what came back, once it is enough, or after 10 seconds."""
        gain = self._seen(expected_bytes)
        if not gain.is_lacking:
            return gain
        with suppress(OSError):  # then it is only waited for
            self._log_dir.sync_file_system()
        clock = self._means.clock
        until_seconds = clock.seconds() + WAIT_SECONDS_MAX
        while (gain := self._seen(expected_bytes)).is_lacking:
            if clock.seconds() >= until_seconds or self._means.stopping():
                break
            clock.sleep(_LOOK_SECONDS)
        return gain

    def _seen(self, expected_bytes: int) -> Gain:
        return Gain(expected_bytes, self._before_bytes - self._taken_by_others())

    def _taken_by_others(self) -> int:
        """What all files of the file system take but our journal, which grows with each deletion."""
        journals = (self._log_dir.path / name for name in (JOURNAL_FILE, ROTATED_JOURNAL_FILE))
        return self._log_dir.space().used_bytes - sum(_disk_bytes(path) for path in journals)


def _disk_bytes(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_blocks * BLOCK_BYTES
    return 0
