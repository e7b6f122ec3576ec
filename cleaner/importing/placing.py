"""Refuse a partition that is there already, and find the topic id of a new one."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from cleaner.engine.repair.topic_ids import ids_of, read_assigned
from policies.importing import ImportFacts, Placement, placement
from storage.errors import ErrorKind, LogCleanerError
from storage.log.leader_epochs import topic_id_if_readable
from storage.log_dir import LogDir
from storage.names import DirState, TopicPartition, parse_partition_dir_name


class PartitionIsThere(LogCleanerError):
    """The partition that was to be imported is there already."""

    kind = ErrorKind.USAGE

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: exists; import makes new partitions only: name another one, or move this one away"


def check_absent(log_dirs: Sequence[LogDir], wanted: TopicPartition) -> None:
    """Refuse a partition that a log dir holds, or that a broker is about to move there. Raises: PartitionIsThere."""
    for log_dir in log_dirs:
        for name in os.listdir(log_dir.path):  # noqa: PTH208 - names alone
            found = parse_partition_dir_name(name)
            if found and found.topic_partition == wanted and found.state in (DirState.LIVE, DirState.FUTURE):
                raise PartitionIsThere(log_dir.path / name)


def topic_id_for(
    wanted: TopicPartition, log_dir: LogDir, log_dirs: Sequence[LogDir], metadata_log_dir: str | None
) -> Placement:
    """Return the topic id of a new partition, and a sentence about what a broker will do with the partition.

    Args:
        wanted: the partition.
        log_dir: that gets it.
        log_dirs: all of the broker that are known.
        metadata_log_dir: ``metadata.log.dir``, if it is stated.

    Raises: UnreadableFile.
    """
    assigned = read_assigned(log_dirs, metadata_log_dir)
    node_id, own_directory_id = ids_of(log_dir)
    topic_id = assigned.topic_ids.get(wanted.topic) if assigned else None
    assignment = assigned.partitions.get((topic_id, wanted.partition)) if assigned and topic_id else None
    neighbours = (path for d in log_dirs for found, path in d.partitions() if found.topic == wanted.topic)
    facts = ImportFacts(
        wanted,
        assigned is not None,
        topic_id,
        assignment.replicas if assignment else (),
        assignment.directory_of(node_id) if assignment and node_id is not None else None,
        node_id,
        own_directory_id,
        next(filter(None, map(topic_id_if_readable, neighbours)), None),
    )
    return placement(facts)


def new_topic_id() -> str:
    """Return a new topic id, as Kafka makes one: random, without a dash at its beginning. Source: Kafka Uuid."""
    while True:
        topic_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not topic_id.startswith("-"):
            return topic_id
