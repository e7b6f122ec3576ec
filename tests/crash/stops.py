"""A clean that is stopped before a step: by an error that goes away, or by the end of its process."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from tests.crash.promises import Expected
from tests.crash.scenes import AT_MS, TOPICS, Scene
from tests.faults import SteppingFileSystem
from tests.partition_dirs import FakeClock, a_cleaner, configured, request

LAYERS: Final = configured(**TOPICS)
Clean = Callable[[Path, FileSystem], None]
Stop = Callable[[Clean, Path, int], bool]
"""Cleans a log dir and stops before the step of that number; whether it came that far."""


class Counting(SteppingFileSystem):
    """Numbers the steps from 0 on."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, purpose: Purpose) -> None:
        self.steps += 1
        self.at(self.steps - 1)

    def at(self, number: int) -> None:
        """Called before each step."""


class FailingAt(Counting):
    """One step fails, those behind it do not."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def at(self, number: int) -> None:
        if number == self.number:
            raise OSError(errno.EIO, "the disk says no")


class KillingAt(FailingAt):
    """The process ends before one step: no handler runs."""

    def at(self, number: int) -> None:
        if number == self.number:
            os.kill(os.getpid(), signal.SIGKILL)


def cleaning(scene: Scene) -> Clean:
    """One clean of a log dir; failures of a partition are in its outcome."""

    def clean(log_dir: Path, fs: FileSystem) -> None:
        cleaner = a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS))
        cleaner.clean(request(AT_MS), delete_delay_ms=scene.delete_delay_ms)

    return clean


def by_error(clean: Clean, log_dir: Path, number: int) -> bool:
    """A step that fails may end the run, or the run may go on with other partitions: both are right."""
    disk = FailingAt(number)
    with suppress(OSError, LogCleanerError):
        clean(log_dir, disk)
    return disk.steps > number


def by_kill(clean: Clean, log_dir: Path, number: int) -> bool:
    """SIGKILL in a process of its own, forked from this one, which has the kernels loaded."""
    child = os.fork()
    if child == 0:
        try:
            clean(log_dir, KillingAt(number))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def steps_of(expected: Expected, scratch: Path) -> int:
    """How many steps an uninterrupted clean takes."""
    disk = Counting()
    expected.clean(shutil.copytree(expected.scene, scratch), disk)
    shutil.rmtree(scratch)
    return disk.steps


def stopped(expected: Expected, scratch: Path, stop: Stop, every: int = 1) -> Iterator[tuple[int, Path]]:
    """The scene stopped before its first step, its second one (or only so many-th ones); each in the same place."""
    for number in range(0, steps_of(expected, scratch), every):
        log_dir = shutil.copytree(expected.scene, scratch)
        assert stop(expected.clean, log_dir, number), f"step {number} was not reached"
        yield number, log_dir
        shutil.rmtree(scratch)
