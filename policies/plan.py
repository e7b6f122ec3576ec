"""The plan of a run: a verdict with its reason for every segment, from facts and configuration, and the actions.

A plan is a value. A dry run shows the plan; the executor carries it out once. Each action carries the identity of the
files that it was made for. The executor refuses an action if these files have changed since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePath
from typing import Final, NamedTuple

from policies.compaction import Cleanable, CompactionRound, cause, cleanable, compaction_round, refusal
from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.exemptions import exemption, switched_off
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from policies.guards import (
    clock_guard,
    compaction_held_back,
    config_guard,
    counted_guard,
    delete_ratio_guard,
    guard_key,
    unless_confirmed,
)
from policies.reasons import Action, Limit, Reason, ReasonCode, Verdict
from policies.reload import Confirmed, Edit, Judgement, edit_of, judge, newly_due
from policies.retention import Retention, retention
from storage.names import TopicPartition

PolicyOf = Callable[[PartitionFacts], TopicPolicy]
PartitionKey = tuple[str, TopicPartition]
"""Log dir and partition: while a replica moves, two log dirs hold the same partition."""
_NAMED_MAX: Final = 5
"""A line names no more topics than these."""


class Only(StrEnum):
    """The one job that a run is restricted to."""

    RETENTION = "retention"
    COMPACTION = "compaction"


@dataclass(frozen=True, slots=True)
class Request:
    """The wishes of the user for a run, besides the configuration."""

    now_ms: int
    """The moment of the run, epoch ms."""
    only: Only | None = None
    force_compaction: bool = False
    assume_committed: bool = False
    confirmed: bool = False
    """``--yes``: a person wants what the guard rails would hold back."""
    confirmed_guards: frozenset[str] = frozenset()
    """The keys of the guards that a person saw and confirmed. Any other guard still holds its part of the plan back."""
    in_place: bool = False
    """True if the run changes the log dir itself. Another broker's configuration then holds the run back."""
    topics: tuple[str, ...] = ()
    """Globs over the names of topics or partitions; empty means all."""
    delete_delay_ms: int | None = None
    """Overrides ``file.delete.delay.ms``; 0 unlinks within the run."""
    let_through: frozenset[str] | None = None
    """Of a plan of some partitions: the topics whose edited limits a plan of everything let through. None: this plan
    looks itself at how much becomes due by an edit."""

    @property
    def is_at_once(self) -> bool:
        """True if the run unlinks the files that leave a log, without a delay."""
        return self.delete_delay_ms == 0


class Deletion(NamedTuple):
    """The removal of a log's oldest segments, with the verdict on each; made by ``deletion_of``."""

    segments: tuple[SegmentFacts, ...]
    verdicts: tuple[Verdict, ...]
    """The verdicts on ``segments``, in the same order."""
    new_log_start_offset: int
    roll_at_offset: int | None
    """The log end offset if every segment goes: an empty segment is first rolled there. None otherwise."""

    @property
    def base_offsets(self) -> set[int]:
        """The base offsets of the segments."""
        return {segment.base_offset for segment in self.segments}

    @property
    def size_bytes(self) -> int:
        """The size of the segments' ``.log`` and index files."""
        return sum(segment.size_bytes + segment.companions_bytes for segment in self.segments)

    @property
    def frees_bytes(self) -> int:
        """The space that the disk gets back."""
        return sum(segment.frees_bytes for segment in self.segments)

    @property
    def decided(self) -> Iterator[tuple[SegmentFacts, Verdict]]:
        """The deleted segments, each with the verdict on it."""
        return zip(self.segments, self.verdicts, strict=True)


