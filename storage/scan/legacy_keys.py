"""Messages of versions 0 and 1 as rows of a batch table, with their keys in an arena.

A message, or a wrapper with the messages in it, is one row, as if it were a v2 batch. Which records survive depends on
keys, offsets and the absence of values alone: the arena that the kernels walk holds just these, in the encoding of v2
records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from storage.arrays import Bytes, Table
from storage.codecs.compression import Compression, decompress
from storage.errors import CorruptBatch
from storage.kernels.layout import BATCH, UNKNOWN
from storage.kernels.status import BatchAction, BatchFate
from storage.records import LegacyBatch, Record
from storage.records.header import LOG_OVERHEAD_BYTES, MAGIC_POSITION
from storage.records.legacy import MESSAGE_BYTES_MIN, PREFIX, parse_legacy_header
from storage.records.record import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from storage.records.varint import write_varint

MESSAGES_BYTES_MAX: Final = 128 << 20
"""What a wrapper may decompress to. Smaller than a v2 batch's bound: its messages become Python objects."""
ARENA_BYTES: Final = 8 << 20
"""Keys, as the kernels read them, after which a run of rows is handed over."""
MIXED_VERSIONS: Final = 0x100
"""Flag in the ``attributes`` of a legacy row, outside the byte that is stored: a message in the wrapper is of another
version than the wrapper (KAFKA-4298), so that the bytes are not copied even if all records stay."""

_STORED_ATTRIBUTES: Final = 0x0F
_OFFSET_DELTA_MAX: Final = (1 << 31) - 1
_TIMESTAMP_MAX: Final = (1 << 63) - 2
"""Of a message; its distance from ``NO_TIMESTAMP`` is still an int64."""


@dataclass(frozen=True, slots=True)
class LegacyRows:
    """Consecutive v0 and v1 messages of a window."""

    table: Table
    """``layout.BATCH``; ``records_start`` and ``records_end`` index the arena."""
    keys: Bytes
    """The arena."""
    stopped: int
    """Where in the window the first message not taken starts."""
    next_offset: int
    next_ordinal: int


@dataclass(slots=True)
class _Numbering:
    """Numbers and checks messages in the order of their offsets."""

    next_offset: int
    next_ordinal: int

    def row(self, batch: LegacyBatch, position: int, arena: bytearray) -> tuple[int, ...]:
        """Add the keys of a batch to the arena; gives its row. Raises: CorruptBatch."""
        records = batch.records(MESSAGES_BYTES_MAX)
        self._check(batch, records)
        header, start, base_offset = batch.header, len(arena), records[0].offset
        for record in records:
            _append_key(arena, record, base_offset)
        flags = MIXED_VERSIONS if _mixes_versions(batch, records) else 0
        row = (
            position, header.size_bytes, start, len(arena), base_offset, header.last_offset, self.next_ordinal,
            records[0].timestamp_ms, header.max_timestamp_ms, NO_PRODUCER_ID, header.crc, NO_LEADER_EPOCH, NO_SEQUENCE,
            len(records), UNKNOWN, header.attributes & _STORED_ATTRIBUTES | flags, NO_PRODUCER_EPOCH,
            BatchFate.DELETE_EMPTY, BatchAction.UNDECIDED,
        )  # fmt: skip
        self.next_offset = header.last_offset + 1
        self.next_ordinal += len(records)
        return row

    def _check(self, batch: LegacyBatch, records: Sequence[Record]) -> None:
        """Check what parsing does not: offsets that ascend and end with the batch, timestamps that can be written."""
        offset = self.next_offset - 1
        for record in records:
            if record.offset <= offset:
                raise _corrupt(batch, f"offset {record.offset} behind offset {offset}")
            if not NO_TIMESTAMP <= record.timestamp_ms <= _TIMESTAMP_MAX:
                raise _corrupt(batch, f"timestamp {record.timestamp_ms} of a message")
            offset = record.offset
        if offset != batch.last_offset:
            raise _corrupt(batch, f"the last message's offset {offset} in a wrapper of {batch.last_offset}")
        if offset - records[0].offset > _OFFSET_DELTA_MAX:
            raise _corrupt(batch, f"offsets {records[0].offset} to {offset} in one wrapper")


