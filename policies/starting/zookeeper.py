"""Whether the ``meta.properties`` let a broker with ZooKeeper start.

The cluster id and the broker id that ZooKeeper and the configuration say are not known here; the log dirs must at
least agree.

Source: Kafka 2.8 ``BrokerMetadataCheckpoint.getBrokerMetadataAndOfflineDirs``, ``KafkaServer.startup``.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.starting.facts import Failure
from policies.starting.identity import Identities, IdentityBefore
from policies.starting.start import Refusal

_KEYS = ("version", "broker.id", "cluster.id")


def check_zookeeper_identities(befores: Sequence[IdentityBefore], node_id: int | None) -> Identities:
    """Return what Kafka does over the ``meta.properties``, which may be missing."""
    offline: dict[str, Failure] = {}
    seen: dict[tuple[str | None, ...], str] = {}
    refusals: list[Refusal] = []
    for before in befores:
        if before.unreadable:
            offline[before.path] = Failure("IOException", before.unreadable, is_io=True)
        elif before.properties:
            seen.setdefault(tuple(before.properties.get(key) for key in _KEYS), before.path)
    for said, path in seen.items():
        refusal = _refusal(said, node_id)
        if refusal:
            refusals.append(Refusal(f"{path}/meta.properties", refusal))
    if len(seen) > 1:
        paths = " and ".join(seen.values())
        failure = Failure("InconsistentBrokerMetadataException", f"{paths} say different things")
        refusals.append(Refusal(f"{befores[0].path}/meta.properties", failure))
    return Identities(tuple(refusals), offline, ())


def _refusal(said: tuple[str | None, ...], node_id: int | None) -> Failure | None:
    version, broker_id, _ = said
    if version not in (None, "0"):
        return Failure("RuntimeException", f"version {version}: only 0 is for a broker with ZooKeeper")
    if broker_id is not None and node_id is not None and broker_id != str(node_id):
        return Failure("InconsistentBrokerIdException", f"broker.id is {broker_id}, and {node_id} was expected")
    return None