class Compaction(NamedTuple):
    """One round over a partition, after its deletion."""

    round: CompactionRound
    segments: tuple[SegmentFacts, ...]
    """The segments of all groups, clean and dirty ones, ascending."""

    @property
    def base_offsets(self) -> set[int]:
        """The base offsets of the segments."""
        return {segment.base_offset for segment in self.segments}

    @property
    def size_bytes(self) -> int:
        """The size of the ``.log`` files to read. The cleaned files never take more."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def working_bytes(self) -> int:
        """The most space that the round takes at once, if it unlinks the sources of a group before the next group.

        That is the space of one group, and of all sources before it whose other hard links keep their blocks.
        """
        bytes_of = {s.base_offset: s.size_bytes + s.companions_bytes for s in self.segments}
        linked = {s.base_offset for s in self.segments if s.links > 1}
        kept_bytes = most_bytes = 0
        for group in self.round.groups:
            most_bytes = max(most_bytes, kept_bytes + sum(bytes_of[base] for base in group))
            kept_bytes += sum(bytes_of[base] for base in group if base in linked)
        return most_bytes


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The plan of one partition: its actions, and a verdict with its reason for each segment."""

    facts: PartitionFacts
    policy: TopicPolicy
    verdicts: tuple[Verdict, ...]
    deletion: Deletion | None = None
    compaction: Compaction | None = None
    section: Cleanable | None = None
    """The dirty section; None if the partition is not compacted at all."""
    checkpoint_offset: int | None = None
    """The first dirty offset to write if nothing is compacted, but the offset in the file lies outside the log."""
    guard: Reason | None = None
    """The guard rail that keeps the partition, or part of it, until a person says ``--yes``."""
    waiting: TopicPolicy | None = None
    """The configuration that holds once ``config apply`` confirms it; None if none waits."""

    @property
    def key(self) -> PartitionKey:
        """The name of the partition among the partitions of all log dirs."""
        return self.facts.log_dir, self.facts.topic_partition

    @property
    def has_work(self) -> bool:
        """True if executing the plan would change anything."""
        return bool(self.deletion or self.compaction or self.checkpoint_offset is not None)

    @property
    def config_is_unknown(self) -> bool:
        """True if the plan keeps everything because nobody said what may go. All verdicts are then the same."""
        return any(verdict.reason.code is ReasonCode.CONFIG_UNKNOWN for verdict in self.verdicts[:1])


@dataclass(frozen=True, slots=True)
class LogDirPlan:
    """The plan of one log dir."""

    facts: LogDirFacts
    partitions: tuple[PartitionPlan | UnreadablePartition, ...]
    guard: Reason | None = None
    """The guard rail that keeps the whole log dir until a person says ``--yes``; None if there is none."""
    foreign: Reason | None = None
    """The reason why the configuration may be another broker's, whether or not it holds the run back."""
    waiting: Reason | None = None
    """Why settings for all topics alike wait until ``config apply`` confirms them; the earlier ones hold meanwhile."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run."""

    request: Request
    log_dirs: tuple[LogDirPlan, ...]
    waits: frozenset[str] = frozenset()
    """Log dirs in which saved limits wait until ``config apply`` confirms them."""
    let_through: frozenset[str] = frozenset()
    """Topics whose saved limits let more go than before, though not so much that they wait."""

    @property
    def partitions(self) -> tuple[PartitionPlan, ...]:
        """Return every partition that could be read, in the order of the log dirs."""
        return tuple(p for log_dir in self.log_dirs for p in log_dir.partitions if isinstance(p, PartitionPlan))

    @property
    def failures(self) -> tuple[UnreadablePartition, ...]:
        """Every partition that could not be read."""
        return tuple(p for log_dir in self.log_dirs for p in log_dir.partitions if isinstance(p, UnreadablePartition))

    @property
    def has_work(self) -> bool:
        """True if executing the plan would change anything."""
        return any(partition.has_work for partition in self.partitions)

    @property
    def guards(self) -> Iterator[str]:
        """Yield a line for each guard rail that holds something back: its code, the path, the reason.

        Topics of a log dir that wait for the same reason, as by an edit of ``[topics."*"]``, have one line.
        """
        whole = {log_dir.facts.path for log_dir in self.log_dirs}
        lines = defaultdict[tuple[ReasonCode, str, str], list[PurePath]](list)
        for guard, path in self._guards():
            is_topic = guard.code is ReasonCode.RELOAD_GUARD and path not in whole
            lines[guard.code, str(PurePath(path).parent) if is_topic else path, guard.text].append(PurePath(path))
        for (code, place, text), paths in lines.items():
            yield f"{code}: {paths[0] if len(paths) == 1 else f'{place}: {_named(paths)}'}: {text}"

    @property
    def guard_keys(self) -> frozenset[str]:
        """Return the keys of this plan's guard rails, for ``Request.confirmed_guards``: they confirm all of them."""
        return frozenset(guard_key(guard, path) for guard, path in self._guards())

    @property
    def foreign(self) -> Iterator[str]:
        """Return a line for each log dir whose configuration may be another broker's: code, path, reason."""
        for log_dir in self.log_dirs:
            if log_dir.foreign:
                yield f"{log_dir.foreign.code}: {log_dir.facts.path}: {log_dir.foreign.text}"

    def _guards(self) -> Iterator[tuple[Reason, str]]:
        yield from dict.fromkeys(pair for log_dir in self.log_dirs for pair in guards_of(log_dir))


