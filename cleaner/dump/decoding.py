"""Keys, values and control records as text: as Java shows their bytes, or decoded, for the topics of Kafka's own.

The tables of ``storage.schemas`` decode; JSON is printed as Kafka's own tools print it. For bytes that are no UTF-8,
Java writes U+FFFD, and skips as many bytes as its own rules say, which differ from Python's.

Source: Kafka ``DumpLogSegments.MessageParser`` and its implementations, ``DumpLogSegments.printControlRecord``,
``ControlRecordUtils``, ``CoordinatorRecordSerde``, ``MetadataRecordSerde``, ``RemoteLogMetadataSerde``; ``toString`` of
``RemoteLogSegmentMetadata``, ``RemoteLogSegmentMetadataUpdate``, ``RemotePartitionDeleteMetadata`` and
``RemoteLogSegmentMetadataSnapshot``; Jackson ``ObjectNode.toString``, as Kafka's generated ``JsonConverter`` classes
fill it; JDK 17 ``String.decodeUTF8_UTF16``.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
import struct
from functools import cache
from typing import Any, Final, NamedTuple

from cleaner.dump.options import DumpOptions, PlainDecoder, TopicDecoder
from storage.errors import InvalidRecord
from storage.records import ControlType, Record, parse_control_type
from storage.records.v2 import parse_txn_marker
from storage.schemas.cluster_metadata import CLUSTER_METADATA
from storage.schemas.coordinator import CLIENT_MESSAGES, SHARE_STATE, TRANSACTIONS_TOPIC
from storage.schemas.decoding import decode
from storage.schemas.notation import Message
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.schemas.remote_log import REMOTE_LOG

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_ERRORS: Final = "logcleaner-java"

_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_TEXT: Final = json.JSONEncoder(ensure_ascii=False).encode
_POINT_FROM: Final = 1e-3
_POINT_BELOW: Final = 1e7

_KEYED: Final = {
    TopicDecoder.OFFSETS: OFFSETS_TOPIC,
    TopicDecoder.TRANSACTIONS: TRANSACTIONS_TOPIC,
    TopicDecoder.SHARE_GROUP_STATE: SHARE_STATE,
}
_FRAMED: Final = {TopicDecoder.CLUSTER_METADATA: CLUSTER_METADATA, TopicDecoder.REMOTE_LOG_METADATA: REMOTE_LOG}
_FRAME_VERSION: Final = 1
_VERSION_BYTES: Final = 2
_UVARINT_BYTES_MAX: Final = 5
_CONTROL: Final = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}

_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")

_LABELS = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}

_NUMBERS: Final = {PlainDecoder.LONG: struct.Struct(">q"), PlainDecoder.INTEGER: struct.Struct(">i")}
_DELETED: Final = "<DELETE>"


class RecordContents(NamedTuple):
    """The key and the value of a record as text; None if there is none."""

    key: str | None
    value: str | None


def decode_text(options: DumpOptions, record: Record) -> RecordContents:
    """Return the texts for the key and the value of a record."""
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


class Decoded(NamedTuple):
    """A decoded message: the number of its type in the topic, its name, its version."""

    api_key: int
    name: str
    version: int
    data: dict[str, Any]

    @property
    def record_type(self) -> str:
        """The name as Kafka's enums have it: ``TOPIC_RECORD`` for ``TopicRecord``."""
        return re.sub(r"(?<=.)(?=[A-Z])", "_", self.name).upper()


class UnknownRecordType(InvalidRecord):
    """The key of a record of a kind that a later Kafka added."""

    number: int


def decode_key(decoder: TopicDecoder, key: bytes) -> Decoded:
    """Decode a key that states the type of its record. Raises: UnknownRecordType, InvalidRecord."""
    number = _version(key)
    message = _messages(decoder, "Key").get(number)
    if message is None:
        raise UnknownRecordType(f"unknown record type {number}", number)
    return Decoded(number, message.name, 0, decode(message, 0, key, _VERSION_BYTES, with_defaults=False))


def decode_value(decoder: TopicDecoder, api_key: int, value: bytes) -> Decoded:
    """Decode the value of a record whose key was decoded. Raises: InvalidRecord."""
    message, version = _messages(decoder, "Value")[api_key], _version(value)
    data = decode(message, version, value, _VERSION_BYTES, with_defaults=False)
    if message.name == "GroupMetadataValue":
        data = _with_protocol(data)
    return Decoded(api_key, message.name, version, data)


def decode_framed(decoder: TopicDecoder, value: bytes, *, with_defaults: bool) -> Decoded:
    """Decode a value that states its own type and version. Raises: InvalidRecord."""
    frame_version, position = _uvarint(value, 0)
    if frame_version != _FRAME_VERSION:
        raise InvalidRecord(f"a frame of version {frame_version}, not {_FRAME_VERSION}")
    api_key, position = _uvarint(value, position)
    version, position = _uvarint(value, position)
    message = _messages(decoder, "Record").get(api_key)
    if message is None:
        raise InvalidRecord(f"unknown record type {api_key}")
    data = decode(message, version, value, position, with_defaults=with_defaults)
    return Decoded(api_key, message.name, version, data)


