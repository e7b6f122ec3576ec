"""A copy that lost segments since its manifest was written is not read as if it were whole."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cleaner.arrow.schema import TYPES
from cleaner.engine.copy.manifest import CopyLacksFiles, manifest_of_new
from cleaner.spark.table.options import parse_options
from cleaner.spark.table.planning import Comparison, narrowing_of, plan_read
from cleaner.spark.table.stream import KafkaLogStreamReader
from storage.filesystem import FileSystem
from storage.names import MANIFEST_FILE, TopicPartition
from tests.partition_dirs import PartitionDir, keyed

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of two partitions, orders-0 with two segments."""
    root = tmp_path / "copy"
    PartitionDir(root, "orders-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"))
    PartitionDir(root, "clicks-0").segment(0, keyed(0, "a=1"))
    manifest = manifest_of_new({ORDERS: 2, CLICKS: 1}, root, (0, "local", "1"), FileSystem().sha256_of)
    (root / MANIFEST_FILE).write_bytes(manifest)
    return root


def planned(path: Path, *comparisons: Comparison, **options: str) -> int:
    """Plan a read. Return the number of its segments."""
    plan = plan_read(parse_options({"path": str(path), **options}), narrowing_of(comparisons))
    return sum(len(together) for together in plan)


def remove_segment(copy: Path) -> Path:
    (path := copy / "orders-0" / f"{0:020}.log").unlink()
    return path


def remove_partition(copy: Path) -> Path:
    shutil.rmtree(path := copy / "orders-0")
    return path


def cut_segment(copy: Path) -> Path:
    (path := copy / "orders-0" / f"{1:020}.log").write_bytes(b"")
    return path


@pytest.mark.parametrize("lose", [remove_segment, remove_partition, cut_segment])
def test_read_of_what_was_lost_fails_and_names_it(copy: Path, lose) -> None:  # type: ignore[no-untyped-def]
    assert planned(copy) == 3
    lost = lose(copy)
    with pytest.raises(CopyLacksFiles, match=re.escape(str(lost))):
        planned(copy)
    assert planned(copy, failOnDataLoss="false") < 3
    assert planned(copy, subscribe="clicks") == planned(copy, Comparison("EqualTo", "topic", "clicks")) == 1


def test_partition_directory_of_a_copy_is_held_against_its_manifest(copy: Path) -> None:
    remove_segment(copy)
    assert planned(copy / "clicks-0") == 1
    with pytest.raises(CopyLacksFiles, match="orders-0"):
        planned(copy / "orders-0")


def test_log_dir_on_which_a_broker_ran_is_read_as_it_is(copy: Path) -> None:
    remove_segment(copy)
    (copy / ".lock").touch()
    assert planned(copy) == 2


def test_stream_of_a_copy_that_lost_a_segment_fails(copy: Path) -> None:
    ends = {"orders": {"0": 2}}
    begin = {"orders": {"0": 1}}
    remove_segment(copy)
    stream = KafkaLogStreamReader(parse_options({"path": str(copy)}), tuple(TYPES))
    with pytest.raises(CopyLacksFiles, match="orders-0"):
        stream.partitions(begin, ends)
