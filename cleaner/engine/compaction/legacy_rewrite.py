"""Messages of versions 0 and 1 written again, by the readable code of ``storage.records``.

Source: Kafka MemoryRecords.filterBatch, buildRetainedRecordsInto; Cleaner.cleanSegments (legacy delete horizon).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storage.records import LegacyBatch, LegacyHeader, Record, encode_batch, encode_wrapper
from storage.segment import Segment


def rewritten(batch: LegacyBatch, kept: Sequence[Record]) -> bytes:
    """Return a wrapper with only some of its records, compressed anew at the codec's default level.

    Its offset is that of the last record kept.
    """
    header = batch.header
    return encode_wrapper(kept, header.magic, header.compression, _log_append_time_ms(header))


def upgraded(batch: LegacyBatch, kept: Sequence[Record], new_horizon_ms: int | None) -> bytes:
    """Return the v2 batch of some records of a batch, at least one.

    It reaches from the offset of the first record to that of the last, has neither producer nor leader epoch, and has a
    delete horizon if a tombstone is in it. Records of v0 have no timestamp, and CreateTime.
    """
    return encode_batch(
        kept,
        compression=batch.header.compression,
        log_append_time_ms=_log_append_time_ms(batch.header),
        delete_horizon_ms=new_horizon_ms if any(record.is_tombstone for record in kept) else None,
    )


def newest_ms(batch: LegacyBatch, kept: Sequence[Record]) -> int:
    """Return the largest timestamp of a batch that keeps only these records, epoch ms."""
    fixed_ms = _log_append_time_ms(batch.header)
    return max(record.timestamp_ms for record in kept) if fixed_ms is None else fixed_ms


def legacy_horizon_ms(segments: Iterable[Segment], first_dirty_offset: int, delete_retention_ms: int) -> int:
    """Return the common delete horizon of v0 and v1, epoch ms: tombstones stay in segments that were modified later.

    It is ``delete.retention.ms`` before the last modification of the last segment that is, or begins, clean; 0 without
    such a segment.
    """
    clean = [segment for segment in segments if segment.base_offset < first_dirty_offset]
    return modified_ms(clean[-1]) - delete_retention_ms if clean else 0


def modified_ms(segment: Segment) -> int:
    """Return the modification time of the ``.log``, epoch ms."""
    return segment.log.identity.mtime_ns // 1_000_000


def _log_append_time_ms(header: LegacyHeader) -> int | None:
    return header.max_timestamp_ms if header.is_log_append_time else None
