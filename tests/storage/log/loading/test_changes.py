"""Truncation, a follower's appends, moves of the log start: after Kafka's UnifiedLogTest, in our own words."""

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
from storage.names import CLEANER_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, FileKind, segment_file_name
from storage.records import ControlType, encode_batch, encode_control_batch
from tests.interop.lives.batches import with_header
from tests.storage.log.logs import FS, NOW_MS, a_log, append, bases, offsets, record, reopened

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
    return encode_control_batch(
        kind, offset=offset, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=1, coordinator_epoch=9
    )


def checkpointed(directory: Path, name: str) -> dict[str, int]:
    found = parse_offset_checkpoint((directory.parent / name).read_bytes(), directory)
    return {str(partition): offset for partition, offset in found.items()}


@pytest.mark.parametrize("offset", [0, 1, 3, 4, 5, 8])
def test_a_truncated_log_ends_below_the_offset_and_goes_on_there(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path)
    assert log.truncate_to(offset, now_ms=NOW_MS)
    assert (offsets(log), log.log_end_offset) == (list(range(offset)), offset)
    append(log, NOW_MS + 100)
    assert offsets(log) == list(range(offset + 1))
    log.close()
    again = Log.load(log.directory, SMALL, FS, now_ms=NOW_MS, had_clean_shutdown=False, recovery_point=0)
    assert (offsets(again), again.cuts) == (list(range(offset + 1)), ())


