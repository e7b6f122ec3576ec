"""The producers of an append: whether their batches repeat, follow or are refused, and the state after the append.

The state of the log changes on ``commit`` alone, once the append is written.

Source: Kafka UnifiedLog.analyzeAndValidateProducerState, ``ProducerAppendInfo``, ``ProducerStateEntry``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from storage.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from storage.log.producer_state import BatchMetadata, ProducerEntry, ProducerState
from storage.log.writing.validation import AppendOrigin, NewBatch
from storage.records import TxnMarker
from storage.records.v2 import NO_PRODUCER_EPOCH, NO_SEQUENCE, sequence_before
from storage.txn_index import AbortedTxn

_SEQUENCE_MAX: Final = (1 << 31) - 1


class _Ended(NamedTuple):
    """A transaction that a marker of this append ends."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_abort: bool


class ProducerChanges:
    """The producers of one append: their state before and after it."""

    def __init__(self, state: ProducerState, path: Path, origin: AppendOrigin) -> None:
        self._state, self._path, self._origin = state, path, origin
        self._updated: dict[int, ProducerEntry] = {}
        self._begun: list[tuple[int, int]] = []
        self._ended: list[_Ended] = []

    def duplicate_of(self, batch: NewBatch) -> BatchMetadata | None:
        """Return the batch in the log that a client sends again; only the last five batches of a producer are known.

        Source: Kafka ProducerStateEntry.findDuplicateBatch.
        """
        known = self._state.producers.get(batch.producer_id)
        if self._origin is not AppendOrigin.CLIENT or known is None or known.epoch != batch.producer_epoch:
            return None
        for one in known.batches:
            first_sequence = sequence_before(one.last_sequence, one.offset_delta)
            if (first_sequence, one.last_sequence) == (batch.base_sequence, batch.last_sequence):
                return one
        return None

    def take(self, batch: NewBatch) -> None:
        """Check the next batch of a producer against what came before it.

        Raises: InvalidProducerEpoch, OutOfOrderSequence, InvalidTxnState, TransactionCoordinatorFenced; InvalidRecords
            for a marker that is none.
        """
        current = self._state.producers.get(batch.producer_id) or ProducerEntry(batch.producer_id)
        updated = self._updated.get(batch.producer_id)
        if updated is None:
            updated = self._updated[batch.producer_id] = ProducerEntry(
                batch.producer_id,
                current.epoch,
                current.coordinator_epoch,
                current.last_timestamp_ms,
                current.open_txn_first_offset,
            )
        if not batch.is_control:
            self._take_data(batch, current, updated)
        elif (marker := batch.marker()) is not None:
            self._take_marker(batch, marker, updated)

    def _take_data(self, batch: NewBatch, current: ProducerEntry, updated: ProducerEntry) -> None:
        self._check_epoch(batch, updated)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(batch, current, updated)
        first_offset = batch.base_offset or 0
        updated.move_to_epoch(batch.producer_epoch)
        updated.batches.append(
            BatchMetadata(
                batch.last_sequence, batch.last_offset, batch.last_offset - first_offset, batch.max_timestamp_ms
            )
        )
        updated.last_timestamp_ms = batch.max_timestamp_ms
        if updated.open_txn_first_offset is None:
            if batch.is_transactional:
                updated.open_txn_first_offset = first_offset
                self._begun.append((first_offset, batch.producer_id))
        elif not batch.is_transactional:
            raise InvalidTxnState(
                self._path, f"producer {batch.producer_id} has a transaction open, and its batch is of none"
            )

    def _take_marker(self, batch: NewBatch, marker: TxnMarker, updated: ProducerEntry) -> None:
        self._check_epoch(batch, updated)
        if updated.coordinator_epoch > marker.coordinator_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(
                self._path,
                f"a marker of producer {batch.producer_id} has coordinator epoch {marker.coordinator_epoch}, "
                f"and there was {updated.coordinator_epoch} already",
            )
        if updated.open_txn_first_offset is not None:
            self._ended.append(
                _Ended(batch.producer_id, updated.open_txn_first_offset, batch.base_offset or 0, marker.is_abort)
            )
        updated.move_to_epoch(batch.producer_epoch)
        updated.coordinator_epoch = marker.coordinator_epoch
        updated.open_txn_first_offset = None
        updated.last_timestamp_ms = marker.timestamp_ms

    def _check_epoch(self, batch: NewBatch, updated: ProducerEntry) -> None:
        """Refuse the batch of a fenced producer; a follower takes every batch of its leader."""
        if batch.producer_epoch < updated.epoch and self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpoch(
                self._path,
                f"a batch of producer {batch.producer_id} has epoch {batch.producer_epoch}, and there was "
                f"{updated.epoch} already",
            )

    def _check_sequence(self, batch: NewBatch, current: ProducerEntry, updated: ProducerEntry) -> None:
        """Refuse a batch that leaves a gap.

        The first batch of a producer that the log does not know may have any sequence.

        Source: Kafka ProducerAppendInfo.checkSequence.
        """
        if batch.producer_epoch != updated.epoch:
            if batch.base_sequence != 0 and updated.epoch != NO_PRODUCER_EPOCH:
                self._refuse_sequence(batch, f"epoch {batch.producer_epoch} is new and begins at 0")
            return
        known = updated if updated.batches or batch.producer_epoch != current.epoch else current
        last = known.batches[-1].last_sequence if known.batches else NO_SEQUENCE
        follows = batch.base_sequence == last + 1 or (batch.base_sequence == 0 and last == _SEQUENCE_MAX)
        if current.epoch != NO_PRODUCER_EPOCH and not follows:
            self._refuse_sequence(batch, f"its last one ended at {last}")

    def _refuse_sequence(self, batch: NewBatch, cause: str) -> None:
        raise OutOfOrderSequence(
            self._path, f"a batch of producer {batch.producer_id} begins at sequence {batch.base_sequence}: {cause}"
        )

    def aborted(self) -> list[AbortedTxn]:
        """Return the entries that the transaction index gets for the markers of this append.

        Source: Kafka ProducerStateManager.lastStableOffset, ``completeTxn``.
        """
        if not self._ended:
            return []
        open_txns = {first: producer_id for producer_id, first in self._state.open_txns()} | dict(self._begun)
        entries = []
        for ended in self._ended:
            others = (first for first, producer_id in open_txns.items() if producer_id != ended.producer_id)
            stable_offset = min(others, default=ended.marker_offset + 1)
            open_txns.pop(ended.first_offset, None)
            if ended.is_abort:
                entries.append(AbortedTxn(ended.producer_id, ended.first_offset, ended.marker_offset, stable_offset))
        return entries

    def commit(self) -> None:
        """Make the state after the append the state of the log. Source: Kafka ProducerStateManager.update."""
        for producer_id, updated in self._updated.items():
            known = self._state.producers.setdefault(producer_id, updated)
            if known is not updated:
                known.move_to_epoch(updated.epoch)
                known.batches.extend(updated.batches)
                known.coordinator_epoch = updated.coordinator_epoch
                known.open_txn_first_offset = updated.open_txn_first_offset
                known.last_timestamp_ms = updated.last_timestamp_ms
        for ended in self._ended:
            self._state.complete(ended.first_offset, ended.marker_offset)
