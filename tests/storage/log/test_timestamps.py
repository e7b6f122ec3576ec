"""Lookups by timestamp: what is found in logs of all formats, and in segments whose indexes are not written yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.log import Log, LogConfig, SpecialTimestamp
from storage.records import Batch, Record, encode_batch, encode_message, encode_wrapper
from tests.batches import encode_empty_batch, iter_batches
from tests.partition_dirs import PartitionDir
from tests.storage.log.logs import FS, NOW_MS, a_log, append, looked_up, reopened

MAX = SpecialTimestamp.MAX_TIMESTAMP


def dated(offset: int, *timestamps_ms: int) -> list[Record]:
    return [Record(offset + place, at, b"k", b"v") for place, at in enumerate(timestamps_ms)]


def opened(made: PartitionDir, log_start_offset: int = 0) -> Log:
    return Log.open(made.path, LogConfig(), FS, log_start_offset=log_start_offset)


def test_the_largest_timestamp_is_that_of_the_first_record_in_the_first_segment_that_has_it(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        append(log, NOW_MS, NOW_MS + 9, NOW_MS + 9)
        append(log, NOW_MS + 9)
        log.roll(NOW_MS)
        append(log, NOW_MS + 9)
        assert looked_up(log, MAX) == (NOW_MS + 9, 1)
        append(log, NOW_MS, NOW_MS + 10)
        assert looked_up(log, MAX) == (NOW_MS + 10, 6)
        append(log, NOW_MS + 10)
    assert looked_up(reopened(log), MAX) == (NOW_MS + 10, 6)


def test_the_largest_timestamp_may_lie_below_the_log_start(tmp_path: Path) -> None:
    """A broker does not compare them either."""
    with a_log(tmp_path) as log:
        append(log, NOW_MS + 9)
        append(log, NOW_MS)
    assert looked_up(reopened(log, log_start_offset=1), MAX) == (NOW_MS + 9, 0)


def test_a_segment_that_lost_its_batches_hides_none_behind_it(tmp_path: Path) -> None:
    """The segment counts by its time index; by the time of its file it would be later than all records."""
    with a_log(tmp_path) as log:
        append(log, NOW_MS)
        log.roll(NOW_MS)
        append(log, NOW_MS + 9)
    with (log.directory / "00000000000000000000.log").open("r+b") as file:
        file.truncate(70)
    assert looked_up(reopened(log), NOW_MS + 5) == (NOW_MS + 9, 1)


def test_a_batch_that_compaction_emptied_has_no_record_with_its_timestamp(tmp_path: Path) -> None:
    (whole,) = iter_batches(encode_batch(dated(0, NOW_MS + 5, NOW_MS, NOW_MS, NOW_MS)), Path("whole"))
    assert isinstance(whole, Batch)
    emptied = encode_empty_batch(whole.header)
    made = PartitionDir(tmp_path).segment(0, emptied, encode_batch(dated(4, NOW_MS))).segment(5)
    assert looked_up(opened(made), MAX) is None
    assert looked_up(opened(made), NOW_MS) == (NOW_MS, 4)
    assert looked_up(opened(made), NOW_MS + 1) is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_old_formats(tmp_path: Path, magic: int, codec: Compression) -> None:
    records = dated(0, *(NOW_MS + n for n in range(6))) if magic else dated(0, *[-1] * 6)
    data = (
        b"".join(encode_message(one, magic) for one in records)
        if codec is Compression.NONE
        else encode_wrapper(records, magic, codec)
    )
    log = opened(PartitionDir(tmp_path).segment(0, data, mtime_ms=NOW_MS + 2))
    if magic:
        assert [looked_up(log, NOW_MS + n) for n in range(6)] == [(NOW_MS + n, n) for n in range(6)]
        assert looked_up(log, MAX) == (NOW_MS + 5, 5)
    else:
        assert [looked_up(log, NOW_MS), looked_up(log, NOW_MS + 3), looked_up(log, MAX)] == [None] * 3
        assert looked_up(log, -7) == (-1, 0)


def test_without_timestamps_the_first_record_has_the_largest(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path).segment(0, encode_batch(dated(0, -1, -1)))
    assert looked_up(opened(made), MAX) == (-1, 0)


def test_a_segment_without_timestamps_hides_a_later_one_by_its_file_time(tmp_path: Path) -> None:
    """As in Kafka: the first segment that is late enough is searched, and no other."""
    made = PartitionDir(tmp_path).segment(0, encode_message(Record(0, -1, b"k", b"v"), 0), mtime_ms=NOW_MS + 10)
    made.segment(1, encode_batch(dated(1, NOW_MS, NOW_MS + 20)))
    assert looked_up(opened(made), NOW_MS + 5) is None
    assert looked_up(opened(made), NOW_MS + 15) == (NOW_MS + 20, 2)


def test_the_file_time_of_the_active_segment_is_that_of_now(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        log.append(encode_batch(dated(0, -1)), now_ms=NOW_MS)
        (path,) = log.directory.glob("*.log")
        os.utime(path, ns=(NOW_MS * 1_000_000,) * 2)
        assert looked_up(log, NOW_MS + 1) is None
        assert looked_up(log, MAX) == (-1, 0)


def test_records_that_took_the_logs_time_are_found_by_it(tmp_path: Path) -> None:
    data = encode_batch(dated(0, *range(9)), log_append_time_ms=NOW_MS)
    made = PartitionDir(tmp_path).segment(0, data)
    assert looked_up(opened(made), 5) == (NOW_MS, 0)
    assert looked_up(opened(made, 4), NOW_MS) == (NOW_MS, 4)
    assert looked_up(opened(made), MAX) == (NOW_MS, 0)


@pytest.mark.parametrize("leave", [lambda _: None, Log.flush, Log.close], ids=["as it is", "flushed", "closed"])
@pytest.mark.parametrize("codec", list(Compression))
def test_every_timestamp_of_a_log_that_is_being_written(
    tmp_path: Path, leave: Callable[[Log], None], codec: Compression
) -> None:
    random, log = Random(codec), a_log(tmp_path, LogConfig(segment_bytes=9000, index_interval_bytes=300))
    found: list[tuple[int, int]] = []
    for place in range(60):
        times = [NOW_MS + 100 * place + random.randrange(-150, 150) for _ in range(random.choice((1, 3, 30)))]
        found += [(at, len(found) + n) for n, at in enumerate(times)]
        log.append_records(dated(0, *times), now_ms=NOW_MS, compression=codec)
        if place % 20 == 19:
            leave(log)
            for target in range(NOW_MS - 200, NOW_MS + 6200, 97):
                assert looked_up(log, target) == by_scan(log, found, target)


def by_scan(log: Log, records: list[tuple[int, int]], target: int) -> tuple[int, int] | None:
    """The first segment with a record that is as late, and in it the first such record."""
    first = next((offset for at, offset in records if at >= target), None)
    return None if first is None else (records[first][0], first)


def test_the_answer_has_the_leader_epoch(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        log.append(encode_batch(dated(0, NOW_MS)), now_ms=NOW_MS, leader_epoch=3)
        log.append(encode_batch(dated(0, NOW_MS + 1)), now_ms=NOW_MS, leader_epoch=5)
    epochs = {
        target: found.leader_epoch
        for target in (NOW_MS, MAX, -1, -2, -4, -5, -6)
        if (found := reopened(log).lookup_timestamp(target))
    }
    assert epochs == {NOW_MS: 3, MAX: 5, -1: 5, -2: 3, -4: 3, -5: -1, -6: -1}
    (log.directory / "leader-epoch-checkpoint").unlink()
    assert reopened(log).lookup_timestamp(-2) == (-1, 0, None)
    assert opened(PartitionDir(tmp_path / "other").segment(0, encode_batch(dated(0, 7)))).lookup_timestamp(0) == (
        7,
        0,
        None,
    )


def behind_damage(tmp_path: Path, damage: bytes) -> tuple[Path, int]:
    """A closed segment of 40 batches with an index entry for each; the header of batch 20 is damaged."""
    with a_log(tmp_path, LogConfig(index_interval_bytes=1)) as log:
        for place in range(40):
            append(log, NOW_MS + place)
        log.roll(NOW_MS)
        append(log, NOW_MS + 40)
    path = log.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    position = [batch.position for batch in iter_batches(bytes(data), path)][20]
    data[position + 8 : position + 8 + len(damage)] = damage
    path.write_bytes(data)
    return log.directory, position


@pytest.mark.parametrize("damage", [b"\0\0\0\1", b"\x7f\xff\xff\xff"], ids=["a length too small", "a length too great"])
def test_behind_a_damaged_header_the_answer_is_the_same_whatever_was_looked_up_before(
    tmp_path: Path, damage: bytes
) -> None:
    directory, _ = behind_damage(tmp_path, damage)
    wanted = [NOW_MS + place for place in (*range(20), *range(22, 41))]
    alone = {}
    for timestamp_ms in wanted:
        with Log.open(directory, LogConfig(), FS) as log:
            alone[timestamp_ms] = looked_up(log, timestamp_ms)
    assert alone == {timestamp_ms: (timestamp_ms, timestamp_ms - NOW_MS) for timestamp_ms in wanted}
    for seed in range(20):
        order = [NOW_MS + 20, NOW_MS + 21, *wanted]
        Random(seed).shuffle(order)
        with Log.open(directory, LogConfig(), FS) as log:
            for timestamp_ms in order:
                try:
                    found = looked_up(log, timestamp_ms)
                except CorruptBatch:
                    found = None
                assert timestamp_ms not in alone or found == alone[timestamp_ms], (seed, timestamp_ms - NOW_MS)
