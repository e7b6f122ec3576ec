from __future__ import annotations

import os
from pathlib import Path

import pytest

from cleaner.spark.table.planning import asked
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log.listing import list_partition
from storage.names import TopicPartition
from storage.scan.extents import Extent, Wanted, cut_partition, packed
from storage.scan.partitions import OffsetRange
from storage.stores.paths import StoredPath
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import read, reader

BATCHES = 40
VALUE = "v" * 500


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """One segment of 40 batches of three records, an index entry every other batch."""
    config = LogConfig(index_interval_bytes=1000)
    with Log.create(tmp_path / "orders-0", config, FileSystem(), topic_id="A" * 22) as made:
        for place in range(BATCHES):
            made.append(keyed(0, *(f"{place}.{one}={VALUE}" for one in range(3))), now_ms=NOW_MS)
        return made


def slices(path: Path, **options: str) -> list[Extent]:
    return [slice_ for partition in reader(path, **options).partitions() for slice_ in partition.value]


def offsets(path: Path, **options: str) -> list[int]:
    return [row["offset"] for row in read(path, columns="offset", **options)]


def test_a_segment_is_cut_at_batches_that_its_index_names(log: Log, tmp_path: Path) -> None:
    cut = slices(tmp_path, maxPartitionBytes="10000")
    assert len(cut) > 3
    assert [one.start for one in cut[1:]] == [one.end for one in cut[:-1]]
    assert [one.offsets.start for one in cut[1:]] == [one.offsets.end for one in cut[:-1]]
    assert max(one.size_bytes for one in cut) < 20_000
    assert offsets(tmp_path, maxPartitionBytes="10000") == list(range(3 * BATCHES))


def test_offsets_asked_for_are_sought_by_the_index(log: Log, tmp_path: Path) -> None:
    wanted = {"startingOffsets": '{"orders": {"0": 61}}', "endingOffsets": '{"orders": {"0": 65}}'}
    (cut,) = slices(tmp_path, **wanted)
    assert 0 < cut.start < cut.end < log.size_bytes
    assert cut.size_bytes < 10_000
    assert offsets(tmp_path, **wanted) == [61, 62, 63, 64]


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, b"\x00\x00\x00\x05\x00\x00\x03\xe8" * 3])
def test_an_index_that_is_missing_short_or_wrong_is_not_believed(log: Log, tmp_path: Path, content: bytes) -> None:
    next(log.directory.glob("*.index")).write_bytes(content)
    assert offsets(tmp_path, maxPartitionBytes="10000") == list(range(3 * BATCHES))


@pytest.mark.parametrize(("since_ms", "starts"), [(0, [0]), (NOW_MS, [0])])
def test_records_since_a_moment_begin_with_the_first_one_if_that_is_as_late(
    log: Log, since_ms: int, starts: list[int]
) -> None:
    wanted = Wanted(OffsetRange(0, log.log_end_offset), since_ms, 1 << 30, read_committed=False)
    found = cut_partition(TopicPartition("orders", 0), list_partition(log.directory).segments, wanted)
    assert [extent.offsets.start for extent in found] == starts


def test_segments_outside_the_offsets_asked_for_are_not_read(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"))
    segments = list_partition(made.segment(2, keyed(2, "c=1")).path).segments
    wanted = Wanted(OffsetRange(1, 2), None, 1 << 30, read_committed=False)
    assert [extent.base_offset for extent in cut_partition(TopicPartition("orders", 0), segments, wanted)] == [1]


def test_small_slices_share_a_task(tmp_path: Path) -> None:
    for number in range(5):
        PartitionDir(tmp_path, f"orders-{number}").segment(0, keyed(0, "a=1"))
    assert [len(partition.value) for partition in reader(tmp_path).partitions()] == [5]


def test_large_slices_have_a_task_each(log: Log, tmp_path: Path) -> None:
    cut = slices(tmp_path, maxPartitionBytes="10000")
    assert [len(together) for together in packed(cut, 10_000)] == [1] * len(cut)


def test_a_segment_that_is_read_whole_is_not_opened_to_plan_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"))
    segments = list_partition(made.segment(2, keyed(2, "c=1")).path).segments
    opened = []
    monkeypatch.setattr("storage.scan.extents.offset_entries", lambda segment: opened.append(segment.base_offset) or [])
    for offsets, looked_into in ((OffsetRange(0, 3), [2]), (OffsetRange(0, 2), []), (OffsetRange(1, 3), [2])):
        wanted = Wanted(offsets, None, 1 << 30, read_committed=False)
        found = list(cut_partition(TopicPartition("orders", 0), segments, wanted))
        assert [one.offsets.end - one.offsets.start for one in found] == [1] * len(found)
        assert (opened, all(one.start == 0 < one.end for one in found)) == (looked_into, True)
        opened.clear()


def test_a_plan_of_all_records_opens_only_the_last_segment_of_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        made = PartitionDir(tmp_path, f"orders-{number}")
        for place in range(4):
            made.segment(place, keyed(place, "a=1"))
    opened: list[str] = []
    opens = os.open

    def noted(path: str, *how: int, **more: int) -> int:
        opened.append(str(path))
        return opens(path, *how, **more)

    monkeypatch.setattr(os, "open", noted)
    slices(tmp_path)
    assert [name for name in opened if name.endswith((".log", "index"))] == [f"{3:020d}.log"] * 3
    opened.clear()
    slices(tmp_path, maxPartitionBytes="1")
    assert f"{0:020d}.log" in opened


@pytest.mark.parametrize("torn", [b"", b"\x00" * 30, b"torn"])
def test_the_last_segment_is_read_to_its_end_whatever_lies_there(tmp_path: Path, torn: bytes) -> None:
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"), keyed(2, "c=1"))
    with made.log(1).open("ab") as log:
        log.write(torn)
    segments = list_partition(made.path).segments
    known, sought = (
        [
            (one.start, one.end, one.offsets)
            for one in cut_partition(
                TopicPartition("orders", 0), segments, Wanted(OffsetRange(0, 3), None, 1 << 30, False, ends_log)
            )
        ]
        for ends_log in (True, False)
    )
    assert known == sought
    assert known[-1][1] == made.log(1).stat().st_size


def test_many_tiny_segments_are_several_tasks_for_each_has_to_be_opened(tmp_path: Path) -> None:
    tiny = Extent(TopicPartition("orders", 0), tmp_path, "0.log", 1, 0, 0, 100, OffsetRange(0, 1), None, ())
    assert len(list(packed([tiny] * 20_000, 128 << 20))) > 30
    stored = tiny._replace(directory=StoredPath("s3://bucket/orders-0"))
    assert len(list(packed([stored] * 20_000, 128 << 20))) > 600


@pytest.mark.parametrize("in_store", [True, False])
@pytest.mark.parametrize("count", [0, 1, 64, 65, 300])
def test_questions_are_answered_in_their_order_and_the_first_error_is_told(count: int, in_store: bool) -> None:
    assert asked(range(count), lambda one: one * 2, in_store=in_store) == list(range(0, 2 * count, 2))
    if count > 64:
        with pytest.raises(KeyError, match="63"):
            asked(range(count), lambda one: {**dict.fromkeys(range(63)), 64: None}[one], in_store=in_store)
