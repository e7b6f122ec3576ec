"""Partition directories on disk, drawn segment by segment: ``PartitionDir(log_dir, "orders-0").segment(0, batch)``."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from cleaner.config.layers import Settings, build_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means
from policies import Request
from policies.config.config_keys import LONG_MAX
from policies.config.config_layers import ConfigLayers, Configured
from policies.config.config_sources import Said
from policies.facts import Boot
from storage.checkpoints import format_offset_checkpoint
from storage.filesystem import FileSystem
from storage.names import HIGH_WATERMARK_CHECKPOINT, parse_topic_partition
from storage.records import Record, encode_batch
from tests.batches import iter_batches

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


class FakeClock:
    """A clock that is set by hand; sleeping moves its stopwatch."""

    def __init__(self, now_ms: int = NOW_MS, boot: Boot | None = None) -> None:
        self.time_ms = now_ms
        self.booted = boot
        self.slept_seconds = 0.0

    def now_ms(self) -> int:
        return self.time_ms

    def boot(self) -> Boot | None:
        return self.booted

    def seconds(self) -> float:
        return self.slept_seconds

    def sleep(self, seconds: float) -> None:
        self.slept_seconds += seconds


def keyed(base_offset: int, /, *pairs: str, timestamp_ms: int = NOW_MS, **batch: Any) -> bytes:
    """A batch of ``"key=value"`` records at consecutive offsets; ``"key"`` alone is a tombstone."""
    records = []
    for place, pair in enumerate(pairs):
        key, has_value, value = pair.partition("=")
        records.append(Record(base_offset + place, timestamp_ms, key.encode(), value.encode() if has_value else None))
    return encode_batch(records, **batch)


class PartitionDir:
    """A partition in the making. Its high watermark is written last: ``log_dir_of``."""

    def __init__(self, log_dir: Path, name: str = "orders-0") -> None:
        self.path = log_dir / name
        self.path.mkdir(parents=True)
        self.end_offset = 0

    def segment(self, base_offset: int, *batches: bytes, mtime_ms: int = NOW_MS, aborted: bytes = b"") -> Self:
        """Add a segment with its indexes; the time index holds its largest timestamp."""
        data = b"".join(batches)
        headers = [batch.header for batch in iter_batches(data, Path("drawn"))]
        newest = max(headers, key=lambda header: header.max_timestamp_ms, default=None)
        entry = struct.pack(">qi", newest.max_timestamp_ms, newest.last_offset - base_offset) if newest else b""
        for suffix, content in ((".log", data), (".index", b""), (".timeindex", entry), (".txnindex", aborted)):
            if content or suffix != ".txnindex":
                path = self.path / f"{base_offset:020d}{suffix}"
                path.write_bytes(content)
                os.utime(path, ns=(mtime_ms * 1_000_000,) * 2)
        self.end_offset = headers[-1].next_offset if headers else base_offset
        return self

    def log(self, base_offset: int) -> Path:
        return self.path / f"{base_offset:020d}.log"


def committed(log_dir: Path, *partitions: PartitionDir) -> Path:
    """Checkpoint every partition's end as its high watermark, and leave the mark of a clean shutdown."""
    ends = {parse_topic_partition(p.path.name): p.end_offset for p in partitions}
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))  # type: ignore[arg-type]
    (log_dir / ".kafka_cleanshutdown").touch()
    return log_dir


def configured(*set_options: str, **topics: dict[str, str]) -> ConfigLayers:
    """Layers that state these topics' configs, by exact name; what is drawn lies at times of its own."""
    said = {topic: {key: Said(value, "test") for key, value in keys.items()} for topic, keys in topics.items()}
    return build_layers(Settings(topics=said), set_options=(f"clock.jump.max={LONG_MAX}", *set_options))


def deleted_from_by_name(log_dir: Path) -> Settings:
    """Every topic there is deleted from, whatever its own configuration says: that takes its exact name."""
    names = {found.topic for path in log_dir.iterdir() if (found := parse_topic_partition(path.name))}
    return Settings(topics={name: {"cleanup.policy": Said("delete", "test")} for name in names})


COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
EXPIRING = {"cleanup.policy": "delete", "retention.ms": str(DAY_MS)}


def a_cleaner(
    log_dir: Path,
    layers: ConfigLayers,
    fs: FileSystem | None = None,
    clock: FakeClock | None = None,
    threads: int = 1,
    **options: Any,
) -> Cleaner:
    """A cleaner of one log dir. ``options`` are the cleaner's own."""
    means = Means(fs=fs or FileSystem(), clock=clock or FakeClock(), threads=threads)
    return Cleaner(Configured((log_dir,), layers), means, **options)


def request(now_ms: int = NOW_MS, **options: Any) -> Request:
    return Request(now_ms, **options)


def records_in(directory: Path) -> list[Record]:
    """Every record of the plain ``.log`` files, CRCs checked, in offset order."""
    return [record for path in sorted(directory.glob("*.log")) for record in records_of(path)]


def records_of(path: Path) -> Iterable[Record]:
    for batch in iter_batches(path.read_bytes(), path):
        batch.ensure_valid()
        yield from batch.records()


def latest(directory: Path) -> dict[bytes | None, bytes]:
    """What a reader of the whole log ends up with: key -> value, deleted keys left out."""
    view: dict[bytes | None, bytes] = {}
    for record in records_in(directory):
        view.pop(record.key, None)
        if record.value is not None:
            view[record.key] = record.value
    return view


def file_names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}
