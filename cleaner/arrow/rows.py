"""Arrow columns as records to be written. Nothing is copied but places: keys and values stay in Arrow's buffers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.arrays import Bytes, Integers, Table
from storage.errors import InvalidRecord
from storage.kernels.layout import NEW_HEADER, NEW_RECORD
from storage.log.writing.building import NO_HEADERS, RecordColumns

_MICROS: Final = 1000
_NO_BYTES: Final = np.zeros(0, np.uint8)


def columns_of(batch: pa.RecordBatch) -> RecordColumns:
    """Return the rows of a batch as records.

    Args:
        batch: of the columns ``key``, ``value`` (binary or text), ``timestamp`` (microseconds) and ``headers``, those
            that it has. A missing column has nulls.

    Raises: InvalidRecord: a header has no key.
    """
    records = np.zeros(batch.num_rows, NEW_RECORD)
    keys = _place(_column(batch, "key"), records, "key")
    values = _place(_column(batch, "value"), records, "value")
    stated = _column(batch, "timestamp")
    records["timestamp"] = -1 if stated is None else stated.cast(pa.int64()).fill_null(-1).to_numpy() // _MICROS
    lists = _column(batch, "headers")
    if lists is None or lists.null_count == len(lists):
        return RecordColumns(records, keys, values, NO_HEADERS, _NO_BYTES, _NO_BYTES)
    return RecordColumns(records, keys, values, *_headers(lists, records))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None


def _headers(lists: pa.Array, records: Table) -> tuple[Table, Bytes, Bytes]:
    """Place the headers of the records. Return the table of headers, and the bytes of their keys and values."""
    bounds, pairs = lists.offsets.to_numpy().astype(np.int64), lists.values
    counts = np.diff(bounds)
    if lists.null_count:
        counts[_nulls(lists)] = 0
    records["first_header"], records["header_count"] = bounds[:-1], counts
    headers = np.zeros(len(pairs), NEW_HEADER)
    keys = _place(pairs.field("key"), headers, "key")
    values = _place(pairs.field("value"), headers, "value")
    if pairs.null_count:
        headers["key_bytes"][_nulls(pairs)] = -1
    without_key = np.concatenate(([0], np.cumsum(headers["key_bytes"] < 0)))
    if (without_key[bounds[:-1] + counts] > without_key[bounds[:-1]]).any():
        raise InvalidRecord("a header has no key")
    return headers, keys, values


def _place(column: pa.Array | None, table: Table, name: str) -> Bytes:
    """Write the places and lengths of a column of bytes into a table. Return the bytes that the places index."""
    if column is None or column.null_count == len(column):
        table[f"{name}_bytes"] = -1
        return _NO_BYTES
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    table[f"{name}_at"], table[f"{name}_bytes"] = bounds[:-1], np.diff(bounds)
    if column.null_count:
        table[f"{name}_bytes"][_nulls(column)] = -1
    return _NO_BYTES if data is None else np.frombuffer(data, np.uint8)


def _nulls(column: pa.Array) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = column.is_null().to_numpy(zero_copy_only=False)
    return found


def groups_of(codes: Integers) -> list[tuple[int, Integers]]:
    """Return each code, in the order of their first rows, with its rows in their order."""
    if not codes.size:
        return []
    encoded = pa.array(codes).dictionary_encode()
    places, found = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    if len(found) == 1:
        return [(found[0], np.arange(codes.size))]
    if len(found) <= 1 << 16:
        places = places.astype(np.uint16)  # which numpy sorts by radix
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places))
    return list(zip(found, np.split(order, ends[:-1]), strict=True))
