"""The certificate of an erasure: what was asked, what went, what the files are now, and what still holds a key.

Schema ``logcleaner.erasure_certificate/1`` (``cleaner.documents.erasing``). It names no key.

Order:      secret, then the erasure, then, under the same locks, a search of all files of the topics as by
            ``prove-erased``, which hashes them. The caller writes the file whole, once everything is durable.
Crash:      between erasure and certificate, the journal's lines tell what was erased under the id of the request. The
            same command finds nothing left to erase, and certifies the files as they are, with these deeds. A deed of
            the journal counts only if the file has other bytes than before it.
Not chosen: to write the certificate first, and the erasure behind it: it would tell of an erasure that was not done.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.copy.manifest import read_manifest
from cleaner.engine.erase.erasing import ErasedPartition, Erasure, ErasureRequest
from cleaner.engine.erase.secret import Secret
from cleaner.engine.journal import partition_of, read_entries
from cleaner.engine.means import OpenLogDirs
from cleaner.engine.prove_erased.places import FileContent, FileHome, may_be_named
from cleaner.engine.prove_erased.proving import (
    ErasureProof,
    HolderPlans,
    KeySearch,
    list_places,
    prove,
    under_names_in_tier,
)
from cleaner.engine.prove_erased.searching import FileEvidence
from cleaner.engine.prove_erased.wanted import KeyEncoding
from cleaner.engine.repair.topic_ids import ids_of, read_assigned
from policies.certificates import ErasureOutcome
from policies.config.config_layers import Configured
from policies.plan import Plan, Request
from storage.directory import status_of
from storage.errors import ErrorKind, LogCleanerError, Stopped, UnreadableFile
from storage.log.leader_epochs import topic_id_if_readable
from storage.log_dir import LogDir, read_file
from storage.metadata.assignments import Assignments
from storage.names import META_PROPERTIES_FILE, FileState, TopicPartition, is_named
from storage.properties import read_properties
from storage.stores.paths import StoredPath, path_of_text
from storage.tiers.view import segments_of, view_at

if TYPE_CHECKING:
    from cleaner.documents.erasing import (
        CertificateHolder,
        CertifiedDeed,
        CertifiedFile,
        CertifiedPartition,
        ErasureCertificateDocument,
        UncertifiedPartition,
    )

SCHEMA: Final = "logcleaner.erasure_certificate/1"
LIMITS: Final = (
    "Unlinked, not overwritten; consumers, mirrors and snapshots not covered.",
    "Replicas on other brokers, backups, and remote storage that was not searched are not covered.",
    "Keys of records were compared. Values and headers were not: a record of another key may hold the same data.",
    "Records that are written or replicated after this time are not covered.",
)
LIMIT_OF_LINKS: Final = "A file that was replaced has another hard link, which keeps the old bytes."
LIMIT_OF_COPY: Final = "Of a copy: the log dir that it was made of keeps the records, until somebody removes it."


class NoCertificate(LogCleanerError):
    """A certificate that was named, and that is not there or cannot be read."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str = "does not exist"

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; name the file that --certificate wrote"


