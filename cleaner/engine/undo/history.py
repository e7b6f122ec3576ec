"""The past of a log dir, as its journal tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cleaner.engine.inventory import Wanted
from cleaner.engine.journal import read_lines
from storage.log_dir import LogDir
from storage.names import parse_topic_partition


@dataclass(frozen=True, slots=True)
class History:
    """The entries of one journal."""

    log_dir: str
    entries: tuple[Mapping[str, Any], ...]
    """Oldest first; each has ``time_ms`` and ``what``, mostly ``partition`` and ``bytes``."""
    damaged_lines: int
    """Lines cut short by a crash or a full disk, or altered: what they told is lost."""


def read_history(log_dir: LogDir, wanted: Wanted) -> History:
    """Return the entries of the wanted partitions and of the log dir as a whole, without the fields for a restore.

    Raises: UnreadableFile.
    """
    entries, damaged_lines = [], 0
    for entry in read_lines(log_dir.path):
        if entry is None:
            damaged_lines += 1
        elif "partition" not in entry or _is_wanted(entry["partition"], wanted):
            entry.pop("undo", None)
            entries.append(entry)
    return History(str(log_dir.path), tuple(entries), damaged_lines)


def _is_wanted(name: object, wanted: Wanted) -> bool:
    topic_partition = parse_topic_partition(name) if isinstance(name, str) else None
    return topic_partition is not None and wanted(topic_partition)
