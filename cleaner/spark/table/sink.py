"""``df.write.format("kafka-log")``: write records into new partitions, in a log dir without a broker.

The tasks of a write lay down parts, and the driver lets whole partitions appear.

Order:      each task writes its records of a partition as a whole log, flushed and closed, in a directory of its own;
            then the driver takes the lock; then it appends the parts of one partition to the first task's log, in the
            tasks' order; the checkpoints' lines of earlier partitions of these names go; one rename for each
            partition; fsync of the log dir; the high watermarks.
Invariant:  a partition appears whole or not at all, and never replaces an existing one.
Names:      ``logcleaner-0.<id>-delete``: a broker (and ``logcleaner``) takes it for a partition of a deleted topic, and
            a broker that starts removes it. Any other directory of ours would keep a broker from starting.
Not chosen: a directory beside the log dir: a log dir is often a mount point, and a rename does not cross file systems.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from cleaner.arrow.rows import columns_of, groups_of
from cleaner.engine.clock import SystemClock
from cleaner.errors import UnusableOutput
from cleaner.spark.errors import WITHOUT_STACK
from cleaner.spark.table.options import parse_sink_options
from storage.arrays import Integers
from storage.codecs.compression import Compression
from storage.errors import InvalidConfig, InvalidRecord, LogCleanerError, UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.guarded import Guarded
from storage.log import Log, LogConfig
from storage.log.config import NO_LIMIT_MS
from storage.log.leader_epochs import read_topic_id
from storage.log.listing import Listing, list_partition
from storage.log.writing.building import BatchBuilder, Encoder, RecordColumns
from storage.log_dir import LogDir
from storage.names import CLUSTER_METADATA_TOPIC, HIGH_WATERMARK_CHECKPOINT, DirState, TopicPartition
from storage.records import Batch
from storage.records.v2 import NO_TIMESTAMP
from storage.segment import Segment

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BATCH_BYTES: Final = 16 << 10
"""The size of records at which a batch is closed, which is the default of producers; less if segments are small."""
GATHERED_BYTES: Final = 16 << 20
"""The size of rows that are written at a time."""
_JOINED_BYTES: Final = 1 << 20
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}", re.ASCII)
_BATCH_BYTES_MAX: Final = (1 << 31) - 1
"""No limit: the records may come from a topic with any ``max.message.bytes``."""

_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns that are written: those of Spark's Kafka sink, and ``timestamp``.

Like that sink, this one ignores others.
"""
_PARTITION_BITS: Final = 32
_PARTITION_MASK: Final = (1 << _PARTITION_BITS) - 1
_NO_PARTITION: Final = "a row has none; a frame without the column is written to partition 0"


class PartitionExists(LogCleanerError):
    """A partition that a write was to make exists already."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: is there already, and only new partitions are written; nothing has changed"


class PartGone(LogCleanerError):
    """Records that a task wrote, and that are not all there any more."""

    path: Path
    size_bytes: int
    wanted_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.size_bytes} of the {self.wanted_bytes} bytes that a task wrote here are left: a "
            f"broker that started removed them, or the task's machine has another disk there; no record was taken: "
            f"run it again, without a broker, on a log dir that all machines share"
        )


class KafkaLogWriter(DataSourceArrowWriter):
    """Writes parts in the workers, and publishes partitions on the driver."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidConfig("mode", "overwrite", "only new partitions are written: use append", "kafka-log")
        said = parse_sink_options(options)
        _check(schema, said.topic)
        now_ms = SystemClock().now_ms()
        self._topic = said.topic
        self.this_write = Write(said.log_dir, uuid.uuid4().hex[:16], now_ms, said.compression, said.segment_bytes)
        self._begin()

    def _begin(self) -> None:
        """Refuse a place that cannot be written to."""
        if not self.this_write.log_dir.is_dir():
            raise UnusableOutput(self.this_write.log_dir, "is no directory", "make it first")
        if not _is_writable(self.this_write.log_dir):
            raise UnusableOutput(self.this_write.log_dir, "cannot be written to", "mount it writable, or be its owner")

    @WITHOUT_STACK
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenParts:
        """Write the records of one task as parts.

        Raises: InvalidConfig, UnusableOutput, OutOfSpace, UnsafeOwner.
        """
        return WrittenParts(self.parts_of(iterator, self.this_write))

    def parts_of(self, iterator: Iterator[pa.RecordBatch], write: Write) -> tuple[Part, ...]:
        """Write the rows of a task into parts, and return them. Raises: as ``write``."""
        context = TaskContext.get()
        writer = PartWriter(write, context.partitionId() if context else 0)
        for batch in gathered(iterator):
            writer.add(batch, self._topic)
        return writer.close()

    @WITHOUT_STACK
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the partitions. Raises: as ``publish``."""
        try:
            publish(
                self.this_write,
                [part for message in messages if isinstance(message, WrittenParts) for part in message.parts],
            )
        finally:
            remove_parts(self.this_write)

    @WITHOUT_STACK
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove all parts."""
        del messages  # failed tasks send none
        remove_parts(self.this_write)


