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
from storage.schemas.cluster_metadata import CLUSTER_METADATA
from storage.schemas.decoding import decode

_SCHEMAS: Final = {3: "PartitionRecord", 5: "PartitionChangeRecord"}
_FEATURE_LEVEL: Final = 12
_FRAME_BYTES: Final = 3
"""Frame version, record type and record version, a byte each in these records."""
_BEGIN: Final = 23
_END: Final = 24
_ABORT: Final = 25


@dataclass(slots=True)
class Placements:
    """The topics and the brokers of their partitions, as the records taken so far say."""

    names: dict[str, str] = field(default_factory=dict)
    """Topic id -> name."""
    brokers: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    """Topic id and partition -> node ids of its replicas."""
    directories: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    """Topic id and partition -> ids of the log dirs of its replicas, where the records state them."""
    configs: dict[tuple[str, str], str] = field(default_factory=dict)
    """Topic and key -> value."""
    features: list[tuple[str, int]] = field(default_factory=list)
    """Feature and level of each record that states one, in order."""
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
        if record_type in _SCHEMAS:
            fields = decode(CLUSTER_METADATA[_SCHEMAS[record_type]], message.uvarint(), value, _FRAME_BYTES)
            partition = fields["topicId"], fields["partitionId"]
            if fields["replicas"] is not None:
                self.brokers[partition] = tuple(fields["replicas"])
            if fields.get("directories") is not None:
                self.directories[partition] = tuple(fields["directories"])
            return
        if record_type == _FEATURE_LEVEL:
            fields = decode(CLUSTER_METADATA["FeatureLevelRecord"], message.uvarint(), value, _FRAME_BYTES)
            self.features.append((fields["name"], fields["featureLevel"]))
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
