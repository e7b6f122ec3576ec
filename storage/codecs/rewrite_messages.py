"""The loop that writes messages of v0 and v1 as ``decide_batches`` decided: copied, or rebuilt from the messages that
stay.

A rebuilt wrapper keeps its version, codec and kind of timestamp. If the log is upgraded, each row that stays becomes a
v2 batch with the same codec and kind of timestamp.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers, Table, Words
from storage.codecs.batches import compress_body, decompress_body
from storage.codecs.snappy_compress import LAST_SEEN, LastSeen
from storage.codecs.symbols import ISAL_CRC32
from storage.kernels.bitmap import get_bit, holds
from storage.kernels.layout import (
    BATCHES,
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MIXED_VERSIONS,
    WRITTEN_BATCHES,
)
from storage.kernels.messages import (
    MAGIC_AT,
    MESSAGE_BYTES_MIN,
    NO_TIMESTAMP,
    fields_at,
    parse_message,
    write_as_record,
    write_message,
    write_message_header,
)
from storage.kernels.rebuild import has_room, note, note_written, write_header
from storage.kernels.status import BatchAction, Status
from storage.machine.intrinsics import copy_bytes, load_be64, load_u8, store_be32
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, BYTES, I64, INTEGERS, OUTPUT, WORDS_READ, integers

_STORED_ATTRIBUTES: Final = CODEC_MASK | LOG_APPEND_TIME
_FIELDS_BYTES: Final = 8  # the lengths of a key that is null, and of a value
_MESSAGE_OVERHEAD: Final = 42  # at most, beside key and value
_RECORD_OVERHEAD: Final = 32  # at most, of a record of v2
_NULL: Final = -1


@kernel()
def _kept_messages(
    arena: Bytes,
    end: int,
    bitmap: Words,
    first_ordinal: int,
    count: int,
    attributes: int,
    time: int,
    plain: Bytes,
    isal: int,
) -> tuple[int, int, int, int, int]:
    """Write the messages in ``arena[:end]`` that stay to ``plain``, as they lie in a wrapper.

    Args:
        arena: messages of one version, decompressed.
        end: of them.
        bitmap: the survivors.
        first_ordinal: of the first message.
        count: of all messages.
        attributes: of the wrapper.
        time: of the wrapper.
        plain: receives them.
        isal: as of ``message_checksum``.

    Returns:
        ``(status, bytes in plain, how many stay, offset of the last one that stays behind that of the last message, the
        newest timestamp)``.

    Source: Kafka MemoryRecordsBuilder.appendLegacyRecord.
    """
    fixed_time, kept, base, last, newest, position, offset = attributes & LOG_APPEND_TIME, 0, 0, 0, NO_TIMESTAMP, 0, 0
    at = 0
    for ordinal in range(first_ordinal, first_ordinal + count):
        status, size, timestamp, key, key_length, _, value_length = parse_message(arena, position, end)
        if status != Status.OK:
            return status, 0, 0, 0, 0
        offset, magic = load_be64(arena, position), load_u8(arena, position + MAGIC_AT)
        position += size
        if not get_bit(bitmap, ordinal):
            continue
        if not has_room(plain, at, _MESSAGE_OVERHEAD + max(key_length, 0) + max(value_length, 0)):
            return Status.NEEDS_PYTHON, 0, 0, 0, 0
        timestamp = time if fixed_time and magic else timestamp
        if kept == 0 and magic:
            base = offset
        at = write_message(
            arena, key, key_length, value_length, plain, at, offset - base, magic,
            LOG_APPEND_TIME if fixed_time and magic else 0, timestamp, isal,
        )  # fmt: skip
        last, newest, kept = offset, max(newest, timestamp), kept + 1
    if position != end or kept == 0:
        return Status.BAD_COUNT, 0, 0, 0, 0
    return Status.OK, at, kept, last - offset, newest


@kernel()
def _keeps_tombstone(messages: Bytes, position: int, end: int, bitmap: Words, first_ordinal: int, count: int) -> bool:
    """Return whether a message without a value stays."""
    for ordinal in range(first_ordinal, first_ordinal + count):
        status, size, _, _, _, _, value_length = parse_message(messages, position, end)
        if status != Status.OK:
            return False
        if value_length < 0 and get_bit(bitmap, ordinal):
            return True
        position += size
    return False


@kernel()
def _kept_records(
    messages: Bytes, position: int, end: int, bitmap: Words, table: Table, row: int, time: int, horizon_ms: int,
    plain: Bytes,
) -> tuple[int, int, int, int, int, int, int]:  # fmt: skip
    """Write the messages in ``messages[position:end]`` that stay to ``plain``, as records of v2.

    Returns:
        ``(status, bytes in plain, how many stay, first offset, last offset, base timestamp, newest timestamp)``.

    Source: Kafka MemoryRecordsBuilder.appendDefaultRecord.
    """
    batch = table[row]
    fixed_time, at, kept, first, last, newest = batch.attributes & LOG_APPEND_TIME, 0, 0, 0, 0, NO_TIMESTAMP
    base, is_based, shift, is_first = horizon_ms, horizon_ms >= 0, 0, True
    for ordinal in range(batch.first_ordinal, batch.first_ordinal + batch.record_count):
        status, size, timestamp, key, key_length, value, value_length = parse_message(messages, position, end)
        if status != Status.OK:
            return status, 0, 0, 0, 0, 0, 0
        offset, magic = load_be64(messages, position), load_u8(messages, position + MAGIC_AT)
        position += size
        if is_first:
            shift, is_first = batch.base_offset - offset, False
        if not get_bit(bitmap, ordinal):
            continue
        if not has_room(plain, at, _RECORD_OVERHEAD + max(key_length, 0) + max(value_length, 0)):
            return Status.NEEDS_PYTHON, 0, 0, 0, 0, 0, 0
        timestamp, last = time if fixed_time and magic else timestamp, offset + shift
        if not is_based:
            base, is_based = timestamp, True
        if kept == 0:
            first = last
        at = write_as_record(
            messages, key, key_length, value, value_length, timestamp - base, last - first, plain, at
        )  # fmt: skip
        newest, kept = max(newest, timestamp), kept + 1
    if position != end or kept == 0:
        return Status.BAD_COUNT, 0, 0, 0, 0, 0, 0
    return Status.OK, at, kept, first, last, base, time if fixed_time else newest


@kernel()
def _upgrade(
    messages: Bytes, start: int, end: int, table: Table, row: int, bitmap: Words, time: int, horizon_ms: int,
    plain: Bytes, out: Bytes, position: int, calls: Integers, last_seen: LastSeen,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Write the messages of one row that stay as a v2 batch, and describe that batch in the row.

    Return its status, size, records and max timestamp.
    """
    batch = table[row]
    stamped = horizon_ms >= 0 and _keeps_tombstone(
        messages, start, end, bitmap, batch.first_ordinal, batch.record_count
    )  # fmt: skip
    status, plain_bytes, kept, first, last, base, newest = _kept_records(
        messages, start, end, bitmap, table, row, time, horizon_ms if stamped else _NULL, plain
    )
    if status != Status.OK:
        return Status.NEEDS_PYTHON, 0, 0, 0
    if not has_room(out, position, HEADER_BYTES):
        return Status.OUTPUT_FULL, 0, 0, 0
    codec = batch.attributes & CODEC_MASK
    status, end = compress_body(codec, plain, 0, plain_bytes, out, position + HEADER_BYTES, calls, last_seen, 2)
    if status != Status.OK:
        return status, 0, 0, 0
    batch.base_offset, batch.last_offset = first, last
    if stamped:
        batch.outcome = BatchAction.STAMP
    return write_header(out, position, end - position, table, row, kept, base, newest), end - position, kept, newest


