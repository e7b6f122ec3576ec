"""Checks the ``meta.properties`` of the log dirs as a starting broker does, with KRaft or with ZooKeeper.

The cluster id and the broker id that ZooKeeper and the configuration say are not known here; the log dirs must at
least agree, in every line.

Source: Kafka 4.3 ``MetaProperties``, ``MetaPropertiesEnsemble``, ``KafkaRaftServer.initializeLogDirs``; Kafka 2.8
``BrokerMetadataCheckpoint.getBrokerMetadataAndOfflineDirs``, ``KafkaServer.startup``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from policies.preflight.facts import KafkaFailure
from policies.preflight.start import Refusal
from storage.names import META_PROPERTIES_FILE

_FILE: Final = "meta.properties"
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_UUID_BYTES: Final = 16
_RESERVED_MAX: Final = 100
_RUNTIME: Final = "RuntimeException"


class Identity(NamedTuple):
    """The ids that the ``meta.properties`` of one log dir states."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None


class IdentityBefore(NamedTuple):
    """A log dir, and the properties in its ``meta.properties``."""

    path: str
    properties: Mapping[str, str] | None
    """None if the file is missing."""
    unreadable: str | None = None
    """Why the file cannot be read."""
    is_malformed: bool = False
    """Whether it can be read, and is no properties file."""


class Identities(NamedTuple):
    """The consequences of the ``meta.properties`` of all log dirs."""

    refusals: tuple[Refusal, ...]
    offline: Mapping[str, KafkaFailure]
    """Log dirs that go offline over theirs."""
    rewritten: tuple[str, ...]
    """Log dirs whose file gets a new ``directory.id``."""
    directory_ids: Mapping[str, str] = MappingProxyType({})
    """Path -> ``directory.id``, in Kafka's text of it."""


def parse_identity(properties: Mapping[str, str]) -> Identity | str:
    """Return what the properties say, or why Kafka 4 does not read them."""
    version_text = properties.get("version", "0").strip()
    if not _INTEGER.fullmatch(version_text) or int(version_text) not in (0, 1):
        return f"version {version_text!r}"
    version = int(version_text)
    key = "node.id" if version else "broker.id"
    if version and key not in properties:
        return f"{key} is missing"
    node = properties.get(key)
    if node is not None and (not _INTEGER.fullmatch(node) or abs(int(node)) >= 1 << 31):
        return f"{key} {node!r} is no number"
    cluster_id = properties.get("cluster.id")
    if version and cluster_id is None:
        return "cluster.id is missing"
    directory = properties.get("directory.id")
    directory_id = _uuid(directory) if directory is not None else None
    if directory is not None and directory_id is None:
        return f"directory.id {directory!r} is no id"
    return Identity(version, cluster_id, None if node is None else int(node), directory_id)


def check_identities(befores: Sequence[IdentityBefore], node_id: int | None, metadata_dir: str) -> Identities:
    """Return what Kafka 4 does over the ``meta.properties``.

    Args:
        befores: the log dirs.
        node_id: ``node.id`` of the configuration; None if it is not known.
        metadata_dir: the log dir of the metadata log.
    """
    parsed: dict[str, Identity | str] = {}
    for before in befores:
        if before.unreadable:
            parsed[before.path] = before.unreadable
        elif before.properties is not None:
            parsed[before.path] = parse_identity(before.properties)
    good = {path: found for path, found in parsed.items() if isinstance(found, Identity)}
    unread = {path: found for path, found in parsed.items() if isinstance(found, str)}
    broken = {path: KafkaFailure(_RUNTIME, cause, is_io=True) for path, cause in unread.items()}
    refusal = _mismatch(good, node_id)
    if not good:
        refusal = Refusal(_file(befores[0].path), KafkaFailure(_RUNTIME, "no readable meta.properties is there"))
    elif refusal is None and metadata_dir in broken:
        cause = f"{broken[metadata_dir].cause}, in the log dir of the cluster metadata"
        refusal = Refusal(_file(metadata_dir), KafkaFailure(_RUNTIME, cause))
    if refusal is None:
        refusal = _missing(befores, good)
    rewritten = tuple(path for path, identity in good.items() if identity.directory_id is None)
    texts = {
        path: base64.urlsafe_b64encode(identity.directory_id).decode().rstrip("=")
        for path, identity in good.items()
        if identity.directory_id is not None
    }
    return Identities((refusal,) if refusal else (), broken, rewritten, texts)


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


def _uuid(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if len(raw) == _UUID_BYTES else None


def _mismatch(good: Mapping[str, Identity], node_id: int | None) -> Refusal | None:
    cluster_id: str | None = None
    seen: dict[bytes, str] = {}
    for path, identity in sorted(good.items()):
        cause: str | None = None
        if identity.cluster_id is not None:
            if cluster_id is not None and identity.cluster_id != cluster_id:
                cause = f"cluster.id is {identity.cluster_id}, and {cluster_id} elsewhere"
            cluster_id = cluster_id or identity.cluster_id
        if cause is None and identity.node_id is not None:
            if node_id is not None and identity.node_id != node_id:
                cause = f"the node id is {identity.node_id}, and {node_id} was expected"
            node_id = identity.node_id if node_id is None else node_id
        if cause is None and identity.directory_id is not None:
            cause = _directory_cause(identity.directory_id, seen)
            seen[identity.directory_id] = path
        if cause is not None:
            return Refusal(_file(path), KafkaFailure(_RUNTIME, cause))
    return None


def _directory_cause(directory_id: bytes, seen: Mapping[bytes, str]) -> str | None:
    if int.from_bytes(directory_id, "big") < _RESERVED_MAX:
        return "the directory.id is a reserved one"
    if directory_id in seen:
        return f"the directory.id is also that of {seen[directory_id]}"
    return None


def _file(path: str) -> str:
    return f"{path}/{_FILE}"


def _missing(befores: Sequence[IdentityBefore], good: Mapping[str, Identity]) -> Refusal | None:
    for before in befores:
        if before.properties is None and not before.unreadable:
            return Refusal(_file(before.path), KafkaFailure(_RUNTIME, "is missing: the log dir was not formatted"))
    for path, identity in sorted(good.items()):
        for what, value in (("node id", identity.node_id), ("cluster.id", identity.cluster_id)):
            if value is None:
                return Refusal(_file(path), KafkaFailure(_RUNTIME, f"has no {what}"))
    return None


def _refusal(said: Mapping[str, str], node_id: int | None) -> KafkaFailure | None:
    version, broker_id = said.get("version"), said.get("broker.id")
    if version not in (None, "0"):
        return KafkaFailure("RuntimeException", f"version {version}: only 0 is for a broker with ZooKeeper")
    if broker_id is not None and node_id is not None and broker_id != str(node_id):
        return KafkaFailure("InconsistentBrokerIdException", f"broker.id is {broker_id}, and {node_id} was expected")
    return None
