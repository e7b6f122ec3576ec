"""The daemon's first retention opens every partition, to find the leftovers of a crash; later ones open only partitions
that lose something.
"""

from __future__ import annotations

import pytest

from storage.filesystem import FileSystem
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from tests.cleaner.daemon.test_worker import FIVE_MINUTES_MS, World, in_this_process  # noqa: F401 - a fixture
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    committed,
    file_names,
    keyed,
    latest,
)

AFTER_START_MS = 30_000
"""When the first retention is due."""
KEPT = {"cleanup.policy": "delete"}
ANSWERS = {b"a": b"2", b"b": b"1", b"c": b"1"}


def crashed(log_dir, name):
    """A partition in the middle of a swap: a ``.swap`` takes in two sources, none of which is retired yet."""
    made = PartitionDir(log_dir, name).segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))
    made.segment(20, keyed(20, "c=1"))
    drawn = PartitionDir(log_dir.parent / f"drawn-{name}", name)
    drawn.segment(0, keyed(1, "b=1", base_offset=0), keyed(10, "a=2"))
    for path in drawn.path.iterdir():
        path.rename(made.path / f"{path.name}.swap")
    return made


def expiring(log_dir, name):
    made = PartitionDir(log_dir, name)
    for base, age_days in ((0, 3), (2, 0)):
        made.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS - age_days * DAY_MS))
    return made


@pytest.fixture
def log_dir(tmp_path):
    """What a crash left in ``state`` and ``views``, which lose nothing; ``orders`` may lose a segment."""
    path = tmp_path / "data"
    return committed(path, crashed(path, "state-0"), crashed(path, "views-0"), expiring(path, "orders-0"))


def needs_recovery(log_dir):
    return [name for name in ("state-0", "views-0") if list_partition(log_dir / name).needs_recovery]


@pytest.mark.parametrize("orders", [KEPT, EXPIRING], ids=["nothing expires", "another partition expires"])
def test_first_retention_finishes_what_a_crash_left_in_partitions_that_lose_nothing(log_dir, orders):
    world = World(log_dir, state=KEPT, views=KEPT, orders=orders)
    world.after(0)
    assert needs_recovery(log_dir) == ["state-0", "views-0"]  # a survey only looks
    world.after(AFTER_START_MS)
    assert needs_recovery(log_dir) == []
    for name in ("state-0", "views-0"):
        assert latest(log_dir / name) == ANSWERS
        assert f"{10:020d}.log" not in file_names(log_dir / name)
    assert ("segment_deleted" in world.log.names()) is (orders is EXPIRING)


def test_first_retention_that_finds_the_log_dir_locked_leaves_the_leftovers_to_the_next(log_dir):
    world = World(log_dir, state=KEPT, views=KEPT, orders=KEPT)
    with LogDir(log_dir).lock(FileSystem()):
        world.after(AFTER_START_MS)
        assert needs_recovery(log_dir) == ["state-0", "views-0"]
    world.after(FIVE_MINUTES_MS)
    assert needs_recovery(log_dir) == []


def test_later_retentions_open_only_what_loses_something(log_dir, tmp_path):
    world = World(log_dir, state=KEPT, views=KEPT, orders=KEPT)
    world.after(AFTER_START_MS)
    swap = log_dir / "state-0" / f"{0:020d}.log"
    swap.rename(swap.with_suffix(".log.swap"))  # as no crash of ours leaves it while the daemon lives
    world.after(FIVE_MINUTES_MS)
    assert needs_recovery(log_dir) == ["state-0"]
