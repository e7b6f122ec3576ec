"""Tells which partitions a checkpoint says had records, and have no directory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from storage.names import TopicPartition


class LostPartition(NamedTuple):
    """A partition without a directory, and the offsets that its log had by the checkpoints."""

    topic_partition: TopicPartition
    log_start_offset: int
    end_offset: int
    """The high watermark, or the recovery point where that is higher."""


def lost_partitions(
    ends: Collection[Mapping[TopicPartition, int]],
    log_starts: Mapping[TopicPartition, int],
    present: Collection[TopicPartition],
    assigned: Collection[TopicPartition] | None,
    *,
    is_clean: bool,
) -> Iterator[LostPartition]:
    """Yield the partitions that had records and are not here, by name.

    Args:
        ends: the high watermarks and the recovery points of a log dir.
        log_starts: the log start offsets of it.
        present: the partitions with a directory in any log dir, also a ``-delete``, ``-stray`` or ``-future`` one.
        assigned: the partitions that belong here; None if nobody knows: then a killed broker's checkpoint, which may
            name what was deleted a moment before, is no proof.
        is_clean: whether the broker stopped cleanly: then it wrote the checkpoints as it stopped.
    """
    if assigned is None and not is_clean:
        return
    for topic_partition in sorted({name for offsets in ends for name in offsets}):
        end = max(offsets.get(topic_partition, 0) for offsets in ends)
        start = max(log_starts.get(topic_partition, 0), 0)
        is_ours = assigned is None or topic_partition in assigned
        if end > start and is_ours and topic_partition not in present:
            yield LostPartition(topic_partition, start, end)
