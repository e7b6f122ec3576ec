from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels import decide, rebuild
from storage.kernels.layout import WRITTEN
from storage.kernels.status import BatchAction, Disposition, Status
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import Batch, Record, keyed, sealed
from tests.storage.kernels.calls import bits_of, rewritten, scanned, window
from tests.storage.kernels.strategies import compiled, damaged_logs, logs

_dispositions = st.lists(st.sampled_from(list(Disposition)), min_size=5, max_size=5)
NOW, HORIZON = 50, 50 + 86_400_000
_horizons = st.sampled_from((HORIZON, 0, 2**62, 2**63 - 1, -1, -(2**63)))
"""A negative one is none: ``new_delete_horizon_ms``."""


def _disposed(found, rows: list[twin.Row], dispositions: list[Disposition]) -> None:
    for i, row in enumerate(rows):
        row.disposition = int(dispositions[i % 5])
        found.table["disposition"][i] = dispositions[i % 5]


@compiled
@given(logs(), st.sets(st.integers(0, 20)), _dispositions, st.booleans(), _horizons)
def test_any_log_is_rewritten_as_the_twin_does(
    data: bytes, kept: set[int], dispositions: list[Disposition], counted: bool, horizon: int
) -> None:
    found = scanned(data)
    _, rows, _ = twin.scan(data)
    kept = {ordinal for ordinal in kept if ordinal < found.ordinals}
    _disposed(found, rows, dispositions)
    if counted:
        for i, row in enumerate(rows):
            found.table["tombstones"][i] = sum(record.value is None for record in twin.records(data, row))
    result = rewritten(data, found, kept, NOW, horizon)
    assert (result.status, result.row) == (Status.OK, len(rows))
    assert result.out == twin.rewrite(data, rows, kept, NOW, horizon)
    _, after, _ = twin.scan(result.out)
    assert [tuple(int(value) for value in entry) for entry in result.written.tolist()] == [
        (row.position, row.size, row.last_offset, row.max_timestamp, row.record_count) for row in after
    ]


@compiled
@given(damaged_logs(), st.sets(st.integers(0, 20)), _dispositions, st.integers(0, 300))
def test_damaged_bytes_or_a_short_output_end_in_a_status(
    data: bytes, kept: set[int], dispositions: list[Disposition], room: int
) -> None:
    found = scanned(data)
    _, rows, _ = twin.scan(data)
    if found.ordinals > 10**6:
        return
    _disposed(found, rows, dispositions)
    result = rewritten(data, found, {o for o in kept if o < found.ordinals}, NOW, HORIZON, room)
    assert len(result.out) <= room
    assert (result.status == Status.OK) == (result.row == len(rows))
    assert scanned(result.out).status == Status.OK


@pytest.mark.parametrize("room", range(0, 420, 7))
def test_a_short_output_is_filled_with_whole_batches_and_continued(room: int) -> None:
    batches = [Batch(keyed("a", "b", "c"), tombstones) for tombstones in (0, 3, 6)]
    data = b"".join(batch.encode() for batch in batches)
    found, kept = scanned(data), {0, 2, 3, 7}
    whole = rewritten(data, found, kept).out
    part = rewritten(data, found, kept, room=room)
    assert whole.startswith(part.out)
    assert part.status == (Status.OK if part.row == 3 else Status.OUTPUT_FULL)
    assert scanned(part.out).status == Status.OK


def test_a_full_table_of_what_was_written_stops_before_the_batch() -> None:
    data = Batch(keyed("a")).encode() + Batch(keyed("b"), 1).encode()
    found, bits, out = scanned(data), bits_of({0, 1}, 2), np.zeros(1000, np.uint8)
    decide.decide_batches(window(data), found.table, 0, 2, bits, 0)
    result = rebuild.rewrite_batches(window(data), found.table, 0, 2, bits, 0, 0, out, 0, np.zeros(1, WRITTEN), 0)
    assert result == (Status.TABLE_FULL, 1, int(found.table["size"][0]), 1)


TOMBSTONE = keyed("a", "b", tombstones="b")


