"""Messages of versions 0 and 1: writing them, alone or many in a compressed wrapper message.

Source: Kafka ``LegacyRecord.write``, ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from storage.codecs.compression import Compression, compress
from storage.records.header import ATTRIBUTE_LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, MAGIC_POSITION
from storage.records.legacy import FIELD_LENGTH, PREFIX, TIMESTAMP
from storage.records.record import Record

_NULL: Final = -1
"""Length of a field that is null."""


def encode_message(record: Record, magic: int, *, is_log_append_time: bool = False) -> bytes:
    """Serialize one uncompressed message; version 0 has no timestamp, and neither has record headers."""
    return _encode(record, magic, _timestamp_type(magic, is_log_append_time))


def encode_wrapper(
    records: Sequence[Record], magic: int, compression: Compression, log_append_time_ms: int | None = None
) -> bytes:
    """Serialize messages in a compressed wrapper.

    Args:
        records: at least one; ascending offsets.
        magic: 0 (inner offsets are absolute) or 1 (they count from the first one's).
        compression: GZIP, SNAPPY or LZ4.
        log_append_time_ms: makes a version 1 wrapper LogAppendTime with this time, epoch ms; default:
            CreateTime.

    Raises:
        ValueError: zstd.
    """
    assert records, "a wrapper message holds at least one message"
    assert compression is not Compression.NONE, "a wrapper message is compressed"
    base_offset = records[0].offset if magic == 1 else 0
    inner = b"".join(_encode(replace(one, offset=one.offset - base_offset), magic, 0) for one in records)
    newest_ms = max(record.timestamp_ms for record in records)
    wrapper = Record(
        offset=records[-1].offset,
        timestamp_ms=newest_ms if log_append_time_ms is None else log_append_time_ms,
        key=None,
        value=compress(compression, inner, magic),
    )
    return _encode(wrapper, magic, compression | _timestamp_type(magic, log_append_time_ms is not None))


def _timestamp_type(magic: int, is_log_append_time: bool) -> int:
    return ATTRIBUTE_LOG_APPEND_TIME if magic == 1 and is_log_append_time else 0


def _encode(record: Record, magic: int, attributes: int) -> bytes:
    body = bytearray((magic, attributes))
    if magic == 1:
        body += TIMESTAMP.pack(record.timestamp_ms)
    for field in (record.key, record.value):
        body += FIELD_LENGTH.pack(_NULL if field is None else len(field)) + (field or b"")
    crc_bytes = MAGIC_POSITION - LOG_OVERHEAD_BYTES
    start = PREFIX.pack(record.offset, crc_bytes + len(body), zlib.crc32(body), magic, attributes)
    return start[:MAGIC_POSITION] + bytes(body)
