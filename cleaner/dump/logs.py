"""A ``.log`` or a metadata snapshot, batch by batch, and findings about indexes and offsets, which follow all files.

The kernels read and print most batches. The others are read here, record by record: batches of version 0 and 1, records
for a decoder, control records in JSON, and damage.

Source: Kafka ``DumpLogSegments``: what ``main`` and ``TimeIndexDumpErrors`` print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cleaner.dump.files import DumpedFile, without_controls
from cleaner.dump.json_lines import JsonDumpLines
from cleaner.dump.options import INT32_MAX, DumpOptions
from cleaner.dump.printing import Printed, ReadOffsets, RowPrinter, may_print
from cleaner.dump.stored import Stored
from cleaner.dump.text import TextLines
from storage.arrays import Integers
from storage.directory import OpenFile, close, open_file
from storage.errors import CorruptBatch, LogCleanerError, as_unreadable
from storage.records.batch_search import next_whole_batch
from storage.scan.as_stored import StoredBatch, StoredBatches, StoredRows

Headers = np.ndarray[tuple[int, int], np.dtype[np.int64]]
NO_OFFSET: Final = -1
_SEARCHED_BYTES_MAX: Final = 256 << 20
"""The bound of the search behind damage: bytes may be made to look like batches."""


class Dumping(NamedTuple):
    """The means of a dump: the options, the maker of lines, and the functions that take lines and errors."""

    options: DumpOptions
    lines: TextLines | JsonDumpLines
    write: Callable[[bytes | memoryview], object]
    """Takes lines for stdout."""
    damaged: Callable[[LogCleanerError], None]
    """Takes the error of each part that cannot be read; the dump goes on behind that part."""
    findings: DumpFindings
    walked: dict[Path, list[Headers]]
    """The log that was read last, if it is whole: the indexes beside it need not read it again."""


def headers_of(found: StoredRows | StoredBatch, path: Path) -> Headers:
    """Return position, last offset and size of batches in a file. Raises: CorruptBatch."""
    if isinstance(found, StoredRows):
        table = found.slice.table
        return np.stack((table["position"] + found.slice.file_position, table["last_offset"], table["size"]))
    batch = Stored.parse(found.data, path, found.position)
    return np.array([[found.position], [batch.header.last_offset], [len(found.data)]], np.int64)


class LogDump:
    """The dump of one file of record batches."""

    def __init__(self, file: DumpedFile, dumping: Dumping) -> None:
        self._file, self._dumping, self._options = file, dumping, dumping.options
        self._last_offset = NO_OFFSET
        self._printer = RowPrinter(dumping.options, dumping.lines) if may_print(dumping.options) else None

    def run(self) -> None:
        """Read the file. Raises: UnreadableFile."""
        path, options = self._file.location, self._options
        with as_unreadable(path):
            descriptor, size_bytes = open_file(path)
        try:
            end = min(size_bytes, options.max_bytes)
            start: int | None = 0
            while start is not None:
                start = self._read(descriptor, start, end)
        finally:
            close(descriptor)

    def _read(self, descriptor: OpenFile, start: int, end: int) -> int | None:
        """Read the batches from a byte on. Returns: where to go on behind damage; None at the end."""
        batches, damage = StoredBatches(descriptor, self._file.location, end, start), None
        headers: list[Headers] = []
        self._dumping.walked.clear()
        try:
            for found in batches:
                headers.append(headers_of(found, self._file.location))
                self._rows(found) if isinstance(found, StoredRows) else self._batch(found)
        except CorruptBatch as error:
            damage = error
        position, is_cut_short = batches.position, self._options.max_bytes != INT32_MAX
        if start == 0 and damage is None and position >= end and not is_cut_short:
            self._dumping.walked[self._file.location] = headers
        if damage is None and (position >= end or is_cut_short):
            return None
        base_offset, path = self._file.base_offset or 0, self._file.location
        behind = next_whole_batch(descriptor, path, position + 1, end, base_offset, _SEARCHED_BYTES_MAX)
        if damage is None and behind is None and not self._file.is_finished:
            self._trailing(end - position)
            return None
        cause = damage.cause if damage else f"{(behind or end) - position:,} bytes are no whole batch"
        ends_as_kafkas = (
            damage is None and isinstance(self._dumping.lines, TextLines) and self._options.selection.takes_all
        )
        if ends_as_kafkas:
            self._trailing(end - position)
        if behind is None:
            cause += f"; what follows up to byte {end} was not read"
        elif ends_as_kafkas:
            cause += f"; the text ends here, as Kafka's does, and with --json it goes on at byte {behind}"
            behind = None
        else:
            cause += f"; the dump goes on at byte {behind}"
        self._dumping.damaged(CorruptBatch(self._file.location, position, cause))
        return behind

    def _trailing(self, size_bytes: int) -> None:
        text = f"Found {size_bytes} invalid bytes at the end of {self._file.path.name}"
        self._print(self._dumping.lines.remark(text, {"invalidBytes": size_bytes}))

    def _rows(self, rows: StoredRows) -> None:
        if self._printer is None:
            for batch in batches_of(rows):
                self._batch(batch)
            return
        for found in self._printer.print(rows):
            match found:
                case Printed(text):
                    self._dumping.write(text.data)
                case ReadOffsets(offsets):
                    self._note_gaps(offsets)
                case StoredBatch():
                    self._batch(found)
                case CorruptBatch():
                    self._dumping.damaged(found)

    def _batch(self, found: StoredBatch) -> None:
        """Show a batch record by record."""
        path, options, write = self._file.location, self._options, self._print
        try:
            batch = Stored.parse(found.data, path, found.position)
        except CorruptBatch as error:
            self._dumping.damaged(error)
            return
        heading = self._dumping.lines.batch(batch, batch.is_valid)
        is_shown = options.selection.takes_all
        if is_shown:
            write(heading)
        elif not options.selection.may_take(batch.base_offset, batch.header.last_offset):
            return
        if not options.reads_records:
            return
        offsets = []
        try:
            for stored in batch.records():
                record = stored.record
                offsets.append(record.offset)
                if not options.selection.takes(record.offset, record.timestamp_ms, record.key):
                    continue
                if not is_shown:
                    write(heading)
                    is_shown = True
                    if not options.shows_records:
                        break
                if options.shows_records:
                    write(self._dumping.lines.record(batch, stored))
        except CorruptBatch as error:
            self._dumping.damaged(error)
        self._note_gaps(np.array(offsets, np.int64))

    def _print(self, line: str) -> None:
        self._dumping.write(f"{line}\n".encode())

    def _note_gaps(self, offsets: Integers) -> None:
        """Note each offset that is not the next one after its predecessor."""
        options = self._options
        if not offsets.size or not options.selection.takes_all or not options.shows_records:
            return
        before = np.concatenate(([self._last_offset], offsets[:-1]))
        places = np.flatnonzero(offsets != before + 1)
        if places.size:
            self._dumping.findings.gaps(self._file.path.absolute(), np.stack((before[places], offsets[places]), axis=1))
        self._last_offset = int(offsets[-1])


def batches_of(rows: StoredRows) -> Iterator[StoredBatch]:
    """Return the batches of some rows, for Python to read."""
    found = rows.slice
    for position, size in zip(found.table["position"].tolist(), found.table["size"].tolist(), strict=True):
        yield StoredBatch(found.file_position + position, found.buf[position : position + size].data)


class IndexMismatch(NamedTuple):
    """A number as the index states it, and as the log states it."""

    in_index: int
    in_log: int


class DumpFindings:
    """Findings by file, in the order in which they were made."""

    def __init__(self) -> None:
        self._offset_index: dict[Path, dict[int, int]] = {}
        self._timestamps: dict[Path, list[IndexMismatch]] = {}
        self._out_of_order: dict[Path, list[IndexMismatch]] = {}
        self._not_found: dict[Path, list[IndexMismatch]] = {}
        self._gaps: dict[Path, list[Integers]] = {}

    def offset_mismatch(self, path: Path, index_offset: int, log_offset: int) -> None:
        """Note that an offset index points to a batch that ends at another offset."""
        self._offset_index.setdefault(path, {})[index_offset] = log_offset

    def timestamp_mismatch(self, path: Path, index_ms: int, log_ms: int) -> None:
        """Note that a time index names a batch with another largest timestamp."""
        self._timestamps.setdefault(path, []).append(IndexMismatch(index_ms, log_ms))

    def timestamp_out_of_order(self, path: Path, index_ms: int, previous_ms: int) -> None:
        """Note that a timestamp of a time index is not above the one before it."""
        self._out_of_order.setdefault(path, []).append(IndexMismatch(index_ms, previous_ms))

    def offset_not_found(self, path: Path, index_offset: int, log_offset: int) -> None:
        """Note that no batch ends at the offset that a time index names. The log's offset is -1 if the log has no batch
        at all.
        """
        self._not_found.setdefault(path, []).append(IndexMismatch(index_offset, log_offset))

    def gaps(self, path: Path, pairs: Integers) -> None:
        """Note gaps between the offsets of records.

        ``pairs``: two columns, the offset before each gap and the offset behind it.
        """
        if len(pairs):
            self._gaps.setdefault(path, []).append(pairs)

    def lines(self) -> Iterator[str]:
        """Return the lines for stderr."""
        for path, found in self._offset_index.items():
            yield f"Mismatches in :{without_controls(str(path))}"
            for index, log in sorted(found.items(), reverse=True):
                yield f"  Index offset: {index}, log offset: {log}"
        for of_files, head, line in (
            (self._timestamps, "Found timestamp mismatch", "  Index timestamp: {}, log timestamp: {}"),
            (
                self._out_of_order,
                "Found out of order timestamp",
                "  Index timestamp: {}, Previously indexed timestamp: {}",
            ),
            (
                self._not_found,
                "The following indexed offsets are not found",
                "Indexed offset: {}, found log offset: {}",
            ),
        ):
            for path, pairs in of_files.items():
                yield f"{head} in :{without_controls(str(path))}"
                for pair in pairs:
                    yield line.format(*pair)
        for path, parts in self._gaps.items():
            yield f"Non-consecutive offsets in {without_controls(str(path))}"
            followers = dict(np.concatenate(parts).tolist())  # as in Kafka, the last one counts
            for offset, next_offset in sorted(followers.items()):
                yield f"  {offset} is followed by {next_offset}"

    def documents(self) -> Iterator[dict[str, Any]]:
        """Return the findings for JSON. Offsets that do not follow are left out: the records show them."""
        yield from _documents("index-offset", {path: found.items() for path, found in self._offset_index.items()})
        yield from _documents("index-timestamp", self._timestamps)
        yield from _documents("index-order", self._out_of_order)
        yield from _documents("index-offset-not-found", self._not_found)


def _documents(kind: str, found: Any) -> Iterator[dict[str, Any]]:
    for path, pairs in found.items():
        for index, log in pairs:
            yield {"finding": kind, "path": str(path), "index": index, "log": log}
