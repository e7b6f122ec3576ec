"""A real broker that tiers: what it wrote, what consumers read of it, and what lies where after a kill.

The remote storage is Kafka's own ``LocalTieredStorage``, which keeps a tier in a directory, and the metadata lie where
production has them, in ``__remote_log_metadata``.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from tests.interop import clients
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import CODECS, Writer
from tests.interop.verdicts import Record

TIER: Final = "kafka-tiered-storage"
"""The directory that ``LocalTieredStorage`` makes in the one that it is told."""
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
TOPICS: Final = ("codecs", "transactions", "plain", "remote-only")
PARTITIONS: Final = tuple(f"{topic}-0" for topic in TOPICS)
_LOCAL_MS: Final = 86_400_000
"""Records with times of years ago leave the disk at once, those of today stay."""
_A_MINUTE_MS: Final = 60_000
_TIERED: Final = {"remote.storage.enable": "true", "retention.ms": "-1", "local.retention.ms": str(_LOCAL_MS)}
CONFIGS: Final = {
    "codecs": _TIERED,
    "transactions": {**_TIERED, "local.retention.ms": "1"},
    "plain": {"retention.ms": "-1"},
    "remote-only": {**_TIERED, "local.retention.ms": "1"},
}
"""Three topics that tier, two of them all but for the active segment, and one that does not."""
TIERED_PARTITIONS: Final = tuple(f"{topic}-0" for topic in TOPICS if "remote.storage.enable" in CONFIGS[topic])
GROUP: Final = "readers"
TIERED_SECONDS_MAX: Final = 120
_POLL_SECONDS: Final = 0.1
_MAX_TIMESTAMP_END: Final = 43
"""Where maxTimestamp ends in a batch of format v2."""


def settings(tier: Path) -> dict[str, str]:
    """What a broker needs to tier into ``tier`` within a second."""
    return {
        **QUIET,
        "log.retention.check.interval.ms": "300",
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "100",
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.manager.task.interval.ms": "300",
        "rsm.config.dir": str(tier),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    }


@dataclass(frozen=True, slots=True)
class Tiered:
    """What a killed broker left, and what it had served.

    Attributes:
        log_dir: its log dir, with the ends of the logs and ``__remote_log_metadata``.
        tier: the directory of its remote storage.
        read: what a consumer read just before the kill, by partition and isolation level.
        first_local_offsets: where what the disk holds of each partition begins.
    """

    classpath: str
    log_dir: Path
    tier: Path
    read: dict[tuple[str, str], list[Record]]
    first_local_offsets: dict[str, int]


def tiered(classpath: str, scratch: Path) -> Tiered:
    """Write in two lives of a broker, so that leader epochs change, and kill the second one."""
    log_dir, tier = scratch / "log", scratch / "tier"
    broker = Broker(classpath, log_dir, settings(tier))
    writer = Writer(broker.bootstrap, random.Random(39), repeats=4)
    with broker:
        clients.create_topics(broker.bootstrap, CONFIGS)
        _write(writer, "first")
        _await_tiered(log_dir)
    with broker:
        _write(writer, "second")
        _await_tiered(log_dir)
        writer.now_ms = int(time.time() * 1000) - _A_MINUTE_MS
        _write(writer, "today")
        clients.commit_as_group(broker.bootstrap, GROUP, "codecs")
        _await_tiered(log_dir)
        read = {
            (name, isolation): clients.consumed(broker.bootstrap, name.rpartition("-")[0], 0, isolation)
            for name, isolation in product(PARTITIONS, ISOLATIONS)
        }
        broker.kill()
    return Tiered(classpath, log_dir, tier, read, {name: _first_local_offset(log_dir / name) for name in PARTITIONS})


def _write(writer: Writer, life: str) -> None:
    for codec in CODECS:
        writer.send(writer.producer(compression_type=codec), "codecs", 12)
    writer.transactions("transactions", life, [True, False, True, False])
    for topic in ("transactions", "plain", "remote-only"):
        writer.send(writer.producer(), topic, 12)


def _await_tiered(log_dir: Path) -> None:
    """Wait until each old segment of a tiered topic has left the disk: a broker deletes none before it is tiered."""
    deadline = time.monotonic() + TIERED_SECONDS_MAX
    while left := [str(path) for name in TIERED_PARTITIONS for path in _expired(log_dir / name)]:
        assert time.monotonic() < deadline, f"not tiered within {TIERED_SECONDS_MAX} s: {left}"
        time.sleep(_POLL_SECONDS)


def _expired(partition: Path) -> list[Path]:
    """The logs but for the newest whose first batch is older than what stays."""
    return [path for path in _logs(partition)[:-1] if _max_ms(path) < time.time() * 1000 - _local_ms(partition)]


def _local_ms(partition: Path) -> int:
    return int(CONFIGS[partition.name.rpartition("-")[0]]["local.retention.ms"])


def _max_ms(path: Path) -> int:
    """The largest timestamp that the header of the first batch tells; 0 of a log that went meanwhile or is empty."""
    with suppress(FileNotFoundError), path.open("rb") as log:
        header = log.read(_MAX_TIMESTAMP_END)
        if len(header) == _MAX_TIMESTAMP_END:
            return int.from_bytes(header[-8:])
    return 0


def _first_local_offset(partition: Path) -> int:
    return int(_logs(partition)[0].stem)


def _logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))
