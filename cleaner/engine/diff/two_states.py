"""Two states of a log, read as one: the earlier state to its end, and from there the later state.

Batches that were appended in between may account for a record that is gone: a record supersedes it, or a marker says
that its transaction was aborted.

Tombstones and transaction markers may be gone, though the earlier state gave them no delete horizon. A cleaner needs
two rounds for that: the first stamps the horizon (its own moment plus ``delete.retention.ms``), and a round behind the
horizon takes the record. Two states do not show the round in between. They show these conditions:

- The log was still in the earlier state when its newest ``.log`` was written, so the horizon lies behind that time plus
  ``delete.retention.ms``, and must have come.
- A round stamps every tombstone that it meets with one horizon, and goes from the log's start. If a tombstone is gone,
  so is every other one below it, and in its batch, that had no horizon. (Unless ``delete.retention.ms`` was lowered in
  between: that is told as damage.)
- A marker is stamped once no data of its transaction is left.
- The round that took a tombstone took the older records of its key before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.digests import Digests
from cleaner.engine.compaction.fates import TRANSACTIONAL, facts_of
from cleaner.engine.compaction.passes import OpenSpan, Span
from cleaner.engine.compaction.round import aborted_transactions
from policies.retain import AbortedTransaction, BatchFacts, Marker
from storage.arrays import Integers, Table, Words
from storage.errors import PlanOutOfDate
from storage.kernels.layout import CONTROL
from storage.log.end import find_end
from storage.log.listing import Listing
from storage.names import FileKind
from storage.scan.segments import open_segment
from storage.scan.slices import Checksums, Position
from storage.segment import Segment

OFFSET_END: Final = (1 << 63) - 1

_LEFTOVERS_MAX: Final = 1 << 20

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class State:
    """A partition in its earlier or its later state."""

    listing: Listing
    """The listing of the partition, as recovery would leave it."""
    log_start_offset: int
    compacted_to_offset: int
    """The offset in the cleaner's checkpoint; OFFSET_END if no checkpoint tells it."""

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment; OFFSET_END without a segment."""
        segments = self.listing.segments
        return segments[0].base_offset if segments else OFFSET_END

    @property
    def newest_write_ms(self) -> int:
        """The time of the ``.log`` that was written last, epoch ms: the log was still in this state then."""
        return max((segment.log.identity.mtime_ms for segment in self.listing.segments), default=0)


@dataclass(frozen=True, slots=True)
class OpenedState:
    """A state whose segments can be read, without a torn tail."""

    state: State
    spans: tuple[OpenSpan, ...]
    end_offset: int

    @classmethod
    def of(cls, state: State, stack: ExitStack) -> OpenedState:
        """Open every segment until the stack unwinds. Raises: PlanOutOfDate, UnreadableFile."""
        if not state.listing.segments:
            return cls(state, (), state.log_start_offset)
        *sealed, active = state.listing.segments
        end = find_end(active, trust_index=False)
        segments = [*sealed, _shortened(active, active.log.identity.size_bytes - end.torn_bytes)]
        uppers = [*(segment.base_offset for segment in segments[1:]), OFFSET_END]
        spans = [OpenSpan.of(Span(*one), stack, is_locked=False) for one in zip(segments, uppers, strict=True)]
        return cls(state, tuple(spans), end.next_offset)

    def between(self, start_offset: int, end_offset: int, stack: ExitStack) -> Iterator[OpenSpan]:
        """Open the batches anew that begin in a range of offsets. Raises: as ``of``; CorruptBatch."""
        for opened in self.spans:
            segment, upper = opened.span.segment, opened.span.upper_offset
            if upper <= start_offset or segment.base_offset >= end_offset:
                continue
            first = _position_at(opened.span, start_offset) if segment.base_offset < start_offset else None
            if upper > end_offset:
                segment = _shortened(segment, _position_at(opened.span, end_offset).position)
            if first is None or first.position < segment.size_bytes:
                yield OpenSpan.of(Span(segment, upper), stack, is_locked=False, start=first)


def joined(before: OpenedState, after: OpenedState, stack: ExitStack) -> list[OpenSpan]:
    """Open the compacted parts of both states, as one log. Raises: as ``OpenedState.between``."""
    end_offset = after.state.compacted_to_offset
    return [*before.between(-1, end_offset, stack), *after.between(before.end_offset, end_offset, stack)]


def aborted_in_both(before: OpenedState, after: OpenedState) -> list[AbortedTransaction]:
    """Return the aborted transactions of both states.

    A cleaner takes a transaction out of the index once it has no data left. If the earlier state holds data of a
    transaction that ended later, its marker tells how.

    Raises: CorruptBatch, CorruptIndex, PlanOutOfDate, UnreadableFile.
    """
    own = aborted_transactions(before.state.listing, before.state.log_start_offset, OFFSET_END)
    if after.end_offset <= before.end_offset:
        return own
    since = aborted_transactions(after.state.listing, before.end_offset, OFFSET_END)
    indexed = {(transaction.producer_id, transaction.last_offset) for transaction in since}
    with ExitStack() as stack:
        unended = _unended(before)
        behind = after.between(before.end_offset, OFFSET_END, stack) if unended else ()
        told = [one for one in _aborted_behind(behind, unended) if (one.producer_id, one.last_offset) not in indexed]
    return [*own, *since, *told]


@dataclass(frozen=True, slots=True)
class Between:
    """The known facts about the time between two states of a partition."""

    delete_retention_ms: int | None = None
    """The topic's ``delete.retention.ms``; None if it is not known."""
    is_one_round: bool = False
    """Whether the later state is a copy that one round made of the earlier state."""

    def objection(self, since_ms: int, now_ms: int) -> str | None:
        """Return why no horizon can have been set and have come in between; None if one can.

        Args:
            since_ms: the last moment at which the log was in the earlier state, epoch ms.
            now_ms: delete horizons up to it have come, epoch ms.
        """
        if self.is_one_round:
            return "one round made this copy, and one round drops no such record"
        if self.delete_retention_ms is None:
            return "delete.retention.ms is not known: state it with --set delete.retention.ms=..."
        if since_ms + self.delete_retention_ms > now_ms:
            return "delete.retention.ms has not passed since the earlier state was written"
        return None


