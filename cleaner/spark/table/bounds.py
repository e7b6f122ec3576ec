"""Resolve the bounds of a read: options name where it begins and ends, and offsets of each partition result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cleaner.spark.table.options import Bound, Options
from policies.config.config_sources import nearest
from storage.errors import InvalidConfig, LogCleanerError
from storage.log import Log, SpecialTimestamp
from storage.log.search import TimestampOffset
from storage.names import TopicPartition
from storage.scan.partitions import FoundPartition, OffsetRange, names_in, readable_end


class NoSuchOffset(LogCleanerError):
    """An offset or a time at which a read was to begin or end, and which the partition does not hold."""

    partition: str
    asked: str
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return (
            f"{self.partition}: {self.asked} is not there, the log holds offsets {self.start_offset} to "
            f"{self.end_offset} (exclusive); start elsewhere, or set failOnDataLoss to false to go on without it"
        )


def check_chosen(options: Options, found: Sequence[FoundPartition], *, may_come: bool = False) -> None:
    """Check that the topics and partitions that options choose exist.

    Args:
        options: the choice, and the paths.
        found: the chosen partitions that exist.
        may_come: True if a pattern may match nothing: a stream waits for topics.

    Raises: InvalidConfig.
    """
    missing = options.choice.missing_from(partition.topic_partition for partition in found)
    if missing is None or (missing[0] == "subscribePattern" and may_come):
        return
    names = names_in(options.paths)
    hint = nearest(missing[1], dict.fromkeys(sorted({*map(str, names), *(name.topic for name in names)})))
    raise InvalidConfig(*missing, f"nothing of it in {', '.join(options.paths)}{hint}", "kafka-log")


def check_named(bounds: Sequence[Bound | None], found: Sequence[FoundPartition]) -> None:
    """Check that bounds which name partitions name exactly those found, as in Spark's Kafka source.

    Raises: InvalidConfig.
    """
    there = {partition.topic_partition for partition in found}
    for bound in bounds:
        if bound is None or bound.partitions is None or bound.partitions.keys() == there:
            continue
        odd = ", ".join(sorted(map(str, there ^ bound.partitions.keys())))
        raise InvalidConfig("offsets", None, f"they must name every partition and no other; see {odd}", "kafka-log")


def range_of(log: Log, name: TopicPartition, options: Options, now_ms: int) -> OffsetRange:
    """Return the offsets that a batch reads of a partition.

    Args:
        log: the partition.
        name: the partition's name.
        options: state the bounds.
        now_ms: epoch ms, for the expiry of producers.

    Raises: NoSuchOffset, CorruptBatch, CorruptIndex, UnreadableFile.
    """
    end = readable_end(log, read_committed=options.read_committed, now_ms=now_ms)
    starting = options.starting or Bound(None, SpecialTimestamp.EARLIEST)
    held, fails = OffsetRange(log.log_start_offset, end), options.fail_on_data_loss
    start, end = (resolve(one, name, held, log.lookup_timestamp, fails=fails) for one in (starting, options.ending))
    return OffsetRange(start, end)


def resolve(
    bound: Bound,
    name: TopicPartition,
    held: OffsetRange,
    seek: Callable[[int], TimestampOffset | None],
    *,
    fails: bool,
) -> int:
    """Return the offset that a bound means.

    Args:
        bound: the bound. If it names partitions, it names this partition.
        name: the partition's name.
        held: the offsets from the log start up to the end of those that can be read.
        seek: finds the first record of a time or later, as ``Log.lookup_timestamp``.
        fails: True if an offset outside the log is an error. Otherwise the nearest offset is taken.

    Raises: NoSuchOffset; as ``seek``.
    """
    log_start_offset, end = held
    asked = bound.of_all if bound.partitions is None else bound.partitions[name]
    if bound.by_timestamp:
        found = seek(asked)
        if found is None and not bound.falls_back:
            raise NoSuchOffset(str(name), f"a record of timestamp {asked} or later", log_start_offset, end)
        return end if found is None else min(found.offset, end)
    if asked == SpecialTimestamp.LATEST:
        return end
    if asked == SpecialTimestamp.EARLIEST:
        return min(log_start_offset, end)
    if fails and not log_start_offset <= asked <= end:
        raise NoSuchOffset(str(name), f"offset {asked}", log_start_offset, end)
    return max(log_start_offset, min(asked, end))
