"""The records of neighbouring batches, written as those of one batch.

A record tells its offset and its timestamp as distances from those of its batch. Both are written anew, with the length
in front of them; everything else of a record keeps its bytes.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Table
from storage.kernels.layout import BATCHES
from storage.kernels.rebuild import has_room
from storage.kernels.records import check_payload, parse_record, read_varint, varlong_size, write_varlong
from storage.kernels.status import Status
from storage.machine.intrinsics import copy_bytes, load_u8, store_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, OUTPUT, integers

_DELTA_MAX: Final = 2**31 - 1
_RECORD_OVERHEAD_MAX: Final = 5 + 1 + 10 + 5  # length, attributes, timestamp delta, offset delta


@kernel()
def _merge_row(
    buf: Bytes, table: Table, row: int, base_offset: int, base_timestamp: int, out: Bytes, position: int
) -> tuple[int, int]:
    """Write the records of one checked row. Return the status and the next position."""
    batch = table[row]
    offsets, times = batch.base_offset - base_offset, batch.base_timestamp - base_timestamp
    delta_max = batch.last_offset - batch.base_offset
    if offsets < 0 or delta_max < 0 or offsets > _DELTA_MAX - delta_max:
        return Status.BAD_OFFSETS, position
    at, delta = batch.records_start, -1
    for _ in range(batch.record_count):
        start = at
        status, at, timestamp_delta, at_offset, delta, _, _, _ = parse_record(
            buf, start, batch.records_end, delta, delta_max
        )
        if status != Status.OK:
            return status, position
        _, at_key = read_varint(buf, at_offset, at)
        rest = at - at_key
        if not has_room(out, position, rest + _RECORD_OVERHEAD_MAX):
            return Status.OUTPUT_FULL, position
        time, offset = times + timestamp_delta, offsets + delta
        position = write_varlong(out, position, 1 + varlong_size(time) + varlong_size(offset) + rest)
        while load_u8(buf, start) >= 0x80:
            start += 1
        store_u8(out, position, load_u8(buf, start + 1))
        position = write_varlong(out, position + 1, time)
        position = write_varlong(out, position, offset)
        copy_bytes(out, position, buf, at_key, rest)
        position += rest
    return (Status.OK if at == batch.records_end else Status.BAD_LENGTH), position


@kernel(integers(3)(BYTES, BATCHES, I64, I64, I64, I64, OUTPUT, I64))
def merge_records(
    buf: Bytes, table: Table, first: int, last: int, base_offset: int, base_timestamp: int, out: Bytes, position: int
) -> tuple[int, int, int]:
    """Write the records of ``table[first:last]``, without headers, as records of one batch.

    A caller compresses them and calls ``write_header``. ``out`` never overlaps ``buf``.

    Args:
        buf: holds the plain records of the rows, where ``records_start`` and ``records_end`` say.
        table: ascending offsets.
        first: row to begin with.
        last: row to end before.
        base_offset: of the one batch; at most that of the first row.
        base_timestamp: of the one batch, epoch ms; its delete horizon if it has one.
        out: room for the records, and 21 bytes more for each than it takes.
        position: where to begin.

    Returns:
        ``(status, row, position)``: ``row`` is the first not written, ``out`` is valid up to ``position``. OUTPUT_FULL:
        make room, go on with ``row``. NEEDS_RECORDS: ``row`` must be decompressed first.

    Source: Kafka DefaultRecord#writeTo.
    """
    for row in range(max(first, 0), min(last, table.size)):
        status = check_payload(buf, table, row)
        if status != Status.OK:
            return status, row, position
        status, end = _merge_row(buf, table, row, base_offset, base_timestamp, out, position)
        if status != Status.OK:
            return status, row, position
        position = end
    return Status.OK, last, position
