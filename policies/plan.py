"""The plan: facts and configuration in, one verdict with its reason for every segment out, and the actions that follow.

A plan is a value. A dry run shows it, the executor spends it once; each action carries the identity of the files it was
made for, and is refused where they have changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from policies.compaction import Cleanable, CompactionRound, cleanable, compaction_round, refusal
from policies.config import TopicPolicy
from policies.config_keys import CLOCK_JUMP_MAX_MS
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from policies.guards import clock_guard, delete_ratio_guard
from policies.reasons import Action, Reason, ReasonCode, Verdict, moment
from policies.retention import Retention, retention
from storage.names import TopicPartition

PartitionKey = tuple[str, TopicPartition]
"""Log dir and partition: while a replica moves, two log dirs hold the same one."""


class Only(StrEnum):
    """Restricts a run to one of the two jobs."""

    RETENTION = "retention"
    COMPACTION = "compaction"


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked of a run, besides the configuration."""

    now_ms: int
    only: Only | None = None
    force_compaction: bool = False
    assume_committed: bool = False
    confirmed: bool = False
    """``--yes``: a person means what the guard rails would hold back."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The oldest segments go. Where all of them do, an empty one is rolled at the log end first."""

    segments: tuple[SegmentFacts, ...]
    new_log_start_offset: int
    roll_at_offset: int | None

    @property
    def size_bytes(self) -> int:
        """Of the segments' ``.log`` and index files."""
        return sum(segment.size_bytes + segment.companions_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Compaction:
    """One round over a partition, after its deletion."""

    round: CompactionRound
    segments: tuple[SegmentFacts, ...]
    """Those of the groups, ascending, clean and dirty ones."""

    @property
    def size_bytes(self) -> int:
        """Of the ``.log`` files that are read; the most that the cleaned ones can come to."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def working_bytes(self) -> int:
        """The most space it takes at once where the sources of a group are unlinked before the next one: its largest
        group."""
        bytes_of = {s.base_offset: s.size_bytes + s.companions_bytes for s in self.segments}
        return max((sum(bytes_of[base] for base in group) for group in self.round.groups), default=0)


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What happens to one partition, and why to each of its segments."""

    facts: PartitionFacts
    policy: TopicPolicy
    verdicts: tuple[Verdict, ...]
    deletion: Deletion | None = None
    compaction: Compaction | None = None
    section: Cleanable | None = None
    """The dirty section, where the partition is compacted at all."""
    checkpoint_offset: int | None = None
    """First dirty offset to write although nothing is compacted: the one in the file lies outside the log."""
    guard: Reason | None = None
    """The guard rail that keeps all of it until ``--yes`` is said, where one does."""

    @property
    def key(self) -> PartitionKey:
        """Names the partition among those of all log dirs."""
        return self.facts.log_dir, self.facts.topic_partition

    @property
    def has_work(self) -> bool:
        """Whether executing it would change anything."""
        return bool(self.deletion or self.compaction or self.checkpoint_offset is not None)

    @property
    def config_is_unknown(self) -> bool:
        """Whether it keeps everything because nobody said what may go: then all verdicts are the same."""
        return any(verdict.reason.code is ReasonCode.CONFIG_UNKNOWN for verdict in self.verdicts[:1])


@dataclass(frozen=True, slots=True)
class LogDirPlan:
    """The plan of one log dir."""

    facts: LogDirFacts
    partitions: tuple[PartitionPlan | UnreadablePartition, ...]
    guard: Reason | None = None
    """The guard rail that keeps all of it until ``--yes`` is said, where one does."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run."""

    request: Request
    log_dirs: tuple[LogDirPlan, ...]

    @property
    def partitions(self) -> tuple[PartitionPlan, ...]:
        """Every partition that could be read, in the order of the log dirs."""
        return tuple(p for log_dir in self.log_dirs for p in log_dir.partitions if isinstance(p, PartitionPlan))

    @property
    def failures(self) -> tuple[UnreadablePartition, ...]:
        """Every partition that could not."""
        return tuple(p for log_dir in self.log_dirs for p in log_dir.partitions if isinstance(p, UnreadablePartition))

    @property
    def has_work(self) -> bool:
        """Whether executing it would change anything."""
        return any(partition.has_work for partition in self.partitions)

    @property
    def guards(self) -> Iterator[str]:
        """What guard rails hold back, a line each: the code, where, what."""
        for log_dir in self.log_dirs:
            if log_dir.guard:
                yield f"{log_dir.guard.code}: {log_dir.facts.path}: {log_dir.guard.text}"
                continue
            for partition in log_dir.partitions:
                if isinstance(partition, PartitionPlan) and partition.guard:
                    yield f"{partition.guard.code}: {path_of(partition.facts)}: {partition.guard.text}"


PolicyOf = Callable[[PartitionFacts], TopicPolicy]


def plan(
    log_dirs: Sequence[LogDirFacts],
    policy_of: PolicyOf,
    request: Request,
    *,
    clock_jump_max_ms: int = CLOCK_JUMP_MAX_MS,
) -> Plan:
    """Plan a run: pure and deterministic; partitions sorted by name within their log dir.

    Args:
        log_dirs: the facts.
        policy_of: the configuration of a partition's topic.
        request: the moment of the run, and what the user restricted or forced.
        clock_jump_max_ms: ``clock.jump.max``.
    """
    return Plan(request, tuple(_plan_log_dir(facts, policy_of, request, clock_jump_max_ms) for facts in log_dirs))


def _plan_log_dir(facts: LogDirFacts, policy_of: PolicyOf, request: Request, clock_jump_max_ms: int) -> LogDirPlan:
    guard = clock_guard(facts.clock, clock_jump_max_ms) if facts.clock and not request.confirmed else None
    planned = (
        p
        if isinstance(p, UnreadablePartition)
        else _held_back(p, policy_of(p), guard)
        if guard
        else plan_partition(p, policy_of(p), request)
        for p in facts.partitions
    )
    return LogDirPlan(facts, tuple(sorted(planned, key=_by_name)), guard)


def _held_back(facts: PartitionFacts, policy: TopicPolicy, guard: Reason) -> PartitionPlan:
    return PartitionPlan(facts, policy, _all_kept(facts.segments, _exempt(facts, policy) or guard), guard=guard)


def _by_name(planned: PartitionPlan | UnreadablePartition) -> tuple[str, int]:
    facts = planned if isinstance(planned, UnreadablePartition) else planned.facts
    return facts.topic_partition


def plan_partition(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> PartitionPlan:
    """Plan one partition: retention first, then compaction of what it leaves."""
    if request.assume_committed and facts.high_watermark is None:
        facts = assume_committed(facts)
    if (reason := _exempt(facts, policy)) is not None:
        return PartitionPlan(facts, policy, _all_kept(facts.segments, reason))
    outcome = _retention(facts, policy, request)
    if not request.confirmed and (guard := delete_ratio_guard(facts, outcome.deleted, policy)) is not None:
        return _held_back(facts, policy, guard)
    deletion = deletion_of(facts, outcome.deleted)
    planned = PartitionPlan(facts, policy, outcome.verdicts, deletion)
    if not policy.cleanup_compact or request.only is Only.RETENTION or not facts.segments:
        return planned
    if outcome.deletes_everything:
        return replace(planned, checkpoint_offset=_checkpoint_of_an_empty_log(facts))
    return _with_compaction(planned, facts.without_oldest(outcome.deleted), outcome, request)


def assume_committed(facts: PartitionFacts) -> PartitionFacts:
    """Take a partition without a checkpointed high watermark as committed to its end, open transactions excepted."""
    stable = facts.log_end_offset if facts.last_stable_offset is None else facts.last_stable_offset
    return replace(facts, high_watermark=facts.log_end_offset, last_stable_offset=stable)


def _exempt(facts: PartitionFacts, policy: TopicPolicy) -> Reason | None:
    """Why nothing of a partition is touched at all."""
    if facts.held_since_ms is not None:
        words = f"on hold since its restore at {moment(facts.held_since_ms)}"
        return Reason(ReasonCode.HELD, f"{words}, until logcleaner restore --release {facts.topic_partition}")
    if policy.unknown_because is not None:
        return Reason(ReasonCode.CONFIG_UNKNOWN, policy.unknown_because)
    if policy.remote_storage_enable:
        return Reason(ReasonCode.REMOTE_STORAGE, "remote storage is on: only the broker knows what was uploaded")
    return None


def _all_kept(segments: Sequence[SegmentFacts], reason: Reason) -> tuple[Verdict, ...]:
    return tuple(Verdict(s.base_offset, s.size_bytes, Action.KEEP, reason) for s in segments)


def _retention(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> Retention:
    if request.only is Only.COMPACTION:
        reason = Reason(ReasonCode.NOT_ASKED, "--only compaction leaves retention out")
        return Retention(_all_kept(facts.segments, reason), 0)
    return retention(facts, policy, request.now_ms)


def deletion_of(facts: PartitionFacts, count: int) -> Deletion | None:
    """The deletion of the ``count`` oldest segments; None of none."""
    if not count:
        return None
    new_start = facts.upper_offset(count - 1)
    roll_at = facts.log_end_offset if count == len(facts.segments) else None
    return Deletion(facts.segments[:count], max(new_start, facts.log_start_offset), roll_at)


def _with_compaction(
    planned: PartitionPlan, left: PartitionFacts, outcome: Retention, request: Request
) -> PartitionPlan:
    """Add the compaction of what retention leaves, and let its verdicts speak for those segments."""
    policy, kept = planned.policy, outcome.verdicts[outcome.deleted :]
    section = cleanable(left, policy, request.now_ms)
    why_not = refusal(left, policy, section, request.now_ms, forced=request.force_compaction)
    if why_not is not None:
        speaks_of_retention = policy.cleanup_delete and request.only is not Only.COMPACTION
        verdicts = kept if speaks_of_retention else tuple(_uncompacted(v, section, why_not) for v in kept)
        compaction, checkpoint = None, section.first_dirty_offset if section.checkpoint_is_invalid else None
    else:
        dirty = _dirty(section)
        verdicts = tuple(_compacted(v, left.upper_offset(place), section, dirty) for place, v in enumerate(kept))
        round_ = compaction_round(left, policy, section)
        segments = tuple(s for s in left.segments if s.base_offset < section.first_uncleanable_offset)
        compaction, checkpoint = Compaction(round_, segments), None
    return replace(
        planned,
        verdicts=outcome.verdicts[: outcome.deleted] + verdicts,
        compaction=compaction,
        section=section,
        checkpoint_offset=checkpoint,
    )


def _checkpoint_of_an_empty_log(facts: PartitionFacts) -> int | None:
    """The first dirty offset once everything is deleted; None where the checkpoint says so, or there is none."""
    return facts.log_end_offset if facts.cleaner_checkpoint not in (None, facts.log_end_offset) else None


_CLEAN_BEFORE: Final = Reason(
    ReasonCode.CLEAN_BEFORE, "compacted before; newer records may supersede some of its records"
)


def _dirty(section: Cleanable) -> Reason:
    since = f"since the last compaction, which ended at {section.first_dirty_offset}"
    return Reason(ReasonCode.DIRTY, f"holds records {'that were never compacted' if section.is_first else since}")


def _compacted(verdict: Verdict, upper_offset: int, section: Cleanable, dirty: Reason) -> Verdict:
    if verdict.base_offset >= section.first_uncleanable_offset:
        return verdict._replace(reason=section.bound)
    reason = dirty if upper_offset > section.first_dirty_offset else _CLEAN_BEFORE
    return verdict._replace(action=Action.COMPACT, reason=reason)


def _uncompacted(verdict: Verdict, section: Cleanable, why_not: Reason) -> Verdict:
    """Segments above the dirty section say what bounds it, the others why no round is due."""
    above = verdict.base_offset >= section.first_uncleanable_offset
    return verdict._replace(reason=section.bound if above else why_not)


def path_of(facts: PartitionFacts) -> PurePath:
    """The partition's directory."""
    return PurePath(facts.log_dir) / str(facts.topic_partition)
