"""Analyze a snapshot with Spark: tasks make stretches and keys, and Spark shuffles and aggregates both.

The snapshot is the subject of an analysis: the partitions of one plan, and extents of their files, fixed before the
first task.

Spark shuffles no value. Of each record with a key it shuffles key, offset and size. The driver receives only as much as
the answer holds, puts names in the place of numbers, and adds facts that Spark does not know.

An analysis is written as Parquet: a directory for each table, with a file for each run. Files of earlier runs stay.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's own examples have it)
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.engine.copy.manifest import ensure_whole
from cleaner.engine.inventory import is_named
from cleaner.engine.means import Means
from cleaner.engine.outcome import PartitionResult
from cleaner.engine.rehearsal import Rehearsal
from cleaner.errors import as_unwritable
from cleaner.report.findings import (
    TABLES,
    Analysis,
    AnalysisRow,
    Codec,
    CurveStep,
    Day,
    Keys,
    ProducerFigures,
    Savings,
    Sizes,
    Timestamps,
    TopKey,
)
from cleaner.spark.analysis.task_facts import KEY, STRETCH
from cleaner.spark.errors import AnalysisFailed
from cleaner.spark.session import cause_of
from cleaner.spark.table.options import PARTITION_BYTES_DEFAULT
from policies.config.policy import BrokerPolicy
from policies.facts import PartitionFacts
from policies.plan import PartitionPlan, Plan, Request, path_of
from policies.retention import curve_by_size, curve_by_time
from storage.codecs.compression import Compression
from storage.directory import despite_vanishing, is_stored
from storage.errors import LogCleanerError
from storage.filesystem import Purpose
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.names import TopicPartition
from storage.records import ControlType
from storage.scan.extents import Extent, Wanted, cut_partition, packed
from storage.scan.partitions import OffsetRange
from storage.stores.paths import StoredPath, path_of_text
from storage.uploads import Uploads

_TYPES: Final[dict[type, pa.DataType]] = {
    int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
}  # fmt: skip
_MOMENT: Final = pa.timestamp("ms", tz="UTC")

_EPOCH: Final = date(1970, 1, 1)
Figures = Mapping[str, Any]
"""A row of an aggregation; ``place`` names the partition."""
ByPlace = Mapping[int, Figures]
Rehearsed = Mapping[int, PartitionResult]
"""The results that the partitions' actions would have, by place."""

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


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """The offsets, files and lengths to read, as of one moment."""

    now_ms: int
    partitions: tuple[PartitionPlan, ...]
    """The plans of the partitions. A partition's *place* is its number in this tuple."""
    extents: tuple[Extent, ...]
    problems: tuple[str, ...]
    """A line for each thing that could not be planned."""

    @property
    def places(self) -> dict[Path, int]:
        """The places by partition directory."""
        return {path_of_text(path_of(planned.facts)): place for place, planned in enumerate(self.partitions)}


def take_snapshot(plan: Plan) -> PlannedRead:
    """Fix the extents to read of each partition of a plan, and note the partitions that cannot be read."""
    problems = [error for log_dir in plan.log_dirs for error in log_dir.facts.errors]
    problems += [f"{failed.topic_partition}: {failed.error}" for failed in plan.failures]
    for log_dir in plan.log_dirs:
        try:
            ensure_whole(path_of_text(log_dir.facts.path), lambda name: is_named(name, plan.request.topics))
        except LogCleanerError as error:
            problems.append(str(error))
    extents: list[Extent] = []
    for planned in plan.partitions:
        try:
            extents += despite_vanishing(partial(_extents, planned.facts))
        except LogCleanerError as error:
            problems.append(f"{planned.facts.topic_partition}: {error}")
    return PlannedRead(plan.request.now_ms, plan.partitions, tuple(extents), tuple(problems))


