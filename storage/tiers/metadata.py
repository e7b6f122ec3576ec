"""The records of ``__remote_log_metadata``, replayed into the state of each remote segment.

A record is the version of the frame, the key of a message and its version, as varints, and the message. The topic is
deleted by time, so its
beginning may be gone: an update whose first record is gone tells of nothing but the segment's state.

Source: Kafka ``RemoteLogMetadataSerde``, ``RemotePartitionMetadataStore``, ``RemoteLogMetadataTopicPartitioner``.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from storage.checkpoints import LeaderEpochEntry
from storage.errors import InvalidRecord
from storage.log.end import next_offset_of
from storage.log.listing import list_partition
from storage.log.read import AnyBatch, read_batches
from storage.log_dir import LogDir
from storage.names import LOG_START_OFFSET_CHECKPOINT
from storage.records import Record
from storage.schemas.decoding import Fields, decode
from storage.schemas.remote_log import REMOTE_LOG
from storage.tiers.segments import RemoteSegment, SegmentState, TieredPartition

TOPIC: Final = "__remote_log_metadata"
_PREFIX_BYTES: Final = 3
"""The versions and the key, each of one byte."""
_FRAME_VERSION: Final = 1
_MESSAGES: Final = {message.api_key: message for message in REMOTE_LOG.values() if message.api_key is not None}
_SEGMENT, _UPDATE, _PARTITION_DELETE = 0, 1, 2
_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_FACTOR: Final = 0x5BD1E995
_INT32: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SegmentAdded:
    """The first record of a segment."""

    segment: RemoteSegment


@dataclass(frozen=True, slots=True)
class SegmentUpdated:
    """A later record of a segment."""

    partition: TieredPartition
    segment_id: str
    state: SegmentState
    event_ms: int
    broker_id: int
    custom_metadata: bytes | None


@dataclass(frozen=True, slots=True)
class PartitionDeleted:
    """A record of the deletion of a partition. ``state``: 0 marked, 1 started, 2 finished."""

    partition: TieredPartition
    state: int
    event_ms: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """A record of a message or a version that nobody here knows."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Bytes that are no such record."""


Event = SegmentAdded | SegmentUpdated | PartitionDeleted | Unknown | Undecodable


def parse_event(value: bytes) -> Event:
    """Decode the value of one record. Raises: InvalidRecord."""
    if len(value) < _PREFIX_BYTES:
        raise InvalidRecord(f"a record of {len(value)} bytes")
    frame, kind, version = value[:_PREFIX_BYTES]
    if frame != _FRAME_VERSION:
        raise InvalidRecord(f"a frame of version {frame}")
    message = _MESSAGES.get(kind)
    if message is None or not message.versions.holds(version) or kind not in (_SEGMENT, _UPDATE, _PARTITION_DELETE):
        return Unknown()
    fields = decode(message, version, value, _PREFIX_BYTES)
    if kind == _PARTITION_DELETE:
        partition = _partition(fields["topicIdPartition"])
        return PartitionDeleted(partition, fields["remotePartitionDeleteState"], fields["eventTimestampMs"])
    segment_id: Fields = fields["remoteLogSegmentId"]
    partition = _partition(segment_id["topicIdPartition"])
    try:
        state = SegmentState(fields["remoteLogSegmentState"])
    except ValueError as error:
        raise InvalidRecord(f"state {fields['remoteLogSegmentState']} of a remote segment") from error
    custom, event_ms, broker_id = fields["customMetadata"], fields["eventTimestampMs"], fields["brokerId"]
    if kind == _UPDATE:
        return SegmentUpdated(partition, segment_id["id"], state, event_ms, broker_id, custom)
    epochs = (LeaderEpochEntry(entry["leaderEpoch"], entry["offset"]) for entry in fields["segmentLeaderEpochs"])
    return SegmentAdded(
        RemoteSegment(
            partition,
            segment_id["id"],
            fields["startOffset"],
            fields["endOffset"],
            tuple(sorted(epochs)),
            fields["maxTimestampMs"],
            fields["segmentSizeInBytes"],
            state,
            event_ms,
            broker_id,
            custom,
            has_metadata=True,
        )
    )


def events_of(batches: Iterable[AnyBatch]) -> Iterator[tuple[Record, Event]]:
    """Yield the records of batches, each with what it tells. Raises: CorruptBatch."""
    for batch in batches:
        if getattr(batch.header, "is_control", False):
            continue
        for record in batch.records():
            try:
                yield record, parse_event(record.value or b"")
            except InvalidRecord:
                yield record, Undecodable()


def _partition(fields: Fields) -> TieredPartition:
    return TieredPartition(fields["name"], fields["partition"], fields["id"])


