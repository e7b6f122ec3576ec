"""Limit a micro-batch: how far it reads each partition, so that it has about so many offsets or bytes in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from cleaner.spark.table.planning import for_each
from storage.directory import despite_vanishing
from storage.names import TopicPartition
from storage.scan.extents import UNCUT_BYTES, Extent, Wanted, cut_partition
from storage.scan.partitions import FoundPartition, OffsetRange

Offsets = dict[TopicPartition, int]


def within_offsets(begun: Mapping[TopicPartition, int], ends: Offsets, offsets_max: int) -> Offsets:
    """Return ends that allow about ``offsets_max`` offsets in all, in proportion to each partition's backlog.

    A partition with a backlog advances by at least one offset. Source: Spark KafkaMicroBatchStream.rateLimit.
    """
    shares = _shares({name: held.end - held.start for name, held in _backlog(begun, ends).items()}, offsets_max)
    return ends | {name: begun.get(name, 0) + share for name, share in shares.items()}


def within_bytes(
    begun: Mapping[TopicPartition, int], ends: Offsets, bytes_max: int, found: Sequence[FoundPartition]
) -> Offsets:
    """Return ends that allow about ``bytes_max`` bytes of ``.log`` files in all, in proportion to each backlog.

    A partition with a backlog advances by at least one entry of its offset index, or by a segment without one.

    Args:
        begun: where the micro-batch begins.
        ends: where it would end without a limit.
        bytes_max: the limit.
        found: the partitions; one that is gone does not advance.

    Raises: as ``FoundPartition.open``.
    """
    backlog = _backlog(begun, ends)
    there = {one.topic_partition: one for one in found if one.topic_partition in backlog}

    def size_of(one: FoundPartition) -> int:
        return sum(piece.size_bytes for piece in _pieces(one, backlog[one.topic_partition], UNCUT_BYTES))

    sizes_bytes = for_each(list(there.values()), lambda one: despite_vanishing(partial(size_of, one)))
    shares_bytes = _shares(sizes_bytes, bytes_max)

    def end_within(one: FoundPartition) -> int:
        name = one.topic_partition
        return _end_within(_pieces(one, backlog[name], shares_bytes[name]), shares_bytes[name], ends[name])

    limited = [there[name] for name in shares_bytes]
    return ends | for_each(limited, lambda one: despite_vanishing(partial(end_within, one)))


def _backlog(begun: Mapping[TopicPartition, int], ends: Offsets) -> dict[TopicPartition, OffsetRange]:
    """Return the unread offsets of each partition that has some."""
    unread = {name: OffsetRange(begun.get(name, 0), end) for name, end in ends.items()}
    return {name: range_ for name, range_ in unread.items() if range_.start < range_.end}


def _shares(sizes: Mapping[TopicPartition, int], size_max: int) -> dict[TopicPartition, int]:
    """Return the share of each partition, at least 1; none if all sizes are allowed."""
    total = sum(sizes.values())
    return {name: max(1, size_max * size // total) for name, size in sizes.items()} if total > size_max else {}


def _pieces(partition: FoundPartition, unread: OffsetRange, piece_bytes: int) -> Iterator[Extent]:
    wanted = Wanted(unread, None, piece_bytes, read_committed=False)
    return cut_partition(partition.topic_partition, partition.open().segments, wanted)


def _end_within(pieces: Iterator[Extent], share_bytes: int, end: int) -> int:
    """Return the offset behind the pieces that fit into a share, and behind the first one anyway."""
    filled_bytes = 0
    for place, piece in enumerate(pieces):
        filled_bytes += piece.size_bytes
        if place and filled_bytes > share_bytes:
            return piece.offsets.start
    return end
