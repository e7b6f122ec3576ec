"""Messages of v0 and v1 written again: the kernel and the readable code leave the same, kept and upgraded."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs.batches import open_codecs
from storage.codecs.compression import Compression
from storage.codecs.rewrite_messages import rewrite_messages
from storage.codecs.symbols import CodecCalls, find_libraries
from storage.kernels.decide import decide_batches
from storage.kernels.layout import BATCH, CODEC_MASK, MIXED_VERSIONS, WRITTEN
from storage.kernels.messages import clear_tombstones
from storage.kernels.status import BatchAction, Status
from storage.records import Record, encode_message, encode_wrapper
from tests import legacy_twins as twin
from tests.storage.kernels.calls import bits_of, ordinals_of, window
from tests.storage.kernels.strategies import compiled

ROOM = 1 << 18
GUARD = 0xA5
CALLS = open_codecs()
BY_LIBZ = CodecCalls(find_libraries()._replace(isal=None, zlib_ng=None))
"""Writes gzip as the readable code does."""


def decided(data: bytes, kept: set[int], *, upgrades: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows with outcomes, and the bitmap."""
    table = twin.read(data, verify=True).table
    table["tombstones"] = 0
    bits = bits_of(kept, int(table["record_count"].sum()))
    status, _ = decide_batches(window(data), table, 0, table.size, bits, 0)
    assert status == Status.OK
    is_rebuilt = upgrades | ((table["attributes"] & MIXED_VERSIONS) != 0)
    table["outcome"][is_rebuilt & (table["outcome"] == BatchAction.COPY)] = BatchAction.REBUILD
    return table, bits


def by_kernel(
    data: bytes,
    table: np.ndarray,
    bits: np.ndarray,
    *,
    upgrades: bool,
    horizon_ms: int | None,
    room: int = ROOM,
    calls: CodecCalls = CALLS,
) -> tuple[list[tuple[int, twin.Written]], list[int]]:
    """What it wrote of runs of rows, each with the row behind the run; and the rows that it left."""
    out, written = np.full(room + 64, GUARD, np.uint8), np.zeros(int(table["record_count"].sum()), WRITTEN)
    arena, plain = np.zeros(ROOM, np.uint8), np.zeros(ROOM, np.uint8)
    row, found, left = 0, [], []
    while row < table.size:
        status, row, end, rows = rewrite_messages(
            window(data), table, row, table.size, bits, upgrades, -1 if horizon_ms is None else horizon_ms,
            arena, plain, out[:room], 0, written, 0, calls.words, calls.last_seen,
        )  # fmt: skip
        assert (out[room:] == GUARD).all()
        assert status in (Status.OK, Status.NEEDS_PYTHON, Status.OUTPUT_FULL)
        batches = tuple(out[one["position"] :][: one["size"]].tobytes() for one in written[:rows])
        assert sum(map(len, batches)) == end
        told = tuple(tuple(map(int, one)) for one in written[:rows][["last_offset", "max_timestamp", "records"]])
        found.append((row, twin.Written(batches, told)))
        if status != Status.OK:
            left.append(row)
            row += 1
    return found, left


@compiled
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([None, 7_000]), st.sampled_from([CALLS, BY_LIBZ]))
def test_what_is_written_equals_what_the_twin_writes(
    seed: int, upgrades: bool, horizon_ms: int | None, calls: CodecCalls
) -> None:
    random = Random(seed)
    data = twin.a_log(random)
    records = int(twin.read(data, verify=True).table["record_count"].sum())
    share = random.choice((0.2, 0.7, 1.0))
    table, bits = decided(data, {n for n in range(records) if random.random() < share}, upgrades=upgrades)
    before = table.copy()
    found, left = by_kernel(data, table, bits, upgrades=upgrades, horizon_ms=horizon_ms, calls=calls)
    assert all(before["attributes"][row] & MIXED_VERSIONS and not upgrades for row in left)
    rest = np.delete(before, left)
    expected = twin.write(data, rest, bits, upgrades=upgrades, horizon_ms=horizon_ms)
    batches = [batch for _, written in found for batch in written.batches]
    assert [one for _, written in found for one in written.told] == list(expected.told)
    assert list(map(twin.opened, batches)) == list(map(twin.opened, expected.batches))
    for ours, theirs in zip(batches, expected.batches, strict=True):
        codec = ours[17 if ours[16] < 2 else 22] & CODEC_MASK
        if codec == Compression.NONE or (codec == Compression.GZIP and calls is BY_LIBZ):
            assert ours == theirs


