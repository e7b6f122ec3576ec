"""A dry run beside a live broker: files go between listing and reading, and the listing is stale."""

import pytest

from cleaner.config import reader
from cleaner.config.layers import Settings
from cleaner.engine import inventory, leftovers
from cleaner.engine.rehearsal import rehearsal
from storage.errors import UnreadableFile
from storage.log.listing import list_partition
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
)
from tests.partition_dirs import request as a_request

OLD_MS = NOW_MS - 2 * DAY_MS
LAST = 9
LAYERS = configured(orders=COMPACT, clicks=EXPIRING)


@pytest.fixture
def log_dir(tmp_path):
    clicks = PartitionDir(tmp_path, "clicks-0")
    for base in range(LAST):
        clicks.segment(base, keyed(base, "x=1", timestamp_ms=OLD_MS))
    orders = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1")).segment(10, keyed(10, "a=2"))
    return committed(tmp_path, clicks.segment(LAST, keyed(LAST, "x=2")), orders.segment(20, keyed(20, "b=1")))


def remove_oldest(directory):
    """As a broker does: the whole set, renamed away."""
    oldest = min(path.name for path in directory.glob("*.log"))
    for path in directory.glob(f"{oldest.split('.')[0]}.*"):
        path.unlink()


def stale(monkeypatch, module, act, times=1):
    """So many listings are out of date by the time they are used."""
    left = [times]

    def listed(directory):
        found = list_partition(directory)
        if left[0] and directory.name in ("clicks-0", "orders-0"):
            left[0] -= 1
            act(directory)
        return found

    monkeypatch.setattr(module, "list_partition", listed)


def planned(log_dir):
    plan = a_cleaner(log_dir, LAYERS).plan(a_request())
    assert not plan.failures
    return {p.facts.topic_partition.topic: [s.base_offset for s in p.facts.segments] for p in plan.partitions}


@pytest.mark.parametrize("times", [1, 7])
def test_partition_whose_files_went_is_listed_anew(log_dir, monkeypatch, times):
    stale(monkeypatch, inventory, remove_oldest, times)
    assert planned(log_dir) == {"clicks": list(range(times, LAST + 1)), "orders": [0, 10, 20]}


def test_partition_whose_files_never_stay_is_told_in_the_end(log_dir, monkeypatch):
    stale(monkeypatch, inventory, remove_oldest, times=8)
    (failed,) = a_cleaner(log_dir, LAYERS).plan(a_request()).failures
    assert (str(failed.topic_partition), "No such file" in failed.error) == ("clicks-0", True)


def test_partition_that_was_deleted_meanwhile_is_none(log_dir, monkeypatch):
    stale(monkeypatch, inventory, lambda directory: directory.rename(directory.with_name("moved.0-delete")))
    assert list(planned(log_dir)) == ["orders"]


def test_leftovers_of_a_partition_that_was_deleted_meanwhile_are_none(log_dir, monkeypatch):
    for path in list((log_dir / "clicks-0").glob(f"{0:020d}.*")):
        path.rename(path.with_name(path.name + ".deleted"))
    cleaner = a_cleaner(log_dir, LAYERS)
    plan = cleaner.plan(a_request(delete_delay_ms=0))

    def gone(directory):
        raise UnreadableFile(directory, "gone") from FileNotFoundError()

    monkeypatch.setattr(leftovers, "list_partition", gone)
    assert cleaner.would_do(plan).swept_bytes == 0


def test_exact_figures_of_what_a_broker_compacted_meanwhile_are_estimates(log_dir):
    cleaner = a_cleaner(log_dir, LAYERS)
    plan = cleaner.plan(a_request())
    exact = cleaner.would_do(plan, exact=True).results
    remove_oldest(log_dir / "orders-0")
    found = cleaner.would_do(plan, exact=True).results
    assert [str(result.basis) for result in exact.values()] == ["exact", "exact"]
    assert [(str(result.basis), result.error) for result in found.values()] == [("exact", None), ("estimate", None)]


def test_exact_figures_of_what_goes_while_it_is_read_are_estimates(log_dir, monkeypatch):
    cleaner = a_cleaner(log_dir, LAYERS)
    plan = cleaner.plan(a_request())
    stale(monkeypatch, rehearsal, remove_oldest, times=2)  # of both partitions
    found = cleaner.would_do(plan, exact=True).results
    assert [(str(result.basis), result.error) for result in found.values()] == [("exact", None), ("estimate", None)]


def test_cluster_metadata_whose_files_went_is_listed_anew(monkeypatch, tmp_path):
    (tmp_path / "__cluster_metadata-0").mkdir()
    seen = []

    def read(directory):
        seen.append(directory)
        if len(seen) == 1:
            raise UnreadableFile(directory, "gone") from FileNotFoundError()

    monkeypatch.setattr("storage.metadata.metadata_log.read_cluster_metadata", read)
    reader.ConfigurationReader(Settings, [tmp_path]).read()
    assert len(seen) == 2
