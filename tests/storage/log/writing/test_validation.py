"""Kafka LogValidatorTest and UnifiedLogTest: what may be appended, and what becomes of it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from storage.codecs.compression import Compression, compress
from storage.errors import CorruptBatch
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.config import TimestampType
from storage.log.errors import (
    BatchTooLarge,
    IllegalRecords,
    InvalidRecords,
    InvalidTimestamp,
    LogRefusal,
    OffsetIndexed,
    UndecompressableRecords,
    UnevenOffsets,
    UnexpectedAppendOffset,
)
from storage.log.writing.validation import new_batch
from storage.records import Batch, BatchHeader, ControlType, Record, encode_batch, encode_message, encode_wrapper
from storage.records.v2 import CRC_POSITION, CRC_START, V2_HEADER, V2_HEADER_BYTES
from tests.batches import encode_control_batch, encode_empty_batch
from tests.storage.log.logs import NOW_MS, a_log, bases

LOG_TIME: Final = LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME)
LATER_MS: Final = NOW_MS + 77
codecs = pytest.mark.parametrize("codec", list(Compression))
legacy_codecs = pytest.mark.parametrize(
    "codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
)
magics = pytest.mark.parametrize("magic", [0, 1])


def some(count: int = 3, at_ms: int = NOW_MS) -> list[Record]:
    """Records of which the second one is the newest."""
    times = [at_ms, at_ms + 10, at_ms + 5]
    return [Record(place, times[place % 3], b"k%d" % place, b"v%d" % place) for place in range(count)]


def with_header(data: bytes, **changes: int) -> bytes:
    """The batch with other header fields, and the CRC that belongs to them."""
    import crc32c

    header = BatchHeader._make(V2_HEADER.unpack_from(data))._replace(**changes)
    changed = bytearray(V2_HEADER.pack(*header) + data[V2_HEADER_BYTES:])
    changed[CRC_POSITION:CRC_START] = crc32c.crc32c(changed[CRC_START:]).to_bytes(4, "big")
    return bytes(changed)


def with_payload(data: bytes, payload: bytes) -> bytes:
    """The batch with other records behind its header."""
    return with_header(data[:V2_HEADER_BYTES] + payload, batch_length=V2_HEADER_BYTES - 12 + len(payload))


def written(log: Log) -> Batch:
    """The last batch of the log, its CRC checked."""
    batch = list(log.read())[-1]
    assert isinstance(batch, Batch)
    batch.ensure_valid()
    return batch


def refused(log: Log, data: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> type[Exception]:
    """The class of the refusal; nothing was written."""
    before = log.size_bytes, log.log_end_offset
    with pytest.raises((LogRefusal, CorruptBatch, BatchTooLarge)) as caught:
        log.append(data, now_ms=NOW_MS, origin=origin)
    assert (log.size_bytes, log.log_end_offset) == before
    return caught.type


@codecs
def test_a_clients_batch_keeps_its_bytes_but_for_offset_and_epoch(tmp_path: Path, codec: Compression) -> None:
    # LogValidatorTest.testNonCompressedV2, testCompressedV2, testRelativeOffsetAssignment
    log, data = a_log(tmp_path), encode_batch(some(), compression=codec)
    for _ in range(2):
        log.append(data, now_ms=LATER_MS, leader_epoch=9)
    batch = written(log)
    assert (batch.base_offset, batch.last_offset, batch.header.partition_leader_epoch) == (3, 5, 9)
    assert bytes(batch.data[16:]) == data[16:]


@codecs
def test_a_batch_that_states_another_largest_timestamp_gets_the_right_one(tmp_path: Path, codec: Compression) -> None:
    # LogValidatorTest.testInvalidMaxTimestamp..., DefaultRecordBatch.setMaxTimestamp
    log = a_log(tmp_path)
    log.append(with_header(encode_batch(some(), compression=codec), max_timestamp_ms=5), now_ms=NOW_MS)
    assert written(log).header.max_timestamp_ms == NOW_MS + 10


@codecs
def test_log_append_time_is_given_to_all_records(tmp_path: Path, codec: Compression) -> None:
    # LogValidatorTest.testLogAppendTimeNonCompressedV2, ...WithRecompressionV2, ...WithoutRecompressionV2
    log = a_log(tmp_path, LOG_TIME)
    appended = log.append(encode_batch(some(), compression=codec), now_ms=LATER_MS)
    assert appended.log_append_time_ms == LATER_MS
    batch = written(log)
    assert batch.header.is_log_append_time
    assert {record.timestamp_ms for record in batch.records()} == {LATER_MS}
    assert batch.header.base_timestamp_ms == NOW_MS, "the payload is not touched"


@codecs
def test_a_client_may_not_say_that_its_times_are_the_logs(tmp_path: Path, codec: Compression) -> None:
    # LogValidatorTest.testInvalidCreateTime..., a batch that is of LogAppendTime already
    data = encode_batch(some(), compression=codec, log_append_time_ms=NOW_MS)
    assert refused(a_log(tmp_path, LOG_TIME), data) is InvalidTimestamp
    log = a_log(tmp_path, name="other-0")
    log.append(data, now_ms=NOW_MS)
    assert not written(log).header.is_log_append_time, "a topic of CreateTime takes the time for the client's own"


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@codecs
def test_another_codec_of_the_topic_takes_the_place_of_the_clients(
    tmp_path: Path, codec: Compression, target: str
) -> None:
    # LogValidatorTest.testCreateTimeUpConversion..., testCompressedV2 with another target
    log = a_log(tmp_path, LogConfig(compression_type=target))
    sent = some()
    log.append(
        encode_batch(sent, compression=codec, producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True),
        now_ms=NOW_MS,
    )
    header = written(log).header
    assert header.compression.name == {"uncompressed": "NONE"}.get(target, target.upper())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)
    assert (header.is_transactional, header.max_timestamp_ms) == (True, NOW_MS + 10)
    assert [(r.timestamp_ms, r.key, r.value) for r in log.records()] == [(r.timestamp_ms, r.key, r.value) for r in sent]


def test_levels_are_those_of_the_topic(tmp_path: Path) -> None:
    records = [Record(place, NOW_MS, b"k", b"some text, some text %d" % (place % 7)) for place in range(200)]
    plain = a_log(tmp_path, name="plain-0")
    plain.append(encode_batch(records), now_ms=NOW_MS)
    payload = bytes(written(plain).payload)
    for codec, low, high in (("gzip", 1, 9), ("lz4", 1, 17), ("zstd", 1, 19)):
        for level in (low, high):
            config = LogConfig(compression_type=codec, gzip_level=level, lz4_level=level, zstd_level=level)
            log = a_log(tmp_path, config, name=f"{codec}{level}-0")
            log.append(encode_batch(records), now_ms=NOW_MS)
            assert bytes(written(log).payload) == compress(Compression[codec.upper()], payload, level=level)
            assert [record.value for record in log.records()] == [record.value for record in records]
    assert gzip.decompress(compress(Compression.GZIP, payload, level=1)) == payload


def test_a_marker_is_not_compressed(tmp_path: Path) -> None:
    # LogValidatorTest.testNoCompression of control batches
    log = a_log(tmp_path, LogConfig(compression_type="lz4"))
    log.append(marker(), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert (written(log).header.is_control, written(log).header.compression) == (True, Compression.NONE)


def marker(producer_id: int = 5) -> bytes:
    return encode_control_batch(
        ControlType.COMMIT,
        offset=0,
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
    )


@pytest.mark.parametrize(("producer_id", "is_of_a_transaction"), [(-1, False), (0, True), (5, True)])
def test_a_control_batch_of_a_producer_ends_a_transaction(producer_id: int, is_of_a_transaction: bool) -> None:
    data = marker(producer_id)
    batch = Batch(BatchHeader._make(V2_HEADER.unpack_from(data)), memoryview(data), Path("x.log"), 0)
    assert (new_batch(batch).marker() is not None) is is_of_a_transaction


def test_markers_are_a_coordinators(tmp_path: Path) -> None:
    # LogValidatorTest.testControlRecordsNotAllowedFromClients, testControlRecordsNotCompressed
    log = a_log(tmp_path)
    assert refused(log, marker()) is InvalidRecords
    log.append(marker(), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 1


@codecs
@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": 4},
        {"record_count": 2},
        {"record_count": 0},
        {"record_count": -1},
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2, "last_offset_delta": 1},
        {"last_offset_delta": 7},
        {"last_offset_delta": -3},
        {"base_offset": 1},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
    ],
    ids=str,
)
def test_a_header_that_cannot_be_is_refused(tmp_path: Path, codec: Compression, changes: dict[str, int]) -> None:
    # LogValidatorTest.testRecordBatchWithCountOverrides, testInvalidOffsetRange, testInvalidSequence
    data = with_header(encode_batch(some(), compression=codec), **changes)
    assert refused(a_log(tmp_path), data) is InvalidRecords


@pytest.mark.parametrize("payload", [b"", b"\x0e", b"\x00" * 9, b"\xff" * 20], ids=["none", "cut", "zeros", "ones"])
def test_records_that_do_not_parse_are_refused(tmp_path: Path, payload: bytes) -> None:
    assert refused(a_log(tmp_path), with_payload(encode_batch(some()), payload)) is InvalidRecords


def test_compressed_records_that_do_not_decompress_are_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for codec in (Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        data = encode_batch(some(), compression=codec)
        assert refused(log, with_payload(data, b"\xff" * 30)) is UndecompressableRecords
    data = encode_batch(some(), compression=Compression.GZIP)
    assert refused(log, with_payload(data, data[V2_HEADER_BYTES:-9])) is InvalidRecords


def test_plain_offsets_may_be_apart_and_compressed_ones_may_not(tmp_path: Path) -> None:
    # Kafka would write the compressed one anew, and fails: PartialDefaultRecord has no keys
    gaps = [Record(0, NOW_MS, b"a", b""), Record(2, NOW_MS, b"b", b""), Record(2, NOW_MS, b"c", b"")]
    log = a_log(tmp_path)
    log.append(with_header(encode_batch(gaps), last_offset_delta=2), now_ms=NOW_MS)
    assert [record.offset for record in written(log).records()] == [0, 2, 2]
    assert refused(log, encode_batch(gaps, compression=Compression.LZ4)) is UnevenOffsets


def test_one_append_is_one_batch(tmp_path: Path) -> None:
    # LogValidatorTest.testOnlyOneBatch..., testMultipleBatches
    log, data = a_log(tmp_path), encode_batch(some())
    assert refused(log, data + data) is InvalidRecords
    assert refused(log, data + encode_message(some()[0], 1)) is InvalidRecords
    wrapper = encode_wrapper(some(), 1, Compression.GZIP)
    assert refused(log, wrapper + wrapper) is InvalidRecords


def test_a_compacted_topic_takes_no_record_without_a_key(tmp_path: Path) -> None:
    # LogValidatorTest.testCompactedTopic..., UnifiedLogTest.testCompactedTopicConstraints
    log = a_log(tmp_path, LogConfig(is_compacted=True))
    unkeyed = [Record(0, NOW_MS, b"", b"v"), Record(1, NOW_MS, None, b"v"), Record(2, NOW_MS, None, b"v")]
    for codec in Compression:
        with pytest.raises(InvalidRecords) as caught:
            log.append(encode_batch(unkeyed, compression=codec), now_ms=NOW_MS)
        assert [place for place, _ in caught.value.record_errors] == [1, 2]
        assert caught.value.kafka_name == "InvalidRecordException"
        log.append(encode_batch(unkeyed[:1], compression=codec), now_ms=NOW_MS)


@codecs
@pytest.mark.parametrize(("off_ms", "is_taken"), [(-1000, True), (-1001, False), (500, True), (501, False)])
def test_timestamps_have_bounds(tmp_path: Path, codec: Compression, off_ms: int, is_taken: bool) -> None:
    # LogValidatorTest.testInvalidCreateTime..., testTimestampBeforeMaxMs..., ...AfterMaxMs...
    log = a_log(tmp_path, LogConfig(timestamp_before_max_ms=1000, timestamp_after_max_ms=500))
    data = encode_batch([Record(0, NOW_MS + off_ms, b"k", b"v"), Record(1, -1, b"k", b"v")], compression=codec)
    if is_taken:
        log.append(data, now_ms=NOW_MS)
        assert log.log_end_offset == 2
    else:
        assert refused(log, data) is InvalidTimestamp
    log = a_log(tmp_path, replace(LOG_TIME, timestamp_before_max_ms=0, timestamp_after_max_ms=0), name="other-0")
    log.append(data, now_ms=NOW_MS)  # the log's own times have none


def test_of_a_batch_the_records_out_of_bounds_alone_are_named(tmp_path: Path) -> None:
    log = a_log(tmp_path, LogConfig(timestamp_before_max_ms=1000, timestamp_after_max_ms=500))
    times_ms = (NOW_MS - 1000, NOW_MS - 1001, -1, NOW_MS + 500, NOW_MS + 501)
    with pytest.raises(InvalidTimestamp) as caught:
        log.append(encode_batch([Record(n, ms, b"k", b"v") for n, ms in enumerate(times_ms)]), now_ms=NOW_MS)
    bounds = f"is not within {NOW_MS - 1000} to {NOW_MS + 500}"
    assert caught.value.record_errors == tuple((n, f"timestamp {times_ms[n]} {bounds}") for n in (1, 4))


@magics
@legacy_codecs
def test_older_versions_become_version_2(tmp_path: Path, magic: int, codec: Compression) -> None:
    # LogValidatorTest.testConvertV0ToV2..., testConvertV1ToV2..., testOffsetAssignmentAfterUpConversion...
    log, records = a_log(tmp_path), some()
    plain = b"".join(encode_message(record, magic) for record in records)
    log.append(encode_wrapper(records, magic, codec) if codec else plain, now_ms=NOW_MS, leader_epoch=4)
    batch = written(log)
    assert (batch.header.compression, batch.header.partition_leader_epoch, batch.last_offset) == (codec, 4, 2)
    times = [-1, -1, -1] if magic == 0 else [record.timestamp_ms for record in records]
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in batch.records()] == [
        (place, times[place], record.key, record.value) for place, record in enumerate(records)
    ]
    assert batch.header.max_timestamp_ms == max(times)


@magics
def test_older_versions_get_the_codec_and_the_time_of_the_log(tmp_path: Path, magic: int) -> None:
    log = a_log(tmp_path, replace(LOG_TIME, compression_type="zstd"))
    log.append(b"".join(encode_message(record, magic) for record in some()), now_ms=LATER_MS)
    assert written(log).header.compression is Compression.ZSTD
    assert {record.timestamp_ms for record in log.records()} == {LATER_MS}


def test_what_older_versions_are_refused_for(tmp_path: Path) -> None:
    # LogValidatorTest.testDifferentLevelCompression..., testInvalidInnerMagicVersion, testInvalidChecksum
    log = a_log(tmp_path)
    first, second = some()[:2]
    assert refused(log, encode_message(first, 0) + encode_message(second, 1)) is InvalidRecords
    message = bytearray(encode_message(first, 1))
    message[-1] ^= 1
    assert refused(log, bytes(message)) is CorruptBatch
    mixed = compress(Compression.GZIP, encode_message(first, 0) + encode_message(second, 0))
    assert refused(log, wrapping(mixed)) is InvalidRecords, "messages of version 0 in a wrapper of version 1"
    assert refused(log, wrapping(compress(Compression.GZIP, bytes(message)))) is CorruptBatch, "an inner CRC"
    assert refused(log, wrapping(b"no gzip")) is UndecompressableRecords
    compacted = a_log(tmp_path, LogConfig(is_compacted=True), name="other-0")
    assert refused(compacted, encode_message(replace(first, key=None), 1)) is InvalidRecords


def wrapping(value: bytes) -> bytes:
    """A wrapper message of version 1 that says gzip of a value."""
    import zlib

    plain = encode_message(Record(1, NOW_MS, None, value), 1)
    body = plain[16:17] + b"\x01" + plain[18:]
    return plain[:12] + zlib.crc32(body).to_bytes(4, "big") + body


def test_what_is_written_anew_must_fit_the_limit_again(tmp_path: Path) -> None:
    # UnifiedLog.append checks the size of converted batches a second time
    log = a_log(tmp_path, LogConfig(max_message_bytes=300, compression_type="uncompressed"))
    data = encode_batch([Record(0, NOW_MS, b"k", b"v" * 1000)], compression=Compression.LZ4)
    assert len(data) < 300
    assert refused(log, data) is BatchTooLarge


def test_what_kafka_stumbles_over_is_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path, LogConfig(compression_type="lz4"))
    assert refused(log, with_header(encode_batch(some()), attributes=6)) is IllegalRecords
    assert refused(log, encode_batch([Record(0, -5, b"k", b"v")])) is IllegalRecords
    assert refused(log, encode_batch(some(), is_transactional=True)) is IllegalRecords


def test_a_refused_batch_may_have_begun_a_segment(tmp_path: Path) -> None:
    # UnifiedLog.append rolls before it asks the producers
    data = encode_batch(some(), producer_id=5, producer_epoch=0, base_sequence=0)
    log = a_log(tmp_path, LogConfig(segment_bytes=len(data) + 20))
    log.append(data, now_ms=NOW_MS)
    late = encode_batch(some(), producer_id=5, producer_epoch=0, base_sequence=9)
    with pytest.raises(LogRefusal):
        log.append(late, now_ms=NOW_MS)
    assert (bases(log), log.log_end_offset) == ([0, 3], 3)


def test_an_empty_batch_of_a_coordinator_is_taken_unless_the_index_would_go_back(tmp_path: Path) -> None:
    # Kafka writes it and then fails: AbstractIndex, "no larger than the last offset appended"
    log = a_log(tmp_path, LogConfig(index_interval_bytes=0))
    empty = encode_empty_batch(BatchHeader._make(V2_HEADER.unpack_from(encode_batch(some(1)))))
    log.append(encode_batch(some()), now_ms=NOW_MS)
    before = log.size_bytes
    log.append(empty, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert (log.size_bytes - before, log.log_end_offset) == (len(empty), 3)
    assert refused(log, empty, AppendOrigin.COORDINATOR) is OffsetIndexed
    log.append(encode_batch(some()), now_ms=NOW_MS)
    assert log.log_end_offset == 6


def test_a_coordinators_deltas_are_believed_and_the_answer_has_the_log_end(tmp_path: Path) -> None:
    # DefaultRecordBatch.setLastOffset, LogAppendInfo.setFirstOffset
    log = a_log(tmp_path)
    log.append(encode_batch(some()), now_ms=NOW_MS)
    data = with_header(encode_batch(some()), last_offset_delta=1)
    appended = log.append(data, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert (appended.first_offset, appended.last_offset) == (3, 5)
    assert written(log).base_offset == 4


def test_a_marker_that_says_nothing_is_refused(tmp_path: Path) -> None:
    # EndTransactionMarker.deserialize
    data = encode_batch([Record(0, NOW_MS, b"x", b"")], is_control=True, is_transactional=True, producer_id=5)
    assert refused(a_log(tmp_path), data, AppendOrigin.COORDINATOR) is InvalidRecords


def test_the_leader_of_a_quorum_has_set_offsets_and_epoch_itself(tmp_path: Path) -> None:
    # UnifiedLogTest: appends of AppendOrigin.RAFT_LEADER
    log = a_log(tmp_path)
    data = encode_batch([replace(one, offset=10 + one.offset) for one in some()], partition_leader_epoch=3)
    with pytest.raises(InvalidRecords, match="leader epoch 3"):
        log.append(data, now_ms=NOW_MS, leader_epoch=4, origin=AppendOrigin.RAFT_LEADER)
    appended = log.append(data, now_ms=NOW_MS, leader_epoch=3, origin=AppendOrigin.RAFT_LEADER)
    assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (10, 12, 13)
    with pytest.raises(UnexpectedAppendOffset):
        log.append(data, now_ms=NOW_MS, leader_epoch=3, origin=AppendOrigin.RAFT_LEADER)
