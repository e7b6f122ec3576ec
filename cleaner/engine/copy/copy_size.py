"""The room that a copy needs at most: the data of the files that are copied, without their holes, and what a compaction
may leave. Blocks that a file system shares between original and copy are not counted on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from cleaner.engine.copy.moment import METADATA_DIR, Moment, SeenDirectory
from cleaner.engine.repair.kept import is_kept_other
from policies.facts import UnreadablePartition
from policies.plan import LogDirPlan, PartitionPlan
from storage.directory import open_sized, opened
from storage.errors import LogCleanerError, as_unreadable
from storage.holes import data_bytes
from storage.log.listing import Listing
from storage.names import SCRATCH_SUFFIX, FileKind, parse_segment_file_name

_SMALL_FILES_BYTES: Final = 1 << 20
"""The least room for checkpoints, the manifest and other small files."""


def needed_bytes(plan: LogDirPlan, moment: Moment, left_of: Callable[[PartitionPlan], Listing]) -> int:
    """Return what a copy takes at most.

    Args:
        plan: of the log dir.
        moment: the log dir as it was before the plan was made.
        left_of: tells what retention leaves of a partition.

    Raises: UnreadableFile.
    """
    segments_bytes = sum(_segments_bytes(planned, moment, left_of) for planned in plan.partitions)
    metadata = moment.directories.get(METADATA_DIR)
    others_bytes = _data_of(moment.root.path, moment.root.plain_files())
    others_bytes += _data_of(metadata.path, metadata.plain_files()) if metadata else 0
    return segments_bytes + max(others_bytes, _SMALL_FILES_BYTES)


def is_of_the_partition(name: str) -> bool:
    """Return whether a file belongs to no segment: topic id, leader epochs, and what others may have put there.

    What a repair replaced stays behind, as deleted segments do.
    """
    is_left = name.endswith(SCRATCH_SUFFIX) or is_kept_other(name)
    return parse_segment_file_name(name) is None and not is_left


def _segments_bytes(
    planned: PartitionPlan | UnreadablePartition, moment: Moment, left_of: Callable[[PartitionPlan], Listing]
) -> int:
    """A compacted log is counted whole: what is left of it has no holes, and is at most as long."""
    if isinstance(planned, UnreadablePartition):
        return _as_it_is(moment.directories[str(planned.topic_partition)])
    directory = moment.directories[str(planned.facts.topic_partition)]
    try:
        files = left_of(planned).files
    except LogCleanerError:
        return _as_it_is(directory)
    bases = planned.compaction.base_offsets if planned.compaction else set()
    written_bytes, copied = 0, []
    for file in files:
        if file.name.kind is FileKind.LOG and file.name.base_offset in bases:
            written_bytes += file.size_bytes
        else:
            copied.append(file.file_name)
    return written_bytes + _data_of(directory.path, copied)


def _as_it_is(directory: SeenDirectory) -> int:
    return _data_of(directory.path, directory.plain_files())


def _data_of(directory: Path, names: Iterable[str]) -> int:
    """Return the bytes of data in some files of a directory. One that is gone has none; its copying tells."""
    total_bytes = 0
    with as_unreadable(directory), opened(directory) as parent:
        for name in names:
            total_bytes += _data_in(directory / name, parent)
    return total_bytes


def _data_in(path: Path, parent: int) -> int:
    try:
        descriptor, size_bytes = open_sized(path, parent)
    except OSError:  # its copying tells
        return 0
    try:
        return data_bytes(descriptor, size_bytes)
    finally:
        os.close(descriptor)