def test_segments_behind_a_truncation_wait_as_deleted_files(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert bases(log) == [0, 4, 8]
    log.truncate_to(2, now_ms=NOW_MS)
    assert bases(log) == [0]
    waiting = sorted(path.name for path in log.directory.glob("*.deleted"))
    assert f"{4:020d}.log.deleted" in waiting
    assert f"{8:020d}.snapshot.deleted" in waiting


def test_a_truncation_at_or_behind_the_end_changes_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert not log.truncate_to(9, now_ms=NOW_MS)
    assert not log.truncate_to(20, now_ms=NOW_MS)
    assert offsets(log) == list(range(9))
    with pytest.raises(ValueError, match="-1"):
        log.truncate_to(-1, now_ms=NOW_MS)


def test_a_batch_that_holds_the_offset_goes_whole(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log, NOW_MS)
    append(log, NOW_MS, NOW_MS, NOW_MS)
    log.truncate_to(2, now_ms=NOW_MS)
    assert (offsets(log), log.log_end_offset) == ([0], 2)


def test_a_truncation_takes_epochs_checkpoints_and_producers_back(tmp_path: Path) -> None:
    (tmp_path / CLEANER_OFFSET_CHECKPOINT).write_bytes(b"0\n2\norders 0 8\nothers 1 7\n")
    config = LogConfig(segment_bytes=300, is_compacted=True)
    log = a_log(tmp_path, config)
    for sequence, epoch in enumerate((0, 0, 0, 0, 1, 1, 2, 2, 2)):
        producer = Producer(44, 0, sequence)
        log.append_records([record()], now_ms=NOW_MS, leader_epoch=epoch, producer=producer)
    log.flush()
    log.truncate_to(5, now_ms=NOW_MS)
    assert read_leader_epochs(log.directory) == [(0, 0), (1, 4)]
    assert log.end_offset_for_epoch(0) == (0, 4)
    assert log.end_offset_for_epoch(1) == (1, 5)
    assert log.end_offset_for_epoch(2) is None
    assert checkpointed(log.directory, RECOVERY_POINT_CHECKPOINT) == {"orders-0": 5}
    assert checkpointed(log.directory, CLEANER_OFFSET_CHECKPOINT) == {"orders-0": bases(log)[-1], "others-1": 7}
    assert log.producer_state(NOW_MS).producers[44].batches[-1].last_sequence == 4
    log.append_records([record()], now_ms=NOW_MS, producer=Producer(44, 0, 5))


def test_a_log_that_starts_over_keeps_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.truncate_fully_and_start_at(30, now_ms=NOW_MS)
    assert (bases(log), offsets(log)) == ([30], [])
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (30, 30, 30)
    assert read_leader_epochs(log.directory) == []
    assert not list(log.directory.glob("*.snapshot")) or {p.name for p in log.directory.glob("*.snapshot")} == {
        f"{30:020d}.snapshot"
    }
    append(log)
    assert offsets(log) == [30]


def test_the_end_of_an_epoch_below_the_first_is_where_that_begins(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for epoch in (3, 5):
        log.append_records([record()], now_ms=NOW_MS, leader_epoch=epoch)
    assert [log.end_offset_for_epoch(epoch) for epoch in (-1, 2, 3, 4, 5, 6)] == [
        None,
        (2, 0),
        (3, 1),
        (3, 1),
        (5, 2),
        None,
    ]


def test_the_log_start_moves_up_to_the_high_watermark(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with pytest.raises(OffsetOutOfRange):
        log.increment_log_start(1)
    log.update_high_watermark(9)
    assert log.increment_log_start(6)
    assert not log.increment_log_start(6)
    assert (log.log_start_offset, offsets(log), bases(log)) == (6, [6, 7, 8], [0, 4, 8])
    assert read_leader_epochs(log.directory) == [(0, 6)]
    log.close()
    assert Log.load(log.directory, SMALL, FS, now_ms=NOW_MS, had_clean_shutdown=True).log_start_offset == 6


def test_a_follower_keeps_offsets_and_epochs_and_may_leave_gaps(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert log.append_as_follower(sent(0) + sent(4, epoch=2, records=2), now_ms=NOW_MS)[:2] == (0, 5)
    assert (offsets(log), log.log_end_offset) == ([0, 4, 5], 6)
    assert read_leader_epochs(log.directory) == [(0, 0), (2, 4)]
    assert log.append_as_follower(sent(6)[:40], now_ms=NOW_MS).first_offset == -1


def test_a_follower_refuses_offsets_that_do_not_rise_or_lie_below_its_end(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append_as_follower(sent(5), now_ms=NOW_MS)
    with pytest.raises(OffsetsOutOfOrder):
        log.append_as_follower(sent(9) + sent(8), now_ms=NOW_MS)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(sent(3), now_ms=NOW_MS)
    assert offsets(log) == [5]
    with pytest.raises(CorruptBatch):  # what is wrong with any batch comes first
        log.append_as_follower(sent(9) + sent(8) + sent(10)[:-1] + b"?", now_ms=NOW_MS)


def test_a_follower_looks_at_the_size_first_and_then_at_markers(tmp_path: Path) -> None:
    log = a_log(tmp_path, SMALL)
    log.append_as_follower(sent(0), now_ms=NOW_MS)
    wrong = marker(1, ControlType.LEADER_CHANGE)
    with pytest.raises(RecordBatchTooLarge):
        log.append_as_follower(wrong + sent(2, records=40), now_ms=NOW_MS)
    with pytest.raises(InvalidRecords, match="LEADER_CHANGE"):
        log.append_as_follower(wrong, now_ms=NOW_MS)
    longer = marker(1, ControlType.COMMIT) + b"??????"
    with pytest.raises(InvalidRecords, match="behind the last"):
        log.append_as_follower(with_header(longer, batch_length=len(longer) - 12), now_ms=NOW_MS)
    assert log.log_end_offset == 1


def test_a_follower_takes_a_marker_of_its_leader_whatever_follows_the_first_record(tmp_path: Path) -> None:
    """Its header counts more records than there are. A start replays it, too."""
    log = a_log(tmp_path)
    log.append_as_follower(with_header(marker(0, ControlType.COMMIT), record_count=6), now_ms=NOW_MS)
    assert log.log_end_offset == 1
    log.kill()
    again = Log.load(log.directory, SMALL, FS, now_ms=NOW_MS, had_clean_shutdown=False, recovery_point=0)
    assert again.log_end_offset == 1
    assert again.producer_state(NOW_MS).producers[7].coordinator_epoch == 9


def test_a_follower_leaves_out_batches_of_later_epochs_than_its_leaders(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    appended = log.append_as_follower(sent(0) + sent(1, epoch=3) + sent(2), now_ms=NOW_MS, leader_epoch=1)
    assert appended[:2] == (0, 0)
    assert offsets(log) == [0]


def test_a_follower_can_append_behind_a_roll_above_its_end(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append_as_follower(sent(0), now_ms=NOW_MS)
    log.roll(NOW_MS, at_offset=50)
    log.append_as_follower(sent(50), now_ms=NOW_MS)
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


def test_a_killed_log_writes_nothing_more(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    log.kill()
    assert {path.name: path.read_bytes() for path in log.directory.iterdir()} == before
    assert path_size(log, FileKind.INDEX) == 1000
    assert not (tmp_path / RECOVERY_POINT_CHECKPOINT).exists()


def path_size(log: Log, kind: FileKind) -> int:
    return (log.directory / segment_file_name(bases(log)[-1], kind)).stat().st_size


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


def test_a_reopened_log_reads_what_a_truncation_left(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.truncate_to(6, now_ms=NOW_MS)
    log.close()
    assert offsets(reopened(log)) == list(range(6))


def test_a_cut_that_leaves_no_time_entry_of_a_log_just_opened_leaves_no_largest_timestamp(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        append(log, NOW_MS)
        append(log, NOW_MS + 1)
    again = Log.load(log.directory, LogConfig(), FS, now_ms=NOW_MS, had_clean_shutdown=True)
    again.truncate_to(1, now_ms=NOW_MS)
    again.close()
    assert path_size(again, FileKind.TIME_INDEX) == 0, "nobody looked at the segment before: Kafka leaves it so, too"
