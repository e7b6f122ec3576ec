"""Checks the ``meta.properties`` of the log dirs as a broker with ZooKeeper does.

The cluster id and the broker id that ZooKeeper and the configuration say are not known here; the log dirs must at
least agree, in every line.

Source: Kafka 2.8 ``BrokerMetadataCheckpoint.getBrokerMetadataAndOfflineDirs``, ``KafkaServer.startup``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.preflight.facts import KafkaFailure
from policies.preflight.identity import Identities, IdentityBefore
from policies.preflight.start import Refusal
from storage.names import META_PROPERTIES_FILE


def check_zookeeper_identities(befores: Sequence[IdentityBefore], node_id: int | None) -> Identities:
    """Return what Kafka does over the ``meta.properties``, which may be missing."""
    offline: dict[str, KafkaFailure] = {}
    seen: dict[frozenset[tuple[str, str]], list[str]] = {}
    refusals: list[Refusal] = []
    for before in befores:
        if before.is_malformed:
            failure = KafkaFailure("IllegalArgumentException", before.unreadable or "")
            refusals.append(Refusal(f"{before.path}/{META_PROPERTIES_FILE}", failure))
        elif before.unreadable:
            offline[before.path] = KafkaFailure("IOException", before.unreadable, is_io=True)
        elif before.properties is not None:
            seen.setdefault(frozenset(before.properties.items()), []).append(before.path)
    for said, paths in seen.items():
        refusal = _refusal(dict(said), node_id)
        if refusal:
            refusals.append(Refusal(f"{paths[0]}/{META_PROPERTIES_FILE}", refusal))
    *odd, most = sorted(seen.values(), key=len) or [[]]
    for paths in odd:
        failure = KafkaFailure("InconsistentBrokerMetadataException", f"it differs from that in {most[0]}")
        refusals.append(Refusal(f"{paths[0]}/{META_PROPERTIES_FILE}", failure))
    return Identities(tuple(refusals), offline, ())


def _refusal(said: Mapping[str, str], node_id: int | None) -> KafkaFailure | None:
    version, broker_id = said.get("version"), said.get("broker.id")
    if version not in (None, "0"):
        return KafkaFailure("RuntimeException", f"version {version}: only 0 is for a broker with ZooKeeper")
    if broker_id is not None and node_id is not None and broker_id != str(node_id):
        return KafkaFailure("InconsistentBrokerIdException", f"broker.id is {broker_id}, and {node_id} was expected")
    return None
