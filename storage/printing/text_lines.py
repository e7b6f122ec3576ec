"""One batch, one record as the line that Kafka's own tool prints. Source: Kafka ``DumpLogSegments``."""

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
from storage.machine.intrinsics import load_be16, load_be32, store_u8
from storage.machine.kernel import kernel
from storage.printing.flags import Print
from storage.printing.pieces import put_boolean, put_java_text, put_number, put_word, widened, word
from storage.printing.rows import (
    next_header,
    record_sequence,
    sequence_after,
)

_TRANSACTIONAL: Final = 0x10
_NEW_LINE: Final = 0x0A
_COMMA: Final = 0x2C
_MARKER_KEY_BYTES: Final = 4
_MARKER_VALUE_BYTES: Final = 6

_BASE_OFFSET: Final = word("baseOffset: ")
_LAST_OFFSET: Final = word(" lastOffset: ")
_COUNT: Final = word(" count: ")
_BASE_SEQUENCE: Final = word(" baseSequence: ")
_LAST_SEQUENCE: Final = word(" lastSequence: ")
_PRODUCER_ID: Final = word(" producerId: ")
_PRODUCER_EPOCH: Final = word(" producerEpoch: ")
_LEADER_EPOCH: Final = word(" partitionLeaderEpoch: ")
_IS_TRANSACTIONAL: Final = word(" isTransactional: ")
_IS_CONTROL: Final = word(" isControl: ")
_HORIZON: Final = word(" deleteHorizonMs: OptionalLong[")
_HORIZON_END: Final = word("]")
_NO_HORIZON: Final = word(" deleteHorizonMs: OptionalLong.empty")
_POSITION: Final = word(" position: ")
_CREATE_TIME: Final = word(" CreateTime: ")
_LOG_APPEND_TIME: Final = word(" LogAppendTime: ")
_SIZE: Final = word(" size: ")
_CODECS: Final = word(" magic: 2 compresscodec: ")
_NONE: Final = word("none")
_GZIP: Final = word("gzip")
_SNAPPY: Final = word("snappy")
_LZ4: Final = word("lz4")
_ZSTD: Final = word("zstd")
_CRC: Final = word(" crc: ")
_IS_VALID: Final = word(" isvalid: ")
_RECORD: Final = word("| offset: ")
_INDENT: Final = word("|")
_KEY_SIZE: Final = word(" keySize: ")
_VALUE_SIZE: Final = word(" valueSize: ")
_SEQUENCE: Final = word(" sequence: ")
_HEADER_KEYS: Final = word(" headerKeys: [")
_COMMIT: Final = word(" endTxnMarker: COMMIT coordinatorEpoch: ")
_ABORT: Final = word(" endTxnMarker: ABORT coordinatorEpoch: ")
_KEY: Final = word(" key: ")
_PAYLOAD: Final = word(" payload: ")
_REDACTED: Final = word("[redacted]")

_METADATA_FLAG: Final = int(Print.METADATA)
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
def _put_timestamp_type(out: Bytes, at: int, attributes: int) -> int:
    return put_word(out, at, _LOG_APPEND_TIME) if attributes & LOG_APPEND_TIME else put_word(out, at, _CREATE_TIME)


@kernel()
def put_text_batch(out: Bytes, at: int, table: Table, row: int, is_valid: int, file_position: int) -> int:
    """Return the next position."""
    batch, delta = table[row], table[row].last_offset - table[row].base_offset
    attributes = widened(batch.attributes)
    at = put_number(out, put_word(out, at, _BASE_OFFSET), batch.base_offset)
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
        at = put_word(out, put_number(out, put_word(out, at, _HORIZON), batch.base_timestamp), _HORIZON_END)
    else:
        at = put_word(out, at, _NO_HORIZON)
    at = put_number(out, put_word(out, at, _POSITION), batch.position + file_position)
    at = put_number(out, _put_timestamp_type(out, at, attributes), batch.max_timestamp)
    at = put_number(out, put_word(out, at, _SIZE), batch.size)
    at = _put_codec(out, put_word(out, at, _CODECS), attributes & CODEC_MASK)
    at = put_number(out, put_word(out, at, _CRC), widened(batch.crc))
    at = put_boolean(out, put_word(out, at, _IS_VALID), is_valid)
    store_u8(out, at, _NEW_LINE)
    return at + 1


