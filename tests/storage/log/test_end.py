"""Where a segment's batches end."""

import struct

import pytest

from storage.log.end import SegmentEnd, find_end, next_offset_of
from storage.log.listing import list_partition
from tests.partition_dirs import PartitionDir, keyed

FIRST, SECOND = keyed(10, "a=1", "b=2"), keyed(12, "c=3")
GARBAGE = b"\xff" * 40
UNKNOWN_MAGIC = SECOND[:16] + b"\x09" + SECOND[17:]


@pytest.fixture
def segment_of(tmp_path):
    def make(data, index=b""):
        directory = PartitionDir(tmp_path).segment(10)
        directory.log(10).write_bytes(data)
        directory.log(10).with_suffix(".index").write_bytes(index)
        return list_partition(directory.path).segments[0]

    return make


@pytest.mark.parametrize("trust_index", [True, False])
@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", SegmentEnd(10, 0)),
        (FIRST + SECOND, SegmentEnd(13, 0)),
        (FIRST + SECOND[:-1], SegmentEnd(12, len(SECOND) - 1)),
        (FIRST + SECOND[:5], SegmentEnd(12, 5)),
        (FIRST + bytes(4096), SegmentEnd(12, 4096)),
        (FIRST + GARBAGE, SegmentEnd(12, len(GARBAGE))),
        (FIRST + UNKNOWN_MAGIC, SegmentEnd(12, len(SECOND))),
        (SECOND + FIRST, SegmentEnd(13, len(FIRST))),
        (GARBAGE, SegmentEnd(10, len(GARBAGE))),
        (FIRST[:5], SegmentEnd(10, 5)),
    ],
    ids=["empty", "whole", "cut batch", "cut header", "zeros", "garbage", "magic", "back", "all bad", "only cut"],
)
def test_end_is_behind_the_last_batch_that_parses(segment_of, data, end, trust_index):
    assert find_end(segment_of(data), trust_index=trust_index) == end


def index_entry(relative_offset, position):
    return struct.pack(">ii", relative_offset, position)


def test_trusted_index_saves_the_walk_from_the_start(segment_of):
    damaged_before = GARBAGE[: len(FIRST)].ljust(len(FIRST), b"\xff")
    segment = segment_of(damaged_before + SECOND, index_entry(2, len(FIRST)))
    assert find_end(segment, trust_index=True) == SegmentEnd(13, 0)
    assert find_end(segment, trust_index=False).next_offset == 10


@pytest.mark.parametrize(
    "index",
    [index_entry(2, 7), index_entry(2, 1 << 20), index_entry(2, -1), b"\x00\x00", index_entry(2, 0), bytes(800)],
    ids=["within a batch", "beyond the file", "negative", "truncated", "at the start", "preallocated zeros"],
)
def test_wrong_index_does_not_change_the_end(segment_of, index):
    assert find_end(segment_of(FIRST + SECOND, index), trust_index=True) == SegmentEnd(13, 0)


def test_next_offset_of_an_empty_segment_is_its_base(segment_of):
    assert next_offset_of(segment_of(b"")) == 10
