"""A small log directory on which to try everything, as a broker of Kafka 4 leaves it after a clean stop.

Each topic of the demo has a purpose, its configs and its records. Records are random, but the same for the same seed.
Times are relative to ``now_ms``.

Steps:      write the partitions, the cluster metadata that names topics and configs, the checkpoints, and, last of
            all, ``.kafka_cleanshutdown``.
"""

from __future__ import annotations

import base64
import errno
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem, Purpose
from storage.log import Log, LogConfig
from storage.log.config import NO_LIMIT_MS
from storage.metadata.metadata_encode import encode_config, encode_feature_level, encode_partition, encode_topic
from storage.metadata.metadata_log import ConfigSet, ResourceType, TopicCreated
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from storage.records import Record

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_SEGMENT_BYTES: Final = str(1 << 20)
"""The smallest size that Kafka 4 allows, for many segments from little data."""
_RECORDS_PER_BATCH: Final = 100
_TOMBSTONE_PERCENT: Final = 6
_WRONG_CLOCK_BATCH: Final = 10
_PAGES: Final = ("/", "/search", "/cart", "/checkout", "/account", "/help")
_STATES: Final = ("created", "paid", "packed", "shipped", "delivered", "returned")

_NODE_ID: Final = 1
_LEADER_EPOCH: Final = 0
_METADATA_LEADER_EPOCH: Final = 1
_METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
_METADATA_VERSION: Final = 25
"""The ``metadata.version`` of Kafka 4.0."""
_QUORUM_STATE: Final = {
    "clusterId": "",
    "leaderId": _NODE_ID,
    "leaderEpoch": _METADATA_LEADER_EPOCH,
    "votedId": -1,
    "appliedOffset": 0,
    "currentVoters": [{"voterId": _NODE_ID}],
    "data_version": 0,
}


class DemoBatch(NamedTuple):
    """Records that a producer sent together. Their offsets are not set."""

    records: list[Record]
    compression: Compression


