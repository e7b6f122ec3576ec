"""A log dir that somebody else can write to: nothing outside of it is read for data, changed, or waited for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.filesystem import FileSystem, NewFile, Purpose
from storage.names import CLEANER_OFFSET_CHECKPOINT, JOURNAL_FILE
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    records_in,
    request,
)

LAYERS = configured(orders=COMPACT, clicks=EXPIRING)
OLD_MS = NOW_MS - 2 * DAY_MS
STEPS_MAX = 60


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """``orders-0`` is compactable, ``clicks-0`` has an expired segment."""
    path = tmp_path / "data"
    orders = PartitionDir(path, "orders-0").segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))
    orders.segment(20, keyed(20, "c=1"))
    clicks = PartitionDir(path, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=OLD_MS)).segment(1, keyed(1, "x=2"))
    return committed(path, orders, clicks)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def clean(log_dir: Path, fs: FileSystem | None = None, delete_delay_ms: int | None = 0):
    return a_cleaner(log_dir, LAYERS, fs).clean(request(delete_delay_ms=delete_delay_ms))


class Swapping(FileSystem):
    """Before one step, the partition directory that it is about becomes a symlink to the victim."""

    def __init__(self, partition: Path, victim: Path, at_step: int) -> None:
        self._partition, self._victim, self._left = partition, victim, at_step
        self.has_swapped = False

    def _step(self, path: Path) -> None:
        if self._partition in (path, path.parent):
            if self._left == 0:
                self._partition.rename(self._partition.with_name("moved-away"))
                self._partition.symlink_to(self._victim)
                self.has_swapped = True
            self._left -= 1

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        self._step(path)
        return super().create(path, like, purpose)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        self._step(source)
        super().rename(source, target, purpose)

    def unlink(self, path: Path, purpose: Purpose) -> None:
        self._step(path)
        super().unlink(path, purpose)

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        self._step(path)
        super().fsync_dir(path, purpose)


@pytest.mark.parametrize("name", ["orders-0", "clicks-0"])
def test_partition_swapped_for_a_symlink_before_any_step_is_not_followed(tmp_path, log_dir, name):
    steps = 0
    for at_step in range(STEPS_MAX):
        here = Path(shutil.copytree(log_dir, tmp_path / str(at_step) / "data"))
        victim = Path(shutil.copytree(log_dir / name, tmp_path / str(at_step) / "victim"))
        before = contents(victim)
        fs = Swapping(here / name, victim, at_step)
        _, outcome = clean(here, fs)
        assert contents(victim) == before, at_step
        if not fs.has_swapped:
            break
        steps += 1
        assert any(result.error for result in outcome.results.values()), at_step
    assert 4 < steps < STEPS_MAX


def strange_fifo(path: Path, _outside: Path) -> None:
    os.mkfifo(path)


def strange_symlink(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


@pytest.mark.parametrize("make", [strange_fifo, strange_symlink])
@pytest.mark.parametrize(
    "place",
    [
        "orders-0/leader-epoch-checkpoint",
        f"orders-0/{10:020d}.log",
        f"orders-0/{10:020d}.timeindex",
        f"orders-0/{10:020d}.index",
        f"orders-0/{10:020d}.txnindex",
        f"orders-0/{10:020d}.snapshot",
        f"orders-0/{10:020d}.log.swap",
        f"orders-0/{10:020d}.log.cleaned",
        f"orders-0/{10:020d}.log.deleted",
        "replication-offset-checkpoint",
        CLEANER_OFFSET_CHECKPOINT,
        JOURNAL_FILE,
    ],
)
def test_strange_file_in_any_place_is_neither_followed_nor_waited_for(
    tmp_path, log_dir, place, make: Callable[[Path, Path], None]
):
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    (log_dir / place).unlink(missing_ok=True)
    make(log_dir / place, outside)
    clean(log_dir)
    assert outside.read_bytes() == b"secret"


def test_lock_that_is_a_link_to_a_file_outside_is_replaced_and_that_file_is_left_as_it_was(tmp_path, log_dir):
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    (log_dir / ".lock").hardlink_to(outside)
    before = outside.stat()
    clean(log_dir)
    assert not (log_dir / ".lock").samefile(outside)
    after = outside.stat()
    assert (after.st_uid, after.st_gid, after.st_mode, after.st_mtime_ns) == (
        before.st_uid, before.st_gid, before.st_mode, before.st_mtime_ns,
    )  # fmt: skip


def test_journal_that_is_a_link_to_a_file_outside_lets_nothing_go(tmp_path, log_dir):
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    (log_dir / JOURNAL_FILE).hardlink_to(outside)
    before = contents(log_dir / "clicks-0")
    _, outcome = clean(log_dir)
    assert outside.read_bytes() == b"secret"
    assert contents(log_dir / "clicks-0") == before
    assert all("hard link" in (result.error or "") for result in outcome.results.values())


def test_hard_linked_copy_of_the_log_dir_stays_as_it_was(tmp_path, log_dir):
    copy = tmp_path / "copy"
    shutil.copytree(log_dir, copy, copy_function=os.link)
    before = {name: contents(copy / name) for name in ("orders-0", "clicks-0")}
    _, outcome = clean(log_dir)
    assert [result.error for result in outcome.results.values()] == [None, None]
    assert [record.offset for record in records_in(log_dir / "orders-0")] == [1, 10, 20]
    assert {name: contents(copy / name) for name in before} == before


@pytest.mark.parametrize("name", ["clicks-00", "orders 0 99\nclicks-0", "..-0", "clicks-0\n", "clicks- 0"])
def test_directory_with_a_name_that_no_broker_gives_is_no_partition(log_dir, name):
    (log_dir / "clicks-0").rename(log_dir / name)
    before = contents(log_dir / name)
    planned, _ = clean(log_dir)
    assert [str(p.facts.topic_partition) for p in planned.partitions] == ["orders-0"]
    assert contents(log_dir / name) == before


def test_partition_that_is_a_symlink_is_no_partition(tmp_path, log_dir):
    outside = tmp_path / "outside"
    (log_dir / "clicks-0").rename(outside)
    (log_dir / "clicks-0").symlink_to(outside)
    before = contents(outside)
    planned, _ = clean(log_dir)
    assert [str(p.facts.topic_partition) for p in planned.partitions] == ["orders-0"]
    assert contents(outside) == before
