"""The loops that read messages of versions 0 and 1 into a batch table: each message, or wrapper with messages in it, is
one row, as if it were a v2 batch. If the caller wants it, messages side by side that are not compressed share a row.

It handles the messages that Kafka's clients and brokers write. At any other message it stops, and
``storage.scan.legacy_rows`` reads that message by the readable code.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import decompress_body
from storage.codecs.symbols import ISAL_CRC32
from storage.kernels.layout import BATCHES, CODEC_MASK, LOG_APPEND_TIME, MIXED_VERSIONS, UNKNOWN, WRITTEN_BATCHES
from storage.kernels.messages import (
    KEY_OVERHEAD_MAX,
    MAGIC_AT,
    MESSAGE_BYTES_MIN,
    NO_TIMESTAMP,
    append_key,
    attributes_of,
    is_writable_time,
    message_checksum,
    parse_message,
    stated_checksum,
)
from storage.kernels.rebuild import note
from storage.kernels.status import BatchAction, BatchFate, Status
from storage.machine.intrinsics import load_be64, load_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, BYTES, I64, INTEGERS, OUTPUT, integers

_STORED_ATTRIBUTES: Final = 0x0F
_DELTA_MAX: Final = 2**31 - 1
_NONE: Final = -1  # of the fields that only v2 has


@kernel()
def _is_sound(buf: Bytes, position: int, size: int, calls: Integers) -> bool:
    """Return whether the CRC of a message, which lies in ``buf``, is the one that the message states."""
    return message_checksum(buf, position, position + size, calls[ISAL_CRC32]) == stated_checksum(buf, position)


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


@kernel()
def _read_on(
    buf: Bytes, end: int, table: Table, row: int, keys: Bytes, at: int, calls: Integers, is_unverified: bool,
    share_bytes: int, share_below: int,
) -> int:  # fmt: skip
    """Add the messages behind that of a row to the row, until it has ``share_bytes``. Return the next position in keys.

    A message that cannot be added for any reason is left: the next row begins with it, and judges it.
    """
    batch = table[row]
    while batch.size < share_bytes:
        position = batch.position + batch.size
        status, size, timestamp, key, key_length, _, value_length = parse_message(buf, position, end)
        if status != Status.OK or attributes_of(buf, position) & CODEC_MASK or not is_writable_time(timestamp):
            return at
        offset = load_be64(buf, position)
        if not batch.last_offset < offset < share_below or offset - batch.base_offset > _DELTA_MAX:
            return at
        if keys.size - at < max(key_length, 0) + KEY_OVERHEAD_MAX:
            return at
        if is_unverified and not _is_sound(buf, position, size, calls):
            return at
        at = append_key(buf, key, key_length, value_length, offset - batch.base_offset, keys, at)
        batch.size, batch.last_offset, batch.records_end = batch.size + size, offset, at
        batch.record_count, batch.max_timestamp = batch.record_count + 1, max(batch.max_timestamp, timestamp)
    return at


@kernel(
    integers(6)(BYTES, I64, I64, I64, I64, BATCHES, I64, I64, OUTPUT, I64, OUTPUT, INTEGERS, BOOLEAN, I64, I64)
)  # fmt: skip
def read_messages(  # noqa: PLR0917  (a kernel takes no structures)
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
    share_bytes: int,
    share_below: int,
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
        share_bytes: a row takes further messages that are not compressed until it has so many bytes; 0: it takes none.
        share_below: a message at or above this offset shares no row.

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
        if share_bytes and batch.attributes & CODEC_MASK == 0 and batch.last_offset < share_below:
            at = _read_on(buf, end, table, row, keys, at, calls, is_unverified, share_bytes, share_below)
        batch.first_ordinal = next_ordinal
        next_ordinal += batch.record_count
        next_offset = batch.last_offset + 1
        position += batch.size
        row += 1
    return Status.OK, row, position, next_offset, next_ordinal, at


@kernel(integers(2)(BYTES, I64, I64, I64, BATCHES))
def read_messages_again(buf: Bytes, start: int, end: int, next_ordinal: int, table: Table) -> tuple[int, int]:
    """Fill a table with messages that ``read_messages`` took before, without their keys: nothing is decompressed.

    Args:
        buf: as of ``read_messages``.
        start: where the slice starts.
        end: where it ends; cut to the buffer.
        next_ordinal: ordinal of the first record.
        table: ``layout.BATCH`` with the ``record_count`` of each row. ``base_offset`` becomes void for a wrapper.

    Returns:
        ``(status, row)``: OK and the table's size, else what is wrong with ``row``. BAD_SIZE: the rows do not end at
        ``end``.
    """
    position, end = max(start, 0), min(end, buf.size)
    for row in range(table.size):
        batch, offset, newest = table[row], 0, NO_TIMESTAMP
        batch.position, batch.first_ordinal = position, next_ordinal
        left = batch.record_count
        while left > 0:
            status, size, timestamp, _, _, _, _ = parse_message(buf, position, end)
            if status != Status.OK:
                return status, row
            attributes, offset = attributes_of(buf, position), load_be64(buf, position)
            is_wrapper = attributes & CODEC_MASK != 0
            if left == batch.record_count:
                is_timed = load_u8(buf, position + MAGIC_AT) != 0
                batch.attributes = attributes & (_STORED_ATTRIBUTES if is_timed else CODEC_MASK)
                batch.base_offset = offset
            elif is_wrapper:
                return Status.BAD_COUNT, row
            position, newest = position + size, max(newest, timestamp)
            left = 0 if is_wrapper else left - 1
        batch.size, batch.last_offset, batch.max_timestamp = position - batch.position, offset, newest
        next_ordinal += batch.record_count
    return (Status.OK if position == end else Status.BAD_SIZE), table.size


@kernel(integers(2)(BYTES, BATCHES, WRITTEN_BATCHES))
def list_messages(buf: Bytes, table: Table, written: Table) -> tuple[int, int]:
    """List the messages and wrappers of ``table``, as if each had been written where it lies.

    Args:
        buf: as of ``read_messages``.
        table: of ``read_messages`` or ``read_messages_again``.
        written: ``layout.WRITTEN``.

    Returns:
        ``(status, rows of written)``.
    """
    rows = 0
    for row in range(table.size):
        batch = table[row]
        is_wrapper, position = batch.attributes & CODEC_MASK != 0, max(batch.position, 0)
        for _ in range(1 if is_wrapper else batch.record_count):
            status, size, timestamp, _, _, _, _ = parse_message(buf, position, buf.size)
            if status != Status.OK:
                return status, rows
            if rows >= written.size:
                return Status.TABLE_FULL, rows
            records = batch.record_count if is_wrapper else 1
            rows = note(written, rows, position, size, records, load_be64(buf, position), timestamp)
            position += size
    return Status.OK, rows
