"""When a partition that failed is tried again."""

from __future__ import annotations

import os
import shutil

import pytest

from cleaner.engine.uncleanable import Uncleanable
from storage.log.listing import list_partition
from tests.partition_dirs import NOW_MS, PartitionDir, keyed

CAUSE = "00000000000000000000.log at byte 0: CRC-32C mismatch"


@pytest.fixture
def orders(tmp_path):
    return PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))


@pytest.fixture
def failed(orders):
    return Uncleanable.of(list_partition(orders.path), CAUSE)


def test_same_files_are_not_tried_again(orders, failed):
    assert failed.cause == CAUSE
    assert not failed.may_retry(list_partition(orders.path))


def test_reading_and_renaming_the_directory_changes_nothing(orders, failed):
    orders.log(0).read_bytes()
    orders.path.chmod(0o755)
    assert not failed.may_retry(list_partition(orders.path))


def restore_from_a_copy(log):
    shutil.copy2(log, log.with_name("copy"))
    log.with_name("copy").replace(log)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: os.utime(log, ns=(NOW_MS * 1_000_000 + 1,) * 2),
        lambda log: log.write_bytes(log.read_bytes()[:-1]),
        lambda log: log.unlink(),
        lambda log: log.with_name(f"{20:020d}.log").touch(),
        restore_from_a_copy,
    ],
    ids=["modified", "cut", "gone", "another", "another inode"],
)
def test_any_change_to_its_files_has_it_tried_again(orders, failed, change):
    change(orders.log(0))
    assert failed.may_retry(list_partition(orders.path))
