"""Offset and time indexes: parsing, zero tails, lookups, and the rule by which entries are made."""

import os
import struct
from bisect import bisect_right
from itertools import product
from pathlib import Path

import pytest

from storage.directory import opened
from storage.errors import CorruptBatch, CorruptIndex, UnreadableFile
from storage.indexes import (
    IndexBuilder,
    OffsetIndexEntry,
    floor_slot,
    last_offset_index_entry,
    last_time_index_entry,
    parse_offset_index,
    parse_time_index,
    sealed_time_index_end,
)

PATH = Path("00000000000000000100.index")
BASE = 100
PREALLOCATED_BYTES = 10 * 1024 * 1024


def offset_index(*entries):
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_index(*entries):
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def test_offset_entries_become_absolute():
    assert parse_offset_index(offset_index((9, 4100), (19, 8200)), BASE, PATH) == [(109, 4100), (119, 8200)]


def test_time_entries_become_absolute():
    assert parse_time_index(time_index((1000, 0), (2000, 7)), BASE, PATH) == [(1000, 100), (2000, 107)]


@pytest.mark.parametrize("tail", [b"\0\0\0", b"\0" * 96, b"\0" * 100, b"\1\2\3"])
def test_zeros_and_a_torn_entry_at_the_end_are_left_out(tail):
    assert parse_offset_index(offset_index((9, 4100)) + tail, BASE, PATH) == [(109, 4100)]
    assert parse_time_index(time_index((1000, 0)) + tail, BASE, PATH) == [(1000, 100)]


def test_an_entry_that_ends_in_zero_bytes_is_whole():
    assert parse_offset_index(offset_index((9, 1 << 24)), BASE, PATH) == [(109, 1 << 24)]


@pytest.mark.parametrize("second", [(9, 9000), (8, 9000), (19, 4100), (19, 4000), (-1, 9000)])
def test_offset_entries_that_do_not_ascend_are_corrupt(second):
    with pytest.raises(CorruptIndex) as caught:
        parse_offset_index(offset_index((9, 4100), second), BASE, PATH)
    assert caught.value.position == 8


