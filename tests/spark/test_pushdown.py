from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from cleaner.spark.options import parse_options
from cleaner.spark.pushdown import Pushed
from cleaner.spark.source import KafkaLogReader
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import keys, read

TOPIC, PARTITION, OFFSET, TIMESTAMP = ("topic",), ("partition",), ("offset",), ("timestamp",)


def moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([EqualTo(TOPIC, "orders")], "abcd"),
        ([EqualNullSafe(TOPIC, "clicks")], "x"),
        ([StringStartsWith(TOPIC, "cl")], "x"),
        ([In(TOPIC, ("clicks", "none"))], "x"),
        ([EqualTo(TOPIC, "none")], ""),
        ([GreaterThan(PARTITION, 0)], "x"),
        ([GreaterThan(OFFSET, 0), LessThan(OFFSET, 3)], "bc"),
        ([GreaterThanOrEqual(OFFSET, 1), LessThanOrEqual(OFFSET, 2)], "bc"),
        ([EqualTo(OFFSET, 5)], "x"),
        ([EqualTo(OFFSET, -1)], ""),
        ([IsNotNull(OFFSET)], "xabcd"),
    ],
)
def test_a_filter_on_partitions_or_offsets_is_wholly_honoured(log_dir: Path, filters: list[Any], found: str) -> None:
    pushed = Pushed()
    pushed.take(filters)
    assert pushed.left_to_spark == []
    assert keys(read(log_dir, filters)) == found


@pytest.mark.parametrize(
    "one",
    [
        IsNull(("value",)),
        IsNotNull(("value",)),
        Not(EqualTo(OFFSET, 0)),
        EqualTo(("key",), b"a"),
        EqualTo(("headers", "key"), "h"),
        EqualTo(TOPIC, None),
        In(OFFSET, (0, 3)),
        LessThan(TIMESTAMP, moment(NOW_MS)),
    ],
)
def test_a_filter_of_another_kind_is_left_to_spark(log_dir: Path, one: Any) -> None:
    pushed = Pushed()
    pushed.take([one])
    assert pushed.left_to_spark == [one]
    assert keys(read(log_dir, [one])) == "xabcd"


@pytest.mark.parametrize("one", [GreaterThanOrEqual, GreaterThan, EqualTo, EqualNullSafe])
def test_a_filter_on_times_skips_batches_and_is_left_to_spark_too(log_dir: Path, one: Any) -> None:
    later = one(TIMESTAMP, moment(NOW_MS))
    pushed = Pushed()
    pushed.take([later])
    assert pushed.left_to_spark == [later]
    assert keys(read(log_dir, [later])) == "abcd"


def test_segments_before_a_time_are_not_planned(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path)
    for place, key in enumerate("abc"):
        drawn.segment(place, keyed(place, f"{key}=1", timestamp_ms=NOW_MS + place))
    options = parse_options({"path": str(tmp_path)})
    source = KafkaLogReader(options, options.columns)
    source.pushFilters([GreaterThanOrEqual(TIMESTAMP, moment(NOW_MS + 1))])
    planned = [slice_.base_offset for partition in source.partitions() for slice_ in partition.value]
    assert planned == [1, 2]
