"""A ``.cleaned`` segment being written: log, offset and time index, transaction index.

Source: Kafka Cleaner.cleanSegments; index entries by LogSegment.append's rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from cleaner.engine.compaction.draft import Copied, Draft
from policies.retain import AbortedTransaction
from storage.arrays import Table
from storage.directory import OpenFile, is_stored, is_there
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.kernels.index import index_batches
from storage.kernels.layout import index_state
from storage.kernels.status import Status
from storage.names import FileKind, FileState, SegmentFileName, segment_file_name
from storage.segment import Segment, SegmentFile
from storage.txn_index import AbortedTxn, format_aborted_txn


@dataclass(eq=False)
class CleanedSegment:
    """A segment that takes batches in order. ``seal`` makes the files durable; on an error ``discard`` removes them."""

    fs: FileSystem
    directory: Path
    """The directory of the partition that the segment is for."""
    base_offset: int
    index_interval_bytes: int
    state: FileState = FileState.CLEANED
    """PLAIN if the directory belongs to a copy, where nothing is swapped."""
    suffix: str = ""
    """The suffix of the file names. With it, nobody takes the files for files of the log yet."""
    records: int = 0
    has_empty_batches: bool = False
    _index: bytearray = field(default_factory=bytearray)
    _time_index: bytearray = field(default_factory=bytearray)
    _aborted: bytearray = field(default_factory=bytearray)
    _log_file: NewFile | None = None
    _is_sealed: bool = False

    def __post_init__(self) -> None:
        """Prepare the segment, without writing."""
        self._index_state = index_state(self.base_offset)

    @property
    def _log(self) -> NewFile:
        if self._log_file is None:
            self.discard()  # leftovers of an earlier run
            self._log_file = self.fs.create(self._path(FileKind.LOG), self.directory, Purpose.CLEAN)
        return self._log_file

    def append(self, draft: Draft, source: OpenFile) -> None:
        """Append the output of a slice.

        Args:
            draft: of the slice.
            source: the slice's file, open for reading.

        Raises: OutOfSpace, EOFError where the file ends early.
        """
        for part in draft.parts:
            if isinstance(part, Copied):
                self.append_copied(source, part)
                continue
            start, written = self._log.size_bytes, draft.written[part.first_row : part.last_row]
            self._log.write(draft.out[part.start : part.end].data)
            written["position"] -= part.start
            self._add_to_indexes(written, start)
            self._log.write_out()

    def append_copied(self, source: OpenFile, run: Copied) -> None:
        """Copy consecutive batches of a source file unchanged, within the operating system's kernel if it can.

        Args:
            source: the file, open for reading.
            run: the batches.
        """
        start = self._log.size_bytes
        self._log.copy_from(source, run.start, run.end - run.start)
        self._add_to_indexes(run.written, start)
        self._log.write_out()

    def append_aborted(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add entries to the transaction index, in the order of their markers."""
        for txn in transactions:
            entry = AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
            self._aborted += format_aborted_txn(entry)

    @property
    def size_bytes(self) -> int:
        """Return the size of the log so far."""
        return self._log_file.size_bytes if self._log_file else 0

    def measured(self) -> dict[FileKind, int]:
        """Return kind -> the size that the file would have.

        This is the last call for a segment that is only measured.
        """
        self._seal_time_index()
        return {
            FileKind.LOG: self.size_bytes,
            **{kind: len(content) for kind, content in self._indexes().items()},
        }

    def _indexes(self) -> dict[FileKind, bytearray]:
        """Return the index files to write; leave out a transaction index without an entry."""
        always = {FileKind.INDEX: self._index, FileKind.TIME_INDEX: self._time_index}
        return {**always, FileKind.TXN_INDEX: self._aborted} if self._aborted else always

    def seal(self, sources: Sequence[Segment], *, is_cold: bool) -> Segment:
        """Write the indexes, make all files durable, and give them the time of the last source. Raises: OutOfSpace.

        Args:
            sources: the segments of the group.
            is_cold: the sources were not in the page cache, and the log need not stay there.

        From then on the files belong to the swap: if it fails half way, recovery needs the ``.cleaned`` files.
        """
        self._seal_time_index()
        mtime_ns = self._time_ns(sources)
        self._log.set_mtime(mtime_ns)
        self._log.fsync()
        if is_cold:
            self._log.let_go()
        self._log.close()
        contents = self._indexes()
        for kind, content in contents.items():
            self._write(kind, content, mtime_ns)
        self.fs.fsync_dir(self.directory, Purpose.CLEAN)
        self._is_sealed = True
        names = [SegmentFileName(self.base_offset, kind, self.state) for kind in (FileKind.LOG, *contents)]
        files = {name.kind: SegmentFile.at(self.directory, name, self.suffix) for name in names}
        return Segment(self.directory, self.base_offset, files)

    def _time_ns(self, sources: Sequence[Segment]) -> int:
        """Return the file time: that of the last source.

        If base offset, size and time were those of the first source, a look behind a kill would take the cleaned log
        for that source (``only_copies``), and the others for the only copies of their records. So it gets a nanosecond
        more or less, in the same millisecond: Kafka knows no nanoseconds.
        """
        first, last = sources[0].log.identity, sources[-1].log.identity
        is_alike = len(sources) > 1 and (first.size_bytes, first.mtime_ns) == (self.size_bytes, last.mtime_ns)
        return last.mtime_ns ^ 1 if is_alike else last.mtime_ns

    def unseal(self) -> None:
        """Return the files to this object, for ``discard``. No swap of the files has begun."""
        self._is_sealed = False

    def discard(self) -> None:
        """Remove the files unless they are sealed. A second call does nothing."""
        if self._is_sealed:
            return
        if self._log_file is not None:
            self._log_file.close()
            self._log_file = None
        for kind in (FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX):
            path = self._path(kind)
            with suppress(OSError):
                if is_stored(path) or is_there(path):
                    self.fs.unlink(path, Purpose.CLEAN)

    def _path(self, kind: FileKind) -> Path:
        return self.directory / (segment_file_name(self.base_offset, kind, self.state) + self.suffix)

    def _write(self, kind: FileKind, content: bytearray, mtime_ns: int) -> None:
        with self.fs.create(self._path(kind), self.directory, Purpose.CLEAN) as file:
            file.write(content)
            file.set_mtime(mtime_ns)
            file.fsync()

    def _add_to_indexes(self, written: Table, start: int) -> None:
        rows = written.size
        self.records += int(written["records"].sum())
        self.has_empty_batches |= not written["records"].all()
        columns = [np.empty(rows, np.int64) for _ in range(4)]
        status, _, offsets, times = index_batches(
            written, rows, start, self.base_offset, self.index_interval_bytes, self._index_state, *columns
        )
        assert status == Status.OK, status  # a group is no larger than an index can address
        self._index += _interleaved(columns[0][:offsets], columns[1][:offsets], "offset")
        self._time_index += _interleaved(columns[2][:times], columns[3][:times], "time")

    def _seal_time_index(self) -> None:
        """Add the final entry that retention by time relies on. Source: Kafka LogSegment.onBecomeInactiveSegment."""
        state = self._index_state[0]
        if state["max_timestamp"] > state["last_time_entry"]:
            largest = np.array([state["max_timestamp"]], np.int64)
            self._time_index += _interleaved(
                largest, np.array([state["max_timestamp_offset"]]) - self.base_offset, "time"
            )


_ENTRY: Final = {
    "offset": np.dtype([("key", ">i4"), ("value", ">i4")]),
    "time": np.dtype([("key", ">i8"), ("value", ">i4")]),
}


def _interleaved(keys: np.ndarray, values: np.ndarray, layout: str) -> bytes:
    """Return the entries of an index, big-endian."""
    entries = np.empty(keys.size, _ENTRY[layout])
    entries["key"], entries["value"] = keys, values
    return entries.tobytes()
