"""Slices, which are the batches of one window, and the damage that a reader of batches reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from storage.arrays import Bytes, Integers, Table
from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.kernels.crc import first_bad_crc
from storage.kernels.layout import CODEC_MASK, WRITTEN
from storage.kernels.status import Status
from storage.records import Batch, LegacyBatch, parse_header
from storage.scan.legacy_rows import legacy_batch, listed

CAUSES: Final = {
    Status.END_OF_BUFFER: "the file ends within a batch",
    Status.BAD_MAGIC: "unknown record format",
    Status.BAD_SIZE: "impossible batch length",
    Status.BAD_COUNT: "impossible record count",
    Status.BAD_OFFSETS: "offsets that go back or lie outside their batch",
    Status.BAD_VARINT: "a varint that does not end",
    Status.BAD_LENGTH: "a record that does not end where it says",
    Status.BAD_CRC: "CRC-32C mismatch",
    Status.BAD_HEADERS: "record headers that do not parse",
}


class Checksums(Enum):
    """The ones who verify the checksums of a slice."""

    ON_READ = auto()
    """The reader, before it hands the slice out."""
    BY_CALLER = auto()
    """The reader verifies v0 and v1 messages as it reads them.

    The caller verifies v2 batches, once a round, before it uses a byte of them.
    """
    DONE = auto()
    """Nobody: an earlier walk did."""


class Damage(NamedTuple):
    """A batch that cannot be read, or the bytes up to the next batch start that the offset index knows."""

    error: CorruptBatch
    base_offset: int | None
    """The base offset in the header of the batch; None if the header cannot be believed."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The batches of one window, as rows of a table."""

    buf: Bytes
    """The window that the rows of ``table`` index."""
    file_position: int
    """The position of ``buf[0]`` in the file."""
    table: Table
    """``layout.BATCH``."""
    first_row: int
    """The place of ``table[0]`` among the segment's batches."""
    path: Path
    keys: Bytes | None = None
    """For a slice of v0 and v1 messages: the buffer with the parts that were read."""
    located: Integers | None = None
    """For a slice of v0 and v1 messages that were read with their values: ``layout.LOCATED_FIELDS`` by records."""
    is_shared: bool = False
    """For a slice of v0 and v1 messages: whether several messages may share a row."""

    @property
    def is_legacy(self) -> bool:
        """Return whether the slice holds v0 and v1 messages; no slice holds both these and v2 batches."""
        return self.keys is not None

    @property
    def is_plain(self) -> bool:
        """Return whether the slice holds v2 batches, none of them compressed."""
        return not self.is_legacy and not (self.table["attributes"] & CODEC_MASK).any()

    def legacy_batch(self, row: int) -> LegacyBatch:
        """Return the message, or wrapper, of a row."""
        return legacy_batch(self.buf, int(self.table["position"][row]), self.path, self.file_position)

    def v2_batch(self, row: int) -> Batch:
        """Return the v2 batch of a row, for Python to read. Raises: CorruptBatch."""
        position, size = int(self.table["position"][row]), int(self.table["size"][row])
        header = parse_header(self.buf.data, position, self.path, self.file_position)
        return Batch(header, self.buf[position : position + size].data, self.path, self.file_position + position)

    def verify(self, first: int, last: int) -> None:
        """Check the CRC-32C of some rows: of v2 batches; older messages are checked as they are read.

        Raises: CorruptBatch.
        """
        if self.is_legacy:
            return
        bad = first_bad_crc(self.buf, self.table, first, last)
        if bad >= 0:
            raise self.fail(Status.BAD_CRC, bad)

    def written(self) -> Table:
        """Return the batches as ``layout.WRITTEN``: what an index is told if each is written where it lies."""
        if self.is_shared:
            return listed(self.buf, self.table)
        written = np.zeros(self.table.size, WRITTEN)
        for name in ("position", "size", "last_offset", "max_timestamp"):
            written[name] = self.table[name]
        written["records"] = self.table["record_count"]
        return written

    @property
    def size_bytes(self) -> int:
        """The size of its batches, which lie side by side."""
        return int(self.table["position"][-1] + self.table["size"][-1] - self.table["position"][0])

    def position_of(self, row: int) -> int:
        """Return the position in the file at which a batch starts."""
        return self.file_position + int(self.table["position"][row])

    def rows_before(self, position: int) -> int:
        """Return the number of batches that start before a byte of the file."""
        return int(np.searchsorted(self.table["position"], position - self.file_position))

    def sound_rows(self) -> int:
        """Return the number of rows before the first one with a wrong CRC-32C; older messages were checked."""
        bad = -1 if self.is_legacy else int(first_bad_crc(self.buf, self.table, 0, self.table.size))
        return self.table.size if bad < 0 else bad

    def rows(self, table: Table) -> Slice:
        """Return a slice of some of the rows, consecutive or not. Its ``table`` is a part or a copy of this one."""
        return replace(self, table=table)

    def damage(self, status: int, row: int) -> Damage:
        """Return the damage of ``row``, whose header is believed, by a kernel's status."""
        return Damage(self.fail(status, row), int(self.table["base_offset"][row]))

    def fail(self, status: int, row: int) -> CorruptBatch:
        """Return the error for a kernel that stopped at ``row``."""
        return CorruptBatch(self.path, self.position_of(row), CAUSES[Status(status)])

    def codec_of(self, row: int) -> Compression:
        """Return the codec of a row. Raises: CorruptBatch if nobody knows it."""
        code = int(self.table["attributes"][row]) & CODEC_MASK
        if code > max(Compression):
            raise CorruptBatch(self.path, self.position_of(row), f"unknown compression codec {code}")
        return Compression(code)


class Position(NamedTuple):
    """A point between two batches, where a walk can begin."""

    position: int
    """The position in the file."""
    next_offset: int
    """The least offset that the next batch can have."""
    ordinal: int
    row: int

    @classmethod
    def behind(cls, slice_: Slice) -> Position:
        """Return the position at which the next slice begins."""
        last = slice_.table[-1]
        return cls(
            slice_.file_position + int(last["position"] + last["size"]),
            int(last["last_offset"]) + 1,
            int(last["first_ordinal"] + last["record_count"]),
            slice_.first_row + slice_.table.size,
        )
