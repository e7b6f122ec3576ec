"""Decide which batches of a segment become one, by their headers alone; ``clean --repack`` asks.

No record changes: neither offset, nor timestamp, nor sequence, nor what a broker knows of a producer. A record of v2
has none of the three by itself: each follows from the header of its batch. So batches are merged only if one header
tells the same of all their records.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts
from policies.planning import exemption
from policies.reasons import ReasonCode

PRODUCER_BATCHES: Final = 5
"""The last batches of a producer by which a broker recognises a duplicate. Source: Kafka ProducerStateEntry."""
MERGED_BYTES_MAX: Final = 1 << 20
"""The most bytes of a merged batch, whatever ``max.message.bytes`` allows: who reads one record decompresses it all."""
PLAIN_BYTES_MAX: Final = 16 << 20
"""The most bytes of the records of a merged batch before compression. A batch that holds more by itself stays alone."""
GROWTH_BYTES: Final = 4
"""The bytes by which a record may grow, whose offset and timestamp then count from those of a batch further off."""
GAIN_MIN: Final = 0.01
"""A segment is written anew only if it gets smaller by this share, else a second run would find something again."""

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
DELETE_HORIZON_BIT: Final = 0x40
MERGEABLE_BITS: Final = CODEC_BITS | LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT
"""The attributes that a batch to merge may have: it is neither transactional nor a control batch."""
_HEADER_BYTES: Final = 61
SEQUENCES: Final = 1 << 31
"""The number of sequences, behind which they begin at 0 again."""
DELTA_MAX: Final = (1 << 31) - 1
"""The farthest that an offset may lie from the base offset of its batch."""


class RepackRefusal(StrEnum):
    """The closed list of refusals of ``clean --repack`` alone (docs/repack.md)."""

    REPLICA_MOVES = "REPLICA_MOVES"
    REPLICAS_UNKNOWN = "REPLICAS_UNKNOWN"
    SEVERAL_REPLICAS = "SEVERAL_REPLICAS"


class RefusedRepack(NamedTuple):
    """The reason why no batch of a partition is merged."""

    code: RepackRefusal | ReasonCode
    text: str


class HeaderFacts(NamedTuple):
    """The facts about a batch of format v2 that decide whether it is merged."""

    base_offset: int
    last_offset: int
    size_bytes: int
    records: int
    attributes: int
    base_timestamp_ms: int
    """The delete horizon if the batch has one."""
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class RepackBounds:
    """The limits of the merging in one partition."""

    stable_offset: int
    """The last stable offset, at most the high watermark. Batches that reach it stay as they are."""
    kept_bases: Collection[int]
    """The base offsets of the last batches of each producer. These batches stay as they are."""
    batch_bytes_max: int
    """The most bytes of a merged batch."""


def batch_bytes_max(policy: TopicPolicy) -> int:
    """Return the most bytes of a merged batch of a topic."""
    return min(policy.max_message_bytes, MERGED_BYTES_MAX)


def may_change(batch: HeaderFacts, bounds: RepackBounds) -> bool:
    """Return whether a batch may be written anew: merged with others, or with another codec."""
    return (
        batch.records > 0
        and batch.attributes & ~MERGEABLE_BITS == 0
        and batch.last_offset < bounds.stable_offset
        and batch.base_offset not in bounds.kept_bases
    )


def may_follow(batch: HeaderFacts, after: HeaderFacts, *, any_codec: bool) -> bool:
    """Return whether two neighbouring batches, both of which may change, can be told by one header.

    Args:
        batch: the earlier one.
        after: the one directly behind it in the file.
        any_codec: whether the merged batch gets a codec of its own anyway.

    Source: Kafka DefaultRecord.readFrom: offset, sequence and timestamp of a record, by its batch.
    """
    told = (batch.producer_id, batch.producer_epoch, batch.leader_epoch, _flags(batch, any_codec=any_codec))
    if told != (after.producer_id, after.producer_epoch, after.leader_epoch, _flags(after, any_codec=any_codec)):
        return False
    if batch.attributes & LOG_APPEND_TIME_BIT and batch.max_timestamp_ms != after.max_timestamp_ms:
        return False
    if batch.attributes & DELETE_HORIZON_BIT and batch.base_timestamp_ms != after.base_timestamp_ms:
        return False
    distance = after.base_offset - batch.base_offset
    if not 0 < distance <= DELTA_MAX:
        return False
    if batch.base_sequence < 0 or after.base_sequence < 0:
        return batch.base_sequence == after.base_sequence
    return (batch.base_sequence + distance) % SEQUENCES == after.base_sequence


def bound_bytes(batch: HeaderFacts) -> int:
    """Return what a batch may add to a merged one, beside the header: its records, and what they may grow by."""
    return batch.size_bytes - _HEADER_BYTES + GROWTH_BYTES * batch.records


def merged(batches: list[HeaderFacts], bounds: RepackBounds, *, any_codec: bool) -> list[tuple[int, int]]:
    """Return the runs of batches, as places, half open, that become one batch each, ascending.

    A run takes as many batches as fit. A run of one is told only with ``any_codec``: it gets another codec.

    Args:
        batches: the batches of a stretch of one segment, in the order of the file.
        bounds: of the partition.
        any_codec: whether every batch gets a codec that was asked for.
    """
    runs, first = list[tuple[int, int]](), 0
    while first < len(batches):
        last, size_bytes = first + 1, _HEADER_BYTES + bound_bytes(batches[first])
        if not may_change(batches[first], bounds):
            first = last
            continue
        while last < len(batches) and _fits(batches, first, last, size_bytes, bounds, any_codec=any_codec):
            size_bytes += bound_bytes(batches[last])
            last += 1
        if last - first > 1 or any_codec:
            runs.append((first, last))
        first = last
    return runs


def is_worth_it(before_bytes: int, after_bytes: int, recoded: int) -> bool:
    """Return whether a segment is replaced.

    Args:
        before_bytes: the size of its ``.log``.
        after_bytes: the size of the repacked one.
        recoded: the batches that got another codec, because the user asked for it.
    """
    return recoded > 0 or before_bytes - after_bytes >= max(1, GAIN_MIN * before_bytes)


def refused_repack(
    facts: PartitionFacts, policy: TopicPolicy, others: tuple[int, ...] | None, *, moves: bool
) -> RefusedRepack | None:
    """Return why no batch of a partition is merged in its place; None if batches may be merged.

    Args:
        facts: of the partition.
        policy: of its topic. An unknown configuration refuses nothing: no limit decides here.
        others: the other brokers that have a replica of it by the cluster metadata, or get one; None if no metadata
            tells.
        moves: whether a replica move fills a ``-future`` directory from the partition.
    """
    if refused := refused_anywhere(facts, policy):
        return refused
    if moves:
        return RefusedRepack(
            RepackRefusal.REPLICA_MOVES,
            "a replica move copies it into a -future directory: repack again once the move has ended",
        )
    if others is None:
        return RefusedRepack(
            RepackRefusal.REPLICAS_UNKNOWN,
            "no cluster metadata here tells how many replicas it has, and other batches than the leader's stop a "
            "follower; --output writes a repacked copy",
        )
    if others:
        return RefusedRepack(
            RepackRefusal.SEVERAL_REPLICAS,
            f"broker {' and '.join(map(str, sorted(others)))} has a replica, too, or gets one, and other batches than "
            "the leader's stop a follower; --output writes a repacked copy",
        )
    return None


def refused_anywhere(facts: PartitionFacts, policy: TopicPolicy) -> RefusedRepack | None:
    """Return why no batch of a partition is merged, not even in a copy; None if batches may be merged there."""
    reason = exemption(facts, policy)
    if reason is not None and reason.code is not ReasonCode.CONFIG_UNKNOWN:
        return RefusedRepack(reason.code, reason.text)
    if policy.remote_storage_enable:
        return RefusedRepack(ReasonCode.REMOTE_STORAGE, "remote storage is on: only the broker knows what was uploaded")
    if facts.high_watermark is None:
        return RefusedRepack(
            ReasonCode.NO_HIGH_WATERMARK,
            "no high watermark was checkpointed, so nothing is known to be committed; in a copy, --assume-committed",
        )
    return None


def _flags(batch: HeaderFacts, *, any_codec: bool) -> int:
    return batch.attributes & ~CODEC_BITS if any_codec else batch.attributes


def _fits(
    batches: list[HeaderFacts], first: int, last: int, size_bytes: int, bounds: RepackBounds, *, any_codec: bool
) -> bool:
    """Return whether the batch at ``last`` joins those from ``first`` on, which may take ``size_bytes``."""
    batch = batches[last]
    return (
        may_change(batch, bounds)
        and may_follow(batches[last - 1], batch, any_codec=any_codec)
        and batch.last_offset - batches[first].base_offset <= DELTA_MAX
        and size_bytes + bound_bytes(batch) <= bounds.batch_bytes_max
    )
