"""The first record of a batch that is as late as a timestamp: read record by record, no further than to it.

A batch of many records is walked by a kernel; ``read_as_late`` is its readable twin, and has the last word on records
that the kernel does not take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from storage.codecs.compression import Compression, decompress
from storage.codecs.finding import find_as_late
from storage.errors import CorruptBatch, CorruptCompressedData, InvalidRecord
from storage.records.record import DECOMPRESSED_BYTES_MAX, Record
from storage.records.v2 import Batch, iter_records

_FEW_RECORDS: Final = 4
"""The most records that are read sooner than a kernel is called."""


class TimedRecord(NamedTuple):
    """A record's timestamp, epoch ms, and its offset."""

    timestamp_ms: int
    offset: int


def first_as_late(batch: Batch, timestamp_ms: int, start_offset: int) -> TimedRecord | None:
    """Find the first record at or behind an offset that is as late; None if there is none.

    Args:
        batch: its CRC is not looked at.
        timestamp_ms: epoch ms.
        start_offset: records below it are passed over.

    Raises: CorruptBatch if the records in front do not parse.
    """
    header = batch.header
    if header.record_count == 0:
        return None
    try:
        payload = batch.payload
        if header.compression is not Compression.NONE:
            payload = memoryview(decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX))
        if header.record_count > _FEW_RECORDS and not header.is_log_append_time:
            count, base_ms, base_offset = header.record_count, header.base_timestamp_ms, header.base_offset
            least_delta = max(start_offset - base_offset, 0)
            found = find_as_late(payload, count, header.last_offset_delta, base_ms, timestamp_ms, least_delta)
            if found is not None:
                delta, found_ms = found
                return TimedRecord(found_ms, base_offset + delta) if delta >= 0 else None
        return read_as_late(iter_records(payload, header), timestamp_ms, start_offset)
    except (InvalidRecord, CorruptCompressedData) as error:
        raise CorruptBatch(batch.path, batch.position, str(error)) from error


def read_as_late(records: Iterable[Record], timestamp_ms: int, start_offset: int) -> TimedRecord | None:
    """Find the first record at or behind an offset that is as late; None if there is none."""
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimedRecord(record.timestamp_ms, record.offset)
    return None
