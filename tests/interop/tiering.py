"""Real brokers that tier: what they wrote, what consumers read of them, and what lies where after a kill.

The remote storage is Kafka's own ``LocalTieredStorage``, which keeps a tier in a directory, or Aiven's plugin. The
metadata lie where production has them, in ``__remote_log_metadata``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
_UNCLEAN: Final = {"unclean.leader.election.enable": "true"}
_DIVIDED: Final = {
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
}
GROUP: Final = "readers"
TIERED_SECONDS_MAX: Final = 120
_POLL_SECONDS: Final = 0.1
_MAX_TIMESTAMP_END: Final = 43
"""Where maxTimestamp ends in a batch of format v2."""


def local_storage(tier: Path) -> dict[str, str]:
    """Have Kafka's own class for tests keep the tier in a directory."""
    return {
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "rsm.config.dir": str(tier),
    }


def settings(storage: Mapping[str, str]) -> dict[str, str]:
    """Return what a broker needs to tier within a second."""
    return {
        **QUIET,
        "log.retention.check.interval.ms": "300",
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "100",
        "remote.log.storage.system.enable": "true",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.manager.task.interval.ms": "300",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        **storage,
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

    log_dir: Path
    tier: Path
    read: dict[tuple[str, str], list[Record]]
    first_local_offsets: dict[str, int]


def tiered(classpath: str, scratch: Path, storage: Mapping[str, str] | None = None) -> Tiered:
    """Write in two lives of a broker, so that leader epochs change, and kill the second one.

    Args:
        classpath: of the broker.
        scratch: an empty directory; ``log`` and ``tier`` are made there.
        storage: the settings of a plugin that tiers into ``tier``; without them, Kafka's own for tests.
    """
    log_dir, tier = scratch / "log", scratch / "tier"
    broker = Broker(classpath, log_dir, settings(storage or local_storage(tier)))
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
        read = _read(broker, PARTITIONS)
        broker.kill()
    return Tiered(log_dir, tier, read, _first_local_offsets(log_dir, PARTITIONS))


def divided(classpath: str, scratch: Path) -> Tiered:
    """Have a follower that lags elected uncleanly: what both leaders tiered overlaps, and only one copy counts.

    Node 1 is the controller and keeps the metadata topic, the partition lies on nodes 2 and 3. The log dir that is
    left is that of node 3, the last leader; its tier has what node 2 wrote alone, too.
    """
    tier = scratch / "tier"
    nodes = _nodes(classpath, scratch, settings(local_storage(tier)) | _DIVIDED)
    one, two, three = nodes
    log_dir = three.log_dir
    try:
        for node in nodes:
            node.launch()
        for node in nodes:
            node.wait_until_it_serves()
        clients.create_topic(one.bootstrap, "divided", {**CONFIGS["remote-only"], **_UNCLEAN}, [[2, 3]])
        writer = Writer(one.bootstrap, random.Random(40), repeats=4)
        writer.send(writer.producer(), "divided", 20)
        three.kill()
        writer.send(writer.producer(enable_idempotence=True), "divided", 40)
        _await_tiered(two.log_dir, ("divided-0",), local_ms=1)
        two.kill()
        three.launch()
        three.wait_until_it_serves()
        writer.send(writer.producer(enable_idempotence=True), "divided", 30)
        _await_tiered(log_dir, ("divided-0",), local_ms=1)
        read = _read(one, ("divided-0",))
    finally:
        for node in nodes:
            node.kill()
    return Tiered(log_dir, tier, read, _first_local_offsets(log_dir, ("divided-0",)))


def _nodes(classpath: str, scratch: Path, common: Mapping[str, str]) -> list[Broker]:
    first = Broker(classpath, scratch / "log-1", common)
    voter = {"controller.quorum.voters": f"1@127.0.0.1:{first.ports[1]}"}
    nodes = [first]
    for number in (2, 3):
        node = Broker(classpath, scratch / f"log-{number}", {})
        listener = f"PLAINTEXT://127.0.0.1:{node.ports[0]}"
        own = {"process.roles": "broker", "node.id": str(number), "listeners": listener, **voter}
        nodes.append(replace(node, settings={**common, **own}))
    return nodes


def _read(broker: Broker, partitions: Sequence[str]) -> dict[tuple[str, str], list[Record]]:
    return {
        (name, isolation): clients.consumed(broker.bootstrap, name.rpartition("-")[0], 0, isolation)
        for name, isolation in product(partitions, ISOLATIONS)
    }


def _write(writer: Writer, life: str) -> None:
    for codec in CODECS:
        writer.send(writer.producer(compression_type=codec), "codecs", 12)
    writer.transactions("transactions", life, [True, False, True, False])
    for topic in ("transactions", "plain", "remote-only"):
        writer.send(writer.producer(), topic, 12)


def _await_tiered(log_dir: Path, partitions: Sequence[str] = TIERED_PARTITIONS, *, local_ms: int | None = None) -> None:
    """Wait until each old segment of a tiered topic has left the disk: a broker deletes none before it is tiered."""
    deadline = time.monotonic() + TIERED_SECONDS_MAX
    while left := [str(path) for name in partitions for path in _expired(log_dir / name, local_ms)]:
        assert time.monotonic() < deadline, f"not tiered within {TIERED_SECONDS_MAX} s: {left}"
        time.sleep(_POLL_SECONDS)


def _expired(partition: Path, local_ms: int | None) -> list[Path]:
    """Return the logs but for the newest whose first batch is older than what stays."""
    stays_ms = int(CONFIGS[partition.name.rpartition("-")[0]]["local.retention.ms"]) if local_ms is None else local_ms
    return [path for path in _logs(partition)[:-1] if _max_ms(path) < time.time() * 1000 - stays_ms]


def _max_ms(path: Path) -> int:
    """Return the largest timestamp of the first batch's header; 0 of a log that went meanwhile or is empty."""
    with suppress(FileNotFoundError), path.open("rb") as log:
        header = log.read(_MAX_TIMESTAMP_END)
        if len(header) == _MAX_TIMESTAMP_END:
            return int.from_bytes(header[-8:])
    return 0


def _first_local_offsets(log_dir: Path, partitions: Sequence[str]) -> dict[str, int]:
    return {name: int(_logs(log_dir / name)[0].stem) for name in partitions}


def _logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))
