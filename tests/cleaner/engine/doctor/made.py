"""A healthy log dir in the making, with a topic of each kind, and how the doctor looks at one."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.main import main
from storage.checkpoints import format_offset_checkpoint
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.config import NO_LIMIT_MS
from storage.log.writing.validation import Producer
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_topic_partition,
)
from storage.records import ControlType, Record
from tests.batches import encode_control_batch
from tests.metadata_dirs import write_metadata

NOW_MS: Final = 1_800_000_000_000
HOUR_MS: Final = 3_600_000
TOPICS: Final = {
    "clicks": {"cleanup.policy": "delete", "retention.ms": "864000000"},
    "orders": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
    "payments": {"cleanup.policy": "delete", "retention.ms": "864000000"},
    "tiered": {
        "cleanup.policy": "delete",
        "remote.storage.enable": "true",
        "retention.ms": "864000000",
        "local.retention.ms": "86400000",
    },
    "__share_group_state": {"cleanup.policy": "delete"},
    "__remote_log_metadata": {"cleanup.policy": "delete"},
}
FS: Final = FileSystem()
TEMPLATE: Final = "template"
DENSE: Final = LogConfig(index_interval_bytes=0, timestamp_after_max_ms=NO_LIMIT_MS)
"""A log with an index entry a batch, that takes records from the future."""


class Healthy:
    """A log dir as a broker's clean stop leaves it."""

    def __init__(self, log_dir: Path, **changed: dict[str, str]) -> None:
        self.log_dir = log_dir
        self.ids = {name: f"{place:02d}{'A' * 20}" for place, name in enumerate(TOPICS)}
        if changed or log_dir.name == TEMPLATE:
            self._make({name: {**configs, **changed.get(name, {})} for name, configs in TOPICS.items()})
        else:
            shutil.copytree(Path(template().name, TEMPLATE), log_dir)
        time.sleep(0.01)  # a step of the clock that stamps files: what is done to a log dir is later than the log dir

    def _make(self, topics: dict[str, dict[str, str]]) -> None:
        self.log_dir.mkdir(parents=True)
        write_metadata(self.log_dir, **topics)
        for log in (self.log_dir / "__cluster_metadata-0").glob("*.log"):
            log.with_suffix(".index").touch()
            log.with_suffix(".timeindex").touch()
        (self.log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
        for name in topics:
            self.partition(f"{name}-0")
        self.stopped()

    def partition(self, name: str, *, at_ms: int = NOW_MS - HOUR_MS, key: bytes | None = b"k") -> None:
        """Three segments of records, one batch each, in leader epoch 0, 1 and 2."""
        topic = name.rpartition("-")[0]
        with Log.create(
            self.log_dir / name,
            DENSE,
            FS,
            topic_id=self.ids.get(topic, "Z" * 22),
        ) as log:
            for epoch in range(3):
                for _ in range(2):
                    log.append_records([Record(0, at_ms, key, b"v" * 50)], now_ms=at_ms, leader_epoch=epoch)
                if epoch < 2:
                    log.roll(at_ms)

    def log_of(self, name: str) -> Log:
        return Log.open(self.log_dir / name, DENSE, FS)

    def transaction(self, name: str, end: ControlType | None, *, by: int = 7, at_ms: int = NOW_MS - HOUR_MS) -> None:
        """One more transaction at the end of a log."""
        with self.log_of(name) as log:
            record = [Record(0, at_ms, b"t", b"v")]
            log.append_records(
                record, now_ms=at_ms, leader_epoch=2, compression=Compression.NONE, producer=Producer(by, 0, 0, True)
            )
            if end is not None:
                marker = encode_control_batch(
                    end, offset=0, timestamp_ms=at_ms, producer_id=by, producer_epoch=0, coordinator_epoch=0
                )
                log.append(marker, now_ms=at_ms, leader_epoch=2, origin=AppendOrigin.COORDINATOR)
        self.stopped()

    def stopped(self) -> None:
        """Write the checkpoints of a clean stop, and give all files the time of their records."""
        names = [path.name for path in self.log_dir.iterdir() if path.name.endswith("-0")]
        ends = {found: self.log_of(name).log_end_offset for name in names if (found := live(name))}
        for checkpoint in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
            (self.log_dir / checkpoint).write_bytes(format_offset_checkpoint(ends))
        (self.log_dir / CLEAN_SHUTDOWN_FILE).touch()
        for path in self.log_dir.rglob("*"):
            os.utime(path, ns=((NOW_MS - HOUR_MS) * 1_000_000,) * 2)

    def clean(self, name: str, offset: int) -> None:
        """Note how far a cleaner came."""
        found = live(name)
        assert found is not None
        (self.log_dir / CLEANER_OFFSET_CHECKPOINT).write_bytes(format_offset_checkpoint({found: offset}))

    def file(self, name: str, suffix: str, place: int = 0) -> Path:
        """A file of a segment."""
        return sorted((self.log_dir / name).glob(f"*{suffix}"))[place]


@cache
def template() -> tempfile.TemporaryDirectory[str]:
    """A healthy log dir to copy: making one takes a hundred fsyncs. It goes with the process."""
    directory = tempfile.TemporaryDirectory()
    Healthy(Path(directory.name, TEMPLATE))
    return directory


def live(name: str) -> TopicPartition | None:
    found = parse_topic_partition(name)
    return None if found is None or found.topic == "__cluster_metadata" else found


def seen(
    capsys: pytest.CaptureFixture[str], *log_dirs: Path, options: tuple[str, ...] = (), command: str = "doctor"
) -> tuple[int, list[Any]]:
    """The exit status of ``doctor``, or of ``verify``, and its findings."""
    status = main([command, "--json", "--log-dir", *map(str, log_dirs), *options])
    printed = capsys.readouterr()
    return status, json.loads(printed.out)["findings"] if printed.out else []
