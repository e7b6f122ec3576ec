"""What a compaction replaces waits as ``.deleted`` for ``file.delete.delay.ms``, or goes at once without a delay."""

from __future__ import annotations

import pytest

from cleaner.engine.only_copies import OnlyCopies
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from tests.partition_dirs import (
    COMPACT,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    latest,
    request,
)

DELAY_MS = 60_000
SUFFIXES = (".log", ".index", ".timeindex")
LAYERS = {
    "one group": configured(orders={**COMPACT, "file.delete.delay.ms": str(DELAY_MS)}),
    "a group each": configured(orders={**COMPACT, "file.delete.delay.ms": str(DELAY_MS), "segment.bytes": "14"}),
}
groups = pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)


@pytest.fixture
def orders(tmp_path):
    """Two segments that lose records, and the active one."""
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1", "c=1")).segment(10, keyed(10, "a=2", "d=1", "d=2"))
    committed(tmp_path, made.segment(20, keyed(20, "e=1")))
    return made.path


def retired(directory):
    return {name for name in file_names(directory) if name.endswith(".deleted")}


def clean(directory, layers, now_ms=NOW_MS, **options):
    _, outcome = a_cleaner(directory.parent, layers, clock=FakeClock(now_ms)).clean(request(now_ms, **options))
    assert [result.error for result in outcome.results.values() if result.error] == []
    return outcome


@groups
def test_compacted_sources_wait_as_deleted_with_every_byte_they_had(orders, layers):
    before = {f"{path.name}.deleted": path.read_bytes() for path in orders.glob("000000000000000000[01]0.*")}
    outcome = clean(orders, layers)
    assert latest(orders) == {b"a": b"2", b"b": b"1", b"c": b"1", b"d": b"2", b"e": b"1"}
    assert retired(orders) == {f"{base:020d}{suffix}.deleted" for base in (0, 10) for suffix in SUFFIXES}
    assert {name: (orders / name).read_bytes() for name in retired(orders)} == before
    assert [result.freed_bytes for result in outcome.results.values()] == [0]


@groups
def test_compacted_sources_stay_until_the_delay_is_over_and_go_then(orders, layers):
    clean(orders, layers)
    changed_ms = max(file.changed_ns // 1_000_000 for file in list_partition(orders).files)
    clean(orders, layers, changed_ms + DELAY_MS // 2)
    assert len(retired(orders)) == 6
    clean(orders, layers, changed_ms + DELAY_MS + 1)
    assert retired(orders) == set()


@groups
def test_compacted_sources_go_within_the_run_if_nothing_is_to_wait(orders, layers):
    sources_bytes = sum(path.stat().st_size for path in orders.glob("000000000000000000[01]0.*"))
    outcome = clean(orders, layers, delete_delay_ms=0)
    assert retired(orders) == set()
    assert latest(orders) == {b"a": b"2", b"b": b"1", b"c": b"1", b"d": b"2", b"e": b"1"}
    assert [result.freed_bytes for result in outcome.results.values()] == [sources_bytes]


def test_a_cleaned_log_with_the_size_and_time_of_its_first_source_is_not_taken_for_it(tmp_path):
    """Else a look between the swap and the checkpoint would take the other sources for the only copies of records."""
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "d=1"))
    made.segment(20, keyed(20, f"d={'2' * 200}")).segment(30, keyed(30, "e=1"))
    first = made.log(0).stat()
    group_bytes = str(first.st_size + made.log(10).stat().st_size + 1)
    committed(tmp_path, made)
    clean(made.path, configured(orders={**COMPACT, "segment.bytes": group_bytes}))
    (tmp_path / CLEANER_OFFSET_CHECKPOINT).unlink()
    cleaned = made.log(0).stat()
    assert retired(made.path) >= {f"{10:020d}.log.deleted"}
    assert (cleaned.st_size, cleaned.st_mtime_ns // 1_000_000) == (first.st_size, first.st_mtime_ns // 1_000_000)
    assert OnlyCopies(LogDir(tmp_path)).of(TopicPartition("orders", 0), list_partition(made.path)).copies == {}
