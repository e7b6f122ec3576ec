"""Batches of version 2: written, read back, and every kind of damage."""

import struct
from pathlib import Path

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.records import Batch, ControlType, Record, encode_batch, parse_header
from storage.records.v2 import write_varint
from tests.batches import encode_control_batch, encode_empty_batch, iter_batches, rebuild_batch

PATH = Path("00000000000000000000.log")
RECORDS = [
    Record(10, 1000, b"k", b"v", ((b"h", b"1"), (b"h", None))),
    Record(12, 999, None, b""),
    Record(15, 1005, b"", None),
]
bytes_or_none = st.none() | st.binary(max_size=40)


def batch_of(data):
    (batch,) = iter_batches(data, PATH)
    return batch


def with_payload(payload, record_count=1, compression=Compression.NONE):
    """A batch with right length and CRC around any bytes."""
    data = bytearray(encode_batch(RECORDS[:1], compression=Compression.NONE)[:61] + payload)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, compression)
    struct.pack_into(">i", data, 57, record_count)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return batch_of(bytes(data))


def framed(body):
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out) + body


@pytest.mark.parametrize("compression", list(Compression))
def test_records_come_back(compression):
    batch = batch_of(encode_batch(RECORDS, compression=compression))
    assert batch.is_valid_crc()
    assert batch.header.compression is compression
    assert batch.records() == RECORDS


def test_the_header_says_what_the_batch_was_written_with():
    data = encode_batch(
        RECORDS,
        base_offset=8,
        last_offset=20,
        producer_id=77,
        producer_epoch=3,
        base_sequence=2**31 - 5,
        is_transactional=True,
        partition_leader_epoch=9,
    )
    header = batch_of(data).header
    assert (header.base_offset, header.last_offset, header.next_offset, header.size_bytes) == (
        8,
        20,
        21,
        len(data),
    )
    assert (header.producer_id, header.producer_epoch, header.partition_leader_epoch) == (77, 3, 9)
    assert (header.base_timestamp_ms, header.max_timestamp_ms, header.record_count) == (1000, 1005, 3)
    assert (header.is_transactional, header.is_control, header.has_producer_id) == (True, False, True)
    assert header.last_sequence == 7  # 2^31 - 5 + 12, wrapped


def test_sequences_of_records_wrap_past_the_largest_int32():
    batch = batch_of(encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 3))
    assert [record.sequence for record in batch.records()] == [2**31 - 3, 2**31 - 1, 2]


def test_log_append_time_overrides_the_records_timestamps():
    batch = batch_of(encode_batch(RECORDS, log_append_time_ms=5000))
    assert batch.header.is_log_append_time
    assert [record.timestamp_ms for record in batch.records()] == [5000] * 3


def test_a_delete_horizon_takes_the_base_timestamp_and_timestamps_stay_right():
    batch = batch_of(encode_batch(RECORDS, delete_horizon_ms=90_000))
    assert batch.header.delete_horizon_ms == 90_000
    assert batch.records() == RECORDS


def test_without_a_delete_horizon_there_is_none():
    assert batch_of(encode_batch(RECORDS)).header.delete_horizon_ms is None


@settings(max_examples=50)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(-(2**40), 2**42),
            bytes_or_none,
            bytes_or_none,
            st.lists(st.tuples(st.binary(max_size=9), bytes_or_none), max_size=3),
        ),
        min_size=1,
        max_size=6,
    ),
    compression=st.sampled_from(Compression),
)
def test_any_records_come_back_and_encode_to_the_same_bytes(rows, compression):
    records = [Record(n * 3, ts, key, value, tuple(headers)) for n, (ts, key, value, headers) in enumerate(rows)]
    data = encode_batch(records, compression=compression)
    batch = batch_of(data)
    assert batch.records() == records
    assert rebuild_batch(batch.header, batch.records(), None) == data


def test_a_rebuilt_batch_keeps_its_offsets_and_takes_the_largest_timestamp_left():
    header = batch_of(encode_batch(RECORDS, compression=Compression.LZ4, producer_id=4)).header
    rebuilt = batch_of(rebuild_batch(header, RECORDS[1:2], delete_horizon_ms=7000)).header
    assert (rebuilt.base_offset, rebuilt.last_offset, rebuilt.max_timestamp_ms) == (10, 15, 999)
    assert (rebuilt.compression, rebuilt.producer_id, rebuilt.delete_horizon_ms) == (Compression.LZ4, 4, 7000)


def test_a_batch_rebuilt_from_no_records_is_empty():
    header = batch_of(encode_batch(RECORDS)).header
    assert rebuild_batch(header, [], None) == encode_empty_batch(header)


def test_an_empty_batch_keeps_offsets_producer_and_flags_but_not_codec_and_horizon():
    data = encode_batch(
        RECORDS,
        compression=Compression.ZSTD,
        delete_horizon_ms=5,
        is_transactional=True,
        producer_id=4,
        base_sequence=2,
    )
    header = batch_of(data).header
    empty = batch_of(encode_empty_batch(header))
    assert empty.header.size_bytes == 61
    assert empty.is_valid_crc()
    assert empty.records() == []
    expected = header._replace(
        batch_length=49, record_count=0, base_timestamp_ms=-1, attributes=0x10, crc=empty.header.crc
    )
    assert empty.header == expected


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_comes_back(kind):
    data = encode_control_batch(kind, offset=5, timestamp_ms=1000, producer_id=7, producer_epoch=1, coordinator_epoch=9)
    batch = batch_of(data)
    assert batch.header.is_control
    assert batch.header.is_transactional
    assert batch.header.base_sequence == -1
    marker = batch.txn_marker()
    assert (marker.type, marker.coordinator_epoch, marker.timestamp_ms) == (kind, 9, 1000)
    assert marker.is_abort == (kind is ControlType.ABORT)


