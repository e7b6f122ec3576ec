"""Appends of batches as they are, moves of the log start, flushes: after Kafka's UnifiedLogTest, in our own words."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from storage.checkpoints import parse_offset_checkpoint
from storage.errors import CorruptBatch
from storage.log import Log, LogConfig, Producer
from storage.log.errors import (
    InvalidRecords,
    OffsetOutOfRange,
    OffsetsOutOfOrder,
    RecordBatchTooLarge,
    UnexpectedAppendOffset,
)
from storage.log.leader_epochs import read_leader_epochs
from storage.log.producer_state import parse_snapshot
from storage.names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from storage.records import ControlType, encode_batch, encode_message
from tests.batches import encode_control_batch
from tests.interop.lives.batches import with_header
from tests.interop.lives.drawing import placed
from tests.storage.log.logs import NOW_MS, a_log, append, bases, looked_up, offsets, record, reopened

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_index_bytes=1000)


def filled(parent: Path, batches: int = 9, config: LogConfig = SMALL) -> Log:
    log = a_log(parent, config)
    for place in range(batches):
        append(log, NOW_MS + place)
    return log


def sent(offset: int, *, epoch: int = 0, records: int = 1) -> bytes:
    """A batch as a leader has it."""
    rows = [replace(record(timestamp_ms=NOW_MS), offset=offset + place) for place in range(records)]
    return bytes(encode_batch(rows, partition_leader_epoch=epoch))


def marker(offset: int, kind: ControlType) -> bytes:
    made = encode_control_batch(
        kind, offset=offset, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=1, coordinator_epoch=9
    )
    return placed(made, offset, 0)


def checkpointed(directory: Path, name: str) -> dict[str, int]:
    found = parse_offset_checkpoint((directory.parent / name).read_bytes(), directory)
    return {str(partition): offset for partition, offset in found.items()}


def test_the_log_start_moves_up_to_the_log_end_and_lasts(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    log = reopened(log, SMALL)
    with pytest.raises(OffsetOutOfRange):
        log.increment_log_start(10)
    assert log.increment_log_start(6)
    assert not log.increment_log_start(6)
    assert (log.log_start_offset, offsets(log), bases(log)) == (6, [6, 7, 8], [0, 4, 8])
    assert read_leader_epochs(log.directory) == [(0, 6)]
    assert checkpointed(log.directory, LOG_START_OFFSET_CHECKPOINT) == {"orders-0": 6}
    assert log.increment_log_start(9)
    assert offsets(log) == []


def test_a_recovery_point_is_written_by_a_flush_for_this_partition_alone(tmp_path: Path) -> None:
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(b"0\n2\nothers 3 17\norders 0 1\n")
    log = a_log(tmp_path)
    append(log, NOW_MS, NOW_MS)
    log.flush()
    assert checkpointed(log.directory, RECOVERY_POINT_CHECKPOINT) == {"others-3": 17, "orders-0": 2}


def test_batches_as_they_are_keep_offsets_and_epochs_and_may_leave_gaps(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert log.append_as_is(sent(0) + sent(4, epoch=2, records=2), now_ms=NOW_MS)[:2] == (0, 5)
    assert (offsets(log), log.log_end_offset) == ([0, 4, 5], 6)
    assert read_leader_epochs(log.directory) == [(0, 0), (2, 4)]
    assert log.append_as_is(sent(6)[:40], now_ms=NOW_MS).first_offset == -1


def test_a_batch_of_an_older_version_has_the_leader_epochs_forgotten(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append_as_is(sent(0) + sent(1, epoch=2), now_ms=NOW_MS)
    log.append_as_is(encode_message(replace(record(), offset=2), 1), now_ms=NOW_MS)
    assert read_leader_epochs(log.directory) == []
    assert log.append_as_is(sent(3, epoch=4), now_ms=NOW_MS)[:2] == (3, 3)
    assert (offsets(log), read_leader_epochs(log.directory)) == ([0, 1, 2, 3], [(4, 3)])


def test_a_follower_refuses_offsets_that_do_not_rise_or_lie_below_its_end(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append_as_is(sent(5), now_ms=NOW_MS)
    with pytest.raises(OffsetsOutOfOrder):
        log.append_as_is(sent(9) + sent(8), now_ms=NOW_MS)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_is(sent(3), now_ms=NOW_MS)
    assert offsets(log) == [5]
    with pytest.raises(CorruptBatch):  # what is wrong with any batch comes first
        log.append_as_is(sent(9) + sent(8) + sent(10)[:-1] + b"?", now_ms=NOW_MS)


def test_a_follower_looks_at_the_size_first_and_then_at_markers(tmp_path: Path) -> None:
    log = a_log(tmp_path, SMALL)
    log.append_as_is(sent(0), now_ms=NOW_MS)
    wrong = marker(1, ControlType.LEADER_CHANGE)
    with pytest.raises(RecordBatchTooLarge):
        log.append_as_is(wrong + sent(2, records=40), now_ms=NOW_MS)
    with pytest.raises(InvalidRecords, match="LEADER_CHANGE"):
        log.append_as_is(wrong, now_ms=NOW_MS)
    longer = marker(1, ControlType.COMMIT) + b"??????"
    with pytest.raises(InvalidRecords, match="behind the last"):
        log.append_as_is(with_header(longer, batch_length=len(longer) - 12), now_ms=NOW_MS)
    assert log.log_end_offset == 1


def test_a_follower_takes_a_marker_of_its_leader_whatever_follows_the_first_record(tmp_path: Path) -> None:
    """Its header counts more records than there are. A reader replays it, too."""
    log = a_log(tmp_path)
    log.append_as_is(with_header(marker(0, ControlType.COMMIT), record_count=6), now_ms=NOW_MS)
    assert log.log_end_offset == 1
    assert looked_up(log, 0) == (NOW_MS, 0)
    log.close()
    for snapshot in log.directory.glob("*.snapshot"):
        snapshot.unlink()
    again = reopened(log)
    assert again.log_end_offset == 1
    assert again.producer_state(NOW_MS).producers[7].coordinator_epoch == 9


def test_a_follower_leaves_out_batches_of_later_epochs_than_its_leaders(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    appended = log.append_as_is(sent(0) + sent(1, epoch=3) + sent(2), now_ms=NOW_MS, leader_epoch=1)
    assert appended[:2] == (0, 0)
    assert offsets(log) == [0]


def test_a_follower_can_append_behind_a_roll_above_its_end(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append_as_is(sent(0), now_ms=NOW_MS)
    log.roll(NOW_MS, at_offset=50)
    log.append_as_is(sent(50), now_ms=NOW_MS)
    assert (bases(log), offsets(log)) == ([0, 50], [0, 50])


def test_a_lower_epoch_is_the_truth_for_what_it_writes(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for epoch in (4, 6, 5):
        log.append_records([record()], now_ms=NOW_MS, leader_epoch=epoch)
    assert read_leader_epochs(log.directory) == [(4, 0), (5, 2)]


def test_a_log_is_flushed_by_messages_and_by_time(tmp_path: Path) -> None:
    by_messages = a_log(tmp_path, LogConfig(flush_messages=3), name="counted-0")
    points = []
    for _ in range(5):
        append(by_messages)
        points.append(by_messages.recovery_point)
    assert points == [0, 0, 3, 3, 3]
    by_time = a_log(tmp_path, LogConfig(flush_ms=1000), name="timed-0")
    points = []
    for at in (0, 999, 1000, 1500, 2000):
        by_time.append_records([record()], now_ms=NOW_MS + at)
        points.append(by_time.recovery_point)
    assert points == [0, 0, 3, 3, 5]


def test_a_snapshot_has_the_order_of_javas_hash_map(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    ids = [40, 3, 1 << 33, 17, 9000, *range(100, 112)]
    for producer_id in ids:
        log.append_records([record()], now_ms=NOW_MS, producer=Producer(producer_id, 0, 0))
    log.close()
    (snapshot,) = log.directory.glob("*.snapshot")
    found = [entry.producer_id for entry in parse_snapshot(snapshot.read_bytes(), snapshot)]
    buckets = [(number ^ number >> 32) & 31 for number in found]
    assert sorted(found) == sorted(ids)
    assert buckets == sorted(buckets), "17 entries take 32 buckets"
    same = [list(group) for _, group in itertools.groupby(found, key=lambda number: (number ^ number >> 32) & 31)]
    assert [sorted(group, key=ids.index) for group in same] == same
