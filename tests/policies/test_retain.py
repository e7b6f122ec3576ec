"""One record, one batch, one transaction: what stays, what goes, what gets a delete horizon."""

from __future__ import annotations

import pytest

from policies.retain import (
    AbortedTransaction,
    BatchFacts,
    ContradictedTxnIndex,
    Marker,
    ProducerEnd,
    TransactionFates,
    batch_fate,
    ends_a_producer,
)
from storage.kernels.status import BatchFate

NOW_MS = 1_000
END = 100
NOBODY: dict[int, ProducerEnd] = {}


DATA = BatchFacts(
    last_offset=5, producer_id=-1, producer_epoch=-1, is_transactional=False, marker=None, delete_horizon_ms=None
)
COMMIT = DATA._replace(producer_id=7, producer_epoch=1, is_transactional=True, marker=Marker.COMMIT)


def data(last_offset: int, producer_id: int = 7) -> BatchFacts:
    return DATA._replace(last_offset=last_offset, producer_id=producer_id, producer_epoch=1, is_transactional=True)


def marker(kind: Marker, last_offset: int, producer_id: int = 7) -> BatchFacts:
    return COMMIT._replace(last_offset=last_offset, producer_id=producer_id, marker=kind)


def batch(
    facts: BatchFacts, can_discard: bool, producers: dict[int, ProducerEnd] = NOBODY, end: int = END
) -> BatchFate:
    return batch_fate(facts, can_discard, producers, end, NOW_MS)


ENDS_AT_5 = {7: ProducerEnd(5, 1)}
MARKER_LAST = {7: ProducerEnd(None, 1)}


@pytest.mark.parametrize(
    ("story", "fate", "expected"),
    [
        ("records decide", batch(DATA, False), BatchFate.DELETE_EMPTY),
        ("aborted data", batch(data(5), True), BatchFate.DISCARD),
        # Kafka LogCleanerTest.testLogCleanerRetainsProducerLastSequence, …EvenIfTransactionAborted
        ("the producer's last data", batch(data(5), False, ENDS_AT_5), BatchFate.RETAIN_EMPTY),
        ("the producer's last data, aborted", batch(data(5), True, ENDS_AT_5), BatchFate.DISCARD_RETAIN_EMPTY),
        # Kafka LogCleanerTest.testEmptyBatchRemovalWithSequenceReuse: the offset identifies it
        ("earlier data of the producer", batch(data(4), False, ENDS_AT_5), BatchFate.DELETE_EMPTY),
        ("another producer's data at that offset", batch(data(5, 8), False, ENDS_AT_5), BatchFate.DELETE_EMPTY),
        ("a producer whose last is a marker holds no data", batch(data(5), False, MARKER_LAST), BatchFate.DELETE_EMPTY),
        # Kafka LogCleanerTest.testCleanSegmentsRetainingLastEmptyBatch, testCleanSegmentsNotRetainingLastEmptyBatch
        ("the batch at the high watermark", batch(DATA, False, end=6), BatchFate.RETAIN_EMPTY),
        ("the batch at the high watermark, aborted", batch(data(5), True, end=6), BatchFate.DISCARD_RETAIN_EMPTY),
        ("one below it", batch(DATA, False, end=7), BatchFate.DELETE_EMPTY),
    ],
)
def test_a_data_batch(story: str, fate: BatchFate, expected: BatchFate) -> None:
    assert fate is expected, story


STAMPED = COMMIT._replace(delete_horizon_ms=NOW_MS + 1)
EXPIRED = COMMIT._replace(delete_horizon_ms=NOW_MS)
EMPTIED = COMMIT._replace(marker=Marker.NONE)


