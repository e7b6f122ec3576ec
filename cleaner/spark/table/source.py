"""The data source ``kafka-log``: Spark calls it on the driver to plan, and in the workers to read.

Spark plans each frame once, which fixes the files and their lengths. Its filters on topics, partitions, offsets and
times narrow a read before any file is opened. They only narrow it: Spark applies each filter to every row, so a row too
many never reaches an answer. Only the workers load the kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cleaner.arrow.schema import TYPES, ddl
from cleaner.engine.clock import SystemClock
from cleaner.spark.table.bounds import check_chosen, check_named, range_of
from cleaner.spark.table.options import Mode, Options, parse_options
from cleaner.spark.table.reading import read_planned
from storage.directory import despite_vanishing
from storage.errors import InvalidConfig
from storage.names import TopicPartition
from storage.records.v2 import OFFSET_MAX
from storage.scan.extents import Extent, Wanted, cut_partition, packed
from storage.scan.partitions import FoundPartition, OffsetRange, find_partitions

if TYPE_CHECKING:
    import pyarrow as pa

    from cleaner.spark.table.sink import KafkaLogWriter
    from cleaner.spark.table.stream import KafkaLogStreamReader

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "In": lambda value, values: value in values,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}
"""The comparisons by the name of Spark's filter class. Names stand for classes, because Spark 4.0 lacks them."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class KafkaLogSource(DataSource):
    """The data source: log dirs as a table, with a row for each record."""

    s3: ClassVar[Mapping[str, str]] = {}
    """The configuration of buckets."""

    @classmethod
    def reading(cls, s3: Mapping[str, str]) -> type[KafkaLogSource]:
        """Return a source that reads buckets with a configuration.

        Spark pickles the class, and shows none of its content.
        """
        return type("ConfiguredSource", (cls,), {"s3": dict(s3)})

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "kafka-log"

    def schema(self) -> str:
        """Return the columns by the options; ``spark.read.schema`` may choose others. Raises: InvalidConfig."""
        return ddl(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Return the reader of one frame. Raises: InvalidConfig: the schema has an unknown column."""
        options = replace(parse_options(self.options), s3=self.s3)
        return (PushdownReader if options.pushdown else KafkaLogReader)(options, column_names(schema))

    def streamReader(self, schema: StructType) -> KafkaLogStreamReader:  # noqa: N802
        """Return the reader of one streaming query. Raises: InvalidConfig, also if the options name an end."""
        from cleaner.spark.table.stream import KafkaLogStreamReader  # noqa: PLC0415  (Spark 4.2; batch reads need 4.0)

        return KafkaLogStreamReader(replace(parse_options(self.options), s3=self.s3), column_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> KafkaLogWriter:
        """Return the writer of one write. Raises: InvalidConfig, NotALogDir."""
        from cleaner.spark.table.sink import KafkaLogWriter  # noqa: PLC0415

        return KafkaLogWriter(self.options, schema, overwrite=overwrite)


class KafkaLogReader(DataSourceReader):
    """Plans one batch read on the driver, and reads its extents in the workers.

    The plan depends on the options alone. Spark keeps the last plan of a frame, and uses it for every query of that
    frame. If a plan left out the rows that one query's filters exclude, the next query would miss them, too.
    """

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns
        self._narrowing = EVERYTHING

    def partitions(self) -> list[InputPartition]:
        """Plan the read, and return its extents.

        Raises: LogCleanerError: a path, offset or file is not there, or cannot be read.
        """
        self._options.open_stores()
        found = find_partitions(self._options.paths, self._options.choice)
        check_chosen(self._options, found)
        check_named((self._options.starting, self._options.ending), found)
        wanted = [partition for partition in found if self._narrowing.wants(partition.topic_partition)]
        extents = [one for place in wanted for one in despite_vanishing(partial(self._extents, place))]
        return [InputPartition(together) for together in packed(extents, self._options.partition_bytes_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of some extents. Raises: CorruptBatch, SegmentGone, UnreadableFile."""
        for extent in partition.value or ():  # if there is none, Spark passes an empty input of its own
            yield from read_planned(extent, self._columns, self._options)

    def _extents(self, partition: FoundPartition) -> list[Extent]:
        narrowing, options = self._narrowing, self._options
        log = partition.open()
        asked = range_of(log, partition.topic_partition, options, SystemClock().now_ms())
        offsets = OffsetRange(max(asked.start, narrowing.start_offset), min(asked.end, narrowing.end_offset))
        wanted = Wanted(offsets, narrowing.since_ms, options.partition_bytes_max, options.read_committed)
        return list(cut_partition(partition.topic_partition, log.segments, wanted))


class PushdownReader(KafkaLogReader):
    """Plans less if the query's filters allow it: right only if one query uses the frame, once (``pushdown``).

    Spark 4.0 does not call ``pushFilters``. Later versions refuse this reader if pushing filters down is off.
    """

    def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:  # noqa: N802
        """Note the rows that need not be read. Return all filters: Spark applies each filter to every row."""
        offered = list(filters)
        self._narrowing = narrowing_of(offered, names_only=self._options.mode is not Mode.FAILFAST)
        return offered


def column_names(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema that the user may have given. Raises: InvalidConfig: one is unknown."""
    for field in schema.fields:
        known = TYPES.get(field.name)
        if known is None or known[0] != field.dataType.simpleString():
            said = f"{field.name} {field.dataType.simpleString()}"
            there = ddl(TYPES)
            raise InvalidConfig("schema", said, f"no such column; there are {there}", "kafka-log")
    return tuple(field.name for field in schema.fields)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison that the name of a partition must pass."""

    attribute: str
    comparison: str
    value: object

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition passes the comparison."""
        return _COMPARISONS[self.comparison](getattr(topic_partition, self.attribute), self.value)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The part of the log dirs that is left to read."""

    conditions: tuple[Condition, ...] = ()
    start_offset: int = 0
    end_offset: int = OFFSET_MAX
    """The end of the offsets, exclusive."""
    since_ms: int | None = None
    """The time before which no record is wanted, epoch ms; None if time does not matter."""

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Return whether the query may want records of the partition."""
        return all(condition.holds(topic_partition) for condition in self.conditions)


EVERYTHING: Final = Narrowing()


def narrowing_of(filters: Iterable[Any], *, names_only: bool) -> Narrowing:
    """Return the part that is left to read for a query with these filters.

    Args:
        filters: filters of ``pyspark``; a row that fails any of them is not wanted.
        names_only: True if only filters on topics and partitions count. It must be True unless a damaged batch ends the
            query. The row for a damaged batch has no time, and the batches found behind the damage depend on the
            offset at which the read begins.
    """
    narrowing = EVERYTHING
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        comparison, value = type(one).__name__, getattr(one, "value", None)
        if len(attribute) != 1 or value is None or comparison not in _COMPARISONS:
            continue
        match attribute[0]:
            case "topic" | "partition" as name:
                condition = Condition(name, comparison, value)
                narrowing = replace(narrowing, conditions=(*narrowing.conditions, condition))
            case "offset" if not names_only:
                narrowing = _within_offsets(narrowing, comparison, value)
            case "timestamp" if not names_only:
                narrowing = _since(narrowing, comparison, value)
    return narrowing


def _within_offsets(narrowing: Narrowing, comparison: str, value: Any) -> Narrowing:
    match comparison:
        case "EqualTo" | "EqualNullSafe":
            start, end = value, value + 1
        case "LessThan":
            start, end = 0, value
        case "LessThanOrEqual":
            start, end = 0, value + 1
        case "GreaterThan":
            start, end = value + 1, OFFSET_MAX
        case "GreaterThanOrEqual":
            start, end = value, OFFSET_MAX
        case _:
            return narrowing
    return replace(
        narrowing, start_offset=max(narrowing.start_offset, start), end_offset=min(narrowing.end_offset, end)
    )


def _since(narrowing: Narrowing, comparison: str, value: Any) -> Narrowing:
    """Narrow a read by a comparison of times. Ignore a time without a zone: only Spark knows which moment it means."""
    if comparison not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return narrowing
    if not isinstance(value, datetime) or value.tzinfo is None:
        return narrowing
    since_ms = (value - _EPOCH) // timedelta(milliseconds=1)
    return replace(narrowing, since_ms=since_ms if narrowing.since_ms is None else max(narrowing.since_ms, since_ms))
