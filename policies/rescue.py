"""Narrow a plan to a target of free space, to rescue a full disk: delete only as much as needed of what policy allows.

Deletions come first: whole segments, the oldest data of all partitions first. If deletions do not suffice, and if the
user asked for it, compactions follow, the greatest gain for the working space first. Nothing is ever added to a plan.

A deletion gives back the blocks that its files take. A file with another hard link gives back nothing. So the first
segment with such a file stays, and all later segments stay with it, since a log has no gap. A snapshot, a copy that
shares blocks, or a process with an open file may keep blocks, too. The facts of a file do not show this, so the gain is
measured. A partition that gave back much less than expected loses nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, takewhile
from typing import Final

from policies.facts import SegmentFacts, UnreadablePartition
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.planning import deletion_of
from policies.reasons import Action, Reason, ReasonCode, Verdict

NOISE_BYTES: Final = 64 << 10
"""The bytes that other writers, or our own checkpoints and directories, may take while a gain is measured."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A file system with log dirs, at one moment. ``free_bytes`` is the space that an ordinary user can still take."""

    log_dirs: tuple[str, ...]
    size_bytes: int
    free_bytes: int
    used_bytes: int

    def with_freed(self, freed_bytes: int) -> Volume:
        """Return the volume as it will be. Files that share blocks cannot give back more than is used."""
        given_back_bytes = min(freed_bytes, self.used_bytes)
        free_bytes, used_bytes = self.free_bytes + given_back_bytes, self.used_bytes - given_back_bytes
        return replace(self, free_bytes=free_bytes, used_bytes=used_bytes)


@dataclass(frozen=True, slots=True)
class Gain:
    """The space that the blocks of deleted files took, and the space that the file system gained by the deletion."""

    expected_bytes: int
    measured_bytes: int

    @property
    def is_lacking(self) -> bool:
        """True if the gain is less than half of the expected one, and other writes cannot explain the difference."""
        missing_bytes = self.expected_bytes - self.measured_bytes
        return 2 * self.measured_bytes < self.expected_bytes and missing_bytes > NOISE_BYTES

    def __str__(self) -> str:
        return f"deleting files that take {self.expected_bytes} bytes freed {max(self.measured_bytes, 0)}, as measured"


Gains = Mapping[PartitionKey, Gain]


