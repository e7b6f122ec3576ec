"""The broker and the log dir that each partition is assigned to, and removed topics, by ``__cluster_metadata-0``.

Only ``verify`` and its repairs ask for them; a run reads only topics and configs (``metadata_log``). A broker cuts its
metadata log at the first batch that is not valid, wherever that is, and goes on with the rest. This module reads the
brokers of a partition in the same way. ``metadata_log`` refuses such a log, which is right for configurations.

Source: Kafka ``ReplicationControlManager``, ``PartitionRegistration.merge``, ``PartitionRecord``,
``PartitionChangeRecord``, ``TopicDelta``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, cast

from storage.metadata.metadata_log import (
    ConfigSet,
    MetadataMessage,
    MetadataRecord,
    Replay,
    ResourceType,
    TopicCreated,
    TopicRemoved,
    parse_metadata_record,
    replayed,
)
from storage.schemas.cluster_metadata import CLUSTER_METADATA
from storage.schemas.decoding import Fields, decode

_SCHEMAS: Final = {3: "PartitionRecord", 5: "PartitionChangeRecord"}
"""Record type -> the schema."""
_FRAME_VERSION: Final = 1
_FEATURE_LEVEL: Final = 12
_FRAME_BYTES: Final = 3
"""Frame version, record type and record version, a byte each in these records."""
_BEGIN: Final = 23
_END: Final = 24
_ABORT: Final = 25

_NO_LEADER_CHANGE: Final = -2


class Assignment(NamedTuple):
    """The replicas of a partition."""

    replicas: tuple[int, ...]
    """Node ids."""
    directories: tuple[str, ...]
    """The directory id of each replica; empty if the version of the metadata has none."""
    leader_epoch: int
    in_sync: tuple[int, ...] = ()
    """Node ids of the replicas that have all that is committed (ISR)."""
    eligible: tuple[int, ...] = ()
    """Node ids of other replicas that have all of it, too (ELR)."""

    def directory_of(self, node_id: int) -> str | None:
        """Return the id of the log dir in which a broker has the partition; None if the broker has no replica."""
        known = dict(zip(self.replicas, self.directories, strict=False))
        return known.get(node_id)


class Assignments(NamedTuple):
    """The partitions and topics, as the metadata log has them."""

    topic_ids: Mapping[str, str]
    removed_ids: Mapping[str, frozenset[str]]
    """Name -> the ids of the topics of that name that were removed since the newest snapshot."""
    partitions: Mapping[tuple[str, int], Assignment]
    """Topic id and partition number -> the partition's assignment."""


def read_assignments(directory: Path) -> Assignments:
    """Read the metadata partition in ``directory``. Raises: as ``read_cluster_metadata``."""
    replay, _ = replayed(directory, _Assigning)
    return Assignments(
        {name: topic_id for topic_id, name in replay.topic_names.items()},
        {name: frozenset(ids) for name, ids in replay.removed_ids.items()},
        dict(replay.partitions),
    )


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
    """Feature and level of each record that states them, in order."""
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


class _Assigning(Replay):
    def __init__(self, end_offset: int) -> None:
        super().__init__(end_offset)
        self.partitions: dict[tuple[str, int], Assignment] = {}
        self.removed_ids: defaultdict[str, set[str]] = defaultdict(set)

    def read(self, value: bytes) -> None:
        """Take the value of a record, if it concerns us. Raises: InvalidRecord."""
        is_framed = len(value) > _FRAME_BYTES and value[0] == _FRAME_VERSION
        schema = _SCHEMAS.get(value[1]) if is_framed else None
        if schema is None:
            super().read(value)
        else:
            fields = decode(CLUSTER_METADATA[schema], value[2], value, _FRAME_BYTES)
            self.take(cast(MetadataRecord, _PartitionSeen(fields)))

    def apply(self, record: MetadataRecord) -> None:
        """Take the effect of a record whose transaction, if there is one, has ended."""
        match record:
            case _PartitionSeen(fields):
                self._assign(fields)
            case TopicRemoved(topic_id):
                if topic_id in self.topic_names:
                    self.removed_ids[self.topic_names[topic_id]].add(topic_id)
                for key in [key for key in self.partitions if key[0] == topic_id]:
                    del self.partitions[key]
                super().apply(record)
            case _:
                super().apply(record)

    def _assign(self, fields: Fields) -> None:
        key = fields["topicId"], fields["partitionId"]
        if "leaderEpoch" in fields:
            assigned = tuple(fields["replicas"]), tuple(fields.get("directories") or ())
            eligible = tuple(fields.get("eligibleLeaderReplicas") or ())
            self.partitions[key] = Assignment(*assigned, fields["leaderEpoch"], tuple(fields["isr"]), eligible)
            return
        before = self.partitions.get(key)
        if before is None:
            return
        replicas, directories, in_sync = fields["replicas"], fields.get("directories"), fields["isr"]
        elr = fields.get("eligibleLeaderReplicas")
        self.partitions[key] = Assignment(
            before.replicas if replicas is None else tuple(replicas),
            before.directories if directories is None else tuple(directories),
            before.leader_epoch + (fields["leader"] != _NO_LEADER_CHANGE),
            before.in_sync if in_sync is None else tuple(in_sync),
            before.eligible if elr is None else tuple(elr),
        )


class _PartitionSeen(NamedTuple):
    fields: Fields
