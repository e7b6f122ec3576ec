"""Local segments and remote ones, put together to one log: which copy counts for which offsets.

An epoch has one leader, so all copies of an offset that were written in one epoch are the same. The *lineage* says
which epoch wrote which offsets of the log: a copy counts only for the offsets of an epoch that the lineage gives to
that epoch. So what an unclean election cut off does not come back, although it lies in the tier.

Lineage:    the local ``leader-epoch-checkpoint``, or that of the newest remote segment if its last epoch is later.
            It begins where the log once began, or where brokers first wrote epochs. Before that, the copies tell the
            epochs; offsets of which no epoch is known count if both sides know none.
Choice:     local segments first; of remote ones, from each offset on, the one that reaches furthest.
Not chosen: the segment that a broker would read. It takes the last one that was copied, which holds the same records.

Source: Kafka ``RemoteLogMetadataCache.remoteLogSegmentMetadata``,
``RemoteLogManager.isRemoteSegmentWithinLeaderEpochs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from storage.checkpoints import LeaderEpochEntry
from storage.tiers.segments import RemoteSegment

OFFSET_MAX: Final = (1 << 63) - 1
_NO_EPOCH: Final = -1
"""The epoch of records that are older than all epochs that are known. Source: Kafka ``NO_PARTITION_LEADER_EPOCH``."""


class OffsetSpan(NamedTuple):
    """Offsets from ``start`` to before ``end``."""

    start: int
    end: int


class LocalPart(NamedTuple):
    """The offsets that a local log has, and its epochs."""

    span: OffsetSpan
    epochs: tuple[LeaderEpochEntry, ...]


class LogPiece(NamedTuple):
    """Offsets of the joined log, and the copy that counts there."""

    start: int
    end: int
    """Exclusive."""
    remote: RemoteSegment | None
    """None for the local log."""

    @property
    def is_cut_at_start(self) -> bool:
        """Return whether the remote segment begins before."""
        return self.remote is not None and self.start > self.remote.start_offset

    @property
    def is_cut_at_end(self) -> bool:
        """Return whether the remote segment ends behind."""
        return self.remote is not None and self.end < (self.remote.next_offset or 0)


def spans_of(epochs: Sequence[LeaderEpochEntry], whole: OffsetSpan) -> Iterator[tuple[int, OffsetSpan]]:
    """Yield the epochs with the offsets that each wrote, within ``whole``; before the first one, no epoch."""
    if epochs and whole.start < epochs[0].start_offset:
        yield _NO_EPOCH, OffsetSpan(whole.start, min(epochs[0].start_offset, whole.end))
    for place, (epoch, start) in enumerate(epochs):
        behind = epochs[place + 1].start_offset if place + 1 < len(epochs) else OFFSET_MAX
        found = OffsetSpan(max(start, whole.start), min(behind, whole.end))
        if found.start < found.end:
            yield epoch, found


def valid_spans(
    epochs: Sequence[LeaderEpochEntry] | None, whole: OffsetSpan, lineage: Sequence[LeaderEpochEntry]
) -> list[OffsetSpan]:
    """Return the offsets of a copy that count, ascending. Without epochs on either side, all of them do."""
    if not epochs or not lineage:
        return [whole] if whole.start < whole.end else []
    of_lineage = dict(spans_of(lineage, OffsetSpan(0, OFFSET_MAX)))
    found: list[OffsetSpan] = []
    for epoch, own in spans_of(epochs, whole):
        theirs = of_lineage.get(epoch)
        if theirs is None:
            continue
        both = OffsetSpan(max(own.start, theirs.start), min(own.end, theirs.end))
        if both.start >= both.end:
            continue
        if found and found[-1].end == both.start:
            found[-1] = OffsetSpan(found[-1].start, both.end)
        else:
            found.append(both)
    return found


def with_older(
    lineage: Sequence[LeaderEpochEntry], copies: Iterable[Sequence[LeaderEpochEntry] | None]
) -> tuple[LeaderEpochEntry, ...]:
    """Return a lineage with the epochs of copies that lie before its first one; it says nothing against them."""
    if not lineage:
        return ()
    first = lineage[0]
    older = [
        entry
        for epochs in copies
        for entry in epochs or ()
        if entry.epoch <= first.epoch and entry.start_offset < first.start_offset
    ]
    return (*merged_epochs([[*older, first]]), *lineage[1:])


def merged_epochs(copies: Iterable[Sequence[LeaderEpochEntry] | None]) -> tuple[LeaderEpochEntry, ...]:
    """Return the epochs of all copies, as if a log had been written so: a later epoch cuts the earlier ones off."""
    merged: list[LeaderEpochEntry] = []
    entries = {entry for epochs in copies for entry in epochs or ()}
    first = {epoch: min(start for e, start in entries if e == epoch) for epoch, _ in entries}
    for epoch, start in sorted(first.items()):
        merged = [entry for entry in merged if entry.start_offset < start]
        merged.append(LeaderEpochEntry(epoch, start))
    return tuple(merged)


def newest(segments: Iterable[RemoteSegment]) -> RemoteSegment | None:
    """Return the segment that the latest leader copied last, of those whose epochs are known."""
    known = [segment for segment in segments if segment.epochs]
    return max(known, key=lambda s: (s.epochs[-1].epoch if s.epochs else -1, s.end_offset or 0), default=None)


def join(
    remote: Iterable[RemoteSegment],
    lineage: Sequence[LeaderEpochEntry],
    local: LocalPart | None = None,
    log_start_offset: int = 0,
) -> list[LogPiece]:
    """Return the pieces of the log, ascending, no offset twice. Offsets that no copy has are in no piece.

    Args:
        remote: segments whose end is known. Those that no broker reads are left out.
        lineage: the epochs of the log.
        local: the local log, if there is one.
        log_start_offset: segments that end before it are left out.
    """
    copies = [
        (span, segment)
        for segment in remote
        if segment.is_readable and segment.next_offset is not None
        for span in valid_spans(segment.epochs, OffsetSpan(segment.start_offset, segment.next_offset), lineage)
        if span.end > log_start_offset
    ]
    copies.sort(key=lambda copy: (copy[0].start, -copy[0].end, -(copy[1].event_ms or 0)))
    kept = valid_spans(local.epochs, local.span, lineage) if local else []
    # what follows behind the first divergence was cut off by the later leader
    of_local = kept[0] if kept else None
    if of_local is None:
        return list(_covering(copies, OffsetSpan(0, OFFSET_MAX)))
    before = _covering(copies, OffsetSpan(0, of_local.start))
    behind = _covering(copies, OffsetSpan(of_local.end, OFFSET_MAX))
    return [*before, LogPiece(of_local.start, of_local.end, None), *behind]


def _covering(copies: Sequence[tuple[OffsetSpan, RemoteSegment]], within: OffsetSpan) -> Iterator[LogPiece]:
    """Yield pieces of copies, which are sorted by their start, that cover as much of ``within`` as they can."""
    cursor, place, best = within.start, 0, None
    while cursor < within.end:
        while place < len(copies) and copies[place][0].start <= cursor:
            if best is None or copies[place][0].end > best[0].end:
                best = copies[place]
            place += 1
        if best is not None and best[0].end > cursor:
            end = min(best[0].end, within.end)
            yield LogPiece(cursor, end, best[1])
            cursor = end
        elif place < len(copies):
            cursor = copies[place][0].start
        else:
            return
