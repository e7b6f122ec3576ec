"""Names in a log directory: base offsets, suffixes and their meaning, topic-partitions.

Pure string work; no file is opened here. Source: Kafka ``LogFileUtils``, ``LocalLog.parseTopicPartitionName``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum, StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, NamedTuple

BASE_OFFSET_DIGITS: Final = 20
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that Kafka itself writes, each record with a key. Source: Kafka Topic.isInternal."""
REMOTE_INDEX_CACHE: Final = "remote-log-index-cache"

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
META_PROPERTIES_FILE: Final = "meta.properties"
JOURNAL_FILE: Final = ".logcleaner-journal"
ROTATED_JOURNAL_FILE: Final = JOURNAL_FILE + ".1"
HOLDS_FILE: Final = ".logcleaner-holds"
HOLD_IDS_FILE: Final = ".logcleaner-hold-ids"
LIMITS_FILE: Final = ".logcleaner-limits"
STREAMS_FILE: Final = ".logcleaner-streams"
MANIFEST_FILE: Final = "logcleaner-manifest.json"
INCOMPLETE_FILE: Final = "logcleaner-incomplete"
SCRATCH_SUFFIX: Final = ".logcleaner"
"""The suffix of a name in a partition directory that means nothing to a broker, nor to our listing."""
IMPORT_SUFFIX: Final = ".import-delete"
"""The suffix of the directory in which an import makes a partition."""
MOVE_SUFFIX: Final = ".move-delete"
"""The suffix of the directory in which a move copies a partition."""
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"


