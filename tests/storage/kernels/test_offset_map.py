from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.arrays import Integers
from storage.kernels import bitmap, map_walk, offset_map
from storage.kernels.layout import NOT_HERE
from storage.kernels.status import BatchFate, Status
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import SECRET, Batch, Record, keyed, sealed, varint
from tests.storage.kernels.calls import bits_of, ordinals_of, scanned, survivors, window
from tests.storage.kernels.strategies import compiled, damaged_logs, logs

ALL = (np.uint64(0), np.uint64(offset_map.TAG_MAX), *map(np.uint64, SECRET))


def _twin_status(data: bytes, rows: list[twin.Row]) -> tuple[Status, int]:
    for number, row in enumerate(rows):
        try:
            if row.fate <= BatchFate.RETAIN_EMPTY:
                list(twin.records(data, row))
        except twin.BadBytesError as bad:
            return bad.status, number
    return Status.OK, len(rows)


@compiled
@given(logs(), st.integers(0, 12), st.sampled_from([1, 3]))
def test_any_log_keeps_the_ordinals_the_twin_keeps_whatever_the_passes(
    data: bytes, first_dirty: int, passes: int
) -> None:
    _, rows, _ = twin.scan(data)
    status, row, kept, keyless = survivors(data, scanned(data), first_dirty, passes)
    assert (status, row) == (Status.OK, len(rows))
    assert (kept, keyless) == twin.survivors(data, rows, first_dirty)


EMPTY_OF_A_CODEC = Batch((), attributes=1, last_offset_delta=0).encode()


@compiled
@example(EMPTY_OF_A_CODEC)
@given(damaged_logs())
def test_damaged_bytes_fail_where_and_as_the_twin_does(data: bytes) -> None:
    found = scanned(data)
    _, rows, _ = twin.scan(data)
    status, row, _, _ = survivors(data, found)
    assert (status, row) == _twin_status(data, rows)


def _payload(*pieces: bytes) -> bytes:
    body = b"".join(pieces)
    return varint(len(body)) + body


WHOLE = [b"\0", varint(0), varint(0), varint(1), b"k", varint(1), b"v", varint(0)]
FOREVER = b"\x80" * 11


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (_payload(*WHOLE), Status.OK),
        (_payload(*WHOLE[:5], varint(-9), varint(0)), Status.OK),
        (_payload(*WHOLE) + b"\0", Status.BAD_LENGTH),
        (_payload(*WHOLE)[:-1] + b"", Status.BAD_LENGTH),
        (varint(0) + b"\0" * 9, Status.BAD_LENGTH),
        (varint(-1) + b"\0" * 9, Status.BAD_LENGTH),
        (varint(2**31 - 1) + b"\0" * 9, Status.BAD_LENGTH),
        (FOREVER, Status.BAD_VARINT),
        (_payload(b"\0", FOREVER, *WHOLE[2:]), Status.BAD_VARINT),
        (_payload(b"\0", b"\0", FOREVER[:6], *WHOLE[3:]), Status.BAD_VARINT),
        (_payload(*WHOLE[:2], varint(1), *WHOLE[3:]), Status.BAD_OFFSETS),
        (_payload(*WHOLE[:2], varint(-1), *WHOLE[3:]), Status.BAD_OFFSETS),
        (_payload(*WHOLE[:3], varint(2**31 - 1), *WHOLE[4:]), Status.BAD_LENGTH),
        (_payload(*WHOLE[:5], varint(2**31 - 1), *WHOLE[6:]), Status.BAD_LENGTH),
        (_payload(*WHOLE[:7], varint(1)), Status.BAD_HEADERS),
        (_payload(*WHOLE[:7], varint(-1)), Status.BAD_HEADERS),
        (_payload(*WHOLE[:7], varint(2**31 - 1)), Status.BAD_HEADERS),
        (_payload(*WHOLE[:7], varint(1), varint(-1), varint(0)), Status.BAD_HEADERS),
        (_payload(*WHOLE[:7], varint(1), varint(2**31 - 1), varint(0)), Status.BAD_HEADERS),
        (_payload(*WHOLE[:7], varint(1), varint(0), varint(2**31 - 1)), Status.BAD_HEADERS),
        (_payload(*WHOLE, b"\0"), Status.BAD_HEADERS),
    ],
)
def test_each_kind_of_bad_record_has_its_status(payload: bytes, status: Status) -> None:
    data = sealed(Batch((), last_offset_delta=0), payload, 1)
    found = scanned(data)
    assert found.status == Status.OK
    assert survivors(data, found)[0] == status
    assert _twin_status(data, twin.scan(data)[1])[0] == status


