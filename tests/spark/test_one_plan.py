"""What Spark keeps of a frame between its queries, and what it may not: plans, columns, damaged batches, streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import Row, read, read_pushed
from tests.spark.test_pushdown import moment
from tests.spark.test_query_shapes import PREDICATES, load, pushing_down

DAMAGED = ("PERMISSIVE", "DROPMALFORMED")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches of two records; every second one is damaged, one of them claims another offset, one another length."""
    path = tmp_path_factory.mktemp("damaged")
    for name in ("orders-0", "orders-1", "clicks-0"):
        drawn = PartitionDir(path, name)
        for base in (0, 6):
            batches = [bytearray(pair(base + at)) for at in (0, 2, 4)]
            drawn.segment(base, *map(bytes, batches))
            batches[1][-1] ^= 1
            if name == "orders-1":
                batches[1][0:8] = (1000).to_bytes(8, "big")
            if name == "clicks-0":
                batches[1][8:12] = (2**31 - 1).to_bytes(4, "big")
            drawn.log(base).write_bytes(b"".join(batches))
    return path


def pair(base: int) -> bytes:
    return keyed(base, f"k{base}=1", f"k{base + 1}=1", timestamp_ms=NOW_MS + base)


COMPARISONS = {EqualTo: "==", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">="}
OFFSETS = st.builds(lambda kind, at: kind(("offset",), at), st.sampled_from(list(COMPARISONS)), st.integers(-1, 1001))
TIMES = st.builds(
    lambda kind, at: kind(("timestamp",), moment(NOW_MS + at)), st.sampled_from(list(COMPARISONS)), st.integers(-1, 12)
)
NAMES = st.sampled_from(
    [
        EqualTo(("topic",), "orders"),
        In(("topic",), ("clicks", "none")),
        StringStartsWith(("topic",), "o"),
        GreaterThan(("partition",), 0),
        IsNotNull(("timestamp",)),
        IsNotNull(("offset",)),
    ]
)


def passes(row: Row, one: Any) -> bool:
    """Whether Spark would let the row through."""
    value = row[one.attribute[0]]
    if value is None:
        return False
    match one:
        case IsNotNull():
            return True
        case In():
            return value in one.value
        case StringStartsWith():
            return bool(value.startswith(one.value))
    compared = {"==": value == one.value, "<": value < one.value, ">": value > one.value}
    sign = COMPARISONS[type(one)]
    return any(compared[part] for part in (["==", sign[0]] if sign in ("<=", ">=") else [sign]))


@pytest.mark.parametrize("mode", DAMAGED)
@settings(max_examples=60, deadline=None, database=None)
@given(filters=st.lists(OFFSETS | TIMES | NAMES, min_size=1, max_size=3))
def test_a_damaged_log_gives_the_same_rows_with_filters_pushed_down(damaged: Path, mode: str, filters: Any) -> None:
    assert answer(read_pushed(damaged, filters, mode=mode), filters) == answer(read(damaged, mode=mode), filters)


def answer(rows: list[Row], filters: list[Any]) -> list[str]:
    return sorted(str(row) for row in rows if all(passes(row, one) for one in filters))


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_a_row_that_tells_of_damage_passes_the_same_filters_pushed_down_or_not(
    spark: Any, damaged: Path, pushdown: str
) -> None:
    with pushing_down(spark, True):
        frame = spark.read.format("kafka-log").options(mode="PERMISSIVE", pushdown=pushdown).load(str(damaged))
        told = frame.where("topic = 'orders' and offset < 1000 and timestamp is not null").collect()
    assert [row.offset for row in told if row._corrupt_batch] == []
    assert len(told) == 16


@pytest.mark.parametrize("predicate", PREDICATES[::3])
def test_a_frame_used_once_may_push_its_filter_down(spark: Any, log_dir: Path, predicate: str) -> None:
    with pushing_down(spark, True):
        rows = [load(spark, log_dir, pushdown=said).where(predicate).collect() for said in ("true", "false")]
    assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))


def test_pushdown_is_refused_where_spark_has_it_switched_off(spark: Any, log_dir: Path) -> None:
    with pytest.raises(PySparkException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        load(spark, log_dir, pushdown="true").where("offset = 1").collect()


@pytest.mark.parametrize("says", [True, False])
def test_a_frame_reads_what_its_first_query_found_and_a_new_one_what_is_new(
    spark: Any, tmp_path: Path, says: bool
) -> None:
    orders = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"))
    with pushing_down(spark, says):
        frame = load(spark, tmp_path)
        assert frame.count() == 1
        orders.segment(1, keyed(1, "b=2"))
        assert frame.count() == 1
        assert load(spark, tmp_path).count() == 2


def test_two_frames_of_one_path_do_not_share_a_plan_or_a_cache(spark: Any, log_dir: Path) -> None:
    orders, clicks = (load(spark, log_dir, subscribe=topic) for topic in ("orders", "clicks"))
    orders.cache()
    assert [orders.count(), clicks.count(), orders.unionAll(clicks).count()] == [4, 1, 5]
    assert load(spark, log_dir).count() == 5
    orders.unpersist()


@pytest.mark.parametrize("says", [True, False])
def test_two_queries_of_one_stream_and_two_filters_in_one_query_see_all_they_ask_for(
    spark: Any, log_dir: Path, tmp_path: Path, says: bool
) -> None:
    with pushing_down(spark, says):
        stream = (
            spark.readStream.format("kafka-log").options(startingOffsets="earliest", columns="key").load(str(log_dir))
        )
        both = stream.where("key = 'a'").unionAll(stream.where("key = 'x'")).unionAll(stream)
        for name, frame in (("some", stream.where("key > 'b'")), ("both", both), ("whole", stream)):
            query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
            query.awaitTermination()
        found = {name: "".join(sorted(row.key.decode() for row in spark.table(name).collect())) for name in
                 ("some", "both", "whole")}  # fmt: skip
    assert found == {"some": "cdx", "both": "aabcdxx", "whole": "abcdx"}
