"""Tells which partitions lost their directory: it is not here, or it was set aside as ``-stray`` or ``-delete``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from storage.names import DirState, TopicPartition


class LostPartition(NamedTuple):
    """A partition without a directory, and the offsets that its log had by the checkpoints."""

    topic_partition: TopicPartition
    log_start_offset: int
    end_offset: int
    """The high watermark, or the recovery point where that is higher."""
    set_aside: str | None = None
    """The ``-stray`` or ``-delete`` directory that holds the only copy; the offsets are then those of its log."""


_NO_DIRECTORY: Final = frozenset({
    "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg",
})  # fmt: skip
"""The directory ids that name no log dir. Source: Kafka ``DirectoryId``: UNASSIGNED, LOST, MIGRATING."""


class SetAside(NamedTuple):
    """A ``-stray`` or ``-delete`` directory."""

    name: str
    topic_partition: TopicPartition
    topic_id: str | None
    """None if its ``partition.metadata`` is missing or cannot be read."""
    first_offset: int
    end_offset: int
    beside: str | None = None
    """The directory of the partition that lacks these records; None if the partition has no directory."""

    @property
    def has_records(self) -> bool:
        """Return whether its log may hold a record."""
        return self.end_offset > self.first_offset

    def lacking_in(self, here: SetAside) -> SetAside | None:
        """Return what the partition's own directory lacks; None if that has it all, or is of another topic.

        A start that sets a directory aside makes an empty one in its place. A follower fills it from its leader; until
        then this may be the only copy. What a stop of a replica leaves as ``-delete`` was let go on purpose, and one of
        an unknown topic may be another's: these count only beside an empty directory.
        """
        if self.topic_id is not None and here.topic_id is not None and self.topic_id != here.topic_id:
            return None
        is_same = self.topic_id is not None and here.topic_id is not None and self.name.endswith(DirState.STRAY.value)
        if here.end_offset >= self.end_offset or (here.has_records and not is_same):
            return None
        first = max(self.first_offset, here.end_offset) if here.has_records else self.first_offset
        return self._replace(first_offset=first, beside=here.name)


def is_here(directory_id: str | None, directory_ids: Collection[str]) -> bool:
    """Return whether the metadata may place a partition in a log dir that has one of these ids."""
    return directory_id is None or directory_id in _NO_DIRECTORY or not directory_ids or directory_id in directory_ids


def sole_copies(
    aside: Iterable[SetAside],
    here: Collection[TopicPartition],
    placed: Mapping[TopicPartition, str] | None,
    noted: Collection[TopicPartition],
) -> Iterator[SetAside]:
    """Yield the directories that hold the only copy of a partition that nobody deleted, or moved away.

    Args:
        aside: the ``-stray`` and ``-delete`` directories.
        here: the partitions with a directory under their plain name, or a ``-future`` one, in any log dir; a directory
            ``beside`` such a one was compared with it already.
        placed: the partitions that the cluster metadata place here, with their topic ids; None if nobody knows. A
            directory of another topic id is that of a topic which was deleted and made again.
        noted: the partitions that had records when the broker stopped cleanly; what counts where ``placed`` is None.
    """
    for one in aside:
        if one.beside is not None:
            yield one
            continue
        if not one.has_records or one.topic_partition in here:
            continue
        if placed is None:
            is_ours = one.topic_partition in noted
        else:
            topic_id = placed.get(one.topic_partition)
            is_ours = topic_id is not None and one.topic_id in (None, topic_id)
        if is_ours:
            yield one


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
