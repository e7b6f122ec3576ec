"""Three real brokers: their replicas agree however unevenly they were cleaned, and each divergence is named."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT
from tests.batches import iter_batches
from tests.interop.broker import BUSY, QUIET, Broker
from tests.interop.clients import SECONDS_MAX, Writer, admin_of
from tests.interop.clusters import NODES, wait_for
from tests.ports import free_port

pytestmark = pytest.mark.kafka

FLIPS: Final = 12
CRC_POSITION: Final = 17
BODY_POSITION: Final = 61
"""What a checksum covers begins behind it, and the header of a batch ends here."""
ANY_TIME: Final = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1"}
TOPICS: Final = {
    "plain": {"cleanup.policy": "delete", "retention.ms": "-1", **ANY_TIME},
    "compacted": {**COMPACTED, **ANY_TIME},
}
UNCLEAN: Final = "unclean"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The log dirs of three brokers that have stopped, and the digest that each of them made."""

    log_dirs: Mapping[int, Path]
    digests: Mapping[int, Path]
    elected_at: int
    """The offset from which on the two replicas of ``unclean`` differ."""


@pytest.fixture(scope="module")
def cluster(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("replicas")
    brokers = three_brokers(kafka, root)
    with ExitStack() as stack:
        for node in NODES:
            stack.callback(brokers[node].kill)
        for node in NODES:
            brokers[node].launch()
        for node in NODES:
            brokers[node].wait_until_it_serves()
        fill(brokers)
        elected_at = elect_uncleanly(brokers)
        for node in (3, 2, 1):
            brokers[node].stop()
    log_dirs = {node: brokers[node].log_dir for node in NODES}
    digests = {node: root / f"{node}.json" for node in NODES}
    for node in NODES:
        assert main(["digest", str(log_dirs[node]), "--output", str(digests[node])]) == ExitStatus.DONE
    yield Cluster(log_dirs, digests, elected_at)
    shutil.rmtree(root)


def three_brokers(kafka: str, root: Path) -> dict[int, Broker]:
    """Three nodes, of which the first is the controller, too, and the second alone compacts."""
    controller = free_port()
    brokers = {}
    for node in NODES:
        ports = (free_port(), controller)
        settings = {
            **(BUSY if node == 2 else QUIET),
            "node.id": str(node),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "replica.lag.time.max.ms": "5000",
            "replica.high.watermark.checkpoint.interval.ms": "500",
        }
        if node != 1:
            settings |= {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]}"}
        brokers[node] = Broker(kafka, root / f"broker-{node}", settings, ports)
    return brokers


def fill(brokers: Mapping[int, Broker]) -> None:
    """Write records of all kinds, and wait until the second broker has compacted."""
    bootstrap = ",".join(broker.bootstrap for broker in brokers.values())
    admin = admin_of(bootstrap)
    create(admin, {name: [list(NODES)] for name in TOPICS}, TOPICS)
    writer = Writer(bootstrap, random.Random(31))
    for topic in TOPICS:
        for codec in ("none", "lz4", "zstd"):
            writer.send(writer.producer(compression_type=codec), topic, 40)
        writer.transactions(topic, f"of {topic}", [True, False, True])
        writer.send(writer.producer(enable_idempotence=True), topic, 60)
    cleaned = brokers[2].log_dir / "cleaner-offset-checkpoint"
    wait_for(lambda: cleaned.exists() and "compacted 0 " in cleaned.read_text())
    for node in NODES:
        wait_for(lambda node=node: marks(brokers[node].log_dir, "plain") == marks(brokers[1].log_dir, "plain"))


