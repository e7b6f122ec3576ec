"""Walk over the headers of batches: empty ones, gaps between them, aborted data that no transaction index names.

A walk reads whole segments, the oldest first, as far as its budget goes: a partition has its own bound, and all of them
share one, so that log dirs of terabytes take no longer than large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from storage.anomalies import CheckedSegment
from storage.directory import opened_as_parent
from storage.errors import CorruptBatch, CorruptIndex, as_unreadable
from storage.log_dir import read_file
from storage.names import FileKind
from storage.records.v2 import ATTRIBUTE_TRANSACTIONAL, OFFSET_MAX
from storage.segment import Segment
from storage.txn_index import AbortedTxn, parse_txn_index

if TYPE_CHECKING:
    from storage.scan.slices import Slice
    from storage.scan.small_segments import SmallLog, SmallSegments

_TXN_INDEX: Final = FileKind.TXN_INDEX
_new: Final = tuple.__new__
PARTITION_BYTES_MAX: Final = 64 << 20
ALL_BYTES_MAX: Final = 4 << 30


@dataclass  # no slots: it keeps buffers
class WalkBudget:
    """The bytes whose headers may still be walked over."""

    is_deep: bool = False
    """Whether there is no bound."""
    left_bytes: int = ALL_BYTES_MAX

    @cached_property
    def small_segments(self) -> SmallSegments:
        """The reader of small segments, whose buffers serve one after the other."""
        from storage.scan.small_segments import SmallSegments  # noqa: PLC0415 - it loads the kernels

        return SmallSegments()

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


def walk(
    segments: Sequence[Segment],
    facts: Sequence[CheckedSegment],
    budget: WalkBudget,
    logs: Sequence[SmallLog | None] = (),
) -> tuple[tuple[CheckedSegment, ...], int]:
    """Walk over the headers of a partition's batches. Damage ends the walk of a segment: ``verify`` tells of it.

    Args:
        segments: ascending, without the bytes behind the log end.
        facts: what the ends of the segments told.
        budget: what may be read.
        logs: what a glance read of small segments already, in their order.

    Returns:
        The facts, of the walked segments with what headers tell; and the number of these, which are the oldest.

    Raises: UnreadableFile.
    """
    count = budget.take([segment.size_bytes for segment in segments])
    if not count:
        return tuple(facts), 0
    directory = segments[0].directory
    with as_unreadable(directory), opened_as_parent(directory) as parent:
        walked = [
            _with_headers(one, log, segment) if log else _walked(segment, one, budget, parent)
            for (segment, one), log in zip_longest(zip(segments[:count], facts, strict=False), logs[:count])
        ]
    return (*walked, *facts[count:]), count


def _with_headers(facts: CheckedSegment, log: SmallLog, segment: Segment) -> CheckedSegment:
    """Add what the headers of a small segment told already. There are many, and _replace takes three times as long."""
    _, batches, empty_batches, empty_bytes, gaps, events, _ = log
    aborted = _aborted(segment) if _TXN_INDEX in segment.files else ()
    of_headers = gaps, facts.is_full, False, batches, empty_batches, empty_bytes
    return _new(CheckedSegment, (*facts[:9], events, aborted, facts.gap, *of_headers))


def _walked(segment: Segment, facts: CheckedSegment, budget: WalkBudget, parent: int | None) -> CheckedSegment:
    """Add what the headers of a segment tell. Raises: UnreadableFile."""
    from storage.scan.segment_contents import TxnSteps, empty_batches_in  # noqa: PLC0415 - it loads the kernels

    steps: TxnSteps | None = None
    batches = empty_batches = empty_bytes = gaps = 0
    next_offset, is_damaged = None, True
    with suppress(CorruptBatch):
        for found in _slices(segment, budget, parent):
            table = found.table
            bases, lasts = table["base_offset"], table["last_offset"]
            if next_offset is not None:
                gaps += int(bases[0] > next_offset)
            if table.size > 1:
                gaps += int((bases[1:] > lasts[:-1] + 1).sum())
            next_offset = int(lasts[-1]) + 1
            if found.is_legacy:
                continue
            batches += table.size
            empty = empty_batches_in(table)
            empty_batches, empty_bytes = empty_batches + empty[0], empty_bytes + empty[1]
            if (table["attributes"] & ATTRIBUTE_TRANSACTIONAL).any():
                steps = steps or TxnSteps(found.path)
                steps.take(found.buf, table, found.file_position)
        is_damaged = False
    return facts._replace(
        events=tuple(steps.events) if steps else (),
        aborted=_aborted(segment),
        gaps=gaps,
        is_damaged=is_damaged,
        batches=batches,
        empty_batches=empty_batches,
        empty_bytes=empty_bytes,
    )


def _slices(segment: Segment, budget: WalkBudget, parent: int | None) -> Iterator[Slice]:
    """Yield the batches of a segment. Raises: CorruptBatch, UnreadableFile."""
    from storage.scan.segments import open_segment  # noqa: PLC0415 - with the next one it loads the kernels
    from storage.scan.slices import Checksums  # noqa: PLC0415

    small = budget.small_segments.sound(segment, parent)
    if small is not None:
        yield small
        return
    with open_segment(segment, OFFSET_MAX, is_locked=False) as reader:
        yield from reader.slices(checksums=Checksums.DONE)


def _aborted(segment: Segment) -> tuple[AbortedTxn, ...]:
    """Return what the transaction index names. A damaged index names nothing, as for Kafka."""
    file = segment.files.get(_TXN_INDEX)
    if file is not None and file.size_bytes:
        with suppress(CorruptIndex):
            return tuple(parse_txn_index(read_file(file.path) or b"", file.path))
    return ()
