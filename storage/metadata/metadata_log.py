"""KRaft cluster metadata, read from ``__cluster_metadata-0``: topics, their ids and configs, and broker configs.

Steps:      replay the newest complete snapshot, then the log behind it, in offset order.
Stops at: a torn tail, as a broker does. Damage in front of whole records, a gap in the offsets, or a record of a later
Kafka raises an error: a config that we cannot read must not count as not stated.
Assumes:    the end of the log is committed; its high watermark is not stored on disk.
Framing:    of a value: unsigned varints frame version (1), record type, record version; then the message. Messages are
            "flexible": a compact string is its length plus one as unsigned varint, then UTF-8; each message ends in
            tagged fields.
Source:     Kafka ``Snapshots``, ``RecordsSnapshotReader``, ``MetadataLoader``, ``ReplicationControlManager``,
            ``MetadataRecordSerde``, ``metadata/src/main/resources/common/metadata/*.json``.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from storage.directory import OpenFile, close, entries, open_file
from storage.errors import CorruptBatch, InvalidRecord, UnreadableFile, as_unreadable
from storage.names import FileKind, FileState, parse_segment_file_name
from storage.records.read_batches import PositionedHeader, iter_headers, read_batch
from storage.records.v2 import Batch, ControlType, parse_control_type

_FRAME_VERSION: Final = 1
_UVARINT_BYTES_MAX: Final = 5
_UUID_BYTES: Final = 16

_R = TypeVar("_R", bound="Replay")
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
Configs = Mapping[str, str]
"""Config key -> value, as a user gave it."""


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The state of the cluster that the metadata log describes up to ``end_offset`` (exclusive).

    Attributes:
        directory: where it was read.
        topic_ids: topic -> its id, 22 characters of URL-safe base64 as in ``partition.metadata``.
        topic_configs: topic -> what was set for it; topics without own configs are left out.
        cluster_default: what was set for all brokers.
        broker_configs: node id, as text -> what was set for that broker.
        torn_tail_bytes: the bytes at the end of the log that are no batch, which a broker would cut off.
        newest_record_ms: largest timestamp of a batch that was read, epoch ms; None if no batch has one.
    """

    directory: Path
    end_offset: int
    topic_ids: Mapping[str, str]
    topic_configs: Mapping[str, Configs]
    cluster_default: Configs
    broker_configs: Mapping[str, Configs]
    torn_tail_bytes: int
    newest_record_ms: int | None = None


def read_cluster_metadata(directory: Path) -> ClusterMetadata:
    """Read the metadata partition in ``directory``.

    Raises:
        UnreadableFile: the directory or a file of it cannot be read, or it holds neither snapshot nor log.
        CorruptBatch: damage that is no torn tail, missing offsets, or a record that only a later Kafka knows.
    """
    replay, torn_tail_bytes = replayed(directory, Replay)
    return ClusterMetadata(
        directory=directory,
        end_offset=replay.end_offset,
        topic_ids={name: topic_id for topic_id, name in replay.topic_names.items()},
        topic_configs=replay.configs_of(ResourceType.TOPIC),
        cluster_default=replay.configs_of(ResourceType.BROKER).get("", {}),
        broker_configs={node: c for node, c in replay.configs_of(ResourceType.BROKER).items() if node},
        torn_tail_bytes=torn_tail_bytes,
        newest_record_ms=replay.newest_record_ms,
    )


def replayed(directory: Path, begin: Callable[[int], _R]) -> tuple[_R, int]:
    """Replay the metadata partition in ``directory``.

    Args:
        directory: of the partition.
        begin: makes the state to which the records are applied; its argument is the offset below which the state holds
            everything.

    Returns: the state, and the bytes at the end of the log that are no batch. Raises: as ``read_cluster_metadata``.
    """
    snapshots, segments = _list(directory)
    if not snapshots and not segments:
        raise UnreadableFile(directory, "holds neither a snapshot nor a log of the cluster metadata")
    begun = (_replay_snapshot(snapshot, begin(snapshot.end_offset)) for snapshot in snapshots)
    replay = next(filter(None, begun), None) or begin(0)
    return replay, _replay_log(replay, segments)


