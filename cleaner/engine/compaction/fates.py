"""The fates of the batches of a slice: transactions and active producers, by the rules of ``policies.retain``.

Until the walk meets the marker of a transaction, only the index says whether the transaction was aborted, and no
checksum covers the index. If the marker lies behind the round, ``resolve`` looks for it before anything is written: in
the headers of control batches, up to the last missing marker. A marker may lie above the last stable offset, behind the
start of another transaction.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.retain import (
    AbortedTransaction,
    BatchFacts,
    ContradictedTxnIndex,
    Marker,
    ProducerEnd,
    TransactionFates,
    batch_fate,
)
from storage.errors import CorruptBatch, CorruptIndex, InvalidRecord
from storage.kernels.layout import CONTROL, DELETE_HORIZON
from storage.log.producer_state import ProducerState
from storage.log.read import floor_place
from storage.names import FileKind
from storage.records.v2 import CONTROL_BYTES_MAX, OFFSET_MAX, ControlType, parse_control_type
from storage.scan.segments import open_segment
from storage.scan.slices import Checksums, Slice
from storage.segment import Segment

TRANSACTIONAL: Final = 0x10
_MARKERS: Final = {ControlType.COMMIT: Marker.COMMIT, ControlType.ABORT: Marker.ABORT}


@dataclass(eq=False)
class Fates:
    """Follows the batches of a round in offset order. Each walk over the batches has its own follower."""

    aborted: list[AbortedTransaction]
    producers: Mapping[int, ProducerEnd]
    kept_end_offset: int
    """The high watermark. The batch that ends here stays, even if it is empty."""
    now_ms: int
    log_start_offset: int = 0
    walked_to: int = 0
    """The offset behind the last batch met."""

    def __post_init__(self) -> None:
        """Begin before the first batch."""
        self._transactions = TransactionFates.of(self.aborted, self.log_start_offset)
        ends = (end.last_data_offset for end in self.producers.values())
        self._last_data_offsets = np.array(sorted(end for end in ends if end is not None), np.int64)

    def unresolved(self) -> TransactionFates:
        """Return the transactions with data in the walk so far and without a marker."""
        return self._transactions.unresolved()

    def transactions_until(self, end_offset: int) -> TransactionFates:
        """Return the state of the walk at an offset; another process can go on from it."""
        transactions = copy.deepcopy(self._transactions)
        transactions.waiting = [entry for entry in transactions.waiting if entry[0] < end_offset]
        heapq.heapify(transactions.waiting)
        return transactions

    def follow_on(self, transactions: TransactionFates) -> None:
        """Take over the state of another walk, which stays usable for further walks."""
        self._transactions = copy.deepcopy(transactions)

    def take_retained(self) -> list[AbortedTransaction]:
        """Return aborted transactions whose markers were passed since the last call and stay in the cleaned index."""
        retained, self._transactions.retained = self._transactions.retained, []
        return retained

    def dispose(self, slice_: Slice, *, rows_unmet: int = 0) -> bool:
        """Set ``fate`` of every row.

        Args:
            slice_: the next one.
            rows_unmet: the number of rows at the beginning that are passed over: transactions begin in them, and none
                ends.

        Returns:
            Whether all batches are ordinary: their records alone decide, and no later step of the walk depends on them.

        Raises: CorruptBatch where a control batch is damaged, CorruptIndex where the markers contradict the index.
        """
        table, special = slice_.table, self._special(slice_)
        self.walked_to = int(table["last_offset"][-1]) + 1
        for row in np.flatnonzero(special):
            facts = facts_of(slice_, int(row))
            if row < rows_unmet:
                self._transactions.begin_up_to(facts.last_offset)
                continue
            can_discard = self.feed(facts, slice_.path)
            fate = batch_fate(facts, can_discard, self.producers, self.kept_end_offset, self.now_ms)
            table["fate"][row] = fate
        return not special.any()

    def feed(self, facts: BatchFacts, log: Path) -> bool:
        """Return whether the next batch of those that ``facts_in`` tells can be discarded. Raises: CorruptIndex."""
        return fed(self._transactions, facts, log)

    def facts_in(self, slice_: Slice) -> Iterator[BatchFacts]:
        """Yield the facts about the batches on which the state of transactions depends. Raises: CorruptBatch."""
        return (facts_of(slice_, int(row)) for row in np.flatnonzero(self._special(slice_)))

    def _special(self, slice_: Slice) -> npt.NDArray[np.bool_]:
        """Return which batches are not decided by their records alone."""
        table = slice_.table
        special: npt.NDArray[np.bool_] = (table["attributes"] & (CONTROL | TRANSACTIONAL)) != 0
        special |= table["last_offset"] + 1 == self.kept_end_offset
        if self._last_data_offsets.size:
            special |= np.isin(table["last_offset"], self._last_data_offsets)
        return special


def fed(transactions: TransactionFates, facts: BatchFacts, log: Path) -> bool:
    """Return whether the next batch can be discarded. Raises: CorruptIndex if it contradicts the index."""
    try:
        return transactions.can_discard(facts)
    except ContradictedTxnIndex as error:
        raise wrong_txn_index(log, error.cause) from error


def wrong_txn_index(log: Path, cause: str) -> CorruptIndex:
    """Return the error of a segment whose transaction index contradicts the markers."""
    return CorruptIndex(log.with_suffix(FileKind.TXN_INDEX), 0, cause)


def facts_of(slice_: Slice, row: int) -> BatchFacts:
    """Return the facts about a batch that the rules need. Raises: CorruptBatch if it is a damaged control batch."""
    batch = slice_.table[row]
    attributes = int(batch["attributes"])
    return BatchFacts(
        int(batch["last_offset"]),
        int(batch["producer_id"]),
        int(batch["producer_epoch"]),
        bool(attributes & TRANSACTIONAL),
        _marker(slice_, row) if attributes & CONTROL else None,
        int(batch["base_timestamp"]) if attributes & DELETE_HORIZON else None,
    )


def _marker(slice_: Slice, row: int) -> Marker:
    slice_.verify(row, row + 1)
    records = slice_.v2_batch(row).records(CONTROL_BYTES_MAX)
    if not records:
        return Marker.NONE
    try:
        return _MARKERS.get(parse_control_type(records[0].key), Marker.OTHER)
    except InvalidRecord as error:
        raise CorruptBatch(slice_.path, slice_.position_of(row), str(error)) from error


def ends_of(state: ProducerState) -> dict[int, ProducerEnd]:
    """Return the last data offset and the epoch of every active producer."""
    return {
        producer_id: ProducerEnd(entry.last_data_offset, entry.epoch) for producer_id, entry in state.producers.items()
    }


def resolve(
    walks: Iterable[Fates],
    segments: Sequence[Segment],
    log_end_offset: int,
    spend: Callable[[int], None],
    *,
    is_locked: bool,
) -> None:
    """Check the transactions that each walk took for aborted or committed at its end.

    Args:
        walks: after them; each went over whole segments.
        segments: of the log, ascending.
        log_end_offset: where the search ends.
        spend: told the bytes of every slice read, which the progress does not count.
        is_locked: whether we hold the lock of the log dir.

    Raises: CorruptIndex where a marker contradicts the index; CorruptBatch, PlanOutOfDate, UnreadableFile.
    """
    for walk in {fates.walked_to: fates for fates in walks}.values():
        unresolved = walk.unresolved()
        if unresolved.open_ids:
            behind = [one for one in segments if walk.walked_to <= one.base_offset < log_end_offset]
            _feed_markers(unresolved, _slices(behind, log_end_offset, is_locked=is_locked), spend)
        for transaction in unresolved.aborted_open:
            log = segments[floor_place(segments, transaction.last_offset)].log.path
            cause = f"producer {transaction.producer_id} has no abort marker at offset {transaction.last_offset}"
            raise wrong_txn_index(log, cause)


def _feed_markers(unresolved: TransactionFates, slices: Iterator[Slice], spend: Callable[[int], None]) -> None:
    """Hand the markers of later slices to the fates of the transactions that still lack theirs."""
    for slice_ in slices:
        table = slice_.table
        is_marker = (table["attributes"] & CONTROL != 0) & np.isin(table["producer_id"], list(unresolved.open_ids))
        for row in np.flatnonzero(is_marker):
            facts = facts_of(slice_, int(row))
            if facts.producer_id in unresolved.open_ids:  # else the marker is of a later transaction
                fed(unresolved, facts, slice_.path)
        spend(slice_.size_bytes)
        if not unresolved.open_ids:
            return


def _slices(segments: Sequence[Segment], log_end_offset: int, *, is_locked: bool) -> Iterator[Slice]:
    upper_offsets = [*(segment.base_offset for segment in segments), OFFSET_MAX][1:]
    for segment, upper_offset in zip(segments, upper_offsets, strict=True):
        with open_segment(segment, upper_offset, is_locked=is_locked) as source:
            try:
                for slice_ in source.slices(checksums=Checksums.BY_CALLER):
                    yield slice_
                    if slice_.table["last_offset"][-1] + 1 >= log_end_offset:
                        return  # behind the log's end there is no batch, but a torn tail or preallocated zeros
            finally:
                source.let_go()