def read_keys(
    window: Bytes, span: tuple[int, int], file_position: int, path: Path, next_offset: int, next_ordinal: int,
    rows_max: int, *, verify: bool,
) -> LegacyRows:  # fmt: skip
    """Read v0 and v1 messages until another version, the end of the window, or as much as a slice may hold.

    Args:
        window: bytes of a ``.log``.
        span: of them; its first message lies there in full.
        file_position: of ``window[0]``.
        path: the file, for errors.
        next_offset: the least offset allowed.
        next_ordinal: of the first record.
        rows_max: messages at most.
        verify: check every CRC.

    Raises: CorruptBatch.
    """
    reader = _Numbering(next_offset, next_ordinal)
    rows: list[tuple[int, ...]] = []
    arena = bytearray()
    position, end = span
    while len(rows) < rows_max and len(arena) < ARENA_BYTES and _is_legacy(window, position, end):
        batch = legacy_batch(window, position, path, file_position)
        if batch.header.size_bytes > end - position:
            break
        if verify:
            batch.ensure_valid()
        rows.append(reader.row(batch, position, arena))
        position += batch.header.size_bytes
    keys = np.frombuffer(bytes(arena), np.uint8)
    return LegacyRows(np.array(rows, BATCH), keys, position, reader.next_offset, reader.next_ordinal)


def legacy_batch(window: Bytes, position: int, path: Path, file_position: int) -> LegacyBatch:
    """Return the message, or wrapper, at a position of a window. Its bytes are cut where the window ends.

    Raises: CorruptBatch.
    """
    header = parse_legacy_header(window.data, position, path, file_position)
    return LegacyBatch(header, window.data[position : position + header.size_bytes], path, file_position + position)


def _corrupt(batch: LegacyBatch, cause: str) -> CorruptBatch:
    return CorruptBatch(batch.path, batch.position, cause)


def _is_legacy(window: Bytes, position: int, end: int) -> bool:
    return end - position >= LOG_OVERHEAD_BYTES + MESSAGE_BYTES_MIN[0] and int(window[position + MAGIC_POSITION]) < 2


def _append_key(arena: bytearray, record: Record, base_offset: int) -> None:
    """Write a v2 record of a key, and of an empty value or none."""
    body = bytearray(2)  # attributes, timestamp delta
    write_varint(body, record.offset - base_offset)
    write_varint(body, -1 if record.key is None else len(record.key))
    body += record.key or b""
    write_varint(body, -1 if record.is_tombstone else 0)
    body.append(0)  # headers
    write_varint(arena, len(body))
    arena += body


def _mixes_versions(batch: LegacyBatch, records: Sequence[Record]) -> bool:
    """Return whether a message in the wrapper is of another version than the wrapper.

    By the timestamps, of which version 0 has none, as far as these tell; else the messages are looked at once more.
    """
    header = batch.header
    if header.compression is Compression.NONE:
        return False
    if header.magic == 0:
        return any(record.timestamp_ms != NO_TIMESTAMP for record in records)
    if all(record.timestamp_ms != NO_TIMESTAMP for record in records):
        return False
    wrapped = batch.data[LOG_OVERHEAD_BYTES + MESSAGE_BYTES_MIN[header.magic] :]
    messages = decompress(header.compression, wrapped, MESSAGES_BYTES_MAX, header.magic)
    position = 0
    while position < len(messages):
        _, length, _, magic, _ = PREFIX.unpack_from(messages, position)
        if magic != header.magic:
            return True
        position += LOG_OVERHEAD_BYTES + length
    return False
