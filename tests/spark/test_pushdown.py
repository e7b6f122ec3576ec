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

from cleaner.spark.table.options import parse_options
from cleaner.spark.table.source import EVERYTHING, PushdownReader, narrowing_of
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import keys, read_pushed

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
        ([EqualTo(OFFSET, 2**63 - 1)], ""),
        ([LessThanOrEqual(OFFSET, 2**63 - 1)], "xabcd"),
        ([IsNotNull(OFFSET)], "xabcd"),
    ],
)
def test_a_filter_on_partitions_or_offsets_narrows_what_is_read(log_dir: Path, filters: list[Any], found: str) -> None:
    assert keys(read_pushed(log_dir, filters)) == found


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
        GreaterThan(TIMESTAMP, datetime(2100, 1, 1)),  # noqa: DTZ001  (a time without a zone)
    ],
)
def test_a_filter_of_another_kind_narrows_nothing(one: Any) -> None:
    assert narrowing_of([one], names_only=False) == EVERYTHING


@pytest.mark.parametrize("one", [GreaterThanOrEqual, GreaterThan, EqualTo, EqualNullSafe])
def test_a_filter_on_times_skips_batches(log_dir: Path, one: Any) -> None:
    assert keys(read_pushed(log_dir, [one(TIMESTAMP, moment(NOW_MS))])) == "abcd"


def test_every_filter_is_left_to_spark() -> None:
    filters = [EqualTo(TOPIC, "orders"), LessThan(OFFSET, 3), IsNotNull(TIMESTAMP), IsNull(("value",))]
    options = parse_options({"path": "data"})
    assert PushdownReader(options, options.columns).pushFilters(filters) == filters


def test_segments_before_a_time_are_not_planned(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path)
    for place, key in enumerate("abc"):
        drawn.segment(place, keyed(place, f"{key}=1", timestamp_ms=NOW_MS + place))
    options = parse_options({"path": str(tmp_path)})
    source = PushdownReader(options, options.columns)
    source.pushFilters([GreaterThanOrEqual(TIMESTAMP, moment(NOW_MS + 1))])
    planned = [slice_.base_offset for partition in source.partitions() for slice_ in partition.value]
    assert planned == [1, 2]
