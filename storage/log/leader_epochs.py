"""The small files of a partition directory: ``leader-epoch-checkpoint`` and ``partition.metadata``.

The first tells from which offset on each leader epoch wrote; the second has the id of the topic that the directory
belongs to, whatever its name.
"""

from __future__ import annotations

from pathlib import Path

from storage.checkpoints import (
    CorruptCheckpoint,
    LeaderEpochEntry,
    format_leader_epochs,
    parse_leader_epochs,
    parse_partition_metadata,
    truncate_from_end,
    truncate_from_start,
)
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.log.errors import InvalidLeaderEpoch
from storage.log_dir import read_file
from storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE


class LeaderEpochs:
    """The leader epochs of a partition, read when first asked for, then kept."""

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        self._fs = fs
        self._directory = directory
        self._entries: list[LeaderEpochEntry] | None = None
        self._newest = 0
        """The current epoch; it may have written nothing yet."""

    def entries(self) -> list[LeaderEpochEntry]:
        """Return the leader epochs, ascending; none without the file. Raises: CorruptCheckpoint, UnreadableFile."""
        if self._entries is None:
            self._entries = read_leader_epochs(self._directory)
            self._newest = self._entries[-1].epoch if self._entries else 0
        return self._entries

    def to_write(self, leader_epoch: int | None) -> int:
        """Return the epoch for the next batches: the given one, else the newest, else 0. Raises: as ``entries``."""
        self.entries()
        return self._newest if leader_epoch is None else leader_epoch

    def latest(self) -> int | None:
        """Return the newest leader epoch; None if none is known. Raises: as ``entries``."""
        entries = self.entries()
        return entries[-1].epoch if entries else None

    def at_start(self, log_start_offset: int) -> int | None:
        """Return the leader epoch of the log start; None if none is known. Raises: as ``entries``."""
        entries = self.entries()
        return entries[0].epoch if entries and entries[0].start_offset <= log_start_offset else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` writes from ``start_offset`` on, unless it is the newest already.

        An epoch that wrote nothing, because it began at that very offset or behind it, is forgotten, and so is a higher
        one: Kafka takes a lower epoch for the truth.

        Raises: InvalidLeaderEpoch, OutOfSpace, UnsafeOwner; as ``entries``. Source: Kafka LeaderEpochFileCache.assign.
        """
        ensure_valid_epoch(self._directory, epoch, start_offset)
        entries = self.entries()
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        assigned = [*kept, LeaderEpochEntry(epoch, start_offset)]
        path = self._directory / LEADER_EPOCH_CHECKPOINT
        self._fs.replace_file(path, format_leader_epochs(assigned), Purpose.CHECKPOINT)
        self._entries, self._newest = assigned, epoch

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at or behind an offset: they wrote nothing. Errors as of ``assign``."""
        self._replace(truncate_from_end(self.entries(), end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended at an offset; the epoch there begins with it. Raises: as ``assign``."""
        self._replace(truncate_from_start(self.entries(), start_offset))

    def clear(self) -> None:
        """Forget all epochs. Errors as of ``assign``. Source: Kafka LeaderEpochFileCache.clearAndFlush."""
        self._fs.replace_file(self._directory / LEADER_EPOCH_CHECKPOINT, format_leader_epochs(()), Purpose.CHECKPOINT)
        self._entries, self._newest = [], 0

    def forget(self) -> None:
        """Forget all epochs, if there are any, because a batch of an older version has no epoch.

        Errors as of ``assign``.
        """
        if self.entries():
            self.clear()

    def _replace(self, entries: list[LeaderEpochEntry]) -> None:
        if entries != self.entries():
            path = self._directory / LEADER_EPOCH_CHECKPOINT
            self._fs.replace_file(path, format_leader_epochs(entries), Purpose.CHECKPOINT)
            self._entries = entries


def ensure_valid_epoch(directory: Path, epoch: int, start_offset: int = 0) -> None:
    """Refuse an epoch or an offset below 0: no broker opens a checkpoint with one. Raises: InvalidLeaderEpoch."""
    if start_offset < 0:
        raise InvalidLeaderEpoch(directory, f"leader epoch {epoch} cannot begin at offset {start_offset}, below 0")
    if epoch < 0:
        raise InvalidLeaderEpoch(directory, f"leader epoch {epoch} is below 0; name the epoch of the leader, from 0 on")


def read_leader_epochs(directory: Path) -> list[LeaderEpochEntry]:
    """Read the leader epochs of a partition; none if the file is absent. Raises: CorruptCheckpoint, UnreadableFile."""
    path = directory / LEADER_EPOCH_CHECKPOINT
    data = read_file(path)
    return [] if data is None else parse_leader_epochs(data, path)


def read_topic_id(directory: Path) -> str | None:
    """Return the topic id of a partition directory; None if it has no such file.

    Raises: CorruptCheckpoint, UnreadableFile.
    """
    path = directory / PARTITION_METADATA_FILE
    data = read_file(path)
    return None if data is None else parse_partition_metadata(data, path)


def topic_id_if_sound(directory: Path) -> str | None:
    """Return the topic id of a partition directory, to be written down; None also if the file does not parse.

    Raises: UnreadableFile: a disk that fails now must not make us forget the id.
    """
    try:
        return read_topic_id(directory)
    except CorruptCheckpoint:
        return None


def topic_id_if_readable(directory: Path) -> str | None:
    """Return the topic id of a partition directory, for a report; None also if the file cannot be read."""
    try:
        return read_topic_id(directory)
    except LogCleanerError:
        return None