class Scene(NamedTuple):
    """The sources from which the records of one partition are made."""

    random: Random
    partition: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """A topic of the demo. ``configs`` go into the cluster metadata; ``shows`` tells people what the topic shows."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    shows: str
    batches: Callable[[Scene], Iterator[DemoBatch]]

    @property
    def segment_bytes(self) -> int:
        """The value of ``segment.bytes``."""
        return int(self.configs["segment.bytes"])


@dataclass(frozen=True, slots=True)
class MadeTopic:
    """A topic of the demo as it lies on disk. ``size_bytes`` is the size of its ``.log`` files."""

    topic: DemoTopic
    segments: int
    size_bytes: int


def make_demo(directory: Path, fs: FileSystem, now_ms: int, seed: int) -> list[MadeTopic]:
    """Make the log directory. The same time and seed give the same bytes.

    Args:
        directory: must be absent or empty; its parent must exist.
        fs: the file system to write through.
        now_ms: epoch ms; all records but one lie before it.
        seed: the seed of everything random.

    Raises: FileExistsError if ``directory`` is not empty; OutOfSpace.
    """
    directory.mkdir(exist_ok=True)
    directory = directory.resolve()
    if any(directory.iterdir()):
        raise FileExistsError(errno.EEXIST, "the directory is not empty", str(directory))
    random = Random(seed)  # noqa: S311 - test data, no secret
    cluster_id = _uuid(random)
    place = _Place(directory, fs, now_ms, directory_id=_uuid(random))
    topic_ids = {topic.name: _uuid(random) for topic in TOPICS}
    log_ends: dict[TopicPartition, int] = {}
    made = [_make_topic(place, topic, topic_ids[topic.name], random, log_ends) for topic in TOPICS]
    _write_cluster_metadata(place, topic_ids)
    _write_meta_properties(place, cluster_id)
    for name in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        fs.replace_file(directory / name, format_offset_checkpoint(log_ends), Purpose.CHECKPOINT)
    fs.replace_file(directory / LOG_START_OFFSET_CHECKPOINT, format_offset_checkpoint({}), Purpose.CHECKPOINT)
    stopped = json.dumps({"version": 0, "brokerEpoch": 1}, separators=(",", ":"))
    fs.replace_file(directory / CLEAN_SHUTDOWN_FILE, stopped.encode(), Purpose.CHECKPOINT)
    return made


def _uuid(random: Random) -> str:
    """Return an id as Kafka makes it: 22 characters of URL-safe base64, never with a leading dash."""
    while (text := base64.urlsafe_b64encode(random.randbytes(16)).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


@dataclass(frozen=True, slots=True)
class _Place:
    """The place and the time of the demo, and the id of its directory."""

    directory: Path
    fs: FileSystem
    now_ms: int
    directory_id: str


def _write_cluster_metadata(place: _Place, topic_ids: dict[str, str]) -> None:
    directory = place.directory / f"{CLUSTER_METADATA_TOPIC}-0"
    topic_id, epoch = _METADATA_TOPIC_ID, _METADATA_LEADER_EPOCH
    with Log.create(directory, LogConfig(), place.fs, topic_id=topic_id, leader_epoch=epoch) as log:
        values = [encode_feature_level("metadata.version", _METADATA_VERSION)]
        for topic in TOPICS:
            values += _metadata_of(topic, topic_ids[topic.name], place.directory_id)
        records = [Record(0, place.now_ms, None, value) for value in values]
        log.append_records(records, now_ms=place.now_ms, leader_epoch=epoch)
    state = json.dumps(_QUORUM_STATE, separators=(",", ":")).encode()
    place.fs.replace_file(directory / "quorum-state", state, Purpose.CHECKPOINT)


def _metadata_of(topic: DemoTopic, topic_id: str, directory_id: str) -> list[bytes]:
    """Return a topic's metadata records in a controller's order: the topic, its configs, its partitions."""
    return [
        encode_topic(TopicCreated(topic.name, topic_id)),
        *(encode_config(ConfigSet(ResourceType.TOPIC, topic.name, k, v)) for k, v in topic.configs.items()),
        *(
            encode_partition(topic_id, partition, _NODE_ID, directory_id, _LEADER_EPOCH)
            for partition in range(topic.partitions)
        ),
    ]


def _write_meta_properties(place: _Place, cluster_id: str) -> None:
    written = datetime.fromtimestamp(place.now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = [
        "#",
        f"#{written}",
        f"node.id={_NODE_ID}",
        f"directory.id={place.directory_id}",
        "version=1",
        f"cluster.id={cluster_id}",
    ]
    data = "".join(f"{line}\n" for line in lines).encode()
    place.fs.replace_file(place.directory / META_PROPERTIES_FILE, data, Purpose.CHECKPOINT)


def _make_topic(
    place: _Place, topic: DemoTopic, topic_id: str, random: Random, log_ends: dict[TopicPartition, int]
) -> MadeTopic:
    segments = size_bytes = 0
    for partition in range(topic.partitions):
        name = TopicPartition(topic.name, partition)
        log = _make_partition(place, topic, name, topic_id, random)
        log_ends[name] = log.log_end_offset
        segments += len(log.segments)
        size_bytes += log.size_bytes
    return MadeTopic(topic, segments, size_bytes)


def _make_partition(place: _Place, topic: DemoTopic, name: TopicPartition, topic_id: str, random: Random) -> Log:
    """Make a partition with its records, and return its closed log."""
    config = LogConfig(segment_bytes=topic.segment_bytes, timestamp_after_max_ms=NO_LIMIT_MS)
    scene = Scene(random, name.partition, place.now_ms)
    directory = place.directory / str(name)
    with Log.create(directory, config, place.fs, topic_id=topic_id, leader_epoch=_LEADER_EPOCH) as log:
        for batch in topic.batches(scene):
            log.append_records(batch.records, now_ms=place.now_ms, compression=batch.compression)
    return log


def _plain(_: int) -> Compression:
    return Compression.NONE


def _stream(
    scene: Scene,
    records: int,
    days: int,
    record_at: Callable[[int], Record],
    codec_of: Callable[[int], Compression] = _plain,
) -> Iterator[DemoBatch]:
    """Yield records in batches, with times in equal steps from some days ago up to the last minute.

    Args:
        scene: of the partition.
        records: how many.
        days: the age of the first record.
        record_at: makes the record of a time.
        codec_of: gives the codec of a batch by the batch's place.
    """
    span_ms = days * _DAY_MS
    first_ms, step_ms = scene.now_ms - span_ms, (span_ms - 60_000) / records
    made = (record_at(first_ms + int(place * step_ms)) for place in range(records))
    for place in count():
        batch = list(islice(made, _RECORDS_PER_BATCH))
        if not batch:
            return
        yield DemoBatch(batch, codec_of(place))


def _payload(random: Random, random_bytes: int, **fields: object) -> bytes:
    """Return a JSON document that compresses to about half."""
    named = ",".join(f'"{key}":"{value}"' for key, value in fields.items())
    return f'{{{named},"trace":"{random.randbytes(random_bytes).hex()}"}}'.encode()


def _clicks(scene: Scene) -> Iterator[DemoBatch]:
    random = scene.random

    def click(time_ms: int) -> Record:
        return Record(0, time_ms, None, _payload(random, 180, page=random.choice(_PAGES), user=random.randrange(5000)))

    return _stream(scene, 20_000, 8, click)


def _order(scene: Scene, time_ms: int) -> Record:
    """Return an update of one of 1,500 orders. Early orders are updated more often; a few updates are tombstones."""
    random = scene.random
    key = f"order-{scene.partition}-{int(1500 * random.random() ** 2):04d}".encode()
    headers = ((b"source", random.choice((b"web", b"shop", b"app"))), (b"retry", None))
    if random.randrange(100) < _TOMBSTONE_PERCENT:
        return Record(0, time_ms, key, None, headers)
    return Record(0, time_ms, key, _payload(random, 200, state=random.choice(_STATES)), headers)


def _orders(scene: Scene) -> Iterator[DemoBatch]:
    codecs = tuple(Compression)
    return _stream(
        scene, 12_000, 5, partial(_order, scene), lambda place: codecs[(place + scene.partition) % len(codecs)]
    )


def _sessions(scene: Scene) -> Iterator[DemoBatch]:
    random = scene.random

    def session(time_ms: int) -> Record:
        key = f"session-{random.randrange(800)}".encode()
        return Record(0, time_ms, key, _payload(random, 220, page=random.choice(_PAGES)))

    return _stream(scene, 14_000, 6, session, lambda _: Compression.LZ4)


def _audit(scene: Scene) -> Iterator[DemoBatch]:
    def login(time_ms: int) -> Record:
        key = f"user-{scene.random.randrange(300)}".encode()
        return Record(0, time_ms, key, _payload(scene.random, 300, action="login"))

    return _stream(scene, 14_000, 20, login)


def _future(scene: Scene) -> Iterator[DemoBatch]:
    """Yield six days of readings. In one early record, the sensor's clock is wrong by 400 days."""

    def reading(time_ms: int) -> Record:
        key = f"sensor-{scene.random.randrange(40)}".encode()
        return Record(0, time_ms, key, _payload(scene.random, 180, unit="C"))

    for place, batch in enumerate(_stream(scene, 9_000, 6, reading)):
        if place == _WRONG_CLOCK_BATCH:
            batch.records[-1] = replace(batch.records[-1], timestamp_ms=scene.now_ms + 400 * _DAY_MS)
        yield batch


