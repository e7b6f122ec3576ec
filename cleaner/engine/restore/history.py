"""The past of a log dir, as its journal tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cleaner.engine.inventory import Wanted
from cleaner.engine.journal import DROPPED, GUARDED, SOURCES, partition_of, read_lines
from storage.checkpoints import CorruptCheckpoint
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition

_OF_A_COMPACTION: Final = (GUARDED, DROPPED)
"""Lines that say what came of the compaction before them."""


@dataclass(frozen=True, slots=True)
class History:
    """The entries of one journal."""

    log_dir: str
    entries: tuple[Mapping[str, Any], ...]
    """Oldest first; each has ``time_ms`` and ``what``, mostly ``partition`` and ``bytes``."""
    damaged_lines: int
    """Lines cut short by a crash or a full disk, or altered: what they told is lost."""
    first_dirty_offsets: Mapping[str, int] = field(default_factory=dict)
    """Partition -> its first dirty offset; 0 without a line in the cleaner's checkpoint."""
    partitions: frozenset[str] | None = None
    """The partitions of the log dir; None if nobody looked."""

    def is_missing(self, entry: Mapping[str, Any]) -> bool:
        """Return whether no partition of this name is there: it was deleted since, or its import was killed."""
        return self.partitions is not None and str(entry.get("partition")) not in self.partitions

    def is_unfinished(self, entry: Mapping[str, Any]) -> bool:
        """Return whether the cleaner's checkpoint lies below the end of a compaction: a part of it may be done."""
        end_offset, first_dirty = entry.get("end_offset"), self.first_dirty_offsets.get(str(entry.get("partition")))
        return isinstance(end_offset, int) and first_dirty is not None and first_dirty < end_offset


def read_history(log_dir: LogDir, wanted: Wanted) -> History:
    """Return the entries of the wanted partitions and of the log dir as a whole, without the fields for a restore.

    A compaction that a guard rail held back changed nothing: its own line is left out, and the one that says so is not.
    A compaction that dropped records without a key has their number as ``records_unkeyed``.

    Raises: UnreadableFile.
    """
    entries: list[Mapping[str, Any]] = []
    damaged_lines = 0
    for entry in read_lines(log_dir.path):
        if entry is None:
            damaged_lines += 1
        elif "partition" not in entry or ((topic_partition := partition_of(entry)) and wanted(topic_partition)):
            for noted in ("undo", SOURCES):
                entry.pop(noted, None)
            newest = _newest_compaction(entries, entry.get("partition")) if entry["what"] in _OF_A_COMPACTION else None
            if newest is not None and entry["what"] == DROPPED:
                entries[newest] = {**entries[newest], "records_unkeyed": entry.get("records_unkeyed")}
                continue
            if newest is not None:
                del entries[newest]
            entries.append(entry)
    here = frozenset(str(topic_partition) for topic_partition, _ in log_dir.partitions())
    return History(str(log_dir.path), tuple(entries), damaged_lines, _first_dirty_offsets(log_dir), here)


def compactions(log_dirs: Iterable[LogDir], wanted: Wanted) -> dict[TopicPartition, int]:
    """Return the wanted partitions that a compaction rewrote, and when the newest one did, epoch ms.

    Raises: UnreadableFile.
    """
    found: dict[TopicPartition, int] = {}
    for log_dir in log_dirs:
        for entry in read_history(log_dir, wanted).entries:
            if entry["what"] == "compact" and (topic_partition := partition_of(entry)) is not None:
                found[topic_partition] = entry["time_ms"]
    return found


def _newest_compaction(entries: Sequence[Mapping[str, Any]], partition: object) -> int | None:
    """Return the place of the newest compaction of a partition; None if its line is not there any more."""
    for place in reversed(range(len(entries))):
        if (entries[place]["what"], entries[place].get("partition")) == ("compact", partition):
            return place
    return None


def _first_dirty_offsets(log_dir: LogDir) -> Mapping[str, int]:
    """Return nothing if the checkpoint is garbled: then nothing tells what was finished."""
    try:
        cleaned = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT)
    except CorruptCheckpoint:
        return {}
    return {str(topic_partition): cleaned.get(topic_partition, 0) for topic_partition, _ in log_dir.partitions()}