def test_offsets_that_do_not_ascend_within_a_batch_are_bad() -> None:
    data = Batch((Record(b"a", offset_delta=1), Record(b"b", offset_delta=1)), last_offset_delta=3).encode()
    assert survivors(data, scanned(data))[:2] == (Status.BAD_OFFSETS, 0)


@pytest.mark.parametrize(
    ("fate", "expected"),
    [
        (BatchFate.DELETE_EMPTY, {1}),
        (BatchFate.RETAIN_EMPTY, {1}),
        (BatchFate.DISCARD, {0}),
        (BatchFate.DISCARD_RETAIN_EMPTY, {0}),
        (BatchFate.KEEP, {0}),
        (BatchFate.KEEP_STAMPED, {0}),
    ],
)
def test_only_data_that_counts_supersedes(fate: BatchFate, expected: set[int]) -> None:
    data = Batch(keyed("a")).encode() + Batch(keyed("a"), 1).encode()
    found = scanned(data)
    found.table["fate"][1] = fate
    assert survivors(data, found)[2] == expected


def test_tombstones_are_counted_in_their_row() -> None:
    data = Batch(keyed("a", "b", "c", tombstones="ac")).encode() + Batch(keyed("d"), 3).encode()
    found = scanned(data)
    survivors(data, found)
    assert found.table["tombstones"].tolist() == [2, 0]


def test_batches_in_any_order_and_twice_give_the_same_map() -> None:
    data = b"".join(Batch(keyed("a", "b")).at(2 * i).encode() for i in range(4))
    found = scanned(data)
    words, counters = offset_map.new_map(4, 0.9)
    for row in (2, 3, 0, 1, 3, 2):
        map_walk.map_records(window(data), found.table, row, row + 1, words, counters, *ALL, 0, False, False)
    bits = bitmap.new_bitmap(8)
    offset_map.collect_survivors(words, bits)
    assert (ordinals_of(bits), counters[offset_map.USED]) == ({6, 7}, 2)


