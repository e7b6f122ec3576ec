"""Reads what ``__remote_log_metadata`` says of segments in remote storage, and keeps segments whose events do not add
up.

Source: Kafka BytesApiMessageSerde, RemoteLogSegmentState, RemoteLogMetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from policies.findings.shapes.of_tiering import COPY_FINISHED, COPY_STARTED, DELETE_STARTED, UNKNOWN_START
from policies.findings.shapes.symptoms import RemoteCopy, RemoteMetadata
from storage.errors import InvalidRecord
from storage.log.read import AnyBatch, read_batches
from storage.schemas.decoding import Fields, decode
from storage.schemas.remote_log import REMOTE_LOG
from storage.segment import Segment

TOPIC: Final = "__remote_log_metadata"
BYTES_MAX: Final = 64 << 20
"""A larger partition is read only if all is asked for."""
_DELETED: Final = "DELETE_SEGMENT_FINISHED"
_STATES: Final = {0: COPY_STARTED, 1: COPY_FINISHED, 2: DELETE_STARTED, 3: _DELETED}
_SEGMENT, _UPDATE = 0, 1
_PREFIX_BYTES: Final = 2
"""The key of the message and its version, as varints, of one byte each."""
_NAMES: Final = {_SEGMENT: "RemoteLogSegmentMetadataRecord", _UPDATE: "RemoteLogSegmentMetadataUpdateRecord"}


class _Event(NamedTuple):
    is_first: bool
    segment_id: str
    topic_partition: str
    state: str
    time_ms: int


def remote_metadata(
    path: str, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int
) -> RemoteMetadata:
    """Return the segments whose events do not add up: begun and never ended, or without their first event.

    Where one event is of a later Kafka, nothing is known to be missing.

    Raises: CorruptBatch, UnreadableFile.
    """
    copies: dict[str, RemoteCopy] = {}
    known: set[str] = set()
    for event in _events(read_batches(segments, log_start_offset, log_end_offset)):
        if event is None:
            return RemoteMetadata(path, 0, ())
        if event.is_first:
            known.add(event.segment_id)
        state = event.state if event.segment_id in known else UNKNOWN_START
        if state in (COPY_STARTED, DELETE_STARTED, UNKNOWN_START):
            copies[event.segment_id] = RemoteCopy(state, event.topic_partition, event.time_ms)
        else:
            copies.pop(event.segment_id, None)
        if event.state == _DELETED:
            copies.pop(event.segment_id, None)
    return RemoteMetadata(path, len(known | copies.keys()), tuple(copies.values()))


def _events(batches: Iterable[AnyBatch]) -> Iterator[_Event | None]:
    """Yield the events about segments; None for one of a version that nobody here knows."""
    for batch in batches:
        for record in batch.records():
            data = record.value or b""
            if len(data) < _PREFIX_BYTES or data[0] not in _NAMES:
                continue
            if not REMOTE_LOG[_NAMES[data[0]]].versions.holds(data[1]):
                yield None
                continue
            with suppress(InvalidRecord):
                yield _event(data)


def _event(data: bytes) -> _Event:
    """Decode an event about a segment. Raises: InvalidRecord."""
    fields = decode(REMOTE_LOG[_NAMES[data[0]]], data[1], data, _PREFIX_BYTES)
    segment: Fields = fields["remoteLogSegmentId"]
    partition: Fields = segment["topicIdPartition"]
    state = _STATES.get(fields["remoteLogSegmentState"])
    if state is None:
        raise InvalidRecord(f"state {fields['remoteLogSegmentState']} of a remote segment")
    name = f"{partition['name']}-{partition['partition']}"
    return _Event(data[0] == _SEGMENT, segment["id"], name, state, fields["eventTimestampMs"])