@dataclass(frozen=True, slots=True)
class SpaceTarget:
    """The space that must be free on each file system: bytes, or percent of its size if ``is_percent``."""

    number: int
    is_percent: bool = False

    def wanted_bytes(self, volume: Volume) -> int:
        """Return the target in bytes for this volume."""
        return -(-volume.size_bytes * self.number // 100) if self.is_percent else self.number

    def short_bytes(self, volume: Volume) -> int:
        """Return the bytes that are missing; 0 if the volume meets the target."""
        return max(self.wanted_bytes(volume) - volume.free_bytes, 0)


@dataclass(frozen=True, slots=True)
class _Step:
    """One segment that policy lets go, once all older segments of its partition are gone."""

    age_rank_ms: int
    """The largest timestamp up to this segment: a segment cannot go before a younger one that lies in front of it."""
    key: PartitionKey
    place: int
    frees_bytes: int


def narrowed(plan: Plan, volumes: Sequence[Volume], target: SpaceTarget, lacking: Gains | None = None) -> Plan:
    """Return the plan with the fewest deletions that meet the target; with compactions if deletions do not suffice.

    Args:
        plan: all that policy allows.
        volumes: the volumes as they are; every log dir of the plan lies on one of them.
        target: the space that must be free.
        lacking: partitions that gave back much less than expected: they lose nothing more.
    """
    lacking = lacking or {}
    counts: dict[PartitionKey, int] = {}
    compacted: set[PartitionKey] = set()
    for volume in volumes:
        short_bytes = target.short_bytes(volume)
        steps = (step for step in _steps(plan, volume) if step.key not in lacking)
        for step in sorted(steps, key=lambda step: (step.age_rank_ms, step.key, step.place)):
            if short_bytes <= 0:
                break
            if step.frees_bytes:  # a segment that frees nothing goes only if a later one frees something
                counts[step.key] = step.place + 1
            short_bytes -= step.frees_bytes
        if short_bytes > 0:
            compacted |= worth_compacting(plan, volume.log_dirs, lacking)
    return restricted(plan, counts, compacted, lacking)


def worth_compacting(plan: Plan, log_dirs: Collection[str], lacking: Gains) -> set[PartitionKey]:
    """Return the partitions of some log dirs whose compaction frees the space of the segments that it replaces."""
    here = (p for p in plan.partitions if p.facts.log_dir in log_dirs and p.key not in lacking)
    return {p.key for p in here if p.compaction and _first_linked(p) is None}


def worth_deleting(planned: PartitionPlan) -> int:
    """Return how many of its oldest segments a partition may lose for a gain: up to the last that frees anything."""
    gains = [place for place, segment in enumerate(_unlinked(planned)) if segment.disk_bytes]
    return gains[-1] + 1 if gains else 0


def restricted(
    plan: Plan, counts: Mapping[PartitionKey, int], compacted: Collection[PartitionKey], lacking: Gains | None = None
) -> Plan:
    """Return the plan with these deletions and compactions alone; every other verdict tells why its segment is left
    out.

    Args:
        plan: all that policy allows.
        counts: the number of its oldest segments that a partition loses; a partition without an entry loses none.
        compacted: partitions that keep their compaction, if they have one.
        lacking: partitions that gave back much less than expected.
    """

    def of(planned: PartitionPlan | UnreadablePartition) -> PartitionPlan | UnreadablePartition:
        if isinstance(planned, UnreadablePartition):
            return planned
        gain = (lacking or {}).get(planned.key)
        return _restricted(planned, counts.get(planned.key, 0), gain, is_compacted=planned.key in compacted)

    log_dirs = (replace(d, partitions=tuple(of(planned) for planned in d.partitions)) for d in plan.log_dirs)
    return replace(plan, log_dirs=tuple(log_dirs))


def expected_bytes(plan: Plan, volume: Volume) -> int:
    """Return the bytes that the plan's deletions free on a volume; the gain of compactions is unknown as yet."""
    return sum(step.frees_bytes for step in _steps(plan, volume))


def next_compaction(left: Collection[PartitionPlan], free_bytes: int) -> PartitionPlan | None:
    """Return the compaction with the most gain for its working space that fits the free space; None if none fits.

    The gain of a compaction is unknown without reading. As a rule each dirty record supersedes another one, so the
    dirty bytes stand for the gain.
    """
    fitting = [p for p in left if p.compaction and p.compaction.working_bytes <= free_bytes]
    return max(fitting, key=lambda p: (_gain_per_byte(p), p.facts.topic_partition), default=None)


def _steps(plan: Plan, volume: Volume) -> Iterator[_Step]:
    for planned in plan.partitions:
        if planned.deletion and planned.facts.log_dir in volume.log_dirs:
            segments = _unlinked(planned)
            ranks_ms = accumulate((segment.largest_timestamp_ms for segment in segments), max)
            for place, (segment, rank_ms) in enumerate(zip(segments, ranks_ms, strict=True)):
                yield _Step(rank_ms, planned.key, place, segment.disk_bytes)


def _unlinked(planned: PartitionPlan) -> Sequence[SegmentFacts]:
    """Return the segments that policy lets go, up to the first one with another hard link."""
    segments = planned.deletion.segments if planned.deletion else ()
    return tuple(takewhile(lambda segment: segment.links == 1, segments))


def _restricted(planned: PartitionPlan, count: int, gain: Gain | None, *, is_compacted: bool) -> PartitionPlan:
    assert count <= (len(planned.deletion.segments) if planned.deletion else 0)
    unlinked, vain_compaction = len(_unlinked(planned)), _vain_compaction(planned)

    def of(place: int, verdict: Verdict) -> Verdict:
        is_compaction = verdict.action is Action.COMPACT
        if verdict.action is Action.KEEP or place < count or (is_compacted and is_compaction):
            return verdict
        vain = vain_compaction if is_compaction else _vain_deletion(planned, place, unlinked)
        if gain:
            vain = Reason(ReasonCode.NO_GAIN, f"{gain}: something else keeps those blocks, and may keep these")
        return verdict._replace(action=Action.KEEP, reason=vain or _not_needed(verdict))

    verdicts = tuple(of(place, verdict) for place, verdict in enumerate(planned.verdicts))
    return replace(
        planned,
        deletion=deletion_of(planned.facts, verdicts, count),
        compaction=planned.compaction if is_compacted else None,
        checkpoint_offset=None,
        verdicts=verdicts,
    )


def _vain_deletion(planned: PartitionPlan, place: int, unlinked: int) -> Reason | None:
    """Return why the deletion of a segment that policy lets go would be in vain; None if it would not."""
    segments = planned.facts.segments
    if place > unlinked:
        text = f"may go, but {segments[unlinked].base_offset}, which has another hard link, stays"
        return Reason(ReasonCode.BEHIND_KEPT_SEGMENT, text)
    if place == unlinked:
        text = f"a file of it has {segments[place].links} hard links: deleting it would free nothing"
        return Reason(ReasonCode.NO_GAIN, text)
    if not segments[place].disk_bytes:
        return Reason(ReasonCode.NO_GAIN, "its files take no block of the disk: deleting it would free nothing")
    return None


def _vain_compaction(planned: PartitionPlan) -> Reason | None:
    """Return why the compaction of a partition would be in vain; None if it would not."""
    linked = _first_linked(planned)
    if linked is None:
        return None
    text = f"a file of {linked.base_offset} has {linked.links} hard links: compacting it would take space and free none"
    return Reason(ReasonCode.NO_GAIN, text)


def _first_linked(planned: PartitionPlan) -> SegmentFacts | None:
    segments = planned.compaction.segments if planned.compaction else ()
    return next((segment for segment in segments if segment.links > 1), None)


def _not_needed(verdict: Verdict) -> Reason:
    text = f"{verdict.reason.code} would {verdict.action} it, but enough is free without that"
    return Reason(ReasonCode.TARGET_MET, text)


def _gain_per_byte(planned: PartitionPlan) -> Fraction:
    assert planned.compaction is not None
    dirty_bytes = planned.section.dirty_bytes if planned.section else 0
    return Fraction(dirty_bytes, max(planned.compaction.working_bytes, 1))
