"""Reads the facts of log dirs that decide what a start does: listings and small files; no batch is read here."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cleaner.engine.preflight.contents import DirectoryContents, ReadingBudget
from policies.preflight.facts import FileBefore, KafkaFailure, LogDirBefore, Offsets, PartitionBefore, Release
from policies.preflight.identity import IdentityBefore
from policies.preflight.metadata import METADATA_DIR, MetadataBefore
from policies.preflight.names import REMOTE_SINCE, STRAY_SINCE, parse_kafka_name
from policies.preflight.texts import leader_epochs_failure, read_offset_checkpoint, read_topic_id
from storage.directory import opened
from storage.errors import InvalidConfig, LogCleanerError, UnreadableFile, as_unreadable
from storage.lock import holder_of
from storage.log_dir import read_file
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    TopicPartition,
)
from storage.properties import parse_properties

Interval = Callable[[TopicPartition], int]
"""``index.interval.bytes`` of a partition."""


class User(NamedTuple):
    """The user that the broker runs as."""

    uid: int
    gid: int

    def may(self, status: os.stat_result, bits: int) -> bool:
        """Return whether the mode gives this user some of ``rwx``, as the bits 4, 2 and 1."""
        if self.uid == 0:
            return True
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return (status.st_mode >> shift) & bits == bits


_CHECKPOINTS = RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT
_UNWRAPPED_SINCE = 4
_READ_WRITE = 6
_ALL = 7
_READ = 4


def _may(user: User, path: Path, bits: int) -> bool:
    """Return whether a user may do something with a file, which may be missing."""
    try:
        return user.may(path.stat(), bits)
    except OSError:
        return True


def read_identity(path: Path, user: User) -> IdentityBefore:
    """Read ``meta.properties`` as a user."""
    file = path / META_PROPERTIES_FILE
    if not _may(user, file, _READ):
        return IdentityBefore(str(path), None, f"user {user.uid} may not read it")
    try:
        data = read_file(file)
        found = None if data is None else parse_properties(data, str(file))
    except (UnreadableFile, InvalidConfig) as error:
        is_absent = not path.is_dir() and not path.exists()
        return IdentityBefore(str(path), None, None if is_absent else str(error), isinstance(error, InvalidConfig))
    values = None if found is None else {key: one.value for key, one in found.items()}
    return IdentityBefore(str(path), values)


def read_log_dir(
    path: Path,
    user: User,
    interval: Interval,
    release: Release,
    *,
    cleans: bool,
    budget: ReadingBudget | None = None,
) -> LogDirBefore:
    """Read the facts of a log dir.

    Args:
        path: of the log dir.
        user: who the broker runs as.
        interval: see ``Interval``.
        release: of the Kafka that is to start; it decides which names of directories are known.
        cleans: whether its log cleaner runs.
        budget: bounds what is read whole; None for no bound.
    """
    failure = _unusable(path, user)
    if failure:
        return LogDirBefore(str(path), False, {}, {}, {}, (), (), failure=failure)
    names, unparsable = _directories(path, release)
    partitions = [_read_partition(path, name, partition, user, interval, release, budget) for name, partition in names]
    return LogDirBefore(
        str(path),
        (path / CLEAN_SHUTDOWN_FILE).exists(),
        _offsets(path / RECOVERY_POINT_CHECKPOINT, user, release),
        _offsets(path / LOG_START_OFFSET_CHECKPOINT, user, release),
        _offsets(path / HIGH_WATERMARK_CHECKPOINT, user, release),
        tuple(one for one in partitions if one is not None),
        tuple(unparsable),
        (path / METADATA_DIR).is_dir(),
        holder_of(path),
        cleaner_offsets=_offsets(path / CLEANER_OFFSET_CHECKPOINT, user, release) if cleans else {},
    )


def _unusable(path: Path, user: User) -> KafkaFailure | None:
    try:
        status = path.stat()
    except OSError as error:
        return KafkaFailure("IOException", error.strerror or str(error), is_io=True)
    if not stat.S_ISDIR(status.st_mode) or not user.may(status, _READ):
        return KafkaFailure("IOException", "is not a readable log directory", is_io=True)
    if not user.may(status, _ALL):
        missing = [name for name in (LOCK_FILE, *_CHECKPOINTS) if not (path / name).exists()]
        cause = f"user {user.uid} may not write to it" + (f", and {missing[0]} is missing" if missing else "")
        is_fatal = bool(missing) and LOCK_FILE not in missing  # Kafka makes its checkpoints outside of any catch
        return KafkaFailure("AccessDeniedException", cause, is_io=not is_fatal)
    if not _may(user, path / LOCK_FILE, _READ_WRITE):
        return KafkaFailure("AccessDeniedException", f"user {user.uid} may not write its {LOCK_FILE}", is_io=True)
    return None


def _directories(path: Path, release: Release) -> tuple[list[tuple[str, TopicPartition]], list[str]]:
    found, unparsable = [], []
    with as_unreadable(path), opened(path) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if not entry.is_dir() or (entry.name == REMOTE_INDEX_CACHE and release >= REMOTE_SINCE):
                continue
            topic_partition = parse_kafka_name(entry.name, knows_stray=release >= STRAY_SINCE)
            if topic_partition is None:
                unparsable.append(entry.name)
            elif topic_partition.topic != CLUSTER_METADATA_TOPIC:
                found.append((entry.name, topic_partition))
    return sorted(found), sorted(unparsable)


def _read_partition(
    log_dir: Path,
    name: str,
    topic_partition: TopicPartition,
    user: User,
    interval: Interval,
    release: Release,
    budget: ReadingBudget | None = None,
) -> PartitionBefore | None:
    """Read the facts of a partition directory; None if a live broker has deleted it meanwhile."""
    directory = log_dir / name
    if directory.is_symlink():
        directory = directory.resolve()  # Kafka follows it
    try:
        files = tuple(_files(directory, user))
        status = directory.stat()
    except FileNotFoundError:
        return None
    except LogCleanerError:
        if not directory.exists():
            return None
        raise
    return PartitionBefore(
        name,
        topic_partition,
        files,
        leader_epochs_failure(read_file(directory / LEADER_EPOCH_CHECKPOINT), release),
        read_topic_id(read_file(directory / PARTITION_METADATA_FILE)),
        DirectoryContents(
            directory, interval(topic_partition), unwraps=release.major >= _UNWRAPPED_SINCE, budget=budget
        ),
        user.may(status, _ALL),
    )


def read_metadata(log_dir: Path, user: User, release: Release) -> MetadataBefore:
    """Read the facts of the metadata log, which may be missing."""
    directory = log_dir / METADATA_DIR
    topic_partition = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
    found = None
    if directory.is_dir():
        found = _read_partition(log_dir, METADATA_DIR, topic_partition, user, lambda _: 4096, release)
    empty = PartitionBefore(
        METADATA_DIR, topic_partition, (), None, read_topic_id(None), DirectoryContents(directory, 4096)
    )
    return MetadataBefore(found or empty, read_file(directory / "quorum-state") if found else None)


def _files(directory: Path, user: User) -> Iterator[FileBefore]:
    with as_unreadable(directory), opened(directory) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    yield FileBefore(entry.name, status.st_size, user.may(status, _READ), user.may(status, _READ_WRITE))


def _offsets(path: Path, user: User, release: Release) -> Offsets | KafkaFailure:
    if not _may(user, path, _READ):
        return KafkaFailure("AccessDeniedException", f"user {user.uid} may not read it", is_io=True)
    return read_offset_checkpoint(read_file(path), release)
