"""The 61 bytes before the records of a v2 batch.

Everything a batch says of itself without its records being decompressed.

Source: Kafka ``DefaultRecordBatch``.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.records.record import NO_PRODUCER_ID, NO_SEQUENCE

LOG_OVERHEAD_BYTES: Final = 12
"""Offset and length, in front of every batch of every format; the length counts what follows them."""
MAGIC_POSITION: Final = 16
MAGIC_V2: Final = 2
V2_HEADER_BYTES: Final = 61
CRC_POSITION: Final = 17
CRC_START: Final = 21
"""The CRC-32C covers the attributes and all behind them: not what a broker assigns, offset and epoch."""

V2_HEADER: Final = struct.Struct(">qiibIhiqqqhii")

ATTRIBUTE_COMPRESSION: Final = 0x07
ATTRIBUTE_LOG_APPEND_TIME: Final = 0x08
ATTRIBUTE_TRANSACTIONAL: Final = 0x10
ATTRIBUTE_CONTROL: Final = 0x20
ATTRIBUTE_DELETE_HORIZON: Final = 0x40

OFFSET_MAX: Final = (1 << 63) - 1
_SEQUENCE_MODULUS: Final = 1 << 31
_CODEC_MAX: Final = max(Compression)


class BatchHeader(NamedTuple):
    """Header of a v2 batch: its fields in the order they are stored in. Cheap: there are many.

    ``batch_length`` is the stored length: without the 12 bytes of offset and length. ``base_timestamp_ms`` is
    what the field holds: with a delete horizon, that horizon. ``attributes`` names a codec that exists:
    parsing has checked it.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch on disk."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or of the last one there was before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """First offset behind the batch."""
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        """Codec of the records."""
        return Compression(self.attributes & ATTRIBUTE_COMPRESSION)

    @property
    def is_log_append_time(self) -> bool:
        """Return whether every record takes ``max_timestamp_ms``, the broker's clock, as its timestamp."""
        return bool(self.attributes & ATTRIBUTE_LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction, as its markers do, too."""
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Return whether the records are Kafka's own: transaction markers, KRaft control records."""
        return bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Return whether a compaction has stamped the moment from which tombstones and markers may go."""
        return bool(self.attributes & ATTRIBUTE_DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The delete horizon, epoch ms; None without one."""
        return self.base_timestamp_ms if self.has_delete_horizon else None

    @property
    def has_producer_id(self) -> bool:
        """Return whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapping past 2^31-1 to 0; -1 without sequences."""
        return sequence_after(self.base_sequence, self.last_offset_delta)


def sequence_after(base_sequence: int, delta: int) -> int:
    """Add ``delta`` to ``base_sequence``, wrapping past 2^31-1 to 0. Return -1 if there is no sequence."""
    return NO_SEQUENCE if base_sequence < 0 else (base_sequence + delta) % _SEQUENCE_MODULUS


def sequence_before(sequence: int, delta: int) -> int:
    """Subtract ``delta`` from ``sequence``, wrapping below 0 to 2^31-1. Source: Kafka decrementSequence."""
    return sequence - delta if sequence >= delta else _SEQUENCE_MODULUS - (delta - sequence)


def parse_header(buf: bytes | memoryview, position: int, path: Path, buf_position: int = 0) -> BatchHeader:
    """Read the header of the v2 batch that starts at ``position`` of ``buf``.

    Args:
        buf: bytes of a ``.log``, or of a window of it.
        position: where in ``buf`` the batch starts.
        path: the file, for errors.
        buf_position: where in the file ``buf`` starts, for errors.

    Raises:
        CorruptBatch: fewer than 61 bytes, another magic, or a length, offsets, codec or count that cannot be.
    """
    where = buf_position + position
    if position < 0 or len(buf) - position < V2_HEADER_BYTES:
        raise CorruptBatch(path, where, "fewer bytes than the header of a batch")
    header = BatchHeader._make(V2_HEADER.unpack_from(buf, position))
    cause = _cause_of_damage(header)
    if cause is not None:
        raise CorruptBatch(path, where, cause)
    return header


def _cause_of_damage(header: BatchHeader) -> str | None:
    if header.magic != MAGIC_V2:
        return f"magic {header.magic} is not that of a v2 batch"
    if header.size_bytes < V2_HEADER_BYTES:
        return f"batch length {header.batch_length} is less than that of a header"
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset >= OFFSET_MAX:
        return f"offsets that cannot be: base {header.base_offset}, last delta {header.last_offset_delta}"
    if header.record_count < 0:
        return f"negative record count {header.record_count}"
    if header.attributes & ATTRIBUTE_COMPRESSION > _CODEC_MAX:
        return f"unknown compression codec {header.attributes & ATTRIBUTE_COMPRESSION}"
    return None
