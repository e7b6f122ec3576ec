"""The decoder of messages: known bytes of Kafka's, every kind of field, and what is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import InvalidRecord
from storage.schemas.cluster_metadata import CLUSTER_METADATA
from storage.schemas.coordinator import CLIENT_MESSAGES, SHARE_STATE, TRANSACTIONS_TOPIC
from storage.schemas.decoding import decode
from storage.schemas.notation import Message, parse_messages
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.schemas.remote_log import REMOTE_LOG

TABLES = {
    **CLIENT_MESSAGES, **CLUSTER_METADATA, **OFFSETS_TOPIC, **REMOTE_LOG, **SHARE_STATE, **TRANSACTIONS_TOPIC,
}  # fmt: skip


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def only(table: str) -> Message:
    (message,) = parse_messages(table).values()
    return message


def test_an_offset_commit_of_version_3_has_its_fields_in_kafkas_order() -> None:
    data = struct.pack(">qi", 42, 7) + text("note") + struct.pack(">q", 1_700_000_000_000)
    found = decode(OFFSETS_TOPIC["OffsetCommitValue"], 3, data)
    assert list(found.items()) == [
        ("offset", 42), ("leaderEpoch", 7), ("metadata", "note"), ("commitTimestamp", 1_700_000_000_000),
    ]  # fmt: skip


def test_a_field_that_only_one_version_has_is_read_there_alone() -> None:
    data = struct.pack(">q", 42) + text("") + struct.pack(">qq", 1, 2)
    assert decode(OFFSETS_TOPIC["OffsetCommitValue"], 1, data)["expireTimestamp"] == 2
    with pytest.raises(InvalidRecord, match="8 bytes are left"):
        decode(OFFSETS_TOPIC["OffsetCommitValue"], 2, data)


def test_a_flexible_version_has_compact_lengths_and_tagged_fields() -> None:
    plain = struct.pack(">qi", 42, 7) + b"\x05note" + struct.pack(">q", 9)
    message = OFFSETS_TOPIC["OffsetCommitValue"]
    assert decode(message, 4, plain + b"\0")["topicId"] == "A" * 22
    assert "topicId" not in decode(message, 4, plain + b"\0", with_defaults=False)
    tagged = decode(message, 4, plain + b"\1\0\x10" + bytes(range(16)))
    assert tagged["topicId"] == "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    ("length", "prefix"),
    [(0, b"\x01"), (126, b"\x7f"), (127, b"\x80\x01"), (128, b"\x81\x01"), (16_383, b"\x80\x80\x01")],
)
def test_a_compact_length_is_a_varint_of_seven_bits_a_byte(length: int, prefix: bytes) -> None:
    message = only("M - 0 flexible 0+\n  a string\n")
    assert decode(message, 0, prefix + b"x" * length + b"\0") == {"a": "x" * length}


def test_an_unknown_tagged_field_is_stepped_over() -> None:
    data = struct.pack(">qi", 42, 7) + b"\1" + struct.pack(">q", 9) + b"\1\x63\3abc"
    assert decode(OFFSETS_TOPIC["OffsetCommitValue"], 4, data, with_defaults=False)["metadata"] == ""


def test_a_struct_that_may_be_null_says_so_in_a_byte() -> None:
    message = only("M - 0-1 flexible 1+\n  a S null\n  c S 1+ null tag 0\n  struct S\n    b int8\n")
    assert decode(message, 0, b"\xff") == {"a": None}
    assert decode(message, 0, b"\x01\x07") == {"a": {"b": 7}}
    assert decode(message, 1, b"\xff\0") == {"a": None, "c": {"b": 0}}
    assert decode(message, 1, b"\xff\1\0\1\0") == {"a": None, "c": None}
    assert decode(message, 1, b"\xff\1\0\3\1\7\0") == {"a": None, "c": {"b": 7}}


def test_every_primitive_is_read() -> None:
    message = only(
        "M - 0\n  a bool\n  b int8\n  c int16\n  d uint16\n  e int32\n  f uint32\n  g int64\n  h float64\n"
        "  i string\n  j bytes\n  k records\n  l uuid\n  m []int32\n"
    )
    data = struct.pack(">?bhHiIqd", True, -1, -2, 65535, -3, 2**32 - 1, -4, 0.5) + b"\0\2" + "ü".encode()
    data += struct.pack(">i", 2) + b"yz" + struct.pack(">i", 0) + bytes(16) + struct.pack(">iii", 2, 8, 9)
    assert list(decode(message, 0, data).values()) == [
        True, -1, -2, 65535, -3, 2**32 - 1, -4, 0.5, "ü", b"yz", b"", "A" * 22, [8, 9],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "reaches past the end"),
        (b"\0\5abc", "name of 5 bytes reaches past the end"),
        (b"\xff\xff", "name is null"),
        (b"\xff\xfe", "a length of -2"),
        (b"\0\1\xff", "name is no UTF-8"),
        (b"\0\1a\x7f\xff\xff\xff", "elements reach past the end"),
        (b"\0\1a\0\0\0\0x", "1 bytes are left behind it"),
    ],
)
def test_a_length_that_cannot_be_is_refused(data: bytes, cause: str) -> None:
    with pytest.raises(InvalidRecord, match=cause):
        decode(only("M - 0\n  name string\n  many []int8\n"), 0, data)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"\xff\xff\xff\xff\xff\x01", "more than 5 bytes"),
        (b"\1\0\5\1", "a tagged field of 5 bytes reaches past the end"),
        (b"\1\0\3\2aZ", "does not end where it says"),
        (b"\1\0\1\0", "t is null"),
    ],
)
def test_a_tagged_field_that_cannot_be_is_refused(data: bytes, cause: str) -> None:
    with pytest.raises(InvalidRecord, match=cause):
        decode(only("M - 0 flexible 0+\n  t string tag 0\n"), 0, data)


def test_a_version_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="version 5 is not known, only of versions 0 to 4"):
        decode(OFFSETS_TOPIC["OffsetCommitValue"], 5, b"")


@given(st.sampled_from(sorted(TABLES)), st.integers(0, 4), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_invalid_record(name: str, version: int, data: bytes) -> None:
    try:
        found = decode(TABLES[name], version, data)
    except InvalidRecord:
        return
    expected = [field.name for field in TABLES[name].fields if field.versions.holds(version)]
    assert list(found) == expected
