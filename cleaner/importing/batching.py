"""Make batches of version 2 of imported records, in the order in which they come.

A batch has records of one timestamp type; of LogAppendTime, of one time, since its header states it for all. Where
offsets are missing between two batches, the later one begins right behind the earlier one, as compaction leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cleaner.importing.records import LOG_APPEND_TIME, ImportedRecord
from storage.codecs.compression import Compression
from storage.records import Record, encode_batch

LEADER_EPOCH: Final = 0
"""The leader epoch of all imported records: no leader has a lower one, and a broker forgets epochs above its own."""
BATCH_BYTES: Final = 256 << 10
"""A batch is closed once its records hold so much: well below the 1 MiB of ``max.message.bytes``."""
_RECORDS_MAX: Final = 4096
_OFFSETS_MAX: Final = 1 << 30
"""A batch counts its offsets from its first one with 31 bits."""
_RECORD_BYTES: Final = 24
"""The bytes, about, that a record takes besides its key, value and headers."""


class MadeBatch(NamedTuple):
    """A batch, encoded."""

    base_offset: int
    """Its first offset, which is the log end before it, unless more offsets are missing than a batch can span."""
    next_offset: int
    """The offset behind its last record."""
    records: int
    data: bytes


def batches(records: Iterable[ImportedRecord], compression: Compression) -> Iterator[MadeBatch]:
    """Yield batches of records.

    Args:
        records: data records, by rising offsets.
        compression: the codec of every batch.
    """
    held: list[ImportedRecord] = []
    held_bytes, log_end = 0, None
    for one in records:
        if held and not _may_join(held, one, held_bytes):
            made = _made(held, log_end, compression)
            yield made
            held, held_bytes, log_end = [], 0, made.next_offset
        held.append(one)
        held_bytes += _size_of(one.record)
    if held:
        yield _made(held, log_end, compression)


def _may_join(held: list[ImportedRecord], one: ImportedRecord, held_bytes: int) -> bool:
    first = held[0]
    is_full = len(held) >= _RECORDS_MAX or held_bytes + _size_of(one.record) > BATCH_BYTES
    is_same = _is_append_time(first) == _is_append_time(one)
    if is_same and _is_append_time(one):
        is_same = first.record.timestamp_ms == one.record.timestamp_ms
    return not is_full and is_same and one.record.offset - first.record.offset < _OFFSETS_MAX


def _made(held: list[ImportedRecord], log_end: int | None, compression: Compression) -> MadeBatch:
    first, last = held[0].record, held[-1].record
    is_near = log_end is not None and last.offset - log_end <= 2 * _OFFSETS_MAX - 1
    base_offset = log_end if log_end is not None and is_near else first.offset
    data = encode_batch(
        [one.record for one in held],
        base_offset=base_offset,
        partition_leader_epoch=LEADER_EPOCH,
        compression=compression,
        log_append_time_ms=first.timestamp_ms if _is_append_time(held[0]) else None,
    )
    return MadeBatch(base_offset, last.offset + 1, len(held), data)


def _is_append_time(one: ImportedRecord) -> bool:
    return one.timestamp_type == LOG_APPEND_TIME


def _size_of(record: Record) -> int:
    fields = [record.key, record.value, *(field for header in record.headers for field in header)]
    return _RECORD_BYTES + sum(len(field) for field in fields if field)
