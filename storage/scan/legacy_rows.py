"""Messages of v0 and v1, read by ``storage.records`` and laid out as the kernels locate records of v2."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from storage.arrays import Bytes, Integers, Table
from storage.errors import CorruptBatch
from storage.kernels.layout import BATCH, LOCATED_FIELDS, UNKNOWN
from storage.kernels.status import BatchAction, BatchFate, Status
from storage.records import LegacyBatch, Record
from storage.records.header import LOG_OVERHEAD_BYTES, MAGIC_POSITION
from storage.records.legacy import MESSAGE_BYTES_MIN, parse_legacy_header
from storage.records.record import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

NO_TIMESTAMP_TYPE: Final = 0x100
"""Flag in the ``attributes`` of a row, outside the byte that is stored: messages of v0 have no timestamp."""

_STORED_ATTRIBUTES: Final = 0x0F
_BUFFER_BYTES: Final = 4 << 20
"""Keys and values after which a chunk is handed over."""


class LegacyMessages:
    """The v0 and v1 messages at the start of a window, until another version or a damaged one."""

    def __init__(self, window: Bytes, file_position: int, path: Path, next_offset: int) -> None:
        self.file_position = file_position
        self.stopped = 0
        """Where in the window reading ended."""
        self.next_offset = next_offset
        self.damage: CorruptBatch | None = None
        """What is wrong with the last message, which ``stopped`` lies behind."""
        self.status = Status.OK
        """Where nothing was read: END_OF_BUFFER for a message cut off by the window, BAD_SIZE for a bad header."""
        self._window, self._path = window, path
        self._data = bytearray(1)  # the count, zero, of the headers that no message has
        self._rows: list[tuple[int, ...]] = []
        self._records: list[tuple[int, ...]] = []

    def read(self, start_offset: int, end_offset: int) -> tuple[Bytes, Table, Integers]:
        """Read on. A message cut off by the window's end is not taken.

        Returns:
            Buffer, ``layout.BATCH`` rows and located fields of the records in the range, as ``locate_records`` gives.
        """
        while len(self._data) < _BUFFER_BYTES and self.damage is None and self.next_offset < end_offset:
            batch = self._batch()
            if batch is None:
                break
            self._take(batch, start_offset, end_offset)
        table = np.array(self._rows, BATCH)
        located = np.array(self._records, np.int64).reshape(-1, LOCATED_FIELDS).T
        return np.frombuffer(bytes(self._data), np.uint8), table, np.ascontiguousarray(located)

    def _batch(self) -> LegacyBatch | None:
        """The next message; None where it is of another version, damaged or cut off by the window, with its status."""
        left = self._window.size - self.stopped
        if left < LOG_OVERHEAD_BYTES + MESSAGE_BYTES_MIN[1]:
            self.status = Status.END_OF_BUFFER
            return None
        if self._window[self.stopped + MAGIC_POSITION] > 1:
            return None
        try:
            header = parse_legacy_header(self._window.data, self.stopped, self._path, self.file_position)
        except CorruptBatch:
            self.status = Status.BAD_SIZE
            return None
        if header.size_bytes > left:
            self.status = Status.END_OF_BUFFER
            return None
        data = self._window.data[self.stopped : self.stopped + header.size_bytes]
        return LegacyBatch(header, data, self._path, self.file_position + self.stopped)

    def _take(self, batch: LegacyBatch, start_offset: int, end_offset: int) -> None:
        position = self.stopped
        self.stopped += batch.header.size_bytes
        try:
            records = self._checked(batch)
        except CorruptBatch as error:
            self.damage = error
            return
        self.next_offset = batch.last_offset + 1
        for record in records:
            if start_offset <= record.offset < end_offset:
                self._records.append(self._located(record))
        self._rows.append(_row(batch, records, position))

    def _checked(self, batch: LegacyBatch) -> list[Record]:
        batch.ensure_valid()
        records = batch.records()
        if records[0].offset < self.next_offset:
            raise CorruptBatch(self._path, batch.position, f"offset {records[0].offset} below {self.next_offset}")
        return records

    def _located(self, record: Record) -> tuple[int, ...]:
        key_at = len(self._data)
        self._data += record.key or b""
        value_at = len(self._data)
        self._data += record.value or b""
        return (
            record.offset, record.timestamp_ms, key_at, -1 if record.key is None else len(record.key),
            value_at, -1 if record.value is None else len(record.value), 0, 1, len(self._rows),
        )  # fmt: skip


def _row(batch: LegacyBatch, records: list[Record], position: int) -> tuple[int, ...]:
    header = batch.header
    flags = NO_TIMESTAMP_TYPE if header.magic == 0 else 0
    return (
        position, header.size_bytes, 0, 0, records[0].offset, header.last_offset, 0, records[0].timestamp_ms,
        header.max_timestamp_ms, NO_PRODUCER_ID, header.crc, NO_LEADER_EPOCH, NO_SEQUENCE, len(records), UNKNOWN,
        header.attributes & _STORED_ATTRIBUTES | flags, NO_PRODUCER_EPOCH, BatchFate.KEEP, BatchAction.UNDECIDED,
    )  # fmt: skip
