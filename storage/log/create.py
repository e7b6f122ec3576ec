"""A new partition directory, as a broker makes it for a topic that was just created."""

from __future__ import annotations

from pathlib import Path

from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, format_partition_metadata
from storage.directory import opened
from storage.filesystem import FileSystem, Purpose, give_away
from storage.log.leader_epochs import ensure_valid_epoch
from storage.log.roll import create_segment
from storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE


def create_partition(fs: FileSystem, directory: Path, topic_id: str, leader_epoch: int) -> None:
    """Make the directory, owned like its parent, with two metadata files and an empty segment at offset 0.

    Raises: InvalidLeaderEpoch, FileExistsError, OutOfSpace, UnsafeOwner.
    """
    ensure_valid_epoch(directory, leader_epoch)
    directory.mkdir()
    with opened(directory) as descriptor:
        give_away(descriptor, directory, directory.parent.stat())
    metadata = format_partition_metadata(topic_id)
    fs.replace_file(directory / PARTITION_METADATA_FILE, metadata, Purpose.CHECKPOINT)
    epochs = format_leader_epochs([LeaderEpochEntry(leader_epoch, 0)])
    fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, epochs, Purpose.CHECKPOINT)
    create_segment(fs, directory, 0)
    fs.fsync_dir(directory.parent, Purpose.ROLL)
