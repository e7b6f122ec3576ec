"""Walking over a log: where it ends, where it is damaged, in memory and on disk alike."""

import os
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch, UnreadableFile
from storage.records import Record, encode_batch, encode_message, encode_wrapper, iter_headers, read_batch
from tests.batches import iter_batches

PATH = Path("00000000000000000000.log")
PIECES = [
    encode_message(Record(0, 1, b"k", b"v"), 0),
    encode_wrapper([Record(1, 1, b"k", b"v"), Record(2, 1, b"k", b"v")], 1, Compression.LZ4),
    encode_batch([Record(3, 1, b"k", b"v" * 100)]),
    encode_batch([Record(4, 1, b"k", os.urandom(9000))]),
    encode_batch([Record(5, 1, b"k", None)]),
]
LOG = b"".join(PIECES)


@pytest.fixture
def opened(tmp_path):
    """Opens a file with the given bytes; its descriptor and path."""
    descriptors = []

    def open_with(data):
        path = tmp_path / PATH.name
        path.write_bytes(data)
        descriptors.append(os.open(path, os.O_RDONLY))
        return descriptors[-1], path

    yield open_with
    for descriptor in descriptors:
        os.close(descriptor)


def test_batches_of_all_formats_follow_each_other():
    batches = iter_batches(LOG, PATH)
    assert [bytes(batch.data) for batch in batches] == PIECES
    assert batches.position == len(LOG)


def test_a_walk_can_start_at_a_later_batch():
    assert [batch.last_offset for batch in iter_batches(LOG, PATH, start=len(PIECES[0] + PIECES[1]))] == [
        3,
        4,
        5,
    ]


@pytest.mark.parametrize("cut", [*range(1, len(PIECES[-1]))])
def test_a_torn_batch_ends_the_log_without_an_error(opened, cut):
    torn = LOG[:-cut]
    batches = iter_batches(torn, PATH)
    headers = iter_headers(*opened(torn))
    assert [batch.last_offset for batch in batches] == [found.header.last_offset for found in headers] == [0, 2, 3, 4]
    assert batches.position == headers.position == len(LOG) - len(PIECES[-1])


def test_seventeen_bytes_behind_the_last_batch_are_no_batch():
    batches = iter_batches(LOG + bytes(17), PATH)
    assert len(list(batches)) == len(PIECES)
    assert batches.position == len(LOG)


@pytest.mark.parametrize("length", [13, 0, -1, -(2**31)])
def test_a_length_below_that_of_any_message_is_corrupt(opened, length):
    data = LOG + struct.pack(">qi", 6, length) + bytes(30)
    for walk in (iter_batches(data, PATH), iter_headers(*opened(data))):
        with pytest.raises(CorruptBatch, match="length") as caught:
            list(walk)
        assert caught.value.position == walk.position == len(LOG)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_corrupt(magic):
    data = bytearray(PIECES[2])
    data[16] = magic
    with pytest.raises(CorruptBatch, match="magic"):
        list(iter_batches(bytes(data), PATH))


def test_headers_on_disk_are_those_in_memory_with_their_positions(opened):
    in_memory = [(batch.position, batch.header) for batch in iter_batches(LOG, PATH)]
    assert [tuple(found) for found in iter_headers(*opened(LOG))] == in_memory


def test_headers_end_where_the_caller_says(opened):
    end = len(PIECES[0] + PIECES[1])
    assert [found.header.last_offset for found in iter_headers(*opened(LOG), end=end)] == [0, 2]


def test_headers_of_many_small_batches_are_all_found(opened):
    pieces = [encode_batch([Record(n, n, b"k" * (n % 50), b"v")]) for n in range(500)]
    assert [found.header.base_offset for found in iter_headers(*opened(b"".join(pieces)))] == list(range(500))


def test_whole_batches_are_read_from_disk(opened):
    descriptor, path = opened(LOG)
    assert [bytes(read_batch(descriptor, path, found).data) for found in iter_headers(descriptor, path)] == PIECES


def test_a_batch_that_changed_since_its_header_was_read_is_corrupt(opened):
    descriptor, path = opened(LOG)
    third = list(iter_headers(descriptor, path))[2]
    path.write_bytes(PIECES[0] + PIECES[1] + PIECES[4] * 9)
    with pytest.raises(CorruptBatch, match="changed"):
        read_batch(descriptor, path, third)


def test_a_file_that_shrinks_while_it_is_read_is_unreadable(opened):
    descriptor, path = opened(LOG)
    headers = iter_headers(descriptor, path)
    os.truncate(path, 10)
    with pytest.raises(UnreadableFile, match="shorter than 61 bytes: it shrank"):
        list(headers)


def test_an_empty_file_has_no_headers(opened):
    assert list(iter_headers(*opened(b""))) == []


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, len(LOG) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_damaged_log_raises_nothing_but_corrupt_batch_and_ends(changes, in_the_headers):
    data = bytearray(LOG)
    for at, value in changes:
        data[at % 400 if in_the_headers else at] = value
    batches = iter_batches(bytes(data), PATH)
    with suppress(CorruptBatch):
        for batch in batches:
            batch.is_valid_crc()
            batch.records(decompressed_bytes_max=1 << 20)
    assert 0 <= batches.position <= len(LOG)
