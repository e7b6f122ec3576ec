from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.spark.table.options import parse_options
from cleaner.spark.table.planning import EVERYTHING, Comparison, narrowing_of, plan_read
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import keys, read_narrowed

NOW_US = NOW_MS * 1000


@pytest.mark.parametrize(
    ("comparisons", "found"),
    [
        ([Comparison("EqualTo", "topic", "orders")], "abcd"),
        ([Comparison("EqualNullSafe", "topic", "clicks")], "x"),
        ([Comparison("StartsWith", "topic", "cl")], "x"),
        ([Comparison("In", "topic", ("clicks", "none"))], "x"),
        ([Comparison("EqualTo", "topic", "none")], ""),
        ([Comparison("GreaterThan", "partition", 0)], "x"),
        ([Comparison("GreaterThan", "offset", 0), Comparison("LessThan", "offset", 3)], "bc"),
        ([Comparison("GreaterThanOrEqual", "offset", 1), Comparison("LessThanOrEqual", "offset", 2)], "bc"),
        ([Comparison("EqualTo", "offset", 5)], "x"),
        ([Comparison("EqualTo", "offset", -1)], ""),
        ([Comparison("EqualTo", "offset", 2**63 - 1)], ""),
        ([Comparison("LessThanOrEqual", "offset", 2**63 - 1)], "xabcd"),
        ([], "xabcd"),
    ],
)
def test_a_comparison_of_partitions_or_offsets_narrows_what_is_read(
    log_dir: Path, comparisons: list[Comparison], found: str
) -> None:
    assert keys(read_narrowed(log_dir, comparisons)) == found


@pytest.mark.parametrize(
    "one",
    [
        Comparison("EqualTo", "key", b"a"),
        Comparison("EqualTo", "topic", None),
        Comparison("Not", "offset", 0),
        Comparison("In", "offset", (0, 3)),
        Comparison("LessThan", "timestamp", NOW_US),
    ],
)
def test_a_comparison_of_another_kind_narrows_nothing(one: Comparison) -> None:
    assert narrowing_of([one]) == EVERYTHING


@pytest.mark.parametrize("name", ["GreaterThanOrEqual", "GreaterThan", "EqualTo", "EqualNullSafe"])
def test_a_comparison_of_times_skips_batches(log_dir: Path, name: str) -> None:
    assert keys(read_narrowed(log_dir, [Comparison(name, "timestamp", NOW_US)])) == "abcd"


@pytest.mark.parametrize("us", [0, 1, 999])
def test_a_time_within_a_millisecond_loses_no_record_of_the_next(tmp_path: Path, us: int) -> None:
    PartitionDir(tmp_path).segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS)).segment(
        1, keyed(1, "b=1", timestamp_ms=NOW_MS + 1)
    )
    found = read_narrowed(tmp_path, [Comparison("GreaterThanOrEqual", "timestamp", NOW_US + us)])
    assert keys(found)[-1] == "b"


def test_segments_before_a_time_are_not_planned(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path)
    for place, key in enumerate("abc"):
        drawn.segment(place, keyed(place, f"{key}=1", timestamp_ms=NOW_MS + place))
    narrowing = narrowing_of([Comparison("GreaterThanOrEqual", "timestamp", NOW_US + 1000)])
    planned = plan_read(parse_options({"path": str(tmp_path)}), narrowing)
    assert [extent.base_offset for together in planned for extent in together] == [1, 2]
