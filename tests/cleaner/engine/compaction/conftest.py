from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from cleaner.engine.compaction.crew import Crew
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.passes import OpenSpan, Span
from cleaner.engine.compaction.survivors import Finder
from storage.log.listing import list_partition
from storage.scan.segments import SegmentReader, open_segment
from tests.partition_dirs import NOW_MS, PartitionDir, records_of

AMPLE = Budget(1 << 20, 0.9)


@pytest.fixture
def spans() -> Iterator[Callable[[PartitionDir], list[OpenSpan]]]:
    """Opens all segments of a directory, the last one up to the log end; closes them after the test."""
    with ExitStack() as stack:

        def open_all(directory: PartitionDir) -> list[OpenSpan]:
            segments = list_partition(directory.path).segments
            ends = [segment.base_offset for segment in segments[1:]] + [directory.end_offset]
            return [
                OpenSpan(Span(segment, end), stack.enter_context(open_segment(segment, end, is_locked=True)))
                for segment, end in zip(segments, ends, strict=True)
            ]

        yield open_all


@pytest.fixture
def sources(spans) -> Callable[[PartitionDir], list[SegmentReader]]:
    """Opens the readers of all segments of a directory."""
    return lambda directory: [opened.reader for opened in spans(directory)]


@pytest.fixture
def survivors(spans) -> Callable[..., set[int]]:
    """Offsets of the records that survive pass 1, and how often a segment was walked over."""

    def find(
        directory: PartitionDir,
        first_dirty_offset: int = 0,
        budget: Budget = AMPLE,
        threads: int = 1,
        *,
        shares_rows: bool = False,
    ) -> tuple[set[int], int]:
        walks: list[int] = []
        end = directory.end_offset + 1000  # no batch is the round's last one
        opened = spans(directory)
        key_map = KeyMap(sum(one.span.size_bytes for one in opened), budget, threads)
        with Crew(threads) as crew:
            new_fates = lambda: Fates([], {}, end, NOW_MS)  # noqa: E731
            told = walks.append, walks.append
            finder = Finder(opened, first_dirty_offset, key_map, new_fates, crew, *told, shares_rows=shares_rows)
            found = finder.find()
        offsets = {
            record.offset
            for walked in found.walked
            for n, record in enumerate(records_of(walked.span.segment.log.path), walked.first_ordinal)
            if int(found.bitmap[n >> 6]) >> (n & 63) & 1
        }
        return offsets, len(walks)

    return find
