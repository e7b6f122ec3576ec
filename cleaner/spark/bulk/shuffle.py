"""Find the surviving records by a DataFrame aggregation over key hashes. Spark shuffles only hashes and places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import AccumulatorParam, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from cleaner.engine.compaction.key_map import secret_of
from cleaner.spark.bulk.tasks import PLACE_BITS, Bitmaps, GroupWork, KeysFound, SpanWalk, SpanWork, units_by_number
from storage.errors import LogCleanerError
from storage.stores.paths import path_of_text

_KEYS: Final = "round int, low bigint, high bigint, place bigint, is_dirty boolean"
_KEY: Final = ["round", "low", "high"]
_BITMAPS: Final = "unit int, path string"
_BITMAP_TASKS_A_SLOT: Final = 2
_KEY_TASKS_A_SLOT: Final = 32
"""The number of tasks for each slot: enough that a slow task keeps no slot waiting.

Each task costs some hundredths of a second.
"""

Result = TypeVar("Result")
Answers = dict[int, KeysFound | LogCleanerError]
"""The answer for every span, by the span's number."""


class _Answers(AccumulatorParam[Answers]):
    """Collects the answers. An answer may come twice: a span that is walked twice gives the same answer twice."""

    def zero(self, value: Answers) -> Answers:
        del value
        return {}

    def addInPlace(self, value1: Answers, value2: Answers) -> Answers:  # noqa: N802 - Spark's name
        value1.update(value2)
        return value1


def counted(answer: Result, walked_bytes: Any, size_bytes: int) -> Result:
    """Count in an accumulator what a task has walked over. Return its answer."""
    walked_bytes.add(size_bytes)
    return answer


def survivor_bitmaps(
    spark: SparkSession, units: Sequence[GroupWork], secret: tuple[int, int], run: str, walked_bytes: Any
) -> tuple[dict[int, Path], Answers]:
    """Find the surviving records.

    Args:
        spark: the session.
        units: the units of all rounds.
        secret: the secret of the key hashes: the same for all tasks, and unknown to anybody who writes records.
        run: the id of the run, part of the names of scratch files.
        walked_bytes: an accumulator, for the progress.

    Returns:
        The file of each unit's bitmap (none for a unit without survivors), and the answer for each span.

        Raises: the errors of Spark.
    """
    answers = spark.sparkContext.accumulator({}, _Answers())
    keys = _keys(spark, units, secret, run, answers, walked_bytes)
    dirty = keys.where("is_dirty").groupBy(*_KEY).agg(sql.max("place").alias("place"))
    if all(_is_dirty(unit) for unit in units):
        return _bitmaps(dirty, units, run, spark), answers.value
    keys.persist(StorageLevel.DISK_ONLY)  # Spark reads hashes twice, and logs once
    try:
        clean = keys.where("not is_dirty").join(dirty.select(*_KEY), _KEY, "left_anti")
        return _bitmaps(dirty.select("place").unionAll(clean.select("place")), units, run, spark), answers.value
    finally:
        keys.unpersist()


def _is_dirty(unit: GroupWork) -> bool:
    return unit.spans[0].span.base_offset >= unit.setting.first_dirty_offset


def _keys(
    spark: SparkSession, units: Sequence[GroupWork], secret: tuple[int, int], run: str, answers: Any, walked_bytes: Any
) -> DataFrame:
    """Return a row for each record with a key. A task walks one span, or several if there are many."""
    spans = spark.sparkContext.broadcast([(unit.number, unit.setting, span) for unit in units for span in unit.spans])

    def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                unit, setting, span = spans.value[number]
                yield from _walked(SpanWalk(span, setting, unit, secret_of(secret)), setting.round, span, run, answers)
                walked_bytes.add(span.span.size_bytes)

    count = len(spans.value)
    tasks = min(count, _KEY_TASKS_A_SLOT * spark.sparkContext.defaultParallelism)
    return spark.range(0, count, 1, tasks).mapInArrow(walk, _KEYS)


def _walked(walk: SpanWalk, round_: int, span: SpanWork, run: str, answers: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a span. An error becomes the span's answer: other rounds go on, and Spark retries no task."""
    try:
        for digests, places, is_dirty in walk.rows():
            columns = (
                np.full(digests.size, round_, np.int32),
                digests["key_low"].view(np.int64),
                digests["key_high"].view(np.int64),
                places,
                is_dirty,
            )
            arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, [*_KEY, "place", "is_dirty"])
        answers.add({span.number: walk.found(run)})
    except LogCleanerError as error:
        answers.add({span.number: error})


def _bitmaps(survivors: DataFrame, units: Sequence[GroupWork], run: str, spark: SparkSession) -> dict[int, Path]:
    """Send each place to the task of its unit, and return the bitmap files that these tasks write."""
    known = spark.sparkContext.broadcast(units_by_number(units))

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records_of, directory_of = known.value
        bitmaps = Bitmaps(records_of)
        for batch in batches:
            bitmaps.add(batch.column(0).to_numpy())
        written = list(bitmaps.write(directory_of, run))
        numbers = pa.array([unit for unit, _ in written], pa.int32())
        paths = pa.array([path for _, path in written], pa.string())
        yield pa.RecordBatch.from_arrays([numbers, paths], ["unit", "path"])

    count = min(len(units), _BITMAP_TASKS_A_SLOT * spark.sparkContext.defaultParallelism)
    by_unit = survivors.select("place").repartition(count, sql.shiftright("place", PLACE_BITS))
    return {row.unit: path_of_text(row.path) for row in by_unit.mapInArrow(write, _BITMAPS).collect()}