@pytest.mark.parametrize(
    ("story", "fate", "expected"),
    [
        # Kafka LogCleanerTest.testCommitMarkerRemoval, round by round
        ("its data is there", batch(COMMIT, False), BatchFate.KEEP),
        ("its data is gone", batch(COMMIT, True), BatchFate.KEEP_STAMPED),
        ("before its horizon", batch(STAMPED, True), BatchFate.KEEP),
        ("at its horizon", batch(EXPIRED, True), BatchFate.DISCARD),
        (
            "at its horizon, the producer's last state",
            batch(EXPIRED, True, MARKER_LAST),
            BatchFate.DISCARD_RETAIN_EMPTY,
        ),
        ("at its horizon, at the high watermark", batch(EXPIRED, True, end=6), BatchFate.DISCARD_RETAIN_EMPTY),
        ("at its horizon, its data is there again", batch(EXPIRED, False), BatchFate.KEEP),
        ("an abort marker", batch(COMMIT._replace(marker=Marker.ABORT), True), BatchFate.KEEP_STAMPED),
        # Kafka LogCleanerTest.testCleanEmptyControlBatch
        (
            "emptied before, still the producer's last",
            batch(EMPTIED, True, MARKER_LAST),
            BatchFate.DISCARD_RETAIN_EMPTY,
        ),
        ("emptied before, needed by nobody", batch(EMPTIED, True), BatchFate.DISCARD),
        ("no transaction's marker", batch(COMMIT._replace(marker=Marker.OTHER), False), BatchFate.KEEP),
        ("no transaction's marker, old", batch(EXPIRED._replace(marker=Marker.OTHER), False), BatchFate.KEEP),
    ],
)
def test_a_control_batch(story: str, fate: BatchFate, expected: BatchFate) -> None:
    assert fate is expected, story


@pytest.mark.parametrize(
    ("story", "facts", "producers", "ends"),
    [
        ("no producer", DATA, {-1: ProducerEnd(5, -1)}, False),
        ("an expired producer", data(5), NOBODY, False),
        ("its last data offset", data(5), ENDS_AT_5, True),
        ("any marker of its epoch, without data since", marker(Marker.COMMIT, 3), MARKER_LAST, True),
        ("an emptied marker of its epoch", marker(Marker.NONE, 3), MARKER_LAST, True),
        ("a marker of an older epoch", COMMIT._replace(producer_epoch=0), MARKER_LAST, False),
        ("a marker, data since", marker(Marker.COMMIT, 4), ENDS_AT_5, False),
        ("an offset of 0", data(0), {7: ProducerEnd(0, 1)}, True),
    ],
)
def test_the_end_of_a_producer(story: str, facts: BatchFacts, producers: dict[int, ProducerEnd], ends: bool) -> None:
    assert ends_a_producer(facts, producers) is ends, story


def walk(fates: TransactionFates, *batches: BatchFacts) -> list[bool]:
    return [fates.can_discard(batch) for batch in batches]


ABORTED_0_TO_3 = AbortedTransaction(7, 0, 3, 4)


def test_data_of_an_aborted_transaction_goes_and_its_marker_stays_with_its_index_entry() -> None:
    # Kafka LogCleanerTest.testAbortMarkerRemoval, round 1
    fates = TransactionFates.of([ABORTED_0_TO_3], 0)
    assert walk(fates, data(0), data(2), marker(Marker.ABORT, 3), data(4)) == [True, True, False, False]
    assert fates.retained == [ABORTED_0_TO_3]


def test_an_abort_marker_without_data_goes_and_so_does_its_index_entry() -> None:
    # Kafka LogCleanerTest.testAbortMarkerRemoval, round 2
    for fates in (TransactionFates.of([ABORTED_0_TO_3], 0), TransactionFates.of([], 0)):
        assert walk(fates, marker(Marker.ABORT, 3)) == [True]
        assert fates.retained == []


def test_a_commit_marker_stays_while_its_data_is_there() -> None:
    fates = TransactionFates.of([], 0)
    assert walk(fates, data(0), marker(Marker.COMMIT, 1), marker(Marker.COMMIT, 2)) == [False, False, True]


def test_transactions_of_two_producers_are_kept_apart() -> None:
    # Kafka LogCleanerTest.testBasicTransactionAwareCleaning
    aborted = AbortedTransaction(1, 0, 6, 2)
    batches = [data(1, 1), data(3, 2), data(5, 1), marker(Marker.ABORT, 6, 1), marker(Marker.COMMIT, 7, 2)]
    fates = TransactionFates.of([aborted], 0)
    assert walk(fates, *batches, data(8, 1), marker(Marker.COMMIT, 9, 1)) == [True, False, True, *[False] * 4]
    assert fates.retained == [aborted]


def test_a_second_aborted_transaction_of_a_producer_begins_after_the_first_one_ended() -> None:
    second = AbortedTransaction(7, 5, 8, 9)
    fates = TransactionFates.of([second, ABORTED_0_TO_3], 0)
    batches = [data(0), marker(Marker.ABORT, 3), data(4), marker(Marker.COMMIT, 4), data(5), marker(Marker.ABORT, 8)]
    assert walk(fates, *batches) == [True, False, False, False, True, False]
    assert fates.retained == [ABORTED_0_TO_3, second]


