"""The reading of v2 records: varints, and a walk that checks every length in a record.

If a varint runs past its end, only its *next position* tells: ``PAST_END``, which lies past every end. Each read from
there fails the same way, so a chain of reads needs one check, after the last.

The walk is as lenient as Kafka (DefaultRecord, ByteUtils): any negative key or value length is null, and bits beyond a
varint's type are cut. It is stricter in one thing: offsets must ascend within a batch.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Bytes, Table
from storage.kernels.layout import NOT_HERE
from storage.kernels.status import Status
from storage.machine.intrinsics import load_u8, store_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import signed

PAST_END: Final = 2**62
_INT_BYTES_MAX: Final = 5
_LONG_BYTES_MAX: Final = 10


@kernel()
def _read_unsigned(buf: Bytes, position: int, end: int, bytes_max: int) -> tuple[np.uint64, int]:
    value = np.uint64(0)
    for i in range(bytes_max):
        if position + i >= end:
            break
        byte = load_u8(buf, position + i)
        value |= np.uint64(byte & 0x7F) << np.uint64(7 * i)
        if byte < 0x80:
            return value, position + i + 1
    return np.uint64(0), PAST_END


@kernel(inline=True)
def _read_short(buf: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag number of one or two bytes, which nearly all numbers have.

    If it is longer, the next position is 0.
    """
    if position < end:
        low = load_u8(buf, position)
        if low < 0x80:
            return (low >> 1) ^ -(low & 1), position + 1
        if position + 1 < end:
            high = load_u8(buf, position + 1)
            if high < 0x80:
                return ((low & 0x7F | high << 7) >> 1) ^ -(low & 1), position + 2
    return 0, 0


@kernel(inline=True)
def read_varint(buf: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read the zigzag int32 at ``position``. Return ``(value, next position)``."""
    short, after = _read_short(buf, position, end)
    if after:
        return short, after
    value, after = _read_unsigned(buf, position, end, _INT_BYTES_MAX)
    bits = signed(value & np.uint64(0xFFFFFFFF))
    return (bits >> 1) ^ -(bits & 1), after


@kernel(inline=True)
def read_varlong(buf: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read the zigzag int64 at ``position``. Return ``(value, next position)``."""
    short, after = _read_short(buf, position, end)
    if after:
        return short, after
    bits, after = _read_unsigned(buf, position, end, _LONG_BYTES_MAX)
    return signed(bits >> np.uint64(1)) ^ -signed(bits & np.uint64(1)), after


@kernel()
def varlong_size(value: int) -> int:
    """Count the bytes that ``write_varlong`` takes."""
    bits = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while bits >= np.uint64(0x80):
        bits >>= np.uint64(7)
        size += 1
    return size


@kernel()
def write_varlong(out: Bytes, position: int, value: int) -> int:
    """Write a zigzag int64, at most 10 bytes; an int32 has the same bytes. Return the next position."""
    bits = np.uint64((value << 1) ^ (value >> 63))
    while bits >= np.uint64(0x80):
        store_u8(out, position, signed(bits & np.uint64(0x7F) | np.uint64(0x80)))
        bits >>= np.uint64(7)
        position += 1
    store_u8(out, position, signed(bits))
    return position + 1


@kernel()
def _skip_headers(buf: Bytes, position: int, end: int) -> int:
    """Return the position after the header count and headers, or PAST_END."""
    count, position = read_varint(buf, position, end)
    if count < 0:
        return PAST_END
    for _ in range(count):
        key_length, position = read_varint(buf, position, end)
        if position > end or key_length < 0 or key_length > end - position:
            return PAST_END
        value_length, position = read_varint(buf, position + key_length, end)
        if position > end or value_length > end - position:
            return PAST_END
        position += max(value_length, 0)
    return position


@kernel(inline=True)
def parse_record(  # noqa: PLR0911  (each check has its status)
    buf: Bytes, position: int, end: int, previous_delta: int, delta_max: int
) -> tuple[int, int, int, int, int, int, int, int]:
    """Check and take apart the record at ``position``, of a payload that ends at ``end`` (within ``buf``).

    Args:
        buf: holds the payload.
        position: within the payload, or its end.
        end: of the payload.
        previous_delta: offset delta of the record before, -1 for the first.
        delta_max: last offset of the batch minus its base.

    Returns:
        ``(status, next position, timestamp delta, position of the offset delta, offset delta, key position,
        key length, value length)``; a null has a negative length. All but the status is void unless it is OK.

    Source: Kafka DefaultRecord#readFrom.
    """
    length, body = read_varint(buf, position, end)
    if body > end:
        return Status.BAD_VARINT, 0, 0, 0, 0, 0, 0, 0
    if length < 1 or length > end - body:
        return Status.BAD_LENGTH, 0, 0, 0, 0, 0, 0, 0
    end = body + length
    timestamp_delta, at_offset = read_varlong(buf, body + 1, end)
    offset_delta, at_key = read_varint(buf, at_offset, end)
    key_length, key = read_varint(buf, at_key, end)
    if key > end:
        return Status.BAD_VARINT, 0, 0, 0, 0, 0, 0, 0
    if key_length > end - key:
        return Status.BAD_LENGTH, 0, 0, 0, 0, 0, 0, 0
    value_length, value = read_varint(buf, key + max(key_length, 0), end)
    if value > end:
        return Status.BAD_VARINT, 0, 0, 0, 0, 0, 0, 0
    if value_length > end - value:
        return Status.BAD_LENGTH, 0, 0, 0, 0, 0, 0, 0
    if offset_delta <= previous_delta or offset_delta > delta_max:
        return Status.BAD_OFFSETS, 0, 0, 0, 0, 0, 0, 0
    headers = value + max(value_length, 0)
    has_none = headers == end - 1 and load_u8(buf, headers) == 0
    if not has_none and _skip_headers(buf, headers, end) != end:
        return Status.BAD_HEADERS, 0, 0, 0, 0, 0, 0, 0
    return Status.OK, end, timestamp_delta, at_offset, offset_delta, key, key_length, value_length


@kernel()
def check_payload(buf: Bytes, table: Table, row: int) -> int:
    """Check that the row's plain records are there, inside ``buf``, and can be as many as the row says."""
    start, end = table[row].records_start, table[row].records_end
    if start == NOT_HERE:
        return Status.NEEDS_RECORDS
    if start < 0 or end < start or end > buf.size:
        return Status.BAD_SIZE
    if table[row].record_count < 0 or table[row].record_count > end - start:
        return Status.BAD_COUNT
    return Status.OK