@compiled
@given(st.integers(0, 2**32), st.sampled_from([1, 100, 1 << 20]))
def test_of_messages_that_share_a_row_those_that_stay_are_copied_byte_for_byte(seed: int, share_bytes: int) -> None:
    random = Random(seed)
    data = twin.a_log(random)
    single, bits = decided(data, set(), upgrades=False)
    table, _ = twin.shared(data, single, share_bytes, 1 << 62)
    share = random.choice((0.2, 0.7, 1.0))
    plain = [one for one in table if not one["attributes"] & CODEC_MASK]
    kept = {
        n for one in plain for n in range(one["first_ordinal"], one["first_ordinal"] + one["record_count"])
        if random.random() < share
    }  # fmt: skip
    bits = bits_of(kept, int(single["record_count"].sum()))
    table["tombstones"] = 0
    assert decide_batches(window(data), table, 0, table.size, bits, 0)[0] == Status.OK
    ((_, written),), left = by_kernel(data, table, bits, upgrades=False, horizon_ms=None)
    messages = {
        int(one["first_ordinal"]): data[one["position"] :][: one["size"]]
        for one in single if not one["attributes"] & CODEC_MASK
    }  # fmt: skip
    assert left == []
    assert b"".join(written.batches) == b"".join(messages[ordinal] for ordinal in sorted(kept))
    told = {int(one["first_ordinal"]): (int(one["last_offset"]), int(one["max_timestamp"]), 1) for one in single}
    assert list(written.told) == [told[ordinal] for ordinal in sorted(kept)]


@pytest.mark.parametrize("upgrades", [False, True])
def test_too_little_room_is_told_and_nothing_beside_it_is_written(upgrades: bool) -> None:
    data = twin.a_log(Random(11), batches_max=20)
    records = int(twin.read(data, verify=True).table["record_count"].sum())
    whole = None
    for room in (ROOM, *range(0, 3000, 37)):
        table, bits = decided(data, set(range(0, records, 2)), upgrades=upgrades)
        found, _ = by_kernel(data, table, bits, upgrades=upgrades, horizon_ms=None, room=room)
        batches = [batch for _, written in found for batch in written.batches]
        whole = whole or batches
        assert set(batches) <= set(whole)


@compiled
@given(st.integers(0, 2**32), st.booleans())
def test_damage_that_nobody_verified_ends_in_a_status(seed: int, upgrades: bool) -> None:
    random = Random(seed)
    good = twin.a_log(random)
    records = int(twin.read(good, verify=True).table["record_count"].sum())
    table, bits = decided(good, {n for n in range(records) if random.random() < 0.5}, upgrades=upgrades)
    data = twin.damaged(good, random)
    out, written = np.full(ROOM, GUARD, np.uint8), np.zeros(table.size, WRITTEN)
    arena, plain = np.zeros(ROOM, np.uint8), np.zeros(ROOM, np.uint8)
    row = 0
    while row < table.size:
        _, row, end, _ = rewrite_messages(
            window(data), table, row, table.size, bits, upgrades, -1, arena, plain, out, 0, written, 0,
            CALLS.words, CALLS.last_seen,
        )  # fmt: skip
        assert 0 <= end <= ROOM
        row += 1


def test_tombstones_are_cleared_and_nothing_else() -> None:
    plain = encode_message(Record(0, 1, b"a", None), 1) + encode_message(Record(1, 1, b"b", b"v"), 1)
    data = plain + encode_wrapper([Record(2, 1, b"c", b""), Record(3, 1, b"d", None)], 1, Compression.GZIP)
    read = twin.read(data, verify=True)
    read.table["tombstones"] = [1, 0, 1]
    bits = bits_of({0, 1, 2, 3}, 4)
    assert clear_tombstones(window(read.keys), read.table, 0, 3, bits) == (Status.OK, 3)
    assert ordinals_of(bits) == {1, 2}


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [("records_end", 1 << 40, Status.BAD_SIZE), ("records_start", -1, Status.NEEDS_RECORDS),
     ("first_ordinal", 1 << 40, Status.BITMAP_SHORT), ("record_count", 99, Status.BAD_COUNT)],
)  # fmt: skip
def test_a_row_that_cannot_be_walked_is_named(field: str, value: int, status: Status) -> None:
    read = twin.read(encode_message(Record(0, 1, b"a", None), 1), verify=True)
    table = np.zeros(2, BATCH)
    table[1] = read.table[0]
    table["tombstones"][1], table[field][1] = 1, value
    assert clear_tombstones(window(read.keys), table, 0, 2, bits_of({0}, 64)) == (status, 1)
