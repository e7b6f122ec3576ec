"""Decide which records of some keys leave a log, and which batches stay as empty ones; ``erase`` asks.

An erasure takes records out as a compaction does. But it decides by the keys alone: no horizon is set, and none comes.
Control batches and batches that are empty already stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts
from policies.planning import exemption
from policies.reasons import ReasonCode
from policies.retain import BatchFacts, ProducerEnd, ends_a_producer
from storage.kernels.status import BatchFate

INTERNAL_PREFIX = "__"


class ErasureRefusal(StrEnum):
    """The closed list of refusals of ``erase`` alone (docs/erase.md)."""

    INTERNAL_TOPIC = "INTERNAL_TOPIC"
    REPLICA_MOVES = "REPLICA_MOVES"


class RefusedErasure(NamedTuple):
    """The reason why nothing of a partition is erased."""

    code: ErasureRefusal | ReasonCode
    text: str

    @property
    def is_for_now(self) -> bool:
        """True if a later run may erase what stays."""
        return self.code is ErasureRefusal.REPLICA_MOVES


class StayReason(StrEnum):
    """The closed list of reasons for which a record of a wanted key stays (docs/erase.md)."""

    TOMBSTONE = "TOMBSTONE"
    """It has no value, and nobody asked for tombstones."""
    ABOVE_HIGH_WATERMARK = "ABOVE_HIGH_WATERMARK"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    """It lies at or above the last stable offset."""
    LAST_MESSAGE = "LAST_MESSAGE"
    """It is the last message of format v0 or v1 below the last stable offset, the high watermark or the log end: these
    formats know no empty batch that could stay in its place.
    """

    @property
    def is_for_now(self) -> bool:
        """True if a later run may erase the record."""
        return self is not StayReason.TOMBSTONE


@dataclass(frozen=True, slots=True)
class ErasureBounds:
    """The offsets by which an erasure decides. All batches below ``last_stable_offset`` may lose records."""

    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    with_tombstones: bool = False

    @property
    def kept_ends(self) -> tuple[int, int, int]:
        """The offsets at which some batch must end, because consumers wait until they have read up to there.

        The end of the log is the last stable offset for those that read committed records: behind a transaction that
        hangs they would wait for ever.
        """
        return self.last_stable_offset, self.high_watermark, self.log_end_offset


class KeyedRecord(NamedTuple):
    """A record of a wanted key."""

    offset: int
    last_offset: int
    """The last offset of its batch."""
    is_tombstone: bool
    is_legacy: bool
    """Whether it is a message of format v0 or v1."""


def why_record_stays(record: KeyedRecord, bounds: ErasureBounds) -> StayReason | None:
    """Return why a record of a wanted key stays; None if it goes.

    No tombstone goes while an older value stays: what stays for its offset alone lies above all that goes.
    """
    if record.last_offset >= bounds.high_watermark:
        return StayReason.ABOVE_HIGH_WATERMARK
    if record.last_offset >= bounds.last_stable_offset:
        return StayReason.OPEN_TRANSACTION
    if record.is_tombstone and not bounds.with_tombstones:
        return StayReason.TOMBSTONE
    if record.is_legacy and record.offset + 1 in bounds.kept_ends:
        return StayReason.LAST_MESSAGE
    return None


def erasure_fate(
    batch: BatchFacts, records: int, producers: Mapping[int, ProducerEnd], bounds: ErasureBounds
) -> BatchFate:
    """Decide one batch of format v2 by its header.

    Args:
        batch: the facts about it; of a control batch, ``marker`` says nothing here.
        records: in it.
        producers: the active producers' ends, by producer id.
        bounds: of the erasure.

    Source: Kafka Cleaner.cleanInto keeps the batches that end a producer, and since 4.4 the one at the high watermark.
    """
    if batch.marker is not None or not records:
        return BatchFate.KEEP
    if ends_a_producer(batch, producers) or batch.last_offset + 1 in bounds.kept_ends:
        return BatchFate.RETAIN_EMPTY
    return BatchFate.DELETE_EMPTY


def refused_erasure(facts: PartitionFacts, policy: TopicPolicy, *, moves: bool) -> RefusedErasure | None:
    """Return why nothing of a partition is erased; None if something may be.

    Args:
        facts: of the partition.
        policy: of its topic. An unknown configuration refuses nothing: no limit decides here.
        moves: whether a replica move fills a ``-future`` directory from the partition.
    """
    topic = facts.topic_partition.topic
    if topic.startswith(INTERNAL_PREFIX):
        text = f"{topic} is a topic of Kafka's own: what it lacks, a broker or its clients would miss"
        return RefusedErasure(ErasureRefusal.INTERNAL_TOPIC, text)
    reason = exemption(facts, policy)
    if reason is not None and reason.code is not ReasonCode.CONFIG_UNKNOWN:
        return RefusedErasure(reason.code, reason.text)
    if policy.remote_storage_enable:
        return RefusedErasure(
            ReasonCode.REMOTE_STORAGE, "remote storage is on: only the broker knows what was uploaded"
        )
    if moves:
        text = "a replica move copies it into a -future directory: run erase again once the move has ended"
        return RefusedErasure(ErasureRefusal.REPLICA_MOVES, text)
    if facts.high_watermark is None:
        text = "no high watermark was checkpointed, so nothing is known to be committed; in a copy, --assume-committed"
        return RefusedErasure(ReasonCode.NO_HIGH_WATERMARK, text)
    return None
