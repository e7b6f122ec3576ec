"""Every shape of query over one frame gives what the same query gives over the same rows outside the source.

Spark's Python data source keeps what a reader planned last, for all plans of a frame. A reader that plans less because
of one query's filters would then hand too little to the next query: that is what these tests are for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleaner.arrow.schema import ddl
from cleaner.spark import read_logs
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.sampled import day, is_whole
from tests.spark.tables import read

COLUMNS: Final = ("key", "topic", "partition", "offset", "timestamp")

PREDICATES: Final = (
    "topic = 'orders'",
    "topic like 'o%'",
    "topic in ('clicks', 'none')",
    "topic <=> 'clicks' and partition >= 0",
    "partition = 1",
    "offset < 2",
    "offset = 3",
    "offset > 0 and offset <= 4",
    f"timestamp >= timestamp_millis({NOW_MS})",
    f"timestamp < timestamp_millis({NOW_MS})",
    "key = 'a'",
    "topic = 'none'",
    "timestamp is not null",
    "topic = 'orders' or offset = 5",
    "true",
)
"""Such as a source may be offered, and such as it is not."""


def whole(frame: Any, p: str, q: str) -> Any:
    return frame


def filtered(frame: Any, p: str, q: str) -> Any:
    return frame.where(p)


def union(frame: Any, p: str, q: str) -> Any:
    return frame.where(p).unionAll(frame.where(q))


def union_with_the_whole(frame: Any, p: str, q: str) -> Any:
    return frame.where(p).unionAll(frame)


def self_join(frame: Any, p: str, q: str) -> Any:
    left, right = frame.where(p).alias("l"), frame.where(q).alias("r")
    return left.join(right, on="key").select("l.topic", "l.offset", "r.topic", "r.offset")


def outer_join(frame: Any, p: str, q: str) -> Any:
    left, right = frame.where(p).alias("l"), frame.where(q).alias("r")
    return left.join(right, on=["topic", "partition", "offset"], how="full").select("topic", "offset", "l.key", "r.key")


def difference(frame: Any, p: str, q: str) -> Any:
    return frame.exceptAll(frame.where(p)).intersect(frame.where(q))


def aggregates(frame: Any, p: str, q: str) -> Any:
    return frame.where(p).groupBy("topic").count().unionAll(frame.groupBy("topic").count())


def limited(frame: Any, p: str, q: str) -> Any:
    first = frame.where(p).orderBy("topic", "partition", "offset").limit(3)
    return first.unionAll(frame.orderBy("topic", "partition", "offset").limit(4).where(q))


def column_by_column(frame: Any, p: str, q: str) -> Any:
    return frame.where(p).select("offset").unionAll(frame.where(q).selectExpr("cast(partition as bigint)"))


def cached(frame: Any, p: str, q: str) -> Any:
    kept = frame.where(p).cache()
    kept.count()
    return kept.where(q).unionAll(frame.where(q))


def in_sql(query: str) -> Callable[[Any, str, str], Any]:
    """A query of a view ``log``, with ``{p}`` and ``{q}`` for two predicates."""

    def shape(frame: Any, p: str, q: str) -> Any:
        frame.createOrReplaceTempView("log")
        return frame.sparkSession.sql(query.format(p=p, q=q))

    return shape


SQL: Final = (
    "select * from log where {p}",
    "select * from log where key in (select key from log where {p}) and {q}",
    "select * from log where key not in (select key from log where {p})",
    "select * from log a where exists (select 1 from log b where b.offset = a.offset + 1 and {q})",
    "select * from log where offset >= (select min(offset) from log where {p}) and {q}",
    "select (select count(*) from log where {p}), (select count(*) from log where {q}), count(*) from log",
    "with some as (select * from log where {p}) select * from some where {q} union all select * from some",
    "select count(*) filter (where {p}), count(*) from log where {q}",
)
SHAPES: Final = (
    whole, filtered, union, union_with_the_whole, self_join, outer_join, difference, aggregates, limited,
    column_by_column, cached, *map(in_sql, SQL),
)  # fmt: skip


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions of several segments; keys recur, times go back."""
    path = tmp_path_factory.mktemp("varied")
    for number in range(2):
        orders = PartitionDir(path, f"orders-{number}")
        for base in range(0, 6, 2):
            orders.segment(base, keyed(base, "a=1", f"k{base}=2", timestamp_ms=NOW_MS + (1 - base) * 1000))
    clicks = PartitionDir(path, "clicks-1")
    for base in range(3, 7):
        clicks.segment(base, keyed(base, f"k{base}", timestamp_ms=NOW_MS + base * 1000 - 5000))
    return path


@pytest.fixture(scope="module")
def plain(spark: Any, varied: Path) -> Any:
    """The same rows as a table of Spark's own."""
    rows = [tuple(row.values()) for row in read(varied, columns=",".join(COLUMNS))]
    return spark.createDataFrame(rows, ddl(COLUMNS))


Shape = Callable[[Any, str, str], Any]


def answer(shape: Shape, frame: Any, p: str, q: str) -> list[str]:
    return sorted(map(str, shape(frame, p, q).collect()))


@pytest.fixture(scope="module")
def expected(plain: Any) -> Callable[[Shape, str, str], list[str]]:
    """Gives the answer of Spark's own table, asked once."""
    return cache(lambda shape, p, q: answer(shape, plain, p, q))


def load(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("kafka-log").options(columns=",".join(COLUMNS), **options).load(str(path))


QUERIES: Final = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.sampled_from(PREDICATES), st.sampled_from(PREDICATES)), min_size=2, max_size=3
)


@settings(max_examples=6, database=None)
@given(queries=QUERIES)
def test_a_frame_answers_each_query_as_if_it_were_the_only_one(
    spark: Any, varied: Path, expected: Any, queries: list[tuple[Any, str, str]]
) -> None:
    frame = load(spark, varied)
    for shape, p, q in queries:
        assert answer(shape, frame, p, q) == expected(shape, p, q), (shape, p, q)
        spark.catalog.clearCache()


def load_narrowed(spark: Any, path: Path, where: str | None = None) -> Any:
    return read_logs(spark, path, columns=COLUMNS, where=where)


@pytest.mark.parametrize("loads", [load, load_narrowed])
def test_every_shape_gives_the_same_in_one_frame(spark: Any, varied: Path, expected: Any, loads: Any) -> None:
    p, q = "topic = 'orders'", "offset > 0 and offset <= 4"
    frame = loads(spark, varied)
    differing = [
        shape.__name__ + str(place)
        for place, shape in enumerate(SHAPES)
        if answer(shape, frame, p, q) != expected(shape, p, q)
    ]
    spark.catalog.clearCache()
    assert differing == []


@pytest.mark.parametrize("predicate", PREDICATES)
def test_every_shape_over_a_narrowed_frame_gives_the_same(spark: Any, varied: Path, plain: Any, predicate: str) -> None:
    turn = (day() + PREDICATES.index(predicate)) % len(SHAPES)
    shapes = SHAPES if is_whole() or predicate == PREDICATES[7] else [SHAPES[turn]]
    narrowed, filtered_frame, q = load_narrowed(spark, varied, predicate), plain.where(predicate), "offset < 5"
    for shape in shapes:
        assert answer(shape, narrowed, "partition = 1", q) == answer(shape, filtered_frame, "partition = 1", q), shape
    spark.catalog.clearCache()
