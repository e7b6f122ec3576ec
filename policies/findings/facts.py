"""The facts of a partition that the rules judge: what its segments tell, in their order, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from storage.names import FileKind, segment_file_name


class Standing(NamedTuple):
    """The place of a segment in its log, and the state of its broker."""

    directory: str
    base_offset: int
    is_last: bool
    """Whether it is the active segment."""
    is_live: bool
    """Whether a broker, or another process, holds the lock of the log dir."""
    is_recovered: bool
    """Whether the next start of the broker recovers the segment: it did not stop cleanly, or it is the metadata log."""

    @property
    def is_clean(self) -> bool:
        """Return whether the broker stopped cleanly, and wrote all that it knew."""
        return not (self.is_live or self.is_recovered)

    def path_of(self, kind: FileKind) -> str:
        """Return the path of one of its files."""
        return f"{self.directory}/{segment_file_name(self.base_offset, kind)}"


class Step(IntEnum):
    """A step of a transaction."""

    DATA = 0
    """A batch of it. Of neighbouring ones only the first, and the first with records."""
    COMMIT = 1
    ABORT = 2


class TxnStep(NamedTuple):
    """A step of a transaction in a log."""

    offset: int
    producer_id: int
    step: Step
    has_records: bool
    position: int
    """The position of the batch in the ``.log``."""


class IndexedAbort(NamedTuple):
    """An entry of a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    last_stable_offset: int


class EpochStretch(NamedTuple):
    """Neighbouring batches of one leader epoch."""

    epoch: int
    first_offset: int
    last_offset: int
    """Base offset of the last batch."""
    position: int


class ProducersBatch(NamedTuple):
    """The last data batch of a producer."""

    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int


class OffsetGap(NamedTuple):
    """Offsets that no batch has, in front of a batch."""

    lower_offset: int
    base_offset: int
    position: int


class SegmentHistory(NamedTuple):
    """The facts that the batches of one segment tell."""

    standing: Standing
    next_offset: int
    epochs: Sequence[EpochStretch]
    producers: Mapping[int, ProducersBatch]
    steps: Sequence[TxnStep]
    aborted: Sequence[IndexedAbort]
    gap: OffsetGap | None
    gaps: int
    is_full: bool
    """Whether every batch has all the records that its offsets speak of."""
    is_damaged: bool
    """Whether a part was not understood, so that something may be missing here."""


class LogHistory(NamedTuple):
    """The facts that the segments of a partition tell, ascending."""

    directory: str
    segments: Sequence[SegmentHistory]

    @property
    def start_offset(self) -> int:
        """The base offset of the first segment."""
        return self.segments[0].standing.base_offset if self.segments else 0

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        return self.segments[-1].next_offset if self.segments else 0

    @property
    def is_damaged(self) -> bool:
        """Return whether a part of a segment was not understood."""
        return any(segment.is_damaged for segment in self.segments)

    @property
    def is_whole(self) -> bool:
        """Return whether no batch and no record between start and end is gone: nothing was compacted away."""
        return (
            not self.is_damaged
            and all(segment.is_full and not segment.gaps for segment in self.segments)
            and all(one.next_offset == other.standing.base_offset for one, other in pairwise(self.segments))
        )
