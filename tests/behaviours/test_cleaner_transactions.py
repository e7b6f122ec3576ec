"""Kafka LogCleanerTest, transactions: what aborted and committed data, and their markers, become round by round."""

from __future__ import annotations

import pytest

from storage.log import AppendOrigin
from storage.txn_index import AbortedTxn
from tests.behaviours.lives import Life, Writer, small_map
from tests.partition_dirs import DAY_MS, NOW_MS

LATER_MS = NOW_MS + DAY_MS
"""Past the delete horizons that rounds at NOW_MS set."""


@pytest.fixture
def life(tmp_path):
    return Life(tmp_path)


@pytest.fixture
def p1():
    return Writer(1)


@pytest.fixture
def p2():
    return Writer(2)


def rounds(life, *nows_ms):
    """One after another, each over an empty dirty section: what an earlier one left is looked at again."""
    for now_ms in nows_ms:
        life.round(dirty=life.bases()[-1], now_ms=now_ms)


def test_aborted_records_go_and_committed_ones_supersede(life, p1, p2):
    # testBasicTransactionAwareCleaning
    life.put(1, 2, by=p1).put(2, 3, by=p2).put(3, 4, by=p1).abort(p1).commit(p2).put(2, by=p1).commit(p1).roll()
    indexed = life.aborted()
    assert indexed == [AbortedTxn(1, 0, 6, 2)]
    life.round()
    assert life.keys() == ["3", "2"]
    assert life.offsets() == [3, 6, 7, 8, 9]
    assert life.aborted() == indexed


def test_round_that_a_full_map_ends_leaves_no_transaction_without_its_marker(tmp_path, p1, p2):
    # testMultiPassSegmentCleaningWithAbortedTransactions
    life = Life(tmp_path, small_map(3))
    life.put(1, 2, by=p1).put(2, 3, by=p2).put(3, 4, by=p1).commit(p1).commit(p2)
    life.put(2, 3, by=p1).abort(p1).put(4, 5, by=p2).put(5, 6, by=p1).commit(p1).abort(p2)
    life.put(6, 7, by=p2).commit(p2).roll()
    indexed = [AbortedTxn(1, 8, 10, 11), AbortedTxn(2, 11, 16, 17)]
    assert life.aborted() == indexed
    passes = [
        (0, NOW_MS, 4, [0, 2, 3, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19], indexed),
        (4, NOW_MS, 14, [0, 2, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19], []),
        (14, LATER_MS, 20, [0, 2, 4, 5, 6, 7, 13, 15, 17, 18, 19], []),
    ]
    for dirty, now_ms, end_offset, offsets, aborted in passes:
        assert life.round(dirty, now_ms=now_ms).end_offset == end_offset
        assert life.offsets() == offsets
        assert life.aborted() == aborted
        assert life.without_snapshots().first_unstable_offset(20) is None


def test_aborted_records_go_from_the_cleanable_segments_alone(life, p1, p2):
    # testCleanWithTransactionsSpanningSegments
    p3 = Writer(3)
    life.put(1, 2, by=p1).put(2, 3, by=p3).put(3, 4, by=p2).roll()
    life.put(5, 6, by=p2).put(6, 7, by=p3).put(7, 8, by=p1).abort(p2)
    life.put(8, 9, by=p3).commit(p3).put(9, 10, by=p1).abort(p1)
    end = life.round().end_offset
    assert life.keys() == ["2", "3", "5", "6", "6", "7", "7", "8", "8", "9", "9", "10"]
    life.roll().put(11, by=p2).put(12, by=p1)
    life.round(dirty=end)
    assert life.keys() == ["2", "3", "6", "7", "8", "9", "11", "12"]


def test_commit_marker_goes_past_the_horizon_that_the_first_round_without_its_records_sets(life, p1):
    # testCommitMarkerRemoval
    life.put(1, by=p1).put(2, 3, by=p1).commit(p1).put(2, by=p1).commit(p1).roll()
    end = life.round(now_ms=NOW_MS).end_offset
    assert (life.keys(), life.offsets()) == (["1", "3", "2"], [0, 2, 3, 4, 5])
    life.put(1, 3, by=p1).commit(p1).roll()
    end = life.round(dirty=end).end_offset  # records of the transaction were still seen
    assert (life.keys(), life.offsets()) == (["2", "1", "3"], [3, 4, 5, 6, 7, 8])
    for now_ms, offsets in (
        (NOW_MS, [3, 4, 5, 6, 7, 8]),
        (NOW_MS, [3, 4, 5, 6, 7, 8]),
        (LATER_MS, [4, 5, 6, 7, 8]),
    ):
        life.round(dirty=end, now_ms=now_ms)
        assert life.offsets() == offsets


