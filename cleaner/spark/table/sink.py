"""``df.write.format("kafka-log")``: write records into new partitions, in a log dir without a broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from cleaner.engine.clock import SystemClock
from cleaner.spark.table.options import parse_sink_options
from cleaner.spark.table.parts import Part, PartWriter, Write, publish, remove_parts
from storage.errors import InvalidConfig, NotALogDir
from storage.names import TopicPartition
from storage.records import Record

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns that are written: the columns of Spark's Kafka sink, and ``timestamp``. Like that sink, it ignores
others.
"""

_CAST: Final = {"key": pa.binary(), "value": pa.binary(), "timestamp": pa.int64()}


@dataclass(frozen=True, slots=True)
class WrittenParts(WriterCommitMessage):
    """The parts that a task hands to the commit."""

    parts: tuple[Part, ...]


class KafkaLogWriter(DataSourceArrowWriter):
    """Writes parts in the workers, and publishes partitions on the driver."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidConfig("mode", "overwrite", "only new partitions are written: use append", "kafka-log")
        said = parse_sink_options(options)
        _check(schema, said.topic)
        if not said.log_dir.is_dir():
            raise NotALogDir(said.log_dir, "is not a directory; make it first")
        now_ms = SystemClock().now_ms()
        self._topic = said.topic
        self._write = Write(said.log_dir, uuid.uuid4().hex[:16], now_ms, said.compression, said.segment_bytes)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenParts:
        """Write the records of one task as parts.

        Raises: InvalidConfig, NotALogDir, OutOfSpace, UnsafeOwner.
        """
        context = TaskContext.get()
        writer = PartWriter(self._write, context.partitionId() if context else 0)
        for batch in iterator:
            for name, record in records_of(batch, self._topic):
                writer.add(name, record)
        return WrittenParts(writer.close())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the partitions. Raises: LogDirLocked, PartitionExists, OutOfSpace, UnsafeOwner."""
        try:
            publish(
                self._write,
                [part for message in messages if isinstance(message, WrittenParts) for part in message.parts],
            )
        finally:
            remove_parts(self._write)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove all parts."""
        del messages  # failed tasks send none
        remove_parts(self._write)


def _check(schema: StructType, topic: str | None) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, known in _TYPES.items():
        if name in types and types[name] not in known:
            raise InvalidConfig(name, types[name], f"cannot be written; it must be {' or '.join(known)}", "kafka-log")
    if "value" not in types:
        raise InvalidConfig("value", None, "there must be a column of that name", "kafka-log")
    if topic is None and "topic" not in types:
        raise InvalidConfig("topic", None, "say it as an option or as a column", "kafka-log")


def records_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[TopicPartition, Record]]:
    """Yield the rows of a batch.

    Args:
        batch: some of the columns that can be written.
        topic: the topic of all rows; None: each row's column names it.

    Raises: InvalidConfig: a row has no topic.
    """
    columns = {name: _values(batch, name) for name in _TYPES}
    if topic is not None:
        columns["topic"] = [topic] * batch.num_rows
    rows = zip(*(columns[name] for name in _TYPES), strict=True)
    for key, value, topic_name, partition, timestamp_us, headers in rows:
        if topic_name is None:
            raise InvalidConfig("topic", None, "a row has none", "kafka-log")
        timestamp_ms = -1 if timestamp_us is None else timestamp_us // 1000
        pairs = tuple((header["key"].encode(), header["value"]) for header in headers or ())
        yield TopicPartition(topic_name, partition or 0), Record(0, timestamp_ms, key, value, pairs)


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    column = batch.column(name)
    values: list[Any] = (column.cast(_CAST[name]) if name in _CAST else column).to_pylist()
    return values
