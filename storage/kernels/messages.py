"""Messages of versions 0 and 1, read as strictly as ``storage.records.legacy`` reads them.

Bytes that are no message by these rules are left to that readable code, which has the last word and makes the errors.

``append_key`` writes a message as a v2 record with the key alone: the kernels that walk records then read keys of every
version alike.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Table, Words
from storage.kernels.bitmap import clear_bit, holds
from storage.kernels.crc import checksum_32
from storage.kernels.layout import BATCHES
from storage.kernels.records import check_payload, parse_record, varlong_size, write_varlong
from storage.kernels.status import Status
from storage.machine.c_calls import address, call_isal_checksum
from storage.machine.intrinsics import (
    copy_bytes,
    load_be32,
    load_be64,
    load_u8,
    store_be16,
    store_be32,
    store_be64,
    store_u8,
)
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, WORDS, integers, signed

MESSAGE_BYTES_MIN: Final = 26
"""A message of version 0 with two empty fields."""
MAGIC_AT: Final = 16
NO_TIMESTAMP: Final = -1
KEY_OVERHEAD_MAX: Final = 20
"""Bytes of ``append_key`` beside the key."""
_V1_BYTES_MIN: Final = 34
_PREFIX_BYTES: Final = 18
_TIMESTAMP_BYTES: Final = 8
_FIELD_BYTES: Final = 4
_LOG_OVERHEAD_BYTES: Final = 12
_CODEC_MASK: Final = 0x07
_CODEC_MAX: Final = 3
_OFFSET_MAX: Final = 2**63 - 1
_TIMESTAMP_MAX: Final = 2**63 - 2
_NULL: Final = -1


@kernel(inline=True)
def _read_field(buf: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return ``(start, length)`` of the field; a null has the length -1. The start is -1 if it runs past the end."""
    start = position + _FIELD_BYTES
    if start > end:
        return -1, 0
    length = load_be32(buf, position)
    if length > end - start:
        return -1, 0
    return start, max(length, _NULL)


@kernel(inline=True)
def parse_message(  # noqa: PLR0911  (each check has its status)
    buf: Bytes, position: int, end: int
) -> tuple[int, int, int, int, int, int, int]:
    """Check and take apart the message at ``position``, which ends at ``end``, within ``buf``, or before.

    Returns:
        ``(status, bytes of the message, timestamp, key position, key length, value position, value length)``; a null
        has the length -1. All but the status is void unless it is OK.

    Source: Kafka LegacyRecord.
    """
    if end - position < MESSAGE_BYTES_MIN:
        return Status.END_OF_BUFFER, 0, 0, 0, 0, 0, 0
    magic, size = load_u8(buf, position + MAGIC_AT), load_be32(buf, position + 8) + _LOG_OVERHEAD_BYTES
    if magic > 1:
        return Status.BAD_MAGIC, 0, 0, 0, 0, 0, 0
    if size < (_V1_BYTES_MIN if magic else MESSAGE_BYTES_MIN):
        return Status.BAD_SIZE, 0, 0, 0, 0, 0, 0
    if size > end - position:
        return Status.END_OF_BUFFER, 0, 0, 0, 0, 0, 0
    if not 0 <= load_be64(buf, position) < _OFFSET_MAX or attributes_of(buf, position) & _CODEC_MASK > _CODEC_MAX:
        return Status.BAD_HEADERS, 0, 0, 0, 0, 0, 0
    end, fields, timestamp = position + size, position + _PREFIX_BYTES, NO_TIMESTAMP
    if magic:
        timestamp, fields = load_be64(buf, fields), fields + _TIMESTAMP_BYTES
    key, key_length = _read_field(buf, fields, end)
    if key < 0:
        return Status.BAD_LENGTH, 0, 0, 0, 0, 0, 0
    value, value_length = _read_field(buf, key + max(key_length, 0), end)
    if value < 0 or value + max(value_length, 0) != end:
        return Status.BAD_LENGTH, 0, 0, 0, 0, 0, 0
    return Status.OK, size, timestamp, key, key_length, value, value_length


@kernel(inline=True)
def attributes_of(buf: Bytes, position: int) -> int:
    """Return the attributes of the message at ``position``."""
    return load_u8(buf, position + MAGIC_AT + 1)


@kernel(inline=True)
def stated_checksum(buf: Bytes, position: int) -> int:
    """Return the CRC that the message at ``position`` states, of all from its magic on."""
    return load_be32(buf, position + _LOG_OVERHEAD_BYTES) & 0xFFFFFFFF


@kernel()
def message_checksum(buf: Bytes, position: int, end: int, isal: int) -> int:
    """Return the CRC of the message at ``position``, which ends at ``end`` and lies in ``buf``.

    ISA-L, if its function's address is not 0, uses instructions for it that no level of ours has, and takes a quarter
    of the time.
    """
    start = position + MAGIC_AT
    if isal:
        return call_isal_checksum(isal, (0, address(buf, start), end - start)) & 0xFFFFFFFF
    return signed(checksum_32(buf, start, end))


@kernel(inline=True)
def is_writable_time(timestamp: int) -> bool:
    """Return whether the distance of a time from ``NO_TIMESTAMP`` is an int64, and not negative."""
    return NO_TIMESTAMP <= timestamp <= _TIMESTAMP_MAX


