"""Variable-length integers: known encodings, extremes, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import InvalidRecord
from storage.records.v2 import read_varint, read_varlong, write_varint


def written(value):
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_values_have_kafkas_encoding(value, encoded):
    assert written(value).hex() == encoded
    assert read_varint(memoryview(written(value)), 0, 5) == (value, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_int64_comes_back(value):
    data = written(value)
    assert read_varlong(memoryview(data), 0, len(data)) == (value, len(data))


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_int32_comes_back(value):
    data = written(value)
    assert read_varint(memoryview(data), 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("read", "bytes_max"), [(read_varint, 5), (read_varlong, 10)])
def test_one_byte_too_many_is_refused(read, bytes_max):
    assert read(memoryview(b"\x80" * (bytes_max - 1) + b"\0"), 0, bytes_max)[0] == 0
    with pytest.raises(InvalidRecord, match="more than"):
        read(memoryview(b"\x80" * bytes_max + b"\0"), 0, bytes_max + 1)


def test_nothing_is_read_at_or_behind_the_end():
    with pytest.raises(InvalidRecord, match="past the end"):
        read_varint(memoryview(b"\x80\x01"), 0, 1)


def test_bits_beyond_32_are_dropped_as_kafka_drops_them():
    assert read_varint(memoryview(b"\xfe\xff\xff\xff\x7f"), 0, 5)[0] == 2**31 - 1
