"""Messages of versions 0 and 1: plain, wrapped, and damaged."""

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from storage.codecs.compression import Compression, compress, decompress
from storage.errors import CorruptBatch
from storage.records import LegacyBatch, Record, encode_message, encode_wrapper
from storage.records.legacy import MESSAGE_BYTES_MIN
from storage.records.v2 import LOG_OVERHEAD_BYTES
from tests.batches import iter_batches

PATH = Path("00000000000000000000.log")
CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
RECORDS = [Record(10, 1000, b"k", b"v"), Record(12, 1007, None, b""), Record(15, 1005, b"", None)]


def without_timestamps(records):
    return [Record(record.offset, -1, record.key, record.value) for record in records]


def batch_of(data):
    (batch,) = iter_batches(data, PATH)
    assert isinstance(batch, LegacyBatch)
    return batch


def wrapper_around(inner, magic, offset=15, key=None, codec=Compression.GZIP):
    """A wrapper with a right CRC around any bytes."""
    value = compress(codec, inner, magic)
    data = bytearray(encode_message(Record(offset, 1000, key, value), magic))
    data[17] = codec
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    return batch_of(bytes(data))


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_comes_back(magic, record):
    batch = batch_of(encode_message(record, magic))
    assert batch.is_valid_crc()
    assert batch.records() == (without_timestamps([record]) if magic == 0 else [record])
    assert (batch.base_offset, batch.last_offset, batch.header.next_offset) == (
        record.offset,
        record.offset,
        record.offset + 1,
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_wrapped_messages_come_back(magic, codec):
    batch = batch_of(encode_wrapper(RECORDS, magic, codec))
    assert batch.is_valid_crc()
    assert batch.records() == (without_timestamps(RECORDS) if magic == 0 else RECORDS)
    assert (batch.base_offset, batch.last_offset) == (10, 15)
    assert batch.header.max_timestamp_ms == (-1 if magic == 0 else 1007)


@pytest.mark.parametrize(("magic", "offsets"), [(0, [10, 12, 15]), (1, [0, 2, 5])])
def test_wrapped_offsets_are_absolute_in_version_0_and_count_from_the_first_in_version_1(magic, offsets):
    wrapper = encode_wrapper(RECORDS, magic, Compression.GZIP)
    inner = decompress(Compression.GZIP, wrapper[LOG_OVERHEAD_BYTES + MESSAGE_BYTES_MIN[magic] :], 1 << 20, magic)
    stored = []
    while inner:
        offset, length = struct.unpack_from(">qi", inner)
        stored.append(offset)
        inner = inner[LOG_OVERHEAD_BYTES + length :]
    assert stored == offsets


def test_a_header_has_nothing_of_what_version_2_brought():
    header = batch_of(encode_message(RECORDS[0], 1)).header
    flags = (header.is_control, header.is_transactional, header.has_producer_id, header.has_delete_horizon)
    assert not any(flags)
    assert (header.producer_id, header.base_sequence, header.partition_leader_epoch) == (-1, -1, -1)


def test_log_append_time_of_a_wrapper_overrides_its_messages():
    batch = batch_of(encode_wrapper(RECORDS, 1, Compression.LZ4, log_append_time_ms=9000))
    assert batch.header.is_log_append_time
    assert [record.timestamp_ms for record in batch.records()] == [9000] * 3


def test_inner_offsets_of_version_1_count_back_from_the_wrappers():
    inner = b"".join(encode_message(Record(n, 1, b"k", b"v"), 1) for n in range(3))
    assert [record.offset for record in wrapper_around(inner, 1, offset=102).records()] == [100, 101, 102]
    assert [record.offset for record in wrapper_around(inner, 1, offset=2).records()] == [0, 1, 2]
    with pytest.raises(CorruptBatch, match="inner offset 2 in a wrapper of offset 1"):
        wrapper_around(inner, 1, offset=1).records()


def test_a_wrapper_of_offset_0_has_base_0():
    inner = b"".join(encode_message(Record(n, 1, b"k", b"v"), 1) for n in range(3))
    assert [record.offset for record in wrapper_around(inner, 1, offset=0).records()] == [0, 1, 2]


def test_inner_offsets_of_version_0_are_absolute():
    inner = b"".join(encode_message(Record(n, 1, b"k", b"v"), 0) for n in (100, 103))
    assert [record.offset for record in wrapper_around(inner, 0, offset=103).records()] == [100, 103]


def test_messages_of_another_magic_than_their_wrappers_are_read():
    inner = encode_message(Record(0, 1, b"k", b"v"), 0)
    assert wrapper_around(inner, 1, offset=5).records() == [Record(5, -1, b"k", b"v")]


def test_log_append_time_does_not_reach_messages_of_version_0():
    inner = encode_message(Record(0, 1, b"k", b"v"), 0)
    wrapper = encode_wrapper(RECORDS, 1, Compression.GZIP, log_append_time_ms=9000)
    header = replace(batch_of(wrapper).header, last_offset=5)
    data = wrapper_around(inner, 1, offset=5).data
    assert LegacyBatch(header, data, PATH, 0).records()[0].timestamp_ms == -1


@pytest.mark.parametrize(
    ("inner", "offset", "cause"),
    [
        (b"", 15, "no message in it"),
        (b"\0" * 10, 15, "fewer bytes"),
        (encode_message(RECORDS[0], 1)[:-1], 15, "left"),
        (encode_message(RECORDS[2], 1), 14, "inner offset 15"),
        (encode_wrapper(RECORDS, 1, Compression.GZIP), 15, "compressed message in a wrapper"),
    ],
)
def test_a_wrapper_with_bad_contents_is_corrupt(inner, offset, cause):
    with pytest.raises(CorruptBatch, match=cause):
        wrapper_around(inner, 1, offset).records()


def test_a_wrapper_with_a_key_is_corrupt():
    with pytest.raises(CorruptBatch, match="no key"):
        wrapper_around(encode_message(RECORDS[0], 1), 1, key=b"k").records()


def test_a_wrapper_beyond_the_callers_limit_is_refused():
    with pytest.raises(CorruptBatch, match="more than 100 bytes"):
        batch_of(encode_wrapper([Record(0, 0, b"k", bytes(5000))], 1, Compression.GZIP)).records(100)


@pytest.mark.parametrize(
    ("at", "length", "cause"),
    [(26, 1000, "field of 1000 bytes"), (26, 0, "behind the value|field of"), (31, 0, "behind the value")],
)
def test_field_lengths_that_do_not_fit_the_message_are_corrupt(at, length, cause):
    data = bytearray(encode_message(RECORDS[0], 1))
    struct.pack_into(">i", data, at, length)
    with pytest.raises(CorruptBatch, match=cause):
        batch_of(bytes(data)).records()


@pytest.mark.parametrize(("at", "value", "cause"), [(0, 0xFF, "offset -"), (17, 4, "codec 4"), (11, 20, "length 20")])
def test_a_header_that_cannot_be_is_corrupt(at, value, cause):
    data = bytearray(encode_message(RECORDS[0], 1))
    data[at] = value
    with pytest.raises(CorruptBatch, match=cause):
        list(iter_batches(bytes(data), PATH))


@pytest.mark.parametrize("at", range(16, 36))
def test_any_changed_byte_behind_the_crc_is_noticed(at):
    data = bytearray(encode_message(RECORDS[0], 1))
    header = batch_of(bytes(data)).header
    data[at] ^= 0x20
    with pytest.raises(CorruptBatch, match="CRC"):
        LegacyBatch(header, memoryview(bytes(data)), PATH, 0).ensure_valid()


def test_zstd_cannot_be_written():
    with pytest.raises(ValueError, match="version 2"):
        encode_wrapper(RECORDS, 1, Compression.ZSTD)
