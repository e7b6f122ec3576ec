"""The brokers of each partition, from the metadata log, read up to where a starting broker reads it.

A broker cuts its metadata log at the first batch that is not valid, wherever that is, and goes on with what is left:
so does this reading. ``metadata_log`` refuses such a log, which is right for whoever reads configurations of it.

Source: Kafka ``PartitionRecord``, ``PartitionChangeRecord``, ``TopicDelta``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from storage.metadata.metadata_records import (
    ConfigSet,
    MetadataMessage,
    ResourceType,
    TopicCreated,
    TopicRemoved,
    parse_metadata_record,
)

_PARTITION: Final = 3
_PARTITION_CHANGE: Final = 5
_BEGIN: Final = 23
_END: Final = 24
_ABORT: Final = 25
_REPLICAS_TAG: Final = 2
_INT32_BYTES: Final = 4


@dataclass(slots=True)
class Placements:
    """The topics and the brokers of their partitions, as the records taken so far say."""

    names: dict[str, str] = field(default_factory=dict)
    """Topic id -> name."""
    brokers: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    """Topic id and partition -> node ids of its replicas."""
    configs: dict[tuple[str, str], str] = field(default_factory=dict)
    """Topic and key -> value."""
    _delayed: list[bytes] | None = None
    """The records of a transaction that has not ended."""

    def take(self, value: bytes) -> None:
        """Take the value of the next record. Raises: InvalidRecord."""
        message = MetadataMessage(value)
        message.uvarint()
        record_type = message.uvarint()
        if record_type == _BEGIN:
            self._delayed = []
        elif record_type == _ABORT:
            self._delayed = None
        elif record_type == _END:
            delayed, self._delayed = self._delayed or [], None
            self._take_all(delayed)
        elif self._delayed is not None:
            self._delayed.append(value)
        else:
            self._apply(record_type, message, value)

    def _take_all(self, values: Iterable[bytes]) -> None:
        for value in values:
            self.take(value)

    def _apply(self, record_type: int, message: MetadataMessage, value: bytes) -> None:
        if record_type in (_PARTITION, _PARTITION_CHANGE):
            message.uvarint()
            partition, topic_id = _int32(message), message.uuid()
            replicas = _int32s(message) if record_type == _PARTITION else _changed_replicas(message)
            if replicas is not None:
                self.brokers[topic_id, partition] = replicas
            return
        match parse_metadata_record(value):
            case TopicCreated(name, topic_id):
                self.names[topic_id] = name
            case ConfigSet(ResourceType.TOPIC, topic, key, text):
                self.configs.pop((topic, key), None)
                if text is not None:
                    self.configs[topic, key] = text
            case TopicRemoved(topic_id):
                self.names.pop(topic_id, None)
                self.brokers = {key: brokers for key, brokers in self.brokers.items() if key[0] != topic_id}


def _changed_replicas(message: MetadataMessage) -> tuple[int, ...] | None:
    """Return the replicas of a change; None if it leaves them."""
    for _ in range(message.uvarint()):
        tag, size_bytes = message.uvarint(), message.uvarint()
        data = message.take(size_bytes)
        if tag == _REPLICAS_TAG:
            return _int32s(MetadataMessage(data))
    return None


def _int32(message: MetadataMessage) -> int:
    return int.from_bytes(message.take(_INT32_BYTES), "big", signed=True)


def _int32s(message: MetadataMessage) -> tuple[int, ...] | None:
    length = message.uvarint()
    if length == 0:
        return None
    return tuple(_int32(message) for _ in range(length - 1))