class ControlRecord(NamedTuple):
    """A control record, decoded. ``data`` is None for a kind that we do not know."""

    type: ControlType
    type_id: int
    data: dict[str, Any] | None


def parse_control_record(record: Record) -> ControlRecord:
    """Decode a record of a control batch. Raises: InvalidRecord."""
    kind = parse_control_type(record.key)
    assert record.key is not None
    type_id = int.from_bytes(record.key[2:4], "big", signed=True)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        marker = parse_txn_marker(record.key, record.value, record.timestamp_ms)
        return ControlRecord(kind, type_id, {"coordinatorEpoch": marker.coordinator_epoch})
    if kind is ControlType.UNKNOWN:
        return ControlRecord(kind, type_id, None)
    return ControlRecord(kind, type_id, _quorum_message(kind, record.value))


def control_text(control: ControlRecord) -> str:
    """Return the text of a control record, which stands behind the header keys in a line."""
    if control.data is None:
        return f" controlType: {control.type.name}({control.type_id})"
    if label := _LABELS.get(control.type):
        return f" {label} {java_json(control.data)}"
    return f" endTxnMarker: {control.type.name} coordinatorEpoch: {control.data['coordinatorEpoch']}"


def decode_control_message(kind: ControlType, value: bytes) -> dict[str, Any]:
    """Decode the value of a control record of KRaft, which states its own version first. Raises: InvalidRecord."""
    return decode(CLIENT_MESSAGES[_CONTROL[kind]], _version(value), value, with_defaults=False)


def remote_log_text(name: str, data: dict[str, Any]) -> str:
    """Return the text of a decoded message. Raises: InvalidRecord for a state that Kafka does not know."""
    match name:
        case "RemoteLogSegmentMetadataRecord":
            return _shown("RemoteLogSegmentMetadata", {
                "remoteLogSegmentId": _segment_id(data["remoteLogSegmentId"]),
                "startOffset": data["startOffset"],
                "endOffset": data["endOffset"],
                "brokerId": data["brokerId"],
                "maxTimestampMs": data["maxTimestampMs"],
                "eventTimestampMs": data["eventTimestampMs"],
                **_of_a_segment(data),
            })  # fmt: skip
        case "RemoteLogSegmentMetadataUpdateRecord":
            return _shown("RemoteLogSegmentMetadataUpdate", {
                "remoteLogSegmentId": _segment_id(data["remoteLogSegmentId"]),
                "customMetadata": _custom(data["customMetadata"]),
                "state": _state(_SEGMENT_STATES, data["remoteLogSegmentState"]),
                "eventTimestampMs": data["eventTimestampMs"],
                "brokerId": data["brokerId"],
            })  # fmt: skip
        case "RemotePartitionDeleteMetadataRecord":
            return _shown("RemotePartitionDeleteMetadata", {
                "topicPartition": _partition(data["topicIdPartition"]),
                "state": _state(_PARTITION_STATES, data["remotePartitionDeleteState"]),
                "eventTimestampMs": data["eventTimestampMs"],
                "brokerId": data["brokerId"],
            })  # fmt: skip
    return _shown("RemoteLogSegmentMetadataSnapshot", {
        "segmentId": data["segmentId"],
        "startOffset": data["startOffset"],
        "endOffset": data["endOffset"],
        "maxTimestampMs": data["maxTimestampMs"],
        **_of_a_segment(data),
    })  # fmt: skip


def java_text(data: bytes) -> str:
    """Return the text that ``new String(data, UTF_8)`` is in Java."""
    return data.decode("utf-8", _ERRORS)


def malformed_bytes(data: bytes, at: int) -> int:
    """Return how many bytes one U+FFFD replaces, at a character that is no UTF-8."""
    first, left = data[at], len(data) - at
    if 0xC2 <= first <= 0xDF:
        return 1
    if 0xE0 <= first <= 0xEF:
        return _of_three(data, at, left)
    if 0xF0 <= first <= 0xF7:
        return _of_four(data, at, left)
    return 1


def java_json(value: Any) -> str:
    """Return a decoded message as Jackson prints it: without blanks, bytes as base64."""
    match value:
        case str():
            return _ESCAPE.sub(_upper_case, _TEXT(value))
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case dict():
            return "{" + ",".join(f"{_TEXT(name)}:{java_json(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(java_json, value)) + "]"
        case float():
            return java_double(value)
    return _TEXT(value)


