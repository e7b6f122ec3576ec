"""Pure functions that compare the digests of a partition's replicas.

What lies below the high watermark of each of two replicas is committed, and must be the same in both. What lies above
one of them may be cut yet, and is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from cleaner.engine.replicas.digesting import BLOCK_OFFSETS, Block, Digest
from storage.checkpoints import LeaderEpochEntry
from storage.names import TopicPartition

_TWO: Final = 2
_NONE: Final = Block(0, 0)


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
    high_watermark: int
    is_compacted: bool
    epochs: tuple[LeaderEpochEntry, ...]
    digest: Digest
    size_bytes: int
    """The bytes of all ``.log`` files, also of those that hold nothing committed."""
    directory_id: str | None = None
    """``directory.id`` of the log dir, as far as it has one."""

    @property
    def is_empty(self) -> bool:
        """Return whether the log has no record, and need not have any."""
        return self.size_bytes == 0 and self.high_watermark <= self.start_offset


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
    def is_empty(self) -> bool:
        """Return whether the replicas agree that there is no record."""
        return self.start_offset == self.end_offset and not self.is_damaged and self.not_compared is None

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
    found = partial(Agreement, name, places, errors=errors)
    sound = [one for one in replicas if not one.digest.error]
    if len({one.topic_id for one in sound} - {None}) > 1:
        ids = _groups({one.place: one.topic_id for one in sound})
        return found(divergence=Divergence(0, 0, "the topic ids differ", ids))
    if len(sound) >= _TWO and all(one.is_empty for one in sound):
        return found()
    reason = _why_not(sound)
    epoch = _first_common_epoch(sound)
    if reason is not None:
        return found(not_compared=reason) if epoch is None else found(divergence=epoch)
    start, end = _whole_range(sound)
    numbers = range(start // BLOCK_OFFSETS, (end - 1) // BLOCK_OFFSETS + 1)
    there = sorted({number for one in sound for number in one.digest.blocks if number in numbers})
    differences = [_first_other_block(sound, there, start, end), epoch]
    divergence = min([one for one in differences if one], default=None)
    if divergence is not None and sound[0].is_compacted and len({one.high_watermark for one in sound}) > 1:
        return found(start, end, not_compared=_may_be_superseded(divergence, sound))
    records = sum(sound[0].digest.blocks.get(number, _NONE).records for number in there)
    return found(start, end, records, divergence)


def _first_common_epoch(replicas: Sequence[DigestedReplica]) -> Divergence | None:
    """Return the first offset at which leader epochs differ, in all offsets that the digests have in common."""
    start, end = (
        max((one.start_offset for one in replicas), default=0),
        min((one.end_offset for one in replicas), default=0),
    )
    return first_other_epoch(replicas, start, end) if start < end else None


def _why_not(replicas: Sequence[DigestedReplica]) -> str | None:
    """Return why replicas that could be read cannot be compared; None if they can."""
    if len(replicas) < _TWO:
        return "one replica alone can be read" if replicas else "no replica can be read"
    if len({one.is_compacted for one in replicas}) > 1:
        return "only some of the digests know that the topic is compacted; make them anew where its metadata is"
    if max(one.start_offset for one in replicas) >= min(one.end_offset for one in replicas):
        return "no offset is committed in all of them"
    ends = ", ".join(f"{one.end_offset} in {one.place}" for one in replicas)
    if replicas[0].is_compacted and len({one.end_offset for one in replicas}) > 1:
        return f"of a compacted log, digests must end at one offset ({ends}); make them anew with --up-to"
    start, end = _whole_range(replicas)
    if start >= end:
        return f"the digests have no block of {BLOCK_OFFSETS} offsets in common ({ends}); make them anew with --up-to"
    return None


def _whole_range(replicas: Sequence[DigestedReplica]) -> tuple[int, int]:
    """Return the first offset, and the one behind the last, of the blocks that all digests have alike."""
    starts, ends = {one.start_offset for one in replicas}, {one.end_offset for one in replicas}
    start = max(starts) if len(starts) == 1 else -(-max(starts) // BLOCK_OFFSETS) * BLOCK_OFFSETS
    return start, min(ends) if len(ends) == 1 else min(ends) // BLOCK_OFFSETS * BLOCK_OFFSETS


def _may_be_superseded(divergence: Divergence, replicas: Sequence[DigestedReplica]) -> str:
    """Return why a difference of a compacted log may be none: a replica may lack what its own end supersedes."""
    marks = ", ".join(f"{one.high_watermark} in {one.place}" for one in replicas)
    where = f"{divergence.first_offset} to {divergence.last_offset}"
    return f"they differ within offsets {where}, but so may compacted replicas with other high watermarks ({marks})"


def _first_other_block(
    replicas: Sequence[DigestedReplica], numbers: Sequence[int], start: int, end: int
) -> Divergence | None:
    for number in numbers:
        states = {one.place: one.digest.blocks.get(number, _NONE) for one in replicas}
        if len(set(states.values())) > 1:
            first, last = max(start, number * BLOCK_OFFSETS), min(end, (number + 1) * BLOCK_OFFSETS) - 1
            counts = "the records differ"
            if len({block.records for block in states.values()}) > 1:
                counts = "some records are in only some of them"
            return Divergence(first, last, counts, _groups(states))
    return None


def first_other_epoch(replicas: Sequence[DigestedReplica], start: int, end: int) -> Divergence | None:
    """Return the first offset at which the leader epochs differ, where the replicas know them.

    A replica that was made from a compacted one knows the epochs of the batches that were left: nothing is told then.
    """
    if any(one.is_compacted for one in replicas):
        return None
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
