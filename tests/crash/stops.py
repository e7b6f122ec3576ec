"""An act that is stopped before a step: by an error that goes away, or by the end of its process."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from storage.errors import LogCleanerError
from storage.filesystem import Purpose
from tests.crash.acts import Act
from tests.crash.promises import Expected
from tests.faults import SteppingFileSystem

Stop = Callable[[Act, Path, int], bool]
"""Acts on a log dir and stops before the step of that number; whether it came that far."""


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


def by_error(act: Act, log_dir: Path, number: int) -> bool:
    """A step that fails may end the run, or the run may go on with other partitions: both are right."""
    disk = FailingAt(number)
    with suppress(OSError, LogCleanerError):
        act(log_dir, disk)
    return disk.steps > number


def by_kill(act: Act, log_dir: Path, number: int) -> bool:
    """SIGKILL in a process of its own, forked from this one, which has the kernels loaded."""
    child = os.fork()
    if child == 0:
        try:
            act(log_dir, KillingAt(number))
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
    """How many steps an uninterrupted act takes."""
    disk = Counting()
    expected.scene.act(shutil.copytree(expected.drawn, scratch), disk)
    shutil.rmtree(scratch)
    return disk.steps


def stopped(
    expected: Expected, scratch: Path, stop: Stop, first: int = 0, every: int = 1
) -> Iterator[tuple[int, Path]]:
    """The scene stopped before each step, or each so many-th one from the ``first`` on; each in the same place."""
    for number in range(first, steps_of(expected, scratch), every):
        log_dir = shutil.copytree(expected.drawn, scratch)
        assert stop(expected.scene.act, log_dir, number), f"step {number} was not reached"
        yield number, log_dir
        shutil.rmtree(scratch)