def elect_uncleanly(brokers: Mapping[int, Broker]) -> int:
    """Let the third broker lead a log of which it lacks the end. Return the offset from which on it differs."""
    bootstrap = brokers[1].bootstrap
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", **TOPICS["plain"]}
    create(admin_of(bootstrap), {UNCLEAN: [[2, 3]]}, {UNCLEAN: config})
    writer = Writer(bootstrap, random.Random(32))
    writer.send(writer.producer(), UNCLEAN, 50)
    brokers[3].stop()
    writer.send(writer.producer(), UNCLEAN, 30)
    wait_for(lambda: marks(brokers[2].log_dir, UNCLEAN) == 80)
    brokers[2].kill()
    brokers[3].launch()
    brokers[3].wait_until_it_serves()
    writer.send(writer.producer(), UNCLEAN, 45)
    wait_for(lambda: marks(brokers[3].log_dir, UNCLEAN) == 95)
    return 50


def create(admin: AdminClient, placed: Mapping[str, list[list[int]]], configs: Mapping[str, dict[str, str]]) -> None:
    wanted = [NewTopic(name, 1, replica_assignment=where, config=configs[name]) for name, where in placed.items()]
    for created in admin.create_topics(wanted).values():
        created.result(SECONDS_MAX)


def marks(log_dir: Path, topic: str) -> int | None:
    """The checkpointed high watermark of a topic's only partition."""
    found = LogDir(log_dir).offsets(HIGH_WATERMARK_CHECKPOINT)
    return next((offset for name, offset in found.items() if name.topic == topic), None)


def compared(capsys: pytest.CaptureFixture[str], *places: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    capsys.readouterr()
    status = main(["diff", "--json", "--replicas", *map(str, places)])
    found = json.loads(capsys.readouterr().out)["partitions"]
    return status, {f"{one['topic']}-{one['partition']}": one for one in found}


@pytest.mark.parametrize("by_digests", [False, True], ids=["log dirs", "digests"])
def test_unclean_election_alone_is_a_divergence(capsys, cluster: Cluster, *, by_digests: bool) -> None:
    places = cluster.digests if by_digests else cluster.log_dirs
    status, partitions = compared(capsys, *places.values())
    assert status == ExitStatus.DAMAGED
    damaged = {name for name, one in partitions.items() if one["divergence"] or one["errors"]}
    assert damaged == {f"{UNCLEAN}-0"}
    divergence = partitions[f"{UNCLEAN}-0"]["divergence"]
    assert "the leader epochs differ" in divergence["cause"] or by_digests
    assert divergence["first_offset"] <= cluster.elected_at <= divergence["last_offset"]
    assert sorted(map(tuple, divergence["groups"])) == sorted([(str(places[2]),), (str(places[3]),)])
    assert partitions["plain-0"]["records"] > 0
    assert partitions["compacted-0"]["records"] > 0


def test_flipped_bits_are_named_each_in_its_replica(capsys, cluster: Cluster, tmp_path: Path) -> None:
    dice = random.Random(33)
    for flip in range(FLIPS):
        damaged, name = dice.choice(NODES), dice.choice(["plain-0", "compacted-0"])
        places = {
            node: Path(shutil.copytree(path, tmp_path / f"{flip}-{node}")) for node, path in cluster.log_dirs.items()
        }
        logs = [path for path in sorted((places[damaged] / name).glob("*.log")) if path.stat().st_size]
        log = dice.choice(logs)
        data = bytearray(log.read_bytes())
        starts = [0, *accumulate(batch.header.size_bytes for batch in iter_batches(bytes(data), log))]
        data[dice.choice(starts[:-1]) + dice.randrange(CRC_POSITION, BODY_POSITION)] ^= 1 << dice.randrange(8)
        log.write_bytes(data)
        status, partitions = compared(capsys, *places.values())
        assert status == ExitStatus.DAMAGED
        told = {one for one, found in partitions.items() if found["divergence"] or found["errors"]}
        assert told == {f"{UNCLEAN}-0", name}
        (error,) = partitions[name]["errors"]
        assert error.startswith(f"{places[damaged]}: {log}")
        for path in places.values():
            shutil.rmtree(path)
