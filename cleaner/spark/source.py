"""The data source ``kafka-log``: what Spark calls, on the driver to plan and in the workers to read.

Each batch is planned once: the files and their lengths are fixed then. The kernels are loaded in the workers only.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cleaner.spark.options import Mode, Options, parse_options
from cleaner.spark.partitions import FoundPartition, OffsetRange, check_named, find_partitions, range_of
from cleaner.spark.pushdown import Pushed
from cleaner.spark.schema import TYPES, arrow_schema, ddl
from cleaner.spark.slices import Slice, Wanted, cut_partition, packed
from storage.errors import InvalidConfig, SegmentGone

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaLogSource(DataSource):
    """Log dirs as a table: a row for each record."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """For ``spark.read.format``."""
        return "kafka-log"

    def schema(self) -> str:
        """As the options have it; ``spark.read.schema`` may name other columns of it."""
        return ddl(self.options.columns)

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Of one batch read. Raises: InvalidConfig where the schema has a column that there is not."""
        return KafkaLogReader(self.options, column_names(schema))


def column_names(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that the user may have given. Raises: InvalidConfig."""
    for field in schema.fields:
        known = TYPES.get(field.name)
        if known is None or known[0] != field.dataType.simpleString():
            said = f"{field.name} {field.dataType.simpleString()}"
            there = ddl(TYPES)
            raise InvalidConfig("schema", said, f"no such column; there are {there}", "kafka-log")
    return tuple(field.name for field in schema.fields)


class SlicesInput(InputPartition):
    """What one task reads, on its way to a worker."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        super().__init__(slices)


class _PushFilters:
    """``pushFilters``, as Spark calls it where pushing filters down is switched on.

    Where it is off, Spark refuses a reader that has a ``pushFilters`` of its own. By ``__func__`` it takes this one for
    the inherited one, so a session with it off reads without.
    """

    __func__ = getattr(DataSourceReader, "pushFilters", None)

    def __init__(self, pushed: Pushed) -> None:
        self._pushed = pushed

    def __call__(self, filters: Iterable[Any]) -> list[Any]:
        self._pushed.take(filters)
        return self._pushed.left_to_spark


class KafkaLogReader(DataSourceReader):
    """Plans one batch read, and reads its slices."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns
        self._pushed = Pushed()
        self.pushFilters = _PushFilters(self._pushed)

    def partitions(self) -> list[InputPartition]:
        """The slices of everything that is wanted.

        Raises: LogCleanerError: a path, offset or file that is not there or cannot be read.
        """
        found = find_partitions(self._options.paths)
        check_named((self._options.starting, self._options.ending), found)
        wanted = [partition for partition in found if self._pushed.narrowing.wants(partition.topic_partition)]
        slices = [slice_ for partition in wanted for slice_ in self._slices(partition)]
        return [SlicesInput(together) for together in packed(slices, self._options.partition_bytes_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of some slices. Raises: CorruptBatch, SegmentGone, UnreadableFile."""
        if isinstance(partition, SlicesInput):  # where there are none, Spark calls with an empty one of its own
            for slice_ in partition.value:
                yield from read_slice(slice_, self._columns, self._options)

    def _slices(self, partition: FoundPartition) -> Iterator[Slice]:
        narrowing, options = self._pushed.narrowing, self._options
        log = partition.open()
        asked = range_of(log, partition.topic_partition, options, time.time_ns() // 1_000_000)
        offsets = OffsetRange(max(asked.start, narrowing.start_offset), min(asked.end, narrowing.end_offset))
        wanted = Wanted(offsets, narrowing.since_ms, options.partition_bytes_max, options.read_committed)
        return cut_partition(partition.topic_partition, log.segments, wanted)


def read_slice(slice_: Slice, columns: tuple[str, ...], options: Options) -> Iterator[pa.RecordBatch]:
    """The columns of a slice's records; of damaged batches what ``mode`` says.

    Raises: CorruptBatch (FAILFAST), SegmentGone (``failOnDataLoss``), UnreadableFile.
    """
    from cleaner.spark.chunks import Damage, SliceReader  # noqa: PLC0415  (planning does without the kernels)
    from cleaner.spark.columns import damage_batch, record_batches  # noqa: PLC0415
    from cleaner.spark.windows import open_window  # noqa: PLC0415

    schema = arrow_schema(columns)
    try:
        with open_window(slice_) as window:
            for found in SliceReader(slice_, window, with_control="control" in columns).chunks():
                if not isinstance(found, Damage):
                    yield from record_batches(found, slice_, schema)
                elif options.mode is Mode.FAILFAST:
                    raise found.error
                elif options.mode is Mode.PERMISSIVE:
                    yield damage_batch(found, slice_, schema)
    except SegmentGone:
        if options.fail_on_data_loss:
            raise
