"""What a clean would save now, measured by the tasks: one a partition, by the code of a dry run."""

from __future__ import annotations

from dataclasses import dataclass

from cleaner.engine.means import Means
from cleaner.engine.outcome import PartitionResult
from cleaner.engine.rehearsal import Rehearsal
from policies.config.policy import BrokerPolicy
from policies.plan import PartitionPlan, Request


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a partition's actions would give."""

    place: int
    result: PartitionResult


def rehearse(place: int, planned: PartitionPlan, broker: BrokerPolicy, now_ms: int) -> Rehearsed:
    """Read what a compaction would read, and count; nothing is changed.

    Args:
        place: of the partition, in the snapshot.
        planned: what happens to it.
        broker: what holds for all topics alike.
        now_ms: epoch ms.
    """
    rehearsal = Rehearsal(Means(broker=broker), Request(now_ms))
    return Rehearsed(place, rehearsal.result(planned, exact=True))
