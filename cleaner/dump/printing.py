"""Batches and records printed by the kernels: many at a call.

The kernels leave to Python what they do not print: control records of KRaft, in JSON every control record, and batches
whose records cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cleaner.dump.json_lines import JsonDumpLines
from cleaner.dump.options import DumpOptions, PlainDecoder
from cleaner.dump.stored import Stored, StoredRecord
from cleaner.dump.text import TextLines
from storage.arrays import Bytes, Integers, Table
from storage.errors import CorruptBatch
from storage.kernels.layout import (
    CONTROL,
    HEADERS_AT,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    LOCATED_FIELDS,
    OFFSET,
    ROW,
    TIMESTAMP,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.kernels.locate import locate_records
from storage.kernels.status import Status
from storage.printing.lines import print_lines
from storage.printing.vocabulary import JSON_WORDS, TEXT_WORDS, Print
from storage.records import Record
from storage.records.v2 import decode_headers, sequence_after
from storage.scan.arena import Arena
from storage.scan.as_stored import StoredBatch, StoredRows
from storage.scan.selected import INT64_MAX, INT64_MIN
from storage.scan.slices import CAUSES

OUT_BYTES: Final = 4 << 20
_ARENA_BYTES: Final = 1 << 20
_NOTHING: Final = np.empty(0, np.int64)
_NO_BYTES: Final = np.empty(0, np.uint8)


class Printed(NamedTuple):
    """Lines, valid until the next ones are taken."""

    text: Bytes


class ReadOffsets(NamedTuple):
    """The offsets of the records of some batches."""

    offsets: Integers


class _Part(NamedTuple):
    """Batches whose records were located."""

    rows: StoredRows
    buf: Bytes
    table: Table
    is_valid: Bytes
    located: Integers
    records: int
    row: int
    """The first of the table that is printed."""
    first: int
    """The place of the table's first row among all rows."""


def may_print(options: DumpOptions) -> bool:
    """Return whether the kernels can print what the options ask for."""
    plain = PlainDecoder.STRING
    return (options.decoder, options.key_decoder, options.value_decoder) == (None, plain, plain)


