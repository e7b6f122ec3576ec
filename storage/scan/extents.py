"""Extents: the part of one segment that one task reads, fixed when the read is planned.

A segment is cut where its offset index says that batches start. An index is a hint: the segment is not cut where no
such batch starts. Files and lengths are those of the moment of planning; a task that opens a file checks that it is
still the same file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import OpenFile
from storage.indexes import OffsetIndexEntry
from storage.log.read import checked_position, companion_bytes, offset_entries, position_of, time_entries
from storage.names import FileKind, TopicPartition
from storage.records import iter_headers, read_batch
from storage.scan.partitions import OffsetRange
from storage.segment import Segment, reading
from storage.stores.paths import StoredPath
from storage.txn_index import AbortedTxn, collect_aborted_txns, parse_txn_index

UNCUT_BYTES: Final = 1 << 31
"""Of a part: no segment is cut. To find where takes requests to a store, which a single reader need not make."""
TASKS_WANTED: Final = 16
"""Small extents are packed into about this many tasks at least."""
TASK_BYTES_MIN: Final = 4 << 20
"""The least cost of a task, if there is as much."""
OPEN_BYTES: Final = 256 << 10
"""What could be read in the time that it takes to open a file: 300 us."""
OPEN_BYTES_IN_A_STORE: Final = 4 << 20
"""The same in a store: 30 ms. Spark's default for files, too (``openCostInBytes``)."""


