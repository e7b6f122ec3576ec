"""``leader-epoch-checkpoint``: from which offset on each leader epoch wrote."""

from __future__ import annotations

from pathlib import Path

from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, parse_leader_epochs
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import read_file
from storage.names import LEADER_EPOCH_CHECKPOINT


class LeaderEpochs:
    """The leader epochs of a partition, read when first asked for, then kept."""

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        self._fs = fs
        self._directory = directory
        self._entries: list[LeaderEpochEntry] | None = None

    def entries(self) -> list[LeaderEpochEntry]:
        """Return the leader epochs, ascending; none without the file. Raises: CorruptCheckpoint, UnreadableFile."""
        if self._entries is None:
            self._entries = read_leader_epochs(self._directory)
        return self._entries

    def to_write(self, leader_epoch: int | None) -> int:
        """Return the epoch for the next batches: the given one, else the newest, else 0. Raises: as ``entries``."""
        if leader_epoch is not None:
            return leader_epoch
        entries = self.entries()
        return entries[-1].epoch if entries else 0

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` writes from ``start_offset`` on, unless it is the newest already.

        An epoch that wrote nothing, because it began at that very offset or behind it, is forgotten, and so is a higher
        one: Kafka takes a lower epoch for the truth.

        Raises: OutOfSpace, UnsafeOwner; as ``entries``. Source: Kafka LeaderEpochFileCache.assign.
        """
        entries = self.entries()
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        assigned = [*kept, LeaderEpochEntry(epoch, start_offset)]
        path = self._directory / LEADER_EPOCH_CHECKPOINT
        self._fs.replace_file(path, format_leader_epochs(assigned), Purpose.CHECKPOINT)
        self._entries = assigned


def read_leader_epochs(directory: Path) -> list[LeaderEpochEntry]:
    """Read the leader epochs of a partition; none if the file is absent. Raises: CorruptCheckpoint, UnreadableFile."""
    path = directory / LEADER_EPOCH_CHECKPOINT
    data = read_file(path)
    return [] if data is None else parse_leader_epochs(data, path)