class RowPrinter:
    """The buffers and options of one reading."""

    def __init__(self, options: DumpOptions, lines: TextLines | JsonDumpLines) -> None:
        """Prepare to print. ``lines`` makes the lines of the records that the kernel leaves to Python."""
        self._options, self._lines, self._selection = options, lines, options.selection
        is_json = isinstance(lines, JsonDumpLines)
        self._flags = _flags(options) | (Print.JSON | Print.METADATA if is_json else 0)
        self._words = JSON_WORDS if is_json else TEXT_WORDS
        self._splits = options.shows_headers and not is_json
        self._out = np.empty(OUT_BYTES, np.uint8)
        self._located = np.empty((LOCATED_FIELDS, 0), np.int64)
        self._arena = Arena(_ARENA_BYTES) if options.reads_records else None

    def print(self, rows: StoredRows) -> Iterator[Printed | ReadOffsets | StoredBatch | CorruptBatch]:
        """Print some batches.

        A batch comes back if Python has to read it, and an error for a record that cannot be read.
        """
        table = rows.slice.table
        if self._arena is None:
            is_valid = rows.is_valid.view(np.uint8)
            yield from self._printed(_Part(rows, _NO_BYTES, table, is_valid, _NOTHING, 0, 0, 0))
            return
        is_pythons = (table["attributes"] & CONTROL != 0) & (table["producer_id"] < 0)
        is_left_out = ~self._selection.batches_taken(table)
        row = 0
        while row < table.size:
            if is_left_out[row]:
                row += 1
            elif is_pythons[row]:
                yield _batch(rows, row)
                row += 1
            else:
                last = row + _first(is_pythons[row:] | is_left_out[row:])
                yield from self._read(rows, row, last)
                row = last

    def _read(
        self, rows: StoredRows, row: int, last: int
    ) -> Iterator[Printed | ReadOffsets | StoredBatch | CorruptBatch]:
        """Decompress and print some batches."""
        assert self._arena is not None
        while row < last:
            try:
                for run in self._arena.runs(rows.slice, row, last):
                    yield from self._located_and_printed(rows, run.buf, run.first, run.last)
                    row = run.last
            except CorruptBatch:
                yield _batch(rows, row)
                row += 1

    def _located_and_printed(
        self, rows: StoredRows, buf: Bytes, first: int, last: int
    ) -> Iterator[Printed | ReadOffsets | StoredBatch | CorruptBatch]:
        table, row = rows.slice.table[first:last], 0
        is_valid = rows.is_valid[first:last].view(np.uint8)
        records_max = int(table["record_count"].sum(dtype=np.int64))
        if self._located.shape[1] < records_max:
            self._located = np.empty((LOCATED_FIELDS, records_max), np.int64)
        while row < table.size:
            flat = self._located.reshape(-1)
            status, bad, records = locate_records(buf, table, row, table.size, INT64_MIN, INT64_MAX, flat, 0)
            yield from self._chosen(_Part(rows, buf, table[:bad], is_valid[:bad], flat, records, row, first))
            if status != Status.OK:
                yield _batch(rows, first + bad)
            row = bad + 1

    def _chosen(self, part: _Part) -> Iterator[Printed | ReadOffsets | StoredBatch | CorruptBatch]:
        if self._selection.takes_all:
            yield from self._printed(part)
            yield ReadOffsets(self._located[OFFSET, : part.records])
            return
        is_taken = self._selection.records_taken(part.buf, self._located[:, : part.records])
        if not is_taken.all():
            some = np.ascontiguousarray(self._located[:, : part.records][:, is_taken])
            part = part._replace(located=some.reshape(-1), records=some.shape[1])
        yield from self._split(part) if self._splits else self._printed(part)

    def _split(self, part: _Part) -> Iterator[Printed | StoredBatch | CorruptBatch]:
        """Print a part; the batches with headers, which the kernel does not print, come back for Python to read."""
        located = part.located.reshape(LOCATED_FIELDS, -1)[:, : part.records]
        rows = located[ROW]
        for row in [*np.unique(rows[located[HEADERS_BYTES] > 1]).tolist(), None]:
            end = part.table.size if row is None else row
            some = np.ascontiguousarray(located[:, (rows >= part.row) & (rows < end)])
            before = part._replace(table=part.table[:end], is_valid=part.is_valid[:end])
            yield from self._printed(before._replace(located=some.reshape(-1), records=some.shape[1]))
            if row is not None:
                yield _batch(part.rows, part.first + row)
                part = part._replace(row=row + 1)

    def _printed(self, part: _Part) -> Iterator[Printed | StoredBatch | CorruptBatch]:
        row, place = part.row, 0
        while True:
            status, row, place, filled = print_lines(
                part.buf, part.table, part.is_valid, part.located, part.records, self._words, self._flags,
                part.rows.slice.file_position, row, place, self._out,
            )  # fmt: skip
            if filled:
                yield Printed(self._out[:filled])
            if status == Status.OK:
                return
            if status != Status.OUTPUT_FULL:
                yield self._line_of(part, place, status)
                place += 1
            elif not filled:
                self._out = np.empty(2 * self._out.size, np.uint8)

    def _line_of(self, part: _Part, place: int, status: int) -> Printed | CorruptBatch:
        """Return the line of a record that the kernel does not print."""
        fields = [
            int(part.located[field * (part.located.size // LOCATED_FIELDS) + place]) for field in range(LOCATED_FIELDS)
        ]
        row = fields[ROW]
        found = part.rows.slice
        position, size = int(part.table["position"][row]), int(part.table["size"][row])
        batch = Stored.parse(found.buf[position : position + size].data, found.path, found.file_position + position)
        if status != Status.NEEDS_PYTHON:
            return CorruptBatch(found.path, batch.position, CAUSES[Status(status)])
        try:
            line = self._lines.record(batch, StoredRecord(_record(part.buf, fields, batch), None))
        except CorruptBatch as error:
            return error
        return Printed(np.frombuffer(f"{line}\n".encode(), np.uint8))


def _flags(options: DumpOptions) -> int:
    flags = Print.BATCHES
    if options.selection.takes_all:
        flags |= Print.ALL_BATCHES
    if options.shows_records:
        flags |= Print.RECORDS
    if not options.skip_record_metadata:
        flags |= Print.METADATA
    if options.shows_contents:
        flags |= Print.CONTENTS
    if options.hides_keys:
        flags |= Print.HIDE_KEYS
    if options.hides_values:
        flags |= Print.HIDE_VALUES
    return int(flags)


def _batch(rows: StoredRows, row: int) -> StoredBatch:
    found = rows.slice
    position, size = int(found.table["position"][row]), int(found.table["size"][row])
    return StoredBatch(found.file_position + position, found.buf[position : position + size].data)


def _first(flags: npt.NDArray[np.bool_]) -> int:
    """Return the first place that is set, else the size."""
    return int(flags.argmax()) if flags.any() else flags.size


def _record(buf: Bytes, fields: list[int], batch: Stored) -> Record:
    """Return the record that was located."""
    data, headers_at = buf.data, fields[HEADERS_AT]
    headers, _ = decode_headers(data, headers_at, headers_at + fields[HEADERS_BYTES])
    header, offset = batch.header, fields[OFFSET]
    return Record(
        offset,
        fields[TIMESTAMP],
        _field(data, fields[KEY_AT], fields[KEY_BYTES]),
        _field(data, fields[VALUE_AT], fields[VALUE_BYTES]),
        headers,
        sequence_after(header.base_sequence, offset - batch.base_offset),
    )


def _field(data: memoryview, at: int, size_bytes: int) -> bytes | None:
    return None if size_bytes < 0 else bytes(data[at : at + size_bytes])
