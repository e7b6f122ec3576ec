"""Walk over the headers of batches: empty ones, gaps between them, aborted data that no transaction index names.

A walk reads whole segments, the oldest first, as far as its budget goes: a partition has its own bound, and all of them
share one, so that log dirs of terabytes take no longer than large ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from policies.findings.shapes.symptoms import HeaderWalk, UnindexedAbort
from storage.errors import CorruptBatch, CorruptIndex, LogCleanerError
from storage.log_dir import read_file
from storage.names import FileKind
from storage.records.v2 import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    OFFSET_MAX,
)
from storage.segment import Segment
from storage.txn_index import AbortedTxn, parse_txn_index

if TYPE_CHECKING:
    from storage.scan.slices import Slice

PARTITION_BYTES_MAX: Final = 64 << 20
ALL_BYTES_MAX: Final = 4 << 30


@dataclass(slots=True)
class WalkBudget:
    """The bytes whose headers may still be walked over."""

    is_deep: bool = False
    """Whether there is no bound."""
    left_bytes: int = ALL_BYTES_MAX

    def take(self, sizes: Sequence[int]) -> int:
        """Return how many segments of these sizes, in bytes, are walked over, the oldest first."""
        if self.is_deep:
            return len(sizes)
        mine = PARTITION_BYTES_MAX
        for place, size_bytes in enumerate(sizes):
            if size_bytes > min(mine, self.left_bytes):
                return place
            mine, self.left_bytes = mine - size_bytes, self.left_bytes - size_bytes
        return len(sizes)


def walk(segments: Sequence[Segment], first_dirty_offset: int | None, budget: WalkBudget) -> HeaderWalk:
    """Walk over the headers of a partition's batches. Damage ends the walk of a segment: ``verify`` tells of it.

    Args:
        segments: ascending, without the bytes behind the log end.
        first_dirty_offset: where the part ends in which empty batches count; None if the log was never compacted.
        budget: what may be read.

    Raises: UnreadableFile.
    """
    sizes = [segment.size_bytes for segment in segments]
    count = budget.take(sizes)
    if not count:
        return HeaderWalk(bytes_unread=sum(sizes))
    seen = _Walk(first_dirty_offset or 0, _aborted(segments))
    for segment in segments[:count]:
        with suppress(CorruptBatch):
            seen.take_segment(segment)
    read, unread = sum(sizes[:count]), sum(sizes[count:])
    return HeaderWalk(read, unread, seen.batches, seen.empty, seen.empty_bytes, seen.gaps, tuple(seen.unindexed))


def _aborted(segments: Sequence[Segment]) -> Mapping[int, list[AbortedTxn]]:
    """Return what the transaction indexes name, by producer. A damaged index names nothing, as for Kafka."""
    found: defaultdict[int, list[AbortedTxn]] = defaultdict(list)
    for segment in segments:
        file = segment.files.get(FileKind.TXN_INDEX)
        if file is not None and file.size_bytes:
            with suppress(CorruptIndex):
                for entry in parse_txn_index(read_file(file.path) or b"", file.path):
                    found[entry.producer_id].append(entry)
    return found


@dataclass(slots=True)
class _Walk:
    """The state of a walk: all that it has met so far."""

    clean_below: int
    aborted: Mapping[int, list[AbortedTxn]]
    batches: int = 0
    empty: int = 0
    empty_bytes: int = 0
    gaps: int = 0
    unindexed: list[UnindexedAbort] = field(default_factory=list)
    next_offset: int | None = None
    open_data: dict[int, int] = field(default_factory=dict)
    """Producer -> the first offset of its data since its last marker."""

    def take_segment(self, segment: Segment) -> None:
        """Walk over one segment. Raises: CorruptBatch, UnreadableFile."""
        from storage.scan.segments import open_segment  # noqa: PLC0415 - with the next one it loads the kernels
        from storage.scan.slices import Checksums  # noqa: PLC0415

        with open_segment(segment, OFFSET_MAX, is_locked=False) as reader:
            for found in reader.slices(checksums=Checksums.DONE):
                self._take(found)

    def _take(self, found: Slice) -> None:
        table = found.table
        bases, lasts = table["base_offset"], table["last_offset"]
        if self.next_offset is not None:
            self.gaps += int(bases[0] > self.next_offset)
        self.gaps += int((bases[1:] > lasts[:-1] + 1).sum())
        self.next_offset = int(lasts[-1]) + 1
        if found.is_legacy:
            return
        control = (table["attributes"] & ATTRIBUTE_CONTROL) != 0
        clean = lasts < self.clean_below
        self.batches += int(clean.sum())
        empty = clean & ~control & (table["record_count"] == 0)
        self.empty += int(empty.sum())
        self.empty_bytes += int(table["size"][empty].sum())
        transactional = ((table["attributes"] & ATTRIBUTE_TRANSACTIONAL) != 0) & (table["record_count"] > 0)
        for row in transactional.nonzero()[0].tolist():
            producer_id = int(table["producer_id"][row])
            if not control[row]:
                self.open_data.setdefault(producer_id, int(bases[row]))
            elif (first_offset := self.open_data.pop(producer_id, None)) is not None:
                self._end(found, row, producer_id, first_offset)

    def _end(self, found: Slice, row: int, producer_id: int, first_offset: int) -> None:
        """Take a marker of a producer whose data was met: if it aborts, an index must name the transaction."""
        try:
            marker = found.v2_batch(row).txn_marker()
        except LogCleanerError:  # ``verify`` tells of a marker that does not parse
            return
        offset = int(found.table["base_offset"][row])
        if marker is None or not marker.is_abort:
            return
        entries = self.aborted.get(producer_id, ())
        if not any(entry.first_offset <= first_offset and entry.last_offset == offset for entry in entries):
            self.unindexed.append(UnindexedAbort(str(found.path), producer_id, first_offset, offset))
