"""Hold files against the certificate of an erasure, and lay the certificates of several brokers side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from cleaner.engine.erase.certificate import cluster_id_of, read_certificate
from cleaner.engine.journal import REPLACING, partition_of, read_journal
from cleaner.engine.repair.topic_ids import ids_of
from policies.certificates import (
    CertifiedReplica,
    ErasureOutcome,
    FileSeen,
    FileVerdict,
    PendingReplica,
    UnseenPartition,
    judge_file,
    pending_replicas,
)
from storage.arrays import Integers, Table
from storage.checkpoints import LeaderEpochEntry
from storage.directory import close, open_file, pread, status_of
from storage.errors import ErrorKind, LogCleanerError, UnreadableFile, as_unreadable
from storage.kernels.layout import OFFSET
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import list_partition
from storage.log_dir import LogDir, LogDirNotThere
from storage.names import LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.scan.chunks import every_chunk
from storage.scan.segments import open_whole
from storage.scan.slices import Damage
from storage.scan.witness import WitnessFile
from storage.stores.paths import path_of_text

if TYPE_CHECKING:
    from cleaner.documents.erasing import CertificateHolder, CertifiedFile, CertifiedLogDir, ErasureCertificateDocument

_BLOCK_BYTES: Final = 1 << 20
_REWRITING: Final = frozenset(
    {*REPLACING, "delete", "recover", "restore", "repair", "revert", "import", "append", "move"}
)
"""The kinds of the journal's lines behind which a ``.log`` may have other bytes, or be gone."""


class MixedRequests(LogCleanerError):
    """Certificates of different requests, which say nothing about each other."""

    kind = ErrorKind.USAGE

    path: Path
    other: Path
    what: str

    def __str__(self) -> str:
        return (
            f"{self.path}: is of another request than {self.other} ({self.what}): name certificates of one request, "
            "made on every broker with the --secret of the first"
        )


class CertifiedDirNotThere(LogDirNotThere):
    """A log dir of a certificate that is not where it was."""

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; mount it, or say with --log-dir where it lies now"


class NothingCertifiedThere(LogCleanerError):
    """Log dirs that have no partition of a certificate: no file could be held against it."""

    kind = ErrorKind.USAGE

    path: Path
    places: str

    def __str__(self) -> str:
        return f"{self.path}: no partition of this certificate lies in {self.places}; name the log dir that has them"


class CertifiedElsewhere(LogCleanerError):
    """A log dir of another broker than the certificate: its replicas have other files."""

    kind = ErrorKind.USAGE

    path: Path
    log_dir: Path
    key: str
    certified: str
    own: str

    def __str__(self) -> str:
        return (
            f"{self.path}: is of {self.key} {self.certified}, and {self.log_dir} of {self.own}; check it on that "
            "broker, or name a log dir of that broker with --log-dir"
        )


class JudgedFile(NamedTuple):
    """A certified file, and what became of it."""

    path: Path
    verdict: FileVerdict


@dataclass(frozen=True, slots=True)
class CheckedCertificate:
    """A certificate, held against the files."""

    path: Path
    certificate: ErasureCertificateDocument
    files: tuple[JudgedFile, ...]

    @property
    def is_wrong(self) -> bool:
        """True if a person must look at a file."""
        return any(file.verdict.state.is_wrong for file in self.files)


def check(path: Path, log_dirs: Sequence[Path]) -> CheckedCertificate:
    """Hold the files of a certificate against it.

    Args:
        path: of the certificate.
        log_dirs: where the files lie now; none means where they lay.

    Raises:
        CorruptCertificate, UnreadableFile; as ``LogDir.open`` for a log dir that is not there.
        NothingCertifiedThere: the named log dirs have no partition of it.
        CertifiedElsewhere: a log dir is another broker's.
    """
    certificate = read_certificate(path)
    opened = _opened(path, certificate, log_dirs)
    for log_dir in opened:
        _check_broker(path, certificate, log_dir)
    since = {log_dir.path: _Since.of(log_dir, certificate["time_ms"]) for log_dir in opened}
    found: list[JudgedFile] = []
    for partition in certificate["partitions"]:
        name = TopicPartition(partition["topic"], partition["partition"])
        own, erased = path_of_text(partition["log_dir"]), _Erased.of(partition["files"])
        judged: list[JudgedFile] = []
        for file in partition["files"]:
            here = [d.path for d in opened if (d.path / file["path"]).exists()] or [d.path for d in opened]
            place = own if own in here else here[0]
            seen = _seen(place / file["path"], file, since[place], name, erased, is_home=place == own)
            judged.append(JudgedFile(place / file["path"], judge_file(seen)))
        found += judged
        found += _wrong_among_others(opened, name, erased, {one.path for one in judged})
    return CheckedCertificate(path, certificate, tuple(found))


