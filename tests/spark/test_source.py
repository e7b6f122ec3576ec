"""What a user of Spark sees: schemas, filters, options, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from storage.compression import Compression
from tests.partition_dirs import NOW_MS, PartitionDir, committed, keyed

KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    orders = PartitionDir(path, "orders-0").segment(0, keyed(0, "a=1", "b=2")).segment(2, keyed(2, "c=3", "d"))
    clicks = PartitionDir(path, "clicks-1").segment(5, keyed(5, "x=1", timestamp_ms=NOW_MS - 1000))
    return committed(path, orders, clicks)


def table(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("kafka-log").options(**options).load(str(path))


def test_the_schema_is_that_of_sparks_kafka_source(spark: Any, log_dir: Path) -> None:
    assert table(spark, log_dir).schema.simpleString() == KAFKA_SCHEMA


def test_columns_asked_for_are_the_schema_and_the_rows(spark: Any, log_dir: Path) -> None:
    frame = table(spark, log_dir, columns="offset,key")
    assert frame.columns == ["offset", "key"]
    assert sorted(map(tuple, frame.collect())) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (5, b"x")]


def test_a_schema_given_is_a_projection(spark: Any, log_dir: Path) -> None:
    frame = spark.read.format("kafka-log").schema("topic string, value binary").load(str(log_dir))
    assert {tuple(row) for row in frame.where("topic = 'clicks'").collect()} == {("clicks", b"1")}


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("topic = 'orders'", "abcd"),
        ("topic like 'cl%' or topic = 'orders'", "abcdx"),
        ("partition > 0", "x"),
        ("topic in ('clicks', 'none')", "x"),
        ("offset between 1 and 2", "bc"),
        ("offset = 5", "x"),
        ("offset in (0, 3)", "ad"),
        ("not offset = 0 and topic = 'orders'", "bcd"),
        (f"timestamp >= timestamp_millis({NOW_MS})", "abcd"),
        (f"timestamp < timestamp_millis({NOW_MS})", "x"),
        ("value is null", "d"),
        ("topic = 'none'", ""),
    ],
)
@pytest.mark.parametrize("pushes", ["true", "false"])
def test_a_filter_finds_the_same_records_pushed_down_or_not(
    spark: Any, log_dir: Path, condition: str, keys: str, pushes: str
) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushes)
    try:
        found = table(spark, log_dir).where(condition).collect()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert sorted(row.key.decode() for row in found) == sorted(keys)


def test_a_damaged_batch_fails_the_read_and_is_named(spark: Any, tmp_path: Path) -> None:
    batch = bytearray(keyed(0, "a=1"))
    batch[-1] ^= 1
    directory = PartitionDir(tmp_path).segment(0, bytes(batch), keyed(1, "b=2"))
    with pytest.raises(PySparkException, match=f"{directory.log(0)} at byte 0: CRC-32C mismatch"):
        table(spark, tmp_path).collect()
    rows = table(spark, tmp_path, mode="permissive", columns="key,_corrupt_batch").collect()
    assert [(row.key, row["_corrupt_batch"] is None) for row in rows] == [(None, False), (b"b", True)]
    assert [row.key for row in table(spark, tmp_path, mode="DROPMALFORMED").collect()] == [b"b"]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"startingOffset": "earliest"}, "startingOffset: unknown option; did you mean startingOffsets?"),
        ({"mode": "lenient"}, "mode = 'lenient'"),
        ({"columns": "key,none"}, "no column 'none'"),
    ],
)
def test_an_option_that_cannot_be_is_told(spark: Any, log_dir: Path, options: dict[str, str], cause: str) -> None:
    with pytest.raises(PySparkException, match=cause.replace("?", r"\?")):
        table(spark, log_dir, **options)


def test_every_codec_comes_back(spark: Any, tmp_path: Path) -> None:
    batches = [
        keyed(base, *(f"k{base + place}=v" for place in range(10)), compression=codec)
        for base, codec in zip(range(0, 50, 10), Compression, strict=True)
    ]
    PartitionDir(tmp_path).segment(0, *batches)
    rows = table(spark, tmp_path, includeMetadata="true").orderBy("offset").collect()
    assert [row.key for row in rows] == [f"k{offset}".encode() for offset in range(50)]
    assert [row.codec for row in rows] == [codec.name.lower() for codec in Compression for _ in range(10)]
