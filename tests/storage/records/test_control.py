"""Control records: the kinds, and keys and values that cannot be."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch, InvalidRecord
from storage.records.v2 import (
    ControlType,
    Record,
    TxnMarker,
    encode_batch,
    parse_control_type,
    parse_txn_marker,
)
from tests.batches import encode_empty_batch, iter_batches

ABORT_KEY = struct.pack(">hh", 0, 0)


@pytest.mark.parametrize(
    ("number", "kind"),
    enumerate(
        ["ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"]
    ),
)
def test_each_kind_is_read_by_kafkas_number(number, kind):
    assert parse_control_type(struct.pack(">hh", 0, number)) is ControlType[kind]


def test_a_kind_of_a_later_kafka_is_unknown():
    assert parse_control_type(struct.pack(">hh", 0, 99)) is ControlType.UNKNOWN


def test_higher_versions_and_longer_fields_are_read_as_version_0():
    key, value = struct.pack(">hhi", 3, 1, 5), struct.pack(">hii", 3, 7, 5)
    assert parse_txn_marker(key, value, 9) == TxnMarker(ControlType.COMMIT, 7, 9)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_a_key_that_cannot_be_is_invalid(key):
    with pytest.raises(InvalidRecord):
        parse_control_type(key)


@pytest.mark.parametrize("value", [None, b"", b"\0" * 5, struct.pack(">hi", -1, 0)])
def test_a_marker_value_that_cannot_be_is_invalid(value):
    with pytest.raises(InvalidRecord):
        parse_txn_marker(ABORT_KEY, value, 0)


def test_another_control_record_is_no_marker():
    with pytest.raises(InvalidRecord, match="LEADER_CHANGE"):
        parse_txn_marker(struct.pack(">hh", 0, 2), b"\0" * 6, 0)


PATH = Path("x.log")
MARKERS = [Record(n, 5, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, n)) for n, kind in enumerate((1, 0))]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("count", [1, 2])
def test_of_several_markers_the_first_one_counts(count, codec):
    data = encode_batch(MARKERS[:count], compression=codec, is_control=True)
    (batch,) = iter_batches(data, PATH)
    assert batch.first_txn_marker() == batch.txn_marker() == TxnMarker(ControlType.COMMIT, 0, 5)
    (emptied,) = iter_batches(encode_empty_batch(batch.header), PATH)
    assert emptied.first_txn_marker() is emptied.txn_marker() is None


@pytest.mark.parametrize(("count", "is_read"), [(1, False), (2, True)])
def test_bytes_behind_a_single_marker_are_damage_also_to_a_replay(count, is_read):
    data = bytearray(encode_batch(MARKERS[:count], is_control=True) + b"x")
    data[8:12] = struct.pack(">i", len(data) - 12)
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    (batch,) = iter_batches(bytes(data), PATH)
    if is_read:
        assert batch.first_txn_marker() == TxnMarker(ControlType.COMMIT, 0, 5)
    else:
        with pytest.raises(CorruptBatch, match="1 bytes behind the last of 1 records"):
            batch.first_txn_marker()
