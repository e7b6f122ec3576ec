"""Kafka ProducerStateManagerTest and UnifiedLogTest: what producers and coordinators may append next."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from storage.log import Appended, AppendOrigin, Log, LogConfig, Producer
from storage.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    LogRefusal,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from storage.records import ControlType, Record
from storage.txn_index import parse_txn_index
from tests.batches import encode_control_batch
from tests.storage.log.logs import NOW_MS, a_log, append, record, reopened

DAY_MS: Final = 86_400_000
SEQUENCE_MAX: Final = (1 << 31) - 1
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def put(
    log: Log,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    by: int = 5,
    is_transactional: bool = False,
    at_ms: int = NOW_MS,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> Appended:
    """One batch of a producer."""
    records = [record(f"k{place}", timestamp_ms=at_ms + place) for place in range(count)]
    producer = Producer(by, epoch, sequence, is_transactional)
    return log.append_records(records, now_ms=at_ms, producer=producer, origin=origin)


def end(
    log: Log,
    kind: ControlType = COMMIT,
    *,
    epoch: int = 0,
    by: int = 5,
    coordinator_epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.COORDINATOR,
) -> Appended:
    """The marker of a producer's transaction."""
    data = encode_control_batch(
        kind,
        offset=0,
        timestamp_ms=NOW_MS,
        producer_id=by,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
    )
    return log.append(data, now_ms=NOW_MS, origin=origin)


def refuses(log: Log, refusal: type[LogRefusal], sequence: int, *, count: int = 1, epoch: int = 0, by: int = 5) -> None:
    before = log.log_end_offset, log.size_bytes, log.producer_state(NOW_MS).to_snapshot_bytes()
    with pytest.raises(refusal):
        put(log, sequence, count, epoch=epoch, by=by)
    assert (log.log_end_offset, log.size_bytes, log.producer_state(NOW_MS).to_snapshot_bytes()) == before


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return a_log(tmp_path)


def test_the_last_five_batches_are_known_again_by_their_sequences(log: Log) -> None:
    # UnifiedLogTest.testDuplicateAppends..., testMultipleProducerIdsPerMemoryRecord
    placed = [put(log, 2 * turn, 2) for turn in range(7)]
    end_offset = log.log_end_offset
    for turn in range(2, 7):
        again = put(log, 2 * turn, 2)
        assert again == placed[turn]._replace(is_duplicate=True, log_append_time_ms=NOW_MS + 1)
    assert log.log_end_offset == end_offset
    for turn in range(2):
        refuses(log, OutOfOrderSequence, 2 * turn, count=2)
    refuses(log, OutOfOrderSequence, 12, count=1)  # a part of the last one is not the last one
    put(log, 14)


def test_after_a_reopening_the_newest_batch_alone_is_known_again_from_its_snapshot(log: Log) -> None:
    # ProducerStateManagerTest.testRecoverFromSnapshot...: a snapshot keeps one batch a producer
    placed = [put(log, turn) for turn in range(3)]
    log.close()
    found = reopened(log)
    assert put(found, 2).first_offset == placed[2].first_offset
    refuses(found, OutOfOrderSequence, 1)
    assert not put(found, 3).is_duplicate


def test_a_gap_is_refused_and_the_batch_that_follows_is_not(log: Log) -> None:
    # ProducerStateManagerTest.testOutOfSequence..., UnifiedLogTest.testNonSequentialAppend
    put(log, 0)
    refuses(log, OutOfOrderSequence, 2)
    put(log, 1)
    refuses(log, OutOfOrderSequence, 3)


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    # ProducerStateManagerTest.testAppendEmptyProducer..., testProducersWithOngoingTransactions...
    assert put(log, 16).first_offset == 0
    refuses(log, OutOfOrderSequence, 16 + 2)


def test_a_higher_epoch_begins_at_0_and_a_lower_one_is_over(log: Log) -> None:
    # ProducerStateManagerTest.testBasicIdMapping, testProducerSequenceInvalidWrapAround..., testFencing
    put(log, 0)
    refuses(log, OutOfOrderSequence, 1, epoch=2)
    put(log, 0, epoch=2)
    refuses(log, InvalidProducerEpoch, 1, epoch=1)
    put(log, 1, epoch=2)


