"""``df.writeStream.format("kafka-log")``: append each micro-batch to the logs of a log dir, exactly once.

The tasks write parts, as those of a batch write do. ``append_batch`` puts them behind the logs; it needs no Spark.

Order:      the lock; what an earlier commit left is finished; new partitions appear, empty; each partition's records
            are staged (``storage.log.staging``); the batch's line in ``.logcleaner-streams``; for each partition a line
            in the journal, then its segments are put in; the high watermarks; the line again, as done.
Invariant:  a batch is committed with its line, in all partitions. Before it, a crash leaves files that mean nothing.
            Behind it, the next commit of the query, or of another one in these partitions, puts in what is left; what
            Spark made anew of the same batch is not used.
Assumes:    Spark gives a batch that is replayed the same id, and hands out ids in rising order. The id of the query
            lies in its checkpoint; Spark tells it to each task as a local property.
Not chosen: the option ``checkpointLocation`` as the name of the query: a session can set the place for all queries, and
            a new query in an old place is another one. The log ends as the mark of what is in: a broker or
            another writer moves them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from cleaner.engine.clock import Clock, SystemClock
from cleaner.engine.journal import Journal
from cleaner.engine.streams import Staged, StreamBatch, read_streams, write_stream
from cleaner.spark.errors import WITHOUT_STACK
from cleaner.spark.table.sink import KafkaLogWriter, Part, Write, by_partition, remove_parts
from storage.errors import InvalidConfig, LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.guarded import Guarded
from storage.lock import LogDirLock, LogDirLocked
from storage.log import Log
from storage.log.staging import EndMoved, log_end, put_in, remove_staged, stage, staged_names
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, STREAMS_FILE, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

LOCK_SECONDS: Final = 60.0
"""How long a commit waits for the lock: another stream, or a clean, may hold it."""
_LOOK_SECONDS: Final = 0.1
_QUERY_ID: Final = "sql.streaming.queryId"
"""Source: Spark StreamExecution.QUERY_ID_KEY."""
_OF_THE_QUERY: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of Spark's own that a query hands to its sink, in small letters."""


class BatchGoneBack(LogCleanerError):
    """A batch with a lower number than the last one of its query."""

    path: Path
    query: str
    number: int
    last: int

    def __str__(self) -> str:
        return (
            f"{self.path}: batch {self.number} of query {self.query} comes behind batch {self.last}, which is in the "
            f"logs already: its checkpoint was set back; start the query with a new checkpointLocation"
        )


class StagedGone(LogCleanerError):
    """A committed batch whose staged segments somebody removed, or did not copy."""

    path: Path
    query: str
    number: int
    end_offset: int
    wanted_offset: int

    def __str__(self) -> str:
        return (
            f"{self.path}: the log ends at {self.end_offset}, and the staged records of batch {self.number} of query "
            f"{self.query}, up to {self.wanted_offset}, are gone: bring the partition back as it was, or remove the "
            f"query's line from {STREAMS_FILE} and start it again, which writes the batch anew to all its partitions"
        )


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One batch of a query, and how its records are written."""

    write: Write
    query: str
    """The id of the query."""
    number: int
    """The id that Spark gives the batch."""


@dataclass(frozen=True, slots=True)
class StreamedParts(WriterCommitMessage):
    """The parts that a task hands to the commit."""

    query: str
    parts: tuple[Part, ...]


class KafkaLogStreamWriter(DataSourceStreamArrowWriter):
    """Writes parts in the workers, and appends each micro-batch on the driver."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidConfig("outputMode", "complete", "records are only appended: use append", "kafka-log")
        given = {name: value for name, value in options.items() if name.lower() not in _OF_THE_QUERY}
        self._writer = KafkaLogWriter(given, schema, overwrite=False)

    @WITHOUT_STACK
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamedParts:
        """Write the records of one task as parts. Raises: as of a batch write."""
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID) if context else None
        assert query, "Spark tells each task of a stream the id of its query"
        return StreamedParts(query, self._writer.parts_of(iterator, self._write_of(query)))

    @WITHOUT_STACK
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Append a batch. Raises: as ``append_batch``."""
        sent = [message for message in messages if isinstance(message, StreamedParts)]
        for query in {message.query for message in sent}:
            batch = MicroBatch(self._write_of(query), query, batchId)
            try:
                append_batch(batch, [part for message in sent for part in message.parts])
            finally:
                remove_parts(batch.write)

    @WITHOUT_STACK
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the parts of the query. If no task came to its end, the query's next commit does."""
        del batchId
        for query in {message.query for message in messages if isinstance(message, StreamedParts)}:
            remove_parts(self._write_of(query))

    def _write_of(self, query: str) -> Write:
        """Return the write of a query: each of its processes names parts and topic ids alike."""
        job = hashlib.blake2b(query.encode(), digest_size=8).hexdigest()
        return replace(self._writer.this_write, job=job, now_ms=SystemClock().now_ms())


def append_batch(
    batch: MicroBatch, parts: Sequence[Part], fs: FileSystem | None = None, clock: Clock | None = None
) -> None:
    """Append a batch to the logs, unless an earlier commit of it did. The parts stay where they are.

    If this fails, the next commit of the query puts in what is committed, and starts over if nothing is.

    Raises: LogDirLocked; BatchGoneBack, PartGone, StagedGone, DamagedStreams; UnsoundEnd, LogEndsBeforeItsStart,
        TornTail and other damage of a log; JournalFull, OutOfSpace, UnsafeOwner.
    """
    fs, clock = fs or FileSystem(), clock or SystemClock()
    log_dir = LogDir(batch.write.log_dir)
    with _lock(log_dir, fs, clock) as lock:
        _Commit(batch, log_dir, Guarded(fs, {log_dir.path: lock}), clock).run(parts)


