"""The decision about each batch: drop, copy, empty or rebuild it. This module writes nothing.

The header and the bitmap suffice for most batches; the records are walked only if a tombstone may matter. So a caller
can copy runs of COPY from file to file, and decompresses only batches that are UNDECIDED or rebuilt.
"""

from __future__ import annotations

from storage.arrays import Bytes, Table, Words
from storage.kernels.bitmap import count_bits, get_bit, holds
from storage.kernels.layout import BATCHES, DELETE_HORIZON, NOT_HERE
from storage.kernels.records import check_payload, parse_record
from storage.kernels.status import BatchAction, BatchFate, Status
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, WORDS_READ, integers


@kernel()
def has_horizon(table: Table, row: int) -> bool:
    """Return whether the batch's base timestamp is its delete horizon (KIP-534)."""
    return bool(table[row].attributes & DELETE_HORIZON)


@kernel()
def drops_tombstones(table: Table, row: int, now_ms: int) -> bool:
    """Return whether the batch has a delete horizon that has come. Source: Kafka Cleaner#shouldRetainRecord."""
    return has_horizon(table, row) and table[row].base_timestamp <= now_ms


@kernel()
def keeps(bitmap: Words, ordinal: int, value_length: int, without_tombstones: bool) -> bool:
    """Return whether a record of a batch without a special fate stays."""
    return get_bit(bitmap, ordinal) and not (without_tombstones and value_length < 0)


@kernel()
def _survey(buf: Bytes, table: Table, row: int, bitmap: Words, now_ms: int) -> tuple[int, int, int]:
    """Return status, number of records kept, and of tombstones among them. The bitmap holds the batch."""
    batch = table[row]
    status = check_payload(buf, table, row)
    if status != Status.OK:
        return status, 0, 0
    without_tombstones = drops_tombstones(table, row, now_ms)
    position, delta, delta_max = batch.records_start, -1, batch.last_offset - batch.base_offset
    kept, tombstones = 0, 0
    for ordinal in range(batch.first_ordinal, batch.first_ordinal + batch.record_count):
        status, position, _, _, delta, _, _, value_length = parse_record(
            buf, position, batch.records_end, delta, delta_max
        )
        if status != Status.OK:
            return status, 0, 0
        if keeps(bitmap, ordinal, value_length, without_tombstones):
            kept += 1
            tombstones += value_length < 0
    if position != batch.records_end:
        return Status.BAD_LENGTH, 0, 0
    return Status.OK, kept, tombstones


@kernel()
def _by_records(  # noqa: PLR0911  (a table of cases)
    buf: Bytes, table: Table, row: int, bitmap: Words, now_ms: int
) -> tuple[int, int]:
    """Return status and outcome of a batch whose records the bitmap decides on."""
    batch = table[row]
    first, count = batch.first_ordinal, batch.record_count
    when_empty = BatchAction.EMPTY if batch.fate == BatchFate.RETAIN_EMPTY else BatchAction.DROP
    if not holds(bitmap, first, count):
        return Status.BITMAP_SHORT, when_empty
    marked = count_bits(bitmap, first, first + count)
    if marked == 0:
        return Status.OK, when_empty
    if batch.tombstones == 0:
        return Status.OK, BatchAction.COPY if marked == count else BatchAction.REBUILD
    if batch.records_start == NOT_HERE:
        return Status.OK, BatchAction.UNDECIDED
    status, kept, tombstones = _survey(buf, table, row, bitmap, now_ms)
    if kept == 0:
        return status, when_empty
    if tombstones and not has_horizon(table, row):
        return status, BatchAction.STAMP
    return status, BatchAction.COPY if kept == count else BatchAction.REBUILD


@kernel()
def _decide(buf: Bytes, table: Table, row: int, bitmap: Words, now_ms: int) -> tuple[int, int]:
    fate = table[row].fate
    if fate == BatchFate.KEEP:
        return Status.OK, BatchAction.COPY
    if fate == BatchFate.KEEP_STAMPED:  # without a record no horizon is needed
        return Status.OK, BatchAction.STAMP if table[row].record_count else BatchAction.EMPTY
    if fate == BatchFate.DISCARD:
        return Status.OK, BatchAction.DROP
    if fate == BatchFate.DISCARD_RETAIN_EMPTY:
        return Status.OK, BatchAction.EMPTY
    return _by_records(buf, table, row, bitmap, now_ms)


@kernel(integers(2)(BYTES, BATCHES, I64, I64, WORDS_READ, I64))
def decide_batches(buf: Bytes, table: Table, first: int, last: int, bitmap: Words, now_ms: int) -> tuple[int, int]:
    """Fill ``outcome`` of ``table[first:last]`` from fate, bitmap, tombstones and delete horizon.

    A compressed batch that may hold tombstones is UNDECIDED: decompress it, set ``records_start`` and
    ``records_end``, and decide it again with the buffer that holds its records.

    Returns:
        ``(status, row)``: OK and ``last``, else the fault of ``row``.

    Source: Kafka MemoryRecords#filterTo, Cleaner#shouldRetainRecord.
    """
    for row in range(max(first, 0), min(last, table.size)):
        status, outcome = _decide(buf, table, row, bitmap, now_ms)
        if status != Status.OK:
            return status, row
        table[row].outcome = outcome
    return Status.OK, last
