"""The rules for one batch: keep, empty or drop it, and stamp a delete horizon; ``kernels.decide`` decides on records.

All is pure: total functions over small facts, and one state machine over the batches of a round in offset order.

Source: Kafka Cleaner.cleanInto, CleanedTransactionMetadata, MemoryRecords.filterTo.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from policies.reasons import INT64_MAX
from storage.errors import LogCleanerError
from storage.kernels.status import BatchFate


class ContradictedTxnIndex(LogCleanerError):
    """A transaction index that contradicts the markers in the log. The round raises it as a ``CorruptIndex``."""

    cause: str


class Marker(Enum):
    """The record of a control batch."""

    COMMIT = auto()
    ABORT = auto()
    OTHER = auto()
    """Whether the record belongs to no transaction."""
    NONE = auto()
    """Whether the batch is empty, because an earlier round removed its record."""


_ENDS = frozenset({Marker.COMMIT, Marker.ABORT})


class BatchFacts(NamedTuple):
    """The facts about a batch that its rule needs. ``marker`` is None for a data batch."""

    last_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    marker: Marker | None
    delete_horizon_ms: int | None


class AbortedTransaction(NamedTuple):
    """An entry of a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEnd(NamedTuple):
    """The position of an active producer. ``last_data_offset`` is None between a marker and the next data batch."""

    last_data_offset: int | None
    producer_epoch: int


def new_delete_horizon_ms(now_ms: int, delete_retention_ms: int) -> int | None:
    """Return the delete horizon for a tombstone or marker that has none yet; None if it gets none in this round.

    A horizon is an int64, and never lies before the epoch. A batch without a horizon keeps its tombstones. So a
    ``delete.retention.ms`` that means "for ever" keeps tombstones for ever.

    Args:
        now_ms: epoch ms, one value for a round.
        delete_retention_ms: ``delete.retention.ms``.

    Source: Kafka MemoryRecords.filterTo, whose sum wraps to a negative number, and
        MemoryRecordsBuilder.hasDeleteHorizonMs, which takes a negative number as no horizon.
    """
    horizon_ms = now_ms + delete_retention_ms
    return horizon_ms if 0 <= horizon_ms <= INT64_MAX else None


def batch_fate(
    batch: BatchFacts,
    can_discard: bool,
    producers: Mapping[int, ProducerEnd],
    kept_end_offset: int,
    now_ms: int,
) -> BatchFate:
    """Decide one batch.

    Args:
        batch: the facts about the batch.
        can_discard: the answer of ``TransactionFates`` for the batch.
        producers: the active producers' ends, by producer id.
        kept_end_offset: the batch that ends here stays, even if it is empty. It is the high watermark (since Kafka 4.4;
            KAFKA-20452); Kafka 4.0 to 4.3 took the first uncleanable offset of the round (KAFKA-17076).
        now_ms: epoch ms.
    """
    retains_empty = ends_a_producer(batch, producers) or batch.last_offset + 1 == kept_end_offset
    if batch.marker is None:
        if can_discard:
            return BatchFate.DISCARD_RETAIN_EMPTY if retains_empty else BatchFate.DISCARD
        return BatchFate.RETAIN_EMPTY if retains_empty else BatchFate.DELETE_EMPTY
    horizon_ms = batch.delete_horizon_ms
    if batch.marker is Marker.NONE or (can_discard and horizon_ms is not None and horizon_ms <= now_ms):
        return BatchFate.DISCARD_RETAIN_EMPTY if retains_empty else BatchFate.DISCARD
    return BatchFate.KEEP_STAMPED if can_discard and horizon_ms is None else BatchFate.KEEP


def ends_a_producer(batch: BatchFacts, producers: Mapping[int, ProducerEnd]) -> bool:
    """Return whether the batch holds the last sequence number, or the last epoch, of an active producer."""
    end = producers.get(batch.producer_id) if batch.producer_id >= 0 else None
    if end is None:
        return False
    if end.last_data_offset is not None:
        return batch.last_offset == end.last_data_offset
    return batch.marker is not None and batch.producer_epoch == end.producer_epoch


@dataclass(slots=True)
class _Ongoing:
    transaction: AbortedTransaction
    is_met: bool
    """True if the walk will meet the transaction's marker.

    If not, the producer's next abort marker ends the transaction.
    """
    has_batches: bool = False