def _named(topics: Sequence[PurePath]) -> str:
    """Return how many topics they are, and the first names."""
    rest = f" and {len(topics) - _NAMED_MAX:,} more" if len(topics) > _NAMED_MAX else ""
    return f"{len(topics):,} topics ({', '.join(path.name for path in topics[:_NAMED_MAX])}{rest})"


def guards_of(log_dir: LogDirPlan) -> Iterator[tuple[Reason, str]]:
    """Yield the guard rails of a log dir, each with the path of what it holds back. Limits wait for whole topics."""
    if log_dir.guard:
        yield log_dir.guard, log_dir.facts.path
        return
    if log_dir.waiting:
        yield log_dir.waiting, log_dir.facts.path
    for partition in log_dir.partitions:
        if isinstance(partition, PartitionPlan) and partition.guard:
            path = path_of(partition.facts)
            of_topic = partition.guard.code is ReasonCode.RELOAD_GUARD
            yield partition.guard, str(path.parent / partition.policy.topic if of_topic else path)


def plan(
    log_dirs: Sequence[LogDirFacts],
    policy_of: PolicyOf,
    request: Request,
    broker: BrokerPolicy | None = None,
    confirmed: Mapping[str, Confirmed] | None = None,
) -> Plan:
    """Plan a run. The function is pure and deterministic; it sorts partitions by name within their log dir.

    Args:
        log_dirs: the facts.
        policy_of: gives the configuration of a partition's topic.
        request: the moment of the run, and the user's restrictions and confirmations.
        broker: the configuration for all topics alike; None takes Kafka's defaults.
        confirmed: log dir -> the configurations that the saved one is compared with; without any nothing waits.
    """
    judged = judge(log_dirs, policy_of, request, broker or BrokerPolicy(), confirmed or {})
    planned = (
        _plan_log_dir(facts, policy_of, request, judged, (confirmed or {}).get(facts.path)) for facts in log_dirs
    )
    return Plan(request, tuple(planned), judged.log_dirs, judged.let_through)


def _plan_log_dir(
    facts: LogDirFacts, policy_of: PolicyOf, request: Request, judged: Judgement, confirmed: Confirmed | None
) -> LogDirPlan:
    guard = next(log_dir_guards(facts, request, judged.broker), None) or judged.withheld.get(facts.path)

    def planned(log: PartitionFacts) -> PartitionPlan:
        policy = policy_of(log)
        if guard:
            return _held_back(log, policy, guard)
        waits = judged.waiting.get((facts.path, log.topic_partition.topic))
        edit = edit_of(log, policy, confirmed) if waits else None
        if waits and edit:
            return _with_earlier_limits(log, policy, edit, waits, request, judged.broker)
        return plan_partition(log, policy, request, judged.broker)

    partitions = (p if isinstance(p, UnreadablePartition) else planned(p) for p in facts.partitions)
    foreign = config_guard(facts.config) if facts.config else None
    in_order = tuple(sorted(partitions, key=_by_name))
    return LogDirPlan(facts, in_order, guard, foreign, judged.of_all.get(facts.path))


