"""The outcome of an append's checks: the bytes to write, and the facts about each batch in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storage.errors import CorruptBatch
from storage.log.errors import InvalidRecords
from storage.records import Batch, BatchHeader, LegacyBatch, LegacyHeader, TxnMarker
from storage.records.record import NO_TIMESTAMP


class NewBatch(NamedTuple):
    """The facts about one batch, as it is going to be written."""

    size_bytes: int
    base_offset: int | None
    """The base offset; None for a compressed batch of version 0 or 1, which does not state it."""
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    control: Batch | None = None
    """The control batch of a producer itself: its marker is read late."""
    is_legacy: bool = False

    def marker(self) -> TxnMarker | None:
        """Read the end of a transaction; None in a control batch without records, and in every other batch.

        Raises: InvalidRecords for a marker that does not parse.
        """
        try:
            return self.control.first_txn_marker() if self.control else None
        except CorruptBatch as error:
            raise InvalidRecords(error.path, error.cause) from error


class Admitted(NamedTuple):
    """An append that was found good, stamped with offsets and leader epoch."""

    data: memoryview
    batches: Sequence[NewBatch]
    max_timestamp_ms: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    """The time that the log gave the records; -1 for their own."""
    first_offset: int | None = None
    """The offset that a leader numbered it from; None where it was numbered already."""


def new_batch(batch: Batch | LegacyBatch) -> NewBatch:
    """Return the facts about a batch that is written as it is. No record of it is looked at."""
    header = batch.header
    is_marker = header.is_control and header.producer_id >= 0 and isinstance(batch, Batch)
    return NewBatch(
        size_bytes=header.size_bytes,
        base_offset=_base_offset(header),
        last_offset=header.last_offset,
        max_timestamp_ms=header.max_timestamp_ms,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        control=batch if is_marker and isinstance(batch, Batch) else None,
        is_legacy=isinstance(batch, LegacyBatch),
    )


def _base_offset(header: BatchHeader | LegacyHeader) -> int | None:
    if isinstance(header, BatchHeader):
        return header.base_offset
    return None if header.compression else header.last_offset