class TopicPartition(NamedTuple):
    """A partition of a topic; prints as Kafka does, ``orders-3``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class DirState(Enum):
    """The state of a partition directory, as its suffix says."""

    LIVE = ""
    DELETE = "-delete"
    """The topic was deleted; a broker removes the directory after the delay."""
    FUTURE = "-future"
    """Target of a replica move between log dirs."""
    STRAY = "-stray"
    """No longer assigned to this broker; kept for a human to decide."""


class PartitionDirName(NamedTuple):
    """The parts of the name of a partition directory."""

    topic_partition: TopicPartition
    state: DirState


class FileKind(StrEnum):
    """The files of a segment, by the suffix of their kind."""

    LOG = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"


SEGMENT_KINDS: Final = (FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
"""The files that make a segment, in the order Kafka renames and deletes them. A snapshot belongs to an offset."""


class FileState(StrEnum):
    """The life of a segment file, told by its last suffix. Both halves, ``swap`` and ``recovery``, read this table."""

    PLAIN = ""
    """Part of the log."""
    CLEANED = ".cleaned"
    """Being written by a compaction: worth nothing yet; recovery deletes it."""
    SWAP = ".swap"
    """Complete and durable, takes the place of its sources: recovery finishes the swap, unless a ``.cleaned`` file
    with the same or a lower base says that not every file of the swap had been written."""
    DELETED = ".deleted"
    """Out of the log, waiting for ``file.delete.delay.ms``; recovery deletes it."""


class SegmentFileName(NamedTuple):
    """The parts of the name of a segment file or producer snapshot."""

    base_offset: int
    kind: FileKind
    state: FileState

    def __str__(self) -> str:
        return segment_file_name(self.base_offset, self.kind, self.state)


_TOPIC_PARTITION: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9]\d{0,9})", re.ASCII)
_PARTITION_MAX: Final = (1 << 31) - 1
_SUFFIXES: Final = {f"{kind}{state}"[1:]: (kind, state) for kind in FileKind for state in FileState}
_SUFFIXED_STATES: Final = {state.value: state for state in (DirState.DELETE, DirState.FUTURE, DirState.STRAY)}
_SUFFIXED_DIR = re.compile(r"(\S+)-(\S+)\.(\S+)(-delete|-future|-stray)")
_OFFSET_MAX: Final = (1 << 63) - 1
_CLUSTER_SCRATCH: Final = re.compile(rf"\d+\.[a-z]+\.[0-9a-f]{{8}}-[0-9a-f]{{16}}{re.escape(SCRATCH_SUFFIX)}", re.ASCII)

_STAGED: Final = re.compile(
    rf"(?P<base>\d{{20}})\.log\.(?P<tag>[0-9a-f]{{16}})\.staged{re.escape(SCRATCH_SUFFIX)}", re.ASCII
)


def segment_file_name(base_offset: int, kind: FileKind, state: FileState = FileState.PLAIN) -> str:
    """Return the name of a segment file: ``00000000000000000042.log.cleaned`` for 42, LOG, CLEANED."""
    return f"{base_offset:0{BASE_OFFSET_DIGITS}d}{kind.value}{state.value}"


def parse_segment_file_name(name: str) -> SegmentFileName | None:
    """Read a file name of a partition directory; None for anything that is not a segment file or snapshot."""
    base, _, suffixes = name.partition(".")
    found = _SUFFIXES.get(suffixes)
    if found is None or (base_offset := _base_offset_of(base)) is None:
        return None
    kind, state = found
    return tuple.__new__(SegmentFileName, (base_offset, kind, state))  # half the time of a call: there are many


@lru_cache(maxsize=4096)  # the files of a segment, which mostly lie in one directory, have one base offset
def _base_offset_of(digits: str) -> int | None:
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= BASE_OFFSET_DIGITS):
        return None
    base_offset = int(digits)
    return base_offset if base_offset <= _OFFSET_MAX else None


def segment_files_among(names: Iterable[str]) -> dict[str, SegmentFileName]:
    """Return the names of segment files and snapshots among many names, each with its parts."""
    return {name: found for name in names if (found := parse_segment_file_name(name))}


def is_cluster_scratch(name: str) -> bool:
    """Return whether a task on a cluster wrote a file: ``00000000000000000042.log.RUN-ATTEMPT.logcleaner``.

    Files of a repair end with our suffix, too, and are evidence.
    """
    return _CLUSTER_SCRATCH.fullmatch(name) is not None


class StagedName(NamedTuple):
    """The parts of the name of a staged segment: ``00000000000000000042.log.TAG.staged.logcleaner``."""

    base_offset: int
    tag: str
    """16 hexadecimal digits, of one staging."""

    def __str__(self) -> str:
        return f"{segment_file_name(self.base_offset, FileKind.LOG)}.{self.tag}.staged{SCRATCH_SUFFIX}"


def parse_staged_name(name: str) -> StagedName | None:
    """Read a file name of a partition directory; None for anything but a staged segment."""
    found = _STAGED.fullmatch(name)
    return StagedName(int(found["base"]), found["tag"]) if found else None


def parse_topic_partition(name: str) -> TopicPartition | None:
    """Split ``orders-3`` at its last dash; None unless a broker writes a partition of a legal topic so.

    Hence ``str`` of the result is always the name of the directory, and no character of a name can break the line of a
    checkpoint. Source: Kafka Topic.validate.
    """
    found = _TOPIC_PARTITION.fullmatch(name)
    if found is None or found["topic"] in (".", "..") or (partition := int(found["partition"])) > _PARTITION_MAX:
        return None
    return TopicPartition(found["topic"], partition)


def is_named(topic_partition: TopicPartition, globs: Sequence[str]) -> bool:
    """Return whether one of the globs names the topic or the partition. Without any glob, everything is named."""
    if not globs:
        return True
    names = (topic_partition.topic, str(topic_partition))
    return any(fnmatchcase(name, glob) for glob in globs for name in names)


def parse_partition_dir_name(name: str) -> PartitionDirName | None:
    """Read a directory name of a log dir; None where it is no partition directory (a broker would refuse to start).

    Source: Kafka LocalLog.parseTopicPartitionName: a suffixed name is cut at its last dot, then split as a live one.
    """
    state = _SUFFIXED_STATES.get(name[name.rfind("-") :])
    if state and _SUFFIXED_DIR.fullmatch(name):  # a live topic may well be called "x-delete"
        found = parse_topic_partition(name.rpartition(".")[0])
        return PartitionDirName(found, state) if found else None
    found = parse_topic_partition(name)
    return PartitionDirName(found, DirState.LIVE) if found else None


class FileIdentity(NamedTuple):
    """The identity of a file when it was looked at. An action compares it again just before it acts."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @property
    def mtime_ms(self) -> int:
        """Epoch ms."""
        return self.mtime_ns // 1_000_000
