"""A clean stopped before each of its steps, by an error and by SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.filesystem import FileSystem, NewFile
from tests.crash.promises import Expected, states_of
from tests.crash.stops import Stop, by_error, by_kill, steps_of, stopped
from tests.crash.tally import TALLY
from tests.faults import SteppingFile, SteppingFileSystem

NO_STEPS = {"close", "replace_file"}
"""The one changes nothing, the other is made of steps."""


@pytest.mark.parametrize(("real", "stepping"), [(FileSystem, SteppingFileSystem), (NewFile, SteppingFile)])
def test_every_operation_is_a_step(real: type, stepping: type) -> None:
    operations = {name for name in vars(real) if not name.startswith("_")}
    assert operations - NO_STEPS <= vars(stepping).keys()


@pytest.mark.parametrize("stop", [by_error, by_kill])
def test_clean_stopped_before_any_step_loses_nothing_and_is_finished_by_the_next(
    expected: Expected, scratch: Path, stop: Stop
) -> None:
    for number, log_dir in stopped(expected, scratch, stop):
        where = f"{stop.__name__}, step {number}"
        expected.check_stopped(states_of(log_dir), where)
        expected.finishes(log_dir, where)
        TALLY.errors += stop is by_error
        TALLY.kills += stop is by_kill


def test_clean_takes_the_same_steps_each_time(expected: Expected, scratch: Path) -> None:
    steps = steps_of(expected, scratch)
    assert steps == steps_of(expected, scratch) > 60
    TALLY.steps += steps
