"""When a partition that failed is tried again."""

from __future__ import annotations

import os
import shutil

import pytest

from cleaner.engine.journal import Journal, read_journal
from cleaner.engine.uncleanable import Uncleanable, uncleanable_in
from cleaner.report.topics import TopicsReport
from storage.filesystem import FileSystem
from storage.log.listing import list_partition
from tests.partition_dirs import COMPACT, NOW_MS, PartitionDir, a_cleaner, committed, configured, keyed, request

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


def test_what_goes_once_its_delay_is_over_changes_nothing(orders):
    waiting = orders.path / f"{5:020d}.log.deleted"
    waiting.touch()
    failed = Uncleanable.of(list_partition(orders.path), CAUSE)
    waiting.unlink()
    assert not failed.may_retry(list_partition(orders.path))


# What a run leaves in the journal, and topics makes of it

LAYERS = configured(orders=COMPACT)


def flip(path, position=-1):
    mtime_ns, data = path.stat().st_mtime_ns, bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(mtime_ns, mtime_ns))


@pytest.fixture
def damaged(orders, tmp_path):
    """Cleaned with a sealed segment whose checksum is wrong."""
    flip(orders.log(0))
    committed(tmp_path, orders.segment(20, keyed(20, "c=1")))
    a_cleaner(tmp_path, LAYERS).clean(request())
    return tmp_path


def shown(log_dir):
    cleaner = a_cleaner(log_dir, LAYERS)
    plan = cleaner.plan(request())
    return [row.error for row in TopicsReport(plan, cleaner.uncleanable(plan)).rows()]


def test_a_damaged_partition_is_shown_as_failed_with_the_cause(damaged):
    (error,) = shown(damaged)
    assert error.endswith(f"orders-0/{0:020d}.log at byte 0: CRC-32C mismatch")


def test_it_is_shown_until_its_files_change(damaged, orders):
    os.utime(orders.log(0), ns=(NOW_MS, NOW_MS))
    assert shown(damaged) == [None]


def test_a_later_attempt_that_did_not_fail_takes_the_mark_away(damaged):
    journal = Journal(damaged, FileSystem())
    journal.record("compact", NOW_MS, partition="orders-0")
    journal.close()
    assert shown(damaged) == [None]


def test_an_entry_of_the_journal_that_is_not_whole_is_passed_over():
    entry = {"what": "failed", "partition": "orders-0", "error": CAUSE, "fingerprint": "0"}
    assert list(uncleanable_in([entry])) == ["orders-0"]
    assert not any(uncleanable_in([{**entry, name: 1}]) for name in entry)


def test_what_another_try_may_overcome_is_not_noted(orders, tmp_path):
    class Failing(FileSystem):
        def rename(self, source, target, purpose):
            raise OSError(5, "I/O error", str(source))

    committed(tmp_path, orders.segment(20, keyed(20, "c=1")))
    _, outcome = a_cleaner(tmp_path, LAYERS, Failing()).clean(request())
    assert [result.error is None for result in outcome.results.values()] == [False]
    assert "failed" not in [entry["what"] for entry in read_journal(tmp_path)]
