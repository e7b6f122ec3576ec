"""The active segment, open for appending.

From the first append to the roll or the close, its index files have their full length, with zeros behind their entries,
as Kafka's have: so a reader beside it sees them, and so a crash leaves them. A segment that was just rolled has no
index files until its first append.

Steps:      (of an append) room for index entries is there; aborted transactions; the batches; index entries.
Invariant:  a failed append leaves the log as it was before; what was found when it was opened is never cut.
Durable:    on ``flush``, not on append, as in Kafka.
Assumes:    indexes that do not look as a clean stop leaves them are worth nothing: they are made anew from the batches.

Source: Kafka LogSegment, LazyIndex, AbstractIndex, FileRecords.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from storage.errors import CorruptBatch, LogCleanerError
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.indexes import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, IndexBuilder
from storage.log.config import LogConfig
from storage.log.errors import OffsetIndexed
from storage.log.read import last_offset_entry
from storage.log.roll import ActiveFacts, segment_at
from storage.log.writing.validation import NewBatch
from storage.log_dir import read_file
from storage.names import FileKind, segment_file_name
from storage.records import BatchHeader, LegacyHeader, PositionedHeader, iter_headers, read_batch
from storage.segment import Segment, reading_here
from storage.txn_index import AbortedTxn, format_aborted_txn


class TornTail(LogCleanerError):
    """A ``.log`` whose last bytes are no whole batch.

    Nothing is appended behind such bytes, because no reader would find it.
    """

    path: Path
    position: int
    torn_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path} at byte {self.position}: {self.torn_bytes} bytes that are no whole batch; start the broker "
            f"once, it cuts them off"
        )


class IndexFile:
    """One index file of the active segment: entries, then zeros up to its full length."""

    def __init__(self, fs: FileSystem, directory: Path, base_offset: int, kind: FileKind, full_bytes: int) -> None:
        self._fs, self._full_bytes = fs, full_bytes
        self.path = directory / segment_file_name(base_offset, kind)
        self._directory = directory
        self._file: NewFile | None = None
        self._written_bytes = 0

    def materialize(self, found_bytes: int) -> None:
        """Have the file, in its full length, with the entries in its first ``found_bytes``. Raises: OutOfSpace."""
        if self._file is not None:
            return
        if not os.path.lexists(self.path):
            self._fs.create(self.path, self._directory, Purpose.APPEND).close()
        self._fs.truncate(self.path, found_bytes, Purpose.APPEND)
        self._fs.truncate(self.path, max(self._full_bytes, found_bytes), Purpose.APPEND)
        self._file, self._written_bytes = self._fs.open_to_write(self.path, Purpose.APPEND), found_bytes

    @property
    def is_missing(self) -> bool:
        """Tells whether the file is not open yet."""
        return self._file is None

    def write(self, entries: bytearray) -> None:
        """Write the entries that the file does not have yet. Raises: OutOfSpace."""
        if len(entries) > self._written_bytes:
            assert self._file is not None
            # a copy: a view would keep the entries from being forgotten, in the frames of an error
            self._file.write_at(self._written_bytes, bytes(entries[self._written_bytes :]))
            self._written_bytes = len(entries)

    def back_to(self, entries_bytes: int) -> None:
        """Forget entries; the next ones are written over them."""
        self._written_bytes = min(self._written_bytes, entries_bytes)

    def trim(self) -> None:
        """Give the file the length of its entries."""
        if self._file is not None:
            self._fs.truncate(self.path, self._written_bytes, Purpose.APPEND)

    def fsync(self) -> None:
        """Make the entries last. Raises: OutOfSpace."""
        if self._file is not None:
            self._file.fsync()

    def close(self) -> None:
        """Let go of the file, nothing else."""
        if self._file is not None:
            self._file.close()


class ActiveSegment:
    """The last segment of a log, with the facts that its next batch needs."""

    def __init__(self, fs: FileSystem, directory: Path, base_offset: int, config: LogConfig, opened_ms: int) -> None:
        """Begin without a batch and without an open file."""
        self.directory, self.base_offset, self.opened_ms = directory, base_offset, opened_ms
        self.next_offset, self.size_bytes = base_offset, 0
        self._fs = fs
        self._path = directory / segment_file_name(base_offset, FileKind.LOG)
        self._first_batch_ms = -1
        bound_ms = min(config.segment_jitter_ms, config.segment_ms)
        self._jitter_ms = config.draw(bound_ms) if bound_ms > 0 else 0
        self._interval_bytes = config.index_interval_bytes
        self._indexes = IndexBuilder(base_offset, self._interval_bytes, self._path)
        full_bytes = config.segment_index_bytes
        self._index_files = (
            IndexFile(fs, directory, base_offset, FileKind.INDEX, full_bytes - full_bytes % OFFSET_ENTRY_BYTES),
            IndexFile(fs, directory, base_offset, FileKind.TIME_INDEX, full_bytes - full_bytes % TIME_ENTRY_BYTES),
        )
        self._file = fs.open_to_write(self._path, Purpose.APPEND)
        self._allocated_bytes = self._file.size_bytes
        self._txn_index = directory / segment_file_name(base_offset, FileKind.TXN_INDEX)

    @classmethod
    def begin(cls, fs: FileSystem, directory: Path, base_offset: int, config: LogConfig, now_ms: int) -> Self:
        """Open a segment that was just made: its ``.log`` holds no batch, and it has no index files."""
        return cls(fs, directory, base_offset, config, now_ms)

    @classmethod
    def open(cls, fs: FileSystem, segment: Segment, config: LogConfig, now_ms: int) -> Self:
        """Open the segment behind its last batch, and give its index files their full length.

        Args:
            fs: the disk.
            segment: as it was listed.
            config: of the topic.
            now_ms: epoch ms.

        Raises: TornTail where other bytes follow the last batch, or its CRC is wrong; UnreadableFile.
        """
        active = cls(fs, segment.directory, segment.base_offset, config, now_ms)
        try:
            is_resumed = active._take_what_is_there(segment)
            for file, entries in active._entries():
                file.materialize(len(entries) if is_resumed else 0)
            active._write_entries()
        except BaseException:
            active.close()
            raise
        return active

    @property
    def indexes(self) -> IndexBuilder:
        """The entries of the segment's indexes so far."""
        return self._indexes

    def facts(self) -> ActiveFacts:
        """Return the facts that rolling asks for."""
        return ActiveFacts(
            base_offset=self.base_offset,
            size_bytes=self.size_bytes,
            first_batch_ms=self._first_batch_ms,
            created_ms=self.opened_ms,
            index_bytes=len(self._indexes.offset_index),
            time_index_bytes=len(self._indexes.time_index),
            jitter_ms=self._jitter_ms,
        )

    def segment(self) -> Segment:
        """Return the segment with its files as they are now."""
        return segment_at(self.directory, self.base_offset)

    def append(self, data: memoryview, batches: Sequence[NewBatch], aborted: Sequence[AbortedTxn]) -> None:
        """Write batches behind the last one, and what markers among them abort: all or nothing.

        Raises: OutOfSpace; TornTail where somebody else changed the file, or a failure could not be undone.
        """
        found_bytes = self._file.found_bytes()
        if found_bytes != self._allocated_bytes:
            raise TornTail(self._path, self._allocated_bytes, found_bytes - self._allocated_bytes)
        if self._index_files[1].is_missing:
            self.materialize()
        size_bytes, mark = self.size_bytes, self._indexes.mark()
        next_offset, first_batch_ms = self.next_offset, self._first_batch_ms
        txn_index_bytes = self._txn_index_bytes() if aborted else None
        try:
            if aborted:
                self._append_aborted(txn_index_bytes, aborted)
            self._file.write_at(size_bytes, data)
            for batch in batches:
                self._take(self.size_bytes, batch.size_bytes, batch.last_offset, batch.max_timestamp_ms)
            if self.next_offset == next_offset:
                self._check_last_entries()
            self._write_entries()
        except BaseException:
            self.size_bytes, self.next_offset, self._first_batch_ms = size_bytes, next_offset, first_batch_ms
            self._indexes.back_to(mark)
            for file, entries in self._entries():
                file.back_to(len(entries))
            self._fs.truncate(self._path, size_bytes, Purpose.APPEND)
            if self._allocated_bytes > size_bytes:
                self._fs.truncate(self._path, self._allocated_bytes, Purpose.APPEND)
            if aborted:
                self._cut_txn_index(txn_index_bytes)
            raise
        self._allocated_bytes = max(self._allocated_bytes, self.size_bytes)

    def _check_last_entries(self) -> None:
        """Refuse a batch without records whose index entry would repeat the entry of another batch. Raises:
        OffsetIndexed.
        """
        index = self._indexes.offset_index
        if len(index) >= 2 * OFFSET_ENTRY_BYTES and index[-8:-4] <= index[-16:-12]:
            raise OffsetIndexed(self._path, f"offset {self.next_offset - 1} has an index entry already")

    def flush(self) -> None:
        """Make the batches and the index entries last; an empty segment gets no index files. Raises: OutOfSpace."""
        if self.size_bytes:
            self.materialize()
        self._file.fsync()
        for file in self._index_files:
            file.fsync()

    def seal(self) -> None:
        """Give the indexes their last entry, and trim all files to their content, durably: for a roll or a stop.

        Raises: OutOfSpace. Source: Kafka LogSegment.onBecomeInactiveSegment, close.
        """
        self.materialize()
        mark = self._indexes.mark()
        try:
            self._indexes.seal()
            self._write_entries()
        except BaseException:
            self._indexes.back_to(mark)
            raise
        for file in self._index_files:
            file.trim()
        if self._allocated_bytes > self.size_bytes:
            self._fs.truncate(self._path, self.size_bytes, Purpose.APPEND)
            self._allocated_bytes = self.size_bytes
        self.flush()

    def close(self) -> None:
        """Let go of the files, nothing else."""
        self._file.close()
        for file in self._index_files:
            file.close()

    def _take_what_is_there(self, segment: Segment) -> bool:
        """Find the end of the batches, from the last indexed one on; return whether the indexes can be believed."""
        entry = last_offset_entry(segment)
        try:
            found = self._resume(segment, entry.position if entry else 0)
        except TornTail:
            if entry is None or not entry.position:
                raise
            found = False  # an index that points into the middle of a batch is wrong, the log is not
        if not found:
            self.next_offset, self.size_bytes, self._first_batch_ms = self.base_offset, 0, -1
            self._indexes = IndexBuilder(self.base_offset, self._interval_bytes, self._path)
            self._walk(0, self._indexes)
            self._indexes.reopen()
        return found

    def _resume(self, segment: Segment, start: int) -> bool:
        """Go on with the present indexes; return False if a clean stop would have left other indexes."""
        stored = [read_file(file.path) for file in self._index_files]
        index, time_index = stored
        if index is None or time_index is None:
            return False
        is_torn = len(index) % OFFSET_ENTRY_BYTES or len(time_index) % TIME_ENTRY_BYTES
        if is_torn or start >= max(segment.size_bytes, 1):
            return False
        if (index and not any(index[-OFFSET_ENTRY_BYTES:])) or _has_zeros(time_index):
            return False
        seen = IndexBuilder(self.base_offset, self._interval_bytes, self._path)
        self._walk(start, seen)
        resumed = IndexBuilder.resumed(self.base_offset, self._interval_bytes, self._path, index, time_index)
        self._indexes = resumed
        return resumed.largest.timestamp_ms >= seen.largest.timestamp_ms

    def _walk(self, start: int, indexes: IndexBuilder) -> None:
        last: PositionedHeader | None = None
        self.size_bytes = start
        with reading_here(self._path) as descriptor:
            size_bytes = os.fstat(descriptor).st_size
            try:
                if start:
                    first = next(iter_headers(descriptor, self._path, 0, size_bytes), None)
                    if first is None:
                        raise TornTail(self._path, 0, size_bytes)
                    self._first_batch_ms = first.header.max_timestamp_ms
                for last in iter_headers(descriptor, self._path, start, size_bytes):
                    indexes.append(*_index_facts(*last))
                    self._count(*last)
                if last is not None:
                    read_batch(descriptor, self._path, last).ensure_valid()
            except CorruptBatch as error:
                raise TornTail(self._path, error.position, size_bytes - error.position) from error
        if size_bytes != self.size_bytes:
            raise TornTail(self._path, self.size_bytes, size_bytes - self.size_bytes)

    def _count(self, position: int, header: BatchHeader | LegacyHeader) -> None:
        if position == 0:
            self._first_batch_ms = header.max_timestamp_ms
        self.size_bytes += header.size_bytes
        self.next_offset = header.next_offset

    def _take(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        if position == 0:
            self._first_batch_ms = max_timestamp_ms
        self._indexes.append(position, size_bytes, last_offset, max_timestamp_ms)
        self.size_bytes += size_bytes
        self.next_offset = last_offset + 1

    def _entries(self) -> tuple[tuple[IndexFile, bytearray], ...]:
        index, time_index = self._index_files
        return (index, self._indexes.offset_index), (time_index, self._indexes.time_index)

    def materialize(self) -> None:
        """Have the index files, in their full length. Raises: OutOfSpace."""
        for file in self._index_files:
            file.materialize(0)

    def _write_entries(self) -> None:
        for file, entries in self._entries():
            file.write(entries)

    def _txn_index_bytes(self) -> int | None:
        return self._txn_index.stat().st_size if self._txn_index.exists() else None

    def _append_aborted(self, found_bytes: int | None, aborted: Sequence[AbortedTxn]) -> None:
        """Append to the transaction index, which is made with the first aborted transaction of the segment."""
        path = self._txn_index
        opened = (
            self._fs.create(path, self.directory, Purpose.APPEND)
            if found_bytes is None
            else self._fs.open_to_append(path, Purpose.APPEND)
        )
        with opened as file:
            file.write(b"".join(map(format_aborted_txn, aborted)))
            file.fsync()

    def _cut_txn_index(self, size_bytes: int | None) -> None:
        if size_bytes is None:
            self._fs.unlink(self._txn_index, Purpose.APPEND)
        else:
            self._fs.truncate(self._txn_index, size_bytes, Purpose.APPEND)


def _has_zeros(time_index: bytes) -> bool:
    """Return whether a time index ends with an entry of zeros that is not its only one."""
    return len(time_index) > TIME_ENTRY_BYTES and not any(time_index[-TIME_ENTRY_BYTES:])


def _index_facts(position: int, header: BatchHeader | LegacyHeader) -> tuple[int, int, int, int]:
    return position, header.size_bytes, header.last_offset, header.max_timestamp_ms
