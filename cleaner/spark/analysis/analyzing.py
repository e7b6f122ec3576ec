"""Analyze a snapshot with Spark: tasks read each file once and send each other facts, which further tasks merge.

The snapshot is the subject of an analysis: the partitions of one plan, and extents of their files, fixed before the
first task.

Spark shuffles no value. Of each key in a task it shuffles the key, the counts of its records and the latest offset. The
driver receives only as much as the answer holds, puts names in the place of numbers, and adds facts that tasks do not
know. Spark moves bytes: its SQL would cost some 20 s of CPU for plans and generated code before it read a byte.

An analysis is written as Parquet: a directory for each table, with a file for each run. Files of earlier runs stay.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

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
from cleaner.spark.analysis.keys import MEASURES, TOP_KEYS
from cleaner.spark.analysis.task_facts import Facts, PlacedExtent, answer_of, facts_of
from cleaner.spark.errors import AnalysisFailed
from cleaner.spark.session import cause_of
from cleaner.spark.table.options import PARTITION_BYTES_DEFAULT
from cleaner.spark.table.planning import asked
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

BUCKETS_MAX: Final = 1000
"""The most tasks that merge: each task that reads may send something to each of them."""
Told = Callable[[str], None]
"""A function that hears the next step."""


def analyze(spark: SparkContext, snapshot: PlannedRead, broker: BrokerPolicy, told: Told) -> Analysis:
    """Compute every table.

    Args:
        spark: a context whose executors see the log dirs and have this package.
        snapshot: the files to read.
        broker: the configuration for all topics alike.
        told: hears the steps.

        Raises: AnalysisFailed if a task cannot run at all.
    """
    try:
        return _analysis(spark, snapshot, broker, told)
    except (PySparkException, Py4JJavaError) as error:
        raise AnalysisFailed(cause_of(error)) from error
    except OSError as error:  # the driver hands tasks to Spark in files
        raise AnalysisFailed(f"{error.strerror or error} (scratch files: SPARK_LOCAL_DIRS, else TMPDIR)") from error


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
    extents: list[Extent] = []
    in_store = any(is_stored(path_of_text(log_dir.facts.path)) for log_dir in plan.log_dirs)
    for found in asked(plan.partitions, _extents_or_problem, in_store=in_store):
        if isinstance(found, str):
            problems.append(found)
        else:
            extents += found
    return PlannedRead(plan.request.now_ms, plan.partitions, tuple(extents), tuple(problems))


def packs_of(snapshot: PlannedRead) -> list[list[PlacedExtent]]:
    """Return the extents of each task that reads. About as many tasks merge: a large partition is several buckets."""
    packs, places = list(packed(snapshot.extents, PARTITION_BYTES_DEFAULT)), snapshot.places
    sizes: dict[int, int] = defaultdict(int)
    for extent in snapshot.extents:
        sizes[places[extent.directory]] += extent.size_bytes
    share_bytes = sum(sizes.values()) // min(max(len(packs), 1), BUCKETS_MAX) + 1
    buckets: dict[int, tuple[int, int]] = {}
    before_bytes = 0
    for place, size_bytes in sizes.items():
        buckets[place] = before_bytes // share_bytes, -(-size_bytes // share_bytes)
        before_bytes += size_bytes
    return [
        [PlacedExtent(one, place, *buckets[place]) for one in pack for place in (places[one.directory],)]
        for pack in packs
    ]


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


def make_directories(output: Path) -> None:
    """Make the directory of each table, unless it is in a store. Raises: UnwritableFile."""
    for path in [output / table for table in TABLES if not is_stored(output)]:
        with as_unwritable(path):
            path.mkdir(parents=True, exist_ok=True)


def write_tables(analysis: Analysis, output: Path) -> None:
    """Write ``output/TABLE/MOMENT.parquet`` for each table, even without rows. ``analyzed_at`` tells the runs apart.

    Raises: UnwritableFile; as of a store.
    """
    make_directories(output)
    name = f"{datetime.fromtimestamp(analysis.now_ms / 1000, UTC):%Y%m%dT%H%M%S}Z.parquet"
    for table, kind in TABLES.items():
        path = output / table / name
        with as_unwritable(path):
            _write(path, _arrow(table, kind, analysis))


def _analysis(spark: SparkContext, snapshot: PlannedRead, broker: BrokerPolicy, told: Told) -> Analysis:
    told("reading")
    rows, found = _answers(spark, snapshot)
    named = Naming(snapshot)
    sums = {row["place"]: row for row in rows["sums"]}
    tables = {
        "sizes": named.sizes(sums),
        "days": named.days(rows["days"]),
        "codecs": named.codecs(rows["codecs"]),
        "timestamps": named.timestamps(sums),
        "producers": named.producers(rows["producers"]),
        "keys": named.keys(_added(rows["keys"]), sums),
        "top_keys": named.top_keys(_ranked(rows["top_keys"])),
    }
    told("measuring compactions")
    rehearsed = _rehearsed(spark, snapshot, broker)
    unmeasured = [f"{named.of(place)}: {result.error}" for place, result in rehearsed.items() if result.error]
    tables |= {"savings": named.savings(rehearsed), "retention": named.retention()}
    problems = dict.fromkeys((*snapshot.problems, *sorted(found), *unmeasured))
    return Analysis(snapshot.now_ms, tables, tuple(problems))


def _rehearsed(spark: SparkContext, snapshot: PlannedRead, broker: BrokerPolicy) -> Rehearsed:
    """Measure what ``clean --yes`` would save now: each partition with something to do, in a task of its own."""
    working = [(place, planned) for place, planned in enumerate(snapshot.partitions) if planned.has_work]
    now_ms = snapshot.now_ms

    def measure(planned: PartitionPlan) -> PartitionResult:
        return Rehearsal(Means(broker=broker), Request(now_ms, confirmed=True)).result(planned, exact=True)

    if not working:
        return {}
    return dict(spark.parallelize(working, len(working)).mapValues(measure).collect())


def _answers(spark: SparkContext, snapshot: PlannedRead) -> tuple[dict[str, list[Figures]], list[str]]:
    """Return the rows of all answers, by their tables, and the problems."""
    packs = packs_of(snapshot)
    rows: dict[str, list[Figures]] = defaultdict(list)
    problems: list[str] = []
    if not packs:
        return rows, problems
    now_ms, buckets = snapshot.now_ms, max(one.first_bucket + one.buckets for pack in packs for one in pack)

    def read(some: Iterable[list[PlacedExtent]]) -> Iterable[tuple[int, Facts]]:
        return (sent for pack in some for sent in facts_of(pack, now_ms))

    facts = spark.parallelize(packs, len(packs)).mapPartitions(read)
    for answer in facts.partitionBy(buckets, int).mapPartitions(answer_of).collect():
        problems += answer.problems
        for table, some in answer.rows.items():
            rows[table] += some
    return rows, problems


def _added(partial_sums: Iterable[Figures]) -> ByPlace:
    """Add up the sums that several buckets have of a partition's keys."""
    found: dict[int, dict[str, int]] = {}
    for row in partial_sums:
        before = found.setdefault(row["place"], dict.fromkeys(row, 0))
        found[row["place"]] = {name: before[name] + value for name, value in row.items()} | {"place": row["place"]}
    return found


