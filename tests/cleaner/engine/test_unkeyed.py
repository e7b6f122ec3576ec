"""Records without a key, which a compacted topic cannot keep: every report of a run, or of a dry run, counts them, and
more than ``max.unkeyed.ratio`` of them hold a partition back before anything is written."""

from __future__ import annotations

import pytest

from cleaner.report.cleaning import CleaningReport
from storage.records import Record, encode_batch
from tests.cleaner.report.texts import text_of
from tests.partition_dirs import COMPACT, NOW_MS, PartitionDir, a_cleaner, committed, configured, keyed, request


def unkeyed(base_offset, count):
    return encode_batch([Record(base_offset + place, NOW_MS, None, b"click") for place in range(count)])


@pytest.fixture
def log_dir(tmp_path):
    """A log that was written while its policy was delete: three records have no key."""
    orders = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1"), unkeyed(1, 2))
    orders.segment(3, keyed(3, "a=2"), unkeyed(4, 1)).segment(5, keyed(5, "b=1"))
    return committed(tmp_path / "data", orders)


@pytest.fixture
def cleaner(log_dir, rounds):
    keys = {**COMPACT, "max.unkeyed.ratio": "1"}
    return a_cleaner(log_dir, configured(orders=keys))


def told(plan, outcome):
    (result,) = (partition["result"] for partition in CleaningReport(plan, outcome).document()["partitions"])
    return result.get("records_unkeyed"), text_of(CleaningReport(plan, outcome), 120)


def test_exact_dry_run_counts_the_records_without_a_key_that_the_run_then_drops(cleaner):
    plan = cleaner.plan(request())
    counted, report = told(plan, cleaner.would_do(plan, exact=True))
    assert counted == 3
    assert "Would drop     3 records without a key: a compacted topic cannot keep them" in report
    counted, report = told(*cleaner.clean(request()))
    assert counted == 3
    assert "1 of 5 records stay, 3 without a key go" in report
    assert "Dropped        3 records without a key: a compacted topic cannot keep them" in report


def test_estimate_says_nothing_of_records_that_it_did_not_read(cleaner):
    plan = cleaner.plan(request())
    counted, report = told(plan, cleaner.would_do(plan))
    assert counted is None
    assert "1 partition may lose records without a key: --exact counts them." in report


def test_copy_counts_them_too(cleaner, tmp_path):
    plan, outcome = cleaner.copy(request(), tmp_path / "copy", tool_version="1")
    assert told(plan, outcome)[0] == 3


def test_log_whose_records_all_have_keys_has_no_count(tmp_path):
    orders = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1"))
    cleaner = a_cleaner(committed(tmp_path / "data", orders), configured(orders=COMPACT))
    counted, report = told(*cleaner.clean(request()))
    assert counted is None
    assert "without a key" not in report
