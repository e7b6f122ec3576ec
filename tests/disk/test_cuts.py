"""Whole commands on a forgetting disk, judged by Kafka and by our recovery: a bounded ``python -m tests.disk``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.crash.tally import TALLY
from tests.disk.__main__ import in_memory
from tests.disk.acts import ACTS
from tests.disk.cuts import KINDS, POSIX, Disk, File, apply, draw
from tests.disk.recording import Attributed, Attributes, Begun, Linked, Made, Moved, Recording, Synced
from tests.disk.trials import case_of, cuts_of, judged, killed, last_cuts, recorded
from tests.disk.twins import TWINS
from tests.interop.conftest import kafka, referee
from tests.interop.referee import Referee
from tests.sampled import day, some

__all__ = ["kafka", "referee"]
"""Fixtures."""
ACTS_TRIED: Final = 5
CUTS: Final = 20
"""Of each of these acts."""
CUTS_OF_A_TWIN_MAX: Final = 200


@pytest.fixture
def scratch() -> Iterator[Path]:
    with in_memory() as directory:
        yield directory


@pytest.mark.kafka
@pytest.mark.parametrize("name", some(list(ACTS), ACTS_TRIED, always=("clean",)))
def test_what_a_cut_of_power_leaves_loses_nothing_and_the_next_command_finishes(
    name: str, referee: Referee, scratch: Path
) -> None:
    case = case_of(name, day(), scratch)
    recording = recorded(case, scratch)
    cuts, end = cuts_of(recording, CUTS, Random(day())), len(recording.operations)
    failures = judged(case, referee, cuts, scratch / "cuts", ends_at=end)
    assert [(*failure.told, failure.error) for failure in failures] == []


@pytest.mark.kafka
def test_a_process_that_is_killed_with_the_power_loses_nothing(referee: Referee, scratch: Path) -> None:
    dice = Random(day())
    case = case_of("second-round", day(), scratch)
    recording, _ = killed(case, scratch, 300, dice)
    failures = judged(case, referee, last_cuts(recording, 3, dice), scratch / "cuts")
    assert [(*failure.told, failure.error) for failure in failures] == []


@pytest.mark.parametrize("name", TWINS)
def test_a_broken_twin_is_caught(name: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TALLY, "records_lost", 0)  # what a twin loses is no loss
    case = case_of(TWINS[name].act, 2, scratch)
    recording = recorded(case, scratch, name)
    cuts, end = cuts_of(recording, CUTS_OF_A_TWIN_MAX, Random(1)), len(recording.operations)
    assert judged(case, None, cuts, scratch / "cuts", ends_at=end)


def test_a_file_may_have_the_owner_with_which_it_was_made() -> None:
    made, given = Attributes(0o100600, 0, 0, 1), Attributes(0o100640, 7, 7, 1)
    root = Begun(".", 1, Attributes(0o40755, 0, 0, 1), None)
    recording = Recording((root,), (Made(1, "a", 2, False, made), Synced(1), Attributed(2, given)), (0, 1, 2))
    disk = Disk(recording)
    disk.play(3)
    for kind in KINDS:
        left = [disk.left(disk.cut(kind, Random(seed)))["a"][1].attributes for seed in range(50)]
        assert set(left) == {made, given}, kind


def test_an_fsync_that_failed_leaves_each_sector_and_the_size_open_and_a_later_one_does_not_write_them() -> None:
    attributes = Attributes(0o100640, 0, 0, 1)
    file = File(False, bytearray(b"a" * 512), bytearray(b"a" * 512), attributes, lasting=attributes)
    file.write(0, 512, b"b" * 512)
    file.sync(has_failed=True)
    file.sync(has_failed=False)
    assert drawn(file) == {b"a" * 512, b"a" * 512 + b"b" * 512, b"a" * 512 + bytes(512)}
    file.write(1, 512, b"c" * 1024)
    file.sync(has_failed=False)
    assert drawn(file) == {b"a" * 512 + b"c" * 1024}


def drawn(file: File) -> set[bytes]:
    """What a disk without a journal may keep of it."""
    return {draw(file, POSIX, mood, -1, Random(seed)).content for seed in range(60) for mood in ("all", "none", "own")}


def test_a_rename_leaves_the_second_name_of_a_file() -> None:
    names = {1: {"a": 5}}
    for change in (Linked(1, "b", 5), Moved(1, "c", 5, 1, "a")):
        apply(names, change)
    assert names == {1: {"b": 5, "c": 5}}
