"""Pure functions that compare the digests of a partition's replicas.

What lies below the high watermark of each of two replicas is committed, and must be the same in both. What lies above
one of them may be cut yet, and is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cleaner.engine.replicas.digesting import BLOCK_OFFSETS, Block, Digest
from storage.checkpoints import LeaderEpochEntry
from storage.names import TopicPartition


@dataclass(frozen=True, slots=True)
class DigestedReplica:
    """A replica with its digest."""

    place: str
    """The log dir, or the file of the digest."""
    topic_partition: TopicPartition
    topic_id: str | None
    start_offset: int
    """The first offset of the digest."""
    end_offset: int
    """The offset behind the digest: at most the high watermark."""
    compacted_to_offset: int
    """The offset up to which the log was compacted; 0 if it never was."""
    is_compacted: bool
    epochs: tuple[LeaderEpochEntry, ...]
    digest: Digest

    def covers(self, number: int) -> tuple[int, int]:
        """Return the part of a block that the digest covers: its first offset, and the one behind it."""
        end = min(self.end_offset, self.digest.read_to)
        return max(self.start_offset, number * BLOCK_OFFSETS), min(end, (number + 1) * BLOCK_OFFSETS)


class Divergence(NamedTuple):
    """The first difference of replicas."""

    first_offset: int
    last_offset: int
    """The difference lies in the offsets from the first to this one."""
    cause: str
    groups: tuple[tuple[str, ...], ...]
    """The places that agree there, the most frequent state first."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of a comparison of the replicas of one partition."""

    topic_partition: TopicPartition
    places: tuple[str, ...]
    start_offset: int = 0
    end_offset: int = 0
    """The replicas were compared from the start offset up to here, exclusive."""
    records: int = 0
    """The records that were compared, of one replica."""
    divergence: Divergence | None = None
    errors: tuple[str, ...] = ()
    """A line for each replica that could not be read to the end."""
    not_compared: str | None = None
    """Why replicas could not be compared at all."""

    @property
    def is_damaged(self) -> bool:
        """Return whether committed records differ, or a replica cannot be read."""
        return self.divergence is not None or bool(self.errors)


def agreement(replicas: Sequence[DigestedReplica]) -> Agreement:
    """Compare the replicas of one partition.

    Args:
        replicas: two or more, in the order of the operands.
    """
    name, places = replicas[0].topic_partition, tuple(one.place for one in replicas)
    errors = tuple(f"{one.place}: {one.digest.error}" for one in replicas if one.digest.error)
    if len({one.topic_id for one in replicas} - {None}) > 1:
        ids = _groups({one.place: one.topic_id for one in replicas})
        return Agreement(name, places, divergence=Divergence(0, 0, "the topic ids differ", ids), errors=errors)
    kinds = _groups({one.place: one.is_compacted for one in replicas})
    if len(kinds) > 1:
        text = "only some of the digests know that the topic is compacted; make them anew where its metadata is"
        return Agreement(name, places, errors=errors, not_compared=text)
    start, end = max(one.start_offset for one in replicas), min(map(_end, replicas))
    if start >= end:
        return Agreement(name, places, errors=errors, not_compared="no offset is committed in all of them")
    if replicas[0].is_compacted and len({one.end_offset for one in replicas}) > 1:
        ends = ", ".join(f"{one.end_offset} in {one.place}" for one in replicas)
        text = f"of a compacted log, digests must end at one offset ({ends}); make them anew with --up-to"
        return Agreement(name, places, start, end, errors=errors, not_compared=text)
    ahead = [one for one in replicas if one.is_compacted and one.compacted_to_offset > end]
    if ahead:
        text = (
            f"{ahead[0].place} was compacted up to {ahead[0].compacted_to_offset}, and another replica is committed up "
            f"to {end} only; compare again once it has caught up"
        )
        return Agreement(name, places, start, end, errors=errors, not_compared=text)
    numbers = sorted({number for one in replicas for number in one.digest.blocks})
    whole = [n for n in numbers if len({one.covers(n) for one in replicas}) == 1 and _is_range(replicas[0].covers(n))]
    found = [one for one in (_first_other_block(replicas, whole), first_other_epoch(replicas, start, end)) if one]
    records = sum(replicas[0].digest.blocks.get(number, Block(0, 0)).records for number in whole)
    return Agreement(name, places, start, end, records, min(found, default=None), errors)


def _end(replica: DigestedReplica) -> int:
    return min(replica.end_offset, replica.digest.read_to)


def _is_range(covered: tuple[int, int]) -> bool:
    return covered[0] < covered[1]


def _first_other_block(replicas: Sequence[DigestedReplica], numbers: Sequence[int]) -> Divergence | None:
    for number in numbers:
        states = {one.place: one.digest.blocks.get(number, Block(0, 0)) for one in replicas}
        if len(set(states.values())) > 1:
            first, end = replicas[0].covers(number)
            counts = "the records differ"
            if len({block.records for block in states.values()}) > 1:
                counts = "some records are in only some of them"
            return Divergence(first, end - 1, counts, _groups(states))
    return None


def first_other_epoch(replicas: Sequence[DigestedReplica], start: int, end: int) -> Divergence | None:
    """Return the first offset at which the leader epochs differ, where the replicas know them."""
    borders = {start} | {
        entry.start_offset for one in replicas for entry in one.epochs if start < entry.start_offset < end
    }
    for offset in sorted(borders):
        epochs = {one.place: epoch for one in replicas if (epoch := _epoch_at(one.epochs, offset)) is not None}
        if len(set(epochs.values())) > 1:
            told = "; ".join(f"{epoch} in {place}" for place, epoch in epochs.items())
            return Divergence(offset, offset, f"the leader epochs differ: {told}", _groups(epochs))
    return None


def _epoch_at(epochs: Sequence[LeaderEpochEntry], offset: int) -> int | None:
    known = [entry.epoch for entry in epochs if entry.start_offset <= offset]
    return known[-1] if known else None


def first_other_record(told: Mapping[str, Mapping[int, int]]) -> Divergence | None:
    """Return the first record that differs.

    Args:
        told: place → offset → hash of the record.
    """
    for offset in sorted({offset for records in told.values() for offset in records}):
        states = {place: records.get(offset) for place, records in told.items()}
        if len(set(states.values())) > 1:
            lacking = [place for place, state in states.items() if state is None]
            cause = f"{' and '.join(lacking)} lacks the record" if lacking else "the records differ"
            return Divergence(offset, offset, cause, _groups(states))
    return None


def _groups(states: Mapping[str, object]) -> tuple[tuple[str, ...], ...]:
    """Return the places of each state, the most frequent state first."""
    groups: defaultdict[object, list[str]] = defaultdict(list)
    for place, state in states.items():
        groups[state].append(place)
    return tuple(tuple(group) for group in sorted(groups.values(), key=len, reverse=True))
