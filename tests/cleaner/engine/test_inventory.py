"""Facts of log dirs, and what becomes of one that cannot be read."""

from __future__ import annotations

import os
import struct

import pytest

from cleaner.engine import inventory
from cleaner.engine.inventory import Survey, survey_log_dir
from policies.facts import PartitionFacts, UnreadablePartition
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir
from storage.names import TopicPartition
from tests.partition_dirs import COMPACT, DAY_MS, EXPIRING, NOW_MS, PartitionDir, committed, configured, keyed

LAYERS = configured(orders=COMPACT, clicks=EXPIRING, lagging={**COMPACT, "max.compaction.lag.ms": "1"})


def survey(log_dir, topics=(), layers=LAYERS):
    return survey_log_dir(LogDir(log_dir), Survey(layers, NOW_MS, DAY_MS, topics))


def facts_of(log_dir, **options) -> PartitionFacts:
    (facts,) = survey(log_dir, **options).partitions
    assert isinstance(facts, PartitionFacts), facts
    return facts


def checkpoint(log_dir, name, *lines):
    (log_dir / name).write_text(f"0\n{len(lines)}\n" + "".join(f"{line}\n" for line in lines))


@pytest.fixture
def orders(tmp_path):
    """Offsets 0-1, 10-11, and 20 in the active segment; committed to the end, 21."""
    made = PartitionDir(tmp_path)
    made.segment(0, keyed(0, "a=1", "b=1", timestamp_ms=NOW_MS - 5), mtime_ms=NOW_MS - 7_000)
    made.segment(10, keyed(10, "a=2", "b=2")).segment(20, keyed(20, "c=1"))
    committed(tmp_path, made)
    return made


def test_offsets_of_a_log_come_from_names_batches_and_checkpoints(orders, tmp_path):
    facts = facts_of(tmp_path)
    assert facts.topic_partition == TopicPartition("orders", 0)
    assert [s.base_offset for s in facts.segments] == [0, 10, 20]
    assert (facts.log_start_offset, facts.log_end_offset) == (0, 21)
    assert (facts.high_watermark, facts.last_stable_offset) == (21, 21)
    assert (facts.cleaner_checkpoint, facts.torn_tail_bytes) == (None, 0)


def test_segment_facts_are_those_of_its_files(orders, tmp_path):
    oldest = facts_of(tmp_path).segments[0]
    assert oldest.size_bytes == orders.log(0).stat().st_size
    assert (oldest.companions_bytes, oldest.index_bytes, oldest.time_index_bytes) == (12, 0, 12)
    assert (oldest.newest_record_ms, oldest.mtime_ms) == (NOW_MS - 5, NOW_MS - 7_000)
    assert oldest.identity.inode == orders.log(0).stat().st_ino


def test_space_of_a_segment_is_that_of_the_blocks_of_its_files(orders, tmp_path):
    os.truncate(orders.path / f"{0:020d}.index", 4_000_000)
    (tmp_path / "backup").hardlink_to(orders.path / f"{10:020d}.timeindex")
    files = list(orders.path.glob(f"{0:020d}.*"))
    first, second, third = facts_of(tmp_path).segments
    assert first.disk_bytes == sum(path.stat().st_blocks * 512 for path in files) < first.index_bytes == 4_000_000
    assert (first.links, second.links, third.links) == (1, 2, 1)


@pytest.mark.parametrize(("line", "expected"), [(3, 3), (0, 0), (21, 21)])
def test_log_start_offset_may_lie_within_a_segment(orders, tmp_path, line, expected):
    checkpoint(tmp_path, "log-start-offset-checkpoint", f"orders 0 {line}")
    assert facts_of(tmp_path).log_start_offset == expected


@pytest.mark.parametrize(("line", "expected"), [(5, 5), (99, 21), (0, 2)])
def test_high_watermark_is_kept_between_log_start_and_end(orders, tmp_path, line, expected):
    checkpoint(tmp_path, "log-start-offset-checkpoint", "orders 0 2")
    checkpoint(tmp_path, "replication-offset-checkpoint", f"orders 0 {line}")
    assert facts_of(tmp_path).high_watermark == expected


def test_missing_high_watermark_is_unknown(orders, tmp_path):
    checkpoint(tmp_path, "replication-offset-checkpoint", "clicks 0 21")
    assert facts_of(tmp_path).high_watermark is None