def _wrong_among_others(
    opened: Sequence[LogDir], name: TopicPartition, erased: _Erased, judged: Collection[Path]
) -> Iterator[JudgedFile]:
    """Yield the segments of a partition that are not certified and have a record at an erased offset, or hide one.

    A replica that is fetched anew, and a compaction that merges, end their segments elsewhere.
    """
    for log_dir in opened:
        for directory in [path for found, path in log_dir.partitions() if found == name]:
            for segment in list_partition(directory).segments:
                if segment.log.path in judged or segment.base_offset > erased.last_offset:
                    continue
                found = _Searched.of(segment.log.path, segment.base_offset, erased)
                verdict = judge_file(FileSeen(True, damage=found.damage, returned_offset=found.returned_offset))
                if verdict.state.is_wrong:
                    yield JudgedFile(segment.log.path, verdict)


def _opened(path: Path, certificate: ErasureCertificateDocument, named: Sequence[Path]) -> list[LogDir]:
    if not named:
        try:
            return [LogDir.open(path_of_text(one["path"])) for one in certificate["log_dirs"]]
        except LogDirNotThere as error:
            raise CertifiedDirNotThere(error.path, error.cause) from error
    opened = [LogDir.open(one) for one in named]
    wanted = {TopicPartition(one["topic"], one["partition"]) for one in certificate["partitions"] if one["files"]}
    if wanted and not any(name in wanted for log_dir in opened for name, _ in log_dir.partitions()):
        raise NothingCertifiedThere(path, ", ".join(str(log_dir.path) for log_dir in opened))
    return opened


def _check_broker(path: Path, certificate: ErasureCertificateDocument, log_dir: LogDir) -> None:
    node_id, _ = ids_of(log_dir)
    ids = (
        ("cluster.id", certificate["cluster_id"], cluster_id_of(log_dir)),
        ("node.id", certificate["node_id"], node_id),
    )
    for key, certified, own in ids:
        if None not in (certified, own) and certified != own:
            raise CertifiedElsewhere(path, log_dir.path, key, str(certified), str(own))


@dataclass(frozen=True, slots=True)
class Pending:
    """The certificates of one request, side by side."""

    paths: tuple[Path, ...]
    certificates: tuple[ErasureCertificateDocument, ...]
    replicas: tuple[PendingReplica, ...]
    copies: tuple[tuple[Path, CertifiedLogDir], ...]
    """The path of a certificate, and a log dir of it that is a copy: no replica of its broker."""
    holders: tuple[tuple[Path, CertificateHolder], ...]
    """The path of a certificate, and a file for which no time is known from which on it holds no key."""
    not_searched: tuple[tuple[Path, str], ...]
    """The path of a certificate, and what it could not search, and why."""

    @property
    def is_pending(self) -> bool:
        """True if a replica is owed, something holds a key that nothing removes, or was not searched."""
        return bool(self.holders or self.not_searched) or any(one.is_owed for one in self.replicas)


def pending(paths: Sequence[Path]) -> Pending:
    """Lay certificates side by side. Raises: MixedRequests, CorruptCertificate, UnreadableFile."""
    certificates = [read_certificate(path) for path in paths]
    for path, one in zip(paths, certificates, strict=True):
        if one["request"] != certificates[0]["request"]:
            raise MixedRequests(path, paths[0], "another secret")
        if one["keys"] != certificates[0]["keys"] or one["with_tombstones"] != certificates[0]["with_tombstones"]:
            raise MixedRequests(path, paths[0], "other keys, or --tombstones")
        if None not in (one["cluster_id"], certificates[0]["cluster_id"]) and (
            one["cluster_id"] != certificates[0]["cluster_id"]
        ):
            raise MixedRequests(path, paths[0], "another cluster")
    replicas = [one for source, found in enumerate(certificates) for one in _certified(found, source)]
    unseen = [
        UnseenPartition(one["topic"], one["partition"], tuple(one["replicas"]))
        for found in certificates
        if found["kind"] == "in_place"
        for one in found["unseen"]
    ]
    holders = [
        (path, holder)
        for path, one in zip(paths, certificates, strict=True)
        for holder in one["holders"]
        if holder["values"] and _counts(holder, one)
        if not any(_is_searched_later(holder["path"], one, other) for other in certificates)
    ]
    not_searched = [
        (path, what)
        for path, one in zip(paths, certificates, strict=True)
        for what in one["not_searched"]
        if not any(_is_searched_later(what, one, other) for other in certificates)
    ]
    copies = [
        (path, log_dir)
        for path, one in zip(paths, certificates, strict=True)
        if one["kind"] == "in_place"
        for log_dir in one["log_dirs"]
        if log_dir["copy_of"] is not None
    ]
    owed = pending_replicas(replicas, unseen)
    return Pending(tuple(paths), tuple(certificates), owed, tuple(copies), tuple(holders), tuple(not_searched))