@dataclass(slots=True)
class TransactionFates:
    """The state of a round's transactions. Fed with batches in offset order, it says which batches can be discarded."""

    waiting: list[tuple[int, int, AbortedTransaction]] = field(default_factory=list)
    retained: list[AbortedTransaction] = field(default_factory=list)
    """The aborted transactions with batches that were fed. The cleaned transaction index gets their entries."""
    _aborted: dict[int, _Ongoing] = field(default_factory=dict)
    _committed: set[int] = field(default_factory=set)
    """The producers with data that was not aborted. As in Kafka, only a commit marker removes a producer."""
    _unmarked: set[int] = field(default_factory=set)
    """The producers with data that was not aborted, and that no marker has followed yet."""
    _log_start_offset: int = 0

    @classmethod
    def of(cls, aborted: Iterable[AbortedTransaction], log_start_offset: int) -> TransactionFates:
        """Start a round.

        Args:
            aborted: the aborted transactions in the range of the round, from the transaction indexes.
            log_start_offset: transactions that ended below this offset are not among ``aborted``.
        """
        waiting = [(txn.first_offset, txn.last_offset, txn) for txn in aborted]
        heapq.heapify(waiting)
        return cls(waiting, _log_start_offset=log_start_offset)

    def can_discard(self, batch: BatchFacts) -> bool:
        """Feed the next batch, and return whether it can be discarded.

        Data of an aborted transaction can go. A marker can go once its transaction has no batch left.

        Raises: ContradictedTxnIndex if a marker contradicts the index. No checksum covers the index, and one wrong
            entry would harm committed data, or the keys of aborted data, for good.
        """
        self._begin_up_to(batch.last_offset, is_met=True)
        if cause := self._contradiction(batch):
            raise ContradictedTxnIndex(cause)
        if batch.marker in _ENDS:
            self._unmarked.discard(batch.producer_id)
        if batch.marker is None:
            return batch.is_transactional and self._is_aborted_data(batch)
        if batch.marker is Marker.ABORT:
            return self._ends_aborted(batch.producer_id)
        if batch.marker is Marker.COMMIT:
            had_batches = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not had_batches
        return batch.marker is Marker.NONE

    def unresolved(self) -> TransactionFates:
        """Return the state of the transactions that began and did not end.

        Feed it the markers of ``open_ids`` that lie behind the end of the walk.
        """
        met = {id_: ongoing for id_, ongoing in self._aborted.items() if ongoing.is_met and ongoing.has_batches}
        return TransactionFates(_aborted=met, _unmarked=self._unmarked.copy())

    @property
    def open_ids(self) -> frozenset[int]:
        """The producers with data that was fed, while the marker of its transaction was not."""
        return frozenset(self._unmarked).union(self._aborted)

    @property
    def aborted_open(self) -> list[AbortedTransaction]:
        """The transactions of ``open_ids`` that the transaction indexes name as aborted."""
        return [ongoing.transaction for ongoing in self._aborted.values()]

    def begin_up_to(self, offset: int) -> None:
        """Pass over the batches up to ``offset``: aborted transactions may begin in them, and none ends."""
        self._begin_up_to(offset, is_met=False)

    def _begin_up_to(self, offset: int, *, is_met: bool) -> None:
        """Take up the aborted transactions that begin at or below ``offset``, the last offset of the next batch."""
        while self.waiting and self.waiting[0][0] <= offset:
            _, _, transaction = heapq.heappop(self.waiting)
            if transaction.last_offset >= offset:  # else the marker lies before the walk's first batch
                self._aborted.setdefault(transaction.producer_id, _Ongoing(transaction, is_met))

    def _contradiction(self, batch: BatchFacts) -> str | None:
        """Return how the index contradicts the log, up to this batch; None if both agree.

        They agree if the marker of every entry is at the entry's offset, and no other marker ends the transaction.
        """
        producer_id, offset, marker = batch.producer_id, batch.last_offset, batch.marker
        for aborted_id, ongoing in self._aborted.items():
            if not ongoing.is_met:
                continue
            end = ongoing.transaction.last_offset
            is_its_marker = end == offset and marker is Marker.ABORT and producer_id == aborted_id
            if end <= offset and not is_its_marker:
                return f"producer {aborted_id} has no abort marker at offset {end}, as the index says"
            if producer_id == aborted_id and marker in _ENDS and not is_its_marker:
                return f"the marker at offset {offset} ends what producer {aborted_id} aborts at {end} by the index"
        is_indexed = marker is Marker.ABORT and offset >= self._log_start_offset
        if is_indexed and producer_id in self._unmarked:
            return f"the marker at offset {offset} aborts data of producer {producer_id} that the index does not have"
        return None

    def _is_aborted_data(self, batch: BatchFacts) -> bool:
        ongoing = self._aborted.get(batch.producer_id)
        if ongoing is None:
            self._committed.add(batch.producer_id)
            self._unmarked.add(batch.producer_id)
            return False
        ongoing.has_batches = True
        return True

    def _ends_aborted(self, producer_id: int) -> bool:
        ongoing = self._aborted.pop(producer_id, None)
        if ongoing is None or not ongoing.has_batches:
            return True
        self.retained.append(ongoing.transaction)
        return False
