"""A log that a tier and local log dirs make together, as a plain one: its bounds, its checkpoints, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from storage.checkpoints import LeaderEpochEntry
from storage.names import LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.tiers.joining import OFFSET_MAX, LogPiece, OffsetSpan, valid_spans
from storage.tiers.segments import RemoteSegment, TieredPartition
from storage.tiers.tier import Tier


class RestoredPartition(NamedTuple):
    """A partition that is read from the tier, as it will be."""

    partition: TieredPartition
    start: int
    """The first offset that is there."""
    end: int
    """The offset behind the last one."""
    remote_bytes: int
    local_start: int | None
    """The first offset of the surviving log dir; None if it has nothing of the partition."""
    missing: tuple[OffsetSpan, ...]
    """The offsets that somebody names, and that no copy has."""

    @property
    def name(self) -> TopicPartition:
        """Return its topic and number."""
        return self.partition.topic_partition

    def offset_in(self, checkpoint: str, stated: int) -> int:
        """Return where the log starts, or up to where it is checked and committed.

        What was tiered had been committed. Behind it the surviving checkpoint counts, so that a broker recovers what
        had not been flushed.

        Args:
            checkpoint: the name of a checkpoint file, but not the cleaner's.
            stated: what the file says of the surviving log dir; 0 if nothing.
        """
        if checkpoint == LOG_START_OFFSET_CHECKPOINT:
            return max(self.start, stated)
        tiered_end = self.end if self.local_start is None else self.local_start
        return min(self.end, max(tiered_end, stated))


def restored_of(
    tier: Tier,
    partition: TieredPartition,
    pieces: Sequence[LogPiece],
    lineage: Sequence[LeaderEpochEntry],
    end: int,
    stated_start: int | None,
    *,
    is_cut: bool,
) -> RestoredPartition:
    """Return what will be there of a partition, and what is missing. Raises: as ``Tier.segments``.

    Args:
        tier: its tier.
        partition: the partition.
        pieces: its joined log; may be none.
        lineage: its epochs.
        end: the offset behind the last one that is there.
        stated_start: where the log starts, if a checkpoint says so.
        is_cut: whether the log was told to end there, so that nothing behind is missing.
    """
    had = [OffsetSpan(piece.start, min(piece.end, end)) for piece in pieces]
    limit, spans = end if is_cut else OFFSET_MAX, _named(tier.segments(partition), tier, lineage)
    named = [*had, *(OffsetSpan(span.start, min(span.end, limit)) for span in spans if span.start < limit)]
    remote = [piece.remote for piece in pieces if piece.remote]
    return RestoredPartition(
        partition,
        had[0].start if had else end,
        end,
        sum({segment.segment_id: segment.size_bytes or 0 for segment in remote}.values()),
        next((piece.start for piece in pieces if piece.remote is None), None),
        tuple(_gaps(had, named, stated_start)) if named else (),
    )


def _named(segments: Iterable[RemoteSegment], tier: Tier, lineage: Sequence[LeaderEpochEntry]) -> Iterator[OffsetSpan]:
    """Yield the offsets that the segments of a partition name, as far as the epochs say that they count."""
    for segment in segments:
        end = segment.next_offset
        if segment.is_readable and not tier.is_orphan(segment):
            span = OffsetSpan(segment.start_offset, segment.start_offset + 1 if end is None else end)
            yield from valid_spans(segment.epochs, span, lineage)


def _gaps(had: Iterable[OffsetSpan], named: Sequence[OffsetSpan], start: int | None) -> Iterator[OffsetSpan]:
    """Yield what lies between the first and the last offset that is named, and that nobody has."""
    cursor = min(span.start for span in named) if start is None else start
    last = max(span.end for span in named)
    for span in sorted([*had, OffsetSpan(last, last)]):
        if cursor < span.start:
            yield OffsetSpan(cursor, span.start)
        cursor = max(cursor, span.end)
