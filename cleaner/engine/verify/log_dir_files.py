"""The files of a log dir itself, read for the rules: checkpoints, ``meta.properties``, names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.copy.manifest import CorruptManifest, check_of_copy
from policies.findings.findings import Noted
from policies.findings.of_history import NO_EPOCHS, EpochStart, ReadEpochs
from policies.findings.of_log_dir import CHECKPOINTS, CopyCheck, NamedEntry, OffsetCheckpoint, TopicId
from policies.preflight.facts import NEWEST, KafkaFailure
from policies.preflight.identity import IdentityBefore
from policies.preflight.texts import leader_epochs_failure, read_offset_checkpoint
from policies.preflight.texts import read_topic_id as read_as_kafka
from storage.checkpoints import CorruptCheckpoint, parse_leader_epochs, parse_offset_checkpoint
from storage.directory import DirectoryEntry, entries
from storage.errors import InvalidConfig, UnreadableFile, as_unreadable
from storage.log.leader_epochs import read_topic_id
from storage.log_dir import read_file
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_topic_partition,
)
from storage.properties import parse_properties

_AS_NOTED: Final = (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
"""In the order of ``Noted``."""


class CheckpointFiles(NamedTuple):
    """The checkpoint files of a log dir that are there. A file that does not parse has no lines, and says why."""

    files: tuple[OffsetCheckpoint, ...]
    was_clean: bool
    """Whether the broker stopped cleanly."""

    @staticmethod
    def read(log_dir: Path, unread: Callable[[UnreadableFile], object]) -> CheckpointFiles:
        """Read them before the logs, which grow beside a broker; ``unread`` hears of each that cannot be read."""
        found = []
        for name in CHECKPOINTS:
            try:
                checkpoint = _read_checkpoint(log_dir / name)
            except UnreadableFile as error:
                unread(error)
            else:
                found += [checkpoint] if checkpoint is not None else []
        return CheckpointFiles(tuple(found), (log_dir / CLEAN_SHUTDOWN_FILE).exists())

    def offsets(self, name: str) -> Mapping[TopicPartition, int]:
        """Return the lines of one file; none if it is absent or cannot be read."""
        return next((one.offsets for one in self.files if one.name == name), {})

    def noted(self, topic_partition: TopicPartition) -> Noted:
        """Return what the files say of a partition."""
        return Noted(*[self.offsets(name).get(topic_partition) for name in _AS_NOTED])


def _read_checkpoint(path: Path) -> OffsetCheckpoint | None:
    data = read_file(path)
    if data is None:
        return None
    try:
        offsets = parse_offset_checkpoint(data, path)
    except CorruptCheckpoint as error:
        where = f"line {error.line}, " if error.line else ""
        failure = read_offset_checkpoint(data, NEWEST)
        goes_offline = isinstance(failure, KafkaFailure) and failure.is_io
        return OffsetCheckpoint(str(path), path.name, {}, (), f"{where}{error.cause}", goes_offline)
    return OffsetCheckpoint(str(path), path.name, offsets, tuple(_repeated(data)))


def _repeated(data: bytes) -> Iterator[TopicPartition]:
    """Yield the partitions that have several lines in a checkpoint that parses."""
    counts = Counter(tuple(line.split()[:2]) for line in data.decode().splitlines()[2:])
    for (topic, partition), count in counts.items():
        if count > 1 and (found := parse_topic_partition(f"{topic}-{partition}")) is not None:
            yield found


def read_identity(log_dir: Path) -> IdentityBefore:
    """Read the ``meta.properties`` of a log dir. Raises: UnreadableFile."""
    path = log_dir / META_PROPERTIES_FILE
    data = read_file(path)
    try:
        found = None if data is None else parse_properties(data, str(path))
    except InvalidConfig as error:
        return IdentityBefore(str(log_dir), None, error.reason, is_malformed=True)
    return IdentityBefore(str(log_dir), None if found is None else {key: one.value for key, one in found.items()})


def read_copy(
    log_dir: Path, wants: Callable[[TopicPartition], bool], unread: Callable[[UnreadableFile], object], *,
    is_whole: bool,
) -> CopyCheck:  # fmt: skip
    """Return what a log dir lacks, if it is a copy. ``unread`` hears of a manifest that cannot be read.

    Arguments: as of ``check_of_copy``.
    """
    try:
        return check_of_copy(log_dir, wants, is_whole=is_whole)
    except CorruptManifest as error:
        return CopyCheck(error=error.cause)
    except UnreadableFile as error:
        unread(error)
        return CopyCheck()


def read_entries(log_dir: Path) -> list[NamedEntry]:
    """List a log dir; a symlink counts as what it leads to, as for a broker. Raises: UnreadableFile."""
    with as_unreadable(log_dir), entries(log_dir) as listed:
        return [NamedEntry(entry.name, _is_directory(entry, log_dir)) for entry in listed]


def _is_directory(entry: DirectoryEntry, log_dir: Path) -> bool:
    return (log_dir / entry.name).is_dir() if entry.is_symlink() else entry.is_dir(follow_symlinks=False)


def read_epochs_of(directory: Path) -> ReadEpochs:
    """Read the ``leader-epoch-checkpoint`` of a partition. Raises: UnreadableFile."""
    path = directory / LEADER_EPOCH_CHECKPOINT
    data = read_file(path)
    if data is None:
        return NO_EPOCHS
    try:
        return ReadEpochs(tuple(EpochStart(*entry) for entry in parse_leader_epochs(data, path)))
    except CorruptCheckpoint as error:
        failure = leader_epochs_failure(data, NEWEST)
        return ReadEpochs(None, error.cause, failure is None or failure.is_io)


def read_id_of(directory: Path, name: TopicPartition) -> TopicId:
    """Read the ``partition.metadata`` of a partition. Raises: UnreadableFile."""
    try:
        return TopicId(str(directory), name, read_topic_id(directory))
    except CorruptCheckpoint as error:
        failure = read_as_kafka(read_file(directory / PARTITION_METADATA_FILE)).failure
        return TopicId(str(directory), name, None, error.cause, failure is None or failure.is_io)
