"""Batches and records as lines: the walk over both, and one line after the other."""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Bytes, Integers, Table
from storage.kernels.layout import (
    BATCHES,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADERS_AT,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    LOCATED_FIELDS,
    LOG_APPEND_TIME,
    OFFSET,
    ROW,
    TIMESTAMP,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.kernels.records import read_varint
from storage.kernels.status import Status
from storage.machine.intrinsics import load_be16, load_be32
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, OUTPUT, Array, integers
from storage.printing.pieces import (
    is_utf8,
    put_base64,
    put_boolean,
    put_java_text,
    put_json_text,
    put_number,
    put_word,
    widened,
)
from storage.printing.rows import (
    BATCH_BYTES_MAX,
    check_record,
    next_header,
    record_room,
    record_sequence,
    sequence_after,
)
from storage.printing.vocabulary import BASE64_END, HIDDEN, NULL, SLOT_BYTES, UTF8_END, WORDS, Print, Word

_LOCATED: Final = Array(np.dtype(np.int64), is_readonly=True)
_WORDS_BYTES: Final = WORDS * SLOT_BYTES
_TRANSACTIONAL: Final = 0x10
_MARKER_KEY_BYTES: Final = 4
_MARKER_VALUE_BYTES: Final = 6
_BATCHES_FLAG: Final = int(Print.BATCHES)
_ALL_FLAG: Final = int(Print.ALL_BATCHES)
_RECORDS_FLAG: Final = int(Print.RECORDS)
_METADATA_FLAG: Final = int(Print.METADATA)
_CONTENTS_FLAG: Final = int(Print.CONTENTS)
_HIDE_KEYS_FLAG: Final = int(Print.HIDE_KEYS)
_HIDE_VALUES_FLAG: Final = int(Print.HIDE_VALUES)
_JSON_FLAG: Final = int(Print.JSON)


@kernel(inline=True)
def _put_named(out: Bytes, at: int, words: Bytes, word: int, value: int) -> int:
    return put_number(out, put_word(out, at, words, word), value)


@kernel()
def _put_batch(out: Bytes, at: int, words: Bytes, table: Table, row: int, is_valid: int, file_position: int) -> int:
    """Return the next position."""
    batch, delta = table[row], table[row].last_offset - table[row].base_offset
    attributes = widened(batch.attributes)
    at = _put_named(out, at, words, Word.BATCH, batch.base_offset)
    at = _put_named(out, at, words, Word.LAST_OFFSET, batch.last_offset)
    at = _put_named(out, at, words, Word.COUNT, widened(batch.record_count))
    at = _put_named(out, at, words, Word.BASE_SEQUENCE, widened(batch.base_sequence))
    at = _put_named(out, at, words, Word.LAST_SEQUENCE, sequence_after(widened(batch.base_sequence), delta))
    at = _put_named(out, at, words, Word.PRODUCER_ID, batch.producer_id)
    at = _put_named(out, at, words, Word.PRODUCER_EPOCH, widened(batch.producer_epoch))
    at = _put_named(out, at, words, Word.LEADER_EPOCH, widened(batch.leader_epoch))
    at = put_boolean(out, put_word(out, at, words, Word.IS_TRANSACTIONAL), words, attributes & _TRANSACTIONAL)
    at = put_boolean(out, put_word(out, at, words, Word.IS_CONTROL), words, attributes & CONTROL)
    at = put_word(out, at, words, Word.HORIZON)
    if attributes & DELETE_HORIZON:
        at = _put_named(out, at, words, Word.HORIZON_VALUE, batch.base_timestamp)
        at = put_word(out, at, words, Word.HORIZON_END)
    else:
        at = put_word(out, at, words, Word.NO_HORIZON)
    at = _put_named(out, at, words, Word.POSITION, batch.position + file_position)
    is_append_time = 1 if attributes & LOG_APPEND_TIME else 0
    at = put_word(out, at, words, Word.CREATE_TIME_OF_BATCH + is_append_time)
    at = _put_named(out, at, words, Word.MAX_TIMESTAMP, batch.max_timestamp)
    at = _put_named(out, at, words, Word.SIZE, batch.size)
    at = put_word(out, at, words, Word.NO_CODEC + min(attributes & CODEC_MASK, 4))
    at = _put_named(out, at, words, Word.CRC, widened(batch.crc))
    at = put_boolean(out, put_word(out, at, words, Word.IS_VALID), words, is_valid)
    return put_word(out, at, words, Word.LINE_END)


@kernel(inline=True)
def _put_field(
    out: Bytes, at: int, words: Bytes, field: int, buf: Bytes, start: int, length: int, is_hidden: int, is_json: int
) -> int:
    """Put a key or a value with the words from ``field`` on. Return the next position."""
    if length < 0:
        return put_word(out, put_word(out, at, words, field + NULL), words, field + NULL + 1)
    if is_hidden:
        return put_word(out, put_word(out, at, words, field + HIDDEN), words, field + HIDDEN + 1)
    at = put_word(out, at, words, field)
    if not is_json:
        return put_java_text(out, at, buf, start, start + length)
    if is_utf8(buf, start, start + length):
        return put_word(out, put_json_text(out, at, buf, start, start + length), words, field + UTF8_END)
    return put_word(out, put_base64(out, at, buf, start, start + length), words, field + BASE64_END)


@kernel()
def _put_headers(
    out: Bytes, at: int, words: Bytes, buf: Bytes, located: Integers, place: int, flags: int
) -> tuple[int, int]:
    """Put the keys of a record's headers as text, or its headers as JSON. Return status and the next position."""
    room = located.size // LOCATED_FIELDS
    headers = located[HEADERS_AT * room + place]
    end = headers + located[HEADERS_BYTES * room + place]
    count, position = read_varint(buf, headers, end)
    if position > end or count < 0:
        return Status.BAD_HEADERS, at
    at = put_word(out, at, words, Word.HEADERS)
    for number in range(count):
        status, key, key_bytes, value, value_bytes = next_header(buf, position, end)
        if status != Status.OK:
            return status, at
        if number:
            at = put_word(out, at, words, Word.COMMA)
        if flags & _JSON_FLAG:
            at = _put_field(out, at, words, Word.HEADER_KEY, buf, key, key_bytes, 0, 1)
            at = _put_field(out, at, words, Word.VALUE, buf, value, value_bytes, flags & _HIDE_VALUES_FLAG, 1)
            at = put_word(out, at, words, Word.HEADER_END)
        else:
            at = put_java_text(out, at, buf, key, key + key_bytes)
        position = value + max(value_bytes, 0)
    return Status.OK, put_word(out, at, words, Word.HEADERS_END)


@kernel()
def _put_marker(out: Bytes, at: int, words: Bytes, buf: Bytes, located: Integers, place: int) -> tuple[int, int]:
    """Return status and the next position. NEEDS_PYTHON: it is no transaction marker, or cannot be one."""
    room = located.size // LOCATED_FIELDS
    key, key_bytes = located[KEY_AT * room + place], located[KEY_BYTES * room + place]
    value, value_bytes = located[VALUE_AT * room + place], located[VALUE_BYTES * room + place]
    if key_bytes < _MARKER_KEY_BYTES or value_bytes < _MARKER_VALUE_BYTES:
        return Status.NEEDS_PYTHON, at
    kind = load_be16(buf, key + 2)
    if load_be16(buf, key) < 0 or load_be16(buf, value) < 0 or (kind != 0 and kind != 1):  # noqa: PLR1714 - no tuple
        return Status.NEEDS_PYTHON, at
    at = put_word(out, at, words, Word.MARKER)
    return Status.OK, _put_named(out, at, words, Word.ABORT + kind, widened(load_be32(buf, value + 2)))


@kernel()
def _put_metadata(
    out: Bytes, at: int, words: Bytes, table: Table, located: Integers, place: int, attributes: int
) -> int:
    """Return the next position."""
    room, is_append_time = located.size // LOCATED_FIELDS, 1 if attributes & LOG_APPEND_TIME else 0
    at = _put_named(out, at, words, Word.RECORD, located[OFFSET * room + place])
    at = _put_named(out, at, words, Word.CREATE_TIME + is_append_time, located[TIMESTAMP * room + place])
    at = put_word(out, at, words, Word.BEHIND_CREATE_TIME + is_append_time)
    at = _put_named(out, at, words, Word.KEY_SIZE, max(located[KEY_BYTES * room + place], -1))
    at = _put_named(out, at, words, Word.VALUE_SIZE, max(located[VALUE_BYTES * room + place], -1))
    return _put_named(out, at, words, Word.SEQUENCE, record_sequence(table, located, place))


@kernel()
def _put_contents(
    out: Bytes, at: int, words: Bytes, buf: Bytes, located: Integers, place: int, flags: int
) -> tuple[int, int]:
    """Return status and the next position."""
    room, is_json = located.size // LOCATED_FIELDS, flags & _JSON_FLAG
    key, key_bytes = located[KEY_AT * room + place], located[KEY_BYTES * room + place]
    value, value_bytes = located[VALUE_AT * room + place], located[VALUE_BYTES * room + place]
    if not flags & _METADATA_FLAG and (key_bytes >= 0 or value_bytes >= 0):
        at = put_word(out, at, words, Word.INDENT)
    at = _put_field(out, at, words, Word.KEY, buf, key, key_bytes, flags & _HIDE_KEYS_FLAG, is_json)
    at = _put_field(out, at, words, Word.VALUE, buf, value, value_bytes, flags & _HIDE_VALUES_FLAG, is_json)
    if not is_json:
        return Status.OK, at
    return _put_headers(out, at, words, buf, located, place, flags)


@kernel()
def _put_record(
    out: Bytes, at: int, words: Bytes, buf: Bytes, table: Table, located: Integers, place: int, flags: int
) -> tuple[int, int]:
    """Return status and the next position, which counts only if the status is OK."""
    room = located.size // LOCATED_FIELDS
    attributes = widened(table[located[ROW * room + place]].attributes)
    is_control, is_json = attributes & CONTROL, flags & _JSON_FLAG
    if is_control and is_json:
        return Status.NEEDS_PYTHON, at
    status: int = Status.OK
    if flags & _METADATA_FLAG:
        at = _put_metadata(out, at, words, table, located, place, attributes)
        if not is_json:
            status, at = _put_headers(out, at, words, buf, located, place, flags)
        if status == Status.OK and is_control:
            status, at = _put_marker(out, at, words, buf, located, place)
    if status == Status.OK and flags & _CONTENTS_FLAG and not is_control:
        status, at = _put_contents(out, at, words, buf, located, place, flags)
    return status, put_word(out, at, words, Word.LINE_END)


@kernel(inline=True)
def _rows_due(
    buf: Bytes, table: Table, located: Integers, records: int, flags: int, row: int, place: int
) -> tuple[int, int]:
    """Return whether the record at a place can be printed, and the row up to which batches are to be printed
    before it.
    """
    if place >= records:
        return Status.OK, table.size if flags & _ALL_FLAG else row
    behind = located[ROW * (located.size // LOCATED_FIELDS) + place] + 1
    return check_record(buf, table, located, place), behind


@kernel(integers(4)(BYTES, BATCHES, BYTES, _LOCATED, I64, BYTES, I64, I64, I64, I64, OUTPUT))
def print_lines(
    buf: Bytes,
    table: Table,
    is_valid: Bytes,
    located: Integers,
    records: int,
    words: Bytes,
    flags: int,
    file_position: int,
    row: int,
    place: int,
    out: Bytes,
) -> tuple[int, int, int, int]:
    """Print batches and records.

    Args:
        buf: what ``located`` indexes.
        table: the batches, of version 2.
        is_valid: a byte for each batch: whether its checksum agrees.
        located: the records, as ``locate_records`` notes them, in the order of their batches.
        records: how many there are.
        words: a vocabulary.
        flags: of ``Print``.
        file_position: what a row's ``position`` counts from.
        row: the first batch to print.
        place: the first record to print.
        out: receives the lines.

    Returns:
        ``(status, row, place, filled)``: where to go on, and the bytes of ``out`` that are filled. OK: all is printed.
        OUTPUT_FULL: call again with an empty buffer, and with a larger one if nothing was filled. NEEDS_PYTHON: the
        kernel does not print the record at ``place``. Others: what is wrong with it.
    """
    at, records, row, place = 0, min(records, located.size // LOCATED_FIELDS), max(row, 0), max(place, 0)
    if words.size < _WORDS_BYTES:
        return Status.BAD_LENGTH, row, place, at
    while True:
        status, behind = _rows_due(buf, table, located, records, flags, row, place)
        if status != Status.OK:
            return status, row, place, at
        if row < behind:
            row = row if flags & _ALL_FLAG else behind - 1
            if flags & _BATCHES_FLAG and row < is_valid.size:
                if out.size - at < BATCH_BYTES_MAX:
                    return Status.OUTPUT_FULL, row, place, at
                at = _put_batch(out, at, words, table, row, is_valid[row], file_position)
            row += 1
        elif place == records:
            return Status.OK, row, place, at
        else:
            if flags & _RECORDS_FLAG:
                if out.size - at < record_room(located, place):
                    return Status.OUTPUT_FULL, row, place, at
                status, after = _put_record(out, at, words, buf, table, located, place, flags)
                if status != Status.OK:
                    return status, row, place, at
                at = after
            place += 1