class CorruptCertificate(LogCleanerError):
    """A certificate of an erasure that is not as it was written."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: is no certificate of an erasure: {self.cause}; name the file that --certificate wrote"


class OtherFile(CorruptCertificate):
    """A file that is no certificate of an erasure."""

    kind = ErrorKind.USAGE


@dataclass(frozen=True, slots=True)
class Certifier:
    """Makes the certificate of an erasure, while its locks are held."""

    cleaner: Cleaner
    asked: ErasureRequest
    encoding: KeyEncoding
    secret: Secret
    version: str
    """The version of logcleaner."""
    view: StoredPath | None = None
    """The log dir that shows a tier that is to be searched, too."""

    def certified(self, opened: OpenLogDirs, done: Erasure) -> ErasureCertificateDocument:
        """Search all files of the topics, and return the certificate of an erasure.

        Of a copy, the files of the log dir that it was made of are searched, too.

        Raises: UnreadableFile of a directory; Stopped.
        """
        if done.output is not None:
            copied = path_of_text(done.output)
            paths = [copied, *(log_dir.path for log_dir in opened.log_dirs)]
            plan = Cleaner(Configured(tuple(paths), opened.layers), opened.means).plan
            proof, tier = self._proof(opened, paths, plan)
            in_copy = [replace(one, log_dir=done.output) for one in done.partitions]
            of_copy = opened._replace(log_dirs=(LogDir(copied),))
            document = self._document(of_copy, tier, replace(done, partitions=tuple(in_copy)), proof)
            document["kind"], document["original"] = "copy", str(opened.log_dirs[0].path)
            document["limits"].append(LIMIT_OF_COPY)
            return document
        proof, tier = self._proof(opened, [log_dir.path for log_dir in opened.log_dirs], self.cleaner.plan)
        return self._document(opened, tier, done, proof)

    def _proof(
        self, opened: OpenLogDirs, paths: Sequence[Path], plan: Callable[[Request], Plan]
    ) -> tuple[ErasureProof, str | None]:
        globs = self.asked.request.topics
        also = () if self.view is None else (segments_of(self.view),)
        question = KeySearch(self.asked.keys, self.encoding, (*paths, *also), globs)
        survey = HolderPlans(plan, opened.layers)
        wants = partial(may_be_named, globs=globs)
        listener, places = opened.means.listener, list_places(question.log_dirs, wants).values()
        listener.expect(sum(place.size_bytes for place in places if place.content is FileContent.RECORDS))

        def advance(done_bytes: int) -> None:
            if opened.means.stopping():
                raise Stopped
            listener.progress(done_bytes)

        proof = prove(opened.means.clock.now_ms(), question, wants, survey, advance)
        view = None if self.view is None else view_at(self.view)
        return (proof, None) if view is None else (under_names_in_tier(proof, view), str(view.tier.path))

    def _document(
        self, opened: OpenLogDirs, tier: str | None, done: Erasure, proof: ErasureProof
    ) -> ErasureCertificateDocument:
        log_dirs = opened.log_dirs
        nodes = [ids_of(log_dir) for log_dir in log_dirs]
        assigned = read_assigned(log_dirs, None)
        live = _live_logs(proof)
        deeds = _Deeds(self.secret.request, done)
        return {
            "schema": "logcleaner.erasure_certificate/1",
            "tool": f"logcleaner {self.version}",
            "time_ms": opened.means.clock.now_ms(),
            "request": self.secret.request,
            "kind": "in_place",
            "original": None,
            "keys": {"encoding": self.encoding, "hmac_sha256": self.secret.hmacs_of(self.asked.keys)},
            "topics": list(self.asked.request.topics),
            "with_tombstones": self.asked.with_tombstones,
            "host": socket.gethostname(),
            "node_id": next((node for node, _ in nodes if node is not None), None),
            "cluster_id": next(filter(None, map(cluster_id_of, log_dirs)), None),
            "log_dirs": [
                {"path": str(log_dir.path), "directory_id": directory, "copy_of": copy_of(log_dir.path)}
                for log_dir, (_, directory) in zip(log_dirs, nodes, strict=True)
            ],
            "tier": tier,
            "partitions": [
                _partition(one, deeds, live.get((one.log_dir, one.topic_partition), ()), assigned)
                for one in done.partitions
            ],
            "unseen": list(_unseen(self.asked.request.topics, done, assigned)),
            "holders": [_holder(evidence, proof) for evidence in proof.holding],
            "not_searched": list(_not_searched(proof)),
            "errors": list(done.errors),
            "limits": [*LIMITS, *([LIMIT_OF_LINKS] if _has_links(done) else ())],
        }


def encoded(certificate: ErasureCertificateDocument) -> bytes:
    """Return the bytes of a certificate's file."""
    return json.dumps(certificate, indent=1).encode() + b"\n"


def read_certificate(path: Path) -> ErasureCertificateDocument:
    """Read a certificate. Raises: NoCertificate, CorruptCertificate."""
    try:
        data = read_file(path)
    except UnreadableFile as error:
        raise NoCertificate(path, f"cannot be read: {error.cause}") from error
    if data is None:
        raise NoCertificate(path)
    try:
        document: Any = json.loads(data)
        schema = document["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise OtherFile(path, f"not as it was written ({error})") from error
    if schema != SCHEMA:
        raise OtherFile(path, f"schema {schema!r} is not {SCHEMA}")
    try:
        _check_fields(document)
        found: ErasureCertificateDocument = document
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptCertificate(path, f"not as it was written ({error})") from error
    return found


def _check_fields(document: Mapping[str, Any]) -> None:
    """Look at the fields that ``--check`` and ``--pending`` rely on. Raises: KeyError, TypeError, ValueError."""
    _are(int, document["time_ms"])
    _are(str, *(document[name] for name in ("request", "kind", "host")))
    _are((str, type(None)), *(document[name] for name in ("original", "cluster_id", "tier")))
    _are((int, type(None)), document["node_id"])
    _are(dict, document["keys"])
    _are(bool, document["with_tombstones"])
    _are(list, *(document[name] for name in ("log_dirs", "holders", "partitions", "unseen", "not_searched")))
    _are(str, *document["not_searched"])
    if not document["log_dirs"]:
        raise ValueError("it names no log dir")
    _are(str, *(one["path"] for one in (*document["log_dirs"], *document["holders"])))
    _are((str, type(None)), *(one["copy_of"] for one in document["log_dirs"]))
    for one in document["holders"]:
        _are(int, one["values"])
        _are((int, type(None)), one["gone_by_ms"])
    for one in document["unseen"]:
        _are(str, one["topic"])
        _are(list, one["replicas"])
        _are(int, one["partition"], *one["replicas"])
    for one in document["partitions"]:
        _are(str, one["topic"], one["log_dir"])
        _are(int, one["partition"])
        _are((str, type(None)), one["topic_id"])
        _are((list, type(None)), one["replicas"])
        _are(int, *(one["replicas"] or ()))
        ErasureOutcome(one["outcome"])
        list(map(_check_file, one["files"]))


def _check_file(file: Mapping[str, Any]) -> None:
    _are(str, file["path"])
    relative = Path(file["path"])
    if relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"{relative} leads out of the log dir")
    _are(int, file["base_offset"], file["inode"], file["mtime_ns"])
    _are(bool, file["active"])
    if file["after"] is not None:
        _are(int, file["after"]["bytes"])
        _are(str, file["after"]["sha256"])
    for deed in file["deeds"]:
        _are(int, deed["first_offset"], deed["last_offset"])
        for first, last in deed["ranges"]:
            _are(int, first, last)