class Replay:
    """The state that the records seen so far make."""

    def __init__(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.newest_record_ms: int | None = None
        self.topic_names: dict[str, str] = {}
        self._configs: defaultdict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        self._in_transaction: list[MetadataRecord] | None = None

    def configs_of(self, resource_type: ResourceType) -> dict[str, Configs]:
        """Return resource name -> configs, of the resources that have any."""
        return {name: configs for (kind, name), configs in self._configs.items() if kind == resource_type and configs}

    def note_time(self, batch: Batch) -> None:
        """Remember the largest timestamp of a batch, control batches included: a leader writes one at each election."""
        if batch.header.max_timestamp_ms >= 0:
            self.newest_record_ms = max(self.newest_record_ms or 0, batch.header.max_timestamp_ms)

    def read(self, value: bytes) -> None:
        """Take the value of a record, if it concerns us. Raises: InvalidRecord."""
        if known := parse_metadata_record(value):
            self.take(known)

    def take(self, record: MetadataRecord) -> None:
        """Apply a record, at once or with the end of its transaction."""
        match record:
            case TransactionBegun():
                self._in_transaction = []
            case TransactionAborted():
                self._in_transaction = None
            case TransactionEnded():
                ended, self._in_transaction = self._in_transaction or [], None
                for delayed in ended:
                    self.apply(delayed)
            case _ if self._in_transaction is not None:
                self._in_transaction.append(record)
            case _:
                self.apply(record)

    def apply(self, record: MetadataRecord) -> None:
        """Take the effect of a record whose transaction, if there is one, has ended."""
        match record:
            case TopicCreated(name, topic_id):
                self.topic_names[topic_id] = name
            case TopicRemoved(topic_id):
                if (removed := self.topic_names.pop(topic_id, None)) is not None:
                    self._configs.pop((ResourceType.TOPIC, removed), None)
            case ConfigSet(kind, name, key, None):
                self._configs[kind, name].pop(key, None)
            case ConfigSet(kind, name, key, str(value)):
                self._configs[kind, name][key] = value


class ResourceType(IntEnum):
    """The kind of resource that has a config. Source: Kafka ``ConfigResource.Type``; others do not concern us."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists. ``topic_id`` is in Kafka's text form, 22 characters of URL-safe base64."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic was removed, with its configs."""

    topic_id: str


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """A config is set, or with value None unset. A broker's ``resource_name`` is its node id, "" for all
    brokers."""

    resource_type: int
    resource_name: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class TransactionBegun:
    """The beginning of a transaction: the records up to its end take effect together or not at all."""


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """The records since the beginning take effect."""


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """The records since the beginning take no effect."""


MetadataRecord = TopicCreated | TopicRemoved | ConfigSet | TransactionBegun | TransactionEnded | TransactionAborted

_READERS: Final[dict[int, Callable[[MetadataMessage], MetadataRecord]]] = {
    2: lambda message: TopicCreated(message.string(), message.uuid()),
    4: lambda message: ConfigSet(message.int8(), message.string(), message.string(), message.nullable_string()),
    9: lambda message: TopicRemoved(message.uuid()),
    23: lambda _: TransactionBegun(),
    24: lambda _: TransactionEnded(),
    25: lambda _: TransactionAborted(),
}
"""Record type -> its reader. The tagged fields (a transaction's name or reason) say nothing that we need."""


class MetadataMessage:
    """Reads the fields of a message in order; every length is checked before it is used."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size_bytes: int) -> bytes:
        """Return the next bytes. Raises: InvalidRecord."""
        end = self._position + size_bytes
        if end > len(self._data):
            raise InvalidRecord(f"a field of {size_bytes} bytes reaches past the end of the metadata record")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def uvarint(self) -> int:
        """Read an unsigned varint."""
        value = 0
        for place in range(_UVARINT_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise InvalidRecord(f"an unsigned varint of more than {_UVARINT_BYTES_MAX} bytes in a metadata record")

    def int8(self) -> int:
        """Read a signed byte."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def uuid(self) -> str:
        """Read a UUID, as text."""
        return base64.urlsafe_b64encode(self.take(_UUID_BYTES)).rstrip(b"=").decode("ascii")

    def nullable_string(self) -> str | None:
        """Read a compact string, which may be null."""
        length = self.uvarint()
        if length == 0:
            return None
        try:
            return self.take(length - 1).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRecord("a string of a metadata record is no UTF-8") from error

    def string(self) -> str:
        """Read a compact string."""
        if (text := self.nullable_string()) is None:
            raise InvalidRecord("a string of a metadata record is null")
        return text

    def finish(self) -> None:
        """Step over the tagged fields, which end the message."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())
        if self._position != len(self._data):
            raise InvalidRecord("bytes are left behind a metadata record")


def parse_metadata_record(value: bytes) -> MetadataRecord | None:
    """Decode the value of one record of the metadata log; None for a type that does not concern us.

    Raises:
        InvalidRecord: a frame or record version of a later Kafka, a length that reaches past the end, bytes
            left over.
    """
    message = MetadataMessage(value)
    if (frame_version := message.uvarint()) != _FRAME_VERSION:
        raise InvalidRecord(f"metadata records of frame version {frame_version} are not known")
    record_type, version = message.uvarint(), message.uvarint()
    reader = _READERS.get(record_type)
    if reader is None:
        return None
    if version != 0:
        raise InvalidRecord(f"metadata record type {record_type} of version {version} is not known")
    record = reader(message)
    message.finish()
    return record


def _list(directory: Path) -> tuple[list[_Snapshot], list[tuple[int, Path]]]:
    """List the snapshots, the newest first, and (base offset, path) of the segments in ascending order."""
    snapshots, segments = [], []
    with as_unreadable(directory), entries(directory) as listed:
        paths = [directory / entry.name for entry in listed]
    for path in paths:
        if found := _SNAPSHOT.fullmatch(path.name):
            snapshots.append(_Snapshot(int(found[1]), int(found[2]), path))
        name = parse_segment_file_name(path.name)
        if name and name.kind is FileKind.LOG and name.state is FileState.PLAIN:
            segments.append((name.base_offset, path))
    return sorted(snapshots, reverse=True), sorted(segments)


class _Snapshot(NamedTuple):
    """Snapshots sort by their end offset (exclusive), then by their epoch."""

    end_offset: int
    epoch: int
    path: Path


def _replay_snapshot(snapshot: _Snapshot, replay: _R) -> _R | None:
    """Read the state of a snapshot; None if it is not complete from header to footer."""
    controls: list[ControlType] = []
    batches = _Batches(snapshot.path, may_be_torn=True)
    for batch in batches:
        replay.note_time(batch)
        if batch.header.is_control:
            controls += _control_types(batch)
        else:
            _take_records(replay, batch, from_offset=0)
    is_complete = (
        len(controls) > 1
        and controls[0] is ControlType.SNAPSHOT_HEADER
        and controls[-1] is ControlType.SNAPSHOT_FOOTER
        and not batches.torn_bytes
    )
    return replay if is_complete else None


class _Batches:
    """The batches of a file, CRCs checked.

    After the walk, ``torn_bytes`` is the number of bytes behind the last batch.
    """

    def __init__(self, path: Path, *, may_be_torn: bool) -> None:
        self._path = path
        self._may_be_torn = may_be_torn
        self.torn_bytes = 0

    def __iter__(self) -> Iterator[Batch]:
        with as_unreadable(self._path):
            file, size_bytes = open_file(self._path)
        try:
            with as_unreadable(self._path):
                yield from self._walk(file, size_bytes)
        finally:
            close(file)

    def _walk(self, file: OpenFile, size_bytes: int) -> Iterator[Batch]:
        end = 0
        try:
            for found in iter_headers(file, self._path, end=size_bytes):
                batch = _whole_batch(file, self._path, found)
                yield batch
                end = batch.position + batch.header.size_bytes
        except CorruptBatch:
            if not self._may_be_torn:
                raise
        self.torn_bytes = size_bytes - end
        if self.torn_bytes and self._may_be_torn:
            from storage.records.batch_search import next_whole_batch  # noqa: PLC0415 - a sound log needs no numpy

            whole = next_whole_batch(file, self._path, end + 1, size_bytes)
            if whole is not None:
                raise CorruptBatch(self._path, end, f"damage in front of the whole batch at byte {whole}")


def _whole_batch(file: OpenFile, path: Path, found: PositionedHeader) -> Batch:
    batch = read_batch(file, path, found)
    if not isinstance(batch, Batch):
        raise CorruptBatch(path, found.position, "a batch of the cluster metadata must be of version 2")
    batch.ensure_valid()
    return batch


def _control_types(batch: Batch) -> list[ControlType]:
    try:
        return [parse_control_type(record.key) for record in batch.records()]
    except InvalidRecord as error:
        raise CorruptBatch(batch.path, batch.position, str(error)) from error


def _take_records(replay: Replay, batch: Batch, *, from_offset: int) -> None:
    try:
        for record in batch.records():
            if record.offset >= from_offset:
                replay.read(record.value or b"")
    except InvalidRecord as error:
        raise CorruptBatch(batch.path, batch.position, str(error)) from error


def _replay_log(replay: Replay, segments: list[tuple[int, Path]]) -> int:
    """Replay the records at and behind ``replay.end_offset``; returns the size of the torn tail."""
    torn_bytes = 0
    for place, (base_offset, path) in enumerate(segments):
        is_last = place + 1 == len(segments)
        if not is_last and segments[place + 1][0] <= replay.end_offset:
            continue  # the snapshot holds the whole segment
        if base_offset > replay.end_offset:
            cause = f"the cluster metadata at offsets {replay.end_offset} to {base_offset - 1} is missing"
            raise CorruptBatch(path, 0, cause)
        batches = _Batches(path, may_be_torn=is_last)
        _replay_segment(replay, batches, base_offset)
        torn_bytes = batches.torn_bytes
    return torn_bytes


def _replay_segment(replay: Replay, batches: _Batches, base_offset: int) -> None:
    due_offset = base_offset
    for batch in batches:
        if batch.base_offset != due_offset:  # the CRC does not cover it
            cause = f"starts at offset {batch.base_offset} where {due_offset} is due"
            raise CorruptBatch(batch.path, batch.position, cause)
        replay.note_time(batch)
        if not batch.header.is_control:
            _take_records(replay, batch, from_offset=replay.end_offset)
        due_offset = batch.header.next_offset
        replay.end_offset = max(replay.end_offset, due_offset)