def test_commit_marker_stays_as_long_as_an_empty_batch_of_its_transaction_does(life, p1, p2):
    # testCommitMarkerRetentionWithEmptyBatch
    life.put(2, 3, by=p1).roll().put(2, 3, by=p2).commit(p2).roll().put(2).put(3).commit(p1).roll()
    end = life.round().end_offset
    for _ in range(2):
        assert (life.keys(), life.offsets()) == (["2", "3"], [4, 5, 6, 7])
        assert life.batch_ends() == [1, 3, 4, 5, 6, 7]
        rounds(life, NOW_MS, LATER_MS)
    life.put(1, by=p2).commit(p2).roll()
    life.round(dirty=end)
    assert (life.keys(), life.offsets()) == (["2", "3", "1"], [4, 5, 6, 7, 8, 9])
    assert life.batch_ends() == [1, 4, 5, 6, 7, 8, 9]
    rounds(life, NOW_MS, LATER_MS)
    assert (life.offsets(), life.batch_ends()) == ([5, 6, 7, 8, 9], [1, 5, 6, 7, 8, 9])


def test_marker_of_a_producer_without_data_ends_as_an_empty_control_batch(life, p1):
    # testCleanEmptyControlBatch
    life.commit(p1).put(2).put(3).roll()
    life.round()
    for _ in range(2):
        rounds(life, NOW_MS, LATER_MS)
        assert (life.keys(), life.offsets(), life.batch_ends()) == (["2", "3"], [1, 2], [0, 1, 2])
        assert life.batches()[0].header.is_control


def test_committed_transaction_over_two_segments_stays(life, p1):
    # testCommittedTransactionSpanningSegments
    life.put(1, by=p1).roll().commit(p1).roll()
    for now_ms in (NOW_MS, LATER_MS):
        life.round(now_ms=now_ms)
        assert (life.offsets(), life.batch_ends()) == ([0, 1], [0, 1])


def test_aborted_transaction_over_two_segments_leaves_an_empty_batch_and_its_marker(life, p1):
    # testAbortedTransactionSpanningSegments
    life.put(1, by=p1).roll().abort(p1).roll()
    indexed = life.aborted()
    for now_ms in (NOW_MS, LATER_MS):
        life.round(now_ms=now_ms)
        assert (life.offsets(), life.batch_ends()) == ([1], [0, 1])
        assert life.aborted() == indexed


def test_abort_marker_goes_two_rounds_after_its_records(life, p1):
    # testAbortMarkerRemoval
    life.put(1, by=p1).put(2, 3, by=p1).abort(p1).put(3, by=p1).commit(p1).roll()
    life.round()
    assert (life.keys(), life.offsets()) == (["3"], [3, 4, 5])
    rounds(life, NOW_MS, LATER_MS)
    assert (life.keys(), life.offsets()) == (["3"], [4, 5])


def test_abort_marker_and_its_index_entry_stay_until_the_producer_writes_again(life, p1):
    # testAbortMarkerRetentionWithEmptyBatch
    life.put(2, 3, by=p1).abort(p1).roll()
    indexed = [AbortedTxn(1, 0, 2, 3)]
    for nows_ms in ((NOW_MS,), (NOW_MS, LATER_MS)):
        rounds(life, *nows_ms)
        assert (life.offsets(), life.batch_ends(), life.aborted()) == ([2], [1, 2], indexed)
    life.put(1, by=p1).roll()
    life.round(dirty=3, until=4)
    assert (life.keys(), life.offsets(), life.batch_ends()) == (["1"], [2, 3], [2, 3])
    assert life.aborted() == indexed
    rounds(life, NOW_MS, LATER_MS)
    assert (life.keys(), life.offsets(), life.batch_ends()) == (["1"], [3], [3])
    assert life.aborted() == []


def test_of_a_producer_that_starts_over_at_sequence_0_the_latest_empty_batch_alone_stays(life):
    # testEmptyBatchRemovalWithSequenceReuse
    for key in (1, 2):
        writer = Writer(1)
        life.put(key, by=writer, origin=AppendOrigin.REPLICATION).commit(writer).roll()
    life.put(1).put(2).roll()
    life.round()
    assert (life.offsets(), life.batch_ends()) == ([1, 3, 4, 5], [1, 2, 3, 4, 5])
    rounds(life, NOW_MS, LATER_MS)
    assert (life.offsets(), life.batch_ends()) == ([3, 4, 5], [2, 3, 4, 5])


def test_windows_whose_batches_are_all_discarded_do_not_hold_the_round(life, p1, monkeypatch):
    # testDeletedBatchesWithNoMessagesRead
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", 100)
    for key in (1, 2, 3):
        life.put(key, by=p1).put(key, by=p1)
    life.abort(p1).put(4, by=p1).commit(p1).roll()
    assert life.round().end_offset == 9
    assert (life.keys(), life.offsets()) == (["4"], [6, 7, 8])
