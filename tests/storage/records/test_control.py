"""Control records: the kinds, and keys and values that cannot be."""

import struct

import pytest

from storage.errors import InvalidRecord
from storage.records.v2 import ControlType, TxnMarker, parse_control_type, parse_txn_marker

ABORT_KEY = struct.pack(">hh", 0, 0)


@pytest.mark.parametrize("kind", [kind for kind in ControlType if kind >= 0])
def test_each_kind_is_read(kind):
    assert parse_control_type(struct.pack(">hh", 0, kind)) is kind


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