def _with_earlier_limits(
    facts: PartitionFacts, policy: TopicPolicy, edit: Edit, guard: Reason, request: Request, broker: BrokerPolicy
) -> PartitionPlan:
    """Plan a partition whose saved limits wait: by those that keep most. What would go by the edit says so."""
    if edit.kept.is_hands_off or not edit.kept.cleanup_policy:
        why = exemption(facts, policy) or guard
        return PartitionPlan(facts, edit.kept, _all_kept(facts.segments, why), guard=guard, waiting=policy)
    planned = plan_partition(facts, edit.kept, request, broker)
    due = {segment.base_offset for segment in newly_due(facts, policy, edit, request)}
    is_exempt = exemption(facts, policy) is not None
    verdicts = tuple(
        verdict._replace(reason=guard)
        if verdict.base_offset in due and verdict.action is Action.KEEP and not is_exempt
        else verdict
        for verdict in planned.verdicts
    )
    return replace(planned, verdicts=verdicts, guard=planned.guard or guard, waiting=policy)


def log_dir_guards(facts: LogDirFacts, request: Request, broker: BrokerPolicy) -> Iterator[Reason]:
    """Return the guard rails that hold a whole log dir back and that nobody confirmed."""
    clock = clock_guard(facts.clock, broker) if facts.clock else None
    config = config_guard(facts.config) if facts.config and request.in_place else None
    for guard in (clock, config):
        if held := unless_confirmed(guard, facts.path, request):
            yield held


def _held_back(facts: PartitionFacts, policy: TopicPolicy, guard: Reason) -> PartitionPlan:
    return PartitionPlan(facts, policy, _all_kept(facts.segments, exemption(facts, policy) or guard), guard=guard)


def _by_name(planned: PartitionPlan | UnreadablePartition) -> tuple[str, int]:
    facts = planned if isinstance(planned, UnreadablePartition) else planned.facts
    return facts.topic_partition


def plan_partition(
    facts: PartitionFacts, policy: TopicPolicy, request: Request, broker: BrokerPolicy | None = None
) -> PartitionPlan:
    """Plan one partition: retention first, then compaction of the segments that retention leaves.

    Args:
        facts: the partition.
        policy: the configuration of its topic.
        request, broker: as for ``plan``.
    """
    if request.assume_committed and facts.high_watermark is None:
        facts = assume_committed(facts)
    if (reason := exemption(facts, policy) or switched_off(policy, broker or BrokerPolicy())) is not None:
        return PartitionPlan(facts, policy, _all_kept(facts.segments, reason))
    outcome = _retention(facts, policy, request)
    guard = unless_confirmed(delete_ratio_guard(facts, outcome.deleted, policy), str(path_of(facts)), request)
    if guard is not None:
        return _held_back(facts, policy, guard)
    deletion = deletion_of(facts, outcome.verdicts, outcome.deleted)
    planned = PartitionPlan(facts, policy, outcome.verdicts, deletion)
    if not policy.cleanup_compact or request.only is Only.RETENTION or not facts.segments:
        return planned
    if outcome.deletes_everything:
        return replace(planned, checkpoint_offset=_checkpoint_of_an_empty_log(facts))
    planned = _with_compaction(planned, facts.without_oldest(outcome.deleted), outcome, request)
    guard = unless_confirmed(counted_guard(planned), str(path_of(facts)), request)
    return compaction_held_back(planned, guard) if guard else planned


def assume_committed(facts: PartitionFacts) -> PartitionFacts:
    """Return the facts with the log end as high watermark: all is committed, except open transactions."""
    stable = facts.log_end_offset if facts.last_stable_offset is None else facts.last_stable_offset
    return replace(facts, high_watermark=facts.log_end_offset, last_stable_offset=stable)