class Extent(NamedTuple):
    """Batches of one ``.log``. Cheap: a plan of a large log dir has a million."""

    topic_partition: TopicPartition
    directory: Path
    """The directory of the partition. All its extents share the value."""
    file_name: str
    inode: int
    base_offset: int
    """The base offset of the segment."""
    start: int
    """The byte of the file where its first batch starts."""
    end: int
    """Byte behind its last batch."""
    offsets: OffsetRange
    """Records with offsets outside this range are left out."""
    since_ms: int | None
    """Batches without a record at or after this time, epoch ms, are left out."""
    aborted: tuple[AbortedTxn, ...]
    """Transactions whose records are left out."""

    @property
    def path(self) -> Path:
        """The path of the ``.log``."""
        return self.directory / self.file_name

    @property
    def size_bytes(self) -> int:
        """Return the size of its batches."""
        return self.end - self.start

    @property
    def cost_bytes(self) -> int:
        """Return how many bytes could be read in the time that this extent takes, with the opening of its file."""
        return self.end - self.start + (OPEN_BYTES_IN_A_STORE if isinstance(self.directory, StoredPath) else OPEN_BYTES)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a partition that is to be read."""

    offsets: OffsetRange
    since_ms: int | None
    partition_bytes_max: int
    read_committed: bool
    ends_log: bool = False
    """True if the offsets are known to end where the log does: then no index tells where its last segment ends."""


def cut_partition(name: TopicPartition, segments: Sequence[Segment], wanted: Wanted) -> Iterator[Extent]:
    """Yield the extents of a partition, ascending.

    Raises: CorruptIndex of a transaction index, UnreadableFile.
    """
    aborted = _aborted(segments, wanted) if wanted.read_committed else ()
    range_start, range_end, since_ms = *wanted.offsets, wanted.since_ms
    for place, segment in enumerate(segments):
        base_offset, log = segment.base_offset, segment.log
        is_last = place + 1 == len(segments)
        behind_offset = range_end if is_last else segments[place + 1].base_offset
        upper_offset, start_offset = min(behind_offset, range_end), max(range_start, base_offset)
        if start_offset >= upper_offset or log.identity.size_bytes == 0:
            continue
        if since_ms is not None:
            if not is_last and 0 <= segment.newest_record_ms() < since_ms:
                continue
            start_offset = max(start_offset, _first_offset_since(segment, since_ms))
            if start_offset >= upper_offset:
                continue
        concerned = aborted and tuple(
            txn for txn in aborted if txn.last_offset >= start_offset and txn.first_offset < upper_offset
        )
        is_to_its_end = wanted.ends_log if is_last else upper_offset == behind_offset
        is_whole = is_to_its_end and start_offset == base_offset
        offsets = OffsetRange(start_offset, upper_offset)
        file = log.directory, log.file_name, log.identity.inode
        for start, end, held in _cut(segment, offsets, wanted.partition_bytes_max, is_whole=is_whole):
            yield Extent(name, *file, base_offset, start, end, held, since_ms, concerned)


def _aborted(segments: Sequence[Segment], wanted: Wanted) -> tuple[AbortedTxn, ...]:
    indexes = (
        parse_txn_index(companion_bytes(segment, FileKind.TXN_INDEX), segment.log.path.with_suffix(".txnindex"))
        for segment in segments
    )
    return tuple(collect_aborted_txns(indexes, wanted.offsets.start, wanted.offsets.end))


def _first_offset_since(segment: Segment, since_ms: int) -> int:
    """Return the first offset that may have a record as late: no record below it is. Source: Kafka TimeIndex: later
    messages come after the entry's offset.
    """
    entries = time_entries(segment)
    earlier = bisect_left(entries, since_ms, key=lambda entry: entry.timestamp_ms)
    return entries[earlier - 1].offset + 1 if earlier else 0


def _cut(
    segment: Segment, offsets: OffsetRange, bytes_max: int, *, is_whole: bool
) -> Iterator[tuple[int, int, OffsetRange]]:
    """Yield parts of about ``bytes_max`` that together hold the range: first and last byte, and the offsets there.

    ``is_whole``: the range is all that the segment has.
    """
    if is_whole and segment.size_bytes <= bytes_max:
        yield 0, segment.size_bytes, offsets  # its listing says all: nothing of it is opened before a task reads it
        return
    entries = offset_entries(segment)
    with reading(segment.log.path) as descriptor:
        start = position_of(descriptor, segment, offsets.start)
        end = _end_position(descriptor, segment, entries, offsets.end)
        while end - start > bytes_max:
            entry = _entry_from(entries, start + bytes_max)
            if entry is None or entry.position >= end:
                break
            if checked_position(descriptor, segment, entry) != entry.position:
                break  # after one wrong entry the index is not believed again
            first_offset = _base_offset_at(descriptor, segment, entry.position)
            yield start, entry.position, OffsetRange(offsets.start, first_offset)
            start, offsets = entry.position, OffsetRange(first_offset, offsets.end)
        yield start, end, offsets


def _base_offset_at(descriptor: OpenFile, segment: Segment, position: int) -> int:
    """Return the base offset of the batch that starts there. A compressed legacy batch is decompressed for it."""
    found = next(iter_headers(descriptor, segment.log.path, position))
    return read_batch(descriptor, segment.log.path, found).base_offset


def _end_position(descriptor: OpenFile, segment: Segment, entries: Sequence[OffsetIndexEntry], end_offset: int) -> int:
    """Return the position behind the batch that reaches ``end_offset``, as far as the index tells."""
    reaching = bisect_left(entries, end_offset - 1, key=lambda entry: entry.offset)
    behind = entries[reaching + 1] if reaching + 1 < len(entries) else None
    position = checked_position(descriptor, segment, behind)
    return min(position or segment.size_bytes, segment.size_bytes)


def _entry_from(entries: Sequence[OffsetIndexEntry], position: int) -> OffsetIndexEntry | None:
    place = bisect_left(entries, position, key=lambda entry: entry.position)
    return entries[place] if place < len(entries) else None


def packed(extents: Sequence[Extent], bytes_max: int) -> Iterator[tuple[Extent, ...]]:
    """Yield the extents of each task.

    Small extents share a task, because a task costs more than the reading of a few megabytes.

    Args:
        extents: of all partitions.
        bytes_max: of one task; less if the extents have few bytes in all, so that several tasks can share them.
    """
    costs_bytes = [extent.cost_bytes for extent in extents]
    share_bytes = sum(costs_bytes) // TASKS_WANTED
    bytes_max = min(bytes_max, max(share_bytes, TASK_BYTES_MIN))
    together: list[Extent] = []
    filled_bytes = 0
    for extent, cost_bytes in zip(extents, costs_bytes, strict=True):
        if together and filled_bytes + cost_bytes > bytes_max:
            yield tuple(together)
            together, filled_bytes = [], 0
        together.append(extent)
        filled_bytes += cost_bytes
    if together:
        yield tuple(together)
