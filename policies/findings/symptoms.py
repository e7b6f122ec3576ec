"""The symptoms of a log dir, beside the facts of a plan. Only ``cleaner.engine.doctor`` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from policies.explain.explanation import PartitionExplanation
from policies.facts import PartitionFacts
from policies.findings.findings import NOT_WALKED, HeaderWalk, LogHistory
from policies.findings.of_files import EmptiedSegment, HollowSwapFacts
from policies.findings.of_history import NO_EPOCHS, ReadEpochs
from policies.findings.of_log_dir import (
    NO_CLAIMS,
    CopyCheck,
    LogClaims,
    NamedEntry,
    OffsetCheckpoint,
    PartitionNames,
    TopicId,
)
from policies.findings.only_copies import OnlyCopy
from policies.preflight.identity import IdentityBefore
from policies.preflight.lost import LostPartition, SetAside
from storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE, TopicPartition


class TopicIdentity(NamedTuple):
    """The topic id in ``partition.metadata``, and what the cluster metadata says of the topic."""

    own: TopicId | None = None
    """None if nobody could look at the file."""
    known_id: str | None = None
    """The id in the cluster metadata; None if that does not know the topic."""
    is_cluster_known: bool = False
    """Whether cluster metadata of this cluster was read."""


NO_HISTORY: Final = LogHistory("", ())
UNKNOWN_TOPIC: Final = TopicIdentity()
NO_NAMES: Final = PartitionNames()


@dataclass(frozen=True, slots=True)
class PartitionSymptoms:
    """The symptoms of one partition directory."""

    topic_partition: TopicPartition
    path: str
    is_live: bool
    """Whether a process holds the lock of the log dir: a broker, as a rule."""
    was_clean: bool
    """Whether the broker said, as it stopped, that it stopped cleanly."""
    age_ms: int
    """The time since a name in the directory changed last."""
    explained: PartitionExplanation | None = None
    """None if the partition could not be read."""
    error: str | None = None
    claims: LogClaims = NO_CLAIMS
    identity: TopicIdentity = UNKNOWN_TOPIC
    epochs: ReadEpochs = NO_EPOCHS
    log: LogHistory = NO_HISTORY
    """The ends of the files of its segments, and the headers of the first ones."""
    unkeyed_offsets: tuple[int, ...] = ()
    """Where segments of a compacted topic begin with a batch that holds a record without a key."""
    walked: HeaderWalk = NOT_WALKED
    unfinished_files: int = 0
    """``.swap`` and ``.cleaned`` files."""
    deleted_files: int = 0
    """``.deleted`` files whose delay is over."""
    deleted_bytes: int = 0
    emptied: tuple[EmptiedSegment, ...] = ()
    """The segments without a record, by what their index files say."""
    names: PartitionNames = NO_NAMES
    hollow_swaps: tuple[HollowSwapFacts, ...] = ()
    only_copies: tuple[tuple[str, OnlyCopy], ...] = ()
    """The ``.deleted`` logs that may be the only copy of records, by their paths."""

    def is_told(self, error: str) -> bool:
        """Return whether an error is that of a small file, of which a finding of its own tells."""
        own = self.identity.own
        is_of_id = own is not None and own.error is not None and PARTITION_METADATA_FILE in error
        return is_of_id or (self.epochs.error is not None and LEADER_EPOCH_CHECKPOINT in error)

    @property
    def facts(self) -> PartitionFacts | None:
        """The facts of the plan; None if the partition could not be read."""
        return self.explained.planned.facts if self.explained else None


class EntryKind(StrEnum):
    """The kinds of entries of a log dir that are no live partition."""

    STRAY = "stray"
    DELETE = "delete"
    INDEX_CACHE = "index cache"
    """``remote-log-index-cache``."""
    IMPORT = "import"
    """A directory that a killed ``import`` left."""
    MOVE = "move"
    """A directory that a killed ``move`` left."""


class EntrySymptoms(NamedTuple):
    """A directory of a log dir that is no live partition."""

    path: str
    kind: EntryKind
    size_bytes: int
    age_ms: int
    """The time since the directory itself was changed, or renamed."""
    delay_ms: int
    """``file.delete.delay.ms`` of its topic."""
    sole_copy: SetAside | None = None
    """The content of the directory, if it holds the only copy of a partition that belongs here."""


class UnlinkedSymptoms(NamedTuple):
    """Files of a log dir that have no name any more, and that a process keeps."""

    files: int
    disk_bytes: int
    path: str
    """The last name of the largest one."""
    pid: int
    command: str


class RemoteCopy(NamedTuple):
    """A segment in remote storage whose events in ``__remote_log_metadata`` do not add up."""

    state: str
    """Its last state, or ``unknown``: its first event is missing."""
    topic_partition: str
    since_ms: int


class TieredTotals(NamedTuple):
    """The segments that brokers copied to a tier and read there, by the metadata."""

    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    unfinished: int = 0
    """The number of segments whose copy or deletion began and did not end."""

    def plus(self, other: TieredTotals) -> TieredTotals:
        """Return the sum of both."""
        return TieredTotals(*(one + more for one, more in zip(self, other, strict=True)))


NOTHING_TIERED: Final = TieredTotals()


class RemoteMetadata(NamedTuple):
    """The segments in remote storage that ``__remote_log_metadata-N`` speaks of."""

    path: str
    segments: int
    copies: tuple[RemoteCopy, ...]
    tiered: TieredTotals = NOTHING_TIERED


class DamagedMetadata(NamedTuple):
    """The cluster metadata that could not be read, and the cause."""

    path: str
    error: str


UNCHECKED: Final = CopyCheck()


@dataclass(frozen=True, slots=True)
class LogDirSymptoms:
    """The symptoms of one log dir."""

    path: str
    is_live: bool
    partitions: tuple[PartitionSymptoms, ...] = ()
    entries: tuple[EntrySymptoms, ...] = ()
    names: tuple[NamedEntry, ...] = ()
    """All entries of the log dir."""
    unlinked: UnlinkedSymptoms | None = None
    remote: tuple[RemoteMetadata, ...] = ()
    errors: tuple[str, ...] = ()
    """The sentences of all that could not be read, but for checkpoints that do not parse."""
    checkpoints: tuple[OffsetCheckpoint, ...] = ()
    tiered_topics: Mapping[str, bool] = field(default_factory=dict)
    """Topics of which it is known whether they are tiered."""
    lost: tuple[LostPartition, ...] = ()
    """The partitions that had records by the checkpoints, and have no directory."""
    identity: IdentityBefore | None = None
    """The ``meta.properties``; None if nobody looked."""
    has_metadata: bool = False
    """Whether the metadata log lies here."""
    free_bytes: int | None = None
    """The free space of the file system; None where another log dir on it tells."""
    copy: CopyCheck = UNCHECKED
    """What it lacks, if it is a copy with a manifest."""