class Naming:
    """Makes the tables of one snapshot. Rows are in the order of the partitions."""

    def __init__(self, snapshot: PlannedRead) -> None:
        self._snapshot = snapshot

    def of(self, place: int) -> TopicPartition:
        """Return the partition at a place."""
        return self._snapshot.partitions[place].facts.topic_partition

    def sizes(self, sums: ByPlace) -> list[AnalysisRow]:
        """Return the sizes of each partition, with figures from the sums over it."""
        rows: list[AnalysisRow] = []
        for place, planned in enumerate(self._snapshot.partitions):
            facts, policy = planned.facts, planned.policy.cleanup_policy or None
            of_files = {"cleanup_policy": policy, "segments": len(facts.segments), "size_bytes": facts.size_bytes}
            figures = {"place": place, "records": 0, "batches": 0, **sums.get(place, {}), **of_files}
            rows.append(self._row(Sizes, figures))
        return rows

    def days(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the days of each partition, ascending; records without a timestamp come first."""
        ordered = sorted(figures, key=lambda row: (row["place"], row["day"]))
        return [self._row(Day, row, day=_day(row["day"])) for row in ordered]

    def codecs(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the codecs of each partition, in the order of Kafka's numbers for them."""
        ordered = sorted(figures, key=lambda row: (row["place"], row["codec"]))
        return [self._row(Codec, row, codec=Compression(row["codec"]).name.lower()) for row in ordered]

    def timestamps(self, sums: ByPlace) -> list[AnalysisRow]:
        """Return the timestamps of each partition with records."""
        return [self._row(Timestamps, row) for _, row in sorted(sums.items()) if row["records"]]

    def producers(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the producers of each partition, by producer id."""
        return [
            self._row(ProducerFigures, row)
            for row in sorted(figures, key=lambda row: (row["place"], row["producer_id"]))
        ]

    def keys(self, of_keys: ByPlace, sums: ByPlace) -> list[AnalysisRow]:
        """Return the keys of each partition with records."""
        none = {"keys": 0, "duplicates": 0, "deleted_keys": 0}
        both = [
            none | dict(row) | dict(of_keys.get(place, {})) for place, row in sorted(sums.items()) if row["records"]
        ]
        return [self._row(Keys, row) for row in both]

    def top_keys(self, figures: Iterable[Figures]) -> list[AnalysisRow]:
        """Return the top keys of each partition, by the measure that they lead in and by rank."""
        ordered = sorted(figures, key=lambda row: (row["place"], row["by"], row["rank"]))
        return [self._row(TopKey, row, key=bytes(row["key"])) for row in ordered]

    def savings(self, rehearsed: Rehearsed) -> list[AnalysisRow]:
        """Return the savings of each partition that was rehearsed without an error."""
        rows: list[AnalysisRow] = []
        for place, result in rehearsed.items():
            if result.error is None:
                saved_bytes = result.deleted_bytes + result.compacted_from_bytes - result.compacted_to_bytes
                figures = {"place": place, **asdict(result), "saved_bytes": saved_bytes, "basis": result.basis.value}
                rows.append(self._row(Savings, figures))
        return rows

    def retention(self) -> list[AnalysisRow]:
        """Return the curves of retention. They come from the policies alone, without Spark."""
        rows: list[AnalysisRow] = []
        for place, planned in enumerate(self._snapshot.partitions):
            if not planned.facts.segments:
                continue
            by_time = curve_by_time(planned.facts, planned.policy, self._snapshot.now_ms)
            for key, curve in (("retention.ms", by_time), ("retention.bytes", curve_by_size(planned.facts))):
                rows += [CurveStep(*self._name(place), key, point.limit, point.kept_bytes) for point in curve]
        return rows

    def _name(self, place: int) -> tuple[str, str, int]:
        facts = self._snapshot.partitions[place].facts
        return facts.log_dir, *facts.topic_partition

    def _row(self, table: type[AnalysisRow], figures: Figures, **others: object) -> AnalysisRow:
        """Return a row of a table, filled from figures by the names of its fields."""
        mine = [field.name for field in fields(table)[len(fields(AnalysisRow)) :]]
        given: dict[str, Any] = {name: others.get(name, figures.get(name)) for name in mine}
        return table(*self._name(figures["place"]), **given)


def write_tables(analysis: Analysis, output: Path) -> None:
    """Write ``output/TABLE/MOMENT.parquet`` for each table, even without rows. ``analyzed_at`` tells the runs apart.

    Raises: UnwritableFile; as of a store.
    """
    name = f"{datetime.fromtimestamp(analysis.now_ms / 1000, UTC):%Y%m%dT%H%M%S}Z.parquet"
    for table, kind in TABLES.items():
        path = output / table / name
        with as_unwritable(path):
            if not is_stored(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, _arrow(table, kind, analysis))


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


def _rehearsed(spark: SparkSession, snapshot: PlannedRead, broker: BrokerPolicy) -> Rehearsed:
    """Measure what ``clean --yes`` would save now: each partition with something to do, in a task of its own."""
    working = [(place, planned) for place, planned in enumerate(snapshot.partitions) if planned.has_work]
    now_ms = snapshot.now_ms

    def measure(planned: PartitionPlan) -> PartitionResult:
        return Rehearsal(Means(broker=broker), Request(now_ms, confirmed=True)).result(planned, exact=True)

    tasks = spark.sparkContext.parallelize(working, max(len(working), 1))
    return dict(tasks.mapValues(measure).collect())


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep a frame until the context exits: Spark computes it once, for any number of aggregations."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _problems(frame: DataFrame) -> list[str]:
    return sorted(row["problem"] for row in _rows(frame.where("problem IS NOT NULL").select("problem").distinct()))


def _rows(frame: DataFrame) -> list[Figures]:
    found: list[Figures] = frame.toArrow().to_pylist()
    return found


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


def _distributed(spark: SparkSession, packs: Sequence[bytes]) -> DataFrame:
    """Return a frame of the packs, with one pack in each of Spark's partitions."""
    rows = spark.sparkContext.parallelize([(bytearray(pack),) for pack in packs], max(len(packs), 1))
    return spark.createDataFrame(rows, "pack binary")


def _tasks(spark: SparkSession, snapshot: PlannedRead) -> int:
    """Return the number of partitions to keep after a shuffle. Spark would keep 200, even of little data."""
    return max(len(_packs(snapshot)), spark.sparkContext.defaultParallelism)


def _top_keys(keys: DataFrame) -> DataFrame:
    sound = keys.where("problem IS NULL")
    return _ranked(sound, "hottest", "records").unionByName(_ranked(sound, "largest", "size_bytes"))


def _ranked(keys: DataFrame, by: str, measure: str) -> DataFrame:
    order = Window.partitionBy("place").orderBy(F.desc(measure), "key")
    ranked = keys.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= TOP_KEYS)
    return ranked.withColumn("by", F.lit(by))


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


def _sum(name: str, where: str = "true") -> Column:
    return F.expr(f"coalesce(sum(CASE WHEN {where} THEN {name} END), 0)")


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


def _extents(facts: PartitionFacts) -> list[Extent]:
    listing = plan_recovery(list_partition(path_of_text(path_of(facts)))).listing
    wanted = Wanted(OffsetRange(facts.log_start_offset, facts.log_end_offset), None, PARTITION_BYTES_DEFAULT, False)
    return list(cut_partition(facts.topic_partition, listing.segments, wanted))


def _day(day: int) -> str | None:
    """Return a day's date; None for records without a timestamp, and for days after the calendar's last year."""
    if day < 0 or day > (date.max - _EPOCH).days:
        return None
    return (_EPOCH + timedelta(days=day)).isoformat()


def _write(path: Path, table: pa.Table) -> None:
    """Write a file that readers of the directory see whole or not at all: they ignore names with a leading dot."""
    if isinstance(path, StoredPath):
        made = io.BytesIO()
        pq.write_table(table, made)
        Uploads().replace_file(path, made.getvalue(), Purpose.COPY)
        return
    hidden = path.with_name(f".{path.name}")
    pq.write_table(table, hidden)
    hidden.replace(path)


def _arrow(name: str, kind: type[AnalysisRow], analysis: Analysis) -> pa.Table:
    hints = get_type_hints(kind)
    columns = [pa.field(field.name, _type(hints[field.name])) for field in fields(kind)]
    rows = [{**asdict(row), "analyzed_at": analysis.now_ms} for row in analysis.tables[name]]
    return pa.Table.from_pylist(rows, pa.schema([*columns, pa.field("analyzed_at", _MOMENT)]))


def _type(hint: Any) -> pa.DataType:
    return _TYPES[next(iter(get_args(hint)), hint)]
