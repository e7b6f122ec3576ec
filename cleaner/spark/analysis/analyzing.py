"""Analyze a snapshot with Spark: tasks make stretches and keys, and Spark shuffles and aggregates both.

Spark shuffles no value. Of each record with a key it shuffles key, offset and size. The driver receives only as much as
the answer holds, and puts names in the place of numbers (``snapshot``).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's own examples have it)
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.engine.means import Means
from cleaner.engine.outcome import PartitionResult
from cleaner.engine.rehearsal import Rehearsal
from cleaner.report.findings import Analysis
from cleaner.spark.analysis.fact_schema import KEY, STRETCH
from cleaner.spark.analysis.snapshot import PlannedRead
from cleaner.spark.analysis.tables import Figures, Naming, Rehearsed
from cleaner.spark.errors import AnalysisFailed
from cleaner.spark.session import cause_of
from cleaner.spark.table.options import PARTITION_BYTES_DEFAULT
from policies.config.policy import BrokerPolicy
from policies.plan import PartitionPlan, Request
from storage.records import ControlType
from storage.scan.extents import Extent, packed

if TYPE_CHECKING:
    import pyarrow as pa

TOP_KEYS: Final = 10

Told = Callable[[str], None]
"""A function that hears the next step."""


def analyze(spark: SparkSession, snapshot: PlannedRead, broker: BrokerPolicy, told: Told) -> Analysis:
    """Compute every table.

    Args:
        spark: a session whose executors see the log dirs and have this package.
        snapshot: the files to read.
        broker: the configuration for all topics alike.
        told: hears the steps.

        Raises: AnalysisFailed if a task cannot run at all.
    """
    try:
        return _analysis(spark, snapshot, broker, told)
    except (PySparkException, Py4JJavaError) as error:
        raise AnalysisFailed(cause_of(error)) from error


def _analysis(spark: SparkSession, snapshot: PlannedRead, broker: BrokerPolicy, told: Told) -> Analysis:
    named, problems = Naming(snapshot), list(snapshot.problems)
    with _kept(_facts(spark, snapshot, STRETCH)) as stretches:
        told("reading batches")
        problems += _problems(stretches)
        sums = {row["place"]: row for row in _rows(_sums(stretches))}
        tables = {
            "sizes": named.sizes(sums),
            "days": named.days(_rows(_days(stretches))),
            "codecs": named.codecs(_rows(_codecs(stretches))),
            "timestamps": named.timestamps(sums),
            "producers": named.producers(_rows(_producers(stretches))),
        }
    with _kept(_by_key(_facts(spark, snapshot, KEY)).coalesce(_tasks(spark, snapshot))) as keys:
        told("reading keys")
        problems += _problems(keys)
        tables["keys"] = named.keys({row["place"]: row for row in _rows(_key_sums(keys))}, sums)
        tables["top_keys"] = named.top_keys(_rows(_top_keys(keys)))
    told("measuring compactions")
    rehearsed = _rehearsed(spark, snapshot, broker)
    problems += [f"{named.of(place)}: {result.error}" for place, result in rehearsed.items() if result.error]
    tables |= {"savings": named.savings(rehearsed), "retention": named.retention()}
    return Analysis(snapshot.now_ms, tables, tuple(dict.fromkeys(problems)))


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep a frame until the context exits: Spark computes it once, for any number of aggregations."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _facts(spark: SparkSession, snapshot: PlannedRead, schema: pa.Schema) -> DataFrame:
    """Return the facts that tasks gather, each task from one pack of extents."""
    places, now_ms = snapshot.places, snapshot.now_ms

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from cleaner.spark.analysis.task_facts import facts_of  # noqa: PLC0415  (the kernels: in the workers only)

        for batch in batches:
            for pack in batch.column(0).to_pylist():
                yield from facts_of(pickle.loads(pack), places, schema, now_ms)  # noqa: S301  (our own driver's)

    packs = [pickle.dumps(pack) for pack in _packs(snapshot)]
    return _distributed(spark, packs).mapInArrow(read, from_arrow_schema(schema))


def _packs(snapshot: PlannedRead) -> list[tuple[Extent, ...]]:
    return list(packed(snapshot.extents, PARTITION_BYTES_DEFAULT))


def _tasks(spark: SparkSession, snapshot: PlannedRead) -> int:
    """Return the number of partitions to keep after a shuffle. Spark would keep 200, even of little data."""
    return max(len(_packs(snapshot)), spark.sparkContext.defaultParallelism)


def _distributed(spark: SparkSession, packs: Sequence[bytes]) -> DataFrame:
    """Return a frame of the packs, with one pack in each of Spark's partitions."""
    rows = spark.sparkContext.parallelize([(bytearray(pack),) for pack in packs], max(len(packs), 1))
    return spark.createDataFrame(rows, "pack binary")


def _rows(frame: DataFrame) -> list[Figures]:
    found: list[Figures] = frame.toArrow().to_pylist()
    return found


def _problems(frame: DataFrame) -> list[str]:
    return sorted(row["problem"] for row in _rows(frame.where("problem IS NOT NULL").select("problem").distinct()))


