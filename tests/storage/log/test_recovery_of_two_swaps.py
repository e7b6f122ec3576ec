"""Recovery of two finished swaps at once, as a crash leaves them where a group was split into two segments."""

from __future__ import annotations

import shutil

import pytest

from storage.errors import CorruptBatch
from storage.filesystem import FileSystem
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery, recover
from tests.partition_dirs import PartitionDir, keyed, latest, records_in

SUFFIXES = (".log", ".index", ".timeindex")
SOURCES = {0: ("a=old", "k=deleted"), 5: ("a=older", "b=old"), 10: ("k",), 15: ("b=older", "c=old"), 20: ("z=1",)}
"""``k`` and its tombstone, and values that later ones replace; the segment at 20 is active."""
CLEANED = {0: (keyed(0, "a=1", base_offset=0), keyed(9, "b=1", base_offset=9)), 10: (keyed(10, "c=1", last_offset=19),)}
"""What two ``.swap`` logs hold; they cover the offsets from 0 to 19."""


def name(base, suffix):
    return f"{base:020d}{suffix}"


@pytest.fixture
def directory(tmp_path):
    made = PartitionDir(tmp_path)
    for base, pairs in SOURCES.items():
        made.segment(base, keyed(base, *pairs))
    drawn = PartitionDir(tmp_path / "drawn")
    for base, batches in CLEANED.items():
        drawn.segment(base, *batches)
        for suffix in SUFFIXES:
            (drawn.path / name(base, suffix)).rename(made.path / name(base, f"{suffix}.swap"))
    shutil.rmtree(tmp_path / "drawn")
    return made.path


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_all_sources_that_two_finished_swaps_cover_are_replaced(directory):
    recovery = plan_recovery(list_partition(directory))
    assert [segment.base_offset for segment in recovery.listing.segments] == [0, 10, 20]
    recover(FileSystem(), recovery, directory)
    assert latest(directory) == {b"a": b"1", b"b": b"1", b"c": b"1", b"z": b"1"}
    assert [record.offset for record in records_in(directory)] == [0, 9, 10, 20]
    assert set(contents(directory)) == {name(base, suffix) for base in (0, 10, 20) for suffix in SUFFIXES}


@pytest.mark.parametrize("damaged", [0, 10])
def test_one_damaged_of_two_finished_swaps_takes_the_place_of_nothing_nor_does_the_other(directory, damaged):
    swap = directory / name(damaged, ".log.swap")
    data = bytearray(swap.read_bytes())
    data[-1] ^= 1
    swap.write_bytes(data)
    before = contents(directory)
    with pytest.raises(CorruptBatch, match=name(damaged, ".log.swap")):
        plan_recovery(list_partition(directory))
    assert contents(directory) == before


@pytest.mark.parametrize("gone", [(0,), (0, 5), (0, 5, 10)])
def test_damaged_one_of_two_is_refused_as_long_as_any_source_is_there(directory, gone):
    for base in gone:
        for suffix in SUFFIXES:
            (directory / name(base, suffix)).rename(directory / name(base, f"{suffix}.deleted"))
    swap = directory / name(0, ".log.swap")
    swap.write_bytes(swap.read_bytes()[:-1])
    with pytest.raises(CorruptBatch):
        plan_recovery(list_partition(directory))
