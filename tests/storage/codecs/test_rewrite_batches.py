"""Batches written as they were decided, against the readable twins."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs.compression import Compression
from storage.kernels import decide
from storage.kernels.layout import WRITTEN
from storage.kernels.status import BatchAction, BatchFate, Status
from storage.records import Record, encode_batch
from tests.batches import iter_batches
from tests.storage.codecs.codec_calls import rewrite, rewritten
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import Batch, keyed, sealed
from tests.storage.kernels.calls import bits_of, scanned, window
from tests.storage.kernels.strategies import compiled, damaged_logs, logs

_fates = st.lists(st.sampled_from(list(BatchFate)), min_size=5, max_size=5)
NOW, HORIZON = 50, 50 + 86_400_000
_horizons = st.sampled_from((HORIZON, 0, 2**62, 2**63 - 1, -1, -(2**63)))
"""A negative horizon stands for no horizon: ``new_delete_horizon_ms``."""


def _set_fates(found, rows: list[twin.Row], fates: list[BatchFate]) -> None:
    for i, row in enumerate(rows):
        row.fate = int(fates[i % 5])
        found.table["fate"][i] = fates[i % 5]


@compiled
@given(logs(), st.sets(st.integers(0, 20)), _fates, st.booleans(), _horizons)
def test_any_log_is_rewritten_as_the_twin_does(
    data: bytes, kept: set[int], fates: list[BatchFate], counted: bool, horizon: int
) -> None:
    found = scanned(data)
    _, rows, _ = twin.scan(data)
    kept = {ordinal for ordinal in kept if ordinal < found.ordinals}
    _set_fates(found, rows, fates)
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
@given(damaged_logs(), st.sets(st.integers(0, 20)), _fates, st.integers(0, 300))
def test_damaged_bytes_or_a_short_output_end_in_a_status(
    data: bytes, kept: set[int], fates: list[BatchFate], room: int
) -> None:
    found = scanned(data)
    _, rows, _ = twin.scan(data)
    if found.ordinals > 10**6:
        return
    _set_fates(found, rows, fates)
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
    result = rewrite(window(data), found.table, bits, out, np.zeros(1, WRITTEN))
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
    ("tombstones", "kept", "outcome", "status"),
    [
        (0, {0, 1}, BatchAction.COPY, Status.OK),
        (0, {1}, BatchAction.REBUILD, Status.NEEDS_PYTHON),
        (-1, set(), BatchAction.DROP, Status.OK),
        (-1, {0, 1}, BatchAction.UNDECIDED, Status.NEEDS_RECORDS),
        (1, {1}, BatchAction.UNDECIDED, Status.NEEDS_RECORDS),
    ],
)
def test_a_compressed_batch_is_decided_unopened_where_that_is_sure(
    tombstones: int, kept: set[int], outcome: BatchAction, status: Status
) -> None:
    data = sealed(Batch((), attributes=2, last_offset_delta=1), b"snappy", 2)
    found = scanned(data)
    found.table["tombstones"] = tombstones
    decide.decide_batches(window(data), found.table, 0, 1, bits_of(kept, 2), 0)
    assert found.table["outcome"][0] == outcome
    written, out = np.zeros(1, WRITTEN), np.zeros(200, np.uint8)
    assert rewrite(window(data), found.table, bits_of(kept, 2), out, written)[0] == status  # no codec takes the body


CODECS = (Compression.NONE, *Compression, Compression.NONE)
"""Of the batches of a log: compressed ones between plain ones."""


def mixed_log() -> tuple[bytes, list[Record]]:
    offsets = count()
    batches = [[Record(next(offsets), 5, b"key", b"value" * 30) for _ in range(4)] for _ in CODECS]
    data = b"".join(encode_batch(batch, compression=codec) for batch, codec in zip(batches, CODECS, strict=True))
    return data, [record for batch in batches for record in batch]


def records_of(data: bytes) -> list[list[int]]:
    return [[record.offset for record in batch.records()] for batch in iter_batches(data, Path("any.log"))]


def test_plain_and_compressed_batches_are_rebuilt_in_one_call() -> None:
    data, records = mixed_log()
    found = scanned(data)
    found.table["tombstones"] = 0
    kept = {record.offset for record in records if record.offset % 4 != 1}
    result = rewritten(data, found, kept)
    assert (result.status, result.row) == (Status.OK, len(CODECS))
    assert records_of(result.out) == [[first, first + 2, first + 3] for first in range(0, 4 * len(CODECS), 4)]
    assert [batch.header.compression for batch in iter_batches(result.out, Path("any.log"))] == list(CODECS)
    assert result.written["records"].tolist() == [3] * len(CODECS)


@pytest.mark.parametrize("room", range(0, 1500, 41))
def test_a_short_output_ends_before_a_compressed_batch_too(room: int) -> None:
    data, records = mixed_log()
    found = scanned(data)
    found.table["tombstones"] = 0
    result = rewritten(data, found, {record.offset for record in records if record.offset % 4}, room=room)
    assert result.status == (Status.OK if result.row == len(CODECS) else Status.OUTPUT_FULL)
    assert records_of(result.out) == [[first + 1, first + 2, first + 3] for first in range(0, 4 * result.row, 4)]


def test_a_batch_that_the_arena_cannot_hold_is_left_to_the_readable_codecs() -> None:
    data, records = mixed_log()
    found, bits = scanned(data), bits_of({record.offset for record in records if record.offset % 4}, len(records))
    found.table["tombstones"] = 0
    decide.decide_batches(window(data), found.table, 0, len(CODECS), bits, 0)
    out, written = np.zeros(1 << 14, np.uint8), np.zeros(len(CODECS), WRITTEN)
    status, row, end, rows = rewrite(window(data), found.table, bits, out, written, arena_room=100)
    assert (status, row, rows) == (Status.NEEDS_PYTHON, CODECS.index(Compression.GZIP), 2)
    assert records_of(out[:end].tobytes()) == [[1, 2, 3], [5, 6, 7]]
