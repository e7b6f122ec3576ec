"""Every act is stopped by an error, by SIGKILL and by a power loss: the bounded form of ``python -m tests.crash``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from storage.filesystem import FileSystem, NewFile
from tests.crash.promises import Expected
from tests.crash.stops import Stop, by_error, by_kill, steps_of
from tests.crash.tally import TALLY
from tests.crash.trials import Thoroughness, try_power_losses, try_stops
from tests.faults import SteppingFile, SteppingFileSystem

NO_STEPS = {"close", "found_bytes", "let_go", "sha256_of", "write_out", "replace_file", "copy_sparse", "settle"}
"""Five change nothing that lasts, the others are made of steps."""
EVERY: Final = {by_error: Thoroughness(every=3), by_kill: Thoroughness(every=10)}
POWER: Final = Thoroughness(states_at_a_step=4, states_max=50)


@pytest.mark.parametrize(("real", "stepping"), [(FileSystem, SteppingFileSystem), (NewFile, SteppingFile)])
def test_every_operation_is_a_step(real: type, stepping: type) -> None:
    operations = {name for name in vars(real) if not name.startswith("_")}
    assert operations - NO_STEPS <= vars(stepping).keys()


@pytest.mark.parametrize("stop", EVERY)
def test_what_is_stopped_before_a_step_loses_nothing_and_is_finished_by_the_next(
    expected: Expected, scratch: Path, stop: Stop
) -> None:
    try_stops(expected, scratch, stop, EVERY[stop])


def test_power_loss_at_any_step_loses_nothing_and_the_next_finishes(expected: Expected, scratch: Path) -> None:
    try_power_losses(expected, scratch, POWER)


def test_an_act_takes_the_same_steps_each_time(expected: Expected, scratch: Path) -> None:
    steps = steps_of(expected, scratch)
    assert steps == steps_of(expected, scratch) > 30
    TALLY.steps += steps