@dataclass(slots=True)
class SegmentReplay:
    """The state of remote segments behind the events so far."""

    segments: dict[TieredPartition, dict[str, RemoteSegment]] = field(default_factory=lambda: defaultdict(dict))
    """By segment id. Segments whose deletion ended are gone."""
    unfounded: dict[TieredPartition, dict[str, SegmentUpdated]] = field(default_factory=lambda: defaultdict(dict))
    """The last updates of segments whose first record is not there."""
    deleted: dict[TieredPartition, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The ids of the segments whose deletion ended."""
    deletions: dict[TieredPartition, PartitionDeleted] = field(default_factory=dict)
    """The last event about the deletion of a partition."""
    unknown: int = 0
    """The number of records of a message or a version that nobody here knows."""

    def take(self, event: Event) -> None:
        """Apply an event."""
        if isinstance(event, SegmentAdded):
            self._add(event.segment)
        elif isinstance(event, SegmentUpdated):
            self._update(event)
        elif isinstance(event, PartitionDeleted):
            self.deletions[event.partition] = event
        else:
            self.unknown += isinstance(event, Unknown)

    def _add(self, segment: RemoteSegment) -> None:
        self.segments[segment.partition][segment.segment_id] = segment
        self._forget_if_deleted(segment)

    def _update(self, event: SegmentUpdated) -> None:
        known = self.segments[event.partition].get(event.segment_id)
        if known is None:
            self.unfounded[event.partition][event.segment_id] = event
            if event.state is SegmentState.DELETE_SEGMENT_FINISHED:
                del self.unfounded[event.partition][event.segment_id]
                self.deleted[event.partition].add(event.segment_id)
            return
        custom = known.custom_metadata if event.custom_metadata is None else event.custom_metadata
        updated = replace(
            known, state=event.state, event_ms=event.event_ms, broker_id=event.broker_id, custom_metadata=custom
        )
        self.segments[event.partition][event.segment_id] = updated
        self._forget_if_deleted(updated)

    def _forget_if_deleted(self, segment: RemoteSegment) -> None:
        if segment.state is SegmentState.DELETE_SEGMENT_FINISHED:
            del self.segments[segment.partition][segment.segment_id]
            self.deleted[segment.partition].add(segment.segment_id)


@dataclass(frozen=True, slots=True)
class TierMetadata:
    """All that the partitions of ``__remote_log_metadata`` that are here tell."""

    replay: SegmentReplay
    ends_ms: Mapping[int, int]
    """By partition of the metadata topic that is here: the largest timestamp of its records, epoch ms; -1 for none."""
    places: Mapping[TieredPartition, int]
    """The partition of the metadata topic in which an event of a partition was found."""
    partition_count: int | None = None
    """The number of partitions that the metadata topic has, if somebody states it."""

    def segments_of(self, partition: TieredPartition) -> Mapping[str, RemoteSegment]:
        """Return the segments of a partition that are not deleted, by id."""
        return self.replay.segments.get(partition, {})

    def partitions(self) -> set[TieredPartition]:
        """Return the partitions that have a segment."""
        return {partition for partition, found in self.replay.segments.items() if found}

    def speaks_of(self, partition: TieredPartition) -> int | None:
        """Return until when, epoch ms, the metadata here tell of a partition; None if its part is not here."""
        place = self.places.get(partition)
        if place is None and self.partition_count is not None:
            place = metadata_partition(partition, self.partition_count)
        return None if place is None else self.ends_ms.get(place)


NO_METADATA: Final = TierMetadata(SegmentReplay(), {}, {})


def read_metadata(log_dirs: Iterable[Path], partition_count: int | None = None) -> TierMetadata:
    """Read all partitions of the metadata topic that lie in log dirs.

    Args:
        log_dirs: their paths.
        partition_count: the number of partitions of that topic, if somebody states it.

    Raises: CorruptBatch, UnreadableFile, CorruptCheckpoint.
    """
    replay, ends_ms, places = SegmentReplay(), dict[int, int](), dict[TieredPartition, int]()
    for path in log_dirs:
        log_dir = LogDir(path)
        starts = log_dir.offsets(LOG_START_OFFSET_CHECKPOINT)
        for topic_partition, directory in log_dir.partitions(lambda found: found.topic == TOPIC):
            end_ms, seen = _replay_partition(replay, directory, starts.get(topic_partition, 0))
            ends_ms[topic_partition.partition] = max(end_ms, ends_ms.get(topic_partition.partition, -1))
            places |= dict.fromkeys(seen, topic_partition.partition)
    return TierMetadata(replay, ends_ms, places, partition_count)


def _replay_partition(
    replay: SegmentReplay, directory: Path, log_start_offset: int
) -> tuple[int, set[TieredPartition]]:
    """Apply the events of one partition; return its largest timestamp, and the partitions that it tells of."""
    segments, newest_ms, seen = list_partition(directory).segments, -1, set[TieredPartition]()
    if not segments:
        return newest_ms, seen
    for record, event in events_of(read_batches(segments, log_start_offset, next_offset_of(segments[-1]))):
        newest_ms = max(newest_ms, record.timestamp_ms)
        replay.take(event)
        if isinstance(event, SegmentAdded):
            seen.add(event.segment.partition)
        elif isinstance(event, SegmentUpdated | PartitionDeleted):
            seen.add(event.partition)
    return newest_ms, seen


def metadata_partition(partition: TieredPartition, count: int) -> int:
    """Return the partition of the metadata topic that tells of a partition.

    Source: Kafka RemoteLogMetadataTopicPartitioner.metadataPartition.
    """
    raw = base64.urlsafe_b64decode(partition.topic_id + "==")
    high, low = int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")
    hashed = 1
    for part in (_folded(low), _folded(high), partition.partition):
        hashed = (31 * hashed + part) & _INT32
    return (_murmur2(hashed.to_bytes(4, "big")) & 0x7FFFFFFF) % count


def _folded(number: int) -> int:
    """Return Java's hash of a long."""
    return (number ^ number >> 32) & _INT32


def _murmur2(data: bytes) -> int:
    """Return Kafka's hash of four bytes. Source: Kafka Utils.murmur2."""
    hashed = _MURMUR_SEED ^ len(data)
    part = int.from_bytes(data, "little") * _MURMUR_FACTOR & _INT32
    part = (part ^ part >> 24) * _MURMUR_FACTOR & _INT32
    hashed = (hashed * _MURMUR_FACTOR & _INT32) ^ part
    hashed = (hashed ^ hashed >> 13) * _MURMUR_FACTOR & _INT32
    return hashed ^ hashed >> 15
