"""The writing of one batch: verbatim, as an empty header, or rebuilt from its kept records.

A rebuilt batch keeps base offset, last offset, producer fields, leader epoch and flags. Its records keep their bytes
but for length and timestamp delta, which are encoded anew against the new base timestamp.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Table, Words
from storage.kernels.bitmap import holds
from storage.kernels.crc import checksum
from storage.kernels.decide import drops_tombstones, has_horizon, keeps
from storage.kernels.layout import BATCHES, DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME
from storage.kernels.records import check_payload, parse_record, varlong_size, write_varlong
from storage.kernels.status import BatchAction, BatchFate, Status
from storage.machine.intrinsics import copy_bytes, load_u8, prefetch, store_be16, store_be32, store_be64, store_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, OUTPUT, WORDS_READ, integers, signed

_NO_TIMESTAMP: Final = -1
_FLAGS_OF_EMPTY: Final = 0x38  # timestamp type, transactional, control
_FLAGS: Final = 0x3F  # and the codec
_RECORD_OVERHEAD_MAX: Final = 5 + 1 + 10  # length, attributes, timestamp delta
_BATCH_BYTES_MAX: Final = 2**31 - 1
_RECORDS_AHEAD: Final = 8


@kernel()
def has_room(out: Bytes, position: int, count: int) -> bool:
    """Return whether ``count`` bytes from ``position`` on lie within ``out``."""
    return position >= 0 and count >= 0 and count <= out.size - position


@kernel()
def _write_record(
    buf: Bytes, start: int, end: int, at_offset: int, timestamp_delta: int, out: Bytes, position: int
) -> int:
    """Write the record of ``buf[start:end]`` with another timestamp delta. Return the next position.

    The attributes byte stands before the timestamp delta. To find it, the record is read once more from its start.
    """
    while load_u8(buf, start) >= 0x80:
        start += 1
    rest = end - at_offset
    position = write_varlong(out, position, 1 + varlong_size(timestamp_delta) + rest)
    store_u8(out, position, load_u8(buf, start + 1))
    position = write_varlong(out, position + 1, timestamp_delta)
    copy_bytes(out, position, buf, at_offset, rest)
    return position + rest


@kernel()
def _encode(
    buf: Bytes, table: Table, row: int, bitmap: Words, now_ms: int, horizon_ms: int, out: Bytes, position: int
) -> tuple[int, int, int, int, int]:
    """Write the kept records of one checked row to ``out``, as ``encode_records`` does."""
    batch = table[row]
    stays = batch.fate == BatchFate.KEEP_STAMPED
    fixed_time = batch.attributes & LOG_APPEND_TIME != 0
    without_tombstones = drops_tombstones(table, row, now_ms)
    based = has_horizon(table, row) or batch.outcome == BatchAction.STAMP
    base = horizon_ms if batch.outcome == BatchAction.STAMP else batch.base_timestamp
    latest = batch.max_timestamp if fixed_time else _NO_TIMESTAMP
    at, delta, kept = batch.records_start, -1, 0
    for ordinal in range(batch.first_ordinal, batch.first_ordinal + batch.record_count):
        start = at
        status, at, timestamp_delta, at_offset, delta, _, _, value_length = parse_record(
            buf, start, batch.records_end, delta, batch.last_offset - batch.base_offset
        )
        if status != Status.OK:
            return status, position, kept, base, latest
        prefetch(buf, at + _RECORDS_AHEAD * (at - start))
        if not stays and not keeps(bitmap, ordinal, value_length, without_tombstones):
            continue
        if not has_room(out, position, at - at_offset + _RECORD_OVERHEAD_MAX):
            return Status.OUTPUT_FULL, position, kept, base, latest
        timestamp = batch.max_timestamp if fixed_time else batch.base_timestamp + timestamp_delta
        if not based:
            base, based = timestamp, True
        latest = max(latest, timestamp)
        position = _write_record(buf, start, at, at_offset, timestamp - base, out, position)
        kept += 1
    if at != batch.records_end:
        return Status.BAD_LENGTH, position, kept, base, latest
    return Status.OK, position, kept, base, latest


@kernel(integers(5)(BYTES, BATCHES, I64, WORDS_READ, I64, I64, OUTPUT, I64))
def encode_records(
    buf: Bytes, table: Table, row: int, bitmap: Words, now_ms: int, horizon_ms: int, out: Bytes, position: int
) -> tuple[int, int, int, int, int]:
    """Write the kept records of one batch, uncompressed and without a header, to ``out`` from ``position``.

    A caller compresses them and calls ``write_header``. ``out`` never overlaps ``buf``.

    Args:
        buf: holds the row's plain records.
        table: with ``outcome`` REBUILD or STAMP in the row.
        row: which batch.
        bitmap: the survivors.
        now_ms: epoch ms, one value a round.
        horizon_ms: for STAMP, epoch ms; negative: none is set, and the row becomes a REBUILD.
        out: room for the records, and 16 bytes more for each than it takes.
        position: where to begin.

    Returns:
        ``(status, next position, records kept, base timestamp, max timestamp)``.

    Source: Kafka MemoryRecords#buildRetainedRecordsInto, DefaultRecord#writeTo.
    """
    if row < 0 or row >= table.size:
        return Status.BAD_SIZE, position, 0, 0, 0
    status = check_payload(buf, table, row)
    if status == Status.OK and not holds(bitmap, table[row].first_ordinal, table[row].record_count):
        status = Status.BITMAP_SHORT
    if status != Status.OK:
        return status, position, 0, 0, 0
    if horizon_ms < 0 and table[row].outcome == BatchAction.STAMP:
        table[row].outcome = BatchAction.REBUILD
    return _encode(buf, table, row, bitmap, now_ms, horizon_ms, out, position)


@kernel()
def _attributes(table: Table, row: int, count: int) -> int:
    attributes: int = table[row].attributes
    if count == 0:
        return attributes & _FLAGS_OF_EMPTY
    horizon = has_horizon(table, row) or table[row].outcome == BatchAction.STAMP
    return attributes & _FLAGS | (DELETE_HORIZON if horizon else 0)


@kernel(I64(OUTPUT, I64, I64, BATCHES, I64, I64, I64, I64))
def write_header(
    out: Bytes, position: int, size: int, table: Table, row: int, count: int, base: int, latest: int
) -> int:
    """Write a v2 header, CRC included, before the body that already lies at ``position + 61``.

    Args:
        out: where the batch lies.
        position: of the header.
        size: of the whole batch in bytes.
        table: the batch it was made from.
        row: in the table.
        count: records in it; 0 makes the empty batch: no codec, no horizon.
        base: base timestamp, or delete horizon; epoch ms.
        latest: max timestamp, epoch ms.

    Returns:
        OK, OUTPUT_FULL or BAD_SIZE (no valid size of a batch, or no such row).

    Source: Kafka DefaultRecordBatch#writeHeader, #writeEmptyHeader.
    """
    if size < HEADER_BYTES or size - 12 > _BATCH_BYTES_MAX or row < 0 or row >= table.size:
        return Status.BAD_SIZE
    if not has_room(out, position, size):
        return Status.OUTPUT_FULL
    batch = table[row]
    store_be64(out, position, batch.base_offset)
    store_be32(out, position + 8, size - 12)
    store_be32(out, position + 12, batch.leader_epoch)
    store_u8(out, position + 16, 2)
    store_be16(out, position + 21, _attributes(table, row, count))
    store_be32(out, position + 23, batch.last_offset - batch.base_offset)
    store_be64(out, position + 27, base)
    store_be64(out, position + 35, latest)
    store_be64(out, position + 43, batch.producer_id)
    store_be16(out, position + 51, batch.producer_epoch)
    store_be32(out, position + 53, batch.base_sequence)
    store_be32(out, position + 57, count)
    store_be32(out, position + 17, signed(checksum(out, position + 21, position + size)))
    return Status.OK


@kernel()
def _copy(buf: Bytes, table: Table, row: int, out: Bytes, position: int) -> int:
    batch = table[row]
    if batch.position < 0 or batch.size < HEADER_BYTES or batch.size > buf.size - batch.position:
        return Status.BAD_SIZE
    if not has_room(out, position, batch.size):
        return Status.OUTPUT_FULL
    copy_bytes(out, position, buf, batch.position, batch.size)
    return Status.OK


@kernel(inline=True)
def note(
    written: Table, rows: int, position: int, size: int, records: int, last_offset: int, latest: int
) -> int:  # fmt: skip
    """Note what was written, behind the first ``rows`` rows of ``written``. Return how many are in use then."""
    entry = written[rows]
    entry.position, entry.size, entry.records = position, size, records
    entry.last_offset, entry.max_timestamp = last_offset, latest
    return rows + 1


@kernel()
def note_written(
    table: Table, row: int, position: int, size: int, records: int, latest: int, written: Table, written_rows: int
) -> int:
    """Note a batch that was written. Return the rows of ``written`` in use."""
    return note(written, written_rows, position, size, records, table[row].last_offset, latest)


@kernel()
def _rebuild(
    buf: Bytes, table: Table, row: int, bitmap: Words, now_ms: int, horizon_ms: int, out: Bytes, position: int
) -> tuple[int, int, int, int]:
    """Rebuild one batch. Return its status, size, records and max timestamp."""
    status, end, kept, base, latest = encode_records(
        buf, table, row, bitmap, now_ms, horizon_ms, out, position + HEADER_BYTES
    )
    if status == Status.OK:
        status = write_header(out, position, end - position, table, row, kept, base, latest)
    return status, end - position, kept, latest


@kernel()
def write_batch(
    buf: Bytes, table: Table, row: int, bitmap: Words, now_ms: int, horizon_ms: int, out: Bytes, position: int
) -> tuple[int, int, int, int]:
    """Write one decided batch whose records, if it is rebuilt, lie plain in ``buf``.

    Returns:
        ``(status, size, records, max timestamp)``; a dropped batch has the size 0.
    """
    batch = table[row]
    if batch.outcome == BatchAction.DROP:
        return Status.OK, 0, 0, 0
    if batch.outcome == BatchAction.COPY:
        return _copy(buf, table, row, out, position), batch.size, batch.record_count, batch.max_timestamp
    if batch.outcome == BatchAction.EMPTY:
        status = write_header(out, position, HEADER_BYTES, table, row, 0, _NO_TIMESTAMP, batch.max_timestamp)
        return status, HEADER_BYTES, 0, batch.max_timestamp
    if batch.outcome == BatchAction.UNDECIDED:
        return Status.NEEDS_RECORDS, 0, 0, 0
    return _rebuild(buf, table, row, bitmap, now_ms, horizon_ms, out, position)
