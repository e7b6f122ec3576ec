"""The recovery of one segment: its batches are read, its indexes made anew, what follows the last sound batch is cut.

This is the one place of logcleaner that cuts records off a log that nobody asked to be shorter, and only ``Log.load``
leads here. What is no batch, or has a wrong CRC, was never acknowledged by a broker that flushed; what lies behind it
goes, too, as in Kafka.

Source: Kafka LogSegment.recover.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.indexes import RELATIVE_OFFSET_MAX, IndexBuilder
from storage.log.errors import LoadingFailed
from storage.log.leader_epochs import LeaderEpochs
from storage.log.loading.snapshots import ProducerSnapshots
from storage.log.loading.walk import CorruptRecord, LogBytes, WalkedBatch, invalid, walk
from storage.log.producer_state import ProducerState
from storage.names import FileKind, segment_file_name
from storage.records import PositionedHeader, read_batch
from storage.records.header import MAGIC_V2, parse_header
from storage.segment import reading
from storage.txn_index import AbortedTxn, format_aborted_txn


class InvalidOffset(Exception):
    """Kafka's ``InvalidOffsetException``: an offset that does not follow in an index."""


class RecoveredSegment(NamedTuple):
    """The result of the recovery of a segment."""

    valid_bytes: int
    cut_bytes: int
    next_offset: int
    cause: str | None
    """Why the bytes behind the valid ones are none; None at the end of the file."""


class _Recovery:
    """The state that Kafka keeps while it recovers a segment."""

    def __init__(self, path: Path, log: LogBytes, base_offset: int, interval_bytes: int, state: ProducerState) -> None:
        self._path, self._log, self._base, self._state = path, log, base_offset, state
        self.indexes = IndexBuilder(base_offset, interval_bytes, path)
        self.aborted: list[AbortedTxn] = []
        self.valid_bytes, self.next_offset = 0, base_offset
        self._indexed_offset: int | None = None
        self._time_offset: int | None = None

    def take(self, batch: WalkedBatch) -> None:
        """Take a sound batch. Raises: InvalidOffset, LoadingFailed."""
        if not 0 <= batch.last_offset - self._base <= RELATIVE_OFFSET_MAX:
            cause = f"offset {batch.last_offset} does not fit a segment of base {self._base}"
            raise LoadingFailed(self._path, cause, "LogSegmentOffsetOverflowException")
        self._index(batch)
        self.valid_bytes += batch.size_bytes
        self.next_offset = batch.last_offset + 1
        if batch.magic >= MAGIC_V2 and batch.producer_id >= 0:
            self._take_producer(batch)

    def _index(self, batch: WalkedBatch) -> None:
        had_bytes = len(self.indexes.offset_index)
        self.indexes.append(batch.position, batch.size_bytes, batch.last_offset, batch.max_timestamp_ms)
        if len(self.indexes.offset_index) == had_bytes:
            return
        if self._indexed_offset is not None and batch.last_offset <= self._indexed_offset:
            raise InvalidOffset(f"offset {batch.last_offset} does not follow {self._indexed_offset}")
        if self._time_offset is not None and self.indexes.largest.offset < self._time_offset:
            raise InvalidOffset(f"offset {self.indexes.largest.offset} does not follow in the time index")
        self._indexed_offset = batch.last_offset
        if self.indexes.largest.timestamp_ms >= 0:
            self._time_offset = self.indexes.largest.offset

    def _take_producer(self, batch: WalkedBatch) -> None:
        try:
            header = parse_header(self._log.at(batch.position, batch.size_bytes), 0, self._path, batch.position)
            found = PositionedHeader(batch.position, header)
            aborted = self._state.apply(read_batch(self._log.descriptor, self._path, found))
        except LogCleanerError as error:
            raise LoadingFailed(self._path, str(error), "InvalidTxnStateException") from error
        if aborted is not None:
            self.aborted.append(aborted)


def recover_segment(
    fs: FileSystem,
    directory: Path,
    base_offset: int,
    interval_bytes: int,
    state: ProducerState,
    snapshots: ProducerSnapshots,
    epochs: LeaderEpochs,
) -> RecoveredSegment:
    """Recover a segment.

    Args:
        fs: the disk.
        directory: of the partition.
        base_offset: of the segment.
        interval_bytes: ``index.interval.bytes``.
        state: of the producers at the base; afterwards the one at the end.
        snapshots: its ``map_end`` follows.
        epochs: get those that only the batches know.

    Raises: InvalidOffset (nothing was cut), LoadingFailed, UnreadableFile, OutOfSpace.
    """
    path = directory / segment_file_name(base_offset, FileKind.LOG)
    cause: str | None = None
    with reading(path) as descriptor:
        log = LogBytes(descriptor)
        recovery = _Recovery(path, log, base_offset, interval_bytes, state)
        try:
            for batch in walk(log):
                cause = invalid(log, batch)
                if cause is not None:
                    break
                recovery.take(batch)
                if batch.magic >= MAGIC_V2:
                    snapshots.map_end = batch.last_offset + 1
                    epochs.learn(batch.leader_epoch, batch.base_offset)
        except CorruptRecord as error:
            cause = error.cause
        cut_bytes = log.size_bytes - recovery.valid_bytes
    if cut_bytes:
        fs.truncate(path, recovery.valid_bytes, Purpose.RECOVER)
    index, time_index = recovery.indexes.seal()
    txn_index = b"".join(map(format_aborted_txn, recovery.aborted))
    _write(fs, directory, base_offset, {FileKind.INDEX: index, FileKind.TIME_INDEX: time_index})
    if txn_index or (directory / segment_file_name(base_offset, FileKind.TXN_INDEX)).exists():
        _write(fs, directory, base_offset, {FileKind.TXN_INDEX: txn_index})
    cause = cause or ("the file ends within a batch" if cut_bytes else None)
    return RecoveredSegment(recovery.valid_bytes, cut_bytes, recovery.next_offset, cause)


def empty_segment(fs: FileSystem, directory: Path, base_offset: int) -> int:
    """Cut all of a segment off whose offsets cannot be indexed, and return how many bytes that were."""
    path = directory / segment_file_name(base_offset, FileKind.LOG)
    cut_bytes = path.stat().st_size
    fs.truncate(path, 0, Purpose.RECOVER)
    _write(fs, directory, base_offset, {FileKind.INDEX: b"", FileKind.TIME_INDEX: b""})
    txn_index = directory / segment_file_name(base_offset, FileKind.TXN_INDEX)
    if txn_index.exists():
        fs.truncate(txn_index, 0, Purpose.RECOVER)
    return cut_bytes


def _write(fs: FileSystem, directory: Path, base_offset: int, contents: dict[FileKind, bytes]) -> None:
    for kind, data in contents.items():
        path = directory / segment_file_name(base_offset, kind)
        if not (path.exists() and path.read_bytes() == data):
            fs.replace_file(path, data, Purpose.RECOVER)
