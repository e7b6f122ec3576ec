"""Explain the partition of a plan: observe it, then ask the policies."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from cleaner.engine.explain.observing import Look, observe
from cleaner.engine.means import Means
from cleaner.engine.outcome import Basis
from cleaner.engine.rehearsal.rehearsal import Rehearsal
from policies.explain.blockers import BlockerCode
from policies.explain.explanation import PartitionExplanation, explain
from policies.explain.observations import Observations, TopicHere
from policies.facts import LogDirFacts
from policies.guards import compaction_held_back
from policies.plan import PartitionPlan, Plan
from storage.errors import LogCleanerError, UnreadableFile
from storage.log.listing import list_partition
from storage.log.read import read_segment
from storage.log_dir import LogDir
from storage.names import TopicPartition
from storage.records.header import OFFSET_MAX
from storage.schemas.decoding import decode
from storage.schemas.transactions_topic import TRANSACTIONS_TOPIC
from storage.segment import Segment


def explanations(
    planned: Plan, wanted: TopicPartition, log_dirs: Sequence[LogDir], means: Means, *, exact: bool
) -> tuple[PartitionExplanation, ...]:
    """Explain a partition in each log dir of a plan that holds it.

    Args:
        planned: the plan of ``clean``.
        wanted: the partition.
        log_dirs: of the command: in them the topic's partitions are counted, and a transactional id is looked up.
        means: states what holds for all topics alike.
        exact: read all that may hold delete horizons, however much it is, and count the records without a key that a
            compaction drops.

    Raises: UnreadableFile, PartitionChanged.
    """
    topic, broker = topic_here(wanted.topic, log_dirs), means.broker
    look = Look(planned.request.now_ms, broker.producer_id_expiration_ms, exact)

    def explained(log_dir: LogDirFacts, partition: PartitionPlan) -> PartitionExplanation:
        seen = observe(log_dir, partition, topic, look)
        if exact and partition.compaction:
            partition, seen = _counted(partition, seen, Rehearsal(means, planned.request))
        found = explain(partition, seen, planned.request, broker)
        if not any(blocker.code is BlockerCode.OPEN_TRANSACTION for blocker in found.blockers):
            return found
        return explain(partition, with_transactional_id(seen, log_dirs), planned.request, broker)

    return tuple(
        explained(log_dir.facts, partition)
        for log_dir in planned.log_dirs
        for partition in log_dir.partitions
        if isinstance(partition, PartitionPlan) and partition.facts.topic_partition == wanted
    )


def _counted(partition: PartitionPlan, seen: Observations, rehearsal: Rehearsal) -> tuple[PartitionPlan, Observations]:
    """Count the records without a key. If a guard rail holds the compaction back for them, return the plan without."""
    found = rehearsal.result(partition, exact=True)
    if found.guard is not None:
        return compaction_held_back(partition, found.guard), seen
    if found.error is not None or found.basis is Basis.ESTIMATE:
        why = found.error or f"{partition.facts.topic_partition} changed while it was read"
        problem = f"the records without a key: {why}"
        return partition, replace(seen, problems=(*seen.problems, problem))
    return partition, replace(seen, records_unkeyed=found.records_unkeyed)


def with_transactional_id(seen: Observations, log_dirs: Iterable[LogDir]) -> Observations:
    """Return observations with the transactional id of the oldest open transaction, the one that blocks."""
    first, *others = seen.transactions
    found = first._replace(transactional_id=transactional_id_of(first.producer_id, log_dirs))
    return replace(seen, transactions=(found, *others))


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


TOPIC: Final = "__transaction_state"
READ_BYTES_MAX: Final = 64 << 20
"""The most bytes that are read, newest segments first: a producer that can still end a transaction has written lately.
"""
_KEY: Final = TRANSACTIONS_TOPIC["TransactionLogKey"]
_TYPE_BYTES: Final = 2
"""A key begins with its type."""
_PRODUCER_ID: Final = struct.Struct(">hq")
"""The version of a value, and the producer id, with which each version begins."""


def transactional_id_of(producer_id: int, log_dirs: Iterable[LogDir]) -> str | None:
    """Return the transactional id that a producer has by the newest records; None if none of them names it.

    The function passes over files that cannot be read, because a live broker may delete them meanwhile.
    """
    left_bytes = READ_BYTES_MAX
    for segment in _newest_first(log_dirs):
        left_bytes -= segment.size_bytes
        if left_bytes < 0:
            return None
        if found := _last_id_in(segment, producer_id):
            return found
    return None


def _newest_first(log_dirs: Iterable[LogDir]) -> list[Segment]:
    segments: list[Segment] = []
    for log_dir in log_dirs:
        for topic_partition, directory in log_dir.partitions():
            if topic_partition.topic == TOPIC:
                with suppress(LogCleanerError):
                    segments += list_partition(directory).segments
    return sorted(segments, key=lambda segment: segment.mtime_ms, reverse=True)


def _last_id_in(segment: Segment, producer_id: int) -> str | None:
    """Return the transactional id that the last record of a segment gives a producer."""
    found: str | None = None
    with suppress(LogCleanerError):
        for batch in read_segment(segment, segment.base_offset, OFFSET_MAX):
            for record in batch.records():
                key, value = record.key, record.value
                if key is None or value is None or len(value) < _PRODUCER_ID.size:
                    continue
                if _PRODUCER_ID.unpack_from(value)[1] == producer_id:  # few records are worth decoding
                    found = decode(_KEY, 0, key, _TYPE_BYTES)["transactionalId"]
    return found