def plain_json(value: Any) -> Any:
    """Return a decoded message as values that JSON has: bytes as base64."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {name: plain_json(inner) for name, inner in value.items()}
        case list():
            return list(map(plain_json, value))
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
            return java_double(value)
    return value


def java_double(value: float) -> str:
    """Return a number as Java's ``Double.toString`` writes it."""
    if value != value:  # noqa: PLR0124 - not a number
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or _POINT_FROM <= abs(value) < _POINT_BELOW:
        text = repr(value)
        return text if "e" not in text else f"{value:f}"
    mantissa, _, exponent = f"{value!r}".partition("e")
    digits = mantissa.lstrip("-").replace(".", "").lstrip("0").rstrip("0") or "0"
    power = int(exponent) if exponent else 0
    power += _power_of(mantissa.lstrip("-"))
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


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


def _plain(decoder: PlainDecoder, field: bytes | None) -> str | None:
    if field is None:
        return None
    layout = _NUMBERS.get(decoder)
    if layout is None:
        return java_text(field)
    if len(field) < layout.size:
        return f"<{len(field)} bytes, no {decoder.value}>"
    return str(layout.unpack_from(field)[0])


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


def _version(data: bytes) -> int:
    if len(data) < _VERSION_BYTES:
        raise InvalidRecord("fewer bytes than a version takes")
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)


@cache
def _messages(decoder: TopicDecoder, ending: str) -> dict[int, Message]:
    tables = _KEYED.get(decoder) or _FRAMED[decoder]
    found = (message for message in tables.values() if message.name.endswith(ending))
    return {message.api_key: message for message in found if message.api_key is not None}


def _with_protocol(data: dict[str, Any]) -> dict[str, Any]:
    """Decode what the members of a classic consumer group state. Source: Kafka OffsetsMessageParser."""
    if data.get("protocolType") != "consumer":
        return data
    for member in data.get("members") or ():
        for field, name in (
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ):
            stated = member.get(field)
            try:
                member[field] = decode(CLIENT_MESSAGES[name], _version(stated), stated, _VERSION_BYTES)
            except (InvalidRecord, TypeError):
                continue  # Kafka keeps the bytes, too
    return data


def _uvarint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[position : position + _UVARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, position + place + 1
    raise InvalidRecord("an unsigned varint that does not end")


def _quorum_message(kind: ControlType, value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise InvalidRecord(f"the control record {kind.name} has no value")
    return decode_control_message(kind, value)


def _shown(name: str, fields: dict[str, object]) -> str:
    return f"{name}{{{', '.join(f'{field}={value}' for field, value in fields.items())}}}"


def _of_a_segment(data: dict[str, Any]) -> dict[str, object]:
    epochs = {epoch["leaderEpoch"]: epoch["offset"] for epoch in data["segmentLeaderEpochs"]}
    return {
        "segmentLeaderEpochs": "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}",
        "segmentSizeInBytes": data["segmentSizeInBytes"],
        "customMetadata": _custom(data["customMetadata"]),
        "state": _state(_SEGMENT_STATES, data["remoteLogSegmentState"]),
        "txnIdxEmpty": "true" if data["txnIndexEmpty"] else "false",
    }


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(states: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(states):
        raise InvalidRecord(f"unknown state {number}")
    return states[number]


def _segment_id(data: dict[str, Any]) -> str:
    fields = {"topicIdPartition": _partition(data["topicIdPartition"]), "id": data["id"]}
    return _shown("RemoteLogSegmentId", fields)


def _partition(data: dict[str, Any]) -> str:
    return f"{data['id']}:{data['name']}-{data['partition']}"


def _of_three(data: bytes, at: int, left: int) -> int:
    if left >= 3:
        if _is_bad_second_of_three(data[at], data[at + 1]):
            return 1
        return 3 if _continues(data[at + 2]) else 2  # three: a surrogate
    return 1 if left == 2 and _is_bad_second_of_three(data[at], data[at + 1]) else left


def _is_bad_second_of_three(first: int, second: int) -> bool:
    return (first == 0xE0 and second < 0xA0) or not _continues(second)


def _continues(byte: int) -> bool:
    return 0x80 <= byte <= 0xBF


def _of_four(data: bytes, at: int, left: int) -> int:
    first = data[at]
    if first > 0xF4 or (left > 1 and _is_bad_second_of_four(first, data[at + 1])):
        return 1
    if left >= 4:
        return 3 if _continues(data[at + 2]) else 2
    if left == 3 and not _continues(data[at + 2]):
        return 2
    return left


def _is_bad_second_of_four(first: int, second: int) -> bool:
    return (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F) or not _continues(second)


def _upper_case(escape: re.Match[str]) -> str:
    said = escape[0]
    return f"\\u{said[2:].upper()}" if len(said) > 2 else said


def _power_of(mantissa: str) -> int:
    """Return the power of ten of the first digit that is not zero."""
    whole, _, fraction = mantissa.partition(".")
    if whole.strip("0"):
        return len(whole.lstrip("0")) - 1
    return -(len(fraction) - len(fraction.lstrip("0")) + 1)


def _as_java_does(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _REPLACEMENT, error.start + malformed_bytes(error.object, error.start)


codecs.register_error(_ERRORS, _as_java_does)
