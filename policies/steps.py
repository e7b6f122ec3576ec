"""Put the steps of a log dir's plan in order, and compute the space that they take.

Deletions make space and need next to none, so they come before every compaction. Of either kind the smallest step
comes first: it frees some space even if the disk is too full for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from policies.config.config_keys import DOUBLE_MAX
from policies.config.policy import BrokerPolicy
from policies.facts import PartitionFacts
from policies.plan import LogDirPlan, PartitionPlan
from policies.planning import deletion_of

SIDE_BY_SIDE_BYTES_MAX: Final = 64 << 20
PROBE_BYTES: Final = 1 << 20
"""A deletion of this size can be measured even while others write to the disk."""


def deletion_steps(plan: LogDirPlan, *, at_once: bool) -> tuple[PartitionPlan, ...]:
    """Return the deletions in their order. Each is to be carried out whole.

    Args:
        plan: the plan of one log dir.
        at_once: True if the files are unlinked at once, which works with 0 bytes free. A deletion of all segments is
            the only one that writes: it rolls an empty segment. Its newest segment then is a step of its own, after
            all steps that need no space.
    """
    steps = [p for p in _planned(plan) if p.deletion]
    if at_once:
        steps = [part for step in steps for part in _with_newest_apart(step)]
    return tuple(sorted(steps, key=lambda step: (at_once and _rolls(step), _deleted_bytes(step))))


def with_oldest_apart(step: PartitionPlan) -> Sequence[PartitionPlan]:
    """Split a deletion into two steps: the oldest segments up to ``PROBE_BYTES`` of the disk, and the rest.

    The space that the first step frees shows whether the second step is worth its while.
    """
    deletion = step.deletion
    assert deletion is not None
    taken_bytes = accumulate(segment.disk_bytes for segment in deletion.segments)
    count = next((n for n, taken in enumerate(taken_bytes, 1) if taken >= PROBE_BYTES), len(deletion.segments))
    return (step,) if count == len(deletion.segments) else _apart(step, count)


def compaction_steps(plan: LogDirPlan) -> tuple[PartitionPlan, ...]:
    """Return the compactions, smallest working space first."""
    return tuple(sorted((p for p in _planned(plan) if p.compaction), key=_working_bytes))


def compaction_crews(
    steps: Sequence[PartitionPlan], threads: int, broker: BrokerPolicy
) -> tuple[tuple[PartitionPlan, ...], tuple[PartitionPlan, ...]]:
    """Divide the compactions: some go side by side, with one thread each, the others in turn, with all threads.

    A small compaction mostly waits for fsyncs; other compactions can use that time. With a limit on the rate,
    compactions go one at a time.
    """
    small = tuple(step for step in steps if _is_small(step))
    is_limited = broker.log_cleaner_io_max_bytes_per_second < DOUBLE_MAX
    if threads == 1 or len(small) < 2 or is_limited:
        return (), tuple(steps)
    return small, tuple(step for step in steps if not _is_small(step))


def scratch_bytes(plan: LogDirPlan, *, at_once: bool) -> int:
    """Return the most free space that the compactions of a log dir need. Output counts as large as its input.

    Args:
        plan: the plan of one log dir.
        at_once: True if the replaced segments are unlinked at once; else all of them wait for ``file.delete.delay.ms``.
    """
    compactions = [p.compaction for p in _planned(plan) if p.compaction]
    if at_once:
        return max((compaction.working_bytes for compaction in compactions), default=0)
    return sum(compaction.size_bytes for compaction in compactions)


def _with_newest_apart(step: PartitionPlan) -> Sequence[PartitionPlan]:
    deletion = step.deletion
    assert deletion is not None
    older = len(deletion.segments) - 1
    return (step,) if deletion.roll_at_offset is None or not older else _apart(step, older)


def _apart(step: PartitionPlan, count: int) -> tuple[PartitionPlan, PartitionPlan]:
    """Split a deletion into that of its ``count`` oldest segments, and that of the others."""
    assert step.deletion is not None
    left: PartitionFacts = step.facts.without_oldest(count)
    verdicts = step.verdicts[count:]
    others = deletion_of(left, verdicts, len(step.deletion.segments) - count)
    rest = replace(step, facts=left, verdicts=verdicts, deletion=others)
    return replace(step, deletion=deletion_of(step.facts, step.verdicts, count)), rest


def _planned(plan: LogDirPlan) -> list[PartitionPlan]:
    return [p for p in plan.partitions if isinstance(p, PartitionPlan)]


def _is_small(step: PartitionPlan) -> bool:
    return step.compaction is not None and step.compaction.size_bytes <= SIDE_BY_SIDE_BYTES_MAX


def _rolls(step: PartitionPlan) -> bool:
    return step.deletion is not None and step.deletion.roll_at_offset is not None


def _deleted_bytes(step: PartitionPlan) -> int:
    return step.deletion.size_bytes if step.deletion else 0


def _working_bytes(step: PartitionPlan) -> int:
    return step.compaction.working_bytes if step.compaction else 0