@kernel()
def _rewrap(
    arena: Bytes, plain_end: int, table: Table, row: int, bitmap: Words, time: int, magic: int, plain: Bytes,
    out: Bytes, position: int, calls: Integers, last_seen: LastSeen,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Write a wrapper of the messages that stay, and set the row's last offset; the answer of ``_upgrade``."""
    batch = table[row]
    codec, attributes = batch.attributes & CODEC_MASK, batch.attributes & _STORED_ATTRIBUTES
    status, plain_bytes, kept, behind, newest = _kept_messages(
        arena, plain_end, bitmap, batch.first_ordinal, batch.record_count, attributes, time, plain, calls[ISAL_CRC32]
    )
    if status != Status.OK:
        return Status.NEEDS_PYTHON, 0, 0, 0
    fields = fields_at(position, magic)
    body = fields + _FIELDS_BYTES
    if not has_room(out, position, body - position):
        return Status.OUTPUT_FULL, 0, 0, 0
    status, end = compress_body(codec, plain, 0, plain_bytes, out, body, calls, last_seen, magic)
    if status != Status.OK:
        return status, 0, 0, 0
    store_be32(out, fields, _NULL)
    store_be32(out, fields + 4, end - body)
    time = time if attributes & LOG_APPEND_TIME and magic else newest
    batch.last_offset += behind
    write_message_header(out, position, end, batch.last_offset, magic, attributes, time, calls[ISAL_CRC32])
    return Status.OK, end - position, kept, time if magic else NO_TIMESTAMP


@kernel()
def _copy_kept(
    buf: Bytes, table: Table, row: int, bitmap: Words, out: Bytes, position: int, written: Table, written_rows: int
) -> tuple[int, int, int]:
    """Copy the messages that share a row and stay. Return the status, and the next positions in both outputs."""
    batch = table[row]
    if not holds(bitmap, batch.first_ordinal, batch.record_count):
        return Status.BITMAP_SHORT, position, written_rows
    start, end = batch.position, batch.position + batch.size
    for ordinal in range(batch.first_ordinal, batch.first_ordinal + batch.record_count):
        status, size, timestamp, _, _, _, _ = parse_message(buf, start, end)
        if status != Status.OK:
            return status, position, written_rows
        if get_bit(bitmap, ordinal):
            if not has_room(out, position, size):
                return Status.OUTPUT_FULL, position, written_rows
            if written_rows >= written.size:
                return Status.TABLE_FULL, position, written_rows
            copy_bytes(out, position, buf, start, size)
            written_rows = note(written, written_rows, position, size, 1, load_be64(buf, start), timestamp)
            position += size
        start += size
    return (Status.OK if start == end else Status.BAD_COUNT), position, written_rows


@kernel()
def _rebuild(  # noqa: PLR0911  (each check has its status)
    buf: Bytes, table: Table, row: int, bitmap: Words, upgrades: bool, horizon_ms: int, arena: Bytes, plain: Bytes,
    out: Bytes, position: int, calls: Integers, last_seen: LastSeen,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Rebuild one message or wrapper; the answer of ``_upgrade``."""
    batch = table[row]
    codec, end = batch.attributes & CODEC_MASK, batch.position + batch.size
    if not upgrades and (codec == 0 or batch.attributes & MIXED_VERSIONS):
        return Status.NEEDS_PYTHON, 0, 0, 0
    if not holds(bitmap, batch.first_ordinal, batch.record_count):
        return Status.BITMAP_SHORT, 0, 0, 0
    status, _, time, _, _, value, value_length = parse_message(buf, batch.position, end)
    if status != Status.OK:
        return status, 0, 0, 0
    if codec == 0:
        return _upgrade(
            buf, batch.position, end, table, row, bitmap, time, horizon_ms, plain, out, position, calls, last_seen
        )
    magic = load_u8(buf, batch.position + MAGIC_AT)
    status, plain_end = decompress_body(
        codec, buf, value, value + max(value_length, 0), arena, 0, calls, magic
    )  # fmt: skip
    if status != Status.OK:
        return Status.NEEDS_PYTHON, 0, 0, 0
    if upgrades:
        return _upgrade(
            arena, 0, plain_end, table, row, bitmap, time, horizon_ms, plain, out, position, calls, last_seen
        )
    return _rewrap(arena, plain_end, table, row, bitmap, time, magic, plain, out, position, calls, last_seen)


@kernel()
def _is_within(buf: Bytes, table: Table, row: int) -> bool:
    position, size = table[row].position, table[row].size
    return position >= 0 and MESSAGE_BYTES_MIN <= size <= buf.size - position  # type: ignore[no-any-return]


@kernel()
def _is_shared(buf: Bytes, table: Table, row: int) -> bool:
    """Return whether several messages share a row, and some of them stay."""
    batch = table[row]
    is_written = batch.outcome in (BatchAction.COPY, BatchAction.REBUILD)
    return is_written and batch.attributes & CODEC_MASK == 0 and batch.record_count > 1 and _is_within(buf, table, row)


@kernel()
def _write(
    buf: Bytes, table: Table, row: int, bitmap: Words, upgrades: bool, horizon_ms: int, arena: Bytes, plain: Bytes,
    out: Bytes, position: int, calls: Integers, last_seen: LastSeen,
) -> tuple[int, int, int, int]:  # fmt: skip
    batch = table[row]
    if batch.outcome == BatchAction.DROP:
        return Status.OK, 0, 0, 0
    if not _is_within(buf, table, row):
        return Status.BAD_SIZE, 0, 0, 0
    if batch.outcome == BatchAction.REBUILD:
        return _rebuild(
            buf, table, row, bitmap, upgrades, horizon_ms, arena, plain, out, position, calls, last_seen
        )  # fmt: skip
    if batch.outcome != BatchAction.COPY:
        return Status.NEEDS_RECORDS, 0, 0, 0
    if not has_room(out, position, batch.size):
        return Status.OUTPUT_FULL, 0, 0, 0
    copy_bytes(out, position, buf, batch.position, batch.size)
    return Status.OK, batch.size, batch.record_count, batch.max_timestamp


@kernel(
    integers(4)(
        BYTES, BATCHES, I64, I64, WORDS_READ, BOOLEAN, I64, OUTPUT, OUTPUT, OUTPUT, I64, WRITTEN_BATCHES, I64,
        INTEGERS, LAST_SEEN,
    )
)  # fmt: skip
def rewrite_messages(  # noqa: PLR0917  (a kernel takes no structures)
    buf: Bytes,
    table: Table,
    first: int,
    last: int,
    bitmap: Words,
    upgrades: bool,
    horizon_ms: int,
    arena: Bytes,
    plain: Bytes,
    out: Bytes,
    position: int,
    written: Table,
    written_rows: int,
    calls: Integers,
    last_seen: LastSeen,
) -> tuple[int, int, int, int]:
    """Write the decided messages ``table[first:last]`` to ``out``, and a row to ``written`` for each message there.

    Args:
        buf: the window that the table was read from.
        table: of ``read_messages`` or ``read_messages_again``, with ``outcome``. A rebuilt row gets its new offsets.
            If the log is upgraded, no messages share a row, and the table is of ``read_messages``.
        first: row to begin with.
        last: row to end before.
        bitmap: the survivors; they alone decide.
        upgrades: whether what is rebuilt becomes v2.
        horizon_ms: the delete horizon of v2 batches with a tombstone, epoch ms; negative for none.
        arena: for the messages of one wrapper, decompressed.
        plain: for those that stay. Neither overlaps another array.
        out: never overlaps ``buf``.
        position: where in ``out`` to begin.
        written: ``layout.WRITTEN``; a row for each message of those that share a row in ``table``.
        written_rows: rows of it already in use.
        calls: ``CodecCalls.words`` of this thread.
        last_seen: ``CodecCalls.last_seen`` of this thread.

    Returns:
        As ``rewrite_batches``. NEEDS_PYTHON: ``row`` is for the readable code.

    Source: Kafka MemoryRecords.filterTo, buildRetainedRecordsInto.
    """
    for row in range(max(first, 0), min(last, table.size)):
        if written_rows < 0 or written_rows >= written.size:
            return Status.TABLE_FULL, row, position, written_rows
        if not upgrades and _is_shared(buf, table, row):
            status, next_position, next_row = _copy_kept(
                buf, table, row, bitmap, out, position, written, written_rows
            )  # fmt: skip
            if status != Status.OK:
                return status, row, position, written_rows
            position, written_rows = next_position, next_row
            continue
        status, size, records, latest = _write(
            buf, table, row, bitmap, upgrades, horizon_ms, arena, plain, out, position, calls, last_seen
        )  # fmt: skip
        if status != Status.OK:
            return status, row, position, written_rows
        if size:
            written_rows = note_written(table, row, position, size, records, latest, written, written_rows)
            position += size
    return Status.OK, last, position, written_rows