@dataclass(slots=True)
class LaterTombstones:
    """Follows the tombstones of the earlier state that no later record supersedes, in offset order."""

    _first_stayed: int = OFFSET_END
    """The offset of the first tombstone without a horizon that is still there."""

    def may_be_gone(self, offsets: Integers, rows: Integers, gone: Flags) -> Flags:
        """Return which of the next tombstones without a horizon may be gone.

        The other tombstones without a horizon decide.

        Args:
            offsets: of the next ones, ascending.
            rows: the batch of each.
            gone: whether each is gone.
        """
        stayed = offsets[~gone]
        if stayed.size and self._first_stayed == OFFSET_END:
            self._first_stayed = int(stayed[0])
        return gone & (offsets < self._first_stayed) & ~np.isin(rows, rows[~gone])


@dataclass(slots=True)
class LeftRecords:
    """The keys of the few records that stayed in the compacted part, although a later record supersedes them."""

    _keys: Words = field(default_factory=lambda: np.zeros(0, np.uint64))
    _are_too_many: bool = False

    def add(self, digests: Table) -> None:
        """Note the keys of some records."""
        if digests.size and not self._are_too_many:
            self._keys = np.union1d(self._keys, digests["key_low"])
            self._are_too_many = self._keys.size > _LEFTOVERS_MAX

    def have(self, digests: Table) -> Flags:
        """Return which tombstones, each the last record of its key, have an older record of it left.

        If too many records were left over, the answer is yes for all: then no round took anything there.
        """
        if self._are_too_many:
            return np.ones(digests.size, np.bool_)
        return np.isin(digests["key_low"], self._keys)


@dataclass(slots=True)
class Markers:
    """Follows the transactions of the earlier state in offset order, to know which have data left."""

    _with_data: set[int] = field(default_factory=set)
    """Producers whose present transaction has a record in the later state."""

    def without_data(self, run: Digests, rows: Integers, there: Flags) -> Flags:
        """Return which of the next records are markers of transactions that have no data left.

        Args:
            run: of the earlier state.
            rows: the batch of each record.
            there: whether each is in the later state.
        """
        table = run.slice_.table
        kept_rows = set(np.unique(rows[there]).tolist())
        bare = []
        for row in np.unique(rows[(table["attributes"][rows] & TRANSACTIONAL) != 0]).tolist():
            producer_id = int(table["producer_id"][row])
            if not table["attributes"][row] & CONTROL:
                self._with_data.update({producer_id} if row in kept_rows else ())
            elif producer_id in self._with_data:
                self._with_data.discard(producer_id)
            else:
                bare.append(row)
        return np.isin(rows, bare)


def _shortened(segment: Segment, size_bytes: int) -> Segment:
    """Return the segment as if its ``.log`` ended earlier. Raises: PlanOutOfDate if it grew since it was listed."""
    if size_bytes < 0:
        raise PlanOutOfDate(segment.log.path, "it grew while it was read")
    log = segment.log._replace(identity=segment.log.identity._replace(size_bytes=size_bytes))
    return segment._replace(files={**segment.files, FileKind.LOG: log})


def _position_at(span: Span, offset: int) -> Position:
    """Return the position of the first batch that begins at or above an offset, or the end."""
    with open_segment(span.segment, span.upper_offset, is_locked=False) as reader:
        position = reader.start
        for slice_ in reader.slices(checksums=Checksums.DONE):
            row = int(np.searchsorted(slice_.table["base_offset"], offset))
            if row < slice_.table.size:
                return Position(
                    slice_.position_of(row), int(slice_.table["base_offset"][row]), 0, slice_.first_row + row
                )
            position = Position.behind(slice_)
    return position


def _unended(state: OpenedState) -> dict[int, int]:
    """Return the first offset of every transaction that has no marker, by producer id."""
    unended: dict[int, int] = {}
    for base_offset, batch in _transactional(state.spans):
        if batch.marker is None:
            unended.setdefault(batch.producer_id, base_offset)
        else:
            unended.pop(batch.producer_id, None)
    return unended


def _transactional(spans: Iterator[OpenSpan] | tuple[OpenSpan, ...]) -> Iterator[tuple[int, BatchFacts]]:
    """Yield each batch of a transaction, and each marker, with its base offset."""
    for opened in spans:
        for slice_ in opened.reader.slices(checksums=Checksums.DONE):
            for row in np.flatnonzero(slice_.table["attributes"] & TRANSACTIONAL):
                yield int(slice_.table["base_offset"][row]), facts_of(slice_, int(row))


def _aborted_behind(behind: Iterator[OpenSpan] | tuple[()], unended: Mapping[int, int]) -> Iterator[AbortedTransaction]:
    left = dict(unended)
    for _, batch in _transactional(behind):
        first_offset = left.pop(batch.producer_id, None) if batch.marker is not None else None
        if first_offset is not None and batch.marker is Marker.ABORT:
            yield AbortedTransaction(batch.producer_id, first_offset, batch.last_offset, batch.last_offset + 1)
        if not left:
            return
