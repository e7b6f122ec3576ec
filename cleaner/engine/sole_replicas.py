"""The replicas of the partitions here, by the cluster metadata, and which of them are nowhere else in sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storage.directory import entries
from storage.errors import as_unreadable
from storage.log_dir import LogDir
from storage.names import CLUSTER_METADATA_TOPIC, DirState, TopicPartition, parse_partition_dir_name

if TYPE_CHECKING:
    from storage.metadata.assignments import Assignment


class Placed(NamedTuple):
    """The partitions of some log dirs, as the cluster metadata has them."""

    node_id: int
    """The id of this broker."""
    assigned: Mapping[TopicPartition, Assignment]
    """The partitions that the metadata knows."""


def placed(
    log_dirs: Sequence[LogDir], wants: Callable[[TopicPartition], bool], metadata_log_dir: str | None = None
) -> Placed | None:
    """Return the replicas of the partitions in some log dirs; None if there is no cluster metadata.

    Args:
        log_dirs: of the broker.
        wants: a predicate, asked about each partition.
        metadata_log_dir: ``metadata.log.dir``, if it is stated.

    Raises: UnreadableFile.
    """
    metadata = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
    places = [Path(metadata_log_dir)] if metadata_log_dir else [log_dir.path for log_dir in log_dirs]
    if not any((place / metadata).is_dir() for place in places):
        return None
    from cleaner.engine.repair.topic_ids import ids_of, read_assigned  # noqa: PLC0415 - no other run loads it

    here = {name for log_dir in log_dirs for name, _ in log_dir.partitions(wants)}
    node_id = next((one for log_dir in log_dirs if (one := ids_of(log_dir)[0]) is not None), None)
    assigned = read_assigned(log_dirs, metadata_log_dir) if here and node_id is not None else None
    if assigned is None or node_id is None:
        return None
    keys = {name: (assigned.topic_ids.get(name.topic, ""), name.partition) for name in here}
    return Placed(node_id, {name: assigned.partitions[key] for name, key in keys.items() if key in assigned.partitions})


def sole_in_sync(
    log_dirs: Sequence[LogDir], wants: Callable[[TopicPartition], bool], metadata_log_dir: str | None = None
) -> list[TopicPartition]:
    """Return the partitions of several replicas of which a broker holds the only one that is in sync, sorted.

    A replica that is eligible to lead counts as one in sync: when the last broker stops, it is no longer in the ISR.
    Arguments and errors are those of ``placed``.
    """
    if (found := placed(log_dirs, wants, metadata_log_dir)) is None:
        return []
    several = ((name, one) for name, one in found.assigned.items() if len(one.replicas) > 1)
    return sorted(name for name, one in several if {*one.in_sync, *one.eligible} == {found.node_id})


def being_moved(log_dirs: Sequence[LogDir]) -> frozenset[TopicPartition]:
    """Return the partitions that a replica move fills a ``-future`` directory of. Raises: UnreadableFile."""
    return frozenset(name for log_dir in log_dirs for name in _moving(log_dir))


def _moving(log_dir: LogDir) -> Iterator[TopicPartition]:
    with as_unreadable(log_dir.path), entries(log_dir.path) as listed:
        for entry in listed:
            name = parse_partition_dir_name(entry.name)
            if name is not None and name.state is DirState.FUTURE:
                yield name.topic_partition
