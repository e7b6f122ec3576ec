"""A slice, chunk by chunk: batches verified, decompressed, and their records' fields located.

A batch that is damaged is one ``Damage`` among the chunks, in its place; reading goes on behind it. Where not even its
length can be believed, the offset index says where the next batch starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import decompress_batches, open_codecs
from storage.codecs.compression import Compression, decompress
from storage.errors import CorruptBatch, CorruptCompressedData, CorruptIndex
from storage.indexes import parse_offset_index
from storage.kernels.crc import first_bad_crc
from storage.kernels.layout import BATCH, CODEC_MASK, CONTROL, HEADER_BYTES, LOCATED_FIELDS, RECORD_BYTES_MIN
from storage.kernels.locate import locate_records
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.log_dir import read_file
from storage.records.header import ATTRIBUTE_TRANSACTIONAL
from storage.records.record import DECOMPRESSED_BYTES_MAX
from storage.scan.extents import Extent
from storage.scan.legacy_rows import LegacyMessages
from storage.scan.windows import WINDOW_BYTES, Window

ROWS_MAX: Final = 16_384
ARENA_BYTES: Final = 1 << 20
"""Decompressed bytes of which a chunk is made; a batch of more gets a buffer of its own."""

_CAUSES: Final = {
    Status.END_OF_BUFFER: "the file ends within a batch",
    Status.BAD_MAGIC: "unknown record format",
    Status.BAD_SIZE: "impossible batch length",
    Status.BAD_COUNT: "impossible record count",
    Status.BAD_OFFSETS: "offsets that go back or lie outside their batch",
    Status.BAD_VARINT: "a varint that does not end",
    Status.BAD_LENGTH: "a record that does not end where it says",
    Status.BAD_HEADERS: "record headers that do not parse",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of some batches, valid until the next chunk is taken."""

    buf: Bytes
    """What the located fields index."""
    table: Table
    """``layout.BATCH``; the ``ROW`` of a record indexes it."""
    located: Integers
    """``layout.LOCATED_FIELDS`` by records."""
    file_position: int
    """What a row's ``position`` counts from."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A batch that cannot be read."""

    error: CorruptBatch
    base_offset: int | None
    """As its header says; None where there is no header to believe."""


