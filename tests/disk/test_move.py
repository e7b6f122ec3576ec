"""A move between two log dirs on a forgetting disk: a cut of power leaves each partition whole in one, or both."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.crash.acts import AT_MS
from tests.crash.promises import states_of
from tests.crash.scenes import Scene, clicks, payments
from tests.crash.test_move import WANTED, check, check_finished, lines_of, move
from tests.disk.__main__ import in_memory
from tests.disk.acts import CACHE, give_away
from tests.disk.cuts import lay_down
from tests.disk.mount import mounted
from tests.disk.process import WHOLE, caching
from tests.disk.recording import Recording
from tests.disk.trials import SECONDS_MAX, copied, cuts_of
from tests.mutants.suite import ROOT
from tests.sampled import day

CUTS: Final = 40


@pytest.fixture
def scratch() -> Iterator[Path]:
    with in_memory() as directory:
        yield directory


def test_a_cut_of_power_within_a_move_loses_nothing_and_the_same_command_finishes(scratch: Path) -> None:
    drawn, place = scratch / "drawn", scratch / "mounted"
    Scene(move, (clicks, payments)).draw(drawn / "old")
    (drawn / "new").mkdir()
    (drawn / "new" / "meta.properties").touch()
    give_away(drawn)
    before, lines = dict(states_of(drawn / "old")), lines_of(drawn / "old")
    recording = recorded_move(drawn, place, scratch)
    assert len(recording.operations) > 100
    for disk, cut in cuts_of(recording, CUTS, Random(day())):
        shutil.rmtree(place, ignore_errors=True)
        lay_down(disk.left(cut), place)  # where it was: the journal names the log dirs by their paths
        told = disk.told(cut)
        check(place, before, told)
        check_finished(place, before, lines, told)
        for path in (place / "new").glob("*/*.log"):
            assert (path.stat().st_uid, path.stat().st_gid) == (path.parent.stat().st_uid, path.parent.stat().st_gid)


def recorded_move(drawn: Path, place: Path, scratch: Path) -> Recording:
    words = ["move", *map(str, WANTED), "--to-dir", str(place / "new"), "--log-dir", str(place / "old")]
    with mounted(copied(drawn, scratch / "backing"), place, scratch / "recording", ()), caching(scratch / CACHE):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.disk.process", str(AT_MS), WHOLE, *words],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS_MAX, start_new_session=True,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return Recording.read(scratch / "recording")
