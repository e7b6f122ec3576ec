from __future__ import annotations

from pathlib import Path

import pytest

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.filesystem import OutOfSpace
from storage.log import Appended, AppendOrigin, Log, LogConfig, Producer
from storage.log.active import TornTail
from storage.log.errors import BatchTooLarge, InvalidLeaderEpoch, InvalidTxnState, RecordBatchTooLarge
from storage.log.leader_epochs import LeaderEpochs, read_leader_epochs
from storage.names import LEADER_EPOCH_CHECKPOINT, FileKind
from storage.records import ControlType, Record, encode_batch
from storage.records.v2 import MAGIC_POSITION
from storage.txn_index import parse_txn_index
from tests.batches import encode_control_batch
from tests.interop.lives.drawing import placed
from tests.storage.log.logs import ANY_SIZE, FS, NOW_MS, TOPIC_ID, FullDisk, a_log, append, offsets, record, reopened


def encoded(count: int = 2, base_offset: int = 0) -> bytes:
    return encode_batch([Record(base_offset + n, NOW_MS, b"k%d" % n, b"v") for n in range(count)])


def test_offsets_and_leader_epoch_are_set_and_the_crc_stays_right(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append(encoded(), now_ms=NOW_MS, leader_epoch=4)
    assert log.append(encoded(3), now_ms=NOW_MS) == Appended(2, 4, has_rolled=False)
    assert log.append(encoded(1), now_ms=NOW_MS) == Appended(5, 5, has_rolled=False)
    batches = list(log.read())
    assert [(b.base_offset, b.header.partition_leader_epoch, b.is_valid_crc()) for b in batches] == [
        (0, 4, True),
        (2, 4, True),
        (5, 4, True),
    ]
    assert [entry.epoch for entry in LeaderEpochs(FS, log.directory).entries()] == [4]


@pytest.mark.parametrize("codec", list(Compression))
def test_records_come_back_as_they_went_in(tmp_path: Path, codec: Compression) -> None:
    sent = [
        Record(9, NOW_MS, b"k", b"v" * 500, ((b"h", b"x"), (b"null", None))),
        Record(9, NOW_MS + 1, None, b""),
        Record(9, NOW_MS + 2, b"k", None),
    ]
    with a_log(tmp_path) as log:
        log.append_records(sent, now_ms=NOW_MS, compression=codec)
    found = list(reopened(log).records())
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in found] == [
        (r.timestamp_ms, r.key, r.value, r.headers) for r in sent
    ]
    assert [r.offset for r in found] == [0, 1, 2]


