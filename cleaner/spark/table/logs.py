"""``read_logs``: a frame over log dirs that reads what some columns and one condition need, and no more.

Spark plans a Python data source once a frame, whatever its queries ask, and tells it no columns. A call of
``read_logs`` plans by itself, for the condition that it applies to the rows, too. So the frame is right in every query.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from cleaner.arrow.schema import TYPES, ddl
from cleaner.spark.errors import WITHOUT_STACK
from cleaner.spark.table.options import Options, has_jvm, option_texts, parse_options, s3_of_session
from cleaner.spark.table.planning import COMPARISONS, Comparison, narrowing_of, plan_read
from cleaner.spark.table.reading import read_planned
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, SparkSession

_CALL: Final = "read_logs"
_MIRRORED: Final = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}
"""A comparison -> the same with its sides exchanged."""


def frame_of_logs(
    spark: SparkSession,
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    columns: Sequence[str] | None,
    where: Column | str | None,
    options: Mapping[str, object],
) -> DataFrame:
    """Return the frame of ``cleaner.spark.read_logs``, which has the arguments and errors."""
    if not has_jvm(spark):
        raise InvalidConfig("spark", type(spark).__name__, "no JVM is here; use spark.read.format('kafka-log')", _CALL)
    given = option_texts(options) | _paths_text(path)
    if columns is not None:
        given["columns"] = ",".join(columns)
    parsed = replace(parse_options(given), s3=s3_of_session(spark))
    if where is None:
        return _frame(spark, parsed, parsed.columns, plan_read(parsed))
    asked, comparisons = understood(spark, where)
    read = (*parsed.columns, *(name for name in asked if name not in parsed.columns))
    planned = plan_read(parsed, narrowing_of(comparisons, parsed.mode))
    return _frame(spark, parsed, read, planned).where(where).select(*parsed.columns)


def _paths_text(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> dict[str, str]:
    """Return the option that names the paths."""
    if isinstance(path, str | PathLike):
        return {"path": fspath(path)}
    return option_texts({"paths": [fspath(one) for one in path]})


@dataclass(frozen=True)
class _Task:
    """The work of a task. Spark pickles it, and shows nothing of it."""

    columns: tuple[str, ...]
    options: Options

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of the extents, which are pickled in the only column."""
        for batch in batches:
            for extents in batch.column(0):
                planned = pickle.loads(extents.as_py())  # noqa: S301 - the driver wrote it
                with WITHOUT_STACK:
                    yield from read_planned(planned, self.columns, self.options)


def _frame(spark: SparkSession, options: Options, columns: tuple[str, ...], planned: Sequence[Any]) -> DataFrame:
    """Return the frame of planned extents, one task each.

    Of an RDD Spark knows no size. Of a local table it would, and would broadcast the frame in a join, as a small one.
    """
    context = spark.sparkContext
    jvm: Any = context._jvm
    pickled = jvm.java.util.ArrayList()
    for extents in planned:
        pickled.add(pickle.dumps(extents))
    rows = context._jsc.parallelize(pickled, max(1, len(planned))).rdd()
    ranges = spark._jsparkSession.createDataset(rows, jvm.org.apache.spark.sql.Encoders.BINARY())
    return DataFrame(ranges.toDF(), spark).mapInArrow(_Task(columns, options).read, ddl(columns))


# ---- what a condition says ------------------------------------------------------------------------------------------


def understood(spark: SparkSession, where: Column | str) -> tuple[list[str], list[Comparison]]:
    """Return the columns that a condition names, and the comparisons that each row of its answer passes."""
    probe = spark.range(1).mapInArrow(_unchanged, ddl(TYPES)).where(where)
    query = probe._jdf.queryExecution()
    names = [column.name() for one in _each(query.analyzed().expressions()) for column in _each(one.references())]
    node = query.optimizedPlan()
    comparisons: list[Comparison] = []
    while _kind(node) == "Filter":
        comparisons += _comparisons(node.condition())
        node = node.child()
    return list(dict.fromkeys(names)), comparisons


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _comparisons(condition: Any) -> Iterator[Comparison]:
    """Yield the comparisons of a column with a constant that a condition of Catalyst implies."""
    kind = _kind(condition)
    if kind == "And":
        yield from _comparisons(condition.left())
        yield from _comparisons(condition.right())
    elif kind == "In":
        yield from _among(condition.value(), map(_constant, _each(condition.list())))
    elif kind == "InSet":
        yield from _among(condition.child(), map(_plain, _each(condition.hset())))
    elif kind in COMPARISONS:
        sides = _kind(condition.left()), _kind(condition.right())
        if sides == ("AttributeReference", "Literal"):
            yield Comparison(kind, condition.left().name(), _constant(condition.right()))
        elif sides == ("Literal", "AttributeReference") and kind in _MIRRORED:
            yield Comparison(_MIRRORED[kind], condition.right().name(), _constant(condition.left()))


def _among(column: Any, values: Iterable[Any]) -> Iterator[Comparison]:
    """Yield the comparison of a column with several constants."""
    found = list(values)
    if _kind(column) == "AttributeReference" and None not in found:
        yield Comparison("In", column.name(), found)


def _kind(node: Any) -> str:
    """Return the name of the class of a node of Catalyst."""
    return str(node.getClass().getSimpleName())


def _each(collection: Any) -> Iterator[Any]:
    """Yield the elements of a collection of Scala."""
    elements = collection.iterator()
    while elements.hasNext():
        yield elements.next()


def _constant(expression: Any) -> Any:
    """Return the value of a literal; None for another expression, and for null."""
    return _plain(expression.value()) if _kind(expression) == "Literal" else None


def _plain(value: Any) -> Any:
    """Return a value of Catalyst as one of Python: a timestamp is microseconds, a string has a class of its own."""
    return value.toString() if hasattr(value, "getClass") else value
