"""One partition's lines in the offset checkpoints of its log dir; those of the others stay.

A directory that is no live partition (``-delete``, ``-future``, ``-stray``) has no line, as with a broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from storage.checkpoints import format_offset_checkpoint, parse_offset_checkpoint
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import read_file
from storage.names import TopicPartition, parse_topic_partition

_WRITING: Final = Lock()
"""Logs of one log dir may be flushed by several threads."""


def offset_of(directory: Path, checkpoint: str) -> int | None:
    """Return the offset of a partition in a checkpoint; None without a line. Raises: CorruptCheckpoint."""
    name = parse_topic_partition(directory.name)
    return None if name is None else _read(directory.parent / checkpoint).get(name)


def note_offsets(fs: FileSystem, directory: Path, offsets: Mapping[str, int | None]) -> None:
    """Write a partition's offset into each checkpoint; None takes its line out. What is unchanged is not written.

    Raises: CorruptCheckpoint, OutOfSpace, UnsafeOwner.
    """
    name = parse_topic_partition(directory.name)
    if name is None:
        return
    with _WRITING:
        for checkpoint, offset in offsets.items():
            path = directory.parent / checkpoint
            found = _read(path)
            noted = {key: known for key, known in found.items() if key != name or offset is not None}
            if offset is not None:
                noted[name] = offset
            if noted != found:
                fs.replace_file(path, format_offset_checkpoint(noted), Purpose.CHECKPOINT)


def _read(path: Path) -> dict[TopicPartition, int]:
    data = read_file(path)
    return {} if data is None else parse_offset_checkpoint(data, path)
