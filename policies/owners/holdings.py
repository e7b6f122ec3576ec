"""The values of ``owners``: the records of one key, one owner and one partition, and those without an owner.

Times are in epoch ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from policies.config.policy import BrokerPolicy
from policies.explain.explanation import PartitionExplanation
from storage.names import TopicPartition

NO_TIME: Final = -1


class Latest(StrEnum):
    """The latest record of a key."""

    VALUE = "value"
    TOMBSTONE = "tombstone"
    NONE = "none"
    """Whether no record of the key counts, because all belong to aborted transactions or lie below the log start."""


class Holding(NamedTuple):
    """Bytes and records of some keys. A batch's bytes are shared out among its records by their sizes."""

    size_bytes: int = 0
    dirty_bytes: int = 0
    """The bytes at and above the first dirty offset: no cleaner has looked at them."""
    kept_bytes: int = 0
    """The bytes of the latest record of each key: compaction leaves the values, and tombstones for a while."""
    records: int = 0
    live_keys: int = 0
    """The keys whose latest record has a value."""
    tombstones: int = 0
    """The keys whose latest record is a tombstone."""
    first_ms: int = NO_TIME
    last_ms: int = NO_TIME
    """The least and greatest timestamp of the records; NO_TIME without a record."""

    @property
    def keys(self) -> int:
        """The number of keys of which a record counts."""
        return self.live_keys + self.tombstones

    @property
    def superseded_records(self) -> int:
        """The records that compaction drops: all but the latest of each key."""
        return self.records - self.keys

    @property
    def superseded_bytes(self) -> int:
        """The bytes that compaction drops."""
        return self.size_bytes - self.kept_bytes


NOTHING: Final = Holding()


def sum_of(holdings: Iterable[Holding]) -> Holding:
    """Return what some keys hold together, and the times from the first record of all to the last."""
    held = list(holdings)
    if not held:
        return NOTHING
    sizes, dirty, kept, records, live, tombstones, first_ms, last_ms = zip(*held, strict=True)
    times_ms = [one for one in first_ms if one != NO_TIME]
    return Holding(
        sum(sizes), sum(dirty), sum(kept), sum(records), sum(live), sum(tombstones),
        min(times_ms, default=NO_TIME), max(last_ms),
    )  # fmt: skip


class KeyHolding(NamedTuple):
    """The holding of one key in a partition."""

    kind: str
    """The kind of the record: ``OffsetCommit``."""
    key: Mapping[str, Any]
    """The fields of the key."""
    latest: Latest
    value: Mapping[str, Any] | None
    """The fields of the latest value; None for a tombstone, or a value that cannot be decoded."""
    holding: Holding


class OwnerState(StrEnum):
    """The states of a group or transactional id, by what its partition holds."""

    ACTIVE = "active"
    """A group with members."""
    EMPTY = "empty"
    """A group without members."""
    NO_GROUP = "no group"
    """Offsets of consumers that formed no group."""
    DEAD = "dead"
    """Only tombstones are left, or records that a tombstone superseded."""
    UNKNOWN = "unknown"
    """The record that tells the state cannot be decoded."""

    UNUSED = "unused"
    """A transactional id without a transaction (Kafka's state Empty)."""
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"
    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"


class TopicHolding(NamedTuple):
    """The holding of a group for one topic."""

    topic: str | None
    """The topic of the offsets; None for the records of the group itself."""
    holding: Holding
    expired: int
    """The offsets that a broker removes at its next check."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A group or a transactional id with what it holds in one partition.

    Attributes:
        name: the group id or the transactional id.
        state: see ``OwnerState``.
        protocol: ``consumer``, ``share``, ``streams``, or of a classic group its protocol type; empty if unknown.
        members: the number of members; None if not known.
        last_ms: the time of the last commit of a group, or of the last update of a transactional id; None if unknown.
        holding: all it holds.
        expired: the offsets, or the transactional id (1), that a broker removes at its next check.
        topics: the parts of the holding of a group, the largest first.
    """

    name: str
    state: OwnerState
    protocol: str
    members: int | None
    last_ms: int | None
    holding: Holding
    expired: int = 0
    topics: tuple[TopicHolding, ...] = ()


class Other(NamedTuple):
    """Records or bytes without an owner."""

    what: str
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionOwners:
    """All of one partition. The bytes of ``owners`` and ``others`` add up to those of its ``.log`` files.

    Attributes:
        explained: why its segments stay.
        first_dirty_offset: the offset from which on no cleaner has read.
        owners: the groups or transactional ids, the largest first.
        others: the records without an owner: markers, damaged batches, keys that cannot be decoded.
        problems: a sentence for each thing that could not be read or decoded.
        is_damaged: whether a batch could not be read.
    """

    explained: PartitionExplanation
    first_dirty_offset: int
    owners: tuple[Owner, ...]
    others: tuple[Other, ...] = ()
    problems: tuple[str, ...] = ()
    is_damaged: bool = False

    @property
    def name(self) -> TopicPartition:
        """The topic and the number of the partition."""
        return self.explained.planned.facts.topic_partition

    @property
    def size_bytes(self) -> int:
        """The size of its ``.log`` files."""
        return self.explained.planned.facts.size_bytes

    @property
    def holding(self) -> Holding:
        """The sums of all owners."""
        return sum_of(owner.holding for owner in self.owners)


class Terms(NamedTuple):
    """The terms that decide about expiry: a moment, and the configuration."""

    now_ms: int
    offsets_retention_ms: int
    """``offsets.retention.minutes``."""
    transactional_id_expiration_ms: int


def terms_of(broker: BrokerPolicy, now_ms: int) -> Terms:
    """Return the terms of expiry under a configuration."""
    return Terms(now_ms, broker.offsets_retention_minutes * 60_000, broker.transactional_id_expiration_ms)
