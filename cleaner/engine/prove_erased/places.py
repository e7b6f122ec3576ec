"""All files of some log dirs, each described by its name and its directory.

Nothing is left out: leftovers, directories that a broker does not know, copies that lie in a log dir. Symlinks are not
followed; they are listed as unsearchable.

A directory of a deleted partition is ``topic-0.<unique id>-delete``. If that is longer than a file name may be, Kafka
cuts the topic: 213 of 249 characters are left.

Source: Kafka LocalLog.logDirNameWithSuffixCappedLength.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import DirectoryEntry, entries, status_of
from storage.errors import UnreadableFile, as_unreadable
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    HOLD_IDS_FILE,
    HOLDS_FILE,
    INCOMPLETE_FILE,
    JOURNAL_FILE,
    LEADER_EPOCH_CHECKPOINT,
    LIMITS_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    MANIFEST_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    ROTATED_JOURNAL_FILE,
    STREAMS_FILE,
    DirState,
    FileState,
    PartitionDirName,
    TopicPartition,
    is_named,
    parse_partition_dir_name,
    parse_segment_file_name,
)
from storage.tiers.view import is_of_tier

NAME_LENGTH_MAX: Final = 255
"""The length to which Kafka cuts the name of a directory."""
_TOKEN: Final = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
"""A set of characters, or one character, of a glob."""

_HAS_RECORDS: Final = re.compile(r"\.log(\.|$)|^(\d+-\d+|bootstrap)\.checkpoint(\.|$)")
"""The files of batches: logs in any state, copies of logs with any further suffix, and snapshots of the cluster
metadata.
"""
_HAS_NO_KEYS: Final = re.compile(r"\.(index|timeindex|txnindex|snapshot)(\.|$)")
_KNOWN: Final = frozenset({
    CLEAN_SHUTDOWN_FILE, CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, HOLD_IDS_FILE, HOLDS_FILE, LIMITS_FILE,
    INCOMPLETE_FILE, JOURNAL_FILE, LEADER_EPOCH_CHECKPOINT, LOCK_FILE, LOG_START_OFFSET_CHECKPOINT, MANIFEST_FILE,
    META_PROPERTIES_FILE, PARTITION_METADATA_FILE, RECOVERY_POINT_CHECKPOINT, ROTATED_JOURNAL_FILE, STREAMS_FILE,
    "quorum-state",
})  # fmt: skip
_TEMPORARY: Final = (".tmp", ".logcleaner")

Wants = Callable[[str], bool]
"""Whether a partition directory with this name is to be searched."""


class FileContent(StrEnum):
    """The closed list of what a file can hold, by its name."""

    RECORDS = "records"
    NO_KEYS = "no_keys"
    """Indexes, producer snapshots, checkpoints and the like: they hold offsets and times, and no key of a record."""
    UNKNOWN = "unknown"
    """No file of Kafka's, or no plain file: it cannot be searched."""


class FileHome(StrEnum):
    """The closed list of directories that a file can lie in."""

    LIVE = "live"
    DELETE = "delete"
    """A directory of a deleted topic."""
    STRAY = "stray"
    """A directory of a replica that the broker no longer has."""
    FUTURE = "future"
    """The target of a replica move between log dirs."""
    COPY = "copy"
    """A directory of a partition that is not directly in the log dir: somebody copied it there."""
    OTHER = "other"
    """The log dir itself, a directory that is no partition's, or a tier."""


_HOMES: Final = {
    DirState.LIVE: FileHome.LIVE,
    DirState.DELETE: FileHome.DELETE,
    DirState.STRAY: FileHome.STRAY,
    DirState.FUTURE: FileHome.FUTURE,
}


class FilePlace(NamedTuple):
    """One file."""

    log_dir: Path
    path: Path
    content: FileContent
    home: FileHome
    topic_partition: TopicPartition | None
    """The partition by the directory's name; None if that names no partition."""
    state: FileState | None
    """The suffix of a segment file; None for any other file."""
    base_offset: int | None
    """The base offset of a segment file."""
    inode: int
    changed_ms: int
    """The change time of the file, or of a ``-delete`` directory: a rename sets it. Epoch ms."""
    size_bytes: int


def places_in(log_dir: Path, wants: Wants | None) -> Iterator[FilePlace]:
    """Yield every file of a log dir, ascending by path.

    Args:
        log_dir: the directory.
        wants: chooses partition directories; None takes all files, also those of no partition.

    Raises: UnreadableFile.
    """
    yield from _walk(log_dir, log_dir, None, wants)


