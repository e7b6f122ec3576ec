"""One batch, one record as a line of JSON. The readable twin is ``cleaner.dump.json_lines``."""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers, Table
from storage.kernels.layout import (
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
from storage.machine.intrinsics import store_u8
from storage.machine.kernel import kernel
from storage.printing.flags import Print
from storage.printing.pieces import (
    is_utf8,
    put_base64,
    put_boolean,
    put_json_text,
    put_number,
    put_word,
    widened,
    word,
)
from storage.printing.rows import (
    next_header,
    record_sequence,
    sequence_after,
)

_TRANSACTIONAL: Final = 0x10
_COMMA: Final = 0x2C

_BATCH: Final = word('{"type":"batch","baseOffset":')
_LAST_OFFSET: Final = word(',"lastOffset":')
_COUNT: Final = word(',"count":')
_BASE_SEQUENCE: Final = word(',"baseSequence":')
_LAST_SEQUENCE: Final = word(',"lastSequence":')
_PRODUCER_ID: Final = word(',"producerId":')
_PRODUCER_EPOCH: Final = word(',"producerEpoch":')
_LEADER_EPOCH: Final = word(',"leaderEpoch":')
_IS_TRANSACTIONAL: Final = word(',"transactional":')
_IS_CONTROL: Final = word(',"control":')
_HORIZON: Final = word(',"deleteHorizon":')
_NO_HORIZON: Final = word(',"deleteHorizon":null')
_POSITION: Final = word(',"position":')
_TIMESTAMP_TYPE: Final = word(',"timestampType":')
_MAX_TIMESTAMP: Final = word(',"maxTimestamp":')
_SIZE: Final = word(',"size":')
_NONE: Final = word(',"magic":2,"codec":"none"')
_GZIP: Final = word(',"magic":2,"codec":"gzip"')
_SNAPPY: Final = word(',"magic":2,"codec":"snappy"')
_LZ4: Final = word(',"magic":2,"codec":"lz4"')
_ZSTD: Final = word(',"magic":2,"codec":"zstd"')
_CRC: Final = word(',"crc":')
_IS_VALID: Final = word(',"valid":')
_RECORD: Final = word('{"type":"record","offset":')
_TIMESTAMP: Final = word(',"timestamp":')
_KEY_SIZE: Final = word(',"keySize":')
_VALUE_SIZE: Final = word(',"valueSize":')
_SEQUENCE: Final = word(',"sequence":')
_KEY: Final = word(',"key":')
_KEY_ENCODING: Final = word(',"keyEncoding":')
_VALUE: Final = word(',"value":')
_VALUE_ENCODING: Final = word(',"valueEncoding":')
_HEADER_KEY: Final = word('{"key":')
_HEADERS: Final = word(',"headers":[')
_HEADERS_END: Final = word("]")
_NULL: Final = word("null")
_UTF8: Final = word('"utf-8"')
_BASE64: Final = word('"base64"')
_REDACTED: Final = word('"redacted"')
_QUOTE: Final = word('"')
_BRACE: Final = word("}")
_END: Final = word("}\n")

_CONTENTS_FLAG: Final = int(Print.CONTENTS)
_HIDE_KEYS_FLAG: Final = int(Print.HIDE_KEYS)
_HIDE_VALUES_FLAG: Final = int(Print.HIDE_VALUES)


@kernel()
def _put_codec(out: Bytes, at: int, codec: int) -> int:
    if codec == 0:
        return put_word(out, at, _NONE)
    if codec == 1:
        return put_word(out, at, _GZIP)
    if codec == 2:
        return put_word(out, at, _SNAPPY)
    return put_word(out, at, _LZ4) if codec == 3 else put_word(out, at, _ZSTD)


@kernel()
def put_json_batch(out: Bytes, at: int, table: Table, row: int, is_valid: int, file_position: int) -> int:
    """Return the next position."""
    batch, delta = table[row], table[row].last_offset - table[row].base_offset
    attributes = widened(batch.attributes)
    at = put_number(out, put_word(out, at, _BATCH), batch.base_offset)
    at = put_number(out, put_word(out, at, _LAST_OFFSET), batch.last_offset)
    at = put_number(out, put_word(out, at, _COUNT), widened(batch.record_count))
    at = put_number(out, put_word(out, at, _BASE_SEQUENCE), widened(batch.base_sequence))
    at = put_number(out, put_word(out, at, _LAST_SEQUENCE), sequence_after(widened(batch.base_sequence), delta))
    at = put_number(out, put_word(out, at, _PRODUCER_ID), batch.producer_id)
    at = put_number(out, put_word(out, at, _PRODUCER_EPOCH), widened(batch.producer_epoch))
    at = put_number(out, put_word(out, at, _LEADER_EPOCH), widened(batch.leader_epoch))
    at = put_boolean(out, put_word(out, at, _IS_TRANSACTIONAL), attributes & _TRANSACTIONAL)
    at = put_boolean(out, put_word(out, at, _IS_CONTROL), attributes & CONTROL)
    if attributes & DELETE_HORIZON:
        at = put_number(out, put_word(out, at, _HORIZON), batch.base_timestamp)
    else:
        at = put_word(out, at, _NO_HORIZON)
    at = put_number(out, put_word(out, at, _POSITION), batch.position + file_position)
    at = put_number(out, put_word(out, at, _TIMESTAMP_TYPE), 1 if attributes & LOG_APPEND_TIME else 0)
    at = put_number(out, put_word(out, at, _MAX_TIMESTAMP), batch.max_timestamp)
    at = put_number(out, put_word(out, at, _SIZE), batch.size)
    at = _put_codec(out, at, attributes & CODEC_MASK)
    at = put_number(out, put_word(out, at, _CRC), widened(batch.crc))
    at = put_boolean(out, put_word(out, at, _IS_VALID), is_valid)
    return put_word(out, at, _END)


@kernel()
def _put_field(out: Bytes, at: int, buf: Bytes, start: int, length: int, is_hidden: int) -> tuple[int, int]:
    """Put a value. Return the next position, and how it is encoded: 0 null, 1 UTF-8, 2 base64, 3 redacted."""
    if length < 0:
        return put_word(out, at, _NULL), 0
    if is_hidden:
        return put_word(out, at, _NULL), 3
    at = put_word(out, at, _QUOTE)
    is_text = is_utf8(buf, start, start + length)
    if is_text:
        at = put_json_text(out, at, buf, start, start + length)
    else:
        at = put_base64(out, at, buf, start, start + length)
    return put_word(out, at, _QUOTE), 1 if is_text else 2


@kernel()
def _put_encoding(out: Bytes, at: int, encoding: int) -> int:
    if encoding == 0:
        return put_word(out, at, _NULL)
    if encoding == 1:
        return put_word(out, at, _UTF8)
    return put_word(out, at, _BASE64) if encoding == 2 else put_word(out, at, _REDACTED)


@kernel()
def _put_headers(out: Bytes, at: int, buf: Bytes, position: int, end: int, hides_values: int) -> tuple[int, int]:
    """Return status and the next position."""
    count, position = read_varint(buf, position, end)
    if position > end or count < 0:
        return Status.BAD_HEADERS, at
    at = put_word(out, at, _HEADERS)
    for place in range(count):
        status, key, key_bytes, value, value_bytes = next_header(buf, position, end)
        if status != Status.OK:
            return status, at
        if place:
            store_u8(out, at, _COMMA)
            at += 1
        at, encoding = _put_field(out, put_word(out, at, _HEADER_KEY), buf, key, key_bytes, 0)
        at = _put_encoding(out, put_word(out, at, _KEY_ENCODING), encoding)
        at, encoding = _put_field(out, put_word(out, at, _VALUE), buf, value, value_bytes, hides_values)
        at = _put_encoding(out, put_word(out, at, _VALUE_ENCODING), encoding)
        at = put_word(out, at, _BRACE)
        position = value + max(value_bytes, 0)
    return Status.OK, put_word(out, at, _HEADERS_END)


@kernel()
def _put_contents(out: Bytes, at: int, buf: Bytes, located: Integers, place: int, flags: int) -> tuple[int, int]:
    """Return status and the next position."""
    room, hides_values = located.size // LOCATED_FIELDS, flags & _HIDE_VALUES_FLAG
    key, key_bytes = located[KEY_AT * room + place], located[KEY_BYTES * room + place]
    value, value_bytes = located[VALUE_AT * room + place], located[VALUE_BYTES * room + place]
    at, encoding = _put_field(out, put_word(out, at, _KEY), buf, key, key_bytes, flags & _HIDE_KEYS_FLAG)
    at = _put_encoding(out, put_word(out, at, _KEY_ENCODING), encoding)
    at, encoding = _put_field(out, put_word(out, at, _VALUE), buf, value, value_bytes, hides_values)
    at = _put_encoding(out, put_word(out, at, _VALUE_ENCODING), encoding)
    headers = located[HEADERS_AT * room + place]
    return _put_headers(out, at, buf, headers, headers + located[HEADERS_BYTES * room + place], hides_values)


@kernel()
def put_json_record(
    out: Bytes, at: int, buf: Bytes, table: Table, located: Integers, place: int, flags: int
) -> tuple[int, int]:
    """Return status and the next position, which counts only if the status is OK."""
    room = located.size // LOCATED_FIELDS
    attributes = widened(table[located[ROW * room + place]].attributes)
    if attributes & CONTROL:
        return Status.NEEDS_PYTHON, at
    at = put_number(out, put_word(out, at, _RECORD), located[OFFSET * room + place])
    at = put_number(out, put_word(out, at, _TIMESTAMP), located[TIMESTAMP * room + place])
    at = put_number(out, put_word(out, at, _TIMESTAMP_TYPE), 1 if attributes & LOG_APPEND_TIME else 0)
    at = put_number(out, put_word(out, at, _KEY_SIZE), max(located[KEY_BYTES * room + place], -1))
    at = put_number(out, put_word(out, at, _VALUE_SIZE), max(located[VALUE_BYTES * room + place], -1))
    at = put_number(out, put_word(out, at, _SEQUENCE), record_sequence(table, located, place))
    if flags & _CONTENTS_FLAG:
        status, at = _put_contents(out, at, buf, located, place, flags)
        if status != Status.OK:
            return status, at
    return Status.OK, put_word(out, at, _END)
