"""The values that the walks over a round's segments hand on. One walk makes each value, which then never changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from policies.facts import KeyCount
from storage.arrays import Words
from storage.kernels.layout import MIXED_VERSIONS
from storage.records.v2 import NO_TIMESTAMP
from storage.scan.legacy_rows import Counts
from storage.scan.segments import SegmentReader, open_segment
from storage.scan.slices import Position, Slice
from storage.segment import Segment

NEVER_MS: Final = (1 << 63) - 1


class Span(NamedTuple):
    """A segment of a round, and the offset below which its batches end."""

    segment: Segment
    upper_offset: int
    """The base offset of the next segment, or the end of the round."""
    is_alone: bool = False
    """Whether the group holds no other segment. Then the segment stays as it is, unless it loses a record."""

    @property
    def base_offset(self) -> int:
        """The base offset of the segment."""
        return self.segment.base_offset

    @property
    def size_bytes(self) -> int:
        """The size of the segment's ``.log``."""
        return self.segment.size_bytes


class OpenSpan(NamedTuple):
    """A span and the reader of its segment."""

    span: Span
    reader: SegmentReader

    @classmethod
    def of(cls, span: Span, stack: ExitStack, *, is_locked: bool, start: Position | None = None) -> OpenSpan:
        """Open a span until the stack unwinds. Raises: as ``open_segment``."""
        reader = open_segment(span.segment, span.upper_offset, is_locked=is_locked, start=start)
        return cls(span, stack.enter_context(reader))


class Horizons(NamedTuple):
    """The moments by which a round decides about tombstones and markers, epoch ms."""

    now_ms: int
    new_ms: int | None
    """From ``new_delete_horizon_ms``."""
    legacy_ms: int
    """From ``legacy_horizon_ms``: tombstones of v0 and v1 stay in segments modified later."""

    @property
    def stamped_ms(self) -> int:
        """The new horizon as the kernels take it: negative for none."""
        return NO_TIMESTAMP if self.new_ms is None else self.new_ms


class Tombstones(Enum):
    """The treatment of tombstones that survived pass 1."""

    BY_HORIZON = auto()
    """Tombstones and markers go if their horizon has come."""
    DECIDED = auto()
    """All tombstones stay, because pass 1 decided about them."""


@dataclass(frozen=True, slots=True, eq=False)
class WalkedSlice:
    """The findings of the first walk about one slice."""

    start: Position
    end: Position
    is_ordinary: bool
    """Whether all batches of it are ordinary (``Fates.dispose``).

    If so, a thread can decide the slice without the slices before.
    """
    tombstones: npt.NDArray[np.int32]
    """The number of tombstones of each batch."""
    messages: Counts | None = None
    """For a slice of v0 and v1 that can be read again without its keys: the number of records of each row."""
    is_shared: bool = False
    """Whether messages of v0 and v1 may share a row."""

    @classmethod
    def of(cls, slice_: Slice, start: Position, *, is_ordinary: bool) -> WalkedSlice:
        """Note a slice. The tombstones of its batches have been counted."""
        table = slice_.table
        is_plain = slice_.is_legacy and not (table["attributes"] & MIXED_VERSIONS).any()
        messages = table["record_count"].copy() if is_plain else None
        end, tombstones = Position.behind(slice_), table["tombstones"].copy()
        return cls(start, end, is_ordinary, tombstones, messages, slice_.is_shared)


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """The findings of the first walk about one span."""

    span: Span
    slices: tuple[WalkedSlice, ...]
    first_ordinal: int
    records: int
    has_empty_batches: bool
    quiet_until_ms: int
    """Until this moment no record of the span is due, except those that newer records supersede; ``NEVER_MS`` if nobody
    asked.
    """

    @property
    def end_ordinal(self) -> int:
        """The ordinal behind the last record."""
        return self.first_ordinal + self.records


class Spared(NamedTuple):
    """A span that no walk reads, because its key filter says that no record of it is superseded or due."""

    span: Span
    records: int


Group = Sequence[tuple[SegmentReader, Walked]]
"""The spans that become one segment, each with its reader."""


@dataclass(frozen=True, slots=True, eq=False)
class Survivors:
    """The outcome of pass 1."""

    bitmap: Words
    """One bit for each record, by its ordinal."""
    walked: tuple[Walked | Spared, ...]
    """The spans below ``end_offset``, ascending."""
    count: KeyCount
    """The number of records without a key, which a compacted log cannot keep."""
    end_offset: int
    """The offset at which the next round begins."""
    tombstones: Tombstones = Tombstones.BY_HORIZON
    map_utilisation: float = 0.0
    """The used share of the offset map; 1 if the map could not hold all keys at once."""

    @property
    def records(self) -> int:
        """Return the number of records in the round's spans."""
        return sum(walked.records for walked in self.walked)


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """The result of looking up the keys of a slice, by words of the bitmap of survivors."""

    covered: Words
    """The records below the dirty section."""
    superseded: Words
    """The records whose key is in the map, and the records without a key."""
    kept_hashes: Words
    """The low words of the hashes of the other keys, if a filter wants them."""


@dataclass(slots=True)
class Walk:
    """A first walk over a span, under way; ``walked`` is its result."""

    span: Span
    start: Position
    quiet_until_ms: int = NEVER_MS
    has_empty_batches: bool = False
    slices: list[WalkedSlice] = field(default_factory=list)

    @classmethod
    def of(cls, opened: OpenSpan, first_ordinal: int) -> Walk:
        """Begin at the start of a segment. Its first record gets the ordinal."""
        return cls(opened.span, opened.reader.start._replace(ordinal=first_ordinal))

    def add(self, slice_: Slice, *, is_ordinary: bool) -> None:
        """Add the next slice. The tombstones of its batches have been counted."""
        start = self.slices[-1].end if self.slices else self.start
        self.slices.append(WalkedSlice.of(slice_, start, is_ordinary=is_ordinary))
        self.has_empty_batches |= not slice_.table["record_count"].all()

    @property
    def end_ordinal(self) -> int:
        """The ordinal behind the last record that was walked over."""
        return self.slices[-1].end.ordinal if self.slices else self.start.ordinal

    @property
    def walked(self) -> Walked:
        """Return the findings, once all slices are added."""
        first = self.start.ordinal
        return Walked(
            self.span, tuple(self.slices), first, self.end_ordinal - first, self.has_empty_batches, self.quiet_until_ms
        )
