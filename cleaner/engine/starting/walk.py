"""A walk over the batches of a ``.log`` as Kafka's file reader does it, exception for exception.

``storage.records.iter_headers`` refuses more than Kafka does, which is right for who acts on the records. Here only
that counts which Kafka would do.

Source: Kafka ``FileLogInputStream``, ``DefaultRecordBatch``, ``LegacyRecord``, ``LogSegment.recover``.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from crc32c import crc32c

from policies.starting.facts import KafkaFailure, RecoveredLog

_PREFIX: Final = struct.Struct(">qiib")
_V2: Final = struct.Struct(">qiibIhiqqqhii")
_V2_BYTES: Final = _V2.size
_PREFIX_BYTES: Final = 17
_OVERHEAD_BYTES: Final = 12
_SIZE_MIN: Final = 14
_CRC_START: Final = 21
_LEGACY_CRC: Final = struct.Struct(">I")
_LEGACY_CRC_POSITION: Final = 12
_LEGACY_CRC_START: Final = 16
_LEGACY_TIMESTAMP: Final = struct.Struct(">q")
_LEGACY_TIMESTAMP_POSITION: Final = 18
_MAGIC_V2: Final = 2
_RELATIVE_MAX: Final = (1 << 31) - 1
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_LONG_BITS: Final = 64
_WINDOW_BYTES: Final = 1 << 20
_ABORT: Final = 0
CORRUPT: Final = "CorruptRecordException"
OVERFLOW: Final = "LogSegmentOffsetOverflowException"


class WalkedBatch(NamedTuple):
    """One batch, as far as its header says."""

    position: int
    size_bytes: int
    magic: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int
    attributes: int

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch is part of a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds a marker."""
        return bool(self.attributes & _CONTROL)


class CorruptRecord(Exception):
    """Kafka's ``CorruptRecordException``."""

    def __init__(self, position: int, cause: str) -> None:
        super().__init__(position, cause)
        self.position, self.cause = position, cause


class LogBytes:
    """The bytes of a file, read in windows: never mapped, so that a file that shrinks is no crash."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size_bytes = os.fstat(descriptor).st_size
        self._start, self._window = 0, memoryview(b"")

    def at(self, position: int, size_bytes: int) -> memoryview:
        """Return some bytes; fewer at the end of the file."""
        offset = position - self._start
        if offset < 0 or offset + size_bytes > len(self._window):
            wanted = max(size_bytes, _WINDOW_BYTES)
            self._window, self._start, offset = memoryview(os.pread(self._descriptor, wanted, position)), position, 0
        return self._window[offset : offset + size_bytes]


def walk(log: LogBytes, start: int = 0, end: int | None = None) -> Iterator[WalkedBatch]:
    """Yield the batches from a position on, where a batch must begin.

    Raises: CorruptRecord where a length is less than that of any batch.
    """
    end = log.size_bytes if end is None else end
    position = start
    while position < end - _PREFIX_BYTES:
        head = log.at(position, _V2_BYTES)
        if len(head) < _PREFIX_BYTES:
            return
        offset, size, _, magic = _PREFIX.unpack_from(head)
        if size < _SIZE_MIN:
            raise CorruptRecord(position, f"a batch of {size} bytes")
        if position > end - _OVERHEAD_BYTES - size:
            return
        size_bytes = _OVERHEAD_BYTES + size
        if magic < _MAGIC_V2:
            yield _legacy(log, position, size_bytes, magic, offset)
        else:
            if len(head) < _V2_BYTES:
                raise CorruptRecord(position, "a v2 batch without a header")
            fields = _V2.unpack(head)
            last_offset = _long(offset + fields[6])
            yield WalkedBatch(
                position, size_bytes, magic, offset, last_offset, fields[8], fields[2], fields[9], fields[5]
            )
        position += size_bytes


def last_of(log: LogBytes, start: int = 0) -> WalkedBatch | None:
    """Return the last batch; None if there is none. Raises: CorruptRecord."""
    return max(walk(log, start), key=attrgetter("position"), default=None)


def _legacy(log: LogBytes, position: int, size_bytes: int, magic: int, offset: int) -> WalkedBatch:
    data = log.at(position + _LEGACY_TIMESTAMP_POSITION, _LEGACY_TIMESTAMP.size)
    is_timed = magic == 1 and len(data) == _LEGACY_TIMESTAMP.size
    timestamp_ms = _LEGACY_TIMESTAMP.unpack(data)[0] if is_timed else -1
    return WalkedBatch(position, size_bytes, magic, offset, offset, timestamp_ms, -1, -1, 0)


def _long(value: int) -> int:
    """Wrap as Java does."""
    wrapped = value & ((1 << _LONG_BITS) - 1)
    return wrapped - (1 << _LONG_BITS) if wrapped >> (_LONG_BITS - 1) else wrapped


def invalid(log: LogBytes, batch: WalkedBatch) -> str | None:
    """Return what is wrong with the bytes of a batch, which are read for it; None if its CRC is right."""
    data = log.at(batch.position, batch.size_bytes)
    if batch.magic >= _MAGIC_V2:
        if batch.size_bytes < _V2_BYTES:
            return f"a batch of {batch.size_bytes} bytes is smaller than its header"
        stored = int.from_bytes(data[17:21], "big")
        return None if stored == crc32c(data[_CRC_START:]) else "the CRC of the batch is wrong"
    stored = _LEGACY_CRC.unpack_from(data, _LEGACY_CRC_POSITION)[0]
    return None if stored == zlib.crc32(data[_LEGACY_CRC_START:]) else "the CRC of the message is wrong"


def recover(log: LogBytes, base_offset: int, interval_bytes: int) -> RecoveredLog:
    """Do what Kafka's recovery of a segment does, without a change.

    Args:
        log: the segment.
        base_offset: of the segment.
        interval_bytes: ``index.interval.bytes``.
    """
    recovery = _Recovery(log, base_offset, interval_bytes)
    cause: str | None = None
    try:
        for batch in walk(log):
            cause = invalid(log, batch)
            if cause is not None:
                break
            failure = recovery.take(batch)
            if failure is not None:
                return recovery.result(failure.cause, _after_overflow(log, base_offset, failure))
    except CorruptRecord as error:
        cause = error.cause
    return recovery.result(cause, None)


def _after_overflow(log: LogBytes, base_offset: int, failure: KafkaFailure) -> KafkaFailure:
    """Return the exception of the split that an offset overflow asks for, if the segment's last offset does fit."""
    if failure.exception != OVERFLOW:
        return failure
    try:
        last = last_of(log)
    except CorruptRecord as error:
        return KafkaFailure(CORRUPT, f"byte {error.position}: {error.cause}")
    if last is not None and last.last_offset - base_offset > _RELATIVE_MAX:
        return failure
    return KafkaFailure("IllegalArgumentException", f"{failure.cause}, and the last offset does: no split is possible")