def test_a_record_without_a_timestamp_gets_the_present(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append_records([Record(0, -1, None, b"v")], now_ms=NOW_MS)
    assert next(log.records()).timestamp_ms == NOW_MS


def test_a_batch_at_the_limit_is_taken_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    data = encoded()
    log = a_log(tmp_path, LogConfig(max_message_bytes=len(data)))
    log.append(data, now_ms=NOW_MS)
    strict = Log.open(log.directory, LogConfig(max_message_bytes=len(data) - 1), FS)
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes"):
        strict.append(data, now_ms=NOW_MS)
    assert offsets(strict) == [0, 1]


def test_a_batch_that_no_segment_holds_is_refused(tmp_path: Path) -> None:
    data = encoded()
    log = a_log(tmp_path, LogConfig(segment_bytes=len(data) - 1))
    with pytest.raises(RecordBatchTooLarge, match=r"segment\.bytes"):
        log.append(data, now_ms=NOW_MS)
    assert log.size_bytes == 0


@pytest.mark.parametrize(
    "data",
    [b"", encoded()[:-1], b"\0" * 11, encoded()[:12], encoded()[:16], encoded()[:17]],
    ids=["nothing", "cut short", "too short", "no more than a length", "no magic", "no more than a magic"],
)
def test_what_was_cut_short_counts_as_not_there(tmp_path: Path, data: bytes) -> None:
    log = a_log(tmp_path)
    assert log.append(data, now_ms=NOW_MS) == Appended(-1, -1, has_rolled=False)
    assert log.size_bytes == 0
    log.append(encoded() + data, now_ms=NOW_MS)
    assert (offsets(log), log.size_bytes) == ([0, 1], len(encoded()))


@pytest.mark.parametrize(
    "data",
    [encoded()[:-1] + b"?", b"\0" * 200, encoded() + bytes(12), encoded()[:16] + b"\x03" + encoded()[17:]],
    ids=["wrong CRC", "zeros", "no length behind", "magic 3"],
)
def test_what_is_no_batch_is_refused_and_nothing_written(tmp_path: Path, data: bytes) -> None:
    log = a_log(tmp_path)
    with pytest.raises(CorruptBatch):
        log.append(data, now_ms=NOW_MS)
    assert log.size_bytes == 0


@pytest.mark.parametrize("tail", [b"\0" * 40, b"torn", encoded()[:-1], encoded()[:-1] + b"?"])
def test_nothing_is_appended_behind_a_torn_tail_and_the_tail_stays(tmp_path: Path, tail: bytes) -> None:
    with a_log(tmp_path) as log:
        append(log)
    path = log.segments[-1].log.path
    whole_bytes = path.stat().st_size
    path.write_bytes(path.read_bytes() + tail)
    found = reopened(log)
    with pytest.raises(TornTail) as caught:
        append(found)
    assert (caught.value.position, caught.value.torn_bytes) == (whole_bytes, len(tail))
    assert path.stat().st_size == whole_bytes + len(tail)


def test_nothing_is_appended_behind_damage_that_the_index_leads_past(tmp_path: Path) -> None:
    with a_log(tmp_path, LogConfig(index_interval_bytes=0)) as log:
        append(log)
        append(log)
        append(log)
    path = log.segments[-1].log.path
    data = bytearray(path.read_bytes())
    data[len(data) // 3 + MAGIC_POSITION] = 9  # of the second batch
    path.write_bytes(data)
    found = reopened(log)
    with pytest.raises(CorruptBatch):
        append(found)
    assert path.read_bytes() == data


def test_a_full_disk_leaves_the_log_as_it_was_and_the_next_append_works(tmp_path: Path) -> None:
    disk = FullDisk()
    log = a_log(tmp_path, fs=disk)
    append(log)
    before = log.segments[-1].log.path.read_bytes()
    disk.full_suffix = ".log"
    with pytest.raises(OutOfSpace):
        append(log)
    assert log.segments[-1].log.path.read_bytes() == before
    disk.full_suffix = ""
    append(log)
    log.close()
    assert offsets(reopened(log)) == [0, 1]


def test_what_somebody_else_appended_is_neither_cut_nor_continued(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log)
    path = log.segments[-1].log.path
    with path.open("ab") as file:
        file.write(b"foreign")
    with pytest.raises(TornTail):
        append(log)
    assert path.read_bytes().endswith(b"foreign")


def test_a_new_leader_epoch_is_noted_with_its_first_offset_and_a_lower_one_replaces_higher(
    tmp_path: Path,
) -> None:
    log = a_log(tmp_path)
    append(log)
    log.append(encoded(1), now_ms=NOW_MS, leader_epoch=3)
    log.append(encoded(1), now_ms=NOW_MS, leader_epoch=3)
    assert LeaderEpochs(FS, log.directory).entries() == [(0, 0), (3, 1)]
    log.append(encoded(1), now_ms=NOW_MS, leader_epoch=2)
    assert LeaderEpochs(FS, log.directory).entries() == [(0, 0), (2, 3)]


def transactional(log: Log, sequence: int, producer_id: int = 5) -> None:
    producer = Producer(producer_id, 0, sequence, is_transactional=True)
    log.append_records([record()], now_ms=NOW_MS, producer=producer)


def marker(log: Log, kind: ControlType, producer_id: int = 5) -> None:
    data = encode_control_batch(
        kind, offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
    )
    log.append(data, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("id_", [5, 0])  # 0 is the first one that a cluster hands out
def test_an_abort_gets_an_entry_in_the_transaction_index_and_a_commit_none(tmp_path: Path, id_: int) -> None:
    log = a_log(tmp_path)
    transactional(log, 0, id_)
    marker(log, ControlType.COMMIT, id_)
    assert FileKind.TXN_INDEX not in log.segments[-1].files
    transactional(log, 1, id_)
    transactional(log, 0, producer_id=6)
    marker(log, ControlType.ABORT, id_)
    file = log.segments[-1].files[FileKind.TXN_INDEX]
    assert parse_txn_index(file.path.read_bytes(), file.path) == [(id_, 2, 4, 3)]
    assert log.producer_state(NOW_MS).first_unstable_offset(log.log_end_offset) == 3
    assert offsets(log) == [0, 2, 3], "markers are no data"


@pytest.mark.parametrize("full", [".log", ".txnindex"])
def test_an_abort_on_a_full_disk_leaves_neither_marker_nor_entry(tmp_path: Path, full: str) -> None:
    disk = FullDisk()
    log = a_log(tmp_path, fs=disk)
    for sequence in (0, 1):
        transactional(log, sequence)
        if sequence == 0:
            marker(log, ControlType.ABORT)
    file = log.segments[-1].files[FileKind.TXN_INDEX]
    before = file.path.read_bytes()
    disk.full_suffix = full
    with pytest.raises(OutOfSpace):
        marker(log, ControlType.ABORT)
    disk.full_suffix = ""
    assert file.path.read_bytes() == before
    marker(log, ControlType.ABORT)
    assert [entry.last_offset for entry in parse_txn_index(file.path.read_bytes(), file.path)] == [1, 3]


def test_a_plain_batch_within_the_producers_transaction_does_not_reach_the_disk(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    transactional(log, 0)
    with pytest.raises(InvalidTxnState):
        log.append_records([record()], now_ms=NOW_MS, producer=Producer(5, 0, 1))
    assert log.log_end_offset == 1
    marker(log, ControlType.COMMIT)
    assert [b.base_offset for b in log.read()] == [0, 1]


@pytest.mark.parametrize("start", [0, 40])
def test_an_empty_directory_becomes_a_log_with_its_first_append(tmp_path: Path, start: int) -> None:
    log = Log.open(tmp_path, ANY_SIZE, FS, log_start_offset=start)
    assert (log.segments, log.log_end_offset, list(log.read())) == ((), start, [])
    append(log)
    assert ([s.base_offset for s in log.segments], offsets(log)) == ([start], [start])


def test_a_leader_epoch_below_0_is_refused_and_no_checkpoint_has_it(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    before = (log.directory / LEADER_EPOCH_CHECKPOINT).read_bytes()
    with pytest.raises(InvalidLeaderEpoch, match="leader epoch -1 is below 0"):
        log.append_records([record()], now_ms=NOW_MS, leader_epoch=-1)
    with pytest.raises(InvalidLeaderEpoch):
        log.append_as_is(encode_batch([record()], partition_leader_epoch=-1), now_ms=NOW_MS)
    with pytest.raises(InvalidLeaderEpoch, match="cannot begin at offset -1"):
        log.append_as_is(placed(encoded(1), 0, 0) + placed(encoded(3), -1, 0), now_ms=NOW_MS)
    with pytest.raises(InvalidLeaderEpoch):
        Log.create(tmp_path / "orders-1", LogConfig(), FS, topic_id=TOPIC_ID, leader_epoch=-1)
    assert not (tmp_path / "orders-1").exists()
    append(log)
    assert (log.directory / LEADER_EPOCH_CHECKPOINT).read_bytes() == before


def test_an_epoch_that_wrote_nothing_is_forgotten_by_an_opened_log(tmp_path: Path) -> None:
    """The epoch began, and its append was refused. A start of Kafka forgets the epoch, too."""
    with a_log(tmp_path, LogConfig(segment_bytes=200)) as log:
        append(log)
        with pytest.raises(RecordBatchTooLarge):
            log.append_records([record(value="v" * 500)], now_ms=NOW_MS, leader_epoch=7)
        assert read_leader_epochs(log.directory) == [(0, 0), (7, 1)]
    with reopened(log) as again:
        again.append_records([record()], now_ms=NOW_MS, leader_epoch=0)
    assert read_leader_epochs(log.directory) == [(0, 0)]