def _ranked(candidates: Iterable[Figures]) -> list[Figures]:
    """Return the top keys of each partition with their ranks, of those of its buckets."""
    of: dict[tuple[int, str], list[Figures]] = defaultdict(list)
    for row in candidates:
        of[row["place"], row["by"]].append(row)
    ranked: list[Figures] = []
    for (_, by), rows in of.items():
        best = sorted(rows, key=lambda row: (-row[MEASURES[by]], row["key"]))[:TOP_KEYS]
        ranked += [{**row, "rank": rank} for rank, row in enumerate(best, 1)]
    return ranked


def _extents_or_problem(planned: PartitionPlan) -> list[Extent] | str:
    try:
        return despite_vanishing(partial(_extents, planned.facts))
    except LogCleanerError as error:
        return f"{planned.facts.topic_partition}: {error}"


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
    try:
        pq.write_table(table, hidden)
        hidden.replace(path)
    except OSError:
        with suppress(OSError):
            hidden.unlink()
        raise


def _arrow(name: str, kind: type[AnalysisRow], analysis: Analysis) -> pa.Table:
    hints = get_type_hints(kind)
    columns = [pa.field(field.name, _type(hints[field.name])) for field in fields(kind)]
    rows = [{**asdict(row), "analyzed_at": analysis.now_ms} for row in analysis.tables[name]]
    return pa.Table.from_pylist(rows, pa.schema([*columns, pa.field("analyzed_at", _MOMENT)]))


def _type(hint: Any) -> pa.DataType:
    return _TYPES[next(iter(get_args(hint)), hint)]
