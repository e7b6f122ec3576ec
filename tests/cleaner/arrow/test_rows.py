"""Arrow columns, sliced and in every type that Spark hands over, as records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cleaner.arrow.rows import columns_of, groups_of
from cleaner.arrow.schema import HEADERS, TIMESTAMP
from storage.codecs.compression import Compression
from storage.errors import InvalidRecord
from storage.log.writing.building import BatchBuilder, Encoder
from storage.records import Batch, BatchHeader, Record
from storage.records.v2 import V2_HEADER

NOW_MS = 1_700_000_000_000
PAIRS = pa.struct([("key", pa.string()), ("value", pa.binary())])
LARGE_PAIRS = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
PLAIN = pa.schema({"key": pa.string(), "value": pa.binary(), "timestamp": TIMESTAMP, "headers": HEADERS})
LARGE = pa.schema(
    {
        "key": pa.large_binary(), "value": pa.large_string(), "timestamp": TIMESTAMP,
        "headers": pa.large_list(LARGE_PAIRS),
    }
)  # fmt: skip
ROWS = [
    {"key": "a", "value": b"", "timestamp": NOW_MS * 1000 + 999, "headers": None},
    {"key": None, "value": b"2" * 300, "timestamp": None, "headers": [{"key": "h", "value": b"1"}]},
    {"key": "", "value": None, "timestamp": -1, "headers": []},
    {"key": "\N{SNOWMAN}", "value": b"4", "timestamp": 0, "headers": [{"key": "", "value": None}] * 3},
    {"key": "e", "value": b"5", "timestamp": (1 << 63) - 1, "headers": [{"key": "i", "value": b""}]},
]
RECORDS = [
    Record(0, NOW_MS, b"a", b""),
    Record(1, NOW_MS + 7, None, b"2" * 300, ((b"h", b"1"),)),
    Record(2, NOW_MS + 7, b"", None),
    Record(3, 0, "\N{SNOWMAN}".encode(), b"4", ((b"", None),) * 3),
    Record(4, ((1 << 63) - 1) // 1000, b"e", b"5", ((b"i", b""),)),
]


def records_of(batch: pa.RecordBatch) -> list[Record]:
    """Write all rows as one batch, and read it by the readable code."""
    builder = BatchBuilder(Encoder(), Compression.NONE, 1 << 20, NOW_MS + 7)
    written = b"".join(map(bytes, builder.add(columns_of(batch), np.arange(batch.num_rows))))
    assert written == b""
    (data,) = map(bytes, builder.finish())
    return Batch(BatchHeader._make(V2_HEADER.unpack_from(data)), memoryview(data), "batch", 0).records()  # type: ignore[arg-type]


def numbered(records: list[Record]) -> list[tuple[Any, ...]]:
    return [(one.timestamp_ms, one.key, one.value, one.headers) for one in records]


@pytest.mark.parametrize("schema", [PLAIN, LARGE], ids=["plain", "large"])
def test_rows_come_back_as_records(schema: pa.Schema) -> None:
    assert records_of(pa.RecordBatch.from_pylist(ROWS, schema=schema)) == RECORDS


@pytest.mark.parametrize("schema", [PLAIN, LARGE], ids=["plain", "large"])
@pytest.mark.parametrize("start", range(5))
def test_slices_have_their_own_rows_and_no_others(schema: pa.Schema, start: int) -> None:
    batch = pa.RecordBatch.from_pylist([*ROWS, *ROWS], schema=schema).slice(start, 5)
    assert numbered(records_of(batch)) == numbered([*RECORDS, *RECORDS][start : start + 5])


def test_columns_that_are_missing_or_all_null_are_null() -> None:
    expected = [Record(0, NOW_MS + 7, None, b"v")]
    assert records_of(pa.RecordBatch.from_pylist([{"value": b"v"}])) == expected
    nulls = [{"key": None, "value": b"v", "timestamp": None, "headers": None}]
    assert records_of(pa.RecordBatch.from_pylist(nulls, schema=PLAIN)) == expected


def test_values_of_no_bytes_have_no_buffer_behind_them() -> None:
    assert records_of(pa.RecordBatch.from_pylist([{"key": b"", "value": b""}])) == [Record(0, NOW_MS + 7, b"", b"")]


def lists(pairs: pa.Array, *bounds: int, nulls: tuple[bool, ...]) -> pa.RecordBatch:
    headers = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pairs, mask=pa.array(nulls))
    return pa.RecordBatch.from_arrays([pa.array([b"v"] * (len(bounds) - 1)), headers], ["value", "headers"])


@pytest.mark.parametrize("pairs", [[{"key": None, "value": b"1"}], [None], [{"key": "k", "value": b""}, None]])
def test_header_without_a_key_is_refused(pairs: list[Any]) -> None:
    with pytest.raises(InvalidRecord, match="a header has no key"):
        columns_of(pa.RecordBatch.from_pylist([{"value": b"", "headers": pairs}], schema=PLAIN))


def test_what_lies_below_a_null_list_does_not_count() -> None:
    pairs = pa.array([{"key": None, "value": b"1"}, {"key": "k", "value": b"2"}], PAIRS)
    batch = lists(pairs, 0, 1, 2, nulls=(True, False))
    assert [one.headers for one in records_of(batch)] == [(), ((b"k", b"2"),)]


def test_pairs_that_are_a_slice_themselves_are_found() -> None:
    pairs = pa.array([{"key": f"k{place}", "value": None} for place in range(5)], PAIRS).slice(2)
    batch = lists(pairs, 0, 1, 3, nulls=(False, False))
    assert [one.headers for one in records_of(batch)] == [((b"k2", None),), ((b"k3", None), (b"k4", None))]


@pytest.mark.parametrize("codes", [[], [5], [5, 5, 5], [-3, 9, -3, 9, 1 << 40, -3], list(range(70_000, 0, -1)) * 2])
def test_rows_of_a_code_keep_their_order_and_codes_that_of_their_first_rows(codes: list[int]) -> None:
    expected: dict[int, list[int]] = {}
    for row, code in enumerate(codes):
        expected.setdefault(code, []).append(row)
    found = groups_of(np.array(codes, np.int64))
    assert [(code, rows.tolist()) for code, rows in found] == list(expected.items())
