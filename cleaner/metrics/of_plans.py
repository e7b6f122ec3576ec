"""The samples of log dirs and partitions that a plan gives. They are computed on demand, and not kept.

Partitions are written as text, because prometheus-client takes ten times as long to build and print 10,000 samples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cleaner.metrics import families as names
from cleaner.metrics.families import Family
from policies.expiry import next_expiry_ms
from policies.facts import PartitionFacts, UnreadablePartition
from policies.forecast.runway import Growth
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Plan, guards_of
from policies.reasons import Action, ReasonCode


class Sample(NamedTuple):
    """A value of one family; ``labels`` are the values of the family's labels, in their order."""

    family: Family
    labels: tuple[str, ...]
    value: float


class Failed(NamedTuple):
    """The partitions whose cleaning failed in the runs so far."""

    uncleanable: Collection[PartitionKey]
    counts: Mapping[PartitionKey, int]


def partitions_text(plan: Plan, failed: Failed, families: Sequence[Family]) -> str:
    """Return the series of all partitions in Prometheus' text format.

    Args:
        plan: the latest plan.
        failed: the failures of the runs so far.
        families: the families to write.
    """
    if not families:
        return ""
    values = [_values(planned, failed, plan.request.now_ms) for d in plan.log_dirs for planned in d.partitions]
    labels = [_label_text(planned) for log_dir in plan.log_dirs for planned in log_dir.partitions]
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
        lines += (
            f"{family.name}{{{label}}} {value[family]}\n"
            for label, value in zip(labels, values, strict=True)
            if family in value
        )
    return "".join(lines)


def _label_text(planned: PartitionPlan | UnreadablePartition) -> str:
    """Return the labels of a partition. Only the path can need escaping: topics have letters, digits, ``._-``."""
    log_dir, (topic, partition) = key_of(planned)
    path = log_dir.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'log_dir="{path}",topic="{topic}",partition="{partition}"'


def key_of(planned: PartitionPlan | UnreadablePartition) -> PartitionKey:
    """Return the key of a partition, readable or not."""
    facts = planned if isinstance(planned, UnreadablePartition) else planned.facts
    return facts.log_dir, facts.topic_partition


def _values(planned: PartitionPlan | UnreadablePartition, failed: Failed, now_ms: int) -> Mapping[Family, float]:
    """Return the values of one partition, as far as they are known."""
    key = key_of(planned)
    failures: dict[Family, float] = {names.PARTITION_FAILURES: failed.counts.get(key, 0)}
    if isinstance(planned, UnreadablePartition):
        return failures | {names.SIZE: planned.size_bytes, names.UNCLEANABLE: 1}
    facts, section = planned.facts, planned.section
    values = failures | {
        names.SIZE: facts.size_bytes,
        names.SEGMENTS: len(facts.segments),
        names.UNCLEANABLE: int(key in failed.uncleanable),
        names.LOG_START_OFFSET: facts.log_start_offset,
        names.LOG_END_OFFSET: facts.log_end_offset,
        names.PARTITION_RECLAIMABLE: sum(_reclaimable(planned).values()),
    }
    if section:
        values |= {names.DIRTY_RATIO: section.dirty_ratio, names.FIRST_DIRTY_OFFSET: section.first_dirty_offset}
    if expiry_ms := next_expiry_ms(planned, now_ms):
        values[names.NEXT_EXPIRY] = expiry_ms / 1000
    if (oldest_ms := _oldest_ms(facts)) is not None:
        values[names.PARTITION_OLDEST] = oldest_ms / 1000
    return values


def _oldest_ms(facts: PartitionFacts) -> int | None:
    """Return the largest timestamp of the first segment with records, in epoch ms."""
    return next((segment.largest_timestamp_ms for segment in facts.segments if segment.size_bytes), None)


def _reclaimable(planned: PartitionPlan) -> Counter[ReasonCode]:
    """Return reclaimable bytes by reason: deleted bytes with index files, and the dirty bytes of a compaction."""
    taken: Counter[ReasonCode] = Counter()
    if planned.deletion:
        for segment, verdict in planned.deletion.decided:
            taken[verdict.reason.code] += segment.size_bytes + segment.companions_bytes
    if planned.compaction and planned.section:
        taken[ReasonCode.DIRTY] += planned.section.dirty_bytes
    return taken


def log_dir_samples(plan: Plan, failed: Failed, growths: Mapping[str, Growth]) -> Iterator[Sample]:
    """Yield the samples of every log dir.

    Args:
        plan: the latest plan.
        failed: the failures of the runs so far.
        growths: log dir -> its growth.
    """
    for log_dir in plan.log_dirs:
        for family, value in _log_dir_values(log_dir, failed):
            yield Sample(family, (log_dir.facts.path,), value)
        yield from _by_reason(log_dir)
        if growth := growths.get(log_dir.facts.path):
            yield from _growth_samples(log_dir.facts.path, growth)


def _log_dir_values(log_dir: LogDirPlan, failed: Failed) -> Iterator[tuple[Family, float]]:
    facts = log_dir.facts
    readable = [p for p in log_dir.partitions if isinstance(p, PartitionPlan)]
    failing = sum(key_of(p) in failed.uncleanable for p in readable) + len(log_dir.partitions) - len(readable)
    yield names.LOG_DIR_SIZE, facts.size_bytes
    yield names.LOG_DIR_FREE, facts.free_bytes
    yield names.LOG_DIR_LOCKED, int(facts.locked_by is not None)
    yield names.PARTITIONS, len(log_dir.partitions)
    yield names.LOG_DIR_SEGMENTS, sum(len(p.facts.segments) for p in readable)
    yield names.UNCLEANABLE_PARTITIONS, failing
    yield names.MAX_DIRTY_RATIO, max((p.section.dirty_ratio for p in readable if p.section), default=0.0)
    yield names.UNCONFIRMED, sum(guard.code is ReasonCode.RELOAD_GUARD for guard, _ in set(guards_of(log_dir)))
    oldest_ms = min((ms for p in readable if (ms := _oldest_ms(p.facts)) is not None), default=None)
    if oldest_ms is not None:
        yield names.OLDEST, oldest_ms / 1000


_DELETING: Final = (ReasonCode.LOG_START_OFFSET, ReasonCode.RETENTION_SIZE, ReasonCode.RETENTION_TIME, ReasonCode.DIRTY)
"""Reasons that always have a series, because a series that comes and goes cannot be summed over time."""


def _by_reason(log_dir: LogDirPlan) -> Iterator[Sample]:
    taken: Counter[ReasonCode] = Counter(dict.fromkeys(_DELETING, 0))
    kept: defaultdict[ReasonCode, int] = defaultdict(int)
    for planned in log_dir.partitions:
        if isinstance(planned, PartitionPlan):
            taken.update(_reclaimable(planned))
            for verdict in planned.verdicts:
                if verdict.action is Action.KEEP:
                    kept[verdict.reason.code] += verdict.size_bytes
    for family, by_reason in ((names.RECLAIMABLE, taken), (names.KEPT, kept)):
        for code, size_bytes in sorted(by_reason.items()):
            yield Sample(family, (log_dir.facts.path, code.value), size_bytes)


def _growth_samples(path: str, growth: Growth) -> Iterator[Sample]:
    yield Sample(names.LOG_DIR_GROWTH, (path,), growth.bytes_per_second)
    yield Sample(names.LOG_DIR_OBSERVED, (path,), growth.observed_seconds)
    if growth.runway_seconds is not None:
        yield Sample(names.RUNWAY, (path,), growth.runway_seconds)