@dataclass(frozen=True, slots=True)
class WrittenParts(WriterCommitMessage):
    """The parts that a task hands to the commit."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One write of partitions that do not exist yet."""

    log_dir: Path
    job: str
    """16 characters, unique to the write, in the names of all its directories."""
    now_ms: int
    """The timestamp of records that have none, epoch ms."""
    compression: Compression
    segment_bytes: int

    @property
    def config(self) -> LogConfig:
        """The configuration of the logs."""
        return LogConfig(
            segment_bytes=self.segment_bytes, max_message_bytes=_BATCH_BYTES_MAX, timestamp_after_max_ms=NO_LIMIT_MS
        )

    def private_directory(self, name: TopicPartition) -> Path:
        """Return a new directory of the log dir in which a partition is made, before it gets its name."""
        unique = f"{self.job}{uuid.uuid4().hex[:16]}"
        return self.log_dir / f"logcleaner-{name.partition}.{unique}{DirState.DELETE.value}"

    def topic_id(self, topic: str) -> str:
        """Return the id that other partitions of the topic have, else an id that all tasks derive alike.

        Raises: CorruptCheckpoint, UnreadableFile.
        """
        for name, directory in LogDir(self.log_dir).partitions():
            if name.topic == topic and (topic_id := read_topic_id(directory)):
                return topic_id
        digest = hashlib.blake2b(f"{self.job}{topic}".encode(), digest_size=16).digest()
        first = digest[0] & 0x7F  # no leading dash
        return base64.urlsafe_b64encode(bytes((first, *digest[1:]))).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class Part:
    """The records of one partition, written by one task."""

    topic_partition: TopicPartition
    task: int
    """The number of the task. Parts are joined in this order."""
    directory: Path
    size_bytes: int
    """The bytes of all its ``.log`` files."""

    def listing(self) -> Listing:
        """Return the files of the part. Raises: PartGone, UnreadableFile."""
        try:
            found = list_partition(self.directory)
        except UnreadableFile as error:
            if not error.has_vanished:
                raise
            raise PartGone(self.directory, 0, self.size_bytes) from error
        if (left_bytes := log_bytes(found.segments)) != self.size_bytes:
            raise PartGone(self.directory, left_bytes, self.size_bytes)
        return found


