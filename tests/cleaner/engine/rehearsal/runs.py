"""The figures of a run, or of a rehearsal of it, that must be the same for both."""

from __future__ import annotations

from typing import NamedTuple

from cleaner.engine.outcome import Outcome
from policies import Plan
from policies.plan import PartitionKey
from storage.names import TopicPartition


class Figures(NamedTuple):
    """The figures of one partition, and what becomes of its segments.

    The reasons may differ: of a segment that stays, the facts for a shorter limit may say more.
    """

    verdicts: tuple[tuple[int, str], ...]
    deleted_segments: int = 0
    deleted_bytes: int = 0
    compacted_from_bytes: int = 0
    compacted_to_bytes: int = 0
    records_kept: int = 0
    has_failed: bool = False


def figures_of(plan: Plan, outcome: Outcome) -> dict[TopicPartition, Figures]:
    """Return the figures of every partition."""
    return {p.facts.topic_partition: _figures(plan, outcome, p.key) for p in plan.partitions}


def _figures(plan: Plan, outcome: Outcome, key: PartitionKey) -> Figures:
    (planned,) = [p for p in plan.partitions if p.key == key]
    verdicts = tuple((v.base_offset, v.action.value) for v in planned.verdicts)
    if (result := outcome.results.get(key)) is None:
        return Figures(verdicts)
    return Figures(
        verdicts,
        result.deleted_segments,
        result.deleted_bytes,
        result.compacted_from_bytes,
        result.compacted_to_bytes,
        result.records_kept,
        result.error is not None,
    )
