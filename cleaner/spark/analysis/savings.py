"""What a clean would save now, measured by the tasks: one a partition, by the code of a dry run."""

from __future__ import annotations

from dataclasses import dataclass

from cleaner.engine.clock import SystemClock
from cleaner.engine.means import Means
from cleaner.engine.outcome import PartitionResult, Silent
from cleaner.engine.rehearsal import Rehearsal
from policies.config.policy import BrokerPolicy
from policies.plan import PartitionPlan
from storage.filesystem import FileSystem


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
    means = Means(FileSystem(), SystemClock(), Silent(), broker, 1, lambda: False, None)
    return Rehearsed(place, Rehearsal(means, now_ms).result(planned, exact=True))
