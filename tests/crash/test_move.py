"""A move between two log dirs, stopped at any step: each partition is whole in one of them, or the same in both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from cleaner.engine.means import Means, Silent
from cleaner.engine.moving import Move, Mover
from cleaner.engine.restore import Restorer
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import OFFSET_CHECKPOINTS, LogDir
from storage.names import TopicPartition
from tests.crash.acts import AT_MS, FS, Act
from tests.crash.power import RecordingFileSystem, lay_down, power_losses
from tests.crash.promises import State, states_of
from tests.crash.scenes import Scene, clicks, payments
from tests.crash.stops import Counting, Stop, by_error, by_kill
from tests.partition_dirs import FakeClock

WANTED: Final = (TopicPartition("clicks", 0), TopicPartition("payments", 0))
EVERY: Final[dict[Stop, int]] = {by_error: 5, by_kill: 12}
STATES_AT_A_STEP: Final = 3
STATES_MAX: Final = 40


def move(place: Path, fs: FileSystem) -> tuple[Move, ...]:
    """Out of ``old`` into ``new``; failures of a partition are in what it returns."""
    log_dirs = LogDir(place / "old"), LogDir(place / "new")
    return tuple(Mover(log_dirs, log_dirs[1], Means(fs, FakeClock(AT_MS), Silent())).move(WANTED))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    Scene(move, (clicks, payments)).draw(tmp_path / "place" / "old")
    (tmp_path / "place" / "new").mkdir()
    (tmp_path / "place" / "new" / "meta.properties").touch()
    return tmp_path / "place"


@pytest.fixture
def before(place: Path) -> dict[str, State]:
    return dict(states_of(place / "old"))


def check(place: Path, before: dict[str, State], where: object) -> None:
    """Between any two steps: in one log dir or the same in both. Behind another run: in the new one alone."""
    held = [dict(states_of(place / name)) for name in ("old", "new")]
    for name, state in before.items():
        found = [states[name] for states in held if name in states]
        assert found, (where, name, "is in neither log dir")
        assert all(one == state for one in found), (where, name)


def check_finished(place: Path, before: dict[str, State], lines: object, where: object) -> None:
    done = move(place, FS)
    assert [one.error for one in done] == [None, None], where
    assert states_of(place / "new") == before, where
    assert not states_of(place / "old"), where
    assert lines_of(place / "new") == lines, where
    assert not any(lines_of(place / "old").values()), where
    assert not list(place.glob("*/*.move-delete")), where
    aside = [path.name.partition(".")[0] for path in (place / "old").glob("*-stray")]
    assert sorted(aside) == sorted(before), where


def lines_of(log_dir: Path) -> dict[str, dict[TopicPartition, int]]:
    return {name: dict(LogDir(log_dir).offsets(name)) for name in OFFSET_CHECKPOINTS}


def places(place: Path, scratch: Path, stop: Stop) -> Iterator[tuple[int, Path]]:
    disk = Counting()
    move(shutil.copytree(place, scratch), disk)
    shutil.rmtree(scratch)
    assert disk.steps > 60
    for number in range(0, disk.steps, EVERY[stop]):
        copied = shutil.copytree(place, scratch)
        assert stop(move, copied, number), number
        yield number, copied
        shutil.rmtree(scratch)


@pytest.mark.parametrize("stop", EVERY)
def test_a_move_that_is_stopped_loses_nothing_and_the_next_finishes_it(
    place: Path, before: dict[str, State], scratch: Path, stop: Stop
) -> None:
    lines = lines_of(place / "old")
    for number, copied in places(place, scratch, stop):
        check(copied, before, number)
        check_finished(copied, before, lines, number)


def move_back(place: Path, fs: FileSystem) -> tuple[Move, ...]:
    log_dirs = LogDir(place / "old"), LogDir(place / "new")
    return Restorer(log_dirs, Means(fs, FakeClock(AT_MS), Silent())).move_back(lambda _: True)


@pytest.mark.parametrize("stop", EVERY)
def test_taking_a_move_back_that_is_stopped_loses_nothing_and_the_next_finishes_it(
    place: Path, before: dict[str, State], scratch: Path, stop: Stop
) -> None:
    move(shutil.copytree(place, scratch), FS)
    moved, disk = Path(shutil.move(scratch, place.with_name("moved"))), Counting()
    move_back(shutil.copytree(moved, scratch), disk)  # the journal names the log dirs by their paths
    assert disk.steps > 20
    for number in range(0, disk.steps, 3):
        shutil.rmtree(scratch)
        shutil.copytree(moved, scratch)
        assert stop(move_back, scratch, number), number
        check(scratch, before, number)
        assert not [one.error for one in move_back(scratch, FS) if one.error], number
        assert states_of(scratch / "old") == before, number
        assert not states_of(scratch / "new"), number
        assert lines_of(scratch / "old") == lines_of(place / "old"), number
        assert not any(lines_of(scratch / "new").values()), number


def test_power_loss_at_any_step_of_a_move_loses_nothing_and_the_next_finishes_it(
    place: Path, before: dict[str, State], scratch: Path
) -> None:
    lines = lines_of(place / "old")
    for number, left in powerless(place, scratch, move, STATES_MAX):
        check(left, before, number)
        check_finished(left, before, lines, number)


def powerless(
    place: Path, scratch: Path, act: Act, states_max: int, disk: type[RecordingFileSystem] = RecordingFileSystem
) -> Iterator[tuple[int, Path]]:
    """What a power loss before a step left, each in the same place: the journal names the log dirs by their paths."""
    dice = Random(0)
    acted = shutil.copytree(place, scratch / "acted")
    states = power_losses(acted, act, STATES_AT_A_STEP, dice, disk)
    for index, (number, left) in enumerate(dice.sample(states, min(states_max, len(states)))):
        laid = lay_down(left, acted, scratch / str(index))
        shutil.rmtree(acted, ignore_errors=True)
        laid.rename(acted)
        for name in ("old", "new"):
            (acted / name).mkdir(exist_ok=True)
        yield number, acted


class NameForgetting(RecordingFileSystem):
    """A disk that is not told that the copy's name is to last."""

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        if not (purpose is Purpose.MOVE and path.name == "new"):
            super().fsync_dir(path, purpose)


def test_a_move_that_sets_aside_before_the_new_name_lasts_is_caught(
    place: Path, before: dict[str, State], scratch: Path
) -> None:
    losses = [
        number
        for number, left in powerless(place, scratch, move, 10_000, NameForgetting)
        if not all((left / "old" / name).exists() or (left / "new" / name).exists() for name in before)
    ]
    assert losses