def _counts(holder: CertificateHolder, certificate: ErasureCertificateDocument) -> bool:
    """Return whether a file with keys is still to be seen to. Nobody cleans a copy, or a backup that it was made of."""
    if certificate["kind"] == "copy" or any(_is_in(holder["path"], copy) for copy in _copies_in(certificate)):
        return True
    return holder["gone_by_ms"] is None and not _is_told(holder, certificate)


def _is_searched_later(path: str, own: ErasureCertificateDocument, other: ErasureCertificateDocument) -> bool:
    """Return whether a later certificate of the same machine tells of the directory in which a file lies."""
    is_later = other["time_ms"] > own["time_ms"] and other["host"] == own["host"]
    searched = [*(one["path"] for one in other["log_dirs"]), other["original"], other["tier"]]
    return is_later and any(_is_in(path, place) for place in searched)


def _is_in(path: str, directory: str | None) -> bool:
    return directory is not None and path.startswith(directory.rstrip("/") + "/")


def _copies_in(certificate: ErasureCertificateDocument) -> frozenset[str]:
    return frozenset(one["path"] for one in certificate["log_dirs"] if one["copy_of"] is not None)


def _is_told(holder: CertificateHolder, certificate: ErasureCertificateDocument) -> bool:
    """Return whether a file is one of a certified partition, whose outcome tells of it."""
    files = {f"{one['log_dir']}/{file['path']}" for one in certificate["partitions"] for file in one["files"]}
    return holder["path"] in files


def _certified(certificate: ErasureCertificateDocument, source: int) -> Iterator[CertifiedReplica]:
    copies, searched = _copies_in(certificate), frozenset(one["path"] for one in certificate["log_dirs"])
    for one in certificate["partitions"] if certificate["kind"] == "in_place" else ():  # a copy is no replica
        assigned = None if one["replicas"] is None else tuple(one["replicas"])
        yield CertifiedReplica(
            one["topic"], one["partition"], one["topic_id"], certificate["node_id"], certificate["time_ms"],
            ErasureOutcome(one["outcome"]), assigned, source, certificate["host"], one["log_dir"], searched,
            one["log_dir"] in copies,
        )  # fmt: skip


class _Since(NamedTuple):
    """The acts of a log dir since a certificate, and where its logs start."""

    acts: Sequence[tuple[TopicPartition, str, frozenset[int] | None]]
    """Partition, kind of the journal's line, and the segments that the line names; None if it may be any."""
    starts: Mapping[TopicPartition, int]

    @classmethod
    def of(cls, log_dir: LogDir, time_ms: int) -> _Since:
        acts = []
        for entry in read_journal(log_dir.path):
            name = partition_of(entry)
            if name is not None and entry["time_ms"] > time_ms and entry["what"] in _REWRITING:
                acts.append((name, str(entry["what"]), _bases(entry)))
        starts: Mapping[TopicPartition, int] = {}
        with suppress(LogCleanerError):
            starts = log_dir.offsets(LOG_START_OFFSET_CHECKPOINT)
        return cls(acts, starts)

    def act_on(self, name: TopicPartition, base_offset: int) -> str | None:
        """Return the kind of the last act on a segment; None if the journal tells of none."""
        kinds = [what for found, what, bases in self.acts if found == name and (bases is None or base_offset in bases)]
        return kinds[-1] if kinds else None


def _bases(entry: Mapping[str, Any]) -> frozenset[int] | None:
    groups, segments = entry.get("groups"), entry.get("segments")
    with suppress(KeyError, TypeError):
        if isinstance(groups, list):
            return frozenset(base for group in groups for base in group)
        if isinstance(segments, list):
            return frozenset(segment["base_offset"] for segment in segments)
    return None


def _seen(
    path: Path, file: CertifiedFile, since: _Since, name: TopicPartition, erased: _Erased, *, is_home: bool
) -> FileSeen:
    act, start = since.act_on(name, file["base_offset"]), since.starts.get(name, 0)
    try:
        status = status_of(path)
    except OSError:
        return FileSeen(False, journalled=act, is_below_start=file["base_offset"] < start)
    after = file["after"]
    size_bytes = status.st_size
    if after is None:
        found = _Searched.of(path, file["base_offset"], erased)
        return FileSeen(True, has_hash=False, damage=found.damage, returned_offset=found.returned_offset)
    is_longer = file["active"] and size_bytes > after["bytes"]
    head_bytes = after["bytes"] if is_longer else size_bytes
    if head_bytes == after["bytes"] and _head_sha256(path, head_bytes) == after["sha256"]:
        return FileSeen(True, is_same=True, is_longer=is_longer)
    found = _Searched.of(path, file["base_offset"], erased)
    is_same_file = status.st_ino == file["inode"] if is_home else None
    return FileSeen(
        True,
        has_same_size=size_bytes == after["bytes"],
        has_same_inode=is_same_file,
        is_untouched=bool(is_same_file) and size_bytes == after["bytes"] and status.st_mtime_ns == file["mtime_ns"],
        journalled=act,
        was_cut=found.was_cut,
        damage=found.damage,
        returned_offset=found.returned_offset,
    )


