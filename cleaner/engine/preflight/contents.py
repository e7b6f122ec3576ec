"""Answers the questions that the rules of a start ask of the contents of one partition directory.

Finds what Kafka's recovery of a segment finds, which reads it batch by batch.

The kernels walk the sound batches at the beginning, which mostly are all of them. From the first batch on that is not
sound, or not of v2, the readable walk goes on, exception for exception as Kafka does.

Source: Kafka ``LogSegment.recover``, ``ProducerAppendInfo``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np

from policies.preflight.facts import KafkaFailure, RecoveredLog
from storage.arrays import Table
from storage.directory import OpenFile, pread
from storage.errors import PlanOutOfDate
from storage.holes import data_extents
from storage.kernels.index import index_batches
from storage.kernels.layout import WRITTEN, index_state
from storage.kernels.status import Status
from storage.log.end import find_end
from storage.log.file_records import (
    CORRUPT,
    CorruptRecord,
    StoredIndex,
    WalkedBatch,
    counted_end,
    invalid,
    last_of,
    translate,
    walk,
)
from storage.log.listing import list_partition
from storage.log.producer_state import CorruptSnapshot, parse_snapshot
from storage.log_dir import read_file
from storage.records.read_batches import LogBytes
from storage.records.v2 import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, MAGIC_V2, V2_HEADER_BYTES
from storage.scan.walking import ROWS_MAX, Hand, LogFile, LogWalk, Rows
from storage.segment import reading

_RELATIVE_MAX: Final = (1 << 31) - 1
_ABORT: Final = 0
_PIECE_BYTES: Final = 1 << 20
OVERFLOW: Final = "LogSegmentOffsetOverflowException"


def recover(log: LogBytes, base_offset: int, interval_bytes: int, *, by_kernels: bool = True) -> RecoveredLog:
    """Do what Kafka's recovery of a segment does, without a change.

    Args:
        log: the segment.
        base_offset: of the segment.
        interval_bytes: ``index.interval.bytes``.
        by_kernels: whether the kernels walk the sound beginning. The answer is the same without them.
    """
    recovery = _Recovery(log, base_offset, interval_bytes)
    if by_kernels:
        recovery.take_sound_beginning()
    cause: str | None = None
    try:
        for batch in walk(log, recovery.valid_bytes):
            cause = invalid(log, batch)
            if cause is not None:
                break
            failure = recovery.take(batch)
            if failure is not None:
                found = recovery.result(failure.cause, failure)
                return found._replace(split_failure=_split_failure(log, base_offset, failure))
    except CorruptRecord as error:
        cause = error.cause
    return recovery.result(cause, None)


def _split_failure(log: LogBytes, base_offset: int, failure: KafkaFailure) -> KafkaFailure | None:
    """Return the exception of the split that an offset overflow asks for, if the segment's last offset does fit."""
    if failure.exception != OVERFLOW:
        return None
    try:
        last = last_of(log)
    except CorruptRecord as error:
        return KafkaFailure(CORRUPT, f"byte {error.position}: {error.cause}")
    if last is not None and last.last_offset - base_offset > _RELATIVE_MAX:
        return None
    return KafkaFailure("IllegalArgumentException", f"{failure.cause}, and the last offset does: no split is possible")


def zeros_behind(log: LogBytes, start: int) -> int:
    """Return how many bytes at the end of a file are zeros, down to a byte of it. Holes need no look."""
    end = log.size_bytes
    for lower, upper in reversed(list(data_extents(log.descriptor, end)) if start < end else []):
        at, least = min(upper, end), max(lower, start)
        while at > least:
            first = max(at - _PIECE_BYTES, least)
            kept_bytes = len(pread(log.descriptor, at - first, first).rstrip(b"\0"))
            if kept_bytes:
                return end - first - kept_bytes
            at = first
    return end - start


