"""Batches and records as lines: the walk over both, which asks for one line after the other."""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Bytes, Integers, Table
from storage.kernels.layout import BATCHES, LOCATED_FIELDS, ROW
from storage.kernels.status import Status
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, OUTPUT, Array, integers
from storage.printing.flags import Print
from storage.printing.json_lines import put_json_batch, put_json_record
from storage.printing.rows import BATCH_BYTES_MAX, check_record, record_room
from storage.printing.text_lines import put_text_batch, put_text_record

_LOCATED: Final = Array(np.dtype(np.int64), is_readonly=True)
_BATCHES_FLAG: Final = int(Print.BATCHES)
_ALL_FLAG: Final = int(Print.ALL_BATCHES)
_RECORDS_FLAG: Final = int(Print.RECORDS)
_JSON_FLAG: Final = int(Print.JSON)


@kernel()
def _put_batch(out: Bytes, at: int, table: Table, row: int, is_valid: int, file_position: int, flags: int) -> int:
    if flags & _JSON_FLAG:
        return put_json_batch(out, at, table, row, is_valid, file_position)
    return put_text_batch(out, at, table, row, is_valid, file_position)


@kernel()
def _put_record(
    out: Bytes, at: int, buf: Bytes, table: Table, located: Integers, place: int, flags: int
) -> tuple[int, int]:
    """Return status and the next position, which counts only if the status is OK."""
    if flags & _JSON_FLAG:
        return put_json_record(out, at, buf, table, located, place, flags)
    return put_text_record(out, at, buf, table, located, place, flags)


@kernel(integers(4)(BYTES, BATCHES, BYTES, _LOCATED, I64, I64, I64, I64, I64, OUTPUT))
def print_lines(
    buf: Bytes,
    table: Table,
    is_valid: Bytes,
    located: Integers,
    records: int,
    flags: int,
    file_position: int,
    row: int,
    place: int,
    out: Bytes,
) -> tuple[int, int, int, int]:
    """Print batches and records, as text or (flag ``JSON``) as JSON.

    Args:
        buf: what ``located`` indexes.
        table: the batches, of version 2.
        is_valid: a byte for each batch: whether its checksum agrees.
        located: the records, as ``locate_records`` notes them, in the order of their batches.
        records: how many there are.
        flags: of ``Print``.
        file_position: what a row's ``position`` counts from.
        row: the first batch to print.
        place: the first record to print.
        out: receives the lines.

    Returns:
        ``(status, row, place, filled)``: where to go on, and the bytes of ``out`` that are filled. OK: all is printed.
        OUTPUT_FULL: call again with an empty buffer, and with a larger one if nothing was filled. NEEDS_PYTHON: the
        kernel does not print the record at ``place``. Others: what is wrong with it.
    """
    at, room = 0, located.size // LOCATED_FIELDS
    records, row, place = min(records, room), max(row, 0), max(place, 0)
    while True:
        if place < records:
            status = check_record(buf, table, located, place)
            if status != Status.OK:
                return status, row, place, at
            behind = located[ROW * room + place] + 1
        else:
            behind = table.size if flags & _ALL_FLAG else row
        if row < behind:
            row = row if flags & _ALL_FLAG else behind - 1
            if flags & _BATCHES_FLAG and row < is_valid.size:
                if out.size - at < BATCH_BYTES_MAX:
                    return Status.OUTPUT_FULL, row, place, at
                at = _put_batch(out, at, table, row, is_valid[row], file_position, flags)
            row += 1
        elif place == records:
            return Status.OK, row, place, at
        else:
            if flags & _RECORDS_FLAG:
                if out.size - at < record_room(located, place):
                    return Status.OUTPUT_FULL, row, place, at
                status, after = _put_record(out, at, buf, table, located, place, flags)
                if status != Status.OK:
                    return status, row, place, at
                at = after
            place += 1
