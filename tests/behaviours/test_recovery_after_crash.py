"""Kafka LogLoaderTest: what is read, and done, after a crash in the middle of a swap."""

from __future__ import annotations

import pytest

from storage.filesystem import FileSystem
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery, recover
from tests.partition_dirs import PartitionDir, file_names, keyed, records_in

KINDS = (".log", ".index", ".timeindex")
SPLIT = (0, 2)
"""The bases of the two segments into which a segment of four records was split."""


def move(directory, base, old, new):
    for kind in KINDS:
        (directory / f"{base:020d}{kind}{old}").rename(directory / f"{base:020d}{kind}{new}")


@pytest.fixture
def directory(tmp_path):
    """One segment of four records and an active one; the halves of the first are written as ``.cleaned``."""
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=0", "b=1"), keyed(2, "c=2", "d=3"))
    made.segment(4, keyed(4, "e=4"))
    halves = PartitionDir(tmp_path, "halves-0").segment(0, keyed(0, "a=0", "b=1")).segment(2, keyed(2, "c=2", "d=3"))
    for base in SPLIT:
        for kind in KINDS:
            name = f"{base:020d}{kind}"
            (halves.path / name).rename(made.path / f"{name}.cleaned")
    return made.path


def cleaned_only(directory):
    pass


def upper_half_is_swap(directory):
    move(directory, 2, ".cleaned", ".swap")


def both_are_swap(directory):
    for base in SPLIT:
        move(directory, base, ".cleaned", ".swap")


def source_is_retired(directory):
    both_are_swap(directory)
    move(directory, 0, "", ".deleted")


def lower_half_is_in(directory):
    source_is_retired(directory)
    move(directory, 0, ".swap", "")


@pytest.mark.parametrize(
    ("phase", "bases"),
    [
        (cleaned_only, [0, 4]),
        (upper_half_is_swap, [0, 4]),
        (both_are_swap, [0, 2, 4]),
        (source_is_retired, [0, 2, 4]),
        (lower_half_is_in, [0, 2, 4]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_split_that_a_crash_cut_short_is_undone_or_completed_without_loss(directory, phase, bases):
    # LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase1 to Phase5
    phase(directory)
    planned = plan_recovery(list_partition(directory))
    assert [segment.base_offset for segment in planned.listing.segments] == bases
    recover(FileSystem(), planned, directory)
    assert [segment.base_offset for segment in list_partition(directory).segments] == bases
    assert [record.offset for record in records_in(directory)] == [0, 1, 2, 3, 4]
    assert not [name for name in file_names(directory) if name.endswith((".cleaned", ".swap"))]
