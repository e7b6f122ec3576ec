"""The power goes before each step of a clean, and what was not fsynced is lost in part.

``LOGCLEANER_POWER_LOSSES=200`` tries so many states at each step.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Final

import pytest

from storage.errors import LogCleanerError
from storage.filesystem import Purpose
from tests.crash.conftest import an_expected
from tests.crash.power import Disk, Inode, Left, RecordingFileSystem, lay_down
from tests.crash.promises import Expected, states_of
from tests.crash.tally import TALLY

STATES_IN_CI: Final = 6
STATES_AT_A_STEP: Final = int(os.environ.get("LOGCLEANER_POWER_LOSSES", str(STATES_IN_CI)))


def power_losses(
    expected: Expected, scratch: Path, disk: type[RecordingFileSystem] = RecordingFileSystem
) -> list[tuple[int, Left]]:
    """Different states, each with the number of a step before which the power went; paths as in ``scratch``."""
    found: dict[frozenset[tuple[Path, tuple[bytes, int]]], tuple[int, Left]] = {}
    dice, steps = Random(0), 0

    def before_step(disk: Disk) -> None:
        nonlocal steps
        for left in disk.after_power_loss(STATES_AT_A_STEP, dice):
            found.setdefault(frozenset(left.items()), (steps, left))
        steps += 1

    shutil.copytree(expected.scene, scratch)
    expected.clean(scratch, disk(scratch, before_step))
    return list(found.values())


def test_power_loss_at_any_step_loses_nothing_and_the_next_clean_finishes(expected: Expected, scratch: Path) -> None:
    cleaned = scratch / "cleaned"
    for number, left in power_losses(expected, cleaned):
        log_dir = lay_down(left, cleaned, scratch / "data")
        expected.check_stopped(states_of(log_dir), number)
        expected.finishes(log_dir, number)
        shutil.rmtree(log_dir)
        TALLY.power_losses += 1


# Broken twins that the checks must catch: the same steps, without some of their fsyncs


class WithoutFileFsync(RecordingFileSystem):
    def fsync_file(self, inode: Inode) -> None:
        pass


class WithoutFsyncOfSwaps(RecordingFileSystem):
    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        if purpose is not Purpose.SWAP_IN:
            super().fsync_dir(path, purpose)


class WithoutFsyncOfRetired(RecordingFileSystem):
    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        if purpose is not Purpose.RETIRE:
            super().fsync_dir(path, purpose)


@pytest.mark.parametrize("twin", [WithoutFileFsync, WithoutFsyncOfSwaps, WithoutFsyncOfRetired])
def test_a_missing_fsync_is_caught(
    scratch: Path, twin: type[RecordingFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TALLY, "records_lost", 0)  # by a twin: put back afterwards
    expected = an_expected("groups", scratch)
    cleaned, is_caught = scratch / "cleaned", False
    for number, left in power_losses(expected, cleaned, twin):
        log_dir = lay_down(left, cleaned, scratch / "data")
        try:
            expected.check_stopped(states_of(log_dir), number)
            expected.finishes(log_dir, number)
        except (AssertionError, LogCleanerError):
            is_caught = True
            break
        shutil.rmtree(log_dir)
    assert is_caught
