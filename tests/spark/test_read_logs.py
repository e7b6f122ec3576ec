"""``read_logs``: what it reads, what a condition on other columns gives, and what it tells who errs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from cleaner.spark import read_logs
from cleaner.spark.table.logs import understood
from storage.errors import InvalidConfig
from tests.partition_dirs import NOW_MS


def keys(frame: Any) -> str:
    return "".join(sorted(row.key.decode() for row in frame.collect()))


@pytest.mark.parametrize(
    ("where", "columns", "comparisons"),
    [
        ("topic = 'orders' and 3 < offset", ["topic", "offset"], ["EqualTo topic orders", "GreaterThan offset 3"]),
        ("topic like 'o%' and key = 'a'", ["topic", "key"], ["StartsWith topic o", "EqualTo key b'a'"]),
        ("not (offset < 5.5)", ["offset"], ["GreaterThanOrEqual offset 6"]),
        ("partition in (1, 2)", ["partition"], ["In partition [1, 2]"]),
        (f"topic in ({', '.join(repr(str(n)) for n in range(12))})", ["topic"], ["In topic"]),
        (f"timestamp >= timestamp_millis({NOW_MS})", ["timestamp"], [f"GreaterThanOrEqual timestamp {NOW_MS * 1000}"]),
        ("topic = 'a' or offset = 1", ["topic", "offset"], []),
        ("offset = partition and upper(topic) = 'A'", ["offset", "partition", "topic"], []),
        ("topic in ('a', null)", ["topic"], []),
        ("true", [], []),
        ("false", [], []),
    ],
)
def test_a_condition_isunderstood_as_spark_does(
    spark: Any, where: str, columns: list[str], comparisons: list[str]
) -> None:
    named, found = understood(spark, where)
    told = [f"{one.name} {one.column} {one.value}" for one in found]
    assert sorted(named) == sorted(columns)
    assert len(told) == len(comparisons)
    assert all(any(one.startswith(wanted) for one in told) for wanted in comparisons), told


def test_a_condition_may_name_columns_that_the_frame_lacks(spark: Any, log_dir: Path) -> None:
    frame = read_logs(spark, log_dir, columns=["key"], where="topic = 'orders' and offset between 1 and 2")
    assert (frame.columns, keys(frame)) == (["key"], "bc")


def test_all_columns_of_the_source_are_there_by_default(spark: Any, log_dir: Path) -> None:
    frame = read_logs(spark, str(log_dir), options={"includeMetadata": True})
    source = spark.read.format("kafka-log").option("includeMetadata", "true").load(str(log_dir))
    assert frame.schema == source.schema
    assert sorted(map(str, frame.collect())) == sorted(map(str, source.collect()))


def test_several_paths_and_options_count(spark: Any, log_dir: Path) -> None:
    paths = [log_dir / "orders-0", log_dir / "clicks-1"]
    assert keys(read_logs(spark, paths)) == "abcdx"
    assert (
        keys(read_logs(spark, paths, options={"startingOffsets": {"orders": {"0": 2}, "clicks": {"1": -2}}})) == "cdx"
    )


def test_spark_takes_no_frame_of_a_log_for_a_small_one_that_it_may_broadcast(spark: Any, log_dir: Path) -> None:
    frame = read_logs(spark, log_dir, columns=["key"], where="topic = 'orders'")
    assert frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() > 1 << 50


def test_a_frame_without_any_record_is_empty(spark: Any, log_dir: Path) -> None:
    assert read_logs(spark, log_dir, where="topic = 'none'").collect() == []


def test_errors_are_told_at_the_call(spark: Any, log_dir: Path) -> None:
    with pytest.raises(AnalysisException, match="nobody"):
        read_logs(spark, log_dir, where="nobody = 1")
    with pytest.raises(InvalidConfig, match="no column 'nobody'"):
        read_logs(spark, log_dir, columns=["nobody"])
    with pytest.raises(InvalidConfig, match="no JVM is here"):
        read_logs(object(), log_dir)  # type: ignore[arg-type]
