from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels import scan
from storage.kernels.layout import BATCH, NOT_HERE, UNKNOWN
from storage.kernels.status import BatchFate, Status
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import Batch, keyed, sealed
from tests.storage.kernels.calls import scanned, window
from tests.storage.kernels.strategies import compiled, damaged_logs, logs


@compiled
@given(logs() | damaged_logs() | st.binary(max_size=200))
def test_any_bytes_give_what_the_twin_finds(data: bytes) -> None:
    found = scanned(data)
    status, rows, position = twin.scan(data)
    assert (found.status, found.position) == (status, position)
    assert [{name: int(got[name]) for name in asdict(row)} for got, row in zip(found.table, rows, strict=True)] == [
        asdict(row) for row in rows
    ]


def test_records_of_plain_batches_are_located_and_those_of_compressed_ones_are_not() -> None:
    plain = Batch(keyed("a", "b")).encode()
    packed = sealed(Batch((), 2, attributes=3, last_offset_delta=1), b"lz4", 2)
    table = scanned(plain + packed).table
    assert table["records_start"].tolist() == [61, NOT_HERE]
    assert table["records_end"].tolist() == [len(plain), NOT_HERE]
    assert table["tombstones"].tolist() == [UNKNOWN, UNKNOWN]


def test_control_batches_are_kept_unless_the_caller_says_otherwise() -> None:
    table = scanned(Batch(keyed("a"), attributes=0x30).encode() + Batch(keyed("a"), 1).encode()).table
    assert table["fate"].tolist() == [BatchFate.KEEP, BatchFate.DELETE_EMPTY]


def test_a_full_table_is_continued_from_where_it_stopped() -> None:
    data = b"".join(Batch(keyed("a", "b")).at(2 * i).encode() for i in range(5))
    whole, table = scanned(data).table, np.zeros(2, BATCH)
    pieces, at, offset, ordinal, status = [], 0, 0, 0, Status.TABLE_FULL
    while status == Status.TABLE_FULL:
        status, rows, at, offset, ordinal = scan.scan_batches(window(data), at, len(data), offset, ordinal, table)
        pieces.append(table[:rows].copy())
    assert status == Status.OK
    assert np.concatenate(pieces).tolist() == whole.tolist()


GOOD = Batch(keyed("a", "b"), base_offset=5)


def _with(position: int, replacement: bytes) -> bytes:
    data = GOOD.encode()
    return data[:position] + replacement + data[position + len(replacement) :]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (GOOD.encode()[:-1], Status.END_OF_BUFFER),
        (GOOD.encode()[:16], Status.END_OF_BUFFER),
        (bytes(100), Status.BAD_SIZE),
        (_with(8, b"\x80\0\0\0"), Status.BAD_SIZE),
        (_with(8, (48).to_bytes(4, "big")), Status.BAD_SIZE),
        (_with(16, b"\x01"), Status.LEGACY_MAGIC),
        (_with(16, b"\x00"), Status.LEGACY_MAGIC),
        (_with(16, b"\x03"), Status.BAD_MAGIC),
        (_with(16, b"\xff"), Status.BAD_MAGIC),
        (_with(0, (4).to_bytes(8, "big")), Status.BAD_OFFSETS),
        (_with(0, b"\xff" * 8), Status.BAD_OFFSETS),
        (_with(0, b"\x7f" + b"\xff" * 7), Status.BAD_OFFSETS),
        (_with(23, b"\xff" * 4), Status.BAD_OFFSETS),
        (_with(57, b"\xff" * 4), Status.BAD_COUNT),
        (_with(57, (3).to_bytes(4, "big")), Status.BAD_COUNT),
        (sealed(Batch((), last_offset_delta=9), b"x" * 13, 2), Status.BAD_COUNT),
    ],
)
def test_each_kind_of_bad_header_has_its_status(data: bytes, status: Status) -> None:
    found = scanned(data, next_offset=5 if data[:8] != bytes(8) else 0)
    assert (found.status, len(found.table), found.position) == (status, 0, 0)