def test_sequences_go_round(log: Log) -> None:
    # ProducerStateManagerTest.testProducerSequenceWrapAround, testProducerSequenceWithWrapAroundBatchRecord
    put(log, SEQUENCE_MAX - 1, 2)
    put(log, 0)
    other = put(log, SEQUENCE_MAX - 4, 10, by=6)
    assert put(log, SEQUENCE_MAX - 4, 10, by=6).first_offset == other.first_offset
    put(log, 5, by=6)
    refuses(log, OutOfOrderSequence, SEQUENCE_MAX, by=6)


def test_a_sequence_cannot_go_round_too_early(log: Log) -> None:
    # ProducerStateManagerTest.testProducerSequenceInvalidWrapAround
    put(log, SEQUENCE_MAX - 1)
    refuses(log, OutOfOrderSequence, 0)


def test_a_coordinators_batches_have_an_epoch_and_no_sequence_to_check(log: Log) -> None:
    # ProducerStateManagerTest.testOldEpochForControlRecord, "offset commits do not have sequence numbers"
    for _ in range(2):
        put(log, 7, origin=AppendOrigin.COORDINATOR)
    put(log, 7, epoch=1, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(InvalidProducerEpoch):
        put(log, 7, origin=AppendOrigin.COORDINATOR)


def test_what_a_follower_takes_is_not_refused(log: Log) -> None:
    # ProducerStateManagerTest.testNonMatchingTxnFirstOffset..., AppendOrigin.REPLICATION
    put(log, 0, epoch=3)
    put(log, 5, epoch=3, origin=AppendOrigin.REPLICATION)
    put(log, 9, epoch=1, origin=AppendOrigin.REPLICATION)
    assert log.producer_state(NOW_MS).producers[5].epoch == 1


def test_a_plain_batch_within_a_transaction_is_refused(log: Log) -> None:
    # ProducerStateManagerTest.testNonTransactionalAppendWithOngoingTransaction
    put(log, 0, is_transactional=True)
    refuses(log, InvalidTxnState, 1)
    end(log)
    put(log, 1)


def test_markers_are_fenced_by_the_producers_epoch(log: Log) -> None:
    # ProducerStateManagerTest.testOldEpochForControlRecord, UnifiedLogTest.testZombieCoordinatorFenced
    put(log, 0, epoch=2, is_transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        end(log, epoch=1)
    end(log, epoch=3)
    refuses(log, InvalidProducerEpoch, 1, epoch=2)
    put(log, 0, epoch=3)


def test_markers_are_fenced_by_the_coordinators_epoch(log: Log) -> None:
    # ProducerStateManagerTest.testCoordinatorFencing, testCoordinatorFencedAfterReload
    put(log, 0, is_transactional=True)
    end(log, coordinator_epoch=4)
    put(log, 1, is_transactional=True)
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, coordinator_epoch=3)
    log.close()
    found = reopened(log)
    with pytest.raises(TransactionCoordinatorFenced):
        end(found, coordinator_epoch=3)
    end(found, coordinator_epoch=4)


def test_a_marker_without_data_ends_nothing(log: Log) -> None:
    # ProducerStateManagerTest.testAppendTxnMarkerWithNoProducerState, testTxnFirstOffsetMetadataCached
    end(log, ABORT, epoch=3)
    assert not list(log.directory.glob("*.txnindex"))
    refuses(log, InvalidProducerEpoch, 0, epoch=2)
    put(log, 0, epoch=3)


def test_the_stable_offset_of_an_abort_is_where_the_oldest_other_transaction_began(log: Log) -> None:
    # UnifiedLogTest.testLastStableOffset..., testTransactionIndexUpdated
    for by in (1, 2, 3):
        put(log, 0, by=by, is_transactional=True)
    end(log, ABORT, by=2)
    end(log, ABORT, by=1)
    end(log, ABORT, by=3)
    (path,) = log.directory.glob("*.txnindex")
    assert parse_txn_index(path.read_bytes(), path) == [(2, 1, 3, 0), (1, 0, 4, 2), (3, 2, 5, 6)]


def test_a_refused_batch_leaves_a_new_producer_unknown(tmp_path: Path) -> None:
    log = a_log(tmp_path, LogConfig(max_message_bytes=100))
    with pytest.raises(Exception, match=r"max\.message\.bytes"):
        log.append_records([Record(0, NOW_MS, b"k", b"v" * 99)], now_ms=NOW_MS, producer=Producer(5, 0, 0))
    append(log)
    assert log.producer_state(NOW_MS).producers == {}