@pytest.mark.parametrize("second", [(1000, 9), (999, 9), (2000, 4)])
def test_time_entries_that_do_not_ascend_are_corrupt(second):
    with pytest.raises(CorruptIndex) as caught:
        parse_time_index(time_index((1000, 5), second), BASE, PATH)
    assert caught.value.position == 12


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize("size_bytes", [0, PREALLOCATED_BYTES], ids=["trimmed", "preallocated"])
def test_last_entry_is_found_before_any_number_of_zeros(tmp_path, count, size_bytes):
    times, offsets = tmp_path / "a.timeindex", tmp_path / "a.index"
    write_sparse(times, time_index(*((1000 + n, n) for n in range(count))), size_bytes // 12 * 12)
    write_sparse(offsets, offset_index(*((n, 1 + n) for n in range(count))), size_bytes)
    assert last_time_index_entry(times, BASE) == (999 + count, 99 + count)
    assert last_offset_index_entry(offsets, BASE) == (99 + count, count)


@pytest.mark.parametrize("size_bytes", [0, 5, 24, PREALLOCATED_BYTES])
def test_an_empty_index_has_no_last_entry(tmp_path, size_bytes):
    write_sparse(tmp_path / "a.timeindex", b"", size_bytes)
    write_sparse(tmp_path / "a.index", b"", size_bytes)
    assert last_time_index_entry(tmp_path / "a.timeindex", BASE) is None
    assert last_offset_index_entry(tmp_path / "a.index", BASE) is None


def test_one_time_entry_of_zeros_is_a_timestamp_of_zero(tmp_path):
    write_sparse(tmp_path / "a.timeindex", bytes(12), 0)
    assert last_time_index_entry(tmp_path / "a.timeindex", BASE) == (0, BASE)
    assert parse_time_index(bytes(12), BASE, PATH) == [(0, BASE)]


def test_a_negative_last_entry_is_corrupt(tmp_path):
    (tmp_path / "a.timeindex").write_bytes(time_index((1000, 0), (-2, 5)))
    with pytest.raises(CorruptIndex) as caught:
        last_time_index_entry(tmp_path / "a.timeindex", BASE)
    assert caught.value.position == 12


FIELDS = (-2, -1, 0, 1, 5)


@pytest.mark.parametrize("torn", [b"", b"\x01", bytes(5), bytes(12), bytes(24)], ids=len)
def test_the_short_look_at_a_time_index_finds_the_last_entry_or_leaves_it_to_the_long_one(tmp_path, torn):
    found, path = 0, tmp_path / "a.timeindex"
    couples = [*product(FIELDS, repeat=2)]
    for entries in [(), *product(couples), *product(couples, couples), *product([(1, 0)], couples, couples)]:
        path.write_bytes(data := time_index(*entries) + torn)
        with opened(tmp_path) as parent:
            entry = sealed_time_index_end(path.name, len(data), BASE, parent)
        assert entry is None or entry == last_time_index_entry(path, BASE)
        found += entry is not None
    assert (found > 100) is (torn == b"")


def test_the_short_look_leaves_a_time_index_to_the_long_one_that_is_no_more_as_it_was_listed(tmp_path):
    path = tmp_path / "a.timeindex"
    with opened(tmp_path) as parent:
        assert sealed_time_index_end(path.name, 24, BASE, parent) is None
        path.write_bytes(time_index((1000, 5)))
        assert sealed_time_index_end(path.name, 24, BASE, parent) is None
        path.unlink()
        os.mkfifo(path)
        assert sealed_time_index_end(path.name, 24, BASE, parent) is None
        path.unlink()
        path.symlink_to("/dev/zero")
        assert sealed_time_index_end(path.name, 24, BASE, parent) is None


def test_a_missing_index_is_unreadable(tmp_path):
    with pytest.raises(UnreadableFile):
        last_time_index_entry(tmp_path / "a.timeindex", BASE)


def write_sparse(path, data, size_bytes):
    with path.open("wb") as file:
        file.write(data)
        file.truncate(max(len(data), size_bytes))


def built(batches, interval_bytes=100):
    """Indexes of batches given as (bytes, last offset, max timestamp), laid one behind another."""
    builder, position = IndexBuilder(BASE, interval_bytes, Path("a.log")), 0
    for size_bytes, last_offset, max_timestamp_ms in batches:
        builder.append(position, size_bytes, last_offset, max_timestamp_ms)
        position += size_bytes
    offsets, times = builder.seal()
    return parse_offset_index(offsets, BASE, PATH), parse_time_index(times, BASE, PATH)


def test_the_first_batch_is_never_indexed_however_large():
    assert built([(9999, 100, 5)]) == ([], [(5, 100)])


@pytest.mark.parametrize(("first_bytes", "indexed"), [(100, []), (101, [(101, 101)])])
def test_an_entry_needs_more_than_the_interval(first_bytes, indexed):
    offsets, _ = built([(first_bytes, 100, 5), (10, 101, 6)])
    assert offsets == indexed


def test_the_bytes_of_an_indexed_batch_count_towards_the_next_entry():
    offsets, _ = built([(101, 100, 5), (101, 101, 6), (1, 102, 7), (1, 103, 8)])
    assert offsets == [(101, 101), (102, 202)]


def test_time_entries_hold_the_largest_so_far_and_only_when_it_grew():
    _, times = built([(101, 100, 50), (101, 101, 20), (101, 102, 30), (101, 103, 60)])
    assert times == [(50, 100), (60, 103)]


def test_of_equal_timestamps_the_first_batch_is_named():
    _, times = built([(50, 100, 7), (50, 101, 7)])
    assert times == [(7, 100)]


def test_batches_without_timestamps_leave_the_time_index_empty():
    assert built([(101, 100, -1), (101, 101, -1)]) == ([(101, 101)], [])


@pytest.mark.parametrize("last_offset", [BASE - 1, BASE + (1 << 31)])
def test_an_offset_too_far_from_the_base_is_refused(last_offset):
    with pytest.raises(CorruptBatch):
        built([(101, 100, 5), (101, last_offset, 6)])


@pytest.mark.parametrize("last", [(1000, 9), (999, 9), (1001, 4)])
def test_a_last_time_entry_that_does_not_follow_the_one_before_is_corrupt(tmp_path, last):
    path = tmp_path / "a.timeindex"
    path.write_bytes(time_index((1000, 5), last))
    with pytest.raises(CorruptIndex) as caught:
        last_time_index_entry(path, BASE)
    assert caught.value.position == 12


@pytest.mark.parametrize("count", [0, 1, 2, 1024, 1025, 1026, 3000])
def test_the_slot_that_kafka_finds_in_a_sound_index_is_the_floor(count: int) -> None:
    entries = [OffsetIndexEntry(BASE + 7 * number, number) for number in range(count)]
    for offset in (0, BASE - 1, BASE, BASE + 3, BASE + 7, BASE + 7 * (count // 2) + 1, BASE + 7 * count, BASE + 10**6):
        slot = floor_slot(lambda place: entries[place].offset, count, offset)
        floor = bisect_right(entries, offset, key=lambda entry: entry.offset)
        assert slot == (floor - 1 if floor else None)


def test_zeros_at_the_end_lead_kafka_to_the_last_slot_of_its_search() -> None:
    offsets = [BASE + 7 * number for number in range(3)] + [BASE] * 3000
    assert floor_slot(offsets.__getitem__, len(offsets), BASE + 7) == len(offsets) - 1