def _sum(name: str, where: str = "true") -> Column:
    return F.expr(f"coalesce(sum(CASE WHEN {where} THEN {name} END), 0)")


def _sums(stretches: DataFrame) -> DataFrame:
    """Return the sums over each partition."""
    in_order = Window.partitionBy("place", "is_control").orderBy("first_offset")
    starts_earlier = (F.col("first_ms") >= 0) & (F.col("first_ms") < F.lag("last_ms").over(in_order))
    ordered = stretches.where("problem IS NULL").withColumn("starts_earlier", starts_earlier.cast("long"))
    of_records = ("records", "without_key", "tombstones", "future", "missing")
    return ordered.groupBy("place").agg(
        *(_sum(name, "NOT is_control").alias(name) for name in of_records),
        _sum("out_of_order + coalesce(starts_earlier, 0)", "NOT is_control").alias("out_of_order"),
        F.expr("min(CASE WHEN NOT is_control THEN oldest_ms END)").alias("oldest_ms"),
        F.expr("max(CASE WHEN NOT is_control THEN newest_ms END)").alias("newest_ms"),
        F.count("batch_bytes").alias("batches"),
        F.min("batch_bytes").alias("batch_min_bytes"),
        F.expr("cast(percentile_disc(0.5) WITHIN GROUP (ORDER BY batch_bytes) AS bigint)").alias("batch_median_bytes"),
        F.max("batch_bytes").alias("batch_max_bytes"),
    )


def _days(stretches: DataFrame) -> DataFrame:
    by_day = stretches.where("problem IS NULL").groupBy("place", "day")
    return by_day.agg(_sum("records", "NOT is_control").alias("records"), _sum("size_bytes").alias("size_bytes"))


def _codecs(stretches: DataFrame) -> DataFrame:
    return (
        stretches.where("problem IS NULL")
        .groupBy("place", "codec")
        .agg(
            F.count("batch_bytes").alias("batches"),
            _sum("records", "NOT is_control").alias("records"),
            _sum("size_bytes").alias("size_bytes"),
            F.expr("sum(plain_bytes) / sum(CASE WHEN plain_bytes IS NOT NULL THEN size_bytes END)").alias("ratio"),
        )
    )


def _producers(stretches: DataFrame) -> DataFrame:
    """Return the figures of each producer. A transaction is open if its producer has written since its last marker."""
    marked = Window.partitionBy("place", "producer_id")
    last_marker = F.max(F.expr("CASE WHEN marker >= 0 THEN last_offset END")).over(marked)
    is_open = F.expr("is_transactional AND NOT is_control AND last_offset > coalesce(last_marker, -1)")
    return (
        stretches.where("problem IS NULL AND producer_id >= 0")
        .withColumn("last_marker", last_marker)
        .groupBy("place", "producer_id")
        .agg(
            F.max("producer_epoch").alias("producer_epoch"),
            _sum("records", "NOT is_control").alias("records"),
            F.count("batch_bytes").alias("batches"),
            _sum("size_bytes").alias("size_bytes"),
            F.count_if(F.col("marker") == int(ControlType.COMMIT)).alias("committed"),
            F.count_if(F.col("marker") == int(ControlType.ABORT)).alias("aborted"),
            F.min(F.when(is_open, F.col("first_offset"))).alias("open_since_offset"),
        )
    )


def _by_key(keyed: DataFrame) -> DataFrame:
    return keyed.groupBy("place", "key", "problem").agg(
        F.count("*").alias("records"),
        F.sum("size_bytes").alias("size_bytes"),
        F.max_by("is_tombstone", "offset").alias("is_deleted"),
    )


def _key_sums(keys: DataFrame) -> DataFrame:
    return (
        keys.where("problem IS NULL")
        .groupBy("place")
        .agg(
            F.count("*").alias("keys"),
            (F.sum("records") - F.count("*")).alias("duplicates"),
            F.count_if(F.col("is_deleted")).alias("deleted_keys"),
        )
    )


def _top_keys(keys: DataFrame) -> DataFrame:
    sound = keys.where("problem IS NULL")
    return _ranked(sound, "hottest", "records").unionByName(_ranked(sound, "largest", "size_bytes"))


def _ranked(keys: DataFrame, by: str, measure: str) -> DataFrame:
    order = Window.partitionBy("place").orderBy(F.desc(measure), "key")
    ranked = keys.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= TOP_KEYS)
    return ranked.withColumn("by", F.lit(by))


def _rehearsed(spark: SparkSession, snapshot: PlannedRead, broker: BrokerPolicy) -> Rehearsed:
    """Measure what ``clean --yes`` would save now: each partition with something to do, in a task of its own."""
    working = [(place, planned) for place, planned in enumerate(snapshot.partitions) if planned.has_work]
    now_ms = snapshot.now_ms

    def measure(planned: PartitionPlan) -> PartitionResult:
        return Rehearsal(Means(broker=broker), Request(now_ms, confirmed=True)).result(planned, exact=True)

    tasks = spark.sparkContext.parallelize(working, max(len(working), 1))
    return dict(tasks.mapValues(measure).collect())
