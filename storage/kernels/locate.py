"""The columns of the records of some batches, in the layout of Arrow: offsets, bytes, one validity bit a value.

First ``locate_records`` walks the records and notes where each field lies. Then one call gathers each wanted column, so
that the other columns cost nothing. Arrow counts bytes and elements in 32 bits: a call that would need more answers
OUTPUT_FULL.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes, Integers, Table
from storage.kernels.layout import (
    BATCHES,
    HEADERS_AT,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    LOCATED_FIELDS,
    LOG_APPEND_TIME,
    NOT_HERE,
    OFFSET,
    ROW,
    TIMESTAMP,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.kernels.records import parse_record, read_varint
from storage.kernels.status import Status
from storage.machine.intrinsics import copy_bytes
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, INTEGERS, OUTPUT, Array, integers

Offsets = npt.NDArray[np.int32]

_FIELD: Final = Array(np.dtype(np.int64), is_readonly=True)
_OFFSETS: Final = Array(np.dtype(np.int32))
_INT32_MAX: Final = 2**31 - 1


@kernel(inline=True)
def _set_null(validity: Bytes, place: int) -> None:
    validity[place >> 3] &= np.uint8(0xFF ^ (1 << (place & 7)))


@kernel()
def _locate_batch(
    buf: Bytes, table: Table, row: int, start_offset: int, end_offset: int, located: Integers, at: int
) -> tuple[int, int]:
    """Return status, and the place of the next record; unless the status is OK, no record counts as noted."""
    batch = table[row]
    position, end, base_offset = batch.records_start, batch.records_end, batch.base_offset
    if position == NOT_HERE:
        return Status.NEEDS_RECORDS, at
    if position < 0 or end < position or end > buf.size:
        return Status.BAD_LENGTH, at
    room = located.size // LOCATED_FIELDS
    is_append_time, delta, delta_max = batch.attributes & LOG_APPEND_TIME, -1, batch.last_offset - base_offset
    for _ in range(batch.record_count):
        status, after, timestamp_delta, _, delta, key, key_bytes, value_bytes = parse_record(
            buf, position, end, delta, delta_max
        )
        if status != Status.OK:
            return status, at
        position, offset = after, base_offset + delta
        if offset < start_offset or offset >= end_offset:
            continue
        _, value = read_varint(buf, key + max(key_bytes, 0), after)
        headers = value + max(value_bytes, 0)
        located[OFFSET * room + at] = offset
        timestamp = batch.max_timestamp if is_append_time else batch.base_timestamp + timestamp_delta
        located[TIMESTAMP * room + at] = timestamp
        located[KEY_AT * room + at], located[KEY_BYTES * room + at] = key, key_bytes
        located[VALUE_AT * room + at], located[VALUE_BYTES * room + at] = value, value_bytes
        located[HEADERS_AT * room + at], located[HEADERS_BYTES * room + at] = headers, after - headers
        located[ROW * room + at] = row
        at += 1
    return (Status.OK if position == end else Status.BAD_LENGTH), at


@kernel(integers(3)(BYTES, BATCHES, I64, I64, I64, I64, INTEGERS, I64))
def locate_records(
    buf: Bytes, table: Table, first: int, last: int, start_offset: int, end_offset: int, located: Integers, at: int
) -> tuple[int, int, int]:
    """Note the fields of the records in ``table[first:last]``.

    Args:
        buf: the buffer that the rows' ``records_start`` and ``records_end`` index; CRCs were verified.
        table: plain or decompressed batches.
        first: row to begin with.
        last: row to end before.
        start_offset: records below it are checked and left out.
        end_offset: as are records from it on.
        located: for each of ``layout.LOCATED_FIELDS`` as many places as it may hold records, field behind field.
        at: place of the first record in it.

    Returns:
        ``(status, row, place)``: ``row`` is the first not done, ``located`` holds those before it up to ``place``.
        TABLE_FULL: its records may not fit. Others: what is wrong with it.
    """
    first, last, at = max(first, 0), min(last, table.size), max(at, 0)
    room = located.size // LOCATED_FIELDS
    for row in range(first, last):
        if table[row].record_count > room - at:
            return Status.TABLE_FULL, row, at
        status, after = _locate_batch(buf, table, row, start_offset, end_offset, located, at)
        if status != Status.OK:
            return status, row, at
        at = after
    return Status.OK, last, at


@kernel(integers(2)(BYTES, _FIELD, _FIELD, _OFFSETS, OUTPUT, OUTPUT))
def gather_bytes(
    buf: Bytes, starts: Integers, lengths: Integers, offsets: Offsets, data: Bytes, validity: Bytes
) -> tuple[int, int]:
    """Copy a field of each record side by side.

    Args:
        buf: what ``starts`` index.
        starts: of the field in each record.
        lengths: bytes of it; negative: null.
        offsets: receives one more than there are records.
        data: receives the bytes.
        validity: a bit a record, all set; cleared where the field is null.

    Returns:
        ``(status, nulls)``. OUTPUT_FULL: a receiver is too short; BAD_LENGTH: a field is not in ``buf``.
    """
    records, nulls, filled = starts.size, 0, 0
    if lengths.size < records or offsets.size <= records or validity.size * 8 < records:
        return Status.OUTPUT_FULL, 0
    room = min(data.size, _INT32_MAX)
    offsets[0] = 0
    for place in range(records):
        start, length = starts[place], lengths[place]
        if length > 0:
            if start < 0 or length > buf.size - start:
                return Status.BAD_LENGTH, 0
            if length > room - filled:
                return Status.OUTPUT_FULL, 0
            copy_bytes(data, filled, buf, start, length)
            filled += length
        elif length < 0:
            _set_null(validity, place)
            nulls += 1
        offsets[place + 1] = filled
    return Status.OK, nulls


@kernel()
def _gather_pairs(
    buf: Bytes, position: int, end: int, count: int, made: int,
    keys: Offsets, key_data: Bytes, values: Offsets, value_data: Bytes, value_validity: Bytes,
) -> tuple[int, int]:  # fmt: skip
    """Return status and nulls among the values of one record's headers. ``made`` counts those of the records before."""
    key_at, value_at, nulls = keys[made], values[made], 0
    for place in range(made, made + count):
        key_bytes, key = read_varint(buf, position, end)
        if key > end or key_bytes < 0 or key_bytes > end - key:
            return Status.BAD_HEADERS, 0
        value_bytes, value = read_varint(buf, key + key_bytes, end)
        if value > end or value_bytes > end - value:
            return Status.BAD_HEADERS, 0
        position = value + max(value_bytes, 0)
        if key_bytes > min(key_data.size, _INT32_MAX) - key_at:
            return Status.OUTPUT_FULL, 0
        if max(value_bytes, 0) > min(value_data.size, _INT32_MAX) - value_at:
            return Status.OUTPUT_FULL, 0
        copy_bytes(key_data, key_at, buf, key, key_bytes)
        copy_bytes(value_data, value_at, buf, value, max(value_bytes, 0))
        if value_bytes < 0:
            _set_null(value_validity, place)
            nulls += 1
        key_at, value_at = key_at + key_bytes, value_at + max(value_bytes, 0)
        keys[place + 1], values[place + 1] = key_at, value_at
    return Status.OK, nulls