@pytest.mark.parametrize(
    ("batch", "kept", "now", "outcome"),
    [
        (Batch(keyed("a", "b")), {0, 1}, 0, BatchAction.COPY),
        (Batch(keyed("a", "b")), {1}, 0, BatchAction.REBUILD),
        (Batch(keyed("a", "b")), set(), 0, BatchAction.DROP),
        (Batch(TOMBSTONE), {0, 1}, 0, BatchAction.STAMP),
        (Batch(TOMBSTONE), {0}, 0, BatchAction.REBUILD),
        (Batch(TOMBSTONE, attributes=0x40), {0, 1}, 999, BatchAction.COPY),
        (Batch(TOMBSTONE, attributes=0x40), {0, 1}, 1000, BatchAction.REBUILD),
        (Batch(TOMBSTONE, attributes=0x40), {1}, 1000, BatchAction.DROP),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_each_outcome_follows_from_bits_tombstones_and_horizon(
    batch: Batch, kept: set[int], now: int, outcome: BatchAction, known: bool
) -> None:
    data = batch.encode()
    found = scanned(data)
    if known:
        found.table["tombstones"] = sum(record.value is None for record in batch.records)
    assert decide.decide_batches(window(data), found.table, 0, 1, bits_of(kept, 2), now) == (Status.OK, 1)
    assert found.table["outcome"][0] == outcome


@pytest.mark.parametrize(
    ("tombstones", "kept", "outcome"),
    [
        (0, {0, 1}, BatchAction.COPY),
        (0, {1}, BatchAction.REBUILD),
        (-1, set(), BatchAction.DROP),
        (-1, {0, 1}, BatchAction.UNDECIDED),
        (1, {1}, BatchAction.UNDECIDED),
    ],
)
def test_a_compressed_batch_is_decided_unopened_where_that_is_sure(
    tombstones: int, kept: set[int], outcome: BatchAction
) -> None:
    data = sealed(Batch((), attributes=2, last_offset_delta=1), b"snappy", 2)
    found = scanned(data)
    found.table["tombstones"] = tombstones
    decide.decide_batches(window(data), found.table, 0, 1, bits_of(kept, 2), 0)
    assert found.table["outcome"][0] == outcome
    written, out = np.zeros(1, WRITTEN), np.zeros(200, np.uint8)
    status, *_ = rebuild.rewrite_batches(window(data), found.table, 0, 1, bits_of(kept, 2), 0, 0, out, 0, written, 0)
    opened = outcome in (BatchAction.REBUILD, BatchAction.UNDECIDED)
    assert status == (Status.NEEDS_RECORDS if opened else Status.OK)


def test_a_decompressed_batch_is_encoded_and_sealed_with_its_codec() -> None:
    arena = b"".join(record.encode() for record in keyed("a", "b", "c"))
    data = sealed(Batch((), attributes=4, last_offset_delta=2), b"zstd", 3)
    found, bits, out = scanned(data), bits_of({1, 2}, 3), np.zeros(500, np.uint8)
    found.table["records_start"], found.table["records_end"] = 0, len(arena)
    decide.decide_batches(window(arena), found.table, 0, 1, bits, 0)
    status, end, kept, base, latest = rebuild.encode_records(window(arena), found.table, 0, bits, 0, 0, out, 61)
    assert (status, kept, base, latest) == (Status.OK, 2, 1010, 1020)
    assert rebuild.write_header(out, 0, end, found.table, 0, kept, base, latest) == Status.OK
    moved = (Record(b"b", b"vvvv", 1, 0), Record(b"c", b"vvvvv", 2, 10))
    payload = b"".join(record.encode() for record in moved)
    assert out[:end].tobytes() == sealed(
        Batch(moved, attributes=4, base_timestamp=1010, max_timestamp=1020), payload, 2
    )


@pytest.mark.parametrize("room", range(40))
def test_encoding_into_too_little_room_is_refused(room: int) -> None:
    data = Batch(keyed("a", "b")).encode()
    found, bits, out = scanned(data), bits_of({0, 1}, 2), np.full(60, 0xEE, np.uint8)
    status, end, *_ = rebuild.encode_records(window(data), found.table, 0, bits, 0, 0, out[:room], 0)
    assert status == (Status.OK if room >= 36 else Status.OUTPUT_FULL)
    assert end <= room
    assert (out[room:] == 0xEE).all()


@pytest.mark.parametrize(
    ("position", "size", "row", "status"),
    [
        (0, 60, 0, Status.BAD_SIZE),
        (0, 2**31 + 12, 0, Status.BAD_SIZE),
        (0, 61, 1, Status.BAD_SIZE),
        (0, 61, -1, Status.BAD_SIZE),
        (40, 61, 0, Status.OUTPUT_FULL),
        (-1, 61, 0, Status.OUTPUT_FULL),
        (39, 61, 0, Status.OK),
    ],
)
def test_a_header_is_only_written_where_it_fits(position: int, size: int, row: int, status: Status) -> None:
    found, out = scanned(Batch(keyed("a")).encode()), np.zeros(100, np.uint8)
    assert rebuild.write_header(out, position, size, found.table, row, 0, -1, -1) == status


def test_a_bitmap_too_short_for_a_batch_is_refused() -> None:
    data = Batch(keyed("a", "b")).encode()
    found = scanned(data)
    found.table["first_ordinal"] = 63
    assert decide.decide_batches(window(data), found.table, 0, 1, bits_of(set(), 64), 0) == (
        Status.BITMAP_SHORT,
        0,
    )
    out = np.zeros(100, np.uint8)
    result = rebuild.encode_records(window(data), found.table, 0, bits_of(set(), 64), 0, 0, out, 0)
    assert result[0] == Status.BITMAP_SHORT
