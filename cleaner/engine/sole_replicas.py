"""Finds the partitions of which no other broker has a replica in sync: what goes here is nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storage.log_dir import LogDir
from storage.names import CLUSTER_METADATA_TOPIC, TopicPartition


def sole_in_sync(log_dirs: Sequence[LogDir], wants: Callable[[TopicPartition], bool]) -> list[TopicPartition]:
    """Return the partitions of several replicas of which a broker holds the only one that is in sync, sorted.

    Nothing is known if the log dirs hold no cluster metadata.

    Args:
        log_dirs: of the broker.
        wants: a predicate, asked about each partition.

    Raises: UnreadableFile.
    """
    metadata = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
    if not any((log_dir.path / metadata).is_dir() for log_dir in log_dirs):
        return []
    from cleaner.engine.repair.topic_ids import ids_of, read_assigned  # noqa: PLC0415 - no other run loads it

    here = {name for log_dir in log_dirs for name, _ in log_dir.partitions(wants)}
    node_id = next((one for log_dir in log_dirs if (one := ids_of(log_dir)[0]) is not None), None)
    assigned = read_assigned(log_dirs, None) if here and node_id is not None else None
    if assigned is None:
        return []
    keys = {name: (assigned.topic_ids.get(name.topic, ""), name.partition) for name in here}
    placed = {name: assigned.partitions[key] for name, key in keys.items() if key in assigned.partitions}
    return sorted(name for name, one in placed.items() if len(one.replicas) > 1 and one.in_sync == (node_id,))
