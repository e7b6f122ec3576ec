"""Clusters of three real brokers, each a controller, too: one at a time can be stopped, and the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from tests.interop.broker import Broker
from tests.interop.clients import SECONDS_MAX, admin_of

NODES: Final = (1, 2, 3)
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.index.size.max.bytes": "65536",
}
_POLL_SECONDS: Final = 0.2


@contextmanager
def three_voters(classpath: str, root: Path, settings: Mapping[str, str]) -> Iterator[dict[int, Broker]]:
    """Run three nodes, by their ids; whatever still runs is killed in the end.

    Args:
        classpath: from ``kafka_jars.kafka_classpath``.
        root: where their log dirs are made.
        settings: of each node.
    """
    drafts = {node: Broker(classpath, root / f"broker-{node}", {}) for node in NODES}
    voters = ",".join(f"{node}@127.0.0.1:{draft.ports[1]}" for node, draft in drafts.items())
    own = {node: {"node.id": str(node), "controller.quorum.voters": voters} for node in NODES}
    brokers = {node: replace(draft, settings={**REPLICATED, **settings, **own[node]}) for node, draft in drafts.items()}
    with ExitStack() as stack:
        for broker in brokers.values():
            stack.callback(broker.kill)
            broker.launch()
        for broker in brokers.values():
            broker.wait_until_it_serves()
        yield brokers


def bootstrap_of(brokers: Mapping[int, Broker]) -> str:
    """What a client connects to that outlives each single broker."""
    return ",".join(broker.bootstrap for broker in brokers.values())


def in_sync(bootstrap: str) -> dict[str, list[int]]:
    """Return the in-sync replicas of each partition, by its name."""
    found = admin_of(bootstrap).list_topics(timeout=SECONDS_MAX)
    return {
        f"{topic.topic}-{partition.id}": sorted(partition.isrs)
        for topic in found.topics.values()
        for partition in topic.partitions.values()
    }


def wait_until_in_sync(bootstrap: str, nodes: Sequence[int] = NODES) -> None:
    """Wait until these nodes are the in-sync replicas of every partition."""

    def is_so() -> bool:
        with suppress(KafkaException):
            return all(found == list(nodes) for found in in_sync(bootstrap).values())
        return False

    wait_for(is_so)


def wait_for(condition: Callable[..., object]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, condition
        time.sleep(_POLL_SECONDS)
