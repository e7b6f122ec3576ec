"""Readers of the batches of a segment in bulk: window by window, slice by slice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

import numpy as np

from storage.arrays import Bytes
from storage.errors import CorruptBatch, CorruptIndex
from storage.indexes import parse_offset_index
from storage.kernels.layout import BATCH
from storage.kernels.status import Status
from storage.log_dir import read_file
from storage.names import FileKind, parse_segment_file_name
from storage.records.v2 import OFFSET_MAX, V2_HEADER_BYTES
from storage.scan.files import FileBytes, MappedFile, file_of, file_to_read
from storage.scan.legacy_rows import Counts, LegacyRows, read_again, read_keys, read_records
from storage.scan.reader import BatchReader
from storage.scan.slices import CAUSES, Checksums, Damage, Position, Slice
from storage.segment import Segment

if TYPE_CHECKING:
    from storage.scan.extents import Extent
    from storage.scan.witness import WitnessFile

WINDOW_BYTES: Final = 8 << 20
"""The bytes of a kernel call: few enough to stay in cache between the checksum and the walk over the records, and to
let signals be served in time. A larger batch gets a window of its own.
"""
EXTENT_WINDOW_BYTES: Final = 1 << 20
"""The bytes of a kernel call for an extent: a window becomes a batch of Arrow."""
ROWS_MAX: Final = 16_384


class ReadMessages(Protocol):
    """A way to read v0 and v1 messages: ``read_keys`` or ``read_records``."""

    def __call__(
        self, window: Bytes, span: tuple[int, int], file_position: int, path: Path, next_offset: int,
        next_ordinal: int, rows_max: int, *, verify: bool,
    ) -> LegacyRows:  # fmt: skip
        """Read the messages at the beginning of a span of a window."""
        ...


class Manner(NamedTuple):
    """The way in which a segment is read."""

    window_bytes: int
    read_messages: ReadMessages
    upper_offset: int | None = None
    """A batch that reaches this offset is damaged."""
    end_offset: int = OFFSET_MAX
    """Nothing is read behind a batch that reaches this offset."""
    is_reused: bool = False
    """Whether a slice is valid only until the next one is taken."""


def open_segment(
    segment: Segment, upper_offset: int, *, is_locked: bool, start: Position | None = None
) -> SegmentReader:
    """Open a segment.

    Args:
        segment: with a ``.log``.
        upper_offset: the next segment's base offset; a batch that reaches it is damaged.
        is_locked: whether we hold the lock of the log dir. If so, the file is mapped until the reader is closed.
        start: the position of the first batch to read; default: the beginning of the file.

    Raises: UnreadableFile, PlanOutOfDate if a file to map has another size than was listed.
    """
    file = MappedFile(segment) if is_locked else file_to_read(segment)
    start = start or Position(0, segment.base_offset, 0, 0)
    manner = Manner(WINDOW_BYTES, read_keys, upper_offset)
    return SegmentReader(segment.log.path, start, segment.size_bytes, file, manner)


def open_extent(extent: Extent, file: FileBytes | None = None) -> SegmentReader:
    """Open an extent, of which messages of v0 and v1 are read with their values.

    Args:
        extent: the extent.
        file: its bytes, as ``read_in_turn`` gives them; the reader closes it.

    Raises: SegmentGone, UnreadableFile.
    """
    read_messages = partial(read_records, offsets=extent.offsets)
    manner = Manner(EXTENT_WINDOW_BYTES, read_messages, end_offset=extent.offsets.end, is_reused=True)
    start = Position(extent.start, extent.base_offset, 0, 0)
    return SegmentReader(extent.path, start, extent.end, file or file_of(extent), manner)


def open_whole(file: WitnessFile) -> SegmentReader:
    """Open all batches of a file, whatever its name, of which messages of v0 and v1 are read with their values.

    Args:
        file: its bytes; the reader closes it.
    """
    from storage.scan.partitions import OffsetRange  # noqa: PLC0415 - a compaction does without, and starts sooner

    read_messages = partial(read_records, offsets=OffsetRange(0, OFFSET_MAX))
    manner = Manner(EXTENT_WINDOW_BYTES, read_messages, is_reused=True)
    return SegmentReader(file.path, Position(0, 0, 0, 0), file.size_bytes, file, manner)


class SegmentReader:
    """The batches of a segment, or of an extent of one.

    One thread walks over them first; several threads may then read slices again.
    """

    def __init__(self, path: Path, start: Position, end: int, file: FileBytes, manner: Manner) -> None:
        """Prepare to read.

        Args:
            path: of the ``.log``.
            start: of the first slice; the least offset there is the segment's base offset, unless it is known better.
            end: the byte of the file at which the last batch ends.
            file: its bytes; the reader closes it.
            manner: how the file is read.
        """
        self.path = path
        self.start = start
        self._end = end
        self._file = file
        self._manner = manner

    @property
    def absent_bytes(self) -> int:
        """The number of bytes that were not in the page cache before the first walk."""
        return self._file.absent_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go, so that unlinking it gives its space back; calling it again does nothing."""
        self._file.close()

    def let_go(self) -> None:
        """Leave the page cache as it was found. No slice is in use."""
        self._file.let_go()

    def leave(self, start: int, end: int) -> None:
        """Say that nobody touches a stretch of the file any more: the whole pages in the stretch are unmapped."""
        self._file.leave(start, end)

    def slice_at(self, start: Position, rows: int, end: int | None = None, *, shares_rows: bool = False) -> Slice:
        """Return a slice of a number of rows over which a walk has gone. Raises: as ``slices``.

        Args:
            start: where the slice starts.
            rows: of it.
            end: the byte of the file at which the slice ends, if messages share rows.
            shares_rows: as of ``slices``.
        """
        return next(self.slices(checksums=Checksums.DONE, start=start, rows_max=rows, end=end, shares_rows=shares_rows))

    def messages_at(self, start: Position, end: int, counts: Counts) -> Slice | None:
        """Return a slice of v0 and v1 messages over which a walk has gone, without keys.

        It is None if the bytes are not these messages any more.

        Args:
            start: where the slice starts.
            end: the byte of the file at which it ends.
            counts: as of ``read_again``.

        Raises: PlanOutOfDate, UnreadableFile.
        """
        buf, at = self._file.window(start.position, end)
        table = read_again(buf, (start.position - at, end - at), start.ordinal, counts)
        return None if table is None else Slice(buf, at, table, start.row, self.path, np.empty(0, np.uint8), None, True)

    def slices(
        self, *, checksums: Checksums, start: Position | None = None, rows_max: int | None = None,
        end: int | None = None, shares_rows: bool = False,
    ) -> Iterator[Slice]:  # fmt: skip
        """Walk over the batches. The first batch that cannot be read raises an error.

        Args:
            checksums: who verifies them.
            start: where to begin; ``self.start`` if none is given.
            rows_max: of a slice.
            end: the byte of the file at which the last batch ends; the segment's end if none is given.
            shares_rows: whether v0 and v1 messages that are not compressed share rows. Such a row has a position, a
                size and records as a batch has, and ends where a message ends.

        Raises: CorruptBatch, PlanOutOfDate, UnreadableFile.
        """
        start, rows_max = start or self.start, rows_max or ROWS_MAX
        for found in self._walk(start, rows_max, checksums, goes_on=False, end=end, shares_rows=shares_rows):
            if isinstance(found, Damage):
                raise found.error
            yield found

    def slices_and_damage(self) -> Iterator[Slice | Damage]:
        """Walk over the batches, and verify their checksums.

        A ``Damage`` stands in the place of a batch that cannot be read.

        Raises: UnreadableFile.
        """
        return self._walk(self.start, ROWS_MAX, Checksums.ON_READ, goes_on=True)

    def _walk(
        self, start: Position, rows_max: int, checksums: Checksums, *, goes_on: bool, end: int | None = None,
        shares_rows: bool = False,
    ) -> Iterator[Slice | Damage]:  # fmt: skip
        manner, row, end = self._manner, start.row, self._end if end is None else end
        read_messages = manner.read_messages
        if shares_rows:
            upper_offset = OFFSET_MAX if manner.upper_offset is None else manner.upper_offset
            read_messages = partial(read_keys, shared_below=upper_offset)
        possible = max(end - start.position, 0) // V2_HEADER_BYTES + 1  # a small file has few batches
        table = np.empty(min(rows_max, possible), BATCH)  # the kernel fills the rows that it finds
        reader = BatchReader(self._file.window, start.position, end, table, manner.window_bytes)
        reader.go_on(*start[:3])
        while reader.next_offset < manner.end_offset and (found := reader.read()) is not None:
            rows, status = found.table.size, found.status
            if rows:
                found.table["outcome"] = 0
                batches = found.table if manner.is_reused else found.table.copy()
                slice_ = Slice(found.buf, found.file_position, batches, row, self.path)
                good = slice_.sound_rows() if checksums is Checksums.ON_READ else rows
                if good:
                    yield self._bounded(slice_ if good == rows else slice_.rows(batches[:good]))
                if good < rows:
                    reader.go_on(*_behind(slice_, good, found.least_offset))
                    yield slice_.damage(Status.BAD_CRC, good)
            elif status == Status.LEGACY_MAGIC:
                read = read_messages(
                    found.buf, found.span, found.file_position, self.path, found.least_offset, found.first_ordinal,
                    rows_max, verify=checksums is not Checksums.DONE,
                )  # fmt: skip
                rows, status = read.table.size, read.status
                reader.go_on(found.file_position + read.stopped, read.next_offset, read.next_ordinal)
                if rows:
                    yield self._bounded(
                        Slice(
                            found.buf, found.file_position, read.table, row, self.path, read.keys, read.located,
                            shares_rows,
                        )
                    )  # fmt: skip
                if read.damage is not None:
                    yield Damage(read.damage, None)
            row += rows
            if reader.position == found.position:
                damage, behind = self._unreadable(CAUSES[status], found.position, goes_on=goes_on)
                reader.go_on(behind, reader.next_offset)
                yield damage

    def _bounded(self, found: Slice) -> Slice:
        """Refuse the first batch that reaches into the next segment."""
        last_offsets, upper_offset = found.table["last_offset"], self._manner.upper_offset
        if upper_offset is not None and last_offsets[-1] >= upper_offset:
            row = int(np.searchsorted(last_offsets, upper_offset))
            cause = f"offsets reach {last_offsets[row] + 1}, beyond the next segment's base {upper_offset}"
            raise CorruptBatch(self.path, found.position_of(row), cause)
        return found

    def _unreadable(self, cause: str, position: int, *, goes_on: bool) -> tuple[Damage, int]:
        """Return the damage of bytes of unknown length, and the position at which reading goes on."""
        behind = self._end
        if goes_on:
            behind = self._next_indexed(position)
            cause = f"{cause}; what follows up to byte {behind} cannot be told apart"
        return Damage(CorruptBatch(self.path, position, cause), None), behind

    def _next_indexed(self, position: int) -> int:
        """Return the next byte at which a batch starts by the offset index, else the end.

        The index of a ``.log.deleted`` is the ``.index.deleted``: a rename takes both.
        """
        name = parse_segment_file_name(self.path.name)
        if name is None:
            return self._end
        path = self.path.with_name(str(name._replace(kind=FileKind.INDEX)))
        try:
            entries = parse_offset_index(read_file(path) or b"", name.base_offset, path)
        except CorruptIndex:
            entries = []
        found = (entry.position for entry in entries if entry.position > position)
        return min(next(found, self._end), self._end)


def _behind(found: Slice, row: int, least_offset: int) -> tuple[int, int]:
    """Return the position behind a damaged row, and the least offset there. The row's own offsets are not believed."""
    behind = found.position_of(row) + int(found.table["size"][row])
    return behind, int(found.table["last_offset"][row - 1]) + 1 if row else least_offset
