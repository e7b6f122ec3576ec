"""Measure how much a clean would save now. One task measures each partition, with the code of a dry run."""

from __future__ import annotations

from dataclasses import dataclass

from cleaner.engine.means import Means
from cleaner.engine.outcome import PartitionResult
from cleaner.engine.rehearsal import Rehearsal
from policies.config.policy import BrokerPolicy
from policies.plan import PartitionPlan, Request


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The result that a partition's actions would have."""

    place: int
    result: PartitionResult


def rehearse(place: int, planned: PartitionPlan, broker: BrokerPolicy, now_ms: int) -> Rehearsed:
    """Read the files that a compaction would read, and count. The function changes nothing.

    Args:
        place: the number of the partition in the snapshot.
        planned: the plan of the partition.
        broker: the configuration for all topics alike.
        now_ms: epoch ms.
    """
    rehearsal = Rehearsal(Means(broker=broker), Request(now_ms))
    return Rehearsed(place, rehearsal.result(planned, exact=True))
