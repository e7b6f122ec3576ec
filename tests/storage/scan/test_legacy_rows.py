"""Messages of v0 and v1 as rows: the kernel and the readable code agree, on valid and on damaged bytes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs.batches import open_codecs
from storage.codecs.compression import Compression
from storage.codecs.messages import read_messages
from storage.errors import CorruptBatch
from storage.kernels.layout import BATCH, MIXED_VERSIONS
from storage.kernels.status import Status
from storage.records import Record, encode_message, encode_wrapper
from storage.scan.legacy_rows import LegacyRows, listed, read_again, read_keys
from tests import legacy_twins as twin
from tests.legacy_logs import LEGACY_CODECS, mixed_versions
from tests.storage.kernels.strategies import compiled

ROOM = 1 << 16
CALLS = open_codecs()
seeds = st.integers(0, 2**32)
RECORDS = [Record(10, 1000, b"k", b"v"), Record(12, 1007, None, b""), Record(15, 1005, b"", None)]


def by_kernel(
    data: bytes,
    *,
    verify: bool,
    keys_room: int = ROOM,
    arena_room: int = ROOM,
    rows_max: int = 99,
    shares: tuple[int, int] = (0, 0),
) -> tuple[int, np.ndarray, bytes, int]:
    """Status, rows, keys, and where it stopped."""
    table, keys, arena = np.zeros(rows_max, BATCH), np.zeros(keys_room, np.uint8), np.zeros(arena_room, np.uint8)
    status, rows, stopped, _, _, filled = read_messages(
        np.frombuffer(data, np.uint8),
        0,
        len(data),
        0,
        0,
        table,
        0,
        rows_max,
        keys,
        0,
        arena,
        CALLS.words,
        verify,
        *shares,
    )
    return status, table[:rows], keys[:filled].tobytes(), stopped


def by_both(data: bytes, *, verify: bool = True, shared_below: int = 0) -> LegacyRows:
    """The kernel, and behind it the readable code."""
    window = np.frombuffer(data, np.uint8)
    return read_keys(window, (0, len(data)), 0, twin.PATH, 0, 0, 99, verify=verify, shared_below=shared_below)


@compiled
@given(seeds, st.booleans())
def test_a_valid_log_is_read_by_the_kernel_alone(seed: int, verify: bool) -> None:
    data = twin.a_log(Random(seed))
    expected = twin.read(data, verify=verify)
    status, table, keys, stopped = by_kernel(data, verify=verify)
    assert (status, stopped, expected.cause) == (Status.OK, len(data), None)
    assert table.tolist() == expected.table.tolist()
    assert keys == expected.keys


@compiled
@given(seeds, st.booleans())
def test_a_damaged_log_is_read_up_to_the_same_message_and_refused_in_the_same_words(seed: int, verify: bool) -> None:
    random = Random(seed)
    data = twin.damaged(twin.a_log(random), random)
    expected = twin.read(data, verify=verify)
    _, table, keys, stopped = by_kernel(data, verify=verify)
    assert stopped <= expected.stopped
    assert table.tolist() == expected.table[: table.size].tolist()
    assert expected.keys.startswith(keys)
    if expected.cause is not None:
        with pytest.raises(CorruptBatch) as raised:
            by_both(data, verify=verify)
        assert raised.value.cause == expected.cause
        return
    found = by_both(data, verify=verify)
    assert (found.table.tolist(), found.keys.tobytes()) == (expected.table.tolist(), expected.keys)
    assert found.stopped == expected.stopped


SHARES = st.tuples(st.sampled_from([1, 60, 500, 1 << 20]), st.sampled_from([0, 8, 300, 1 << 62]))


@compiled
@given(seeds, st.booleans(), SHARES)
def test_messages_of_a_valid_log_share_rows_and_keep_their_keys(
    seed: int, verify: bool, shares: tuple[int, int]
) -> None:
    data = twin.a_log(Random(seed))
    expected, keys = twin.shared(data, twin.read(data, verify=verify).table, *shares)
    status, table, found_keys, stopped = by_kernel(data, verify=verify, shares=shares)
    assert (status, stopped) == (Status.OK, len(data))
    assert table.tolist() == expected.tolist()
    assert found_keys == keys


@compiled
@given(seeds, st.booleans(), SHARES)
def test_a_damaged_log_is_refused_at_the_same_message_whether_rows_are_shared_or_not(
    seed: int, verify: bool, shares: tuple[int, int]
) -> None:
    random = Random(seed)
    data = twin.damaged(twin.a_log(random), random)
    expected = twin.read(data, verify=verify)
    _, table, keys, stopped = by_kernel(data, verify=verify, shares=shares)
    ends = expected.table["position"] + expected.table["size"]
    rows, row_keys = twin.shared(data, expected.table[ends <= stopped], *shares)
    assert (table.tolist(), keys) == (rows.tolist(), row_keys)
    if expected.cause is not None:
        with pytest.raises(CorruptBatch) as raised:
            by_both(data, verify=verify, shared_below=shares[1])
        assert (raised.value.cause, raised.value.position) == (expected.cause, expected.stopped)
        return
    found = by_both(data, verify=verify, shared_below=shares[1])
    assert found.stopped == expected.stopped
    assert found.table["record_count"].sum() == expected.table["record_count"].sum()


@compiled
@given(seeds, SHARES)
def test_messages_read_again_are_the_same_rows(seed: int, shares: tuple[int, int]) -> None:
    data = twin.a_log(Random(seed))
    _, table, _, _ = by_kernel(data, verify=True, shares=shares)
    again = read_again(np.frombuffer(data, np.uint8), (0, len(data)), 0, table["record_count"])
    assert again is not None
    for name in ("position", "size", "last_offset", "first_ordinal", "max_timestamp", "record_count"):
        assert again[name].tolist() == table[name].tolist()
    assert again["attributes"].tolist() == (table["attributes"] & ~MIXED_VERSIONS).tolist()


@compiled
@given(seeds, SHARES)
def test_an_index_is_told_of_each_message_whether_it_shares_a_row_or_not(seed: int, shares: tuple[int, int]) -> None:
    data = twin.a_log(Random(seed))
    table = by_kernel(data, verify=True, shares=shares)[1]
    told = listed(np.frombuffer(data, np.uint8), table)
    single = twin.read(data, verify=True).table
    assert told.tolist() == single[["position", "size", "last_offset", "max_timestamp", "record_count"]].tolist()


@compiled
@given(seeds, SHARES)
def test_other_bytes_are_not_read_again_or_read_within_the_buffer(seed: int, shares: tuple[int, int]) -> None:
    random = Random(seed)
    data = twin.a_log(random)
    counts = by_kernel(data, verify=True, shares=shares)[1]["record_count"]
    other = twin.damaged(data, random)
    again = read_again(np.frombuffer(other, np.uint8), (0, len(other)), 0, counts)
    if again is not None:
        ends = again["position"] + again["size"]
        assert (again["position"] == [0, *ends[:-1]]).all()
        assert ends[-1] == len(other)


@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [2], [], [0, 2], [-1, 1]])
def test_other_counts_are_not_read_again(counts: list[int]) -> None:
    data = encode_message(RECORDS[0], 1) + encode_wrapper(RECORDS[1:], 1, Compression.GZIP)
    assert read_again(np.frombuffer(data, np.uint8), (0, len(data)), 0, np.array(counts, np.int32)) is None


@pytest.mark.parametrize("codec", LEGACY_CODECS[1:])
@pytest.mark.parametrize("magic", [0, 1])
def test_what_the_kernel_leaves_is_read_by_the_readable_code(magic: int, codec: Compression) -> None:
    large = encode_wrapper([Record(20, 5, b"large", bytes(ROOM + 1))], magic, codec)
    data = b"".join((encode_wrapper(RECORDS, magic, codec), large, encode_message(Record(21, 5, b"k", b"v"), magic)))
    status, table, _, stopped = by_kernel(data, verify=True)
    assert (status, table.size) == (Status.NEEDS_PYTHON, 1)
    assert stopped == len(encode_wrapper(RECORDS, magic, codec))
    found, expected = by_both(data), twin.read(data, verify=True)
    assert found.table.tolist() == expected.table.tolist()
    assert (found.table["record_count"].tolist(), found.stopped) == ([3, 1, 1], len(data))


@pytest.mark.parametrize("room", [0, 1, 20, 40, 60])
def test_a_full_buffer_of_keys_ends_before_the_message(room: int) -> None:
    data = b"".join(encode_message(Record(offset, 1, b"key of 12 by", b"v"), 1) for offset in range(5))
    status, table, keys, stopped = by_kernel(data, verify=True, keys_room=room)
    assert (status, stopped) == (Status.OUTPUT_FULL, table.size * len(data) // 5)
    assert twin.read(data, verify=True).keys.startswith(keys)


def test_a_full_table_ends_the_reading() -> None:
    data = b"".join(encode_message(Record(offset, 1, b"k", b"v"), 1) for offset in range(5))
    status, table, _, stopped = by_kernel(data, verify=True, rows_max=3)
    assert (status, table.size, stopped) == (Status.OK, 3, 3 * len(data) // 5)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_of_mixed_versions_is_marked_whatever_its_timestamps(magic: int) -> None:
    untimed = [Record(offset, -1, b"k", b"v") for offset in (1, 2)]
    data = mixed_versions(untimed, magic, 1 - magic)
    for table in (by_kernel(data, verify=True)[1], twin.read(data, verify=True).table):
        assert table["attributes"].tolist() == [Compression.GZIP | MIXED_VERSIONS]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("span", "rows"), [((1 << 31) - 1, 1), (1 << 31, 0)])
def test_a_wrapper_spans_as_many_offsets_as_a_batch_of_version_2_can(magic: int, span: int, rows: int) -> None:
    data = encode_wrapper([Record(10, 5, b"a", b"v"), Record(10 + span, 5, b"b", b"v")], magic, Compression.GZIP)
    for table in (by_kernel(data, verify=True)[1], twin.read(data, verify=True).table):
        assert table.size == rows