def test_an_emptied_control_batch_has_no_marker():
    data = encode_control_batch(
        ControlType.COMMIT, offset=5, timestamp_ms=1000, producer_id=7, producer_epoch=1, coordinator_epoch=9
    )
    assert batch_of(encode_empty_batch(batch_of(data).header)).txn_marker() is None


@pytest.mark.parametrize("at", range(21, 130))
def test_any_changed_byte_behind_the_crc_is_noticed(at):
    data = bytearray(encode_batch(RECORDS * 3, base_offset=10))
    header = batch_of(bytes(data)).header
    data[at] ^= 0x40
    damaged = Batch(header, memoryview(bytes(data)), PATH, 0)
    assert not damaged.is_valid_crc()
    with pytest.raises(CorruptBatch, match="CRC"):
        damaged.ensure_valid()


@pytest.mark.parametrize(
    ("payload", "cause"),
    [
        (b"", "past the end"),
        (framed(b"\0\0\0\1\1\0") + b"x", "behind the last"),
        (framed(b""), "record of 0 bytes"),
        (b"\x01" + b"\0" * 9, "record of -1 bytes"),
        (b"\x7e\0\0\0\1\1\0", "with 6 left"),
        (framed(b"\0\0\0\1\1\0\0"), "1 unused"),
        (framed(b"\0\0\0\x08k\1\0"), "field of 4 bytes"),
        (framed(b"\0\0\0\1\1\1"), "-1 headers"),
        (framed(b"\0\0\0\1\1\x7e"), "63 headers"),
        (framed(b"\0\0\0\1\1\2\1\1"), "null header key"),
        (framed(b"\0" + b"\x80" * 11 + b"\0\0\1\1\0"), "more than 10 bytes"),
        (framed(b"\0\0" + b"\x80" * 6 + b"\0\1\1\0"), "more than 5 bytes"),
        (framed(b"\0\0\0\1\1"), "past the end of its record"),
    ],
)
def test_records_that_do_not_parse_are_corrupt(payload, cause):
    with pytest.raises(CorruptBatch, match=cause):
        with_payload(payload).records()


@pytest.mark.parametrize("record_count", [1, 3])
def test_another_count_than_the_headers_is_corrupt(record_count):
    body = framed(b"\0\0\0\1\1\0")
    assert len(with_payload(body * 2, record_count=2).records()) == 2
    with pytest.raises(CorruptBatch):
        with_payload(body * 2, record_count=record_count).records()


@pytest.mark.parametrize("compression", [codec for codec in Compression if codec])
def test_a_payload_that_does_not_decompress_is_corrupt(compression):
    with pytest.raises(CorruptBatch, match=compression.name.lower()):
        with_payload(b"\xff" * 30, compression=compression).records()


def test_records_beyond_the_callers_limit_are_refused():
    batch = batch_of(encode_batch([Record(0, 0, b"k", bytes(5000))], compression=Compression.GZIP))
    with pytest.raises(CorruptBatch, match="more than 4000 bytes"):
        batch.records(decompressed_bytes_max=4000)


@pytest.mark.parametrize(
    ("at", "layout", "value", "cause"),
    [
        (0, ">q", -1, "offsets"),
        (0, ">q", 2**63 - 1, "offsets"),
        (8, ">i", 48, "length 48"),
        (16, ">b", 3, "magic 3"),
        (16, ">b", -1, "magic -1"),
        (21, ">h", 5, "codec 5"),
        (23, ">i", -1, "offsets"),
        (57, ">i", -1, "count -1"),
    ],
)
def test_a_header_that_cannot_be_is_corrupt_at_its_place_in_the_file(at, layout, value, cause):
    data = bytearray(encode_batch(RECORDS))
    struct.pack_into(layout, data, at, value)
    with pytest.raises(CorruptBatch, match=cause) as caught:
        parse_header(b"xxx" + bytes(data), 3, PATH, buf_position=1000)
    assert caught.value.position == 1003


def test_fewer_bytes_than_a_header_are_corrupt():
    with pytest.raises(CorruptBatch, match="fewer bytes"):
        parse_header(encode_batch(RECORDS)[:60], 0, PATH)


@pytest.mark.parametrize("timestamp_ms", [-(2**63), -5, -1, 0, 2**63 - 1])
@pytest.mark.parametrize("horizon_ms", [0, 2**62, 2**63 - 1])
def test_a_timestamp_survives_a_base_that_is_further_away_than_an_int64_says(timestamp_ms, horizon_ms):
    batch = batch_of(encode_batch([Record(0, timestamp_ms, b"k", None)], delete_horizon_ms=horizon_ms))
    assert [record.timestamp_ms for record in batch.records()] == [timestamp_ms]
