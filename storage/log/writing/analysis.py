"""The batches of an append, taken apart, and what is checked before a log looks at its own state.

Source: Kafka UnifiedLog.analyzeAndValidateRecords, ``ByteBufferLogInputStream``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.log.errors import BatchTooLarge, IllegalRecords, InvalidRecords, OffsetsOutOfOrder
from storage.log.writing.origin import AppendOrigin
from storage.records import Batch, BatchHeader, LegacyBatch
from storage.records.header import (
    ATTRIBUTE_COMPRESSION,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    V2_HEADER,
    V2_HEADER_BYTES,
)
from storage.records.legacy import MESSAGE_BYTES_MIN, parse_legacy_header
from storage.records.record import NO_LEADER_EPOCH, NO_TIMESTAMP

_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8
_LENGTH_MIN: Final = min(MESSAGE_BYTES_MIN.values())


class AppendAnalysis(NamedTuple):
    """The batches of an append, each sound in itself; what follows the last whole one is left out."""

    batches: Sequence[Batch | LegacyBatch]
    codec: Compression
    """The codec of the last batch that has one."""
    max_timestamp_ms: int

    @property
    def first_offset(self) -> int | None:
        """The first offset, as stated; None where the first batch, of version 0 or 1, does not say."""
        first = self.batches[0]
        return first.base_offset if isinstance(first, Batch) else None


def analyze(
    data: bytes | memoryview,
    path: Path,
    origin: AppendOrigin,
    leader_epoch: int,
    batch_bytes_max: int | None,
    *,
    needs_rising_offsets: bool = False,
) -> AppendAnalysis:
    """Take apart what is to be appended.

    Args:
        data: batches. What is left over at the end, because a batch was cut short, counts as not there.
        path: of the partition, for errors.
        origin: who hands them in. For a follower, the batches of later leader epochs than its own are left out.
        leader_epoch: of the leader, or the follower's own.
        batch_bytes_max: ``max.message.bytes``; None: not looked at.
        needs_rising_offsets: whether the last offsets of the batches must rise.

    Raises:
        CorruptBatch: bytes that are no batch, or a wrong CRC.
        BatchTooLarge, InvalidRecords, IllegalRecords, OffsetsOutOfOrder.
    """
    taken: list[Batch | LegacyBatch] = []
    codec, newest_ms, last_offset, is_over = Compression.NONE, NO_TIMESTAMP, -1, False
    disorder: str | None = None
    for batch in _split(memoryview(data), path):
        _check_head(batch, path, origin, leader_epoch)
        epoch = batch.header.partition_leader_epoch
        is_over = is_over or (origin is AppendOrigin.REPLICATION and leader_epoch < epoch != NO_LEADER_EPOCH)
        if is_over:
            continue
        if batch_bytes_max is not None and batch.header.size_bytes > batch_bytes_max:
            raise BatchTooLarge(path, batch.header.size_bytes, "max.message.bytes", batch_bytes_max)
        batch.ensure_valid()
        if needs_rising_offsets and batch.last_offset <= last_offset:
            disorder = disorder or f"offset {batch.last_offset} follows {last_offset} in one append"
        last_offset, newest_ms = batch.last_offset, max(newest_ms, batch.header.max_timestamp_ms)
        codec = _codec_of(batch, path) or codec
        taken.append(batch)
    if disorder is not None:  # what is wrong with any batch comes first
        raise OffsetsOutOfOrder(path, disorder)
    return AppendAnalysis(taken, codec, newest_ms)


def _check_head(batch: Batch | LegacyBatch, path: Path, origin: AppendOrigin, leader_epoch: int) -> None:
    """Check what the first bytes of a batch say. Raises: InvalidRecords."""
    epoch = batch.header.partition_leader_epoch
    if origin is AppendOrigin.RAFT_LEADER and epoch != leader_epoch:
        raise InvalidRecords(path, f"a batch of the quorum's leader has leader epoch {epoch}, not {leader_epoch}")
    if origin is AppendOrigin.CLIENT and isinstance(batch, Batch) and batch.base_offset != 0:
        raise InvalidRecords(path, f"the batch of a client begins at offset {batch.base_offset}, not at 0")


def _codec_of(batch: Batch | LegacyBatch, path: Path) -> Compression:
    number = batch.header.attributes & ATTRIBUTE_COMPRESSION
    if number > max(Compression):
        raise IllegalRecords(path, f"compression codec {number} is unknown")
    return Compression(number)


def _split(data: memoryview, path: Path) -> Iterator[Batch | LegacyBatch]:
    """Yield the whole batches. Raises: CorruptBatch."""
    position = 0
    while len(data) - position >= LOG_OVERHEAD_BYTES:
        (length,) = _LENGTH.unpack_from(data, position + _LENGTH_POSITION)
        if length < _LENGTH_MIN:
            raise CorruptBatch(path, position, f"batch length {length} is less than {_LENGTH_MIN}")
        if len(data) - position <= MAGIC_POSITION:
            return
        magic = data[position + MAGIC_POSITION]
        if magic > MAGIC_V2:
            raise CorruptBatch(path, position, f"unknown magic {magic}")
        end = position + LOG_OVERHEAD_BYTES + length
        if end > len(data):
            return
        yield _parsed(data[position:end], magic, path, position)
        position = end


def _parsed(data: memoryview, magic: int, path: Path, position: int) -> Batch | LegacyBatch:
    """Read the header, and judge nothing in it yet. Raises: CorruptBatch."""
    if magic < MAGIC_V2:
        return LegacyBatch(parse_legacy_header(data, 0, path, position), data, path, position)
    if len(data) < V2_HEADER_BYTES:
        raise CorruptBatch(path, position, "fewer bytes than the header of a batch")
    return Batch(BatchHeader._make(V2_HEADER.unpack_from(data)), data, path, position)
