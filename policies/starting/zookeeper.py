"""Checks the ``meta.properties`` of the log dirs as a broker with ZooKeeper does.

The cluster id and the broker id that ZooKeeper and the configuration say are not known here; the log dirs must at
least agree.

Source: Kafka 2.8 ``BrokerMetadataCheckpoint.getBrokerMetadataAndOfflineDirs``, ``KafkaServer.startup``.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.starting.facts import KafkaFailure
from policies.starting.identity import Identities, IdentityBefore
from policies.starting.start import Refusal

_KEYS = ("version", "broker.id", "cluster.id")


def check_zookeeper_identities(befores: Sequence[IdentityBefore], node_id: int | None) -> Identities:
    """Return what Kafka does over the ``meta.properties``, which may be missing."""
    offline: dict[str, KafkaFailure] = {}
    seen: dict[tuple[str | None, ...], str] = {}
    refusals: list[Refusal] = []
    for before in befores:
        if before.unreadable:
            offline[before.path] = KafkaFailure("IOException", before.unreadable, is_io=True)
        elif before.properties:
            seen.setdefault(tuple(before.properties.get(key) for key in _KEYS), before.path)
    for said, path in seen.items():
        refusal = _refusal(said, node_id)
        if refusal:
            refusals.append(Refusal(f"{path}/meta.properties", refusal))
    if len(seen) > 1:
        paths = " and ".join(seen.values())
        failure = KafkaFailure("InconsistentBrokerMetadataException", f"{paths} say different things")
        refusals.append(Refusal(f"{befores[0].path}/meta.properties", failure))
    return Identities(tuple(refusals), offline, ())


def _refusal(said: tuple[str | None, ...], node_id: int | None) -> KafkaFailure | None:
    version, broker_id, _ = said
    if version not in (None, "0"):
        return KafkaFailure("RuntimeException", f"version {version}: only 0 is for a broker with ZooKeeper")
    if broker_id is not None and node_id is not None and broker_id != str(node_id):
        return KafkaFailure("InconsistentBrokerIdException", f"broker.id is {broker_id}, and {node_id} was expected")
    return None
