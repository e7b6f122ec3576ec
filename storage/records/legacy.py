"""Messages of versions 0 and 1 (before Kafka 0.11), alone or many in a compressed wrapper message, read and written.

Source: Kafka ``LegacyRecord`` (``write``), ``AbstractLegacyRecordBatch``, ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from storage.codecs.compression import Compression, compress, decompress
from storage.errors import CorruptBatch, CorruptCompressedData, InvalidRecord
from storage.records.v2 import (
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_LOG_APPEND_TIME,
    DECOMPRESSED_BYTES_MAX,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    OFFSET_MAX,
    Record,
    agrees,
)

MESSAGE_BYTES_MIN: Final = {0: 14, 1: 22}
"""Smallest length field of a message, by magic: CRC, magic, attributes, timestamp (1), two empty fields."""
PREFIX: Final = struct.Struct(">qiIbb")
"""Offset, length, CRC, magic, attributes."""
TIMESTAMP: Final = struct.Struct(">q")
FIELD_LENGTH: Final = struct.Struct(">i")

_NULL: Final = -1
"""Length of a field that is null."""


@dataclass(frozen=True, slots=True)
class LegacyHeader:
    """The header of a v0 or v1 message or wrapper message, with the same surface as ``BatchHeader``.

    ``last_offset`` is the stored offset: a wrapper states the offset of its last inner message, and not that of the
    first.
    """

    last_offset: int
    batch_length: int
    crc: int
    magic: int
    attributes: int
    max_timestamp_ms: int

    partition_leader_epoch = NO_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    has_producer_id = False
    is_transactional = False
    is_control = False
    has_delete_horizon = False
    delete_horizon_ms = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole message on disk."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def next_offset(self) -> int:
        """First offset behind the message."""
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        """The codec; any codec but NONE makes the message a wrapper."""
        return Compression(self.attributes & ATTRIBUTE_COMPRESSION)

    @property
    def is_log_append_time(self) -> bool:
        """Return whether the message's timestamp, the broker's clock, overrides those of the inner messages."""
        return self.magic == 1 and bool(self.attributes & ATTRIBUTE_LOG_APPEND_TIME)


class LegacyBatch(NamedTuple):
    """A v0 or v1 message, plain or wrapper; the same surface as ``Batch``."""

    header: LegacyHeader
    data: memoryview
    path: Path
    position: int

    @property
    def base_offset(self) -> int:
        """Offset of the first record. A wrapper does not state it, and is decompressed for it.

        Raises:
            CorruptBatch: as ``records``.
        """
        if self.header.compression is Compression.NONE:
            return self.header.last_offset
        return self.records()[0].offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.header.last_offset

    def is_valid_crc(self) -> bool:
        """Return whether the CRC-32 of the (wrapper) message is that of its bytes."""
        return agrees(self.data, self.header.magic)

    def ensure_valid(self) -> None:
        """Raise CorruptBatch unless the CRC is right."""
        if not self.is_valid_crc():
            raise CorruptBatch(self.path, self.position, "CRC-32 mismatch")

    def records(self, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
        """Read the message, or decompress a wrapper and read the messages in it, at least one. The CRC is not checked.

        Raises:
            CorruptBatch: messages that do not parse, a wrapper with a key, without a value or within a
                wrapper, inner offsets beyond the wrapper's, or more than ``decompressed_bytes_max`` bytes of
                messages.
        """
        try:
            message = _parse_message(self.data, self.header)
            if self.header.compression is Compression.NONE:
                return [message]
            return _unwrap(message, self.header, decompressed_bytes_max)
        except (InvalidRecord, CorruptCompressedData) as error:
            raise CorruptBatch(self.path, self.position, str(error)) from error


class LegacyMessage(NamedTuple):
    """A message with the CRC-32 that it states, whether it agrees, and its version."""

    record: Record
    crc: int
    has_valid_crc: bool
    magic: int


def parse_legacy_header(buf: bytes | memoryview, position: int, path: Path | str, buf_position: int) -> LegacyHeader:
    """Read the header of the v0 or v1 message that starts at ``position`` of ``buf``; arguments as of
    ``parse_header``.

    Raises:
        CorruptBatch: too few bytes, another magic, a length, offset or codec that cannot be.
    """
    try:
        return _parse_header(memoryview(buf)[position:])
    except InvalidRecord as error:
        raise CorruptBatch(Path(path), buf_position + position, error.cause) from error


def iter_messages(batch: LegacyBatch) -> Iterator[LegacyMessage]:
    """Read the messages of a batch. Raises: InvalidRecord, CorruptCompressedData."""
    header, message = batch.header, _parse_message(batch.data, batch.header)
    if header.compression is Compression.NONE:
        yield LegacyMessage(message, header.crc, batch.is_valid_crc(), header.magic)
        return
    data = _decompressed(message, header, DECOMPRESSED_BYTES_MAX)
    position = 0
    for record in _records_of(data, header):
        _, length, crc, magic, _ = PREFIX.unpack_from(data, position)
        after = position + LOG_OVERHEAD_BYTES + length
        yield LegacyMessage(record, crc, agrees(data[position:after], magic), magic)
        position = after


def encode_message(record: Record, magic: int, *, is_log_append_time: bool = False) -> bytes:
    """Serialize one uncompressed message. Version 0 has no timestamp; versions 0 and 1 have no record headers."""
    return _encode(record, magic, _timestamp_type(magic, is_log_append_time))


def encode_wrapper(
    records: Sequence[Record], magic: int, compression: Compression, log_append_time_ms: int | None = None
) -> bytes:
    """Serialize messages in a compressed wrapper.

    Args:
        records: at least one; ascending offsets.
        magic: 0 (inner offsets are absolute) or 1 (they count from the first one's).
        compression: GZIP, SNAPPY or LZ4.
        log_append_time_ms: gives a version 1 wrapper the type LogAppendTime and this time, epoch ms; default:
            CreateTime.

    Raises:
        ValueError: zstd.
    """
    assert records, "a wrapper message holds at least one message"
    assert compression is not Compression.NONE, "a wrapper message is compressed"
    base_offset = records[0].offset if magic == 1 else 0
    timestamp_type = _timestamp_type(magic, log_append_time_ms is not None)
    inner = bytearray()
    for record in records:
        timestamp_ms = record.timestamp_ms if log_append_time_ms is None else log_append_time_ms
        numbered = replace(record, offset=record.offset - base_offset, timestamp_ms=timestamp_ms)
        inner += _encode(numbered, magic, timestamp_type)
    newest_ms = max(record.timestamp_ms for record in records)
    wrapper = Record(
        offset=records[-1].offset,
        timestamp_ms=newest_ms if log_append_time_ms is None else log_append_time_ms,
        key=None,
        value=compress(compression, memoryview(inner), magic),
    )
    return _encode(wrapper, magic, compression | timestamp_type)


def _parse_message(data: memoryview, header: LegacyHeader) -> Record:
    position = PREFIX.size + (TIMESTAMP.size if header.magic == 1 else 0)
    key, position = _parse_field(data, position)
    value, position = _parse_field(data, position)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes behind the value of a message")
    return Record(header.last_offset, header.max_timestamp_ms, key, value)


def _parse_field(data: memoryview, position: int) -> tuple[bytes | None, int]:
    """Read a length and that many bytes; a negative length is null."""
    start = position + FIELD_LENGTH.size
    if start > len(data):
        raise InvalidRecord("a field's length runs past the end of its message")
    (length,) = FIELD_LENGTH.unpack_from(data, position)
    if length < 0:
        return None, start
    if length > len(data) - start:
        raise InvalidRecord(f"field of {length} bytes with {len(data) - start} left in the message")
    return bytes(data[start : start + length]), start + length


def _unwrap(wrapper: Record, header: LegacyHeader, decompressed_bytes_max: int) -> list[Record]:
    return _records_of(_decompressed(wrapper, header, decompressed_bytes_max), header)


def _records_of(data: memoryview, header: LegacyHeader) -> list[Record]:
    inner = _parse_inner_messages(data, header)
    if not inner:
        raise InvalidRecord("a wrapper message with no message in it")
    shift = _offset_shift(header, inner[-1].offset)
    if shift == 0:
        return inner
    return [Record(one.offset + shift, one.timestamp_ms, one.key, one.value) for one in inner]


def _parse_inner_messages(data: memoryview, wrapper: LegacyHeader) -> list[Record]:
    """Parse messages as they are stored, but with the wrapper's timestamp.

    Their magic may differ from the wrapper's (KAFKA-4298).
    """
    messages = []
    position = 0
    while position < len(data):
        header = _parse_header(data[position:])
        if header.compression is not Compression.NONE:
            raise InvalidRecord("a compressed message in a wrapper message")
        if header.size_bytes > len(data) - position:
            raise InvalidRecord(f"message of {header.size_bytes} bytes with {len(data) - position} left")
        message = _parse_message(data[position : position + header.size_bytes], header)
        messages.append(_with_timestamp_of(wrapper, message, header.magic))
        position += header.size_bytes
    return messages


def _parse_header(data: memoryview) -> LegacyHeader:
    if len(data) < PREFIX.size + TIMESTAMP.size:
        raise InvalidRecord("fewer bytes than the smallest message")
    offset, length, crc, magic, attributes = PREFIX.unpack_from(data)
    if magic not in MESSAGE_BYTES_MIN:
        raise InvalidRecord(f"magic {magic} is not that of a v0 or v1 message")
    if length < MESSAGE_BYTES_MIN[magic]:
        raise InvalidRecord(f"message length {length} is less than {MESSAGE_BYTES_MIN[magic]}")
    if not 0 <= offset < OFFSET_MAX:
        raise InvalidRecord(f"message offset {offset}")
    if attributes & ATTRIBUTE_COMPRESSION > Compression.LZ4:
        raise InvalidRecord(f"compression codec {attributes & ATTRIBUTE_COMPRESSION} in a message of version {magic}")
    timestamp_ms = TIMESTAMP.unpack_from(data, PREFIX.size)[0] if magic == 1 else NO_TIMESTAMP
    return LegacyHeader(offset, length, crc, magic, attributes, timestamp_ms)


def _with_timestamp_of(wrapper: LegacyHeader, message: Record, magic: int) -> Record:
    if magic == 0 or not wrapper.is_log_append_time:
        return message
    return Record(message.offset, wrapper.max_timestamp_ms, message.key, message.value)


def _offset_shift(wrapper: LegacyHeader, last_inner_offset: int) -> int:
    """Return the number that makes inner offsets absolute.

    In version 1, the wrapper has the offset of the last message.
    """
    if wrapper.magic == 0 or wrapper.last_offset == 0:  # some producers that are not Java's write 0
        return 0
    if last_inner_offset > wrapper.last_offset:
        raise InvalidRecord(f"inner offset {last_inner_offset} in a wrapper of offset {wrapper.last_offset}")
    return wrapper.last_offset - last_inner_offset


def _decompressed(wrapper: Record, header: LegacyHeader, decompressed_bytes_max: int) -> memoryview:
    if wrapper.key is not None or wrapper.value is None:
        raise InvalidRecord("a wrapper message has no key and has a value")
    return memoryview(decompress(header.compression, wrapper.value, decompressed_bytes_max, header.magic))


def _encode(record: Record, magic: int, attributes: int) -> bytes:
    body = bytearray((magic, attributes))
    if magic == 1:
        body += TIMESTAMP.pack(record.timestamp_ms)
    for field in (record.key, record.value):
        body += FIELD_LENGTH.pack(_NULL if field is None else len(field)) + (field or b"")
    crc_bytes = MAGIC_POSITION - LOG_OVERHEAD_BYTES
    start = PREFIX.pack(record.offset, crc_bytes + len(body), zlib.crc32(body), magic, attributes)
    return start[:MAGIC_POSITION] + bytes(body)


def _timestamp_type(magic: int, is_log_append_time: bool) -> int:
    return ATTRIBUTE_LOG_APPEND_TIME if magic == 1 and is_log_append_time else 0
