"""Checks the ``meta.properties`` of the log dirs as a starting broker does, with KRaft or with ZooKeeper.

The cluster id and the broker id that ZooKeeper and the configuration say are not known here; the log dirs must at
least agree, in every line.

Source: Kafka 4.3 ``MetaProperties``, ``MetaPropertiesEnsemble``, ``KafkaRaftServer.initializeLogDirs``; Kafka 2.8
``BrokerMetadataCheckpoint.getBrokerMetadataAndOfflineDirs``, ``KafkaServer.startup``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from policies.preflight.facts import KafkaFailure
from policies.preflight.start import Refusal
from policies.preflight.texts import uuid_bytes
from storage.names import META_PROPERTIES_FILE

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_RESERVED_MAX: Final = 100
_RUNTIME: Final = "RuntimeException"
RESTORE: Final = "Restore the file, from another log dir of the broker say; kafka-storage.sh format makes new ones."
_FIND_OUT: Final = "Find out which broker the log dir belongs to, and name only log dirs of one broker."
_FORMAT: Final = "Format the copy anew."


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

    @property
    def is_missing(self) -> bool:
        """Return whether the file is not there."""
        return self.properties is None and not self.unreadable


class Identities(NamedTuple):
    """The consequences of the ``meta.properties`` of all log dirs."""

    refusals: tuple[Refusal, ...]
    """What stops the broker."""
    offline: Mapping[str, KafkaFailure]
    """Log dirs that go offline over theirs."""
    rewritten: tuple[str, ...]
    """Log dirs whose file gets a new ``directory.id``."""
    directory_ids: Mapping[str, str] = MappingProxyType({})
    """Path -> ``directory.id``, in Kafka's text of it."""
    further: tuple[Refusal, ...] = ()
    """What would stop the broker once the causes before it are mended."""

    def causes(self) -> Iterator[tuple[str, str, str]]:
        """Yield the path of each wrong file, what is wrong with it, and what to do about it."""
        for path, failure in self.offline.items():
            yield _file(path), failure.cause, RESTORE
        for refusal in (*self.refusals, *self.further):
            yield refusal.path, refusal.failure.cause, refusal.remedy or RESTORE


def parse_identity(properties: Mapping[str, str]) -> Identity | str:
    """Return what the properties say, or why Kafka 4 does not read them."""
    version_text = properties.get("version", "0").strip()
    if not _INTEGER.fullmatch(version_text) or int(version_text) not in (0, 1):
        return f"version {version_text!r} is neither 0 nor 1"
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
    directory_id = uuid_bytes(directory) if directory is not None else None
    if directory is not None and directory_id is None:
        return f"directory.id {directory!r} is no id of 16 bytes"
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
    if good:
        refusals = list(_mismatches(good, node_id))
        if metadata_dir in broken:
            cause = f"{broken[metadata_dir].cause}, in the log dir of the cluster metadata"
            refusals.append(_refused(metadata_dir, cause))
        refusals += _missing(befores, good)
    else:
        refusals = [_refused(befores[0].path, "no readable meta.properties is there")]
    rewritten = tuple(path for path, identity in good.items() if identity.directory_id is None)
    texts = {
        path: base64.urlsafe_b64encode(identity.directory_id).decode().rstrip("=")
        for path, identity in good.items()
        if identity.directory_id is not None
    }
    return Identities(tuple(refusals[:1]), broken, rewritten, texts, tuple(refusals[1:]))


def check_zookeeper_identities(befores: Sequence[IdentityBefore], node_id: int | None) -> Identities:
    """Return what Kafka does over the ``meta.properties``, which may be missing."""
    offline: dict[str, KafkaFailure] = {}
    seen: dict[frozenset[tuple[str, str]], list[str]] = {}
    refusals: list[Refusal] = []
    for before in befores:
        if before.is_malformed:
            refusals.append(_refused(before.path, before.unreadable or "", "IllegalArgumentException"))
        elif before.unreadable:
            offline[before.path] = KafkaFailure("IOException", before.unreadable, is_io=True)
        elif before.properties is not None:
            seen.setdefault(frozenset(before.properties.items()), []).append(before.path)
    for said, paths in seen.items():
        failure = _refusal(dict(said), node_id)
        if failure:
            refusals.append(Refusal(_file(paths[0]), failure, RESTORE))
    *odd, most = sorted(seen.values(), key=len) or [[]]
    for paths in odd:
        cause = f"the file differs from that in {most[0]}"
        refusals.append(_refused(paths[0], cause, "InconsistentBrokerMetadataException", _FIND_OUT))
    return Identities(tuple(refusals), offline, ())


def _mismatches(good: Mapping[str, Identity], node_id: int | None) -> Iterator[Refusal]:
    """Yield, of each log dir that does not go with those before it, the first cause."""
    cluster_id: str | None = None
    seen: dict[bytes, str] = {}
    for path, identity in sorted(good.items()):
        cause: str | None = None
        remedy = _FIND_OUT
        if identity.cluster_id is not None:
            if cluster_id is not None and identity.cluster_id != cluster_id:
                cause = f"cluster.id is {identity.cluster_id}, and {cluster_id} elsewhere"
            cluster_id = cluster_id or identity.cluster_id
        if cause is None and identity.node_id is not None:
            if node_id is not None and identity.node_id != node_id:
                cause = f"the node id is {identity.node_id}, and {node_id} was expected"
            node_id = identity.node_id if node_id is None else node_id
        if cause is None and identity.directory_id is not None:
            cause, remedy = _directory_cause(identity.directory_id, seen), _FORMAT
            seen.setdefault(identity.directory_id, path)
        if cause is not None:
            yield _refused(path, cause, remedy=remedy)


def _directory_cause(directory_id: bytes, seen: Mapping[bytes, str]) -> str | None:
    if int.from_bytes(directory_id, "big") < _RESERVED_MAX:
        return "the directory.id is a reserved one"
    if directory_id in seen:
        return f"the directory.id is also that of {seen[directory_id]}"
    return None


def _file(path: str) -> str:
    return f"{path}/{META_PROPERTIES_FILE}"


def _refused(path: str, cause: str, exception: str = _RUNTIME, remedy: str = RESTORE) -> Refusal:
    return Refusal(_file(path), KafkaFailure(exception, cause), remedy)


def _missing(befores: Sequence[IdentityBefore], good: Mapping[str, Identity]) -> Iterator[Refusal]:
    for before in befores:
        if before.is_missing:
            yield _refused(before.path, "the file is missing: the log dir was not formatted")
    for path, identity in sorted(good.items()):
        for what, value in (("node id", identity.node_id), ("cluster.id", identity.cluster_id)):
            if value is None:
                yield _refused(path, f"the file has no {what}")


def _refusal(said: Mapping[str, str], node_id: int | None) -> KafkaFailure | None:
    version, broker_id = said.get("version"), said.get("broker.id")
    if version not in (None, "0"):
        return KafkaFailure(_RUNTIME, f"version {version}: only 0 is for a broker with ZooKeeper")
    if broker_id is not None and not _INTEGER.fullmatch(broker_id):
        return KafkaFailure(_RUNTIME, f"broker.id {broker_id!r} is no number")
    if broker_id is not None and node_id is not None and broker_id != str(node_id):
        return KafkaFailure("InconsistentBrokerIdException", f"broker.id is {broker_id}, and {node_id} was expected")
    return None
