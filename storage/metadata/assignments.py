"""The broker and the log dir that each partition is assigned to, and the topics of the past: ``__cluster_metadata-0``.

Only ``verify`` and its repairs ask; a run reads no more than topics and configs (``metadata_log``).

Source: Kafka ``ReplicationControlManager``, ``PartitionRegistration.merge``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, cast

from storage.metadata.metadata_log import Replay, replayed
from storage.metadata.metadata_records import MetadataRecord, TopicRemoved
from storage.schemas.cluster_metadata import CLUSTER_METADATA
from storage.schemas.decoding import Fields, decode

_FRAME: Final = {(1, 3): "PartitionRecord", (1, 5): "PartitionChangeRecord"}
"""Frame version and record type -> the schema. These numbers, and the record version behind them, take a byte each."""
_FRAME_BYTES: Final = 3
_NO_LEADER_CHANGE: Final = -2


class Assignment(NamedTuple):
    """The replicas of a partition."""

    replicas: tuple[int, ...]
    """Node ids."""
    directories: tuple[str, ...]
    """The directory id of each replica; empty where the metadata is of a version that has none."""
    leader_epoch: int

    def directory_of(self, node_id: int) -> str | None:
        """Return the id of the log dir that a broker has the partition in; None if it has none."""
        known = dict(zip(self.replicas, self.directories, strict=False))
        return known.get(node_id)


class Assignments(NamedTuple):
    """The partitions and topics, as the metadata log has them."""

    topic_ids: Mapping[str, str]
    removed_ids: Mapping[str, frozenset[str]]
    """Name -> the ids of topics of that name that the log saw removed, since its newest snapshot."""
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


class _PartitionSeen(NamedTuple):
    fields: Fields


class _Assigning(Replay):
    def __init__(self, end_offset: int = 0) -> None:
        super().__init__(end_offset)
        self.partitions: dict[tuple[str, int], Assignment] = {}
        self.removed_ids: defaultdict[str, set[str]] = defaultdict(set)

    def read(self, value: bytes) -> None:
        """Take the value of a record, if it concerns us. Raises: InvalidRecord."""
        schema = _FRAME.get((value[0], value[1])) if len(value) > _FRAME_BYTES else None
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
            self.partitions[key] = Assignment(*assigned, fields["leaderEpoch"])
            return
        before = self.partitions.get(key)
        if before is None:
            return
        replicas, directories = fields["replicas"], fields.get("directories")
        self.partitions[key] = Assignment(
            before.replicas if replicas is None else tuple(replicas),
            before.directories if directories is None else tuple(directories),
            before.leader_epoch + (fields["leader"] != _NO_LEADER_CHANGE),
        )
