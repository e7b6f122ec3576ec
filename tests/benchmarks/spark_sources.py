"""What ``kafka-log`` is measured against: a source that only hands Arrow to Spark, and one that yields rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cleaner.spark.schema import arrow_schema, ddl
from storage.records import iter_batches

ROW_SCHEMA: Final = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
BARE_TASKS: Final = 16
BARE_ROWS: Final = 10_000
"""Of an Arrow batch, about what a window of the log gives."""


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
    """The least that a source of Arrow can do: the same batch again and again. Options ``columns`` and ``records``."""

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
    """Yields the batch, as often as it takes."""

    def __init__(self, columns: tuple[str, ...], records: int) -> None:
        self._columns, self._batches = columns, records // BARE_ROWS // BARE_TASKS

    def partitions(self) -> list[InputPartition]:
        """Numbers that mean nothing."""
        return [InputPartition(number) for number in range(BARE_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batch."""
        rows = [
            {
                "key": f"key-{number:012d}".encode(),
                "value": b"v" * 75,
                "topic": "bench",
                "partition": 0,
                "offset": number,
                "timestamp": datetime(2027, 1, 1, tzinfo=UTC),
                "timestampType": 0,
                "headers": None,
            }
            for number in range(BARE_ROWS)
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(self._columns))
        for _ in range(self._batches):
            yield batch