@kernel(integers(4)(BYTES, _FIELD, _FIELD, _OFFSETS, OUTPUT, _OFFSETS, OUTPUT, _OFFSETS, OUTPUT, OUTPUT))
def gather_headers(
    buf: Bytes,
    starts: Integers,
    lengths: Integers,
    lists: Offsets,
    validity: Bytes,
    keys: Offsets,
    key_data: Bytes,
    values: Offsets,
    value_data: Bytes,
    value_validity: Bytes,
) -> tuple[int, int, int, int]:
    """Copy the headers of each record side by side; a record without headers has a null, as in Spark's Kafka source.

    Args:
        buf: what ``starts`` index.
        starts: of each record's headers, their count first.
        lengths: bytes of them, the count included.
        lists: receives one more than there are records: where each one's headers begin.
        validity: a bit a record, all set; cleared where it has no headers.
        keys: receives one more than there are headers; the sum of ``lengths`` suffices for this and the following.
        key_data: receives the keys' bytes.
        values: receives one more than there are headers.
        value_data: receives the values' bytes.
        value_validity: a bit a header, all set; cleared where its value is null.

    Returns:
        ``(status, records without headers, headers, null values)``. OUTPUT_FULL: a receiver is too short;
        BAD_HEADERS: they do not parse.
    """
    records, made, empty, nulls = starts.size, 0, 0, 0
    room = min(keys.size, values.size) - 1
    if min(lengths.size, lists.size - 1, validity.size * 8) < records or room < 0:
        return Status.OUTPUT_FULL, 0, 0, 0
    lists[0], keys[0], values[0] = 0, 0, 0
    for place in range(records):
        start, end = starts[place], starts[place] + lengths[place]
        if start < 0 or end > buf.size:
            return Status.BAD_HEADERS, 0, 0, 0
        count, position = read_varint(buf, start, end)
        if position > end or count < 0:
            return Status.BAD_HEADERS, 0, 0, 0
        if count > min(room, value_validity.size * 8) - made:
            return Status.OUTPUT_FULL, 0, 0, 0
        if count == 0:
            _set_null(validity, place)
            empty += 1
        status, more = _gather_pairs(
            buf, position, end, count, made, keys, key_data, values, value_data, value_validity
        )
        if status != Status.OK:
            return status, 0, 0, 0
        made, nulls = made + count, nulls + more
        lists[place + 1] = made
    return Status.OK, empty, made, nulls