def _all_kept(segments: Sequence[SegmentFacts], reason: Reason) -> tuple[Verdict, ...]:
    return tuple(Verdict(s.base_offset, s.size_bytes, Action.KEEP, reason) for s in segments)


def _retention(facts: PartitionFacts, policy: TopicPolicy, request: Request) -> Retention:
    if request.only is Only.COMPACTION:
        reason = Reason(ReasonCode.NOT_ASKED, "--only compaction leaves retention out")
        return Retention(_all_kept(facts.segments, reason), 0)
    return retention(facts, policy, request.now_ms)


def deletion_of(facts: PartitionFacts, verdicts: Sequence[Verdict], count: int) -> Deletion | None:
    """Return the deletion of the ``count`` oldest segments, given the verdicts on all; None if none is to go."""
    if not count:
        return None
    new_start = facts.upper_offset(count - 1)
    roll_at = facts.log_end_offset if count == len(facts.segments) else None
    return Deletion(facts.segments[:count], tuple(verdicts[:count]), max(new_start, facts.log_start_offset), roll_at)


def _with_compaction(
    planned: PartitionPlan, left: PartitionFacts, outcome: Retention, request: Request
) -> PartitionPlan:
    """Add the compaction of the segments that retention leaves. Its verdicts replace those of retention."""
    policy, kept = planned.policy, outcome.kept
    section = cleanable(left, policy, request.now_ms)
    why_not = refusal(left, policy, section, request.now_ms, forced=request.force_compaction)
    if why_not is not None:
        speaks_of_retention = policy.cleanup_delete and request.only is not Only.COMPACTION
        verdicts = kept if speaks_of_retention else tuple(_uncompacted(v, section, why_not) for v in kept)
        compaction, checkpoint = None, section.first_dirty_offset if section.checkpoint_is_invalid else None
    else:
        dirty = _dirty(section, cause(left, policy, section, request.now_ms))
        verdicts = tuple(_compacted(v, left.upper_offset(place), section, dirty) for place, v in enumerate(kept))
        round_ = compaction_round(left, policy, section)
        segments = tuple(s for s in left.segments if s.base_offset < section.first_uncleanable_offset)
        compaction, checkpoint = Compaction(round_, segments), None
    return replace(
        planned,
        verdicts=outcome.gone + verdicts,
        compaction=compaction,
        section=section,
        checkpoint_offset=checkpoint,
    )


def _checkpoint_of_an_empty_log(facts: PartitionFacts) -> int | None:
    """Return the first dirty offset of an emptied log; None if the checkpoint states it already, or has no line."""
    return facts.log_end_offset if facts.cleaner_checkpoint not in (None, facts.log_end_offset) else None


_CLEAN_BEFORE: Final = Reason(
    ReasonCode.CLEAN_BEFORE, "compacted before; newer records may supersede some of its records"
)


def _dirty(section: Cleanable, limit: Limit | None) -> Reason:
    since = f"since the last compaction, which ended at {section.first_dirty_offset}"
    text = f"holds records {'that were never compacted' if section.is_first else since}"
    return Reason(ReasonCode.DIRTY, text, limit=limit)


def _compacted(verdict: Verdict, upper_offset: int, section: Cleanable, dirty: Reason) -> Verdict:
    if verdict.base_offset >= section.first_uncleanable_offset:
        return verdict._replace(reason=section.bound)
    reason = dirty if upper_offset > section.first_dirty_offset else _CLEAN_BEFORE
    return verdict._replace(action=Action.COMPACT, reason=reason)


def _uncompacted(verdict: Verdict, section: Cleanable, why_not: Reason) -> Verdict:
    """Give the reason for no round. A segment above the dirty section gets the reason for the section's end instead."""
    above = verdict.base_offset >= section.first_uncleanable_offset
    return verdict._replace(reason=section.bound if above else why_not)


def path_of(facts: PartitionFacts) -> PurePath:
    """Return the partition's directory."""
    return PurePath(facts.log_dir) / str(facts.topic_partition)
