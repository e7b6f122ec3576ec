"""Metadata records, encoded: the writing half of ``metadata_records``, for a log directory made from nothing.

Source: Kafka ``MetadataRecordSerde``, ``metadata/src/main/resources/common/metadata/*.json``.
"""

from __future__ import annotations

import base64
from typing import Final

from storage.metadata.metadata_log import ConfigSet, TopicCreated

_FRAME_VERSION: Final = 1
_TOPIC, _PARTITION, _CONFIG, _FEATURE_LEVEL = 2, 3, 4, 12
_NO_TAGGED_FIELDS: Final = b"\0"
_EMPTY_ARRAY: Final = b"\x01"
_PARTITION_VERSION_WITH_DIRECTORIES: Final = 1


def encode_topic(topic: TopicCreated) -> bytes:
    """Encode a TopicRecord."""
    return _frame(_TOPIC, 0, _string(topic.name) + _uuid(topic.topic_id))


def encode_config(config: ConfigSet) -> bytes:
    """Encode a ConfigRecord; value None unsets."""
    resource = config.resource_type.to_bytes(1, "big") + _string(config.resource_name)
    return _frame(_CONFIG, 0, resource + _string(config.key) + _string(config.value))


def encode_feature_level(name: str, level: int) -> bytes:
    """Encode a FeatureLevelRecord, as ``metadata.version``, which says how the records behind it are encoded."""
    return _frame(_FEATURE_LEVEL, 0, _string(name) + level.to_bytes(2, "big"))


def encode_partition(topic_id: str, partition: int, node_id: int, directory_id: str, leader_epoch: int) -> bytes:
    """Encode a PartitionRecord: one replica, in sync and leading, on ``node_id`` in the log dir ``directory_id``."""
    one_replica = _uvarint(2) + node_id.to_bytes(4, "big")
    fields = [
        partition.to_bytes(4, "big"),
        _uuid(topic_id),
        one_replica,
        one_replica,
        _EMPTY_ARRAY,  # removing replicas
        _EMPTY_ARRAY,  # adding replicas
        node_id.to_bytes(4, "big"),
        leader_epoch.to_bytes(4, "big"),
        (0).to_bytes(4, "big"),  # partition epoch
        _uvarint(2) + _uuid(directory_id),
    ]
    return _frame(_PARTITION, _PARTITION_VERSION_WITH_DIRECTORIES, b"".join(fields))


def _frame(record_type: int, version: int, fields: bytes) -> bytes:
    return _uvarint(_FRAME_VERSION) + _uvarint(record_type) + _uvarint(version) + fields + _NO_TAGGED_FIELDS


def _string(text: str | None) -> bytes:
    if text is None:
        return _uvarint(0)
    data = text.encode()
    return _uvarint(len(data) + 1) + data


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