class PartWriter:
    """Writes the records of one task. The records are durable once the writer is closed."""

    def __init__(self, write: Write, task: int) -> None:
        if not write.log_dir.is_dir():
            raise UnusableOutput(
                write.log_dir, f"is no directory on the Spark executor at {gethostname()}", "mount it there"
            )
        if not _is_writable(write.log_dir):
            raise UnusableOutput(
                write.log_dir,
                f"cannot be written to on the Spark executor at {gethostname()}",
                "mount it writable there, and run the executor as its owner",
            )
        self._write, self._task = write, task
        self._open: dict[TopicPartition, _OpenPart] = {}
        self._topic_ids: dict[str, str] = {}
        self._encoder = Encoder()

    def add(self, batch: pa.RecordBatch, topic: str | None) -> None:
        """Append the rows of a batch to their partitions.

        Args:
            batch: some of the columns that can be written.
            topic: the topic of all rows; None: each row's column names it.

        Raises: InvalidConfig: a row has no topic, or a column of partitions and none in it, or a name that no partition
            can have; a timestamp is before 1970; a header has no key; no batch can hold a row. OutOfSpace,
            BatchTooLarge.
        """
        try:
            columns = columns_of(batch)
        except InvalidRecord as error:
            raise InvalidConfig("headers", None, error.cause, "kafka-log") from error
        if columns.records.size and int(columns.records["timestamp"].min()) < NO_TIMESTAMP:
            raise InvalidConfig("timestamp", None, "a row's is before 1970; a null stands for now", "kafka-log")
        for name, rows in rows_by_partition(batch, topic):
            part = self._open.get(name)
            if part is None:
                part = self._open[name] = self._begun(name)
            part.add(columns, rows)

    def _begun(self, name: TopicPartition) -> _OpenPart:
        if not _TOPIC.fullmatch(name.topic) or name.partition < 0:
            raise InvalidConfig("topic", str(name), "no partition can be called that", "kafka-log")
        if name.topic == CLUSTER_METADATA_TOPIC:
            raise InvalidConfig("topic", name.topic, "the metadata log is KRaft's own, and is not written", "kafka-log")
        if name.topic not in self._topic_ids:  # all partitions of the log dir are asked for it
            self._topic_ids[name.topic] = self._write.topic_id(name.topic)
        return _OpenPart(self._write, name, self._topic_ids[name.topic], self._encoder)

    def close(self) -> tuple[Part, ...]:
        """Make all written records durable, and return the parts. Raises: OutOfSpace."""
        return tuple(Part(name, self._task, part.directory, part.close()) for name, part in self._open.items())


def publish(write: Write, parts: Sequence[Part]) -> None:
    """Let the partitions appear, each whole.

    Raises: LogDirLocked, PartitionExists, PartGone (nothing has appeared), OutOfSpace, UnsafeOwner.
    """
    log_dir = LogDir(write.log_dir)
    with log_dir.lock(FileSystem()) as lock:
        fs = Guarded(FileSystem(), {write.log_dir: lock})
        for part in parts:
            if os.path.lexists(write.log_dir / str(part.topic_partition)):
                raise PartitionExists(write.log_dir / str(part.topic_partition))
        joined = [join(write, some, fs) for some in by_partition(parts)]
        log_dir.forget({part.topic_partition for part in parts}, fs)
        for part, _ in joined:
            fs.rename(part.directory, write.log_dir / str(part.topic_partition), Purpose.ROLL)
        fs.fsync_dir(write.log_dir, Purpose.ROLL)
        ends = {part.topic_partition: end for part, end in joined}
        known = log_dir.offsets(HIGH_WATERMARK_CHECKPOINT)
        log_dir.write_offsets(HIGH_WATERMARK_CHECKPOINT, {**known, **ends}, fs)


