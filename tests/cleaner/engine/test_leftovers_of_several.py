"""Leftovers of a crash in several partitions: one partition that cannot be recovered does not keep the others
from it.
"""

from __future__ import annotations

import pytest

from storage.log.listing import list_partition
from tests.partition_dirs import PartitionDir, a_cleaner, committed, configured, keyed, latest, request

KEPT = {"cleanup.policy": "delete", "retention.ms": "-1"}
NAMES = ("aaa-0", "bbb-0", "ccc-0")
LAYERS = configured(**{name.removesuffix("-0"): KEPT for name in NAMES})


def in_a_swap(log_dir, name):
    """A ``.swap`` log is complete, and its sources are still there."""
    made = PartitionDir(log_dir, name).segment(0, keyed(0, "a=1")).segment(10, keyed(10, "a=2"))
    made.segment(20, keyed(20, "b=1"))
    (made.path / f"{0:020d}.log.swap").write_bytes(keyed(10, "a=2", base_offset=0))
    return made


@pytest.fixture
def log_dir(tmp_path):
    return committed(tmp_path, *(in_a_swap(tmp_path, name) for name in NAMES))


def damage(swap):
    swap.write_bytes(swap.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("damaged", NAMES)
def test_one_damaged_swap_leaves_the_other_partitions_recovered(log_dir, damaged):
    damage(log_dir / damaged / f"{0:020d}.log.swap")
    first = log_dir / damaged / f"{0:020d}.log"
    first.rename(f"{first}.deleted")  # so neither the swap nor its sources are whole
    before = {path.name: path.read_bytes() for path in (log_dir / damaged).iterdir()}
    plan, _ = a_cleaner(log_dir, LAYERS).clean(request())
    assert [str(failure.topic_partition) for failure in plan.failures] == [damaged]
    assert {path.name: path.read_bytes() for path in (log_dir / damaged).iterdir()} == before
    for name in set(NAMES) - {damaged}:
        assert not list_partition(log_dir / name).needs_recovery
        assert latest(log_dir / name) == {b"a": b"2", b"b": b"1"}


@pytest.mark.parametrize("damaged", NAMES)
def test_damaged_swap_goes_where_its_sources_are_whole(log_dir, damaged):
    damage(log_dir / damaged / f"{0:020d}.log.swap")
    plan, _ = a_cleaner(log_dir, LAYERS).clean(request())
    assert not plan.failures
    for name in NAMES:
        assert not list_partition(log_dir / name).needs_recovery
        assert latest(log_dir / name) == {b"a": b"2", b"b": b"1"}
