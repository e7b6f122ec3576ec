"""Explain the partition of a plan: observe it, then ask the policies."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from cleaner.engine.explaining.observing import Look, observe
from cleaner.engine.means import Means
from policies.explaining.explanation import PartitionExplanation, explain
from policies.explaining.observations import TopicHere
from policies.plan import PartitionPlan, Plan
from storage.errors import UnreadableFile
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import TopicPartition


def explanations(
    planned: Plan, wanted: TopicPartition, log_dirs: Iterable[LogDir], means: Means, *, exact: bool
) -> tuple[PartitionExplanation, ...]:
    """Explain a partition in each log dir of a plan that holds it.

    Args:
        planned: the plan of ``clean``.
        wanted: the partition.
        log_dirs: of the command: in them the topic's partitions are counted.
        means: states what holds for all topics alike.
        exact: read all that may hold delete horizons, however much it is.

    Raises: UnreadableFile, PartitionChanged.
    """
    topic, broker = topic_here(wanted.topic, log_dirs), means.broker
    look = Look(planned.request.now_ms, broker.producer_id_expiration_ms, exact)
    return tuple(
        explain(
            partition,
            observe(log_dir.facts, partition, topic, look),
            planned.request,
            broker,
        )
        for log_dir in planned.log_dirs
        for partition in log_dir.partitions
        if isinstance(partition, PartitionPlan) and partition.facts.topic_partition == wanted
    )


def topic_here(topic: str, log_dirs: Iterable[LogDir]) -> TopicHere:
    """Return the number of a topic's partitions in some log dirs, and the size of their ``.log`` files."""
    partitions = size_bytes = 0
    for log_dir in log_dirs:
        for topic_partition, directory in log_dir.partitions():
            if topic_partition.topic == topic:
                with suppress(UnreadableFile):  # beside a live broker it may be gone
                    size_bytes += sum(segment.size_bytes for segment in list_partition(directory).segments)
                    partitions += 1
    return TopicHere(partitions, size_bytes)