def content_of(file_name: str) -> FileContent:
    """Return what a plain file holds, by its name."""
    if _HAS_RECORDS.search(file_name):
        return FileContent.RECORDS
    plain = file_name
    for suffix in _TEMPORARY:
        plain = plain.removesuffix(suffix)
    return FileContent.NO_KEYS if plain in _KNOWN or _HAS_NO_KEYS.search(file_name) else FileContent.UNKNOWN


def may_be_named(directory: str, globs: Sequence[str]) -> bool:
    """Return whether a glob names the topic or partition that a directory may belong to.

    A name that Kafka may have cut counts if the glob names any topic that begins with it. Without a glob all are named.
    """
    found = parse_partition_dir_name(directory)
    if found is None or is_named(found.topic_partition, globs):
        return found is not None
    return is_cut(directory, found) and any(matches_beginning(glob, found.topic_partition.topic) for glob in globs)


def is_cut(directory: str, found: PartitionDirName) -> bool:
    """Return whether Kafka may have cut the name of a directory, ``found`` as it was parsed."""
    return found.state is not DirState.LIVE and len(directory) == NAME_LENGTH_MAX


def matches_beginning(glob: str, beginning: str) -> bool:
    """Return whether a glob matches any text with this beginning."""
    tokens = _TOKEN.findall(glob)
    places = _with_skipped({0}, tokens)
    for character in beginning:
        stay = {place for place in places if tokens[place : place + 1] == ["*"]}
        taken = {place + 1 for place in places - stay if _takes(tokens, place, character)}
        places = _with_skipped(stay | taken, tokens)
    return bool(places)


def _walk(log_dir: Path, directory: Path, name: PartitionDirName | None, wants: Wants | None) -> Iterator[FilePlace]:
    try:
        with as_unreadable(directory):
            with entries(directory) as listed:
                found = sorted((entry.name, status) for entry in listed if (status := _status(entry)) is not None)
            home = _home(log_dir, directory, name)
            changed_ms = status_of(directory).st_ctime_ns // 1_000_000 if home is FileHome.DELETE else 0
    except UnreadableFile as error:
        if directory == log_dir:
            raise
        if not error.has_vanished:  # as happens beside a live broker
            yield _shut(log_dir, directory, name)
        return
    for entry, status in found:
        if stat.S_ISDIR(status.st_mode):
            below = parse_partition_dir_name(entry)
            if wants is None or below is None or wants(entry):
                yield from _walk(log_dir, directory / entry, below, wants)
        elif wants is None or name is not None:
            yield _place(log_dir, directory / entry, status, home, name, changed_ms)


def _home(log_dir: Path, directory: Path, name: PartitionDirName | None) -> FileHome:
    if is_of_tier(log_dir):
        return FileHome.OTHER
    if name is None:
        return FileHome.OTHER
    return _HOMES[name.state] if directory.parent == log_dir else FileHome.COPY


def _shut(log_dir: Path, directory: Path, name: PartitionDirName | None) -> FilePlace:
    """Return a directory that this user may not enter, such as ``lost+found``: the search reports it as unread."""
    home, topic_partition = _home(log_dir, directory, name), name.topic_partition if name else None
    return FilePlace(log_dir, directory, FileContent.RECORDS, home, topic_partition, None, None, 0, 0, 0)


def _place(
    log_dir: Path,
    path: Path,
    status: os.stat_result,
    home: FileHome,
    name: PartitionDirName | None,
    changed_ms: int,
) -> FilePlace:
    segment_file = parse_segment_file_name(path.name)
    return FilePlace(
        log_dir,
        path,
        content_of(path.name) if stat.S_ISREG(status.st_mode) else FileContent.UNKNOWN,
        home,
        name.topic_partition if name else None,
        segment_file.state if segment_file else None,
        segment_file.base_offset if segment_file else None,
        status.st_ino,
        changed_ms if home is FileHome.DELETE else status.st_ctime_ns // 1_000_000,
        status.st_size,
    )


def _status(entry: DirectoryEntry) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _with_skipped(places: set[int], tokens: Sequence[str]) -> set[int]:
    """Add the places behind stars, which may stand for nothing."""
    found = set(places)
    for place in sorted(places):
        while place < len(tokens) and tokens[place] == "*":
            place += 1  # noqa: PLW2901 - each of a row of stars
            found.add(place)
    return found


def _takes(tokens: Sequence[str], place: int, character: str) -> bool:
    return place < len(tokens) and fnmatchcase(character, tokens[place])
