"""The answers of ``--what-if``, added up by topic: one supposition for each value of a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from policies.config.policy import Stated
from policies.forecast.births import seen_ms
from policies.forecast.long_run import LongRun, long_run, total
from policies.forecast.what_if import Question
from policies.plan import PartitionPlan, Plan


@dataclass(frozen=True, slots=True)
class Supposed:
    """The effect of a run on some partitions with one value of a key, and the size that they come to hold.

    Attributes:
        partitions: the number of partitions, without partitions that cannot be read.
        size_bytes: the size of their ``.log`` and index files now.
        freed_bytes: what a run now would take off that; of a compaction whose data was not read, nothing.
        disk_bytes: the blocks of these files.
        freed_disk_bytes: what the disk would get back of them.
        compacted_bytes: the ``.log`` files that a run now would compact.
        long_run: what they come to hold.
        held_back: partitions that a guard rail holds back.
        failed: partitions that would fail, or cannot be read.
        unknown: partitions that are not touched, since their configuration is unknown.
        is_estimate: data that a compaction would read was not read.
    """

    partitions: int = 0
    size_bytes: int = 0
    freed_bytes: int = 0
    disk_bytes: int = 0
    freed_disk_bytes: int = 0
    compacted_bytes: int = 0
    long_run: LongRun = field(default_factory=LongRun)
    held_back: int = 0
    failed: int = 0
    unknown: int = 0
    is_estimate: bool = False

    @property
    def kept_bytes(self) -> int:
        """The bytes that stay, index files included."""
        return self.size_bytes - self.freed_bytes

    @property
    def kept_disk_bytes(self) -> int:
        """The blocks that stay in use."""
        return self.disk_bytes - self.freed_disk_bytes

    @classmethod
    def of(cls, partition: PartitionPlan, outcome: Outcome, now_ms: int) -> Supposed:
        """Return the figures of one partition. ``now_ms``: the moment up to which it is known what was written."""
        result = outcome.results.get(partition.key)
        sizes = (segment.size_bytes + segment.companions_bytes for segment in partition.facts.segments)
        compacted_bytes = result.compacted_from_bytes if result else 0
        return cls(
            partitions=1,
            size_bytes=sum(sizes),
            freed_bytes=_freed_bytes(result) if result else 0,
            disk_bytes=partition.facts.disk_bytes,
            freed_disk_bytes=result.space.reclaimed_disk_bytes if result else 0,
            compacted_bytes=compacted_bytes,
            long_run=long_run(partition, now_ms),
            held_back=int(partition.guard is not None),
            failed=int(bool(result and result.error)),
            unknown=int(partition.config_is_unknown),
            is_estimate=bool(compacted_bytes and result and result.basis is Basis.ESTIMATE),
        )

    @classmethod
    def total(cls, found: Sequence[Supposed]) -> Supposed:
        """Add up."""
        return cls(
            **{name: sum(getattr(one, name) for one in found) for name in _COUNTED},
            long_run=total(one.long_run for one in found),
            is_estimate=any(one.is_estimate for one in found),
        )


_COUNTED: Final = (
    *("partitions", "size_bytes", "freed_bytes", "disk_bytes", "freed_disk_bytes", "compacted_bytes"),
    *("held_back", "failed", "unknown"),
)


def _freed_bytes(result: PartitionResult) -> int:
    compacted_bytes = result.compacted_from_bytes - result.compacted_to_bytes
    return result.deleted_bytes + compacted_bytes + result.space.index_saved_bytes


@dataclass(frozen=True, slots=True)
class Supposition:
    """A plan with one value of a key, by topic.

    Attributes:
        value: the value asked for; None for the configuration in force.
        plan: the plan.
        outcome: what executing it would do.
        topics: topic -> its figures.
        stated: topic -> the value of the key that then holds for it.
    """

    value: Stated | None
    plan: Plan
    outcome: Outcome
    topics: dict[str, Supposed]
    stated: dict[str, Stated]

    @property
    def total(self) -> Supposed:
        """The figures of all topics together."""
        return Supposed.total([*self.topics.values(), Supposed(failed=len(self.plan.failures))])

    @classmethod
    def of(cls, key: str, value: Stated | None, plan: Plan, outcome: Outcome) -> Supposition:
        """Add up a plan by topic."""
        by_topic: dict[str, list[Supposed]] = {}
        stated: dict[str, Stated] = {}
        now_ms = seen_ms(plan)
        for partition in plan.partitions:
            topic = partition.facts.topic_partition.topic
            by_topic.setdefault(topic, []).append(Supposed.of(partition, outcome, now_ms))
            stated.setdefault(topic, partition.policy.stated[key])
        topics = {topic: Supposed.total(found) for topic, found in by_topic.items()}
        return cls(value, plan, outcome, topics, stated)


@dataclass(frozen=True, slots=True)
class Supposals:
    """The answers to one question: first the configuration in force, then each value asked for."""

    question: Question
    in_force: Supposition
    asked: tuple[Supposition, ...]

    @property
    def all(self) -> tuple[Supposition, ...]:
        """The configuration in force, then each value."""
        return (self.in_force, *self.asked)
