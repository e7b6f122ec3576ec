"""Records of the topics of Kafka's own, decoded by the tables of ``storage.schemas``.

Source: Kafka ``CoordinatorRecordSerde``, ``MetadataRecordSerde``, ``RemoteLogMetadataSerde``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, NamedTuple

from cleaner.dump.options import TopicDecoder
from storage.errors import InvalidRecord
from storage.records import ControlType
from storage.schemas.client_messages import CLIENT_MESSAGES
from storage.schemas.cluster_metadata import CLUSTER_METADATA
from storage.schemas.decoding import decode
from storage.schemas.notation import Message
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.schemas.remote_log import REMOTE_LOG
from storage.schemas.share_state import SHARE_STATE
from storage.schemas.transactions_topic import TRANSACTIONS_TOPIC

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
    """Decode the key of a record that says what its value is. Raises: UnknownRecordType, InvalidRecord."""
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


def decode_control_message(kind: ControlType, value: bytes) -> dict[str, Any]:
    """Decode the value of a control record of KRaft, which states its own version first. Raises: InvalidRecord."""
    return decode(CLIENT_MESSAGES[_CONTROL[kind]], _version(value), value, with_defaults=False)


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


def _version(data: bytes) -> int:
    if len(data) < _VERSION_BYTES:
        raise InvalidRecord("fewer bytes than a version takes")
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)


def _uvarint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[position : position + _UVARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, position + place + 1
    raise InvalidRecord("an unsigned varint that does not end")
