"""The command line at a fixed time, with waves of two partitions, which notes each phase that its waves come to.

    python -m tests.spark.wave_driver NOTES WAVE PHASE STEP WORD...

runs ``logcleaner WORD...`` and waits some seconds before a change of the log dir: the one of that number in that phase
of that wave. A line of NOTES is a wave and a phase; ``REACHED`` is the phase once it waits.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn
from unittest.mock import patch

from cleaner.__main__ import run
from cleaner.spark.bulk import bulk
from cleaner.spark.bulk.shuffle import survivor_bitmaps
from storage.filesystem import FileSystem
from tests.disk.process import at
from tests.partition_dirs import NOW_MS

SURVEY, KEYS, REWRITE, PREPARED, SWAPS, SWEEP = PHASES = ("survey", "keys", "rewrite", "prepared", "swaps", "sweep")
OF_JOBS: Final = (SURVEY, KEYS, REWRITE)
"""Executors work in them; a phase behind these is one of the driver's, and has steps."""
REACHED: Final = "reached"
PARTITIONS_A_WAVE: Final = 2
WAITS_SECONDS: Final = 20
_CHANGES: Final = ("create", "rename", "unlink", "fsync_dir")


class Steps:
    """Follows the waves of a run, and stops before one step."""

    def __init__(self, notes: Path, wave: int, phase: str, step: int) -> None:
        self._notes, self._wanted = notes, (wave, phase, step)
        self._wave, self._phase, self._step = -1, "", 0

    def next_wave(self) -> None:
        """Begin one."""
        self._wave += 1

    def come_to(self, phase: str) -> None:
        """Note a phase."""
        self._phase, self._step = phase, 0
        self._write(phase)

    def step(self) -> None:
        """Called before each change of the log dir by this process."""
        if (self._wave, self._phase, self._step) == self._wanted:
            self._write(REACHED)
            time.sleep(WAITS_SECONDS)
        self._step += 1

    def _write(self, phase: str) -> None:
        with self._notes.open("a") as file:
            file.write(f"{self._wave} {phase}\n")


class Followed(bulk.Bulk):
    """Tells the steps of its waves."""

    steps: Steps

    def prepare(self, *args: Any) -> None:
        self.close()
        self.steps.next_wave()
        self.steps.come_to(SURVEY)
        super().prepare(*args)
        self.steps.come_to(PREPARED)
        self.steps.step()
        self.steps.come_to(SWAPS)

    def close(self) -> None:
        self.steps.come_to(SWEEP)
        super().close()


def told(function: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    """Pass 1, with what comes before and behind it noted."""

    def survivors(*args: Any) -> Any:
        steps.come_to(KEYS)
        found = function(*args)
        steps.come_to(REWRITE)
        return found

    return survivors


def stepping(function: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    def changed(*args: Any, **options: Any) -> Any:
        steps.step()
        return function(*args, **options)

    return changed


def main(notes: str, wave: str, phase: str, step: str, *words: str) -> NoReturn:
    """Be that process."""
    Followed.steps = steps = Steps(Path(notes), int(wave), phase, int(step))
    for name in _CHANGES:
        patch.object(FileSystem, name, stepping(getattr(FileSystem, name), steps)).start()
    patch.object(bulk, "survivor_bitmaps", told(survivor_bitmaps, steps)).start()
    patch.object(bulk, "PARTITIONS_A_SLOT", 1).start()
    patch.object(bulk, "Bulk", Followed).start()
    sys.argv = ["logcleaner", *words]
    with at(NOW_MS):
        sys.exit(run())


if __name__ == "__main__":
    os.environ.pop("SPARK_REMOTE", None)
    main(*sys.argv[1:])