class _Recovery:
    """The state that Kafka keeps while it recovers a segment."""

    def __init__(self, log: LogBytes, base_offset: int, interval_bytes: int) -> None:
        self._log, self._base, self._interval = log, base_offset, interval_bytes
        self.valid_bytes, self._indexed_at = 0, 0
        self._next: int | None = None
        self._producers_end: int | None = None
        self._aborts = False
        self._open: set[int] = set()
        self._last_indexed: int | None = None
        self._largest = (-1, base_offset)
        self._last_timed = base_offset
        """The offset of the last entry in the time index; the base offset before there is one."""

    def take_sound_beginning(self) -> None:
        """Take the sound v2 batches at the beginning of the segment, by the kernels; nothing of Kafka's stops there."""
        log = self._log
        file = LogFile(log.descriptor, Path(), self._base, log.size_bytes, None, [])
        index = _Index(self._base, self._interval)
        with suppress(PlanOutOfDate):  # a live broker cut the file: the readable walk finds its end
            for rows in LogWalk(file, Hand(), lambda _: None).rows(stops_at_damage=True):
                if rows.is_legacy:
                    break
                taken = self._take_producers(rows, index.fitting(rows.table))
                index.take(rows.table[:taken], rows.file_position)
                if taken:
                    last = rows.table[taken - 1]
                    self.valid_bytes = rows.file_position + int(last["position"] + last["size"])
                    self._next = self._producers_end = int(last["last_offset"]) + 1
                if taken < rows.table.size:
                    break
        self._indexed_at = self.valid_bytes - index.unindexed_bytes
        self._largest, self._last_indexed, self._last_timed = index.largest, index.last_offset, index.last_timed

    def _take_producers(self, rows: Rows, count: int) -> int:
        """Take what batches tell of transactions; returns how many of them raise nothing, at most ``count``."""
        table, producers = rows.table[:count], rows.table["producer_id"][:count]
        is_of_any = (table["attributes"] & (ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL)) != 0
        if not (self._open or (is_of_any & (producers >= 0)).any()):
            return count
        chosen = np.flatnonzero(producers >= 0).tolist()
        told = zip(chosen, producers[chosen].tolist(), table["attributes"][chosen].tolist(), strict=True)
        for row, producer_id, attributes in told:
            if attributes & ATTRIBUTE_CONTROL:
                start, size_bytes = int(table["position"][row]), int(table["size"][row])
                self._open.discard(producer_id)
                self._aborts = self._aborts or _control_type(rows.buf[start : start + size_bytes].tobytes()) == _ABORT
            elif attributes & ATTRIBUTE_TRANSACTIONAL:
                self._open.add(producer_id)
            elif producer_id in self._open:
                return int(row)
        return count

    def take(self, batch: WalkedBatch) -> KafkaFailure | None:
        """Take a valid batch; returns the exception at which the recovery ends."""
        if not 0 <= batch.last_offset - self._base <= _RELATIVE_MAX:
            cause = f"offset {batch.last_offset} does not fit a segment of base {self._base}"
            return KafkaFailure(OVERFLOW, cause)
        if batch.max_timestamp_ms > self._largest[0]:
            self._largest = batch.max_timestamp_ms, batch.last_offset
        if self.valid_bytes - self._indexed_at > self._interval:
            failure = self._index(batch)
            if failure:
                return failure
        self.valid_bytes += batch.size_bytes
        self._next = batch.last_offset + 1
        if batch.magic >= MAGIC_V2:
            self._producers_end = batch.last_offset + 1
            return self._take_producer(batch)
        return None

    def _index(self, batch: WalkedBatch) -> KafkaFailure | None:
        if self._last_indexed is not None and batch.last_offset <= self._last_indexed:
            cause = f"offset {batch.last_offset} does not follow {self._last_indexed}"
            return KafkaFailure("InvalidOffsetException", cause)
        self._last_indexed = batch.last_offset
        if self._largest[1] < self._last_timed:
            return KafkaFailure(
                "InvalidOffsetException", f"offset {self._largest[1]} does not follow in the time index"
            )
        self._last_timed = self._largest[1]
        self._indexed_at = self.valid_bytes
        return None

    def _take_producer(self, batch: WalkedBatch) -> KafkaFailure | None:
        if batch.producer_id < 0:
            return None
        if batch.is_control:
            key_type = _control_type(bytes(self._log.at(batch.position, batch.size_bytes)))
            self._open.discard(batch.producer_id)
            self._aborts = self._aborts or key_type == _ABORT
        elif batch.is_transactional:
            self._open.add(batch.producer_id)
        elif batch.producer_id in self._open:
            cause = f"producer {batch.producer_id} has a transaction open, and the batch is of none"
            return KafkaFailure("InvalidTxnStateException", cause)
        return None

    def result(self, cause: str | None, failure: KafkaFailure | None) -> RecoveredLog:
        """Return what was found."""
        return RecoveredLog(
            self.valid_bytes, self._next, self._producers_end, self._aborts, cause, failure,
            zero_bytes=zeros_behind(self._log, self.valid_bytes),
        )  # fmt: skip