def test_open_transaction_bounds_the_last_stable_offset(orders, tmp_path):
    open_txn = keyed(21, "d=1", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    orders.segment(21, open_txn)
    committed(tmp_path, orders)
    assert (facts_of(tmp_path).high_watermark, facts_of(tmp_path).last_stable_offset) == (22, 21)


def test_log_end_below_its_checkpointed_start_is_reported_not_planned(orders, tmp_path):
    checkpoint(tmp_path, "log-start-offset-checkpoint", "orders 0 500")
    (found,) = survey(tmp_path).partitions
    assert isinstance(found, UnreadablePartition)
    assert "500" in found.error
    assert "restore" in found.error


def test_partition_without_a_segment_starts_and_ends_at_its_checkpoint(tmp_path):
    (tmp_path / "orders-0").mkdir()
    checkpoint(tmp_path, "log-start-offset-checkpoint", "orders 0 500")
    facts = facts_of(tmp_path)
    assert (facts.segments, facts.log_start_offset, facts.log_end_offset) == ((), 500, 500)


def test_unreadable_partition_stops_nobody_else(orders, tmp_path):
    broken = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1"))
    time_index = broken.log(0).with_suffix(".timeindex")
    time_index.write_bytes(struct.pack(">qi", -5, -5))
    found = survey(tmp_path).partitions
    assert [type(p) for p in found] == [UnreadablePartition, PartitionFacts]
    assert str(time_index) in found[0].error
    assert found[0].size_bytes > 0


@pytest.mark.parametrize(
    ("globs", "expected"),
    [((), 3), (("orders",), 2), (("orders-1",), 1), (("o*",), 2), (("clicks", "orders-0"), 2), (("O*",), 0)],
)
def test_globs_name_topics_or_partitions(tmp_path, globs, expected):
    for name in ("orders-0", "orders-1", "clicks-0"):
        PartitionDir(tmp_path, name).segment(0)
    assert len(survey(tmp_path, globs).partitions) == expected


def test_first_batch_time_is_read_only_where_a_lag_needs_it(tmp_path):
    for name in ("orders-0", "lagging-0"):
        PartitionDir(tmp_path, name).segment(0, keyed(0, "a=1", timestamp_ms=77))
    first = {f.topic_partition.topic: f.segments[0].first_batch_ms for f in survey(tmp_path).partitions}
    assert first == {"orders": -1, "lagging": 77}


def test_directory_is_opened_as_often_for_one_segment_as_for_forty(tmp_path, monkeypatch):
    """Each opening of a directory is two system calls; a log dir has hundreds of thousands of segments."""
    old_ms = NOW_MS - 9 * DAY_MS
    for count in (2, 40):
        made = PartitionDir(tmp_path / str(count), "clicks-0")
        for base in range(count):
            made.segment(base, keyed(base, "a=1", timestamp_ms=old_ms))
        committed(tmp_path / str(count), made)
    paths: list[str] = []
    really_open = os.open

    def open_and_note(path, *args, **options):
        paths.append(str(path))
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", open_and_note)
    openings = {}
    for count in (2, 40):
        paths.clear()
        assert len(facts_of(tmp_path / str(count)).segments) == count
        openings[count] = sum(path.endswith("clicks-0") for path in paths)
    assert openings[40] == openings[2]


def test_partition_moved_away_after_its_listing_is_none(orders, tmp_path, monkeypatch):
    def plan_and_move(listing):
        recovery = plan_recovery(listing)
        listing.directory.rename(tmp_path / "moved")
        return recovery

    monkeypatch.setattr(inventory, "plan_recovery", plan_and_move)
    assert survey(tmp_path).partitions == ()


def test_interrupted_swap_is_looked_at_as_if_recovered(orders, tmp_path):
    swap = PartitionDir(tmp_path / "drawn").segment(0, keyed(0, "b=1"), keyed(10, "a=2", "b=2"))
    for path in swap.path.iterdir():
        path.rename(orders.path / f"{path.name}.swap")
    facts = facts_of(tmp_path)
    assert [s.base_offset for s in facts.segments] == [0, 20]
    assert facts.segments[0].size_bytes == (orders.path / f"{0:020d}.log.swap").stat().st_size
    assert orders.log(10).exists()


def test_size_of_a_log_dir_counts_all_files_of_its_segments(orders, tmp_path):
    expected = sum(path.stat().st_size for path in orders.path.iterdir())
    assert survey(tmp_path).size_bytes == expected


@pytest.mark.parametrize("indexed_ms", [None, NOW_MS - 9 * DAY_MS], ids=["emptied", "altered"])
def test_time_index_that_says_less_than_the_log_makes_no_segment_older(tmp_path, indexed_ms):
    made = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS), mtime_ms=1)
    committed(tmp_path, made.segment(10))
    time_index = made.log(0).with_suffix(".timeindex")
    time_index.write_bytes(b"" if indexed_ms is None else struct.pack(">qi", indexed_ms, 0))
    assert facts_of(tmp_path).segments[0].newest_record_ms == NOW_MS


def test_log_that_cannot_be_read_leaves_the_time_index_its_word(tmp_path):
    made = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1", timestamp_ms=1))
    committed(tmp_path, made.segment(10))
    made.log(0).write_bytes(bytes(99))
    assert facts_of(tmp_path).segments[0].newest_record_ms == 1
