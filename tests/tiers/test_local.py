"""A tier of ``LocalTieredStorage``, alone and with a local log dir, read as one log dir."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storage.checkpoints import format_offset_checkpoint
from storage.log.listing import list_partition
from storage.log.read import read_batches
from storage.log.search import LogSearch
from storage.log_dir import LogDir, read_file
from storage.names import LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.stores.paths import StoredPath, path_of_text
from storage.tiers.errors import NotATier
from storage.tiers.metadata import metadata_partition
from storage.tiers.segments import SegmentState, TieredPartition
from storage.tiers.tier import Tier
from storage.tiers.view import view_at, view_of
from tests.partition_dirs import NOW_MS, PartitionDir
from tests.tiers.drawn import (
    DELETED,
    DELETING,
    TOPIC_ID,
    DrawnSegment,
    MetadataWriter,
    a_batch,
    segment_of,
    write_local,
)

ORDERS = TieredPartition("orders", 0, TOPIC_ID)
METADATA_PARTITION = metadata_partition(ORDERS, 50)


def values_in(view: StoredPath, name: str = "orders-0") -> list[tuple[int, str]]:
    """All records of a partition of the view."""
    segments = list_partition(view / name).segments
    found = read_batches(segments, 0, 1 << 62)
    return [(record.offset, (record.value or b"").decode()) for batch in found for record in batch.records()]


def two_segments() -> list[DrawnSegment]:
    return [
        segment_of(0, a_batch(0, "a", "b"), a_batch(2, "c")),
        segment_of(3, a_batch(3, "d"), a_batch(4, "e", "f")),
    ]


@pytest.mark.parametrize("is_padded", [True, False])
def test_a_tier_alone_is_a_log_dir_with_all_its_records(tmp_path: Path, is_padded: bool) -> None:
    view = view_of(write_local(tmp_path / "tier", two_segments(), is_padded=is_padded))
    assert [name for name, _ in LogDir.open(view).partitions()] == [TopicPartition("orders", 0)]
    assert values_in(view) == list(enumerate("abcdef"))
    assert path_of_text(str(view / "orders-0")) == view / "orders-0"
    assert f"topic_id: {TOPIC_ID}" in (read_file(view / "orders-0" / "partition.metadata") or b"").decode()


def test_a_tier_can_be_named_by_the_directory_of_its_partitions(tmp_path: Path) -> None:
    tier = write_local(tmp_path / "tier", two_segments())
    assert values_in(view_of(tier / "kafka-tiered-storage")) == list(enumerate("abcdef"))


def test_what_is_no_tier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATier, match="does not exist"):
        Tier.open(tmp_path / "none")
    with pytest.raises(NotATier, match="holds no segment"):
        Tier.open(tmp_path)
    (tmp_path / "kafka-tiered-storage").mkdir()
    with pytest.raises(NotATier, match="holds no segment"):
        Tier.open(tmp_path)


def test_the_metadata_tell_ends_epochs_and_states(tmp_path: Path) -> None:
    first, second = two_segments()
    third = segment_of(6, a_batch(6, "g"))
    writer = MetadataWriter()
    writer.copied(first)
    writer.copied(second, DELETING)
    writer.copied(third, DELETED)
    log_dir = writer.write(tmp_path / "data", METADATA_PARTITION)
    tier = Tier.open(write_local(tmp_path / "tier", [first, second, third]), [log_dir])
    assert [(s.start_offset, s.end_offset, s.state, s.epochs) for s in tier.segments(ORDERS)] == [
        (0, 2, SegmentState.COPY_SEGMENT_FINISHED, ((0, 0),)),
        (3, 5, SegmentState.DELETE_SEGMENT_STARTED, ((0, 3),)),
        (6, None, SegmentState.DELETE_SEGMENT_FINISHED, None),
    ]
    assert [tier.is_orphan(s) for s in tier.segments(ORDERS)] == [False, False, True]
    assert values_in(view_of(tier.path, [log_dir])) == list(enumerate("abc"))


def test_local_and_remote_are_one_log_without_an_offset_twice(tmp_path: Path) -> None:
    tier = write_local(tmp_path / "tier", two_segments())
    local = PartitionDir(tmp_path / "data").segment(4, a_batch(4, "e", "f")).segment(6, a_batch(6, "g"))
    (local.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    view = view_of(tier, [tmp_path / "data"])
    assert values_in(view) == list(enumerate("abcdefg"))
    assert [s.base_offset for s in list_partition(view / "orders-0").segments] == [0, 3, 4, 6]


def test_a_part_of_a_segment_has_indexes_of_its_own(tmp_path: Path) -> None:
    whole = segment_of(0, *(a_batch(n, f"v{n}") for n in range(10)))
    tier = write_local(tmp_path / "tier", [whole])
    local = PartitionDir(tmp_path / "data").segment(5, a_batch(5, "v5"), a_batch(6, "v6"))
    (local.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    view = view_of(tier, [tmp_path / "data"])
    segments = list_partition(view / "orders-0").segments
    assert [s.base_offset for s in segments] == [0, 5, 7]
    assert values_in(view) == [(n, f"v{n}") for n in range(10)]
    for offset in range(10):
        found = LogSearch(segments, 0).by_offset(offset)
        assert found.record is not None
        assert found.record.offset == offset
        found = LogSearch(segments, 0).by_timestamp(NOW_MS + offset * 1000)
        assert found.record is not None
        assert found.record.offset == offset


def test_what_an_unclean_election_cut_off_does_not_come_back(tmp_path: Path) -> None:
    """The leader of epoch 0 wrote 0 to 5; that of epoch 1 had 0 to 2 alone, and wrote on from 3."""
    lost = segment_of(0, a_batch(0, "a"), a_batch(1, "b", "c"), a_batch(3, "lost"), a_batch(4, "lost", "lost"))
    kept = segment_of(0, a_batch(0, "a"), a_batch(1, "b", "c"), name="kept")
    later = segment_of(3, a_batch(3, "d", epoch=1), a_batch(4, "e", epoch=1), lineage=[(0, 0), (1, 3)])
    for number, segments in enumerate(([lost, later], [lost, kept, later])):
        view = view_of(write_local(tmp_path / str(number), segments))
        assert values_in(view) == list(enumerate("abcde"))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ([(0, 0)], [(5, 3)]),  # the epochs below the log start were forgotten
        ([(5, 0)], [(5, 3)]),
        ([(0, 0), (3, 2)], [(5, 3)]),
        ([(5, 2)], [(5, 2)]),  # brokers began to write epochs at offset 2
        ([(5, 2)], [(5, 3)]),
    ],
)
def test_records_before_the_first_epoch_of_a_log_come_along(
    older: list[tuple[int, int]], newer: list[tuple[int, int]], tmp_path: Path
) -> None:
    first, second = two_segments()
    tier = write_local(tmp_path / "tier", [replace(first, lineage=tuple(older)), replace(second, lineage=tuple(newer))])
    expected = list(enumerate("abcdef"))
    assert values_in(view_of(tier)) == expected
    local = PartitionDir(tmp_path / "data").segment(4, a_batch(4, "e", "f", epoch=5)).segment(6, a_batch(6, "g"))
    (local.path / "leader-epoch-checkpoint").write_text("0\n1\n5 3\n")
    assert values_in(view_of(tier, [tmp_path / "data"])) == [*expected, (6, "g")]
    log_dir = (tmp_path / "data").rename(tmp_path / "started")
    started = format_offset_checkpoint({TopicPartition("orders", 0): 3})
    (log_dir / LOG_START_OFFSET_CHECKPOINT).write_bytes(started)
    assert values_in(view_of(tier, [log_dir])) == [*expected[3:], (6, "g")]


@pytest.mark.parametrize("of_tier", [(5, 4), (6, 4), (3, 0), (0, 2)])
def test_local_records_before_the_first_epoch_come_along(of_tier: tuple[int, int], tmp_path: Path) -> None:
    tier = write_local(tmp_path / "tier", [segment_of(4, a_batch(4, "e", "f"), lineage=[of_tier])])
    local = (
        PartitionDir(tmp_path / "data")
        .segment(0, a_batch(0, "a", "b"))
        .segment(2, a_batch(2, "c", "d"), a_batch(4, "e", "f"))
    )
    (local.path / "leader-epoch-checkpoint").write_text("0\n1\n5 4\n")
    assert values_in(view_of(tier, [tmp_path / "data"])) == list(enumerate("abcdef"))


def test_of_two_topics_of_one_name_that_of_the_local_directory_counts(tmp_path: Path) -> None:
    other = "AAAAAAAAAAAAAAAAAAAAAQ"
    old = segment_of(0, a_batch(0, "old"), topic_id=other, name="old", mtime_ms=NOW_MS - 1)
    tier = write_local(tmp_path / "tier", [old, segment_of(0, a_batch(0, "new"))])
    assert values_in(view_of(tier)) == [(0, "new")]
    local = PartitionDir(tmp_path / "data").segment(1, a_batch(1, "local"))
    (local.path / "partition.metadata").write_text(f"version: 0\ntopic_id: {other}")
    assert values_in(view_of(tier, [tmp_path / "data"])) == [(0, "old"), (1, "local")]


def test_a_segment_without_its_log_is_left_out_and_named(tmp_path: Path) -> None:
    tier = write_local(tmp_path / "tier", two_segments())
    next(tier.rglob("*0003-*.log")).unlink()
    view = view_of(tier)
    assert values_in(view) == list(enumerate("abc"))
    found = view_at(view)
    assert found is not None
    assert ["its .log is not there" in problem for problem in found.problems] == [True]


def test_nothing_is_written_into_a_tier(tmp_path: Path) -> None:
    tier = write_local(tmp_path / "tier", two_segments())
    before = {path: path.stat().st_mtime_ns for path in tier.rglob("*")}
    values_in(view_of(tier))
    assert {path: path.stat().st_mtime_ns for path in tier.rglob("*")} == before
