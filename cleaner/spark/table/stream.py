"""``readStream``: micro-batches of offset ranges. Spark's checkpoint holds the offsets reached so far, as JSON.

Offsets mean the same as to a consumer: a range is read from whichever files hold it at that time. Records that a
compaction removed in between are missing, as for a consumer. If retention removed records, ``failOnDataLoss`` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import datasource as limits

from cleaner.engine.clock import Clock, SystemClock
from cleaner.spark.errors import WITHOUT_STACK
from cleaner.spark.table.admission import Offsets, within_bytes, within_offsets
from cleaner.spark.table.bounds import NoSuchOffset, check_chosen, check_named, resolve
from cleaner.spark.table.ends import Ends
from cleaner.spark.table.options import LOG_END, Bound, Options
from cleaner.spark.table.planning import check_whole, for_each
from cleaner.spark.table.reading import read_offsets
from storage.directory import despite_vanishing
from storage.errors import InvalidConfig, LogCleanerError
from storage.log.search import TimestampOffset
from storage.names import TopicPartition
from storage.scan.extents import Extent, Wanted, cut_partition, packed
from storage.scan.partitions import FoundPartition, OffsetRange, find_partitions

if TYPE_CHECKING:
    import pyarrow as pa


class PartitionGone(LogCleanerError):
    """A partition that a stream has read from, and whose directory is no longer there."""

    partition: str
    paths: str

    def __str__(self) -> str:
        return (
            f"{self.partition}: no directory of it is in {self.paths} any more; bring it back, or set failOnDataLoss "
            f"to false to go on without it"
        )


class KafkaLogStreamReader(DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, and reads their extents in the workers."""

    def __init__(self, options: Options, columns: tuple[str, ...], clock: Clock | None = None) -> None:
        if options.ending != LOG_END:
            raise InvalidConfig("endingOffsets", None, "a stream does not end", "kafka-log")
        self._options, self._columns = options, columns
        self._held = Ends(clock or SystemClock(), read_committed=options.read_committed)
        self._ceiling: Offsets | None = None
        self._latest: Offsets | None = None

    @WITHOUT_STACK
    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        """Return the beginning of a query without a checkpoint: ``startingOffsets``, else the log ends.

        Raises: InvalidConfig, NoSuchOffset.
        """
        found = self._found()
        check_chosen(self._options, found, may_come=True)
        starting = self._options.starting or LOG_END
        check_named((starting,), found)
        held = self._held.of(found)
        return to_json(for_each(found, lambda one: self._initial(one, starting, held[one.topic_partition])))

    @WITHOUT_STACK
    def latestOffset(self, start: dict[str, dict[str, int]], limit: limits.ReadLimit) -> dict[str, dict[str, int]]:  # noqa: N802
        """Return the end of the next micro-batch. Raises: PartitionGone (``failOnDataLoss``)."""
        begun, found = from_json(start), self._found()
        ends = self._ends_of(found)
        gone = begun.keys() - ends.keys()
        if gone and self._options.fail_on_data_loss:
            raise PartitionGone(str(min(gone)), ", ".join(self._options.paths))
        ends |= {name: begun[name] for name in gone}
        if self._ceiling is not None:
            ends = {name: min(end, self._ceiling[name]) for name, end in ends.items() if name in self._ceiling}
            ends |= {name: begun[name] for name in begun.keys() - ends.keys()}
        self._latest = ends
        if isinstance(limit, limits.ReadMaxRows):
            ends = within_offsets(begun, ends, limit.max_rows)
        elif isinstance(limit, limits.ReadMaxBytes):
            ends = within_bytes(begun, ends, limit.max_bytes, found)
        return to_json(ends)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Return where the logs ended at the last trigger, whatever its limit; None before the first look.

        Source: Spark KafkaMicroBatchStream.reportLatestOffset.
        """
        return None if self._latest is None else to_json(self._latest)

    def getDefaultReadLimit(self) -> limits.ReadLimit:  # noqa: N802
        """Return the limit of a micro-batch: ``maxOffsetsPerTrigger`` or ``maxBytesPerTrigger``, else none."""
        offsets_max, bytes_max = self._options.offsets_per_trigger_max, self._options.bytes_per_trigger_max
        if bytes_max is not None:
            return limits.ReadMaxBytes(bytes_max)
        return limits.ReadAllAvailable() if offsets_max is None else limits.ReadMaxRows(offsets_max)

    @WITHOUT_STACK
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the ends of the query: it reads no record that arrives from now on."""
        self._ceiling = self._latest = self._ends_of(self._found())

    @WITHOUT_STACK
    def partitions(self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[InputPartition]:
        """Return the extents of a micro-batch. Raises: NoSuchOffset, PartitionGone (``failOnDataLoss``)."""
        begun, ends = from_json(start), from_json(end)
        ranges = {name: OffsetRange(begun.get(name, 0), until) for name, until in ends.items()}
        wanted = {name: range_ for name, range_ in ranges.items() if range_.start != range_.end}
        found = {one.topic_partition: one for one in self._found()} if wanted else {}
        gone = wanted.keys() - found.keys()
        if gone and self._options.fail_on_data_loss:
            raise PartitionGone(str(min(gone)), ", ".join(self._options.paths))
        if wanted:
            check_whole(self._options, list(found.values()))
        there = [found[name] for name in wanted if name in found]
        found_extents = for_each(
            there,
            lambda place: despite_vanishing(partial(self._extents, place, wanted[place.topic_partition])),
        )
        extents = [one for some in found_extents.values() for one in some]
        return [InputPartition(together) for together in packed(extents, self._options.partition_bytes_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of some extents. Raises: CorruptBatch, SegmentGone, UnreadableFile."""
        with WITHOUT_STACK:
            for extent in partition.value:
                yield from read_offsets(extent, self._columns, self._options)

    def _extents(self, partition: FoundPartition, range_: OffsetRange) -> list[Extent]:
        log, name = partition.open(), partition.topic_partition
        if self._options.fail_on_data_loss:
            held, bounds = (
                OffsetRange(log.log_start_offset, log.log_end_offset),
                map(Bound, ({name: o} for o in range_)),
            )
            for one in bounds:  # the start may have been deleted, the end cut off
                resolve(one, name, held, log.lookup_timestamp, fails=True)
        if range_.start > range_.end and self._options.fail_on_data_loss:
            raise NoSuchOffset(str(name), f"offset {range_.start}", log.log_start_offset, range_.end)
        options, ends_log = self._options, range_.end == log.log_end_offset
        wanted = Wanted(range_, None, options.partition_bytes_max, options.read_committed, ends_log)
        return list(cut_partition(name, log.segments, wanted))

    def _initial(self, partition: FoundPartition, starting: Bound, held: OffsetRange) -> int:
        def seek(timestamp_ms: int) -> TimestampOffset | None:
            return partition.open().lookup_timestamp(timestamp_ms)

        return resolve(starting, partition.topic_partition, held, seek, fails=self._options.fail_on_data_loss)

    def _ends_of(self, found: Sequence[FoundPartition]) -> Offsets:
        return {name: held.end for name, held in self._held.of(found).items()}

    def _found(self) -> list[FoundPartition]:
        self._options.open_stores()
        return find_partitions(self._options.paths, self._options.choice, self._options.replica)


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark's Kafka source writes them: ``{"orders": {"0": 23}}``.

    The order is always the same, because Spark compares the text.
    """
    written: dict[str, dict[str, int]] = {}
    for name in sorted(offsets):
        written.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return written


def from_json(written: Mapping[str, Mapping[str, Any]]) -> Offsets:
    """Return the offsets that ``to_json`` wrote."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in written.items()
        for partition, offset in offsets.items()
    }
