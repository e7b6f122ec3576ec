"""The records of a KRaft metadata log that say something about topics and configs, decoded.

A value is framed: unsigned varints frame version (1), record type, record version; then the message. Messages
    are "flexible": a compact string is its length plus one as unsigned varint, then UTF-8; each message ends
    in tagged fields.
Source: Kafka ``MetadataRecordSerde``, ``metadata/src/main/resources/common/metadata/*.json``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from storage.errors import InvalidRecord

_FRAME_VERSION: Final = 1
_UVARINT_BYTES_MAX: Final = 5
_UUID_BYTES: Final = 16


class ResourceType(IntEnum):
    """The kind of resource that has a config. Source: Kafka ``ConfigResource.Type``; others do not concern us."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists. ``topic_id`` is in Kafka's text form, 22 characters of URL-safe base64."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic is gone, and its configs with it."""

    topic_id: str


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """A config is set, or with value None unset. A broker's ``resource_name`` is its node id, "" for all
    brokers."""

    resource_type: int
    resource_name: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class TransactionBegun:
    """The beginning of a transaction: the records up to its end take effect together or not at all."""


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """The records since the beginning take effect."""


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """The records since the beginning never were."""


MetadataRecord = TopicCreated | TopicRemoved | ConfigSet | TransactionBegun | TransactionEnded | TransactionAborted


class MetadataMessage:
    """Reads the fields of a message in order; every length is checked before it is used."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size_bytes: int) -> bytes:
        """Return the next bytes. Raises: InvalidRecord."""
        end = self._position + size_bytes
        if end > len(self._data):
            raise InvalidRecord(f"a field of {size_bytes} bytes reaches past the end of the metadata record")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def uvarint(self) -> int:
        """Read an unsigned varint."""
        value = 0
        for place in range(_UVARINT_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise InvalidRecord(f"an unsigned varint of more than {_UVARINT_BYTES_MAX} bytes in a metadata record")

    def int8(self) -> int:
        """Read a signed byte."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def uuid(self) -> str:
        """Read a UUID, as text."""
        return base64.urlsafe_b64encode(self.take(_UUID_BYTES)).rstrip(b"=").decode("ascii")

    def nullable_string(self) -> str | None:
        """Read a compact string, which may be null."""
        length = self.uvarint()
        if length == 0:
            return None
        try:
            return self.take(length - 1).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRecord("a string of a metadata record is no UTF-8") from error

    def string(self) -> str:
        """Read a compact string."""
        if (text := self.nullable_string()) is None:
            raise InvalidRecord("a string of a metadata record is null")
        return text

    def finish(self) -> None:
        """Step over the tagged fields, behind which nothing may follow."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())
        if self._position != len(self._data):
            raise InvalidRecord("bytes are left behind a metadata record")


_READERS: Final[dict[int, Callable[[MetadataMessage], MetadataRecord]]] = {
    2: lambda message: TopicCreated(message.string(), message.uuid()),
    4: lambda message: ConfigSet(message.int8(), message.string(), message.string(), message.nullable_string()),
    9: lambda message: TopicRemoved(message.uuid()),
    23: lambda _: TransactionBegun(),
    24: lambda _: TransactionEnded(),
    25: lambda _: TransactionAborted(),
}
"""Record type -> its reader. The tagged fields (a transaction's name or reason) say nothing that we need."""


def parse_metadata_record(value: bytes) -> MetadataRecord | None:
    """Decode the value of one record of the metadata log; None for a type that does not concern us.

    Raises:
        InvalidRecord: a frame or record version of a later Kafka, a length that reaches past the end, bytes
            left over.
    """
    message = MetadataMessage(value)
    if (frame_version := message.uvarint()) != _FRAME_VERSION:
        raise InvalidRecord(f"metadata records of frame version {frame_version} are not known")
    record_type, version = message.uvarint(), message.uvarint()
    reader = _READERS.get(record_type)
    if reader is None:
        return None
    if version != 0:
        raise InvalidRecord(f"metadata record type {record_type} of version {version} is not known")
    record = reader(message)
    message.finish()
    return record
