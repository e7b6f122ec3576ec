"""Segments read window by window."""

from __future__ import annotations

import mmap
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from storage.errors import CorruptBatch, PlanOutOfDate
from storage.log.listing import list_partition
from storage.scan.segments import open_segment
from storage.scan.slices import Checksums, Position
from tests.partition_dirs import PartitionDir, keyed

BATCHES = [keyed(n, f"k{n}={'v' * (10 * n)}") for n in range(30)]


@pytest.fixture
def sources():
    """Opens the readers of all segments of a directory, the last one up to the log end."""
    with ExitStack() as stack:

        def open_all(directory):
            segments = list_partition(directory.path).segments
            ends = [segment.base_offset for segment in segments[1:]] + [directory.end_offset]
            return [
                stack.enter_context(open_segment(segment, end, is_locked=True))
                for segment, end in zip(segments, ends, strict=True)
            ]

        yield open_all


@pytest.fixture
def directory(tmp_path):
    return PartitionDir(tmp_path).segment(0, *BATCHES)


def walk(source):
    """Position, size and first ordinal of every batch, and the place of every slice."""
    batches, rows = [], []
    for found in source.slices(checksums=Checksums.BY_CALLER):
        rows.append((found.first_row, found.table.size))
        for row in range(found.table.size):
            batches.append((found.position_of(row), int(found.table[row]["size"])))
    return batches, rows


def expected():
    ends = [sum(len(batch) for batch in BATCHES[:n]) for n in range(len(BATCHES))]
    return list(zip(ends, [len(batch) for batch in BATCHES], strict=True))


@pytest.mark.parametrize("window_bytes", [64 << 20, 4096, 700, 64, 1])
def test_every_batch_is_found_whatever_the_window_even_one_that_is_larger(
    directory, sources, monkeypatch, window_bytes
):
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", window_bytes)
    (source,) = sources(directory)
    batches, rows = walk(source)
    assert batches == expected()
    assert [first for first, _ in rows] == [sum(size for _, size in rows[:n]) for n in range(len(rows))]
    if window_bytes < 4096:
        assert len(rows) > 5


def test_table_that_is_full_gives_another_slice(directory, sources, monkeypatch):
    monkeypatch.setattr("storage.scan.segments.ROWS_MAX", 7)
    (source,) = sources(directory)
    batches, rows = walk(source)
    assert batches == expected()
    assert [size for _, size in rows] == [7, 7, 7, 7, 2]


@pytest.mark.parametrize("window_bytes", [64 << 20, 700, 1])
def test_a_walk_can_begin_behind_any_slice(directory, sources, monkeypatch, window_bytes):
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", window_bytes)
    (source,) = sources(directory)
    start = source.start._replace(ordinal=100)
    whole = list(source.slices(checksums=Checksums.BY_CALLER, start=start))
    assert Position.behind(whole[-1]).ordinal == 100 + len(BATCHES)
    for number, slice_ in enumerate(whole, 1):
        rest = list(source.slices(checksums=Checksums.BY_CALLER, start=Position.behind(slice_)))
        assert [(one.first_row, one.table.tolist()) for one in rest] == [
            (one.first_row, one.table.tolist()) for one in whole[number:]
        ]
        if rest:
            again = source.slice_at(Position.behind(slice_), whole[number].table.size)
            assert again.table.tolist() == whole[number].table.tolist()
    assert source.slice_at(start, whole[0].table.size).table.tolist() == whole[0].table.tolist()


def test_a_slice_that_was_left_can_be_read_again(directory, sources, monkeypatch):
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", 700)
    (source,) = sources(directory)
    whole = list(source.slices(checksums=Checksums.BY_CALLER))
    places = [source.start, *(Position.behind(slice_) for slice_ in whole)]
    for place, known in reversed(list(zip(places, whole, strict=False))):
        slice_ = source.slice_at(place, known.table.size)
        source.leave(slice_.position_of(0), slice_.position_of(0) + slice_.size_bytes)
        slice_.verify(0, slice_.table.size)
        assert (slice_.first_row, slice_.table.tolist()) == (known.first_row, known.table.tolist())


def test_windows_that_overlap_bring_in_each_page_once(tmp_path, sources, monkeypatch):
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", 16 << 10)
    populated = []
    monkeypatch.setattr("storage.scan.files.populate", lambda _, start, end: bool(populated.append((start, end))))
    made = PartitionDir(tmp_path / "large").segment(0, *(keyed(n, f"a={'x' * 1000}") for n in range(64)))
    (source,) = sources(made)
    walked = list(source.slices(checksums=Checksums.BY_CALLER, rows_max=1))
    source.let_go()
    populated.clear()
    for place in (source.start, *(Position.behind(slice_) for slice_ in walked[:-1])):
        source.slice_at(place, 1)
    starts, ends = zip(*populated, strict=True)
    assert (starts[0], ends[-1], len(walked)) == (0, made.log(0).stat().st_size, 64)
    assert list(starts[1:]) == [end - end % mmap.PAGESIZE for end in ends[:-1]]


@pytest.mark.parametrize("window_bytes", [64 << 20, 100])
def test_file_that_ends_within_a_batch_is_corrupt_there(directory, sources, monkeypatch, window_bytes):
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", window_bytes)
    directory.log(0).write_bytes(b"".join(BATCHES)[:-1])
    (source,) = sources(directory)
    with pytest.raises(CorruptBatch) as caught:
        walk(source)
    assert caught.value.position == expected()[-1][0]


def test_offsets_that_reach_the_next_segment_are_corrupt(directory, sources):
    directory.segment(20)
    first, _ = sources(directory)
    with pytest.raises(CorruptBatch, match="beyond the next segment's base"):
        walk(first)


def test_file_of_another_size_than_listed_is_refused(directory, sources):
    listed = list_partition(directory.path).segments[0]
    directory.log(0).write_bytes(b"".join(BATCHES) + b"more")

    with pytest.raises(PlanOutOfDate, match="instead of"):
        open_segment(listed, 30, is_locked=True)


def test_file_that_is_truncated_under_the_lock_is_an_error_not_a_signal(directory, sources):
    (source,) = sources(directory)
    directory.log(0).write_bytes(b"")
    with pytest.raises(PlanOutOfDate, match="truncated"):
        walk(source)


def test_empty_segment_has_no_slice(tmp_path, sources):
    (source,) = sources(PartitionDir(tmp_path).segment(5))
    assert list(source.slices(checksums=Checksums.BY_CALLER)) == []


def test_a_closed_reader_keeps_no_file_open(directory, sources):
    """Else unlinking the segment would give no space back."""
    (source,) = sources(directory)
    list(source.slices(checksums=Checksums.DONE))
    source.close()
    path, opened = directory.log(0), []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            opened.append(descriptor.readlink())
    assert path not in opened
    assert str(path) not in Path("/proc/self/maps").read_text()