class _Recovery:
    """The state that Kafka keeps while it recovers a segment."""

    def __init__(self, log: LogBytes, base_offset: int, interval_bytes: int) -> None:
        self._log, self._base, self._interval = log, base_offset, interval_bytes
        self._valid, self._indexed_at = 0, 0
        self._next: int | None = None
        self._producers_end: int | None = None
        self._aborts = False
        self._open: set[int] = set()
        self._last_indexed: int | None = None
        self._largest = (-1, base_offset)
        self._last_time: tuple[int, int] | None = None

    def take(self, batch: WalkedBatch) -> KafkaFailure | None:
        """Take a valid batch; returns the exception at which the recovery ends."""
        if not 0 <= batch.last_offset - self._base <= _RELATIVE_MAX:
            cause = f"offset {batch.last_offset} does not fit a segment of base {self._base}"
            return KafkaFailure(OVERFLOW, cause)
        if batch.max_timestamp_ms > self._largest[0]:
            self._largest = batch.max_timestamp_ms, batch.last_offset
        if self._valid - self._indexed_at > self._interval:
            failure = self._index(batch)
            if failure:
                return failure
        self._valid += batch.size_bytes
        self._next = batch.last_offset + 1
        if batch.magic >= _MAGIC_V2:
            self._producers_end = batch.last_offset + 1
            return self._take_producer(batch)
        return None

    def _index(self, batch: WalkedBatch) -> KafkaFailure | None:
        if self._last_indexed is not None and batch.last_offset <= self._last_indexed:
            cause = f"offset {batch.last_offset} does not follow {self._last_indexed}"
            return KafkaFailure("InvalidOffsetException", cause)
        self._last_indexed = batch.last_offset
        if self._last_time and self._largest[1] < self._last_time[1]:
            return KafkaFailure(
                "InvalidOffsetException", f"offset {self._largest[1]} does not follow in the time index"
            )
        if self._largest[0] > (self._last_time[0] if self._last_time else -1):
            self._last_time = self._largest
        self._indexed_at = self._valid
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
        return RecoveredLog(self._valid, self._next, self._producers_end, self._aborts, cause, failure)


def _control_type(batch: bytes) -> int | None:
    """Return the type of a marker, whose batch holds one uncompressed record: the third and fourth byte of its key."""
    data, position = batch[_V2_BYTES:], 0
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
