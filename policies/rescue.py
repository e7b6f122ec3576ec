"""A full disk's rescue: a plan narrowed to a target, so that of what policy lets go only so much goes as has to.

Deletions come first, whole segments, the oldest data of all partitions first; then, where they do not suffice and it
was asked for, compactions, the greatest gain for the working space first. Nothing is ever added to a plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from policies.facts import SegmentFacts, UnreadablePartition
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Plan, deletion_of
from policies.reasons import Action, Reason, ReasonCode, Verdict


@dataclass(frozen=True, slots=True)
class Volume:
    """A file system that log dirs lie on, as it is at a moment. Free is what an ordinary user can still take."""

    log_dirs: tuple[str, ...]
    size_bytes: int
    free_bytes: int
    block_bytes: int

    def with_freed(self, freed_bytes: int) -> Volume:
        """The volume as it will be."""
        return replace(self, free_bytes=self.free_bytes + freed_bytes)

    def on_disk_bytes(self, segment: SegmentFacts) -> int:
        """Of a segment's files, each in whole blocks; what unlinking it gives back unless a file has holes."""
        index_bytes, time_index_bytes = segment.index_bytes, segment.time_index_bytes
        txn_index_bytes = segment.companions_bytes - index_bytes - time_index_bytes
        files = (segment.size_bytes, index_bytes, time_index_bytes, txn_index_bytes)
        return sum(-(-size_bytes // self.block_bytes) * self.block_bytes for size_bytes in files)


@dataclass(frozen=True, slots=True)
class Target:
    """How much is to be free on each file system: bytes, or percent of its size where ``is_percent``."""

    number: int
    is_percent: bool = False

    def wanted_bytes(self, volume: Volume) -> int:
        """In bytes of that volume."""
        return -(-volume.size_bytes * self.number // 100) if self.is_percent else self.number

    def short_bytes(self, volume: Volume) -> int:
        """What is missing; 0 where the target is met."""
        return max(self.wanted_bytes(volume) - volume.free_bytes, 0)


@dataclass(frozen=True, slots=True)
class _Step:
    """One segment that policy lets go, once all older ones of its partition are gone."""

    age_rank_ms: int
    """The largest timestamp up to this segment: it cannot go before a younger one that lies in front of it."""
    key: PartitionKey
    place: int
    frees_bytes: int


def narrowed(plan: Plan, volumes: Sequence[Volume], target: Target) -> Plan:
    """The plan with as few deletions as bring every volume to the target; its compactions where those do not suffice.

    Args:
        plan: what policy allows.
        volumes: as they are; every log dir of the plan lies on one.
        target: what is to be free.
    """
    counts: dict[PartitionKey, int] = {}
    compacted: set[PartitionKey] = set()
    for volume in volumes:
        short_bytes = target.short_bytes(volume)
        for step in sorted(_steps(plan, volume), key=lambda step: (step.age_rank_ms, step.key, step.place)):
            if short_bytes <= 0:
                break
            counts[step.key] = step.place + 1
            short_bytes -= step.frees_bytes
        if short_bytes > 0:
            compacted |= {p.key for p in plan.partitions if p.facts.log_dir in volume.log_dirs}
    return restricted(plan, counts, compacted)


def restricted(plan: Plan, counts: Mapping[PartitionKey, int], compacted: Collection[PartitionKey]) -> Plan:
    """The plan with these deletions and compactions alone; the verdicts of the others say that they are not needed.

    Args:
        plan: what policy allows.
        counts: how many of its oldest segments a partition loses; none where it is not named.
        compacted: partitions that keep their compaction, if they have one.
    """

    def of(planned: PartitionPlan | UnreadablePartition) -> PartitionPlan | UnreadablePartition:
        if isinstance(planned, UnreadablePartition):
            return planned
        return _restricted(planned, counts.get(planned.key, 0), is_compacted=planned.key in compacted)

    log_dirs = (LogDirPlan(d.facts, tuple(of(planned) for planned in d.partitions)) for d in plan.log_dirs)
    return replace(plan, log_dirs=tuple(log_dirs))


def expected_bytes(plan: Plan, volume: Volume) -> int:
    """What the plan's deletions free on a volume; what its compactions give is not known without reading."""
    return sum(step.frees_bytes for step in _steps(plan, volume))


def next_compaction(left: Collection[PartitionPlan], free_bytes: int) -> PartitionPlan | None:
    """The most gain for the working space, of those that fit into what is free; None where none does.

    What a compaction gains is not known without reading; as a rule each dirty record supersedes another, so the dirty
    bytes stand for it.
    """
    fitting = [p for p in left if p.compaction and p.compaction.working_bytes <= free_bytes]
    return max(fitting, key=lambda p: (_gain_per_byte(p), p.facts.topic_partition), default=None)


def _steps(plan: Plan, volume: Volume) -> Iterator[_Step]:
    for planned in plan.partitions:
        if planned.deletion and planned.facts.log_dir in volume.log_dirs:
            segments = planned.deletion.segments
            ranks_ms = accumulate((segment.largest_timestamp_ms for segment in segments), max)
            for place, (segment, rank_ms) in enumerate(zip(segments, ranks_ms, strict=True)):
                yield _Step(rank_ms, planned.key, place, volume.on_disk_bytes(segment))


def _restricted(planned: PartitionPlan, count: int, *, is_compacted: bool) -> PartitionPlan:
    assert count <= (len(planned.deletion.segments) if planned.deletion else 0)
    return replace(
        planned,
        deletion=deletion_of(planned.facts, count),
        compaction=planned.compaction if is_compacted else None,
        checkpoint_offset=None,
        verdicts=tuple(
            verdict if place < count or (is_compacted and verdict.action is Action.COMPACT) else _spared(verdict)
            for place, verdict in enumerate(planned.verdicts)
        ),
    )


def _spared(verdict: Verdict) -> Verdict:
    if verdict.action is Action.KEEP:
        return verdict
    text = f"{verdict.reason.code} would {verdict.action} it, but enough is free without that"
    reason = Reason(ReasonCode.TARGET_MET, text)
    return verdict._replace(action=Action.KEEP, reason=reason)


def _gain_per_byte(planned: PartitionPlan) -> Fraction:
    assert planned.compaction is not None
    dirty_bytes = planned.section.dirty_bytes if planned.section else 0
    return Fraction(dirty_bytes, max(planned.compaction.working_bytes, 1))
