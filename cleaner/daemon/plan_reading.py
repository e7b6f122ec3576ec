"""What the worker reads off plans, keys and work; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from cleaner.daemon.due import Work
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Plan
from storage.names import TopicPartition


def at_least_one(may_begin: Callable[[], bool]) -> Callable[[], bool]:
    """Let the first one pass whatever the time is: else a hold might end before anything was done."""
    passed: list[bool] = []

    def may() -> bool:
        is_allowed = not passed or may_begin()
        passed.append(True)
        return is_allowed

    return may


def names_of(keys: Collection[PartitionKey]) -> frozenset[TopicPartition]:
    """Return the partitions of some keys, without their log dirs."""
    return frozenset(topic_partition for _, topic_partition in keys)


def directory_of(work: Work) -> Path:
    """Return the directory of the partition that some work is for."""
    log_dir, topic_partition = work[1]
    return Path(log_dir) / str(topic_partition)


def planned_of(log_dirs: Sequence[LogDirPlan]) -> Iterator[PartitionPlan]:
    """Yield the plans of all partitions that could be read."""
    return (p for log_dir in log_dirs for p in log_dir.partitions if isinstance(p, PartitionPlan))


def moments_of(plan: Plan, now_ms: int) -> Iterator[int]:
    """Yield the moments at which time alone makes more of a log cleanable, epoch ms."""
    for section in (p.section for p in plan.partitions if p.section):
        if (until_ms := section.bound.until_ms) is not None and until_ms > now_ms:
            yield until_ms
