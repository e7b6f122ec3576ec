"""Append: from what a caller hands in to batches that may be written: checked, numbered, stamped.

Source: Kafka UnifiedLog.append, LogValidator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.log.config import LogConfig
from storage.log.errors import BatchTooLarge, RecordBatchTooLarge
from storage.log.roll import Arrival
from storage.records import Batch, Record, encode_batch, iter_batches
from storage.records.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_LEADER_EPOCH_POSITION: Final = 12


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer that writes a batch, idempotent or transactional."""

    producer_id: int
    epoch: int
    base_sequence: int
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """The place of what was appended."""

    first_offset: int
    last_offset: int
    has_rolled: bool
    """Whether it began a new segment."""
    is_duplicate: bool = False
    """Whether the log has the batch already: the offsets are those it has."""
    log_append_time_ms: int = -1
    """The time that the log gave the records (of a duplicate, the one that Kafka answers with); -1 for their own."""


def build_batch(records: Sequence[Record], now_ms: int, compression: Compression, producer: Producer | None) -> bytes:
    """One batch of records, numbered from 0. One without a timestamp gets ``now_ms``."""
    numbered = [
        replace(record, offset=place, timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else now_ms)
        for place, record in enumerate(records)
    ]
    producer = producer or Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return encode_batch(
        numbered,
        compression=compression,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        is_transactional=producer.is_transactional,
    )


def check_batches(data: bytes, directory: Path, config: LogConfig) -> list[Batch]:
    """Read the batches of an append.

    Raises:
        CorruptBatch: none, another version than 2, a wrong CRC, or bytes that are no whole batch.
        BatchTooLarge: a batch above ``max.message.bytes``, or all together above ``segment.bytes``.
    """
    batches = list(_whole_batches(data, directory))
    for batch in batches:
        if batch.header.size_bytes > config.max_message_bytes:
            raise BatchTooLarge(directory, batch.header.size_bytes, "max.message.bytes", config.max_message_bytes)
    if len(data) > config.segment_bytes:
        raise RecordBatchTooLarge(directory, len(data), "segment.bytes", config.segment_bytes)
    return batches


def _whole_batches(data: bytes, directory: Path) -> Iterator[Batch]:
    found = iter_batches(data, directory)
    for batch in found:
        if not isinstance(batch, Batch):
            raise CorruptBatch(directory, batch.position, "only batches of version 2 can be appended")
        batch.ensure_valid()
        yield batch
    if found.position != len(data) or not data:
        raise CorruptBatch(directory, found.position, f"{len(data) - found.position} bytes that are no whole batch")


def stamp(batches: Sequence[Batch], next_offset: int, leader_epoch: int) -> list[Batch]:
    """Number batches from ``next_offset`` on and give them the leader epoch; the CRC covers neither."""
    stamped = []
    for batch in batches:
        header = batch.header._replace(base_offset=next_offset, partition_leader_epoch=leader_epoch)
        data = bytearray(batch.data)
        _OFFSET.pack_into(data, 0, next_offset)
        _LEADER_EPOCH.pack_into(data, _LEADER_EPOCH_POSITION, leader_epoch)
        stamped.append(batch._replace(header=header, data=memoryview(data)))
        next_offset = header.next_offset
    return stamped


def arrival_of(batches: Sequence[Batch]) -> Arrival:
    """Return the facts about batches that rolling asks for."""
    return Arrival(
        size_bytes=sum(batch.header.size_bytes for batch in batches),
        max_timestamp_ms=max(batch.header.max_timestamp_ms for batch in batches),
        last_offset=batches[-1].last_offset,
    )