def _are(kind: type | tuple[type, ...], *values: object) -> None:
    """Refuse values of another type. Raises: TypeError."""
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} has the wrong type")


_LogKey = tuple[str, TopicPartition]


def _live_logs(proof: ErasureProof) -> dict[_LogKey, list[FileEvidence]]:
    """Return the ``.log`` files of live partitions, ascending by base offset."""
    found: dict[_LogKey, list[FileEvidence]] = {}
    for evidence in proof.evidences:
        place = evidence.place
        is_log = place.content is FileContent.RECORDS and place.state is FileState.PLAIN
        if is_log and place.home is FileHome.LIVE and place.topic_partition is not None:
            found.setdefault((str(place.log_dir), place.topic_partition), []).append(evidence)
    return {key: sorted(logs, key=lambda one: one.place.base_offset or 0) for key, logs in found.items()}


class _Deed(NamedTuple):
    bytes_before: int
    sha256_before: str
    told: CertifiedDeed


class _Deeds:
    """The erasures of a request: of this run, and of earlier ones by the journal."""

    def __init__(self, request: str, done: Erasure) -> None:
        self._request, self._done = request, done
        self._journals: dict[str, list[tuple[TopicPartition, _Deed, int]]] = {}

    def of(self, partition: ErasedPartition, base_offset: int) -> list[_Deed]:
        """Return the deeds in a segment, oldest first."""
        own = {deed.sha256_before: deed for deed in self._own(partition, base_offset)}
        earlier = {
            deed.sha256_before: deed
            for name, deed, base in self._journal(partition.log_dir)
            if name == partition.topic_partition and base == base_offset
        }
        return list((earlier | own).values())

    def _own(self, partition: ErasedPartition, base_offset: int) -> Iterator[_Deed]:
        for segment in partition.segments:
            if segment.base_offset == base_offset and segment.sha256 is not None:
                told: CertifiedDeed = {
                    "time_ms": self._done.time_ms,
                    "records": segment.records,
                    "tombstones": segment.tombstones,
                    "first_offset": segment.first_offset,
                    "last_offset": segment.last_offset,
                    "ranges": [list(one) for one in segment.ranges],
                }
                yield _Deed(segment.identity.size_bytes, segment.sha256, told)

    def _journal(self, log_dir: str) -> list[tuple[TopicPartition, _Deed, int]]:
        if log_dir not in self._journals:
            entries = read_entries(path_of_text(log_dir), "erase")
            own = (entry for entry in entries if entry.get("request") == self._request)
            self._journals[log_dir] = [found for entry in own for found in _told_by(entry)]
        return self._journals[log_dir]


def _told_by(entry: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, _Deed, int]]:
    name = partition_of(entry)
    for segment in entry["segments"] if name else ():
        told: CertifiedDeed = {
            "time_ms": entry["time_ms"],
            "records": segment["records"],
            "tombstones": segment["tombstones"],
            "first_offset": segment["first_offset"],
            "last_offset": segment["last_offset"],
            "ranges": [],
        }
        assert name is not None
        yield name, _Deed(segment["bytes"], segment["sha256"], told), segment["base_offset"]


