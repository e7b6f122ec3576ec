"""The scan of v2 headers into a batch table. It reads no bodies: a batch of 16 KiB costs one cache line."""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Table
from storage.kernels.layout import BATCHES, CODEC_MASK, CONTROL, HEADER_BYTES, NOT_HERE, RECORD_BYTES_MIN, UNKNOWN
from storage.kernels.status import BatchFate, Status
from storage.machine.intrinsics import load_be16, load_be32, load_be64, load_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, integers

_OFFSET_MAX: Final = 2**63 - 1 - 2**31  # base offsets above it could overflow on adding a delta
_PREFIX_BYTES: Final = 17  # up to and with the magic byte: the same in every version
_SIZE_MIN: Final = 14  # Kafka LegacyRecord.RECORD_OVERHEAD_V0, the least any version needs


@kernel()
def _batch_size(  # noqa: PLR0911  (each check has its status)
    buf: Bytes, position: int, end: int
) -> tuple[int, int]:
    """Return status and total bytes of the batch at ``position``. Source: Kafka FileLogInputStream."""
    if end - position < _PREFIX_BYTES:
        return Status.END_OF_BUFFER, 0
    length = load_be32(buf, position + 8)
    if length < _SIZE_MIN:
        return Status.BAD_SIZE, 0
    magic = load_u8(buf, position + 16)
    if magic > 2:
        return Status.BAD_MAGIC, 0
    if magic == 2 and length + 12 < HEADER_BYTES:
        return Status.BAD_SIZE, 0
    if length + 12 > end - position:
        return Status.END_OF_BUFFER, 0
    if magic < 2:
        return Status.LEGACY_MAGIC, 0
    return Status.OK, length + 12


@kernel()
def _read_header(buf: Bytes, position: int, size: int, table: Table, row: int) -> None:
    batch = table[row]
    batch.position, batch.size = position, size
    batch.base_offset = load_be64(buf, position)
    batch.leader_epoch = load_be32(buf, position + 12)
    batch.crc = load_be32(buf, position + 17) & 0xFFFFFFFF
    batch.attributes = load_be16(buf, position + 21)
    batch.last_offset = batch.base_offset + load_be32(buf, position + 23)
    batch.base_timestamp = load_be64(buf, position + 27)
    batch.max_timestamp = load_be64(buf, position + 35)
    batch.producer_id = load_be64(buf, position + 43)
    batch.producer_epoch = load_be16(buf, position + 51)
    batch.base_sequence = load_be32(buf, position + 53)
    batch.record_count = load_be32(buf, position + 57)
    here = batch.attributes & CODEC_MASK == 0
    batch.records_start = position + HEADER_BYTES if here else NOT_HERE
    batch.records_end = position + size if here else NOT_HERE
    batch.tombstones = UNKNOWN
    batch.fate = BatchFate.KEEP if batch.attributes & CONTROL else BatchFate.DELETE_EMPTY


@kernel()
def _check_header(table: Table, row: int, next_offset: int) -> int:
    batch = table[row]
    base, last, count = batch.base_offset, batch.last_offset, batch.record_count
    if base < next_offset or base > _OFFSET_MAX or last < base:
        return Status.BAD_OFFSETS
    if count < 0 or count > last - base + 1:
        return Status.BAD_COUNT
    if batch.records_start != NOT_HERE and count * RECORD_BYTES_MIN > batch.size - HEADER_BYTES:
        return Status.BAD_COUNT
    return Status.OK


@kernel(integers(5)(BYTES, I64, I64, I64, I64, BATCHES))
def scan_batches(
    buf: Bytes, start: int, end: int, next_offset: int, next_ordinal: int, table: Table
) -> tuple[int, int, int, int, int]:
    """Fill ``table`` with the v2 batches that lie in full in ``buf[start:end]``.

    A row's ``fate`` is KEEP for a control batch, else DELETE_EMPTY; ``tombstones`` is UNKNOWN.

    Args:
        buf: a window of a ``.log``.
        start: where a batch starts.
        end: cut to the buffer.
        next_offset: the least base offset allowed at first: the base of the segment, or one after the batch before; not
            negative.
        next_ordinal: ordinal of the first record.
        table: ``layout.BATCH``, overwritten from row 0.

    Returns:
        ``(status, rows, position, next_offset, next_ordinal)``: rows filled, where the first batch not taken
        starts, and both running numbers for the next call. OK: ``position == end``. END_OF_BUFFER: a batch
        is cut off by ``end``. TABLE_FULL: call again from ``position``. Others: what is wrong with the batch
        at ``position``.
    """
    position, end, next_offset = max(start, 0), min(end, buf.size), max(next_offset, 0)
    row = 0
    status: int = Status.OK
    while position < end:
        if row == table.size:
            return Status.TABLE_FULL, row, position, next_offset, next_ordinal
        status, size = _batch_size(buf, position, end)
        if status == Status.OK:
            _read_header(buf, position, size, table, row)
            status = _check_header(table, row, next_offset)
        if status != Status.OK:
            break
        table[row].first_ordinal = next_ordinal
        next_ordinal += table[row].record_count
        next_offset = table[row].last_offset + 1
        position += size
        row += 1
    return status, row, position, next_offset, next_ordinal