class SliceReader:
    """Reads one slice, once."""

    def __init__(self, slice_: Extent, window: Window, *, with_control: bool) -> None:
        """Prepare buffers.

        Args:
            slice_: what to read.
            window: of its file.
            with_control: whether control batches are read, too.
        """
        self._slice, self._window, self._with_control = slice_, window, with_control
        self._table = np.zeros(ROWS_MAX, BATCH)
        self._arena = np.empty(ARENA_BYTES, np.uint8)
        self._located = np.empty((LOCATED_FIELDS, 0), np.int64)
        self._codecs = open_codecs()

    def chunks(self) -> Iterator[Chunk | Damage]:
        """The records of the slice in their order. Raises: UnreadableFile."""
        slice_ = self._slice
        position, next_offset, window_bytes = slice_.start, slice_.base_offset, WINDOW_BYTES
        while position < slice_.end and next_offset < slice_.offsets.end:
            end = min(position + window_bytes, slice_.end)
            buf = self._window.read(position, end)
            status, rows, stopped, next_offset, _ = scan_batches(buf, 0, buf.size, next_offset, 0, self._table)
            if rows:
                good = self._verified(buf, rows)
                yield from self._read_batches(buf, self._table[:good], position)
                if good < rows:
                    stopped, next_offset = self._behind(good)
                    yield self._damage(self._table, good, position, "CRC-32C mismatch")
            elif status == Status.LEGACY_MAGIC:
                messages = LegacyMessages(buf, position, slice_.path, next_offset)
                yield from self._read_legacy(messages)
                stopped, next_offset, status = messages.stopped, messages.next_offset, messages.status
            if stopped:
                position, window_bytes = position + stopped, WINDOW_BYTES
            elif status == Status.END_OF_BUFFER and end < slice_.end:
                window_bytes *= 2
            else:
                behind = self._next_indexed(position)
                cause = f"{_CAUSES[Status(status)]}; what follows up to byte {behind} cannot be told apart"
                yield Damage(CorruptBatch(slice_.path, position, cause), None)
                position = behind

    def _verified(self, buf: Bytes, rows: int) -> int:
        """How many rows come before the first with a wrong CRC."""
        bad = int(first_bad_crc(buf, self._table, 0, rows))
        return rows if bad < 0 else bad

    def _behind(self, row: int) -> tuple[int, int]:
        """Where reading goes on behind a damaged row, and the least offset there: its own word is not taken."""
        behind = int(self._table["position"][row] + self._table["size"][row])
        return behind, int(self._table["last_offset"][row - 1]) + 1 if row else self._slice.base_offset

    def _next_indexed(self, position: int) -> int:
        """The next place where the offset index has a batch start, else the slice's end."""
        path = self._slice.path.with_suffix(".index")
        try:
            entries = parse_offset_index(read_file(path) or b"", self._slice.base_offset, path)
        except CorruptIndex:
            entries = []
        found = (entry.position for entry in entries if entry.position > position)
        return min(next(found, self._slice.end), self._slice.end)

    def _damage(self, table: Table, row: int, file_position: int, cause: str) -> Damage:
        error = CorruptBatch(self._slice.path, file_position + int(table["position"][row]), cause)
        return Damage(error, int(table["base_offset"][row]))

    def _read_legacy(self, messages: LegacyMessages) -> Iterator[Chunk | Damage]:
        slice_ = self._slice
        buf, table, located = messages.read(slice_.offsets.start, slice_.offsets.end)
        if located.shape[1]:
            yield Chunk(buf, table, located, messages.file_position)
        if messages.damage is not None:
            yield Damage(messages.damage, None)

    def _read_batches(self, buf: Bytes, table: Table, file_position: int) -> Iterator[Chunk | Damage]:
        wanted = table[self._is_wanted(table)]
        compressed = (wanted["attributes"] & CODEC_MASK) != 0
        row = 0
        while row < wanted.size:
            end = _end_of_run(compressed, row)
            if not compressed[row]:
                yield from self._locate(buf, wanted[row:end], file_position)
                row = end
                continue
            _, filled, _ = decompress_batches(buf, wanted, row, end, self._arena, 0, self._codecs.words, False)
            if filled > row:
                yield from self._locate(self._arena, wanted[row:filled], file_position)
                row = filled  # a row that stopped it comes first in the next call, and is told on there
                continue
            yield from self._read_alone(buf, wanted[row : row + 1], file_position)
            row += 1

    def _read_alone(self, buf: Bytes, table: Table, file_position: int) -> Iterator[Chunk | Damage]:
        """One batch by the readable codecs, which have the last word."""
        start, size = int(table["position"][0]) + HEADER_BYTES, int(table["size"][0]) - HEADER_BYTES
        codec = int(table["attributes"][0]) & CODEC_MASK
        if codec > max(Compression):
            yield self._damage(table, 0, file_position, f"unknown compression codec {codec}")
            return
        try:
            plain = decompress(Compression(codec), buf[start : start + size].data, DECOMPRESSED_BYTES_MAX)
        except CorruptCompressedData as error:
            yield self._damage(table, 0, file_position, str(error))
            return
        if table["record_count"][0] * RECORD_BYTES_MIN > len(plain):
            yield self._damage(table, 0, file_position, _CAUSES[Status.BAD_COUNT])
            return
        table["records_start"], table["records_end"] = 0, len(plain)
        yield from self._locate(np.frombuffer(plain, np.uint8), table, file_position)

    def _locate(self, buf: Bytes, table: Table, file_position: int) -> Iterator[Chunk | Damage]:
        offsets, row = self._slice.offsets, 0
        records_max = int(table["record_count"].sum(dtype=np.int64))
        if self._located.shape[1] < records_max:
            self._located = np.empty((LOCATED_FIELDS, records_max), np.int64)
        while row < table.size:
            status, bad, records = locate_records(
                buf, table, row, table.size, offsets.start, offsets.end, self._located.reshape(-1), 0
            )
            if records:
                yield Chunk(buf, table, self._located[:, :records], file_position)
            if status != Status.OK:
                yield self._damage(table, bad, file_position, _CAUSES[Status(status)])
            row = bad + 1

    def _is_wanted(self, table: Table) -> npt.NDArray[np.bool_]:
        """By the headers alone: what is not, is not decompressed."""
        slice_ = self._slice
        wanted: npt.NDArray[np.bool_] = table["record_count"] > 0
        wanted &= (table["last_offset"] >= slice_.offsets.start) & (table["base_offset"] < slice_.offsets.end)
        if slice_.since_ms is not None:
            wanted &= table["max_timestamp"] >= slice_.since_ms
        if not self._with_control:
            wanted &= (table["attributes"] & CONTROL) == 0
        for txn in slice_.aborted:
            is_within = (table["base_offset"] >= txn.first_offset) & (table["last_offset"] < txn.last_offset)
            is_of_it = (table["producer_id"] == txn.producer_id) & (table["attributes"] & ATTRIBUTE_TRANSACTIONAL != 0)
            wanted &= ~(is_within & is_of_it)
        return wanted


def _end_of_run(flags: npt.NDArray[np.bool_], row: int) -> int:
    """First row from ``row`` on with another flag than it."""
    others = np.flatnonzero(flags[row:] != flags[row])
    return row + int(others[0]) if others.size else flags.size
