"""A compaction leaves the page cache as it found it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cleaner.engine.compaction import survivors
from storage.scan import files, segments
from storage.scan.page_cache import absent_ranges, let_go
from storage.scan.segments import WINDOW_BYTES
from tests.partition_dirs import COMPACT, PartitionDir, a_cleaner, committed, configured, keyed, request

VALUE = "v" * 60_000
SEGMENTS = 3
READ_AHEAD_BYTES = 3 * WINDOW_BYTES
"""Before it is asked what is absent: a large setting of the system's is 8 MiB, and it begins the next stretch early."""
READ_AT_FIRST_BYTES = 32 << 10
"""Ahead of the round: the first header of a segment, and what the system reads with it."""


TAKEN_BYTES_MAX = WINDOW_BYTES // 8
"""What the system takes of its own accord meanwhile: some drop pages though memory is free (DAMON, balloons)."""


def absent_bytes(path: Path, first_bytes: int | None = None) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return sum(end - start for start, end in absent_ranges(descriptor, 0, first_bytes or path.stat().st_size))
    finally:
        os.close(descriptor)


def make_cold(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        let_go(descriptor, [(0, path.stat().st_size)])
    finally:
        os.close(descriptor)
    if not absent_bytes(path):
        pytest.skip("NOT RUN: this file system keeps all in memory")


@pytest.fixture
def directory(tmp_path: Path) -> PartitionDir:
    """Three segments of four large records, each key written twice in all but the last; a group each."""
    made = PartitionDir(tmp_path)
    for n in range(SEGMENTS):
        made.segment(10 * n, keyed(10 * n, *(f"{key}={VALUE}" for key in (f"k{n}", f"k{n}", f"x{n}", f"y{n}"))))
    committed(tmp_path, made.segment(1000, keyed(1000, "active=1")))
    return made


def compact(directory: PartitionDir) -> None:
    layers = configured(orders={**COMPACT, "segment.bytes": "14", "file.delete.delay.ms": 60_000})
    _, outcome = a_cleaner(directory.path.parent, layers).clean(request())
    assert [result.error for result in outcome.results.values()] == [None]
    assert sorted(path.stem for path in directory.path.glob("*.log.deleted"))


@pytest.mark.parametrize("is_large", [True, False])
def test_cold_segments_are_as_cold_as_before(directory, monkeypatch, is_large):
    monkeypatch.setattr(survivors, "available_bytes", lambda: 0 if is_large else 1 << 40)
    for path in directory.path.glob("*.log"):
        make_cold(path)
    compact(directory)
    for base in (0, 10, 20):
        for path in (directory.log(base), Path(f"{directory.log(base)}.deleted")):
            assert absent_bytes(path) >= path.stat().st_size - READ_AT_FIRST_BYTES, path


def test_hot_segments_stay_hot(directory):
    compact(directory)
    for base in (0, 10, 20):
        assert absent_bytes(directory.log(base)) == 0
        assert absent_bytes(Path(f"{directory.log(base)}.deleted")) == 0


def test_hot_segments_are_asked_about_once(directory, monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr(segments, "WINDOW_BYTES", 64 << 10)
    monkeypatch.setattr(files, "absent_ranges", lambda *stretch: asked.append(stretch[1]) or absent_ranges(*stretch))
    compact(directory)
    assert len(asked) == SEGMENTS


@pytest.fixture
def large(tmp_path: Path) -> PartitionDir:
    """A cold segment of many windows, and of few batches, because a plan reads their headers."""
    made, windows = PartitionDir(tmp_path), 16
    batches = [keyed(n, f"k{n % 100}={'v' * (1 << 20)}") for n in range(windows * WINDOW_BYTES >> 20)]
    committed(tmp_path, made.segment(0, *batches), made.segment(9000, keyed(9000, "active=1")))
    make_cold(made.log(0))
    return made


def test_large_cold_segment_is_as_cold_as_before(large, monkeypatch):
    monkeypatch.setattr(survivors, "available_bytes", lambda: 0)  # each walk brings it in anew
    compact(large)
    for path in (large.log(0), Path(f"{large.log(0)}.deleted")):
        assert absent_bytes(path) >= path.stat().st_size - WINDOW_BYTES // 2, path


def test_cold_end_of_a_segment_is_as_cold_as_before_but_for_the_window_it_begins_in(large, monkeypatch):
    # and for what the system reads ahead of that one
    made, hot_bytes = large, 4 * WINDOW_BYTES
    with made.log(0).open("rb", buffering=0) as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        opened.read(hot_bytes)
    before, found, let_go_of = absent_bytes(made.log(0)), set(), set()
    monkeypatch.setattr(files, "absent_ranges", lambda *stretch: noted(found, absent_ranges(*stretch)))
    monkeypatch.setattr(files, "let_go", lambda file, ranges: let_go(file, noted(let_go_of, ranges)))
    compact(made)
    deleted = Path(f"{made.log(0)}.deleted")
    assert before - WINDOW_BYTES - READ_AHEAD_BYTES <= absent_bytes(deleted) < before - WINDOW_BYTES // 2
    assert let_go_of
    assert let_go_of <= found  # of what was hot, not a page
    assert absent_bytes(deleted, hot_bytes) <= TAKEN_BYTES_MAX


def noted(seen, ranges):
    seen.update(ranges)
    return ranges
