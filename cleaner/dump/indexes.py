"""An ``.index`` or a ``.timeindex``, entry by entry, each compared with the log beside it.

The kernels read the largest timestamp of a batch's records where they can.

Source: Kafka ``DumpLogSegments.dumpIndex``, ``dumpTimeIndex``; ``AbstractIndex.indexSlotRangeFor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cleaner.dump.files import DumpedFile
from cleaner.dump.logs import Dumping, batches_of, headers_of
from cleaner.dump.stored import Stored, stored_offset_entries, stored_time_entries
from storage.directory import OpenFile, close, open_file
from storage.errors import CorruptBatch, CorruptIndex, UnreadableFile, as_unreadable
from storage.indexes import TimeIndexEntry, floor_slot
from storage.kernels.layout import LOCATED_FIELDS, TIMESTAMP
from storage.kernels.locate import locate_records
from storage.kernels.status import Status
from storage.log_dir import read_file
from storage.scan.arena import Arena
from storage.scan.as_stored import StoredBatch, StoredBatches, StoredRows
from storage.scan.selected import INT64_MAX, INT64_MIN
from storage.scan.slices import Slice

NO_TIMESTAMP: Final = -1

_OFFSET_ENTRY_BYTES: Final = 8


def dump_offset_index(file: DumpedFile, dumping: Dumping) -> None:
    """Show an offset index. Raises: UnreadableFile, CorruptIndex if it fails the sanity check."""
    options, data = dumping.options, _bytes_of(file.location)
    base_offset = file.base_offset or 0
    entries = stored_offset_entries(data, base_offset)
    if not entries:
        _remark(dumping, f"{file.path} is empty.", {"empty": True})
        return
    if options.index_sanity_check:
        _check(file.location, len(data) % _OFFSET_ENTRY_BYTES == 0, "its size is no multiple of an entry's 8 bytes")
        _check(file.location, entries[-1].offset >= base_offset, "its last offset lies below the base offset")
        _remark(dumping, f"{file.path} passed sanity check.", {"sane": True})
        return
    log = _IndexedLog(file.sibling(".log"), dumping)
    for place, entry in enumerate(entries):
        if entry.offset == base_offset and place > 0:
            return  # a crash leaves zeros in a preallocated index
        found = log.last_offset_at(entry.position, options.max_message_size)
        if found is not None and found != entry.offset:
            dumping.findings.offset_mismatch(file.path.absolute(), entry.offset, found)
        if not options.verify_index_only:
            _entry(dumping, "offset-index", {"offset": entry.offset, "position": entry.position})


def dump_time_index(file: DumpedFile, dumping: Dumping) -> None:
    """Show a time index. Raises: UnreadableFile, CorruptIndex if it fails the sanity check."""
    options, data, base_offset = dumping.options, _bytes_of(file.location), file.base_offset or 0
    entries = stored_time_entries(data, base_offset)
    if options.index_sanity_check:
        if entries:
            first, last = entries[0], entries[-1]
            cause = f"its last timestamp {last.timestamp_ms} is below its first, {first.timestamp_ms}"
            _check(file.location, last.timestamp_ms >= first.timestamp_ms, cause)
            _check(file.location, last.offset >= base_offset, "its last offset lies below the base offset")
        _check(file.location, len(data) % 12 == 0, "its size is no multiple of an entry's 12 bytes")
        _remark(dumping, f"{file.path} passed sanity check.", {"sane": True})
        return
    with closing(_IndexedLog(file.sibling(".log"), dumping)) as log:
        _dump_time_entries(file, dumping, entries, log)


def _dump_time_entries(file: DumpedFile, dumping: Dumping, entries: Sequence[TimeIndexEntry], log: _IndexedLog) -> None:
    options, base_offset = dumping.options, file.base_offset or 0
    offsets = _OffsetLookup(file.sibling(".index"), base_offset)
    findings, path, previous_ms = dumping.findings, file.path.absolute(), NO_TIMESTAMP
    arena = Arena()
    for place, (timestamp_ms, offset) in enumerate(entries):
        if offset == base_offset and place > 0:
            return
        found = log.batch_with(offset, offsets.position_of(offset)) if log.is_there else None
        if log.is_there and (found is None or found.last_offset != offset):
            findings.offset_not_found(path, offset, -1 if found is None else found.last_offset)
        elif found is not None:
            largest_ms = _newest_ms(found.batch, file.sibling(".log"), arena, dumping)
            if largest_ms != timestamp_ms:
                findings.timestamp_mismatch(path, timestamp_ms, largest_ms)
            if previous_ms >= timestamp_ms:
                findings.timestamp_out_of_order(path, timestamp_ms, previous_ms)
        if not options.verify_index_only:
            _entry(dumping, "time-index", {"timestamp": timestamp_ms, "offset": offset})
        previous_ms = timestamp_ms


def newest_ms(found: StoredRows | StoredBatch, path: Path, arena: Arena) -> int:
    """Return the largest timestamp of a batch in a file, -1 without one. Raises: CorruptBatch."""
    if isinstance(found, StoredRows):
        by_kernels = _by_kernels(found.slice, arena)
        if by_kernels is not None:
            return by_kernels
        (found,) = batches_of(found)
    batch = Stored.parse(found.data, path, found.position)
    return max((record.timestamp_ms for record, _ in batch.records()), default=NO_TIMESTAMP)


class _IndexedLog:
    """The log beside an index, if there is one: the headers of its batches, read on demand."""

    def __init__(self, path: Path, dumping: Dumping) -> None:
        self._path, self._dumping = path, dumping
        self._batches: list[tuple[int, int, int]] = []
        self._positions: np.ndarray[tuple[int], np.dtype[np.int64]] = np.empty(0, np.int64)
        self._last_offsets = self._positions
        self._sizes = self._positions
        self._opened: tuple[OpenFile, int] | None = None
        self.is_there = self._read()

    def _read(self) -> bool:
        """Note the positions of the batches. Without the log, entries are shown and not compared."""
        parts = self._dumping.walked.get(self._path)
        if parts is None:
            parts = []
            try:
                descriptor, size_bytes = self._file()
                for found in StoredBatches(descriptor, self._path, size_bytes):
                    parts.append(headers_of(found, self._path))
            except UnreadableFile as error:
                self._dumping.damaged(error)
                return False
            except CorruptBatch as error:
                self._dumping.damaged(error)
            finally:
                self.close()
        if parts:
            self._positions, self._last_offsets, self._sizes = np.concatenate(parts, axis=1)
        return True

    def _file(self) -> tuple[OpenFile, int]:
        """Return the log, opened, and its size. Raises: UnreadableFile."""
        if self._opened is None:
            with as_unreadable(self._path):
                self._opened = open_file(self._path)
        return self._opened

    def close(self) -> None:
        """Close the log. Calling it again does nothing."""
        if self._opened is not None:
            close(self._opened[0])
            self._opened = None

    def last_offset_at(self, position: int, size_bytes_max: int) -> int | None:
        """Return the last offset of the batch at a byte. Raises: CorruptBatch where none starts there."""
        if not self.is_there:
            return None
        row = int(np.searchsorted(self._positions, position))
        if row == self._positions.size or self._positions[row] != position:
            raise CorruptBatch(self._path, position, "the index says that a batch starts here, and none does")
        if self._sizes[row] > size_bytes_max:
            cause = f"a batch of {self._sizes[row]} bytes; say --max-message-size {self._sizes[row]}"
            raise CorruptBatch(self._path, position, cause)
        return int(self._last_offsets[row])

    def batch_with(self, offset: int, position: int) -> _FoundBatch | None:
        """Return the first batch from a byte on that ends at an offset or behind it."""
        first = int(np.searchsorted(self._positions, position))
        reaching = np.flatnonzero(self._last_offsets[first:] >= offset)
        if not reaching.size:
            return None
        row = first + int(reaching[0])
        start, size_bytes = int(self._positions[row]), int(self._sizes[row])
        found = next(StoredBatches(self._file()[0], self._path, start + size_bytes, start), None)
        return None if found is None else _FoundBatch(int(self._last_offsets[row]), found)


class _FoundBatch(NamedTuple):
    """A batch that an entry leads to."""

    last_offset: int
    batch: StoredRows | StoredBatch


def _bytes_of(path: Path) -> bytes:
    data = read_file(path)
    if data is None:
        raise UnreadableFile(path, "no such file")
    return data


def _remark(dumping: Dumping, text: str, fields: dict[str, object]) -> None:
    dumping.write(f"{dumping.lines.remark(text, fields)}\n".encode(errors="surrogateescape"))


def _check(path: Path, is_sane: bool, cause: str) -> None:
    if not is_sane:
        raise CorruptIndex(path, 0, f"fails the sanity check: {cause}; a starting broker rebuilds it")


def _entry(dumping: Dumping, kind: str, fields: dict[str, object]) -> None:
    dumping.write(f"{dumping.lines.entry(kind, fields)}\n".encode())


class _OffsetLookup:
    """The offset index beside a time index, searched as Kafka does: a preallocated index ends in zeros."""

    def __init__(self, path: Path, base_offset: int) -> None:
        self._entries = stored_offset_entries(read_file(path) or b"", base_offset)
        self._base_offset = base_offset

    def position_of(self, offset: int) -> int:
        """Return the byte at which the search for the batch of an offset begins."""
        slot = floor_slot(lambda place: self._entries[place].offset, len(self._entries), offset)
        return 0 if slot is None else self._entries[slot].position


def _newest_ms(batch: StoredRows | StoredBatch, log: Path, arena: Arena, dumping: Dumping) -> int:
    try:
        return newest_ms(batch, log, arena)
    except CorruptBatch as error:
        dumping.damaged(error)
        return NO_TIMESTAMP


def _by_kernels(batch: Slice, arena: Arena) -> int | None:
    """Return the timestamp; None if Python has to read the batch."""
    located = np.empty((LOCATED_FIELDS, int(batch.table["record_count"][0])), np.int64)
    try:
        for run in arena.runs(batch, 0, 1):
            plain = batch.table[run.first : run.last]
            status, _, records = locate_records(run.buf, plain, 0, 1, INT64_MIN, INT64_MAX, located.reshape(-1), 0)
    except CorruptBatch:
        return None
    if status != Status.OK:
        return None
    return max(int(located[TIMESTAMP, :records].max(initial=NO_TIMESTAMP)), NO_TIMESTAMP)
