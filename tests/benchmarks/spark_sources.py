"""The sources beside which ``kafka-log`` is measured: one only hands Arrow to Spark, and one yields rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cleaner.arrow.schema import HEADERS, TIMESTAMP, arrow_schema, ddl
from tests.batches import iter_batches
from tests.benchmarks.spark_log import NOW_MS, key_bytes

ROW_SCHEMA: Final = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
BARE_TASKS: Final = 8
BARE_ROWS: Final = 10_432
"""Of an Arrow batch, as many as a window of the log gives."""
BARE_BATCHES: Final = 16
"""Of different keys, together as many as the log has."""


class RowSource(DataSource):
    """What a source looks like that yields a tuple a record."""

    @classmethod
    def name(cls) -> str:
        """For ``spark.read.format``."""
        return "rows"

    def schema(self) -> str:
        """Without headers."""
        return ROW_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Of the partition directory that ``load`` names."""
        return RowReader(Path(self.options["path"]))


class RowReader(DataSourceReader):
    """Yields what the readable reader gives, one task a segment."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def partitions(self) -> list[InputPartition]:
        """The ``.log`` files."""
        return [InputPartition(path) for path in sorted(self._directory.glob("*.log"))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """A tuple a record."""
        for batch in iter_batches(partition.value.read_bytes(), partition.value):
            batch.ensure_valid()
            for one in batch.records():
                moment = datetime.fromtimestamp(one.timestamp_ms / 1000, UTC)
                yield one.key, one.value, "bench", 0, one.offset, moment


class BareSource(DataSource):
    """The least that a source of Arrow can do: batches made beforehand. Options ``columns``, ``records``."""

    @classmethod
    def name(cls) -> str:
        """For ``spark.read.format``."""
        return "bare"

    def schema(self) -> str:
        """The columns asked for."""
        return ddl(self.options["columns"].split(","))

    def reader(self, schema: Any) -> DataSourceReader:
        """Of as many rows as are asked for, about."""
        return BareReader(tuple(self.options["columns"].split(",")), int(self.options["records"]))


class BareReader(DataSourceReader):
    """Yields the batches, as often as it takes."""

    def __init__(self, columns: tuple[str, ...], records: int) -> None:
        self._columns, self._batches = columns, records // BARE_ROWS // BARE_TASKS

    def partitions(self) -> list[InputPartition]:
        """Numbers that mean nothing."""
        return [InputPartition(number) for number in range(BARE_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches in turn."""
        batches = _batches(self._columns)
        for number in range(self._batches):
            yield batches[number % len(batches)]


@cache
def _batches(columns: tuple[str, ...]) -> list[pa.RecordBatch]:
    """Made by a worker once; as many keys as the log has. What is the same in all of them they share."""
    rows = BARE_ROWS
    shared = {
        "value": pa.array([b"v" * 75] * rows, pa.binary()),
        "topic": pa.array(["bench"] * rows, pa.string()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([NOW_MS * 1000] * rows, pa.int64()).cast(TIMESTAMP),
        "timestampType": pa.array([0] * rows, pa.int32()),
        "headers": pa.nulls(rows, HEADERS),
    }
    batches = []
    for first in range(0, BARE_BATCHES * rows, rows):
        of_batch = shared | {"key": pa.array(map(key_bytes, range(first, first + rows)), pa.binary())}
        batches.append(pa.RecordBatch.from_arrays([of_batch[c] for c in columns], schema=arrow_schema(columns)))
    return batches
