"""The data source ``kafka-log``: Spark calls it on the driver to plan, and in the workers to read.

Spark plans each frame once, whatever its queries ask, which fixes the files and their lengths. ``logs`` reads less
where a condition allows it. Only the workers load the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cleaner.arrow.schema import TYPES, ddl
from cleaner.spark.errors import WITHOUT_STACK
from cleaner.spark.table.options import Options, parse_options
from cleaner.spark.table.planning import plan_read
from cleaner.spark.table.reading import read_planned
from storage.errors import InvalidConfig
from storage.stores.paths import names_a_store

if TYPE_CHECKING:
    import pyarrow as pa

    from cleaner.spark.table.sink import KafkaLogWriter
    from cleaner.spark.table.stream import KafkaLogStreamReader
    from cleaner.spark.table.stream_sink import KafkaLogStreamWriter


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

    @WITHOUT_STACK
    def schema(self) -> str:
        """Return the columns by the options; ``spark.read.schema`` may choose others. Raises: InvalidConfig."""
        return ddl(parse_options(self.options).columns)

    @WITHOUT_STACK
    def reader(self, schema: StructType) -> KafkaLogReader:
        """Return the reader of one frame. Raises: InvalidConfig: the schema has an unknown column."""
        options = replace(parse_options(self.options), s3=self.s3)
        return KafkaLogReader(options, column_names(schema))

    @WITHOUT_STACK
    def streamReader(self, schema: StructType) -> KafkaLogStreamReader:  # noqa: N802
        """Return the reader of one streaming query. Raises: InvalidConfig, also if the options name an end."""
        from cleaner.spark.table.stream import KafkaLogStreamReader  # noqa: PLC0415  (Spark 4.2; batch reads need 4.0)

        if tier := self.options.get("tier"):
            raise InvalidConfig(
                "tier", tier, "a stream reads local log dirs alone: read the tier as a batch", "kafka-log"
            )
        return KafkaLogStreamReader(replace(parse_options(self.options), s3=self.s3), column_names(schema))

    @WITHOUT_STACK
    def writer(self, schema: StructType, overwrite: bool) -> KafkaLogWriter:
        """Return the writer of one write. Raises: InvalidConfig, UnusableOutput; as of a store."""
        if names_a_store(self.options.get("path", "")):
            from cleaner.spark.table.stored_sink import StoredLogWriter  # noqa: PLC0415

            return StoredLogWriter(self.options, schema, self.s3, overwrite=overwrite)
        from cleaner.spark.table.sink import KafkaLogWriter  # noqa: PLC0415

        return KafkaLogWriter(self.options, schema, overwrite=overwrite)

    @WITHOUT_STACK
    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaLogStreamWriter:  # noqa: N802
        """Return the writer of one streaming query. Raises: InvalidConfig, also of a store; UnusableOutput."""
        from cleaner.spark.table.stream_sink import KafkaLogStreamWriter  # noqa: PLC0415  (Spark 4.1)

        if names_a_store(path := self.options.get("path", "")):
            raise InvalidConfig("path", path, "a store is never appended to: name a directory", "kafka-log")
        return KafkaLogStreamWriter(self.options, schema, overwrite=overwrite)


class KafkaLogReader(DataSourceReader):
    """Plans one batch read on the driver, and reads its extents in the workers.

    The plan depends on the options alone. Spark keeps the last plan of a frame, and uses it for every query of that
    frame. If a plan left out the rows that one query's filters exclude, the next query would miss them, too.
    """

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns

    @WITHOUT_STACK
    def partitions(self) -> list[InputPartition]:
        """Plan the read, and return its extents. Raises: as ``plan_read``."""
        return [InputPartition(together) for together in plan_read(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of some extents. Raises: CorruptBatch, SegmentGone, UnreadableFile."""
        extents = partition.value or ()  # if there is none, Spark passes an empty input of its own
        with WITHOUT_STACK:
            yield from read_planned(extents, self._columns, self._options)


def column_names(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema that the user may have given. Raises: InvalidConfig: one is unknown."""
    for field in schema.fields:
        known = TYPES.get(field.name)
        if known is None or known[0] != field.dataType.simpleString():
            said = f"{field.name} {field.dataType.simpleString()}"
            there = ddl(TYPES)
            raise InvalidConfig("schema", said, f"no such column; there are {there}", "kafka-log")
    return tuple(field.name for field in schema.fields)
