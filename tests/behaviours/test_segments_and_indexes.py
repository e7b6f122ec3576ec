"""Kafka LogSegmentTest, LogLoaderTest and the tests of the indexes: what is read of one segment's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import CorruptIndex
from storage.indexes import IndexBuilder, parse_offset_index, parse_time_index
from storage.log import Log, LogConfig
from storage.log.listing import list_partition
from storage.log.producer_state import ProducerState, parse_snapshot
from storage.segment import open_to_read
from storage.txn_index import AbortedTxn, collect_aborted_txns, format_aborted_txn, parse_txn_index
from tests.behaviours.lives import AMPLE, FS, Life, Writer
from tests.partition_dirs import PartitionDir, keyed

LOG = Path(f"{0:020d}.log")
FAR = 7_206_178


@pytest.mark.parametrize(("timestamp_ms", "offset"), [(420, 42), (421, 43), (431, 44), (399, 40), (491, None)])
def test_timestamp_finds_the_first_record_as_late(tmp_path, timestamp_ms, offset):
    # LogSegmentTest.testFindOffsetByTimestamp
    made = PartitionDir(tmp_path).segment(40, *(keyed(at, "k=v", timestamp_ms=10 * at) for at in range(40, 50)))
    found = Log.open(made.path, LogConfig(), FS).lookup_timestamp(timestamp_ms)
    assert (found and found.offset) == offset


def test_next_offset_follows_the_last_batch_and_is_the_base_without_one(tmp_path):
    # LogSegmentTest.testNextOffsetCalculation
    life = Life(tmp_path).roll(at_offset=40)
    assert life.reopen().log.log_end_offset == 40
    life.roll(at_offset=50).put("a", "b", "c")
    assert life.reopen().log.log_end_offset == 53


def test_each_batch_but_the_first_is_indexed_where_the_interval_is_a_byte():
    # LogSegmentTest.testIndexForMultipleBatchesInMemoryRecords, testNonMonotonicTimestampForMultipleBatches…
    builder = IndexBuilder(0, 1, LOG)
    for offset, timestamp_ms in enumerate((1, 0, 2)):
        builder.append(100 * offset, 100, offset, timestamp_ms)
    offsets, times = builder.seal()
    assert parse_offset_index(offsets, 0, LOG) == [(1, 100), (2, 200)]
    assert parse_time_index(times, 0, LOG) == [(1, 0), (2, 2)]


def test_indexes_of_a_cleaned_segment_follow_the_same_rule(tmp_path):
    life = Life(tmp_path, config={**AMPLE, "index.interval.bytes": "1"})
    for place, timestamp_ms in enumerate((1, 0, 2, 2)):
        life.put("first" if place == 0 else place, place % 3, at_ms=timestamp_ms)
    life.roll().round()
    batches = life.batches()
    offsets, times = ((life.path / LOG).with_suffix(suffix).read_bytes() for suffix in (".index", ".timeindex"))
    positions = [sum(b.header.size_bytes for b in batches[:n]) for n in range(len(batches))]
    entries = list(zip(life.batch_ends(), positions, strict=True))
    assert parse_offset_index(offsets, 0, LOG) == entries[1:]
    assert parse_time_index(times, 0, LOG) == [(1, 1), (2, 5)]


def test_missing_indexes_of_an_empty_active_segment_are_made_again(tmp_path):
    # LogLoaderTest.testRecoverWithEmptyActiveSegment
    life = Life(tmp_path).put("a").roll()
    life.log.close()
    for suffix in (".index", ".timeindex"):
        (life.path / f"{1:020d}{suffix}").unlink()
    life.reopen().put("b")
    life.reopen()
    assert life.offsets() == [0, 1]
    assert {path.suffix for path in life.path.glob(f"{1:020d}.*")} >= {".log", ".index", ".timeindex"}


@pytest.mark.parametrize("replayed_from", [0, 20, 50], ids=["whole log", "no snapshot of the last", "last segment"])
def test_aborted_transactions_are_told_again_by_a_replay(tmp_path, replayed_from):
    # LogLoaderTest.testFullTransactionIndexRecovery, testRecoverOnlyLastSegment, testRecoverLastSegmentWithNoSnapshots
    life, (p1, p2, p3, p4) = Life(tmp_path), (Writer(id_) for id_ in range(1, 5))
    life.put(*range(8), by=p1).put(*range(12), by=p2).roll().put(*range(9), by=p1).abort(p1)
    life.put(*range(6), by=p2).put(*range(14), by=p3).roll()
    life.put(*range(10), by=p4).put(*range(14), by=p2).abort(p2).commit(p3).commit(p4)
    entries = [AbortedTxn(1, 0, 29, 8), AbortedTxn(2, 8, 74, 36)]
    life.log.close()
    assert life.aborted() == entries
    listing = list_partition(life.path)
    snapshots = [one.path for one in listing.snapshots if one.name.base_offset <= replayed_from]
    state = ProducerState()
    if snapshots:
        state = ProducerState(parse_snapshot(snapshots[-1].read_bytes(), snapshots[-1]))
    told = []
    for segment in listing.segments:
        if segment.base_offset >= replayed_from:
            told += state.replay(open_to_read(segment.log.path), segment.log.path)
    assert told == [entry for entry in entries if entry.last_offset >= replayed_from]


@pytest.mark.parametrize("base", [1, 11, 100])
def test_entry_of_a_transaction_that_ended_below_its_segment_is_corrupt(base):
    # TransactionIndexTest.testSanityCheck
    path = Path(f"{base:020d}.txnindex")
    with pytest.raises(CorruptIndex, match="lies below the segment"):
        parse_txn_index(format_aborted_txn(AbortedTxn(1, 0, base - 1, base)), path)
    at_base = AbortedTxn(1, 0, base, base + 1)
    assert parse_txn_index(format_aborted_txn(at_base), path) == [at_base]


def test_transactions_that_reach_into_a_range_are_collected():
    # TransactionIndexTest.testCollectAbortedTransactions
    entries = [AbortedTxn(0, 0, 10, 11), AbortedTxn(1, 5, 15, 13), AbortedTxn(2, 18, 35, 25), AbortedTxn(3, 32, 50, 40)]
    assert collect_aborted_txns([entries], 0, 100) == entries
    assert collect_aborted_txns([entries], 0, 32) == entries[:3]
    assert collect_aborted_txns([entries], 11, 35) == entries[1:]
    assert collect_aborted_txns([entries], 16, 35) == entries[2:]


def test_keys_far_apart_in_one_segment_are_mapped(tmp_path):
    # LogCleanerTest.testBuildOffsetMapFakeLarge
    life = Life(tmp_path)
    made = PartitionDir(tmp_path / "drawn").segment(0, keyed(0, "a=0"), keyed(FAR, "b=1"), keyed(FAR + 1, "a=2"))
    for suffix in (".log", ".index", ".timeindex"):
        (made.path / f"{0:020d}{suffix}").replace(life.path / f"{0:020d}{suffix}")
    assert life.reopen().roll().round().end_offset == FAR + 2
    assert life.offsets() == [FAR, FAR + 1]
