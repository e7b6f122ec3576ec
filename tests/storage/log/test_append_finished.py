"""Finished batches appended at once: the log is that of as many single appends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from storage.codecs.compression import Compression
from storage.filesystem import OutOfSpace
from storage.log import Log, LogConfig
from storage.log.errors import RecordBatchTooLarge
from storage.log.writing.validation import build_batch
from storage.records import Record
from tests.storage.log.logs import NOW_MS, TOPIC_ID, FullDisk, a_log, append, bases, offsets, reopened


def batch(place: int, count: int = 3, size: int = 100, at_ms: int = NOW_MS) -> bytes:
    records = [Record(0, at_ms + place, b"k%d" % place, bytes(size)) for _ in range(count)]
    return build_batch(records, NOW_MS, Compression.NONE, None)


def files(log: Log) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log.directory.iterdir()}


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(),
        LogConfig(segment_bytes=20_000),
        LogConfig(segment_bytes=1300),
        LogConfig(segment_ms=40),
        LogConfig(segment_index_bytes=60, index_interval_bytes=500),
        LogConfig(segment_index_bytes=60),
        LogConfig(flush_messages=7),
    ],
    ids=["defaults", "by size", "one by one", "by time", "full indexes", "full time index", "flushed"],
)
def test_segments_indexes_and_snapshots_are_those_of_single_appends(tmp_path: Path, config: LogConfig) -> None:
    made = [batch(place, 1 + place % 4, 40 * (place % 7)) for place in range(300)]
    (tmp_path / "single").mkdir()
    (tmp_path / "at once").mkdir()
    single, at_once = a_log(tmp_path / "single", config), a_log(tmp_path / "at once", config)
    for one in made:
        single.append(one, now_ms=NOW_MS)
    for first, end in ((0, 1), (1, 200), (200, 300)):
        at_once.append_finished(memoryview(bytearray(b"".join(made[first:end]))), now_ms=NOW_MS)
    assert files(at_once) == files(single)
    assert (bases(at_once), at_once.log_end_offset) == (bases(single), single.log_end_offset)
    single.close()
    at_once.close()
    assert files(at_once) == files(single)
    assert offsets(reopened(at_once)) == list(range(single.log_end_offset))


def test_batches_take_their_numbers_behind_what_is_there(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append(batch(0), now_ms=NOW_MS, leader_epoch=4)
    log.append_finished(memoryview(bytearray(batch(1, 2) + batch(2, 1))), now_ms=NOW_MS)
    append(log)
    found = [(one.base_offset, one.header.partition_leader_epoch, one.is_valid_crc()) for one in log.read()]
    assert found == [(0, 4, True), (3, 4, True), (5, 4, True), (6, 4, True)]


def test_nothing_is_no_change(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append_finished(memoryview(bytearray()), now_ms=NOW_MS)
    assert log.log_end_offset == 0


def test_batch_beyond_a_segment_is_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path, LogConfig(segment_bytes=500))
    with pytest.raises(RecordBatchTooLarge, match=r"more than segment.bytes = 500"):
        log.append_finished(memoryview(bytearray(batch(0, 1) + batch(1, 9))), now_ms=NOW_MS)
    append(log)
    assert offsets(log) == list(range(log.log_end_offset))


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_full_disk_leaves_whole_batches_and_the_log_goes_on(tmp_path: Path, suffix: str) -> None:
    disk = FullDisk()
    log = a_log(tmp_path, LogConfig(segment_bytes=5000, index_interval_bytes=600), disk)
    made: Sequence[bytes] = [batch(place) for place in range(60)]
    log.append_finished(memoryview(bytearray(b"".join(made[:20]))), now_ms=NOW_MS)
    disk.full_suffix = suffix
    with pytest.raises(OutOfSpace):
        log.append_finished(memoryview(bytearray(b"".join(made[20:40]))), now_ms=NOW_MS)
    disk.full_suffix = ""
    kept = log.log_end_offset
    log.append_finished(memoryview(bytearray(b"".join(made[40:]))), now_ms=NOW_MS)
    log.close()
    again = reopened(log)
    assert (again.torn_bytes, offsets(again)) == (0, list(range(kept + 60)))
    assert kept in range(60, 120)
    assert TOPIC_ID in (log.directory / "partition.metadata").read_text()