@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([16], id="all of one length"),
        pytest.param(range(2, 35), id="all short lengths"),
        pytest.param([128, 9, 24], id="the longest of a group"),
        pytest.param([9, 129, 3000], id="too long for a group"),
    ],
)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("header_bytes", [61, 0])
def test_each_key_has_the_hash_it_has_alone(lengths: Sequence[int], count: int, header_bytes: int) -> None:
    keys = [
        i.to_bytes(2, "big") * (length // 2) + b"x" * (length % 2) for i, length in zip(range(count), cycle(lengths))
    ]
    data = Batch(tuple(Record(key, b"value", i) for i, key in enumerate(keys))).encode()
    table = scanned(data).table
    cut = 61 - header_bytes  # where a batch was decompressed nothing precedes its records
    table["records_start"] -= cut
    table["records_end"] -= cut
    words, counters = offset_map.new_map(10, 0.9)
    status, _ = map_walk.map_records(window(data[cut:]), table, 0, 1, words, counters, *ALL, 0, False, False)
    assert status == Status.OK
    slots = words.reshape(-1, 2)
    hashes = [twin.sip_hash(key, SECRET) for key in keys]
    expected = [(low, high >> 40 << 40 | ordinal + 1) for ordinal, (low, high) in enumerate(hashes)]
    assert sorted(map(tuple, slots[slots[:, 1] > 0].tolist())) == sorted(expected)


def _many_keys() -> bytes:
    keys = [tuple(str(i % 700) for i in range(start, start + 50)) for start in range(0, 2000, 50)]
    return b"".join(Batch(keyed(*batch)).at(50 * i).encode() for i, batch in enumerate(keys))


def test_a_full_map_goes_on_with_a_narrower_range_and_loses_nothing() -> None:
    data = _many_keys()
    found, whole = scanned(data), survivors(data, scanned(data), log2_slots=12)[2]
    bits, low, rows = bitmap.new_bitmap(found.ordinals), 0, len(found.table)
    secrets, passes, shrunk = tuple(map(np.uint64, SECRET)), 0, 0
    while low <= offset_map.TAG_MAX:
        words, counters = offset_map.new_map(8, 0.9)
        row, high, status = 0, offset_map.TAG_MAX, Status.MAP_FULL
        while status == Status.MAP_FULL:
            limits = np.uint64(low), np.uint64(high), *secrets
            status, row = map_walk.map_records(
                window(data), found.table, row, rows, words, counters, *limits, 0, False, False
            )
            if status == Status.MAP_FULL:
                high, shrunk = low + (high - low) // 2, shrunk + 1
                offset_map.shrink_range(words, counters, np.uint64(high))
                assert counters[offset_map.USED] == np.count_nonzero(words[1::2])
        assert status == Status.OK
        offset_map.collect_survivors(words, bits)
        low, passes = high + 1, passes + 1
    assert ordinals_of(bits) == whole
    assert passes > 2
    assert shrunk > 1


def test_the_map_never_fills_to_its_last_slot() -> None:
    data = _many_keys()
    words, counters = offset_map.new_map(4, 1.0)
    counters[offset_map.LIMIT] = 10**9
    status, _ = map_walk.map_records(window(data), scanned(data).table, 0, 40, words, counters, *ALL, 0, False, False)
    assert (status, counters[offset_map.USED]) == (Status.MAP_FULL, 15)


def test_threads_that_fill_one_map_leave_what_one_thread_leaves() -> None:
    data = _many_keys()
    found = scanned(data)
    words, alone = offset_map.new_map(10, 0.9)
    together, _ = offset_map.new_map(10, 0.9)
    rows = len(found.table)
    map_walk.map_records(window(data), found.table, 0, rows, words, alone, *ALL, 0, False, False)
    shares = [np.array([0, 900, 0], np.int64) for _ in range(4)]

    def fill(share: Integers) -> None:
        for _ in range(50):
            map_walk.map_records(window(data), found.table, 0, rows, together, share, *ALL, 0, True, False)

    with ThreadPoolExecutor(len(shares)) as threads:
        list(threads.map(fill, shares))
    assert sum(share[offset_map.USED] for share in shares) == alone[offset_map.USED]
    assert sorted(words.reshape(-1, 2).tolist()) == sorted(together.reshape(-1, 2).tolist())


def test_records_without_a_key_are_counted_once_when_a_full_map_is_resumed() -> None:
    records = tuple(Record(None if i % 2 else str(i).encode(), offset_delta=i) for i in range(400))
    data = Batch(records).encode() + Batch(keyed("z"), 400).encode()
    found = scanned(data)
    words, counters = offset_map.new_map(7, 0.5)
    status, row = map_walk.map_records(window(data), found.table, 0, 2, words, counters, *ALL, 0, False, False)
    assert (status, row, counters[offset_map.KEYLESS]) == (Status.MAP_FULL, 0, 0)
    offset_map.shrink_range(words, counters, np.uint64(2**21))
    limits = np.uint64(0), np.uint64(2**21), *ALL[2:]
    status, _ = map_walk.map_records(window(data), found.table, row, 2, words, counters, *limits, 0, False, False)
    assert (status, counters[offset_map.KEYLESS]) == (Status.OK, 200)


def test_a_compressed_batch_must_be_decompressed_first() -> None:
    data = sealed(Batch((), attributes=4, last_offset_delta=1), b"zstd", 2)
    found = scanned(data)
    assert survivors(data, found)[:2] == (Status.NEEDS_RECORDS, 0)
    arena = b"....." + b"".join(record.encode() for record in keyed("a", "b"))
    found.table["records_start"], found.table["records_end"] = 5, len(arena)
    assert survivors(arena, found)[2] == {0, 1}


@pytest.mark.parametrize(
    ("start", "end", "count", "status"),
    [
        (61, 10**9, 1, Status.BAD_SIZE),
        (-2, 61, 1, Status.BAD_SIZE),
        (70, 61, 1, Status.BAD_SIZE),
        (61, 62, 2, Status.BAD_COUNT),
        (61, 71, -1, Status.BAD_COUNT),
        (NOT_HERE, NOT_HERE, 1, Status.NEEDS_RECORDS),
    ],
)
def test_a_row_that_cannot_be_is_refused(start: int, end: int, count: int, status: Status) -> None:
    data = Batch(keyed("a")).encode()
    found = scanned(data)
    found.table["records_start"], found.table["records_end"] = start, end
    found.table["record_count"] = count
    assert survivors(data, found)[0] == status


@pytest.mark.parametrize("first_ordinal", [offset_map.ORDINAL_MAX, -1])
def test_ordinals_that_an_entry_cannot_hold_are_refused(first_ordinal: int) -> None:
    data = Batch(keyed("a")).encode()
    table = scanned(data).table
    table["first_ordinal"] = first_ordinal
    words, counters = offset_map.new_map(4, 0.9)
    status = map_walk.map_records(window(data), table, 0, 1, words, counters, *ALL, 0, False, False)
    assert status == (Status.BAD_COUNT, 0)
    assert not words.any()


def test_the_greatest_ordinal_is_kept_whole() -> None:
    data = Batch(keyed("a")).encode()
    table = scanned(data).table
    table["first_ordinal"] = offset_map.ORDINAL_MAX - 1
    words, counters = offset_map.new_map(4, 0.9)
    map_walk.map_records(window(data), table, 0, 1, words, counters, *ALL, 0, False, False)
    assert offset_map.collect_survivors(words, bitmap.new_bitmap(1)) == offset_map.ORDINAL_MAX - 1


def test_ordinals_outside_the_bitmap_are_refused() -> None:
    data = Batch(keyed("a", "b")).encode()
    found = scanned(data)
    found.table["first_ordinal"] = 63
    words, counters = offset_map.new_map(4, 0.9)
    map_walk.map_records(window(data), found.table, 0, 1, words, counters, *ALL, 0, False, False)
    bits = bitmap.new_bitmap(1)
    status = map_walk.mark_superseded(
        window(data), found.table, 0, 1, words, counters, bits, 0, words[:0], *ALL, 9, False
    )
    assert status == (Status.BITMAP_SHORT, 0, 0)
    assert offset_map.collect_survivors(words, bits) == 64


@pytest.mark.parametrize(("room", "noted"), [(0, 0), (1, 1), (4, 2)])
def test_bits_count_from_the_base_and_hashes_of_the_other_keys_are_noted_as_far_as_there_is_room(
    room: int, noted: int
) -> None:
    data = Batch(keyed("a", "b", "c")).encode()
    found = scanned(data)
    words, counters = offset_map.new_map(4, 0.9)
    dirty = Batch(keyed("b")).encode()
    map_walk.map_records(window(dirty), scanned(dirty).table, 0, 1, words, counters, *ALL, 0, False, False)
    found.table["first_ordinal"] = 128 + 5
    table = found.table.copy()
    bits, kept = bits_of({5, 6, 7}, 64), np.zeros(room, np.uint64)
    marked = map_walk.mark_superseded(window(data), found.table, 0, 1, words, counters, bits, 128, kept, *ALL, 9, False)
    assert marked == (Status.OK, 1, noted)
    assert ordinals_of(bits) == {5, 7}
    assert (kept != 0).sum() == noted
    assert found.table["first_ordinal"].tolist() == table["first_ordinal"].tolist()
    below = map_walk.mark_superseded(window(data), found.table, 0, 1, words, counters, bits, 192, kept, *ALL, 9, False)
    assert below[:2] == (Status.BAD_COUNT, 0)


@compiled
@given(st.lists(st.integers(0, 50), max_size=8).map(sorted), st.integers(0, 12))
def test_hashes_come_by_the_range_of_their_ordinals(bounds, room) -> None:
    held = {(n * 0x9E3779B97F4A7C15) % 2**64: 5 * n for n in range(11)}
    words = np.zeros(64, np.uint64)
    for slot, (low, ordinal) in enumerate(held.items()):
        words[4 * slot], words[4 * slot + 1] = low, ordinal + 1
    counts = np.zeros(len(bounds) + 1, np.int64)
    offset_map.hashes_by_range(words, np.array(bounds, np.int64), counts, words[:0])
    expected = [
        [low for low, ordinal in held.items() if sum(bound <= ordinal for bound in bounds) == place]
        for place in range(len(bounds) + 1)
    ]
    assert counts.tolist() == [len(lows) for lows in expected]
    ends = np.concatenate(([0], np.cumsum(counts)[:-1]))
    found = np.zeros(room, np.uint64)
    offset_map.hashes_by_range(words, np.array(bounds, np.int64), ends, found)
    assert found.tolist() == ([low for lows in expected for low in lows] + [0] * room)[:room]
