"""The plan of a run: a verdict with its reason for every segment, from facts and configuration, and the actions.

A plan is a value. A dry run shows the plan; the executor carries it out once. Each action carries the identity of the
files that it was made for. The executor refuses an action if these files have changed since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from policies.compaction import Cleanable, CompactionRound
from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from policies.reasons import Reason, ReasonCode, Verdict
from storage.names import TopicPartition

PolicyOf = Callable[[PartitionFacts], TopicPolicy]
PartitionKey = tuple[str, TopicPartition]
"""Log dir and partition: while a replica moves, two log dirs hold the same partition."""
_NAMED_MAX: Final = 5
"""The most topics that a line names."""


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
    """``--yes``: whether a person confirms everything that guard rails would hold back."""
    confirmed_guards: frozenset[str] = frozenset()
    """The keys of the guards that a person saw and confirmed. Any other guard still holds its part of the plan back."""
    in_place: bool = False
    """True if the run changes the log dir itself. Another broker's configuration then holds the run back."""
    topics: tuple[str, ...] = ()
    """Globs over the names of topics or partitions; empty means all."""
    delete_delay_ms: int | None = None
    """Overrides ``file.delete.delay.ms``; 0 unlinks within the run."""
    let_through: frozenset[str] | None = None
    """The topics whose edited limits a plan of everything let through, for a plan of some partitions.

    None if this plan itself measures how much an edit makes due.
    """

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
    """The configuration that will hold after ``config apply``; None if none waits."""

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
    """Why settings for all topics alike wait until ``config apply`` confirms them; the earlier settings hold
    meanwhile.
    """


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run."""

    request: Request
    log_dirs: tuple[LogDirPlan, ...]
    waits: frozenset[str] = frozenset()
    """Log dirs in which saved limits wait until ``config apply`` confirms them."""
    let_through: frozenset[str] = frozenset()
    """Topics whose saved limits let more go than before, but not so much that they wait."""

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
        lines = defaultdict[tuple[ReasonCode, str, str], list[str]](list)
        for guard, path in self._guards():
            is_topic = guard.code is ReasonCode.RELOAD_GUARD and path not in whole
            lines[guard.code, path.rpartition("/")[0] if is_topic else path, guard.text].append(path)
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


def _named(topics: Sequence[str]) -> str:
    """Return the number of topics, and the first names, by their paths."""
    rest = f" and {len(topics) - _NAMED_MAX:,} more" if len(topics) > _NAMED_MAX else ""
    return f"{len(topics):,} topics ({', '.join(path.rpartition('/')[2] for path in topics[:_NAMED_MAX])}{rest})"


def guards_of(log_dir: LogDirPlan) -> Iterator[tuple[Reason, str]]:
    """Yield the guard rails of a log dir, each with the path that it holds back. Limits wait for whole topics."""
    if log_dir.guard:
        yield log_dir.guard, log_dir.facts.path
        return
    if log_dir.waiting:
        yield log_dir.waiting, log_dir.facts.path
    for partition in log_dir.partitions:
        if isinstance(partition, PartitionPlan) and partition.guard:
            path = path_of(partition.facts)
            of_topic = partition.guard.code is ReasonCode.RELOAD_GUARD
            yield partition.guard, f"{path.rpartition('/')[0]}/{partition.policy.topic}" if of_topic else path


def guard_key(guard: Reason, path: str) -> str:
    """Return the key that a confirmation names: with the guard's sentence, unless that tells the time (the clock's)."""
    return f"{guard.code} {path}" if guard.code is ReasonCode.CLOCK_JUMPED else f"{guard.code} {path} {guard.text}"


def path_of(facts: PartitionFacts) -> str:
    """Return the path of the partition's directory, or its URL."""
    return f"{facts.log_dir.rstrip('/')}/{facts.topic_partition}"
