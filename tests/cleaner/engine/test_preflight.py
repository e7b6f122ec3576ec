"""What the engine of ``preflight`` answers about files; the rules that ask are in tests/policies/preflight."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cleaner.engine.preflight import preflight
from cleaner.engine.preflight.contents import DirectoryContents, ReadingBudget, recover
from cleaner.engine.preflight.preflight import Node, predict_start, read_placements
from policies.preflight.facts import KafkaFailure, RecoveredLog, Release
from policies.preflight.metadata import MetadataStart
from policies.preflight.start import LogStart, PartitionFate
from storage.codecs.compression import Compression
from storage.metadata.metadata_encode import encode_topic
from storage.metadata.metadata_log import TopicCreated
from storage.names import TopicPartition
from storage.records import ControlType, Record, encode_wrapper
from storage.records.read_batches import LogBytes
from storage.records.v2 import encode_batch
from tests.batches import encode_control_batch
from tests.partition_dirs import keyed

LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"
TXN_INDEX = "00000000000000000012.txnindex"
BATCHES = (keyed(0, "a", "b"), keyed(2, "c"), keyed(3, "d"))


@pytest.fixture
def contents(tmp_path: Path) -> DirectoryContents:
    """A directory with one log of three batches."""
    (tmp_path / LOG).write_bytes(b"".join(BATCHES))
    (tmp_path / INDEX).write_bytes(b"")
    return DirectoryContents(tmp_path, 4096)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (b"", 4),
        (b"torn", 4),
        (bytes(17), 4),
        (bytes(18), KafkaFailure("CorruptRecordException", f"byte {len(b''.join(BATCHES))}: a batch of 0 bytes")),
        (keyed(4, "e")[:-1], 4),
    ],
)
def test_end_of_a_log_by_what_lies_behind_it(
    tail: bytes, expected: int | KafkaFailure, tmp_path: Path, contents: DirectoryContents
) -> None:
    with (tmp_path / LOG).open("ab") as file:
        file.write(tail)
    assert contents.next_offset(LOG, INDEX, 0) == expected


def test_index_that_points_behind_the_log_makes_its_end_the_base_offset(
    tmp_path: Path, contents: DirectoryContents
) -> None:
    (tmp_path / INDEX).write_bytes(struct.pack(">ii", 2, 1_000_000))
    assert contents.next_offset(LOG, INDEX, 0) == 0


@pytest.mark.parametrize(("flipped", "valid", "end"), [(0, 0, None), (1, 1, 2), (2, 2, 3)])
def test_recovery_ends_at_the_first_batch_with_a_wrong_crc(
    flipped: int, valid: int, end: int | None, tmp_path: Path, contents: DirectoryContents
) -> None:
    data = bytearray(b"".join(BATCHES))
    data[sum(map(len, BATCHES[:flipped])) + 40] ^= 1
    (tmp_path / LOG).write_bytes(data)
    found = contents.recovered(LOG, 0)
    assert (found.valid_bytes, found.next_offset) == (sum(map(len, BATCHES[:valid])), end)
    assert found.cause == "the CRC of the batch is wrong"


def test_offset_below_the_segment_stops_the_recovery(contents: DirectoryContents) -> None:
    found = contents.recovered(LOG, 1_000)
    assert found.failure
    assert found.failure.exception == "LogSegmentOffsetOverflowException"
    assert found.split_failure, "the last offset fits, so no split is possible"
    assert found.split_failure.exception == "IllegalArgumentException"


@pytest.mark.parametrize(
    ("entry", "exception"),
    [
        (struct.pack(">hqqqq", 0, 7, 12, 13, 14), None),
        (struct.pack(">hqqqq", 1, 7, 12, 13, 14), None),  # Kafka looks at the first byte of the version alone
        (struct.pack(">hqqqq", 256, 7, 12, 13, 14), "KafkaException"),
        (struct.pack(">hqqqq", 0, 7, 1, 2, 3), "CorruptIndexException"),
        (b"short", None),
    ],
)
def test_sanity_check_of_a_transaction_index(
    entry: bytes, exception: str | None, tmp_path: Path, contents: DirectoryContents
) -> None:
    (tmp_path / TXN_INDEX).write_bytes(entry)
    failure = contents.txn_index_failure(TXN_INDEX, 12)
    assert (failure and failure.exception) == exception


@pytest.mark.parametrize("tail", [b"", b"torn", bytes(3)])
def test_of_a_segment_beyond_the_budget_the_end_alone_is_read(tail: bytes, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    batches = keyed(3, "b"), keyed(4, "c")
    for base, data in ((0, keyed(0, "a")), (3, b"".join(batches) + tail)):
        for suffix, content in ((".log", data), (".index", b""), (".timeindex", b"")):
            (directory / f"{base:020d}{suffix}").write_bytes(content)
    budget = ReadingBudget(1 << 20, 100)
    found = DirectoryContents(directory, 4096, budget=budget).recovered(f"{3:020d}.log", 3)
    size_bytes, zero_bytes = sum(map(len, batches)), 0 if tail == b"torn" else len(tail)
    cause = "no batch" if tail else None
    assert found == RecoveredLog(size_bytes, 5, 5, False, cause, zero_bytes=zero_bytes)
    assert budget.unread_bytes == size_bytes + len(tail)


def test_budget_takes_what_fits_a_file_and_what_is_left() -> None:
    budget = ReadingBudget(100, 60)
    assert [budget.takes(size_bytes) for size_bytes in (61, 60, 41, 40, 1, 0)] == [
        False,
        True,
        False,
        True,
        False,
        True,
    ]
    assert budget.unread_bytes == 61 + 41 + 1


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """A log dir of Kafka 2.8 with one partition, whose owner is whoever runs the test, and not root."""
    log_dir = tmp_path / "data"
    partition = log_dir / "orders-0"
    partition.mkdir(parents=True)
    for name in (LOG, INDEX, "00000000000000000000.timeindex", "leader-epoch-checkpoint"):
        (partition / name).write_bytes(b"")
    names = "recovery-point-offset", "log-start-offset", "replication-offset"
    for name in (".lock", ".kafka_cleanshutdown", *(f"{name}-checkpoint" for name in names)):
        (log_dir / name).write_bytes(b"")
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\n")
    if os.geteuid() == 0:
        for path in (log_dir, *log_dir.rglob("*")):
            os.chown(path, 65_534, 65_534)
    return log_dir


@pytest.mark.parametrize(
    ("name", "mode", "is_offline"),
    [
        ("orders-0/notes.txt", 0o444, False),
        ("orders-0/notes.txt", 0, True),  # Kafka asks of every file whether it may be read
        (f"orders-0/{LOG}", 0o444, True),
        (f"orders-0/{INDEX}", 0o444, True),
        ("orders-0/leader-epoch-checkpoint", 0o444, False),  # replaced, not written
        ("orders-0", 0o555, True),
        (".kafka_cleanshutdown", 0, False),
        (".lock", 0o444, True),
        ("replication-offset-checkpoint", 0o444, False),
        (".", 0o555, True),
    ],
)
def test_mode_of_a_file_takes_its_log_dir_offline_if_kafka_opens_it_so(
    name: str, mode: int, is_offline: bool, owned: Path
) -> None:
    path = owned / name
    if not path.exists():
        path.touch()
    if os.geteuid() == 0:
        os.chown(path, 65_534, 65_534)
    path.chmod(mode)
    try:
        start = predict_start([owned], Node(Release(2, 8)))
    finally:
        path.chmod(0o755)
    assert bool(start.offline) == is_offline


def test_log_dir_on_a_read_only_file_system_goes_offline(owned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not predict_start([owned], Node(Release(2, 8))).offline
    monkeypatch.setattr(preflight, "is_read_only", lambda path: path == owned)
    start = predict_start([owned], Node(Release(2, 8)))
    assert start.offline
    assert start.refusals[0].failure.cause == "its file system is read-only"


def test_log_dir_that_may_not_be_written_and_lacks_a_checkpoint_stops_the_broker(owned: Path) -> None:
    (owned / "replication-offset-checkpoint").unlink()
    owned.chmod(0o555)
    try:
        (refusal,) = predict_start([owned], Node(Release(2, 8))).refusals[:1]
    finally:
        owned.chmod(0o755)
    assert refusal.failure.exception == "AccessDeniedException"
    assert "replication-offset-checkpoint is missing" in refusal.failure.cause


@pytest.mark.parametrize(
    ("magic", "crc", "exception"),
    [
        (0x82, 0x00, None),
        (0x82, 0x01, "InvalidRecordException"),
        (0x82, 0x07, "IllegalArgumentException"),
        (0x01, 0x04, "InvalidRecordException"),
        (0x01, 0x01, "IllegalArgumentException"),
    ],
)
def test_batch_that_lost_its_version_is_taken_for_a_compressed_message_by_kafka_4(
    magic: int, crc: int, exception: str | None, tmp_path: Path
) -> None:
    data = bytearray(b"".join(BATCHES))
    at = len(BATCHES[0]) + len(BATCHES[1])
    data[at + 16], data[at + 17] = magic, crc
    (tmp_path / LOG).write_bytes(data)
    (tmp_path / INDEX).write_bytes(b"")
    for unwraps in (True, False):
        found = DirectoryContents(tmp_path, 4096, unwraps=unwraps).replay(LOG, INDEX, 0, 3)
        assert (found and found.exception) == (exception if unwraps else None)


@pytest.mark.parametrize(("kind", "aborts"), [(ControlType.ABORT, True), (ControlType.COMMIT, False)])
@pytest.mark.parametrize("by_kernels", [True, False])
def test_recovery_knows_an_abort_from_a_commit(
    kind: ControlType, aborts: bool, by_kernels: bool, tmp_path: Path
) -> None:
    data = keyed(0, "a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = encode_control_batch(
        kind, offset=1, timestamp_ms=1, producer_id=7, producer_epoch=0, coordinator_epoch=300
    )
    (tmp_path / LOG).write_bytes(data + marker)
    with (tmp_path / LOG).open("rb") as file:
        found = recover(LogBytes(file.fileno()), 0, 4096, by_kernels=by_kernels)
    assert (found.next_offset, found.aborts, found.failure) == (2, aborts, None)


def flipped_at(position: int, wrapper: bytes) -> bytes:
    return wrapper[:position] + bytes([wrapper[position] ^ 1]) + wrapper[position + 1 :]


@pytest.mark.parametrize(
    ("damage", "exception"),
    [
        (lambda wrapper: wrapper, None),
        (partial(flipped_at, 34), "KafkaException"),  # the magic of the lz4 frame
        (lambda whole: whole[:8] + struct.pack(">i", len(whole) - 20) + whole[12:-8], "IllegalArgumentException"),
        (lambda wrapper: wrapper[:26] + struct.pack(">ii", -1, -1) + wrapper[34:], "InvalidRecordException"),
        (lambda wrapper: wrapper[:26] + struct.pack(">i", len(wrapper)) + wrapper[30:], "IndexOutOfBoundsException"),
    ],
)  # fmt: skip
def test_wrapper_that_kafka_4_cannot_unpack_stops_it_as_real_starts_show(
    damage: Callable[[bytes], bytes], exception: str | None, tmp_path: Path
) -> None:
    records = [Record(offset, 1, b"k", b"v" * 50) for offset in range(3)]
    (tmp_path / LOG).write_bytes(damage(encode_wrapper(records, 1, Compression.LZ4)))
    (tmp_path / INDEX).write_bytes(b"")
    for unwraps in (True, False):
        found = DirectoryContents(tmp_path, 4096, unwraps=unwraps).next_offset(LOG, INDEX, 0)
        assert (found.exception if isinstance(found, KafkaFailure) else None) == (exception if unwraps else None)


def test_log_dir_that_is_not_there_is_made_by_a_broker_with_zookeeper(owned: Path, tmp_path: Path) -> None:
    (owned / "meta.properties").write_text("version=0\nbroker.id=1\n")
    disk = tmp_path / "disk"
    disk.mkdir()
    disk.chmod(0o777)
    missing = disk / "kafka" / "data"
    start = predict_start([owned, missing], Node(Release(2, 8)))
    assert (start.is_started, start.offline, [one.is_made for one in start.log_dirs]) == (True, [], [False, True])
    disk.chmod(0o755)
    assert predict_start([owned, missing], Node(Release(2, 8))).offline == [str(missing)]


def created(topic: str) -> bytes:
    return encode_topic(TopicCreated(topic, f"{topic}AAAAAAAAAAAAAAAAAAAAA"))


@pytest.mark.parametrize(
    ("snapshot", "valid_batches", "topics"),
    [
        (None, 3, "abcde"),
        (None, 2, "abcd"),
        (1, 3, "sbcde"),
        (3, 3, "sde"),
        (4, 3, "sde"),
        (5, 3, "se"),
        (6, 3, "s"),
    ],
)
def test_placements_are_those_of_the_snapshot_and_of_the_records_behind_it(
    snapshot: int | None, valid_batches: int, topics: str, tmp_path: Path
) -> None:
    values = [[created("a"), created("b")], [created("c"), b"\1", created("d")], [created("e")]]  # \1: no record
    batches = [
        encode_batch([Record(offset + place, 1, None, value) for place, value in enumerate(one)])
        for offset, one in zip((0, 2, 5), values, strict=True)
    ]
    (tmp_path / LOG).write_bytes(b"".join(batches))
    name = None
    if snapshot is not None:
        name = f"{snapshot:020d}-0000000001.checkpoint"
        (tmp_path / name).write_bytes(encode_batch([Record(0, 1, None, created("s"))]))
    log = LogStart("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0), PartitionFate.SERVED, (), 0, 6, {})
    valid = (LOG, sum(map(len, batches[:valid_batches]))), ("00000000000000000006.log", 100)
    found = read_placements(tmp_path, MetadataStart(log, None, valid, name))
    assert "".join(found.names.values()) == topics