class _Index:
    """The entries that the indexes of a sound beginning get."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base, self._interval = base_offset, interval_bytes
        self._state = index_state(base_offset)
        self._written: Table = np.zeros(ROWS_MAX, WRITTEN)
        self._entries = [np.empty(ROWS_MAX, np.int64) for _ in range(4)]
        self.last_offset: int | None = None
        self.last_timed = base_offset

    def fitting(self, table: Table) -> int:
        """Return how many batches, which ascend, have offsets that fit the segment."""
        return int(np.searchsorted(table["last_offset"], self._base + _RELATIVE_MAX, side="right"))

    def take(self, table: Table, file_position: int) -> None:
        """Index some batches that fit."""
        for field in ("position", "size", "last_offset", "max_timestamp"):
            self._written[field][: table.size] = table[field]
        offsets, _, _, timed = self._entries
        status, _, offset_count, time_count = index_batches(
            self._written, table.size, file_position, self._base, self._interval, self._state, *self._entries
        )
        assert status == Status.OK, status
        if offset_count:
            self.last_offset = self._base + int(offsets[offset_count - 1])
        if time_count:
            self.last_timed = self._base + int(timed[time_count - 1])

    @property
    def unindexed_bytes(self) -> int:
        """The bytes behind the last batch that got an entry, and this batch."""
        return int(self._state["unindexed_bytes"][0])

    @property
    def largest(self) -> tuple[int, int]:
        """The largest timestamp, and the offset of its batch."""
        return int(self._state["max_timestamp"][0]), int(self._state["max_timestamp_offset"][0])


def _control_type(batch: bytes) -> int | None:
    """Return the type of a marker, whose batch holds one uncompressed record: the third and fourth byte of its key."""
    data, position = batch[V2_HEADER_BYTES:], 0
    try:
        _, position = _varint(data, position)
        position += 1
        for _ in range(2):
            _, position = _varint(data, position)
        key_bytes, position = _varint(data, position)
    except IndexError:
        return None
    return int.from_bytes(data[position + 2 : position + 4], "big", signed=True) if key_bytes >= 4 else None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


_ABORTED: Final = struct.Struct(">bbqqqq")
"""Kafka takes the first byte of the two for the version (``AbortedTxn.version``), whatever the second one is."""


class ReadingBudget:
    """A bound on the segments that are read whole for a prediction, in bytes. Of a larger one only the end is read."""

    def __init__(self, left_bytes: int, file_bytes_max: int) -> None:
        """Begin with so many bytes in all; no larger file is read whole."""
        self._left_bytes, self._file_bytes_max = left_bytes, file_bytes_max
        self.unread_bytes = 0
        """The size of the segments that a start recovers, but that were read only at their ends."""

    def takes(self, size_bytes: int) -> bool:
        """Return whether a segment of that size may be read whole, and count it."""
        is_taken = size_bytes <= min(self._left_bytes, self._file_bytes_max)
        self._left_bytes -= size_bytes if is_taken else 0
        self.unread_bytes += 0 if is_taken else size_bytes
        return is_taken


class DirectoryContents:
    """The files of one partition directory, read when a rule asks."""

    def __init__(
        self, directory: Path, index_interval_bytes: int, *, unwraps: bool = True, budget: ReadingBudget | None = None
    ) -> None:
        """Take a directory.

        Args:
            directory: of the partition.
            index_interval_bytes: ``index.interval.bytes`` of the topic.
            unwraps: whether a search looks for the first message of compressed ones, as Kafka 4 does.
            budget: bounds what is read whole; None for no bound.
        """
        self._directory, self._interval_bytes, self._unwraps = directory, index_interval_bytes, unwraps
        self._budget = budget

    def next_offset(self, log: str, index: str | None, base_offset: int) -> int | KafkaFailure:
        """Return the offset behind the last batch, as ``LogSegment.readNextOffset`` finds it."""
        with self._reading(log) as descriptor, self._index(index, base_offset) as entries:
            log_bytes = LogBytes(descriptor)
            try:
                return counted_end(log_bytes, entries, base_offset, unwraps=self._unwraps).next_offset
            except CorruptRecord as error:
                return KafkaFailure(error.exception, f"byte {error.position}: {error.cause}")

    def uncounted_bytes(self, log: str, index: str | None, base_offset: int) -> int:
        """Return the number of bytes behind the last batch that ``next_offset`` finds, where it finds one's end."""
        with self._reading(log) as descriptor, self._index(index, base_offset) as entries:
            log_bytes = LogBytes(descriptor)
            try:
                end = counted_end(log_bytes, entries, base_offset, unwraps=self._unwraps)
            except CorruptRecord:
                return 0
            return log_bytes.size_bytes - end.end_bytes

    def recovered(self, log: str, base_offset: int) -> RecoveredLog:
        """Return what ``LogSegment.recover`` finds; of a segment beyond the budget, what its end tells."""
        with self._reading(log) as descriptor:
            log_bytes = LogBytes(descriptor)
            if self._budget is None or self._budget.takes(log_bytes.size_bytes):
                return recover(log_bytes, base_offset, self._interval_bytes)
            segments = list_partition(self._directory).segments
            segment = next((one for one in segments if one.log.file_name == log), None)
            if segment is None:  # a ``.swap`` or the like
                return recover(log_bytes, base_offset, self._interval_bytes)
            end = find_end(segment, trust_index=True)
            valid_bytes, cause = segment.size_bytes - end.torn_bytes, "no batch" if end.torn_bytes else None
            next_offset = end.next_offset if valid_bytes else None
            zero_bytes = zeros_behind(log_bytes, valid_bytes)
            return RecoveredLog(valid_bytes, next_offset, next_offset, False, cause, zero_bytes=zero_bytes)

    def replay(self, log: str, index: str | None, base_offset: int, start_offset: int) -> KafkaFailure | None:
        """Return the exception at which ``UnifiedLog.rebuildProducerState`` ends in this segment, if any."""
        open_transactions: set[int] = set()
        with self._reading(log) as descriptor, self._index(index, base_offset) as entries:
            log_bytes = LogBytes(descriptor)
            if self._budget is not None and not self._budget.takes(log_bytes.size_bytes):
                return None
            try:
                indexed_at = entries.lookup(start_offset)
                start = translate(log_bytes, indexed_at, start_offset, unwraps=self._unwraps)
                for batch in walk(log_bytes, start) if start is not None else ():
                    failure = _of_producer(batch, open_transactions)
                    if failure:
                        return failure
            except CorruptRecord as error:
                return KafkaFailure(error.exception, f"byte {error.position}: {error.cause}")
        return None

    def snapshot_is_valid(self, name: str) -> bool:
        """Return whether Kafka would load a producer snapshot."""
        path = self._directory / name
        data = read_file(path)
        if data is None:
            return False
        try:
            parse_snapshot(data, path)
        except CorruptSnapshot:
            return False
        return True

    def txn_index_failure(self, name: str, base_offset: int) -> KafkaFailure | None:
        """Return the exception of ``TransactionIndex.sanityCheck``, if any."""
        data = read_file(self._directory / name) or b""
        for at in range(0, len(data) - len(data) % _ABORTED.size, _ABORTED.size):
            version, _, _, _, last_offset, _ = _ABORTED.unpack_from(data, at)
            if version > 0:
                return KafkaFailure("KafkaException", f"byte {at}: version {version}")
            if last_offset < base_offset:
                return KafkaFailure("CorruptIndexException", f"byte {at}: a marker at {last_offset}, below the segment")
        return None

    @contextmanager
    def _reading(self, name: str) -> Iterator[OpenFile]:
        with reading(self._directory / name) as descriptor:
            yield descriptor

    def _index(self, name: str | None, base_offset: int) -> AbstractContextManager[StoredIndex]:
        return StoredIndex.at(None if name is None else self._directory / name, base_offset)


def _of_producer(batch: WalkedBatch, open_transactions: set[int]) -> KafkaFailure | None:
    if batch.producer_id < 0:
        return None
    if batch.is_control:
        open_transactions.discard(batch.producer_id)
    elif batch.is_transactional:
        open_transactions.add(batch.producer_id)
    elif batch.producer_id in open_transactions:
        return KafkaFailure("InvalidTxnStateException", f"byte {batch.position}: producer {batch.producer_id}")
    return None
