"""Answers the questions that the rules of a start ask of the contents of one partition directory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from cleaner.engine.preflight.recovery import recover, zeros_behind
from policies.preflight.facts import KafkaFailure, RecoveredLog
from storage.log.end import find_end
from storage.log.file_records.positions import StoredIndex, counted_end, translate
from storage.log.file_records.walk import CorruptRecord, WalkedBatch, walk
from storage.log.listing import list_partition
from storage.log.producer_state import CorruptSnapshot, parse_snapshot
from storage.log_dir import read_file
from storage.records.read_batches import LogBytes
from storage.segment import reading

_ABORTED: Final = struct.Struct(">bbqqqq")
"""Kafka takes the first byte of the two for the version (``AbortedTxn.version``), whatever the second one is."""


class ReadingBudget:
    """A bound on the segments that are read whole for a prediction, in bytes. Of a larger one only the end is read."""

    def __init__(self, left_bytes: int, file_bytes_max: int) -> None:
        """Begin with so many bytes in all; no larger file is read whole."""
        self._left_bytes, self._file_bytes_max = left_bytes, file_bytes_max
        self.unread_bytes = 0
        """The size of the segments that a start recovers, and of which only the ends were read."""

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
    def _reading(self, name: str) -> Iterator[int]:
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
