"""Keys and values of records as text: as Java shows them, or decoded, for the topics of Kafka's own.

Source: Kafka ``DumpLogSegments.MessageParser`` and its implementations.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from cleaner.dump.decoding.java_json import java_json, plain_json
from cleaner.dump.decoding.remote_log_text import remote_log_text
from cleaner.dump.decoding.topic_records import UnknownRecordType, decode_framed, decode_key, decode_value
from cleaner.dump.java_text import java_text
from cleaner.dump.options import DumpOptions, PlainDecoder, TopicDecoder
from storage.errors import InvalidRecord
from storage.records import Record

_NUMBERS: Final = {PlainDecoder.LONG: struct.Struct(">q"), PlainDecoder.INTEGER: struct.Struct(">i")}
_DELETED: Final = "<DELETE>"


class RecordContents(NamedTuple):
    """The key and the value of a record as text; None if there is none."""

    key: str | None
    value: str | None


def decode_text(options: DumpOptions, record: Record) -> RecordContents:
    """Return what the text shows of the key and the value of a record."""
    match options.decoder:
        case None:
            return RecordContents(_plain(options.key_decoder, record.key), _plain(options.value_decoder, record.value))
        case TopicDecoder.CLUSTER_METADATA | TopicDecoder.REMOTE_LOG_METADATA as decoder:
            return RecordContents(None, _framed_text(decoder, record))
        case decoder:
            return _keyed_text(decoder, record)


def decode_json(options: DumpOptions, record: Record) -> dict[str, Any]:
    """Return the fields that a decoder adds to the JSON line of a record; none without a decoder."""
    decoder = options.decoder
    if decoder is None:
        return {}
    try:
        return {"decodedKey": None, "decodedValue": None, "decodeError": None, **_decoded(options, decoder, record)}
    except InvalidRecord as error:
        return {"decodedKey": None, "decodedValue": None, "decodeError": error.cause}


def _decoded(options: DumpOptions, decoder: TopicDecoder, record: Record) -> dict[str, Any]:
    if decoder in (TopicDecoder.CLUSTER_METADATA, TopicDecoder.REMOTE_LOG_METADATA):
        value = decode_framed(decoder, record.value or b"", with_defaults=True)
        shown = {"type": value.record_type, "version": value.version, "data": plain_json(value.data)}
        return {} if options.hides_values else {"decodedValue": shown}
    if record.key is None:
        raise InvalidRecord("the record has no key")
    key = decode_key(decoder, record.key)
    found: dict[str, Any] = {}
    if not options.hides_keys:
        found["decodedKey"] = {"type": key.api_key, "name": key.name, "data": plain_json(key.data)}
    if record.value is not None and not options.hides_values:
        value = decode_value(decoder, key.api_key, record.value)
        found["decodedValue"] = {"version": value.version, "data": plain_json(value.data)}
    return found


def _plain(decoder: PlainDecoder, field: bytes | None) -> str | None:
    if field is None:
        return None
    layout = _NUMBERS.get(decoder)
    if layout is None:
        return java_text(field)
    if len(field) < layout.size:
        return f"<{len(field)} bytes, no {decoder.value}>"
    return str(layout.unpack_from(field)[0])


def _keyed_text(decoder: TopicDecoder, record: Record) -> RecordContents:
    if record.key is None:
        return RecordContents(f"Error at offset {record.offset}, skipping. The record has no key", None)
    try:
        key = decode_key(decoder, record.key)
        shown = java_json({"type": str(key.api_key), "data": key.data})
        if record.value is None:
            return RecordContents(shown, _DELETED)
        value = decode_value(decoder, key.api_key, record.value)
        return RecordContents(shown, java_json({"version": str(value.version), "data": value.data}))
    except UnknownRecordType as error:
        return RecordContents(f"Unknown record type {error.number} at offset {record.offset}, skipping.", None)
    except InvalidRecord as error:
        return RecordContents(f"Error at offset {record.offset}, skipping. {error.cause}", None)


def _framed_text(decoder: TopicDecoder, record: Record) -> str:
    is_metadata = decoder is TopicDecoder.CLUSTER_METADATA
    try:
        found = decode_framed(decoder, record.value or b"", with_defaults=not is_metadata)
        if is_metadata:
            return java_json({"type": found.record_type, "version": found.version, "data": found.data})
        return remote_log_text(found.name, found.data)
    except InvalidRecord as error:
        where = "" if is_metadata else "offset "
        return f"Error at {where}{record.offset}, skipping. {error.cause}"
