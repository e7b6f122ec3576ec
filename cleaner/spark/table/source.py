"""The data source ``kafka-log``: Spark calls it on the driver to plan, and in the workers to read.

Spark plans each frame once, which fixes the files and their lengths. Only the workers load the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cleaner.arrow.schema import TYPES, ddl
from cleaner.engine.clock import SystemClock
from cleaner.spark.table.bounds import check_chosen, check_named, range_of
from cleaner.spark.table.options import Mode, Options, parse_options
from cleaner.spark.table.pushdown import EVERYTHING, narrowing_of
from cleaner.spark.table.reading import read_planned
from storage.directory import despite_vanishing
from storage.errors import InvalidConfig
from storage.scan.extents import Extent, Wanted, cut_partition, packed
from storage.scan.partitions import FoundPartition, OffsetRange, find_partitions

if TYPE_CHECKING:
    import pyarrow as pa

    from cleaner.spark.table.sink import KafkaLogWriter
    from cleaner.spark.table.stream import KafkaLogStreamReader


class KafkaLogSource(DataSource):
    """The data source: log dirs as a table, with a row for each record."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "kafka-log"

    def schema(self) -> str:
        """Return the columns by the options; ``spark.read.schema`` may choose others. Raises: InvalidConfig."""
        return ddl(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Return the reader of one frame. Raises: InvalidConfig: the schema has an unknown column."""
        options = parse_options(self.options)
        return (PushdownReader if options.pushdown else KafkaLogReader)(options, column_names(schema))

    def streamReader(self, schema: StructType) -> KafkaLogStreamReader:  # noqa: N802
        """Return the reader of one streaming query. Raises: InvalidConfig, also if the options name an end."""
        from cleaner.spark.table.stream import KafkaLogStreamReader  # noqa: PLC0415  (Spark 4.2; batch reads need 4.0)

        return KafkaLogStreamReader(parse_options(self.options), column_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> KafkaLogWriter:
        """Return the writer of one write. Raises: InvalidConfig, NotALogDir."""
        from cleaner.spark.table.sink import KafkaLogWriter  # noqa: PLC0415

        return KafkaLogWriter(self.options, schema, overwrite=overwrite)


def column_names(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema that the user may have given. Raises: InvalidConfig: one is unknown."""
    for field in schema.fields:
        known = TYPES.get(field.name)
        if known is None or known[0] != field.dataType.simpleString():
            said = f"{field.name} {field.dataType.simpleString()}"
            there = ddl(TYPES)
            raise InvalidConfig("schema", said, f"no such column; there are {there}", "kafka-log")
    return tuple(field.name for field in schema.fields)


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