def _head_sha256(path: Path, size_bytes: int) -> str:
    """Return the SHA-256 of the first bytes of a file. Raises: UnreadableFile."""
    hashed, position = hashlib.sha256(), 0
    with as_unreadable(path):
        file, _ = open_file(path)
        try:
            while block := pread(file, min(size_bytes - position, _BLOCK_BYTES), position):
                hashed.update(block)
                position += len(block)
        finally:
            close(file)
    return hashed.hexdigest()


class _Erased(NamedTuple):
    """The offsets of a partition that lost their records, as ranges that ascend by their first offset."""

    firsts: Integers
    lasts: Integers
    """The last offset of a range, or of one before it that reaches further: ranges of several deeds may overlap."""

    @classmethod
    def of(cls, files: Iterable[CertifiedFile]) -> _Erased:
        """Take them from a partition's files. A deed that the journal told has its first and its last offset alone."""
        pairs = [
            pair
            for file in files
            for deed in file["deeds"]
            for pair in deed["ranges"] or [[deed[end], deed[end]] for end in ("first_offset", "last_offset")]
        ]
        pairs.sort()
        firsts, lasts = (np.array([pair[end] for pair in pairs], np.int64) for end in (0, 1))
        return cls(firsts, np.maximum.accumulate(lasts))

    @property
    def last_offset(self) -> int:
        """The last one; -1 if there is none."""
        return int(self.lasts[-1]) if self.lasts.size else -1

    def first_of(self, offsets: Integers) -> int | None:
        """Return the first of some offsets that is among these; None if none is."""
        if not self.firsts.size:
            return None
        places = np.searchsorted(self.firsts, offsets, "right") - 1
        back = offsets[(places >= 0) & (offsets <= self.lasts[places])]
        return int(back[0]) if back.size else None


class _Searched(NamedTuple):
    """The facts in the batches of a file that has other bytes than the certified ones."""

    damage: str | None
    returned_offset: int | None
    """The first erased offset that has a record."""
    was_cut: bool
    """As ``FileSeen.was_cut``."""

    @classmethod
    def of(cls, path: Path, base_offset: int, erased: _Erased) -> _Searched:
        """Read a file."""
        epochs, damage, returned = _Epochs.of(path.parent), None, None
        try:
            with open_whole(WitnessFile(path)) as reader:
                for found in every_chunk(reader):
                    if isinstance(found, Damage):
                        damage = damage or f"at byte {found.error.position}: {found.error.cause}"
                        continue
                    epochs.take(found.table)
                    if returned is None:
                        returned = erased.first_of(found.located[OFFSET])
        except UnreadableFile as error:
            damage = damage or error.cause
        return cls(damage, returned, epochs.begin_after(base_offset))


class _Epochs:
    """The leader epochs of batches, held against the checkpoint."""

    def __init__(self, entries: Sequence[LeaderEpochEntry]) -> None:
        self._starts = np.array([entry.start_offset for entry in entries], np.int64)
        self._epochs = np.array([entry.epoch for entry in entries], np.int64)
        self._last_offset = -1
        self._agree = True

    @classmethod
    def of(cls, directory: Path) -> _Epochs:
        """Read the checkpoint of a partition. One that cannot be read tells nothing."""
        try:
            return cls(read_leader_epochs(directory))
        except LogCleanerError:
            return cls(())

    def take(self, table: Table) -> None:
        """Look at some batches, which follow those before."""
        if not table.size:
            return
        places = np.searchsorted(self._starts, table["base_offset"], "right") - 1
        self._agree = self._agree and bool(
            self._starts.size and (places >= 0).all() and (self._epochs[places] == table["leader_epoch"]).all()
        )
        self._last_offset = int(table["last_offset"][-1])

    def begin_after(self, base_offset: int) -> bool:
        """Return whether all batches agree, and an epoch begins with one of them, but the first epoch of the log."""
        begins = (self._starts[1:] >= base_offset) & (self._starts[1:] <= self._last_offset)
        return self._agree and bool(begins.any())