@kernel()
def append_key(
    buf: Bytes, key: int, key_length: int, value_length: int, delta: int, keys: Bytes, at: int
) -> int:  # fmt: skip
    """Write a v2 record of a key, and of an empty value or none, to ``keys``. Return the next position.

    The caller knows the key to lie in ``buf``, and that ``keys`` has room for it and for ``KEY_OVERHEAD_MAX`` bytes.
    """
    body = 4 + varlong_size(delta) + varlong_size(key_length) + max(key_length, 0)
    at = write_varlong(keys, at, body)
    store_be16(keys, at, 0)  # attributes, timestamp delta
    at = write_varlong(keys, at + 2, delta)
    at = write_varlong(keys, at, key_length)
    copy_bytes(keys, at, buf, key, max(key_length, 0))
    at += max(key_length, 0)
    store_be16(keys, at, 0x0100 if value_length < 0 else 0)  # value, headers
    return at + 2


@kernel(inline=True)
def write_message_header(
    out: Bytes, position: int, end: int, offset: int, magic: int, attributes: int, timestamp: int, isal: int
) -> None:
    """Write all bytes before the key of the message that ends at ``end``, its CRC included: by ISA-L if ``isal`` is
    not 0.
    """
    store_be64(out, position, offset)
    store_be32(out, position + 8, end - position - _LOG_OVERHEAD_BYTES)
    store_be16(out, position + MAGIC_AT, magic << 8 | attributes)
    if magic:
        store_be64(out, position + _PREFIX_BYTES, timestamp)
    store_be32(out, position + _LOG_OVERHEAD_BYTES, message_checksum(out, position, end, isal))


@kernel(inline=True)
def fields_at(position: int, magic: int) -> int:
    """Return the position of the length of a message's key."""
    return position + _PREFIX_BYTES + (_TIMESTAMP_BYTES if magic else 0)


@kernel()
def write_message(
    buf: Bytes, key: int, key_length: int, value_length: int, out: Bytes, position: int,
    offset: int, magic: int, attributes: int, timestamp: int, isal: int,
) -> int:  # fmt: skip
    """Write a message with the fields of another to ``out``. Return the next position.

    Args:
        buf: holds the key, and behind it the value, each with its length before it.
        key: where the key starts.
        key_length: -1 for none.
        value_length: -1 for none.
        out: has room.
        position: where to begin.
        offset: as it is stored.
        magic: 0 or 1.
        attributes: as they are stored.
        timestamp: epoch ms; version 0 has none.
        isal: as of ``message_checksum``.

    Source: Kafka LegacyRecord.write.
    """
    at = fields_at(position, magic)
    length = 2 * _FIELD_BYTES + max(key_length, 0) + max(value_length, 0)
    copy_bytes(out, at, buf, key - _FIELD_BYTES, length)
    store_be32(out, at, key_length)
    store_be32(out, at + _FIELD_BYTES + max(key_length, 0), value_length)
    write_message_header(out, position, at + length, offset, magic, attributes, timestamp, isal)
    return at + length


@kernel()
def write_as_record(
    buf: Bytes, key: int, key_length: int, value: int, value_length: int, timestamp_delta: int, offset_delta: int,
    out: Bytes, position: int,
) -> int:  # fmt: skip
    """Write a v2 record with the fields of a message to ``out``, which has room. Return the next position.

    Source: Kafka DefaultRecord.writeTo.
    """
    body = 2 + varlong_size(timestamp_delta) + varlong_size(offset_delta)
    body += varlong_size(key_length) + max(key_length, 0) + varlong_size(value_length) + max(value_length, 0)
    position = write_varlong(out, position, body)
    store_u8(out, position, 0)
    position = write_varlong(out, position + 1, timestamp_delta)
    position = write_varlong(out, position, offset_delta)
    position = write_varlong(out, position, key_length)
    copy_bytes(out, position, buf, key, max(key_length, 0))
    position = write_varlong(out, position + max(key_length, 0), value_length)
    copy_bytes(out, position, buf, value, max(value_length, 0))
    position += max(value_length, 0)
    store_u8(out, position, 0)
    return position + 1


@kernel(integers(2)(BYTES, BATCHES, I64, I64, WORDS))
def clear_tombstones(buf: Bytes, table: Table, first: int, last: int, bitmap: Words) -> tuple[int, int]:
    """Clear the bits of the records without a value in those of ``table[first:last]`` that have any.

    Args:
        buf: holds the plain records of the rows.
        table: with ``tombstones``.
        first: row to begin with.
        last: row to end before.
        bitmap: the survivors.

    Returns:
        ``(status, row)``: OK and ``last``, else what is wrong with ``row``.
    """
    for row in range(max(first, 0), min(last, table.size)):
        batch = table[row]
        if batch.tombstones <= 0:
            continue
        status = check_payload(buf, table, row)
        if status == Status.OK and not holds(bitmap, batch.first_ordinal, batch.record_count):
            status = Status.BITMAP_SHORT
        if status != Status.OK:
            return status, row
        position, delta, delta_max = batch.records_start, -1, batch.last_offset - batch.base_offset
        for ordinal in range(batch.first_ordinal, batch.first_ordinal + batch.record_count):
            status, position, _, _, delta, _, _, value_length = parse_record(
                buf, position, batch.records_end, delta, delta_max
            )
            if status != Status.OK:
                return status, row
            if value_length < 0:
                clear_bit(bitmap, ordinal)
    return Status.OK, last
