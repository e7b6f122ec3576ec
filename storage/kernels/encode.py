"""The writing of a new v2 record, of fields that lie in columns.

The readable twin is ``build_batch`` in ``storage.log.writing.validation``.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Table
from storage.kernels.layout import HEADER_BYTES
from storage.kernels.records import varlong_size, write_varlong
from storage.kernels.status import Status
from storage.machine.intrinsics import copy_bytes, store_u8
from storage.machine.kernel import kernel

_RECORDS_BYTES_MAX: Final = 2**31 - 1 - HEADER_BYTES
_TOO_LONG: Final = 2**31
_OUTSIDE: Final = -1


@kernel(inline=True)
def _field_bytes(column: Bytes, at: int, length: int) -> int:
    """Return the bytes that a field takes with its length, or _OUTSIDE; a negative length is null."""
    if length < 0:
        return 1
    if at < 0 or length > column.size - at:
        return _OUTSIDE
    return varlong_size(length) + length if length <= _RECORDS_BYTES_MAX else _TOO_LONG


@kernel(inline=True)
def _write_field(column: Bytes, at: int, length: int, out: Bytes, position: int) -> int:
    if length <= 0:
        return write_varlong(out, position, max(length, -1))
    position = write_varlong(out, position, length)
    copy_bytes(out, position, column, at, length)
    return position + length


@kernel()
def _headers_bytes(records: Table, row: int, headers: Table, keys: Bytes, values: Bytes) -> int:
    """Return the bytes that the headers take with their count, or _OUTSIDE, also for a null key."""
    first, count = records[row].first_header, records[row].header_count
    if count == 0:
        return 1
    if count < 0 or first < 0 or count > headers.size - first:
        return _OUTSIDE
    size = varlong_size(count)
    for place in range(first, first + count):
        header = headers[place]
        key = _field_bytes(keys, header.key_at, header.key_bytes)
        value = _field_bytes(values, header.value_at, header.value_bytes)
        if header.key_bytes < 0 or key < 0 or value < 0:
            return _OUTSIDE
        size = min(size + key + value, _TOO_LONG)
    return size


@kernel()
def encode_record(
    records: Table,
    row: int,
    headers: Table,
    keys: Bytes,
    values: Bytes,
    header_keys: Bytes,
    header_values: Bytes,
    timestamp_delta: int,
    offset_delta: int,
    out: Bytes,
    position: int,
) -> tuple[int, int]:
    """Write the record of one row to ``out``, which overlaps no column, from a position within it.

    Returns:
        ``(status, next position)``. OUTPUT_FULL: the position is the size that ``out`` must have. BAD_LENGTH: no batch
        can hold the record. BAD_SIZE: a field is not in its column, or a header has no key.

    Source: Kafka DefaultRecord#writeTo.
    """
    record = records[row]
    key = _field_bytes(keys, record.key_at, record.key_bytes)
    value = _field_bytes(values, record.value_at, record.value_bytes)
    headers_bytes = _headers_bytes(records, row, headers, header_keys, header_values)
    if key < 0 or value < 0 or headers_bytes < 0:
        return Status.BAD_SIZE, position
    body = 1 + varlong_size(timestamp_delta) + varlong_size(offset_delta) + key + value + headers_bytes
    end = position + varlong_size(body) + body
    if end > _RECORDS_BYTES_MAX:
        return Status.BAD_LENGTH, position
    if end > out.size:
        return Status.OUTPUT_FULL, end
    position = write_varlong(out, position, body)
    store_u8(out, position, 0)
    position = write_varlong(out, position + 1, timestamp_delta)
    position = write_varlong(out, position, offset_delta)
    position = _write_field(keys, record.key_at, record.key_bytes, out, position)
    position = _write_field(values, record.value_at, record.value_bytes, out, position)
    position = write_varlong(out, position, record.header_count)
    for place in range(record.first_header, record.first_header + record.header_count):
        header = headers[place]
        position = _write_field(header_keys, header.key_at, header.key_bytes, out, position)
        position = _write_field(header_values, header.value_at, header.value_bytes, out, position)
    return Status.OK, position
