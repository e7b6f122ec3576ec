"""The printing kernels check every place and length that they are handed, and fill no more than their buffer."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pytest

from storage.arrays import Bytes
from storage.kernels.layout import (
    BATCH,
    HEADERS_AT,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    LOCATED_FIELDS,
    ROW,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.kernels.locate import locate_records
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.printing.lines import print_lines
from storage.printing.vocabulary import JSON_WORDS, TEXT_WORDS, Print
from storage.records import Record, encode_batch

ALL: Final = Print.BATCHES | Print.ALL_BATCHES | Print.RECORDS | Print.METADATA | Print.CONTENTS
BEYOND: Final = 1 << 40
FORMATS: Final = pytest.mark.parametrize("form", [Print(0), Print.JSON], ids=["text", "json"])


class Log:
    """Two batches, located."""

    def __init__(self) -> None:
        records = [Record(place, 7, b"key", b"value", ((b"h", b"x"),)) for place in range(3)]
        self.buf = np.frombuffer(encode_batch(records[:2]) + encode_batch(records[2:]), np.uint8)
        self.table = np.zeros(2, BATCH)
        scan_batches(self.buf, 0, self.buf.size, 0, 0, self.table)
        self.located = np.empty((LOCATED_FIELDS, 3), np.int64)
        assert locate_records(self.buf, self.table, 0, 2, 0, 9, self.located.reshape(-1), 0) == (Status.OK, 2, 3)

    def print(self, form: Print, out: Bytes, row: int = 0, place: int = 0) -> Any:
        is_valid = np.ones(2, np.uint8)
        flat, words = self.located.reshape(-1), JSON_WORDS if form else TEXT_WORDS
        return print_lines(self.buf, self.table, is_valid, flat, 3, words, int(ALL | form), 0, row, place, out)


@FORMATS
def test_batches_and_records_in_their_order(form: Print) -> None:
    out = np.empty(1 << 16, np.uint8)
    status, row, place, filled = Log().print(form, out)
    assert (status, row, place) == (Status.OK, 2, 3)
    starts = [line[:8] for line in bytes(out[:filled]).splitlines()]
    batch, record = (b"baseOffs", b"| offset") if not form else (b'{"type":', b'{"type":')
    assert starts == [batch, record, record, batch, record]


@FORMATS
@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        (KEY_AT, BEYOND, Status.BAD_LENGTH),
        (KEY_AT, -1, Status.BAD_LENGTH),
        (KEY_BYTES, BEYOND, Status.BAD_LENGTH),
        (VALUE_AT, BEYOND, Status.BAD_LENGTH),
        (VALUE_BYTES, BEYOND, Status.BAD_LENGTH),
        (HEADERS_AT, BEYOND, Status.BAD_HEADERS),
        (HEADERS_AT, -1, Status.BAD_HEADERS),
        (HEADERS_BYTES, BEYOND, Status.BAD_HEADERS),
        (HEADERS_BYTES, 0, Status.BAD_HEADERS),
        (HEADERS_BYTES, 2, Status.BAD_HEADERS),  # cut short
        (ROW, 2, Status.BAD_OFFSETS),
        (ROW, -1, Status.BAD_OFFSETS),
    ],
)
def test_a_field_that_does_not_lie_in_the_buffer_is_a_status(
    form: Print, field: int, value: int, status: Status
) -> None:
    log, out = Log(), np.empty(1 << 16, np.uint8)
    log.located[field, 1] = value
    assert log.print(form, out)[0] == status


@FORMATS
@pytest.mark.parametrize("size_bytes", [0, 1, 1023, 1024, 1500, 3000])
def test_a_small_buffer_is_never_overrun_and_all_comes_out_in_pieces(form: Print, size_bytes: int) -> None:
    log, whole = Log(), np.empty(1 << 16, np.uint8)
    *_, filled = log.print(form, whole)
    guarded = np.full(size_bytes + 64, 0xEE, np.uint8)
    pieces, row, place, status = bytearray(), 0, 0, int(Status.OUTPUT_FULL)
    while status == Status.OUTPUT_FULL:
        status, row, place, piece = log.print(form, guarded[:size_bytes], row, place)
        pieces += bytes(guarded[:piece])
        assert (guarded[size_bytes:] == 0xEE).all()
        if not piece and status == Status.OUTPUT_FULL:
            return  # the caller takes a larger one
    assert bytes(pieces) == bytes(whole[:filled])


@pytest.mark.parametrize("number", [0, 9, 10, -1, 1 << 31, (1 << 63) - 1, -1 << 63, 10**18, 10**18 - 1])
def test_every_digit_of_a_number(number: int) -> None:
    log, out = Log(), np.empty(1 << 16, np.uint8)
    log.table["max_timestamp"][0] = number
    *_, filled = log.print(Print.JSON, out)
    assert json.loads(bytes(out[:filled]).splitlines()[0])["maxTimestamp"] == number