def remove_parts(write: Write) -> None:
    """Remove the remains of all tasks, of failed and duplicate ones, too. Raises: OutOfSpace."""
    fs = FileSystem()
    for directory in write.log_dir.glob(f"*.{write.job}*{DirState.DELETE.value}"):
        for path in directory.iterdir():
            fs.unlink(path, Purpose.REMOVE)
        directory.rmdir()
    fs.fsync_dir(write.log_dir, Purpose.REMOVE)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of several batches as one: each partition costs time once a batch, however few its rows are."""
    held, held_bytes = list[pa.RecordBatch](), 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= GATHERED_BYTES:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, held_bytes = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def rows_by_partition(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[TopicPartition, Integers]]:
    """Yield the partitions of a batch, and the rows of each. Arguments and errors as of ``PartWriter.add``."""
    names = [topic]
    codes = np.zeros(batch.num_rows, np.int64)
    if topic is None:
        topics = _column(batch, "topic", "a row has none").cast(pa.string()).dictionary_encode()
        names = topics.dictionary.to_pylist()
        codes += topics.indices.to_numpy()
    if "partition" in batch.schema.names:
        partitions = _column(batch, "partition", _NO_PARTITION).to_numpy().astype(np.int64)
        codes = codes << _PARTITION_BITS | partitions & _PARTITION_MASK
    else:
        codes <<= _PARTITION_BITS
    for code, rows in groups_of(codes):
        number = code & _PARTITION_MASK
        partition = number - (number >> (_PARTITION_BITS - 1) << _PARTITION_BITS)
        yield TopicPartition(names[code >> _PARTITION_BITS] or "", partition), rows


def _column(batch: pa.RecordBatch, name: str, cause: str) -> pa.Array:
    """Return a column. Raises: InvalidConfig: a row has a null in it."""
    column = batch.column(name)
    if column.null_count:
        raise InvalidConfig(name, None, cause, "kafka-log")
    return column


def _is_writable(directory: Path) -> bool:
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=True)


def _check(schema: StructType, topic: str | None) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name in types:
        if name not in _TYPES and name.lower() in _TYPES:
            raise InvalidConfig(name, None, f"case counts here: call the column {name.lower()}", "kafka-log")
    for name, known in _TYPES.items():
        if name in types and types[name] not in known:
            raise InvalidConfig(name, types[name], f"cannot be written; it must be {' or '.join(known)}", "kafka-log")
    if "value" not in types:
        raise InvalidConfig("value", None, "there must be a column of that name", "kafka-log")
    if topic is None and "topic" not in types:
        raise InvalidConfig("topic", None, "say it as an option or as a column", "kafka-log")


class _OpenPart:
    def __init__(self, write: Write, name: TopicPartition, topic_id: str, encoder: Encoder) -> None:
        self._write = write
        self.directory = write.private_directory(name)
        self._log = Log.create(self.directory, write.config, FileSystem(), topic_id=topic_id)
        batch_bytes = min(BATCH_BYTES, write.segment_bytes // 4)
        self._builder = BatchBuilder(encoder, write.compression, batch_bytes, write.now_ms)

    def add(self, columns: RecordColumns, rows: Integers) -> None:
        self._append(self._builder.add(columns, rows))

    def close(self) -> int:
        """Make the records durable. Return the bytes of all ``.log`` files."""
        self._append(self._builder.finish())
        self._log.close()
        return log_bytes(self._log.segments)

    def _append(self, finished: Iterator[memoryview]) -> None:
        try:
            for batches in finished:
                self._log.append_finished(batches, now_ms=self._write.now_ms)
        except InvalidRecord as error:
            raise InvalidConfig("value", None, error.cause, "kafka-log") from error


def log_bytes(segments: Iterable[Segment]) -> int:
    """Return the bytes of the ``.log`` files of some segments."""
    return sum(segment.size_bytes for segment in segments)


def by_partition(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield the parts of each partition in the order of their tasks."""
    ordered = sorted(parts, key=lambda part: (part.topic_partition, part.task))
    for _, some in groupby(ordered, key=lambda part: part.topic_partition):
        yield list(some)


def join(write: Write, parts: Sequence[Part], fs: FileSystem) -> tuple[Part, int]:
    """Append the batches of the other parts to the first part. Return that part and its log end offset.

    Raises: PartGone; CorruptBatch, UnreadableFile; OutOfSpace.
    """
    first, *others = (Log(part.directory, write.config, fs, part.listing(), 0) for part in parts)
    with first as log:
        for other in others:
            for batches in _sound_batches(other):
                log.append_finished(memoryview(batches), now_ms=write.now_ms)
        return parts[0], log.log_end_offset


def _sound_batches(log: Log) -> Iterator[bytearray]:
    """Yield the batches of a log, many at a time. Raises: CorruptBatch, UnreadableFile."""
    batches = bytearray()
    for batch in log.read():
        assert isinstance(batch, Batch)
        batch.ensure_valid()
        batches += batch.data
        if len(batches) >= _JOINED_BYTES:
            yield batches
            batches = bytearray()
    yield batches
