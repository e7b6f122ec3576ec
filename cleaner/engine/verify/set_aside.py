"""Looks which ``-stray`` and ``-delete`` directories hold the only copy of a partition that belongs to the broker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from cleaner.engine.repair.topic_ids import ids_of, read_assigned
from policies.preflight.lost import LostPartition, SetAside, is_here, lost_partitions, sole_copies
from storage.directory import names_of
from storage.errors import LogCleanerError, as_unreadable
from storage.log.end import next_offset_of
from storage.log.leader_epochs import topic_id_if_readable
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.metadata.assignments import Assignments
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DirState,
    PartitionDirName,
    TopicPartition,
    parse_partition_dir_name,
)

_SET_ASIDE = (DirState.STRAY, DirState.DELETE)


def sole_copies_in(
    log_dir: LogDir, log_dirs: Sequence[LogDir], metadata_log_dir: str | None = None, *, asks_metadata: bool = True
) -> dict[str, SetAside]:
    """Return the directories of a log dir that hold the only copy of a partition of this broker, by name.

    Args:
        log_dir: that is looked at.
        log_dirs: all of the broker that are known.
        metadata_log_dir: ``metadata.log.dir``, if it is stated.
        asks_metadata: whether the cluster metadata are those of the log dir's cluster.

    Raises: UnreadableFile.
    """
    named = {path: list(_named(path)) for path in dict.fromkeys((log_dir, *log_dirs))}
    here = {found.topic_partition for pairs in named.values() for _, found in pairs if found.state not in _SET_ASIDE}
    aside = [
        _look(log_dir, name, found.topic_partition)
        for name, found in named[log_dir]
        if found.state in _SET_ASIDE and (log_dir.path / name).is_dir()
    ]
    aside = [one for one in aside if one.has_records]
    if met := {one.topic_partition for one in aside} & here:
        aside = [*(one for one in aside if one.topic_partition not in met), *_beside(aside, met, named)]
    if not aside:
        return {}
    assigned = read_assigned(log_dirs, metadata_log_dir) if asks_metadata else None
    noted = () if assigned else _noted(log_dir, here)
    placed = _placed(assigned, aside, log_dir, log_dirs) if assigned else None
    return {one.name: one for one in sole_copies(aside, here, placed, noted)}


def _beside(
    aside: Sequence[SetAside],
    met: set[TopicPartition],
    named: Mapping[LogDir, Sequence[tuple[str, PartitionDirName]]],
) -> Iterator[SetAside]:
    """Yield what was set aside of partitions that have a directory under their plain name, which lacks it.

    A partition that is being moved, or lies in two log dirs, is left out.
    """
    for one in aside:
        if one.topic_partition not in met:
            continue
        dirs = [
            _look(log_dir, name, found.topic_partition)
            for log_dir, pairs in named.items()
            for name, found in pairs
            if found.topic_partition == one.topic_partition and found.state not in _SET_ASIDE
        ]
        if len(dirs) == 1 and (lacks := one.lacking_in(dirs[0])) is not None:
            yield lacks


def _named(log_dir: LogDir) -> Iterator[tuple[str, PartitionDirName]]:
    with as_unreadable(log_dir.path):
        names = sorted(names_of(log_dir.path))
    for name in names:
        if (found := parse_partition_dir_name(name)) is not None:
            yield name, found


def _look(log_dir: LogDir, name: str, topic_partition: TopicPartition) -> SetAside:
    """Return what a directory holds; of a log that cannot be read, its sizes alone tell whether it has records."""
    directory = log_dir.path / name
    first = end = 0
    with suppress(LogCleanerError):
        segments = list_partition(directory).segments
        if segments:
            first = end = segments[-1].base_offset
        if any(segment.size_bytes for segment in segments):
            first, end = segments[0].base_offset, segments[-1].base_offset + 1
            with suppress(LogCleanerError):
                end = next_offset_of(segments[-1])
    return SetAside(name, topic_partition, topic_id_if_readable(directory), first, end)


def _placed(
    assigned: Assignments, aside: Sequence[SetAside], log_dir: LogDir, log_dirs: Sequence[LogDir]
) -> Mapping[TopicPartition, str]:
    """Return the topic ids of those partitions that the cluster metadata place in the log dirs."""
    node_id = ids_of(log_dir)[0]
    directory_ids = frozenset(found for one in (log_dir, *log_dirs) if (found := ids_of(one)[1]) is not None)
    placed = {}
    for name in {one.topic_partition for one in aside}:
        topic_id = assigned.topic_ids.get(name.topic)
        if topic_id is None:
            continue
        assignment = assigned.partitions.get((topic_id, name.partition))
        directory_id = assignment.directory_of(node_id) if assignment and node_id is not None else None
        is_ours = assignment is None or node_id is None or node_id in assignment.replicas
        if is_ours and is_here(directory_id, directory_ids):
            placed[name] = topic_id
    return placed


def _noted(log_dir: LogDir, here: set[TopicPartition]) -> set[TopicPartition]:
    """Return the partitions that had records, by the checkpoints of a clean stop."""

    def offsets(name: str) -> Mapping[TopicPartition, int]:
        with suppress(LogCleanerError):  # the checks of the checkpoints tell of it
            return log_dir.offsets(name)
        return {}

    is_clean = (log_dir.path / CLEAN_SHUTDOWN_FILE).exists()
    return {one.topic_partition for one in lost_in(offsets, here, None, is_clean=is_clean)}


def lost_in(
    offsets: Callable[[str], Mapping[TopicPartition, int]],
    here: Collection[TopicPartition],
    topics: Collection[str] | None,
    *,
    is_clean: bool,
) -> Iterator[LostPartition]:
    """Yield the partitions that had records by the checkpoints of a log dir, and that have no directory.

    Args:
        offsets: of the log dir, by the name of a checkpoint.
        here: the partitions with a directory in any log dir of the broker, whatever its suffix.
        topics: that the cluster metadata knows; None if nobody knows them.
        is_clean: whether the broker stopped cleanly.
    """
    ends = offsets(HIGH_WATERMARK_CHECKPOINT), offsets(RECOVERY_POINT_CHECKPOINT)
    assigned = None if topics is None else {name for one in ends for name in one if name.topic in topics}
    yield from lost_partitions(ends, offsets(LOG_START_OFFSET_CHECKPOINT), here, assigned, is_clean=is_clean)
