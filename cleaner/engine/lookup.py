"""Look up an offset or a timestamp in a partition directory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from storage.directory import despite_vanishing
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.log.search import LogSearch, Lookup
from storage.names import TopicPartition
from storage.scan.partitions import FoundPartition


class LogPlace(StrEnum):
    """The places of a log that are looked up by a word, as Kafka's ListOffsets takes them."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NEWEST = "max-timestamp"


@dataclass(frozen=True, slots=True)
class LookupTarget:
    """The thing to look up: one of the three."""

    offset: int | None = None
    timestamp_ms: int | None = None
    place: LogPlace | None = None


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The answer for one partition."""

    topic_partition: TopicPartition
    directory: Path
    target: LookupTarget
    found: Lookup
    segments: int
    size_bytes: int
    """The size of all ``.log`` files."""


def look_up(partition: FoundPartition, target: LookupTarget) -> LookedUp:
    """Look up a target; anew if a live broker deleted a file meanwhile.

    Raises: CorruptBatch, UnreadableFile.
    """
    return despite_vanishing(lambda: _look_up(partition, target))


def _look_up(partition: FoundPartition, target: LookupTarget) -> LookedUp:
    segments = plan_recovery(list_partition(partition.directory)).listing.segments
    search = LogSearch(segments, partition.log_start_offset)
    if target.offset is not None:
        found = search.by_offset(target.offset)
    elif target.timestamp_ms is not None:
        found = search.by_timestamp(target.timestamp_ms)
    elif target.place is LogPlace.NEWEST:
        found = search.newest()
    else:
        found = search.end() if target.place is LogPlace.LATEST else search.start()
    size_bytes = sum(segment.size_bytes for segment in segments)
    return LookedUp(partition.topic_partition, partition.directory, target, found, len(segments), size_bytes)