@kernel()
def _put_header_keys(out: Bytes, at: int, buf: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return status and the next position."""
    count, position = read_varint(buf, position, end)
    if position > end or count < 0:
        return Status.BAD_HEADERS, at
    at = put_word(out, at, _HEADER_KEYS)
    for place in range(count):
        status, key, key_bytes, value, value_bytes = next_header(buf, position, end)
        if status != Status.OK:
            return status, at
        if place:
            store_u8(out, at, _COMMA)
            at += 1
        at = put_java_text(out, at, buf, key, key + key_bytes)
        position = value + max(value_bytes, 0)
    return Status.OK, put_word(out, at, _HORIZON_END)


@kernel()
def _put_marker(
    out: Bytes, at: int, buf: Bytes, key: int, key_bytes: int, value: int, value_bytes: int
) -> tuple[int, int]:
    """Return status and the next position. NEEDS_PYTHON: it is no transaction marker, or cannot be one."""
    if key_bytes < _MARKER_KEY_BYTES or value_bytes < _MARKER_VALUE_BYTES:
        return Status.NEEDS_PYTHON, at
    kind = load_be16(buf, key + 2)
    if load_be16(buf, key) < 0 or load_be16(buf, value) < 0 or (kind != 0 and kind != 1):  # noqa: PLR1714 - no tuple
        return Status.NEEDS_PYTHON, at
    at = put_word(out, at, _COMMIT) if kind == 1 else put_word(out, at, _ABORT)
    return Status.OK, put_number(out, at, widened(load_be32(buf, value + 2)))


@kernel()
def _put_metadata(
    out: Bytes, at: int, buf: Bytes, table: Table, located: Integers, place: int, attributes: int
) -> tuple[int, int]:
    """Return status and the next position."""
    room = located.size // LOCATED_FIELDS
    key, key_bytes = located[KEY_AT * room + place], located[KEY_BYTES * room + place]
    value, value_bytes = located[VALUE_AT * room + place], located[VALUE_BYTES * room + place]
    headers = located[HEADERS_AT * room + place]
    at = put_number(out, put_word(out, at, _RECORD), located[OFFSET * room + place])
    at = put_number(out, _put_timestamp_type(out, at, attributes), located[TIMESTAMP * room + place])
    at = put_number(out, put_word(out, at, _KEY_SIZE), max(key_bytes, -1))
    at = put_number(out, put_word(out, at, _VALUE_SIZE), max(value_bytes, -1))
    at = put_number(out, put_word(out, at, _SEQUENCE), record_sequence(table, located, place))
    status, at = _put_header_keys(out, at, buf, headers, headers + located[HEADERS_BYTES * room + place])
    if status != Status.OK or not attributes & CONTROL:
        return status, at
    return _put_marker(out, at, buf, key, key_bytes, value, value_bytes)


@kernel()
def _put_contents(out: Bytes, at: int, buf: Bytes, located: Integers, place: int, flags: int) -> int:
    room = located.size // LOCATED_FIELDS
    key, key_bytes = located[KEY_AT * room + place], located[KEY_BYTES * room + place]
    value, value_bytes = located[VALUE_AT * room + place], located[VALUE_BYTES * room + place]
    if not flags & _METADATA_FLAG and (key_bytes >= 0 or value_bytes >= 0):
        at = put_word(out, at, _INDENT)
    if key_bytes >= 0:
        at = put_word(out, at, _KEY)
        if flags & _HIDE_KEYS_FLAG:
            at = put_word(out, at, _REDACTED)
        else:
            at = put_java_text(out, at, buf, key, key + key_bytes)
    if value_bytes >= 0:
        at = put_word(out, at, _PAYLOAD)
        if flags & _HIDE_VALUES_FLAG:
            at = put_word(out, at, _REDACTED)
        else:
            at = put_java_text(out, at, buf, value, value + value_bytes)
    return at


@kernel()
def put_text_record(
    out: Bytes, at: int, buf: Bytes, table: Table, located: Integers, place: int, flags: int
) -> tuple[int, int]:
    """Return status and the next position, which counts only if the status is OK."""
    room = located.size // LOCATED_FIELDS
    attributes = widened(table[located[ROW * room + place]].attributes)
    if flags & _METADATA_FLAG:
        status, at = _put_metadata(out, at, buf, table, located, place, attributes)
        if status != Status.OK:
            return status, at
    if flags & _CONTENTS_FLAG and not attributes & CONTROL:
        at = _put_contents(out, at, buf, located, place, flags)
    store_u8(out, at, _NEW_LINE)
    return Status.OK, at + 1
