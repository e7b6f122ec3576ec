"""The facts that tell to which topic a partition directory belongs: the metadata log, and signs of another topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from cleaner.engine.journal import partition_of, read_journal
from policies.findings.repairs import TopicIdFacts
from storage.errors import LogCleanerError
from storage.log.leader_epochs import read_leader_epochs, topic_id_if_readable
from storage.log.listing import list_partition
from storage.log.rebuild import epochs_in
from storage.log_dir import LogDir
from storage.metadata.assignments import Assignments, read_assignments
from storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES_FILE, TopicPartition, parse_partition_dir_name
from storage.properties import read_properties


def read_assigned(log_dirs: Sequence[LogDir], metadata_log_dir: str | None) -> Assignments | None:
    """Read the metadata log of the broker: of its own log dir, or of the first that has one.

    None without a readable one: then the topic of a directory is not known.
    """
    name = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
    places = [Path(metadata_log_dir)] if metadata_log_dir else [log_dir.path for log_dir in log_dirs]
    for place in places:
        if (place / name).is_dir():
            with suppress(LogCleanerError):
                return read_assignments(place / name)
            return None
    return None


def observe_topic(
    log_dir: LogDir, topic_partition: TopicPartition, log_dirs: Sequence[LogDir], assigned: Assignments | None
) -> TopicIdFacts:
    """Return the facts that tell the topic of a partition directory.

    Args:
        log_dir: the one that holds the directory.
        topic_partition: by the name of the directory.
        log_dirs: all known log dirs of the broker.
        assigned: by the metadata log.

    Raises: CorruptBatch where the leader epochs of its batches cannot be read, UnreadableFile.
    """
    directory = log_dir.path / str(topic_partition)
    node_id, directory_id = ids_of(log_dir)
    topic_id = assigned.topic_ids.get(topic_partition.topic) if assigned else None
    assignment = assigned.partitions.get((topic_id, topic_partition.partition)) if assigned and topic_id else None
    removed = assigned.removed_ids.get(topic_partition.topic, frozenset()) if assigned else frozenset[str]()
    return TopicIdFacts(
        node_id,
        directory_id,
        topic_id,
        assignment.replicas if assignment else (),
        assignment.directory_of(node_id) if assignment and node_id is not None else None,
        assignment.leader_epoch if assignment else None,
        _newest_epoch(directory),
        topic_id_if_readable(directory),
        tuple(sorted(removed | set(_other_ids(log_dirs, topic_partition)))),
        tuple(str(path) for path in _namesakes(log_dirs, topic_partition) if path != directory),
    )


def ids_of(log_dir: LogDir) -> tuple[int | None, str | None]:
    """Return the node id and the directory id in the ``meta.properties`` of a log dir; None for a missing id."""
    try:
        properties = read_properties(log_dir.path / META_PROPERTIES_FILE)
    except LogCleanerError:
        return None, None
    node, directory = properties.get("node.id"), properties.get("directory.id")
    node_id = int(node.value) if node and node.value.isdecimal() else None
    return node_id, directory.value if directory else None


def _newest_epoch(directory: Path) -> int | None:
    seen = list(epochs_in(list_partition(directory).segments).entries)
    with suppress(LogCleanerError):
        seen += read_leader_epochs(directory)
    return max((entry.epoch for entry in seen), default=None)


def _other_ids(log_dirs: Sequence[LogDir], topic_partition: TopicPartition) -> Iterator[str]:
    """Yield the topic ids of the topic's partitions, and the ids that holds and the journal note for this partition."""
    for log_dir in log_dirs:
        for found, path in log_dir.partitions():
            if found.topic == topic_partition.topic and (topic_id := topic_id_if_readable(path)):
                yield topic_id
        if topic_id := log_dir.hold_ids(log_dir.holds()).get(topic_partition):
            yield topic_id
        for entry in read_journal(log_dir.path):
            undo = entry.get("undo")
            noted = undo.get("topic_id") if isinstance(undo, dict) and partition_of(entry) == topic_partition else None
            if isinstance(noted, str):
                yield noted


def _namesakes(log_dirs: Sequence[LogDir], topic_partition: TopicPartition) -> Iterator[Path]:
    """Yield every directory of the partition's name: live, future, stray, or to be deleted."""
    for log_dir in log_dirs:
        for path in log_dir.path.iterdir():
            found = parse_partition_dir_name(path.name)
            if found and found.topic_partition == topic_partition and path.is_dir():
                yield path