class _Commit:
    def __init__(self, batch: MicroBatch, log_dir: LogDir, fs: FileSystem, clock: Clock) -> None:
        self._batch, self._log_dir, self._fs, self._clock = batch, log_dir, fs, clock
        self._config = batch.write.config

    def run(self, parts: Sequence[Part]) -> None:
        """Do all steps."""
        batch, path = self._batch, self._log_dir.path
        wanted = {part.topic_partition for part in parts}
        for earlier in read_streams(path).values():
            if earlier.staged and (earlier.query == batch.query or not wanted.isdisjoint(earlier.staged)):
                self._finish(earlier)
        known = read_streams(path).get(batch.query)
        if known is not None and known.number > batch.number:
            raise BatchGoneBack(path, batch.query, batch.number, known.number)
        if known is None or known.number < batch.number:
            self._finish(self._committed(parts))

    def _committed(self, parts: Sequence[Part]) -> StreamBatch:
        """Stage the records, and write the batch's line. If that fails, only new, empty partitions are left."""
        batch, log_dir = self._batch, self._log_dir.path
        staged: dict[TopicPartition, Staged] = {}
        try:
            for some in by_partition(parts):
                sources = [segment.log.path for part in some for segment in part.listing().segments]
                name = some[0].topic_partition
                self._ensure_there(name)
                staged[name] = Staged("", 0)
                staged[name] = self._stage(name, sources)
            committed = StreamBatch(batch.query, batch.number, self._clock.now_ms(), staged)
            write_stream(log_dir, committed, self._fs)
        except (LogCleanerError, OSError):
            noted = read_streams(log_dir).get(batch.query)
            if noted is None or noted.number != batch.number:  # else the line has its name, and may last
                for name in staged:
                    remove_staged(self._fs, self._directory(name))
            raise
        return committed

    def _stage(self, name: TopicPartition, sources: Sequence[Path], kept: Sequence[str] = ()) -> Staged:
        """Stage the records of a partition; first what no batch needs any more is removed."""
        directory, tag = self._directory(name), secrets.token_hex(8)
        remove_staged(self._fs, directory, kept)
        end_offset = log_end(self._fs, directory, self._config, self._clock.now_ms())
        return Staged(tag, stage(self._fs, directory, sources, end_offset, self._batch.write.segment_bytes, tag))

    def _ensure_there(self, name: TopicPartition) -> None:
        """Let a partition appear, empty, unless it is there."""
        if os.path.lexists(self._directory(name)):
            return
        write = self._batch.write
        private = write.private_directory(name)
        Log.create(private, self._config, self._fs, topic_id=write.topic_id(name.topic))
        self._log_dir.forget({name}, self._fs)
        self._fs.rename(private, self._directory(name), Purpose.ROLL)
        self._fs.fsync_dir(write.log_dir, Purpose.ROLL)

    def _finish(self, batch: StreamBatch) -> None:
        """Put in the segments of a committed batch that are not in yet, and note the batch as done."""
        with closing(Journal(self._log_dir.path, self._fs, self._clock.boot())) as journal:
            for name in sorted(batch.staged):
                if self._directory(name).is_dir():  # else somebody deleted the partition
                    batch = self._finish_partition(batch, name, journal)
        known = self._log_dir.offsets(HIGH_WATERMARK_CHECKPOINT)
        ends = {
            name: max(one.end_offset, known.get(name, 0))
            for name, one in batch.staged.items()
            if self._directory(name).is_dir()
        }
        self._log_dir.write_offsets(HIGH_WATERMARK_CHECKPOINT, {**known, **ends}, self._fs)
        write_stream(self._log_dir.path, batch._replace(staged={}), self._fs)

    def _finish_partition(self, batch: StreamBatch, name: TopicPartition, journal: Journal) -> StreamBatch:
        """Put in the segments of a partition. If somebody appended since, they move behind the present log end."""
        directory, now_ms = self._directory(name), self._clock.now_ms()
        while True:
            tag, end_offset = batch.staged[name]
            if waiting := staged_names(directory, tag):
                start, size_bytes = waiting[0].base_offset, sum((directory / str(n)).stat().st_size for n in waiting)
                said = {"query": batch.query, "batch": batch.number, "bytes": size_bytes}
                journal.record(
                    "append", now_ms, partition=str(name), **said, start_offset=start, log_end_offset=end_offset
                )
            try:
                reached = put_in(self._fs, directory, self._config, now_ms, tag)
            except EndMoved:
                sources = [directory / str(one) for one in staged_names(directory, tag)]
                moved = self._stage(name, sources, kept=(tag,))
                batch = batch._replace(staged={**batch.staged, name: moved})
                write_stream(self._log_dir.path, batch, self._fs)
                remove_staged(self._fs, directory, (moved.tag,))
            else:
                if reached < end_offset:
                    raise StagedGone(directory, batch.query, batch.number, reached, end_offset)
                return batch

    def _directory(self, name: TopicPartition) -> Path:
        return self._log_dir.path / str(name)


def _lock(log_dir: LogDir, fs: FileSystem, clock: Clock) -> LogDirLock:
    until = clock.seconds() + LOCK_SECONDS
    while True:
        try:
            return log_dir.lock(fs)
        except LogDirLocked:
            if clock.seconds() >= until:
                raise
        clock.sleep(_LOOK_SECONDS)
