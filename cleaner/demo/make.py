"""Make the demo: a log directory as a broker of Kafka 4 leaves it after a clean stop, without a broker.

Steps:      write the partitions, the cluster metadata that names topics and configs, the checkpoints, and, last of
            all, ``.kafka_cleanshutdown``.
"""

from __future__ import annotations

import base64
import errno
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from cleaner.demo.sample_topics import TOPICS, DemoTopic, Scene
from storage.checkpoints import format_offset_checkpoint
from storage.filesystem import FileSystem, Purpose
from storage.log import Log, LogConfig
from storage.log.config import NO_LIMIT_MS
from storage.metadata.metadata_encode import encode_config, encode_feature_level, encode_partition, encode_topic
from storage.metadata.metadata_records import ConfigSet, ResourceType, TopicCreated
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


@dataclass(frozen=True, slots=True)
class MadeTopic:
    """A topic of the demo as it lies on disk. ``size_bytes`` is the size of its ``.log`` files."""

    topic: DemoTopic
    segments: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Place:
    """The place and the time of the demo, and the id of its directory."""

    directory: Path
    fs: FileSystem
    now_ms: int
    directory_id: str


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


def _uuid(random: Random) -> str:
    """Return an id as Kafka makes it: 22 characters of URL-safe base64, never with a leading dash."""
    while (text := base64.urlsafe_b64encode(random.randbytes(16)).rstrip(b"=").decode()).startswith("-"):
        pass
    return text
