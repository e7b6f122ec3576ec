"""The active segment, open for appending.

Opening walks over the headers that are there: the indexes are made anew from them, so that what an unclean
stop left (preallocated zeros, missing entries) does not matter, and a tail that is no batch is found before
anything is put behind it.

Invariant:  a failed append leaves the file as it was before; what was found when it was opened is never cut.
Durable:    on ``flush``, not on append, as in Kafka. The index files are replaced whole at that moment.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from storage.errors import CorruptBatch, LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.indexes import IndexBuilder
from storage.log.roll import ActiveFacts, segment_at
from storage.log.writing.batches import NewBatch
from storage.log_dir import read_file
from storage.names import FileKind, segment_file_name
from storage.records import BatchHeader, LegacyHeader, PositionedHeader, iter_headers, read_batch
from storage.segment import Segment, reading
from storage.txn_index import AbortedTxn, format_aborted_txn


class TornTail(LogCleanerError):
    """A ``.log`` whose last bytes are no whole batch: nothing is appended behind them, for no reader would find it."""

    path: Path
    position: int
    torn_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path} at byte {self.position}: {self.torn_bytes} bytes that are no whole batch; start the broker "
            f"once, it cuts them off"
        )


class ActiveSegment:
    """The last segment of a log and what its next batch will need to know."""

    def __init__(self, fs: FileSystem, segment: Segment, index_interval_bytes: int, opened_ms: int) -> None:
        self.directory, self.base_offset = segment.directory, segment.base_offset
        self.next_offset = segment.base_offset
        self.size_bytes = 0
        self._fs = fs
        self._path = segment.log.path
        self.opened_ms = opened_ms
        self._first_batch_ms = -1
        self._indexes = IndexBuilder(segment.base_offset, index_interval_bytes, self._path)
        self._file = fs.open_to_append(self._path, Purpose.APPEND)

    @classmethod
    def open(cls, fs: FileSystem, segment: Segment, index_interval_bytes: int, now_ms: int) -> Self:
        """Open the segment behind its last batch.

        Raises: TornTail where other bytes follow it, or its CRC is wrong; UnreadableFile.
        """
        active = cls(fs, segment, index_interval_bytes, now_ms)
        try:
            active._take_what_is_there()
        except BaseException:
            active.close()
            raise
        return active

    @property
    def indexes(self) -> IndexBuilder:
        """The maker of the indexes, which has their entries so far."""
        return self._indexes

    def facts(self) -> ActiveFacts:
        """Return the facts that rolling asks for."""
        return ActiveFacts(
            base_offset=self.base_offset,
            size_bytes=self.size_bytes,
            first_batch_ms=self._first_batch_ms,
            created_ms=self.opened_ms,
            index_bytes=len(self._indexes._offset_index),
            time_index_bytes=len(self._indexes._time_index),
        )

    def segment(self) -> Segment:
        """Return the segment with its files as they are now."""
        return segment_at(self.directory, self.base_offset)

    def append(self, data: memoryview, batches: Sequence[NewBatch], aborted: Sequence[AbortedTxn]) -> None:
        """Write batches behind the last one, and what markers among them abort: all or nothing.

        Raises: OutOfSpace; TornTail where somebody else changed the file, or a failure could not be undone.
        """
        found_bytes = self._file.found_bytes()
        if found_bytes != self.size_bytes:
            raise TornTail(self._path, self.size_bytes, found_bytes - self.size_bytes)
        if aborted:
            self._append_with_aborted(data, aborted)
        else:
            try:
                self._file.write(data)
            except BaseException:
                self._fs.truncate(self._path, self.size_bytes, Purpose.APPEND)
                raise
        for batch in batches:
            self._take(self.size_bytes, batch.size_bytes, batch.last_offset, batch.max_timestamp_ms)

    def _append_with_aborted(self, data: memoryview, aborted: Sequence[AbortedTxn]) -> None:
        txn_index = self._txn_index_path()
        txn_index_bytes = txn_index.stat().st_size if txn_index.exists() else None
        try:
            self._append_aborted(txn_index, aborted)
            self._file.write(data)
        except BaseException:
            self._fs.truncate(self._path, self.size_bytes, Purpose.APPEND)
            self._cut_txn_index(txn_index, txn_index_bytes)
            raise

    def flush(self) -> None:
        """Make the batches last, and write the index files, exact up to here, as a seal would.

        Raises: OutOfSpace.
        """
        self._file.fsync()
        self._write_indexes()

    def close(self) -> None:
        """Let go of the file, nothing else."""
        self._file.close()

    def _take_what_is_there(self) -> None:
        last: PositionedHeader | None = None
        with reading(self._path) as descriptor:
            size_bytes = os.fstat(descriptor).st_size
            try:
                for last in iter_headers(descriptor, self._path, 0, size_bytes):
                    self._take_header(*last)
                if last is not None:
                    read_batch(descriptor, self._path, last).ensure_valid()
            except CorruptBatch as error:
                raise TornTail(self._path, error.position, size_bytes - error.position) from error
        if size_bytes != self.size_bytes:
            raise TornTail(self._path, self.size_bytes, size_bytes - self.size_bytes)

    def _take_header(self, position: int, header: BatchHeader | LegacyHeader) -> None:
        self._take(position, header.size_bytes, header.last_offset, header.max_timestamp_ms)

    def _take(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        if position == 0:
            self._first_batch_ms = max_timestamp_ms
        self._indexes.append(position, size_bytes, last_offset, max_timestamp_ms)
        self.size_bytes += size_bytes
        self.next_offset = last_offset + 1

    def _write_indexes(self) -> None:
        """Seal a copy: appending goes on as if nothing had been written."""
        index, time_index = copy.deepcopy(self._indexes).seal()
        for kind, data in ((FileKind.INDEX, index), (FileKind.TIME_INDEX, time_index)):
            path = self.directory / segment_file_name(self.base_offset, kind)
            if read_file(path) != data:
                self._fs.replace_file(path, data, Purpose.APPEND)

    def _txn_index_path(self) -> Path:
        return self.directory / segment_file_name(self.base_offset, FileKind.TXN_INDEX)

    def _append_aborted(self, path: Path, aborted: Sequence[AbortedTxn]) -> None:
        """Append to the transaction index, which is made with the first aborted transaction of the segment."""
        if not aborted:
            return
        opened = (
            self._fs.open_to_append(path, Purpose.APPEND)
            if path.exists()
            else self._fs.create(path, self.directory, Purpose.APPEND)
        )
        with opened as file:
            file.write(b"".join(map(format_aborted_txn, aborted)))
            file.fsync()

    def _cut_txn_index(self, path: Path, size_bytes: int | None) -> None:
        if size_bytes is None:
            self._fs.unlink(path, Purpose.APPEND)
        else:
            self._fs.truncate(path, size_bytes, Purpose.APPEND)