def test_a_transaction_that_ended_before_the_walk_takes_no_later_data_with_it() -> None:
    # pass 1 begins at the first dirty segment: the marker at 3 is not in it
    fates = TransactionFates.of([ABORTED_0_TO_3], 0)
    assert walk(fates, data(4), marker(Marker.COMMIT, 5)) == [False, False]
    assert fates.retained == []


def test_a_transaction_whose_marker_is_not_fed_goes_on_until_the_next_abort_marker() -> None:
    # Kafka Cleaner.buildOffsetMapForSegment begins at an index entry, maybe behind the marker at 3
    fates = TransactionFates.of([ABORTED_0_TO_3], 0)
    fates.begin_up_to(3)
    batches = [data(4), marker(Marker.COMMIT, 5), data(6), marker(Marker.ABORT, 7), data(8)]
    assert walk(fates, *batches) == [True, True, True, False, False]


def test_a_transaction_begins_with_the_batch_that_holds_its_first_offset() -> None:
    fates = TransactionFates.of([AbortedTransaction(7, 3, 9, 10)], 0)
    assert walk(fates, data(2), data(4)) == [False, True]


def test_data_outside_of_transactions_is_not_aborted() -> None:
    fates = TransactionFates.of([ABORTED_0_TO_3], 0)
    plain = data(1)._replace(is_transactional=False)
    assert walk(fates, plain, marker(Marker.ABORT, 3)) == [False, True]


@pytest.mark.parametrize(("kind", "expected"), [(Marker.NONE, True), (Marker.OTHER, False)])
def test_other_control_batches_end_no_transaction(kind: Marker, expected: bool) -> None:
    fates = TransactionFates.of([], 0)
    assert walk(fates, data(0), marker(kind, 1), marker(Marker.COMMIT, 2)) == [False, expected, False]


def test_two_transactions_with_the_same_offsets_in_damaged_indexes_do_not_raise() -> None:
    fates = TransactionFates.of([AbortedTransaction(1, 0, 5, 6), AbortedTransaction(2, 0, 5, 6)], 0)
    assert walk(fates, data(1, 1), data(2, 2)) == [True, True]


def test_of_two_transactions_of_a_producer_in_damaged_indexes_the_earlier_one_holds_until_its_marker() -> None:
    fates = TransactionFates.of([AbortedTransaction(7, 1, 8, 9), ABORTED_0_TO_3], 0)
    assert walk(fates, data(0), data(2), marker(Marker.ABORT, 3)) == [True, True, False]
    assert fates.retained == [ABORTED_0_TO_3]


@pytest.mark.parametrize(
    ("story", "index", "batches"),
    [
        ("the entry is missing", [], [data(0), marker(Marker.ABORT, 3)]),
        ("it names another producer", [AbortedTransaction(8, 0, 3, 4)], [data(0), marker(Marker.ABORT, 3)]),
        ("that producer has data", [AbortedTransaction(8, 0, 3, 4)], [data(0, 8), marker(Marker.ABORT, 3)]),
        ("it begins too late", [AbortedTransaction(7, 2, 3, 4)], [data(0), data(2), marker(Marker.ABORT, 3)]),
        ("it reaches back into a committed one", [AbortedTransaction(7, 0, 5, 6)], [data(0), marker(Marker.COMMIT, 2)]),
        ("it ends too late", [AbortedTransaction(7, 0, 9, 10)], [data(0), marker(Marker.ABORT, 3)]),
        ("it ends too early", [AbortedTransaction(7, 0, 2, 3)], [data(0), data(4), marker(Marker.ABORT, 6)]),
    ],
)
def test_a_transaction_index_that_the_markers_contradict_is_refused(
    story: str, index: list[AbortedTransaction], batches: list[BatchFacts]
) -> None:
    with pytest.raises(ContradictedTxnIndex):
        walk(TransactionFates.of(index, 0), *batches)


def test_an_abort_below_the_log_start_is_not_in_the_index_and_contradicts_nothing() -> None:
    fates = TransactionFates.of([AbortedTransaction(7, 5, 8, 9)], log_start_offset=4)
    batches = data(0), marker(Marker.ABORT, 3), data(5), marker(Marker.ABORT, 8)
    assert walk(fates, *batches) == [False, True, True, False]
    assert fates.unresolved().open_ids == frozenset()


def test_an_abort_at_the_log_start_is_in_the_index() -> None:
    with pytest.raises(ContradictedTxnIndex):
        walk(TransactionFates.of([], log_start_offset=3), data(0), marker(Marker.ABORT, 3))
