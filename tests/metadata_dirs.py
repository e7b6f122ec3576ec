"""A cluster metadata log in the making, and a broker's session that appends to it."""

from __future__ import annotations

from pathlib import Path

from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.metadata.metadata_encode import encode_config, encode_topic
from storage.metadata.metadata_log import ConfigSet, ResourceType, TopicCreated, read_cluster_metadata
from storage.records.v2 import Record, encode_batch

METADATA_DIR = "__cluster_metadata-0"
_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAA"


def metadata_log(log_dir: Path) -> Path:
    return log_dir / METADATA_DIR / f"{0:020d}.log"


def write_metadata(log_dir: Path, **topics: dict[str, str]) -> Path:
    """A metadata log that knows these topics, each with its configs."""
    (log_dir / METADATA_DIR).mkdir(parents=True)
    metadata_log(log_dir).write_bytes(b"")
    created = [encode_topic(TopicCreated(name, f"{n:02d}{_TOPIC_ID}")) for n, name in enumerate(topics)]
    append_metadata(log_dir, created)
    alter(log_dir, **topics)
    return log_dir


def alter(log_dir: Path, *, timestamp_ms: int = 1, **topics: dict[str, str | None]) -> None:
    """What a controller appends when these configs are altered; None takes a key back."""
    records = [
        encode_config(ConfigSet(ResourceType.TOPIC, topic, key, value))
        for topic, configs in topics.items()
        for key, value in configs.items()
    ]
    append_metadata(log_dir, records, timestamp_ms)


def session(log_dir: Path, **topics: dict[str, str | None]) -> None:
    """A broker that starts, alters topics, and stops: it has the lock meanwhile."""
    with LogDir(log_dir).lock(FileSystem()):
        alter(log_dir, **topics)


def append_metadata(log_dir: Path, values: list[bytes], timestamp_ms: int = 1) -> None:
    """Append these records to the metadata log, as one batch."""
    if values:
        path = metadata_log(log_dir)
        end = read_cluster_metadata(path.parent).end_offset if path.stat().st_size else 0
        batch = encode_batch([Record(end + n, timestamp_ms, None, value) for n, value in enumerate(values)])
        with path.open("ab") as file:
            file.write(batch)
