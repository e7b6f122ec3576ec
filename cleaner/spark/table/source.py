"""The data source ``kafka-log``: what Spark calls, on the driver to plan and in the workers to read.

Each frame is planned once: the files and their lengths are fixed then. The kernels are loaded in the workers only.
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
from cleaner.spark.table.input import SlicesInput
from cleaner.spark.table.options import Mode, Options, parse_options
from cleaner.spark.table.pushdown import EVERYTHING, narrowing_of
from cleaner.spark.table.reading import read_planned
from storage.errors import InvalidConfig
from storage.scan.extents import Extent, Wanted, cut_partition, packed
from storage.scan.partitions import FoundPartition, OffsetRange, find_partitions, while_files_move

if TYPE_CHECKING:
    import pyarrow as pa

    from cleaner.spark.table.sink import KafkaLogWriter
    from cleaner.spark.table.stream import KafkaLogStreamReader


class KafkaLogSource(DataSource):
    """Log dirs as a table: a row for each record."""

    @classmethod
    def name(cls) -> str:
        """For ``spark.read.format``."""
        return "kafka-log"

    def schema(self) -> str:
        """As the options have it; ``spark.read.schema`` may name other columns of it. Raises: InvalidConfig."""
        return ddl(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Of one frame. Raises: InvalidConfig where the schema has a column that there is not."""
        options = parse_options(self.options)
        return (PushdownReader if options.pushdown else KafkaLogReader)(options, column_names(schema))

    def streamReader(self, schema: StructType) -> KafkaLogStreamReader:  # noqa: N802
        """Of one query. Raises: InvalidConfig, also where an end is said."""
        from cleaner.spark.table.stream import KafkaLogStreamReader  # noqa: PLC0415  (Spark 4.2; batch reads do with 4.0)

        return KafkaLogStreamReader(parse_options(self.options), column_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> KafkaLogWriter:
        """Of one write. Raises: InvalidConfig, NotALogDir."""
        from cleaner.spark.table.sink import KafkaLogWriter  # noqa: PLC0415

        return KafkaLogWriter(self.options, schema, overwrite=overwrite)


def column_names(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that the user may have given. Raises: InvalidConfig."""
    for field in schema.fields:
        known = TYPES.get(field.name)
        if known is None or known[0] != field.dataType.simpleString():
            said = f"{field.name} {field.dataType.simpleString()}"
            there = ddl(TYPES)
            raise InvalidConfig("schema", said, f"no such column; there are {there}", "kafka-log")
    return tuple(field.name for field in schema.fields)


class KafkaLogReader(DataSourceReader):
    """Plans one batch read, and reads its slices.

    The plan depends on the options alone. Spark keeps the plan that a frame made last, and uses it for every query of
    that frame: a plan that left out what one query's filters exclude would leave it out of the next query, too.
    """

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns
        self._narrowing = EVERYTHING

    def partitions(self) -> list[InputPartition]:
        """The slices of everything that is wanted.

        Raises: LogCleanerError: a path, offset or file that is not there or cannot be read.
        """
        found = find_partitions(self._options.paths, self._options.choice)
        check_chosen(self._options, found)
        check_named((self._options.starting, self._options.ending), found)
        wanted = [partition for partition in found if self._narrowing.wants(partition.topic_partition)]
        slices = [one for place in wanted for one in while_files_move(partial(self._slices, place))]
        return [SlicesInput(together) for together in packed(slices, self._options.partition_bytes_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of some slices. Raises: CorruptBatch, SegmentGone, UnreadableFile."""
        if isinstance(partition, SlicesInput):  # where there are none, Spark calls with an empty one of its own
            for slice_ in partition.value:
                yield from read_planned(slice_, self._columns, self._options)

    def _slices(self, partition: FoundPartition) -> list[Extent]:
        narrowing, options = self._narrowing, self._options
        log = partition.open()
        asked = range_of(log, partition.topic_partition, options, SystemClock().now_ms())
        offsets = OffsetRange(max(asked.start, narrowing.start_offset), min(asked.end, narrowing.end_offset))
        wanted = Wanted(offsets, narrowing.since_ms, options.partition_bytes_max, options.read_committed)
        return list(cut_partition(partition.topic_partition, log.segments, wanted))


class PushdownReader(KafkaLogReader):
    """Plans less if the filters of the query allow it: only for a frame that one query uses, once (``pushdown``).

    Spark 4.0 does not call ``pushFilters``; later versions refuse this reader where pushing filters down is off.
    """

    def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:  # noqa: N802
        """Note what need not be read. Return all filters: Spark applies each of them to every row."""
        offered = list(filters)
        self._narrowing = narrowing_of(offered, names_only=self._options.mode is not Mode.FAILFAST)
        return offered
