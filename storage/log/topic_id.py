"""``partition.metadata``: the id of the topic that a partition directory belongs to, whatever its name."""

from __future__ import annotations

from pathlib import Path

from storage.checkpoints import parse_partition_metadata
from storage.errors import LogCleanerError
from storage.log_dir import read_file
from storage.names import PARTITION_METADATA_FILE


def read_topic_id(directory: Path) -> str | None:
    """Return the topic id of a partition directory; None if it has no such file.

    Raises: CorruptCheckpoint, UnreadableFile.
    """
    path = directory / PARTITION_METADATA_FILE
    data = read_file(path)
    return None if data is None else parse_partition_metadata(data, path)


def topic_id_if_readable(directory: Path) -> str | None:
    """Return the topic id of a partition directory; None also if the file cannot be read."""
    try:
        return read_topic_id(directory)
    except LogCleanerError:
        return None
