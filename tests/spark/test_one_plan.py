"""What Spark keeps of a frame between its queries, and what it may not: plans, columns, damaged batches, streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleaner.spark import read_logs
from cleaner.spark.table.planning import COMPARISONS, Comparison
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import Row, read, read_narrowed
from tests.spark.test_query_shapes import load, load_narrowed

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


KINDS = st.sampled_from(["EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"])
OFFSETS = st.builds(lambda kind, at: Comparison(kind, "offset", at), KINDS, st.integers(-1, 1001))
TIMES = st.builds(lambda kind, at: Comparison(kind, "timestamp", (NOW_MS + at) * 1000), KINDS, st.integers(-1, 12))
NAMES = st.sampled_from(
    [
        Comparison("EqualTo", "topic", "orders"),
        Comparison("In", "topic", ("clicks", "none")),
        Comparison("StartsWith", "topic", "o"),
        Comparison("GreaterThan", "partition", 0),
    ]
)


def passes(row: Row, one: Comparison) -> bool:
    """Whether Spark would let the row through."""
    value = row[one.column]
    if value is None:
        return False
    if one.column == "timestamp":
        value = round(value.timestamp() * 1000) * 1000
    return COMPARISONS[one.name](value, one.value)


@pytest.mark.parametrize("mode", DAMAGED)
@settings(max_examples=60, database=None)
@given(asked=st.lists(OFFSETS | TIMES | NAMES, min_size=1, max_size=3))
def test_a_damaged_log_gives_the_same_rows_narrowed_or_not(damaged: Path, mode: str, asked: list[Comparison]) -> None:
    assert answer(read_narrowed(damaged, asked, mode=mode), asked) == answer(read(damaged, mode=mode), asked)


def answer(rows: list[Row], asked: list[Comparison]) -> list[str]:
    return sorted(str(row) for row in rows if all(passes(row, one) for one in asked))


def test_a_row_that_tells_of_damage_passes_the_same_conditions_in_either_frame(spark: Any, damaged: Path) -> None:
    condition, options = "topic = 'orders' and offset < 1000 and timestamp is not null", {"mode": "PERMISSIVE"}
    for frame in (
        spark.read.format("kafka-log").options(**options).load(str(damaged)).where(condition),
        read_logs(spark, damaged, where=condition, options=options),
    ):
        told = frame.collect()
        assert [row.offset for row in told if row._corrupt_batch] == []
        assert len(told) == 16


@pytest.mark.parametrize("loads", [load, load_narrowed])
def test_a_frame_reads_what_it_found_and_a_new_one_what_is_new(spark: Any, tmp_path: Path, loads: Any) -> None:
    orders = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"))
    frame = loads(spark, tmp_path)
    assert frame.count() == 1
    orders.segment(1, keyed(1, "b=2"))
    assert frame.count() == 1
    assert loads(spark, tmp_path).count() == 2


def test_two_frames_of_one_path_do_not_share_a_plan_or_a_cache(spark: Any, log_dir: Path) -> None:
    orders, clicks = (load(spark, log_dir, subscribe=topic) for topic in ("orders", "clicks"))
    orders.cache()
    assert [orders.count(), clicks.count(), orders.unionAll(clicks).count()] == [4, 1, 5]
    assert load(spark, log_dir).count() == 5
    orders.unpersist()


def test_two_queries_of_one_stream_and_two_filters_in_one_query_see_all_they_ask_for(
    spark: Any, log_dir: Path, tmp_path: Path
) -> None:
    stream = spark.readStream.format("kafka-log").options(startingOffsets="earliest", columns="key").load(str(log_dir))
    both = stream.where("key = 'a'").unionAll(stream.where("key = 'x'")).unionAll(stream)
    for name, frame in (("some", stream.where("key > 'b'")), ("both", both), ("whole", stream)):
        query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
        query.awaitTermination()
    found = {name: "".join(sorted(row.key.decode() for row in spark.table(name).collect())) for name in
             ("some", "both", "whole")}  # fmt: skip
    assert found == {"some": "cdx", "both": "aabcdxx", "whole": "abcdx"}
