"""Batches in memory, walked over and written: readable twins of what the readers and kernels do, for tests alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from storage.errors import CorruptBatch
from storage.records import Batch, BatchHeader, ControlType, LegacyBatch, Record, encode_batch
from storage.records.read_batches import parse_batch
from storage.records.v2 import (
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_DELETE_HORIZON,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    V2_HEADER,
    V2_HEADER_BYTES,
    seal,
)

_LENGTH_POSITION: Final = 8
_LENGTH_MIN: Final = 14


class BatchIterator(Iterator[Batch | LegacyBatch]):
    """The batches of ``buf``; ``position`` is where the next one starts, and at the end where the log ends."""

    def __init__(self, buf: bytes | memoryview, path: Path, start: int) -> None:
        self._buf = memoryview(buf)
        self._path = path
        self.position = start

    def __next__(self) -> Batch | LegacyBatch:
        position, data = self.position, self._buf[self.position :]
        if len(data) <= MAGIC_POSITION + 1:
            raise StopIteration
        (length,) = struct.unpack_from(">i", data, _LENGTH_POSITION)
        if length < _LENGTH_MIN:
            raise CorruptBatch(self._path, position, f"batch length {length} is less than {_LENGTH_MIN}")
        size_bytes = LOG_OVERHEAD_BYTES + length
        if size_bytes > len(data):
            raise StopIteration
        batch = parse_batch(data[:size_bytes], self._path, position)
        self.position += size_bytes
        return batch


def iter_batches(buf: bytes | memoryview, path: Path, start: int = 0) -> BatchIterator:
    """Walk over the batches of a whole ``.log`` held (or mapped) in ``buf``, from byte ``start``.

    Returns:
        An iterator; its ``position`` tells where the log ended. It raises CorruptBatch at a batch whose length, magic
        or header cannot be.
    """
    return BatchIterator(buf, path, start)


def rebuild_batch(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None) -> bytes:
    """Rebuild the batch of ``header`` with only ``records`` left of it, and the horizon it has from now on.

    Offsets, producer, sequences, leader epoch, flags, codec and timestamp type stay; of a CreateTime batch
    the largest timestamp is that of ``records``. Without records: the 61 bytes of ``encode_empty_batch``.

    Source: Kafka MemoryRecords.buildRetainedRecordsInto.
    """
    if not records:
        return encode_empty_batch(header)
    return encode_batch(
        records,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        compression=header.compression,
        log_append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
        delete_horizon_ms=delete_horizon_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        partition_leader_epoch=header.partition_leader_epoch,
    )


def encode_empty_batch(header: BatchHeader) -> bytes:
    """Return the 61 bytes that keep the offsets and the last sequence of a batch without records."""
    empty = header._replace(
        batch_length=V2_HEADER_BYTES - LOG_OVERHEAD_BYTES,
        attributes=header.attributes & ~(ATTRIBUTE_COMPRESSION | ATTRIBUTE_DELETE_HORIZON),
        base_timestamp_ms=NO_TIMESTAMP,
        record_count=0,
    )
    batch = bytearray(V2_HEADER.pack(*empty))
    seal(batch)
    return bytes(batch)


def encode_control_batch(
    kind: ControlType,
    *,
    offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Serialize the marker that ends a transaction: ``kind`` is ABORT or COMMIT."""
    marker = Record(offset, timestamp_ms, format_control_key(kind), format_txn_marker_value(coordinator_epoch))
    return encode_batch(
        [marker],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def format_control_key(kind: ControlType) -> bytes:
    """Return the key of a control record, version 0."""
    return struct.pack(">hh", 0, kind)


def format_txn_marker_value(coordinator_epoch: int) -> bytes:
    """Return the value of an ABORT or COMMIT, version 0."""
    return struct.pack(">hi", 0, coordinator_epoch)
