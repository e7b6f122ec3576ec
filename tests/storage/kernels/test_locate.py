from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels import locate
from storage.kernels.layout import (
    HEADERS_AT,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    LOCATED_FIELDS,
    OFFSET,
    ROW,
    TIMESTAMP,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.kernels.status import Status
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import Batch, Record, sealed
from tests.storage.kernels.calls import Scanned, scanned, window
from tests.storage.kernels.strategies import compiled, damaged_logs, logs

EVERYTHING = (0, 2**63 - 1)


def located(data: bytes, found: Scanned, offsets: tuple[int, int] = EVERYTHING, room: int | None = None):
    fields = np.zeros((LOCATED_FIELDS, found.ordinals if room is None else room), np.int64)
    rows = len(found.table)
    status, row, records = locate.locate_records(window(data), found.table, 0, rows, *offsets, fields.reshape(-1), 0)
    return Status(status), row, np.ascontiguousarray(fields[:, :records])


def gathered(data: bytes, starts, lengths) -> list[bytes | None]:
    offsets, content = np.zeros(starts.size + 1, np.int32), np.zeros(np.maximum(lengths, 0).sum(), np.uint8)
    validity = np.full(starts.size // 8 + 1, 0xFF, np.uint8)
    status, nulls = locate.gather_bytes(window(data), starts, lengths, offsets, content, validity)
    assert status == Status.OK
    found = unpacked(offsets, content, validity, starts.size)
    assert found.count(None) == nulls
    return found


def unpacked(offsets, content, validity, count: int) -> list[bytes | None]:
    valid = np.unpackbits(validity, bitorder="little")[:count]
    return [content[offsets[i] : offsets[i + 1]].tobytes() if valid[i] else None for i in range(count)]


def gathered_headers(data: bytes, starts, lengths) -> list[tuple[tuple[bytes, bytes | None], ...] | None]:
    count, room = starts.size, int(lengths.sum())
    lists, keys, values = (np.zeros(size + 1, np.int32) for size in (count, room, room))
    validity, value_validity = (np.full(size // 8 + 1, 0xFF, np.uint8) for size in (count, room))
    key_data, value_data = np.zeros(room, np.uint8), np.zeros(room, np.uint8)
    status, empty, made, nulls = locate.gather_headers(
        window(data), starts, lengths, lists, validity, keys, key_data, values, value_data, value_validity
    )
    assert status == Status.OK
    all_keys = unpacked(keys, key_data, np.full(room // 8 + 1, 0xFF, np.uint8), made)
    all_values = unpacked(values, value_data, value_validity, made)
    assert all_values.count(None) == nulls
    pairs = list(zip(all_keys, all_values, strict=True))
    valid = np.unpackbits(validity, bitorder="little")[:count]
    assert list(valid).count(0) == empty
    return [tuple(pairs[lists[i] : lists[i + 1]]) if valid[i] else None for i in range(count)]


def headers_of(record: twin.Parsed) -> tuple[tuple[bytes, bytes | None], ...] | None:
    reader = twin.Reader(record.tail)
    reader.varint(), reader.nullable(), reader.nullable()
    pairs = []
    for _ in range(reader.varint()):
        key = reader.nullable()
        assert key is not None
        pairs.append((key, reader.nullable()))
    return tuple(pairs) or None


@compiled
@given(logs(), st.integers(0, 30), st.integers(0, 60))
def test_the_columns_of_any_log_are_those_of_the_twin(data: bytes, start: int, length: int) -> None:
    found = scanned(data)
    status, row, fields = located(data, found, (start, start + length))
    assert (status, row) == (Status.OK, len(found.table))
    _, rows, _ = twin.scan(data)
    wanted = [
        (i, row, record)
        for i, row in enumerate(rows)
        for record in twin.records(data, row)
        if start <= record.offset < start + length
    ]
    assert fields[OFFSET].tolist() == [record.offset for _, _, record in wanted]
    assert fields[ROW].tolist() == [i for i, _, _ in wanted]
    assert fields[TIMESTAMP].tolist() == [
        row.max_timestamp if row.attributes & 8 else row.base_timestamp + record.timestamp_delta
        for _, row, record in wanted
    ]
    assert gathered(data, fields[KEY_AT], fields[KEY_BYTES]) == [record.key for _, _, record in wanted]
    assert gathered(data, fields[VALUE_AT], fields[VALUE_BYTES]) == [record.value for _, _, record in wanted]
    found_headers = gathered_headers(data, fields[HEADERS_AT], fields[HEADERS_BYTES])
    assert found_headers == [headers_of(record) for _, _, record in wanted]


@compiled
@given(damaged_logs())
def test_a_damaged_batch_is_refused_where_the_twin_refuses_it(data: bytes) -> None:
    found = scanned(data)
    if found.ordinals > 10**6:
        return
    status, bad, fields = located(data, found)
    good = 0
    for row in twin.scan(data)[1]:
        try:
            good += len(list(twin.records(data, row)))
        except twin.BadBytesError:
            break
    else:
        assert status == Status.OK
    assert (status == Status.OK) == (bad == len(found.table))
    assert fields.shape[1] == good


@pytest.mark.parametrize(
    ("payload", "count", "status"),
    [
        (Record(b"k").encode() + b"\0", 1, Status.BAD_LENGTH),
        (Record(b"k").encode()[:-1], 1, Status.BAD_LENGTH),
        (b"\xff" * 20, 1, Status.BAD_VARINT),
    ],
)
def test_a_batch_that_does_not_hold_its_records_gives_none(payload: bytes, count: int, status: Status) -> None:
    good = Batch((Record(b"a"), Record(b"b", offset_delta=1)))
    data = good.encode() + sealed(Batch((), base_offset=2, last_offset_delta=5), payload, count)
    assert located(data, scanned(data))[:2] == (status, 1)
    assert located(data, scanned(data))[2][OFFSET].tolist() == [0, 1]


def test_a_compressed_batch_that_nobody_decompressed_is_told() -> None:
    data = Batch((Record(b"a"),), attributes=4).encode()
    assert located(data, scanned(data))[0] == Status.NEEDS_RECORDS


def test_a_table_too_small_stops_at_the_batch_that_does_not_fit() -> None:
    batch = Batch((Record(b"a"), Record(b"b", offset_delta=1)))
    data = batch.encode() + batch.at(2).encode()
    assert located(data, scanned(data), room=3)[:2] == (Status.TABLE_FULL, 1)


@pytest.mark.parametrize(("content", "records", "bits"), [(2, 2, 8), (4, 1, 8), (4, 2, 0)])
def test_bytes_that_do_not_fit_are_told(content: int, records: int, bits: int) -> None:
    starts, lengths = np.array([0, 2]), np.array([2, 2])
    offsets, validity = np.zeros(records + 1, np.int32), np.full(bits // 8, 0xFF, np.uint8)
    status, _ = locate.gather_bytes(window(b"abcd"), starts, lengths, offsets, np.zeros(content, np.uint8), validity)
    assert status == Status.OUTPUT_FULL


@pytest.mark.parametrize(("start", "length"), [(3, 2), (-1, 1), (5, 1)])
def test_bytes_beyond_the_buffer_are_not_read(start: int, length: int) -> None:
    offsets, content, validity = np.zeros(2, np.int32), np.zeros(9, np.uint8), np.full(1, 0xFF, np.uint8)
    status, _ = locate.gather_bytes(window(b"abcd"), np.array([start]), np.array([length]), offsets, content, validity)
    assert status == Status.BAD_LENGTH


@compiled
@given(st.binary(max_size=12), st.integers(-2, 14), st.integers(-2, 14), st.integers(0, 5))
def test_headers_of_any_bytes_end_in_a_status(data: bytes, start: int, length: int, room: int) -> None:
    lists, keys, values = np.zeros(2, np.int32), np.zeros(room + 1, np.int32), np.zeros(room + 1, np.int32)
    validity, bits = np.full(1, 0xFF, np.uint8), np.full(1, 0xFF, np.uint8)
    key_data, value_data = np.zeros(room, np.uint8), np.zeros(room, np.uint8)
    status, _, made, _ = locate.gather_headers(
        window(data), np.array([start]), np.array([length]), lists, validity, keys, key_data, values, value_data, bits
    )
    assert status in (Status.OK, Status.OUTPUT_FULL, Status.BAD_HEADERS)
    assert made <= room
