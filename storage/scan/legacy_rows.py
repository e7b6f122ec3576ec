"""Messages of versions 0 and 1 as rows of a batch table.

A message, or a wrapper with the messages in it, is one row, as if it were a v2 batch. There are two ways to read them:

``read_keys``     for a compaction. Which records survive depends on keys, offsets and the absence of values alone: the
buffer that the kernels walk holds just these, in the encoding of v2 records. A kernel reads the messages; the readable
code of ``storage.records`` reads those that the kernel does not take. ``read_records`` for the records themselves: the
buffer holds keys and values, and their fields are located in it. The readable code reads the messages.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import open_codecs
from storage.codecs.compression import Compression, decompress
from storage.codecs.messages import list_messages, read_messages, read_messages_again
from storage.errors import CorruptBatch
from storage.kernels.layout import BATCH, CODEC_MASK, LOCATED_FIELDS, MIXED_VERSIONS, NOT_HERE, UNKNOWN, WRITTEN
from storage.kernels.status import BatchAction, BatchFate, Status
from storage.records import LegacyBatch, Record
from storage.records.legacy import MESSAGE_BYTES_MIN, PREFIX, LegacyHeader, parse_legacy_header
from storage.records.v2 import (
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    write_varint,
)

if TYPE_CHECKING:
    from storage.scan.partitions import OffsetRange

MESSAGES_BYTES_MAX: Final = 128 << 20
"""The most bytes of a decompressed wrapper. It is below a v2 batch's bound, because the messages become Python objects.
"""
KEYS_BYTES: Final = 8 << 20
"""The bytes of keys, as the kernels read them, after which a run of rows is handed over."""
_SHARED_ROW_BYTES: Final = 4 << 10
"""The bytes of messages after which the next one gets a row of its own. A row takes 112 bytes."""
_ARENA_BYTES: Final = 4 << 20
"""The most bytes of a decompressed wrapper that the kernel reads; the readable code reads a larger one."""

NO_TIMESTAMP_TYPE: Final = 0x100
"""The flag of a v0 message, which has no timestamp: a bit of a row's ``attributes`` outside the stored byte."""

_BUFFER_BYTES: Final = 4 << 20
"""The bytes of keys and values after which a run of rows is handed over."""
_STORED_ATTRIBUTES: Final = 0x0F
_OFFSET_DELTA_MAX: Final = (1 << 31) - 1
_TIMESTAMP_MAX: Final = (1 << 63) - 2
"""The greatest timestamp of a message; its distance from ``NO_TIMESTAMP`` is still an int64."""


Counts = npt.NDArray[np.int32]
"""The number of records of each row."""


class LegacyRows(NamedTuple):
    """Consecutive v0 and v1 messages of a window."""

    table: Table
    """``layout.BATCH``; of keys, ``records_start`` and ``records_end`` index the buffer."""
    keys: Bytes
    """The buffer."""
    stopped: int
    """The position in the window of the first message that was not taken."""
    next_offset: int
    next_ordinal: int
    located: Integers | None = None
    """The located fields of the records: ``layout.LOCATED_FIELDS`` by records."""
    damage: CorruptBatch | None = None
    """The damage of the last message; ``stopped`` lies behind that message."""
    status: Status = Status.OK
    """BAD_SIZE if the header of the message at ``stopped`` is impossible."""


class _Hand(threading.local):
    """The buffers and codecs of a thread, made when the thread first reads messages."""

    def __init__(self) -> None:
        self.keys = np.empty(KEYS_BYTES, np.uint8)
        self.arena = np.empty(_ARENA_BYTES, np.uint8)
        self.codecs = open_codecs()


_hand: Final = _Hand()