def _partition(
    found: ErasedPartition, deeds: _Deeds, logs: Sequence[FileEvidence], assigned: Assignments | None
) -> CertifiedPartition:
    name = found.topic_partition
    directory = path_of_text(found.log_dir) / str(name)
    files = [
        _file(evidence, deeds.of(found, evidence.place.base_offset or 0), is_active=evidence is logs[-1])
        for evidence in logs
    ]
    return {
        "topic": name.topic,
        "partition": name.partition,
        "log_dir": found.log_dir,
        "topic_id": topic_id_if_readable(directory),
        "outcome": outcome_of(found),
        "refused": {"code": found.refused.code.value, "text": found.refused.text} if found.refused else None,
        "error": found.error,
        "records": sum(deed["records"] for file in files for deed in file["deeds"]),
        "stays": [
            {"code": s.reason, "records": s.records, "first_offset": s.first_offset, "last_offset": s.last_offset}
            for s in found.stays
        ],
        "until_ms": found.until_ms,
        "replicas": _replicas(name, assigned),
        "files": files,
    }


def outcome_of(found: ErasedPartition) -> ErasureOutcome:
    """Return what an erasure did to a partition."""
    if found.error:
        return ErasureOutcome.FAILED
    if found.refused:
        return ErasureOutcome.REFUSED
    return ErasureOutcome.STAYS if any(stays.reason.is_for_now for stays in found.stays) else ErasureOutcome.ERASED


def _file(evidence: FileEvidence, deeds: Iterable[_Deed], *, is_active: bool) -> CertifiedFile:
    place = evidence.place
    status = status_of(place.path)
    done = [deed for deed in deeds if deed.sha256_before != evidence.sha256]
    first = done[0] if done else None
    return {
        "path": place.path.relative_to(place.log_dir).as_posix(),
        "base_offset": place.base_offset or 0,
        "active": is_active,
        "before": {"bytes": first.bytes_before, "sha256": first.sha256_before} if first else None,
        "after": {"bytes": evidence.size_bytes, "sha256": evidence.sha256} if evidence.sha256 else None,
        "inode": status.st_ino,
        "mtime_ns": status.st_mtime_ns,
        "deeds": [deed.told for deed in done],
    }


def _replicas(name: TopicPartition, assigned: Assignments | None) -> list[int] | None:
    if assigned is None or name.topic not in assigned.topic_ids:
        return None
    found = assigned.partitions.get((assigned.topic_ids[name.topic], name.partition))
    return list(found.replicas) if found else None


def _has_links(done: Erasure) -> bool:
    """Return whether the old bytes of a segment stay under another name."""
    changed = (one for one in done.partitions if one.done_segments)
    return done.output is None and any(segment.links > 1 for one in changed for segment in one.segments)


def _unseen(globs: Sequence[str], done: Erasure, assigned: Assignments | None) -> Iterator[UncertifiedPartition]:
    """Yield the partitions that globs match and no log dir has, by the cluster metadata."""
    seen = {one.topic_partition for one in done.partitions}
    names = {topic_id: topic for topic, topic_id in assigned.topic_ids.items()} if assigned else {}
    for (topic_id, partition), found in sorted(assigned.partitions.items()) if assigned else ():
        name = TopicPartition(names.get(topic_id, ""), partition)
        if name.topic and name not in seen and is_named(name, globs):
            yield {"topic": name.topic, "partition": partition, "replicas": list(found.replicas)}


def _holder(evidence: FileEvidence, proof: ErasureProof) -> CertificateHolder:
    departures = [proof.departures[evidence.place.path, hits.key] for hits in evidence.hits]
    times_ms = [one.at_ms for one in departures if one.at_ms is not None]
    return {
        "path": str(evidence.place.path),
        "directory": evidence.place.home,
        "values": sum(hits.values for hits in evidence.hits),
        "tombstones": sum(hits.tombstones for hits in evidence.hits),
        "codes": list(dict.fromkeys(one.code for one in departures)),
        "gone_by_ms": max(times_ms) if len(times_ms) == len(departures) else None,
    }


def _not_searched(proof: ErasureProof) -> Iterator[str]:
    yield from (evidence.error for evidence in proof.unread if evidence.error)
    for evidence in proof.undecoded:
        for part in evidence.undecoded:
            where = "" if part.position is None else f" at byte {part.position}"
            yield f"{evidence.place.path}{where}: {part.cause}"
    if not proof.is_settled:
        yield from (f"{place}/: new files kept appearing" for place in proof.question.log_dirs)


def copy_of(log_dir: Path) -> str | None:
    """Return where the original of a log dir lies or lay, by the manifest of a copy; None if the log dir is no copy.

    A copy that was brought to the place of its original is none any more. Raises: CorruptManifest, UnreadableFile.
    """
    manifest = read_manifest(log_dir)
    return None if manifest is None or manifest.original == str(log_dir) else manifest.original


def cluster_id_of(log_dir: LogDir) -> str | None:
    """Return the ``cluster.id`` in the ``meta.properties`` of a log dir; None if there is none that can be read."""
    try:
        found = read_properties(log_dir.path / META_PROPERTIES_FILE).get("cluster.id")
    except LogCleanerError:
        return None
    return found.value if found else None