def _configs(policy: str, **others: object) -> dict[str, str]:
    """Return a topic's configs. The names of arguments are Kafka's keys, with underscores for dots."""
    named = {key.replace("_", "."): str(value) for key, value in others.items()}
    return {"cleanup.policy": policy, "segment.bytes": _SEGMENT_BYTES, **named}


TOPICS: Final = (
    DemoTopic(
        "clicks",
        1,
        _configs("delete", retention_ms=3 * _DAY_MS),
        "8 days of unkeyed records, kept for 3: the oldest segments go by time",
        _clicks,
    ),
    DemoTopic(
        "orders",
        3,
        _configs("compact", delete_retention_ms=_DAY_MS),
        "updates, tombstones and headers in all five codecs: compaction keeps the latest per key",
        _orders,
    ),
    DemoTopic(
        "sessions",
        1,
        _configs("compact,delete", retention_ms=2 * _DAY_MS),
        "6 days, kept for 2 and compacted: both policies at once",
        _sessions,
    ),
    DemoTopic(
        "audit",
        1,
        _configs("delete", retention_bytes=4 << 20, retention_ms=-1),
        "limited to 4 MiB, whatever its age: the oldest segments go by size",
        _audit,
    ),
    DemoTopic(
        "future",
        1,
        _configs("delete", retention_ms=3 * _DAY_MS),
        "one record lies 400 days ahead: it pins its segment and all behind it",
        _future,
    ),
    DemoTopic("empty", 1, _configs("delete"), "no record: nothing to do", lambda _: iter(())),
)