def read_keys(
    window: Bytes, span: tuple[int, int], file_position: int, path: Path, next_offset: int, next_ordinal: int,
    rows_max: int, *, verify: bool, shared_below: int = 0,
) -> LegacyRows:  # fmt: skip
    """Read v0 and v1 messages up to another version, the end of the window, or the size limit of a slice.

    Args:
        window: bytes of a ``.log``.
        span: of them; its first message lies there in full.
        file_position: of ``window[0]``.
        path: the file, for errors.
        next_offset: the least offset allowed.
        next_ordinal: of the first record.
        rows_max: messages at most.
        verify: check every CRC.
        shared_below: messages below this offset that are not compressed share rows; 0: each one has a row of its own.

    Raises: CorruptBatch.
    """
    position, end = span
    rows_max = min(rows_max, (end - position) // MESSAGE_BYTES_MIN[0] + 1)
    table, keys = np.empty(rows_max, BATCH), _hand.keys
    share_bytes = _SHARED_ROW_BYTES if shared_below else 0
    rows, filled = 0, 0
    while rows < rows_max:
        status, rows, position, next_offset, next_ordinal, filled = read_messages(
            window, position, end, next_offset, next_ordinal, table, rows, rows_max, keys, filled,
            _hand.arena, _hand.codecs.words, verify, share_bytes, shared_below,
        )  # fmt: skip
        if rows == rows_max or (status == Status.OUTPUT_FULL and rows):
            break
        batch = batch_at(window, (position, end), path, file_position)
        if batch is None:
            break
        if verify:
            batch.ensure_valid()
        row, own = row_of_keys(batch, position, next_offset, next_ordinal)
        if len(own) > keys.size - filled:
            if rows:
                break
            keys = np.empty(len(own), np.uint8)
        keys[filled : filled + len(own)] = np.frombuffer(own, np.uint8)
        table[rows] = row
        for bound in ("records_start", "records_end"):
            table[bound][rows] += filled
        position, next_offset = position + batch.header.size_bytes, batch.last_offset + 1
        next_ordinal += int(table["record_count"][rows])
        rows, filled = rows + 1, filled + len(own)
    return LegacyRows(table[:rows], keys[:filled].copy(), position, next_offset, next_ordinal)


def read_again(window: Bytes, span: tuple[int, int], next_ordinal: int, counts: Counts) -> Table | None:
    """Return the rows of messages that were read before; None if the span does not hold just these any more.

    Args:
        window: bytes of a ``.log``.
        span: of them; it holds the messages, and nothing else.
        next_ordinal: of the first record.
        counts: the number of records of each row. No row is of ``MIXED_VERSIONS``.

    Returns: the rows, without keys; ``base_offset`` is void for a wrapper.
    """
    table = np.zeros(counts.size, BATCH)
    table["record_count"] = counts
    table["records_start"], table["fate"], table["outcome"] = NOT_HERE, BatchFate.DELETE_EMPTY, BatchAction.UNDECIDED
    status, _ = read_messages_again(window, *span, next_ordinal, table)
    return table if status == Status.OK else None


def listed(window: Bytes, table: Table) -> Table:
    """Return a row of ``layout.WRITTEN`` for each message, or wrapper, of rows that were read from a window."""
    written = np.empty(int(table["record_count"].sum(dtype=np.int64)), WRITTEN)
    status, rows = list_messages(window, table, written)
    assert status == Status.OK, status
    return written[:rows]


def row_of_keys(
    batch: LegacyBatch, position: int, next_offset: int, next_ordinal: int
) -> tuple[tuple[int, ...], bytearray]:
    """Return the row of a batch, and the bytes of its keys.

    The row takes them to begin the buffer. Raises: CorruptBatch.
    """
    keys, records = bytearray(), batch.records(MESSAGES_BYTES_MAX)
    _check(batch, records, next_offset)
    for record in records:
        append_key(keys, record, records[0].offset)
    flags = MIXED_VERSIONS if _mixes_versions(batch) else 0
    plain = 0, len(keys)
    return _row(batch, records, position, plain, next_ordinal, flags, BatchFate.DELETE_EMPTY), keys


def _check(batch: LegacyBatch, records: Sequence[Record], next_offset: int) -> None:
    """Check facts that parsing does not check: offsets ascend and end with the batch, and timestamps can be written."""
    offset = next_offset - 1
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


def read_records(
    window: Bytes, span: tuple[int, int], file_position: int, path: Path, next_offset: int, next_ordinal: int,
    rows_max: int, *, verify: bool, offsets: OffsetRange,  # noqa: ARG001 - a ``ReadMessages`` has them
) -> LegacyRows:  # fmt: skip
    """Read v0 and v1 messages with their values, up to another version, a damaged message or the end of the window.

    Args:
        window: bytes of a ``.log``.
        span: of them; its first message lies there in full.
        file_position: of ``window[0]``.
        path: the file, for errors.
        next_offset: the least offset allowed.
        next_ordinal: nobody numbers these records.
        rows_max: not heeded: the buffer bounds what is read.
        verify: not heeded: every CRC is checked.
        offsets: records outside this range are left out; messages behind it are not read.
    """
    located = _Locating(next_offset, offsets)
    position, end = span
    damage, status = None, Status.OK
    while len(located.data) < _BUFFER_BYTES and damage is None and located.next_offset < offsets.end:
        try:
            batch = batch_at(window, (position, end), path, file_position)
        except CorruptBatch:
            status = Status.BAD_SIZE
            break
        if batch is None:
            break
        try:
            located.take(batch, position)
        except CorruptBatch as error:
            damage = error
        position += batch.header.size_bytes
    buf, table, fields = located.found()
    return LegacyRows(table, buf, position, located.next_offset, next_ordinal, fields, damage, status)


class _Locating:
    """Keys and values of messages in a buffer, and the fields of their records in it."""

    def __init__(self, next_offset: int, offsets: OffsetRange) -> None:
        self.next_offset = next_offset
        self.data = bytearray(1)  # the count of headers, zero: no message has headers
        self._offsets = offsets
        self._rows: list[tuple[int, ...]] = []
        self._records: list[tuple[int, ...]] = []

    def take(self, batch: LegacyBatch, position: int) -> None:
        """Add the records of a batch that are in the range. Raises: CorruptBatch."""
        batch.ensure_valid()
        records = batch.records()
        if records[0].offset < self.next_offset:
            raise _corrupt(batch, f"offset {records[0].offset} below {self.next_offset}")
        self.next_offset = batch.last_offset + 1
        for record in records:
            if self._offsets.start <= record.offset < self._offsets.end:
                self._records.append(self._located(record))
        flags = NO_TIMESTAMP_TYPE if batch.header.magic == 0 else 0
        self._rows.append(_row(batch, records, position, (0, 0), 0, flags, BatchFate.KEEP))

    def found(self) -> tuple[Bytes, Table, Integers]:
        """Return buffer, ``layout.BATCH`` rows and located fields, as ``locate_records`` gives them."""
        located = np.array(self._records, np.int64).reshape(-1, LOCATED_FIELDS).T
        return np.frombuffer(bytes(self.data), np.uint8), np.array(self._rows, BATCH), np.ascontiguousarray(located)

    def _located(self, record: Record) -> tuple[int, ...]:
        key_at = len(self.data)
        self.data += record.key or b""
        value_at = len(self.data)
        self.data += record.value or b""
        return (
            record.offset, record.timestamp_ms, key_at, -1 if record.key is None else len(record.key),
            value_at, -1 if record.value is None else len(record.value), 0, 1, len(self._rows),
        )  # fmt: skip


def _row(
    batch: LegacyBatch, records: Sequence[Record], position: int, plain: tuple[int, int], first_ordinal: int,
    flags: int, disposition: BatchFate,
) -> tuple[int, ...]:  # fmt: skip
    header = batch.header
    return (
        position, header.size_bytes, *plain, records[0].offset, header.last_offset, first_ordinal,
        records[0].timestamp_ms, header.max_timestamp_ms, NO_PRODUCER_ID, header.crc, NO_LEADER_EPOCH, NO_SEQUENCE,
        len(records), UNKNOWN, _attributes_of(header) | flags, NO_PRODUCER_EPOCH, disposition,
        BatchAction.UNDECIDED,
    )  # fmt: skip


def _attributes_of(header: LegacyHeader) -> int:
    """Return the codec, and in version 1 the type of timestamp. Version 0 has no timestamp: its bit means nothing."""
    return header.attributes & (_STORED_ATTRIBUTES if header.magic else CODEC_MASK)


def batch_at(window: Bytes, span: tuple[int, int], path: Path, file_position: int) -> LegacyBatch | None:
    """Return the message at the beginning of a span of a window; None for another version, or if the span cuts the
    message.

    Raises: CorruptBatch.
    """
    position, end = span
    if not _is_legacy(window, position, end):
        return None
    batch = legacy_batch(window, position, path, file_position)
    return batch if batch.header.size_bytes <= end - position else None


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


def append_key(arena: bytearray, record: Record, base_offset: int) -> None:
    """Write a v2 record of a key, and of an empty value or none."""
    body = bytearray(2)  # attributes, timestamp delta
    write_varint(body, record.offset - base_offset)
    write_varint(body, -1 if record.key is None else len(record.key))
    body += record.key or b""
    write_varint(body, -1 if record.is_tombstone else 0)
    body.append(0)  # headers
    write_varint(arena, len(body))
    arena += body


def _mixes_versions(batch: LegacyBatch) -> bool:
    """Return whether a message in the wrapper, which parsed, is of another version than the wrapper."""
    header = batch.header
    if header.compression is Compression.NONE:
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
