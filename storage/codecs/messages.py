"""The loop that reads messages of versions 0 and 1 into a batch table: each message, or wrapper with messages in it, is
one row, as if it were a v2 batch.

It handles the messages that Kafka's clients and brokers write. At any other message it stops, and
``storage.scan.legacy_rows`` reads that message by the readable code.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import decompress_body
from storage.codecs.symbols import ISAL_CRC32
from storage.kernels.crc import checksum_32
from storage.kernels.layout import BATCHES, CODEC_MASK, LOG_APPEND_TIME, MIXED_VERSIONS, UNKNOWN
from storage.kernels.messages import (
    KEY_OVERHEAD_MAX,
    MAGIC_AT,
    MESSAGE_BYTES_MIN,
    append_key,
    attributes_of,
    is_writable_time,
    parse_message,
    stated_checksum,
)
from storage.kernels.status import BatchAction, BatchFate, Status
from storage.machine.c_calls import address, call_isal_checksum
from storage.machine.intrinsics import load_be64, load_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, BYTES, I64, INTEGERS, OUTPUT, integers, signed

_STORED_ATTRIBUTES: Final = 0x0F
_DELTA_MAX: Final = 2**31 - 1
_NONE: Final = -1  # of the fields that only v2 has


@kernel()
def _is_sound(buf: Bytes, position: int, size: int, calls: Integers) -> bool:
    """Return whether the CRC of a message, which lies in ``buf``, is the one that the message states.

    ISA-L uses instructions for it that no level of ours has, and takes a quarter of the time.
    """
    start, stated = position + MAGIC_AT, stated_checksum(buf, position)
    if calls[ISAL_CRC32]:
        found = call_isal_checksum(calls[ISAL_CRC32], (0, address(buf, start), position + size - start))
        return found & 0xFFFFFFFF == stated
    return signed(checksum_32(buf, start, position + size)) == stated


@kernel()
def _read_inner(
    plain: Bytes, end: int, wrapper_magic: int, fixed_time: bool, time: int, keys: Bytes, at: int
) -> tuple[int, int, int, int, int, int, int]:
    """Read the messages of a wrapper, ``plain[:end]``, and write their keys.

    Returns:
        ``(status, next position in keys, records, first offset, last offset, first timestamp, whether a version is
        another one than the wrapper's)``; the offsets as they are stored.
    """
    position, count, first, previous, first_time, is_mixed = 0, 0, 0, _NONE, 0, 0
    while position < end:
        status, size, timestamp, key, key_length, _, value_length = parse_message(plain, position, end)
        if status != Status.OK:
            return status, at, 0, 0, 0, 0, 0
        offset, magic = load_be64(plain, position), load_u8(plain, position + MAGIC_AT)
        if fixed_time and magic:
            timestamp = time
        if attributes_of(plain, position) & CODEC_MASK or not is_writable_time(timestamp):
            return Status.BAD_HEADERS, at, 0, 0, 0, 0, 0
        if count == 0:
            first, first_time = offset, timestamp
        elif offset <= previous or offset - first > _DELTA_MAX:
            return Status.BAD_OFFSETS, at, 0, 0, 0, 0, 0
        if keys.size - at < max(key_length, 0) + KEY_OVERHEAD_MAX:
            return Status.OUTPUT_FULL, at, 0, 0, 0, 0, 0
        at = append_key(plain, key, key_length, value_length, offset - first, keys, at)
        is_mixed |= magic != wrapper_magic
        previous, position, count = offset, position + size, count + 1
    return (Status.OK if count else Status.BAD_COUNT), at, count, first, previous, first_time, is_mixed


@kernel()
def _read_message(  # noqa: PLR0911  (each check has its status)
    buf: Bytes, position: int, end: int, next_offset: int, table: Table, row: int,
    keys: Bytes, at: int, arena: Bytes, calls: Integers, is_unverified: bool,
) -> tuple[int, int]:  # fmt: skip
    """Fill one row, all but its ordinal, and write its keys: ``(status, next position in keys)``."""
    status, size, timestamp, key, key_length, value, value_length = parse_message(buf, position, end)
    if status != Status.OK:
        return status, at
    if is_unverified and not _is_sound(buf, position, size, calls):
        return Status.BAD_CRC, at
    offset, magic = load_be64(buf, position), load_u8(buf, position + MAGIC_AT)
    attributes = attributes_of(buf, position) & (_STORED_ATTRIBUTES if magic else CODEC_MASK)
    first, count, first_time, after = offset, 1, timestamp, at
    codec = attributes & CODEC_MASK
    if codec == 0:
        if not is_writable_time(timestamp):
            return Status.BAD_HEADERS, at
        if keys.size - at < max(key_length, 0) + KEY_OVERHEAD_MAX:
            return Status.OUTPUT_FULL, at
        after = append_key(buf, key, key_length, value_length, 0, keys, at)
    else:
        if key_length >= 0 or value_length < 0:
            return Status.BAD_HEADERS, at
        status, plain_end = decompress_body(codec, buf, value, value + value_length, arena, 0, calls, magic)
        if status != Status.OK:
            return Status.NEEDS_PYTHON, at
        fixed_time = magic == 1 and attributes & LOG_APPEND_TIME != 0
        status, after, count, first, last, first_time, is_mixed = _read_inner(
            arena, plain_end, magic, fixed_time, timestamp, keys, at
        )
        if status != Status.OK:
            return Status.OUTPUT_FULL if status == Status.OUTPUT_FULL else Status.NEEDS_PYTHON, at
        shift = offset - last if magic and offset else 0
        if shift < 0 or last + shift != offset:
            return Status.BAD_OFFSETS, at
        first += shift
        attributes |= MIXED_VERSIONS if is_mixed else 0
    if first < next_offset:
        return Status.BAD_OFFSETS, at
    batch = table[row]
    batch.position, batch.size = position, size
    batch.records_start, batch.records_end = at, after
    batch.base_offset, batch.last_offset = first, offset
    batch.base_timestamp, batch.max_timestamp = first_time, timestamp
    batch.crc, batch.record_count, batch.attributes = stated_checksum(buf, position), count, attributes
    batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.leader_epoch = _NONE, _NONE, _NONE, _NONE
    batch.tombstones, batch.fate, batch.outcome = UNKNOWN, BatchFate.DELETE_EMPTY, BatchAction.UNDECIDED
    return Status.OK, after


@kernel(integers(6)(BYTES, I64, I64, I64, I64, BATCHES, I64, I64, OUTPUT, I64, OUTPUT, INTEGERS, BOOLEAN))
def read_messages(
    buf: Bytes,
    start: int,
    end: int,
    next_offset: int,
    next_ordinal: int,
    table: Table,
    row: int,
    last: int,
    keys: Bytes,
    at: int,
    arena: Bytes,
    calls: Integers,
    is_unverified: bool,
) -> tuple[int, int, int, int, int, int]:
    """Fill ``table[row:last]`` with the messages that lie in full in ``buf[start:end]``, and write their keys.

    Args:
        buf: a window of a ``.log``.
        start: where a message starts.
        end: cut to the buffer.
        next_offset: the least offset allowed at first; not negative.
        next_ordinal: ordinal of the first record.
        table: ``layout.BATCH``; ``records_start`` and ``records_end`` of its rows will index ``keys``.
        row: to begin with.
        last: row to end before.
        keys: for the records' keys, as v2 records.
        at: where in it to begin.
        arena: for the messages of one wrapper, decompressed. Neither overlaps another array.
        calls: ``CodecCalls.words`` of this thread.
        is_unverified: nobody has verified the messages' CRC yet.

    Returns:
        ``(status, row, position, next_offset, next_ordinal, at)``: the row behind those filled, where the first message
        not taken starts, and the running numbers for the next call. OK: the table is full, ``end`` is reached or cuts
        a message off, or another version stands there. OUTPUT_FULL: ``keys`` has no room for the message. Others:
        the message is for the readable code.

    Source: Kafka AbstractLegacyRecordBatch.
    """
    position, end, last = max(start, 0), min(end, buf.size), min(last, table.size)
    next_offset, row, at = max(next_offset, 0), max(row, 0), max(at, 0)
    while row < last and end - position >= MESSAGE_BYTES_MIN and load_u8(buf, position + MAGIC_AT) <= 1:
        status, after = _read_message(
            buf, position, end, next_offset, table, row, keys, at, arena, calls, is_unverified
        )  # fmt: skip
        if status == Status.END_OF_BUFFER:
            break
        if status != Status.OK:
            return status, row, position, next_offset, next_ordinal, at
        batch, at = table[row], after
        batch.first_ordinal = next_ordinal
        next_ordinal += batch.record_count
        next_offset = batch.last_offset + 1
        position += batch.size
        row += 1
    return Status.OK, row, position, next_offset, next_ordinal, at
