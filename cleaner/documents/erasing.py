"""The documents about certificates of erasures.

``logcleaner.erasure_certificate/1``, ``erasure_check/1`` and ``erasure_pending/1``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from cleaner.documents.changes import EraseRefused, EraseStays
from cleaner.documents.parts import Count, PartitionPlace, Positive, Sha256
from cleaner.engine.prove_erased.places import FileHome
from cleaner.engine.prove_erased.wanted import KeyEncoding
from policies.certificates import CertifiedState, ErasureOutcome, ReplicaState
from policies.prove_erased import DepartureCode

OffsetPair = Annotated[list[int], Field(min_length=2, max_length=2)]


class CertifiedKeys(TypedDict):
    """The keys that were asked for, without any key."""

    encoding: KeyEncoding
    """How the keys were written."""
    hmac_sha256: list[Sha256]
    """HMAC-SHA256 of each key as it was written, in UTF-8, by the secret of the request; sorted."""


class CertifiedLogDir(TypedDict):
    """A log dir."""

    path: str
    """The path of the log dir; of a copy, the path of the copy."""
    directory_id: str | None
    """Its `directory.id` in `meta.properties`; null if there is none."""
    copy_of: str | None
    """What it is a copy of, by its manifest; null if it is no copy. A copy is no replica of its broker."""


class CertifiedBytes(TypedDict):
    """The content of a file."""

    bytes: Count
    """The size of the file."""
    sha256: Sha256
    """The SHA-256 of the file."""


class CertifiedDeed(TypedDict):
    """An erasure in one segment."""

    time_ms: int
    """When it began, epoch ms."""
    records: Positive
    """The records that went."""
    tombstones: Count
    """Those among them without a value."""
    first_offset: int
    """The offset of the first one."""
    last_offset: int
    """The offset of the last one."""
    ranges: list[OffsetPair]
    """The offsets of the records that went, each range with its end inclusive. Empty if an earlier run erased them, of
    which the journal keeps only the first and the last offset."""


class CertifiedFile(TypedDict):
    """A `.log` of a partition."""

    path: str
    """Its path, seen from the log dir."""
    base_offset: int
    """The base offset of the segment."""
    active: bool
    """True if it was the last segment, which a broker appends to."""
    before: CertifiedBytes | None
    """The file before the first erasure of this request; null if the request changed nothing in it."""
    after: CertifiedBytes | None
    """The file as it was when the certificate was made; null if it could not be read."""
    inode: Count
    """Its inode then."""
    mtime_ns: int
    """Its time of last change then, ns since the epoch."""
    deeds: list[CertifiedDeed]
    """The erasures of this request in it."""


class CertifiedPartition(PartitionPlace):
    """A partition that the request names."""

    topic_id: str | None
    """The topic's id; null if there is none."""
    outcome: ErasureOutcome
    """What became of it: all records of the keys are erased that the request names, some stay for now, it was refused,
    or it failed."""
    refused: EraseRefused | None
    """Why nothing was erased; null if something could be."""
    error: str | None
    """Why it failed; null if it did not."""
    records: Count
    """The records that went, by all runs of this request that the journal tells of."""
    stays: list[EraseStays]
    """The records of the keys that stay, and why."""
    until_ms: int | None
    """Until when the replaced files wait as `.deleted`, epoch ms; null if none waits by this run."""
    replicas: list[int] | None
    """The node ids of the brokers that the cluster metadata assigns it to; null if it was not there."""
    files: list[CertifiedFile]
    """Its `.log` files, ascending."""


class UncertifiedPartition(TypedDict):
    """A partition that the request names, by the cluster metadata, and that no log dir here has."""

    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    replicas: list[int]
    """The node ids of the brokers that the cluster metadata assigns it to."""


class CertificateHolder(TypedDict):
    """A file that still holds keys."""

    path: str
    """The path of the file."""
    directory: FileHome
    """The kind of its directory."""
    values: Count
    """The records of the keys that have a value."""
    tombstones: Count
    """Those without a value."""
    codes: list[DepartureCode]
    """What ends that (docs/prove-erased.md)."""
    gone_by_ms: int | None
    """When no key is left in it, epoch ms; null if no time is known."""


class ErasureCertificateDocument(TypedDict):
    """The certificate that `erase --certificate` writes. It names no key."""

    schema: Literal["logcleaner.erasure_certificate/1"]
    """The name of this schema."""
    tool: str
    """The program and its version."""
    time_ms: int
    """When it was made, epoch ms."""
    request: str
    """The id of the request: the same in all certificates of one secret."""
    kind: Literal["in_place", "copy"]
    """Whether the log dirs themselves lost the records, or a copy was made without them."""
    original: str | None
    """The log dir that the copy was made of, which keeps the records; null without a copy."""
    keys: CertifiedKeys
    """The keys."""
    topics: list[str]
    """The globs over topics or partitions."""
    with_tombstones: bool
    """True if records without a value were to go, too."""
    host: str
    """The name of the machine."""
    node_id: int | None
    """The id of the broker, by `meta.properties`; null if none is stated."""
    cluster_id: str | None
    """The id of the cluster, by `meta.properties`; null if none is stated."""
    log_dirs: list[CertifiedLogDir]
    """The log dirs that were locked and searched."""
    tier: str | None
    """The tier that was searched, too; null if none was named."""
    partitions: list[CertifiedPartition]
    """The partitions that the request names."""
    unseen: list[UncertifiedPartition]
    """Those among them that no log dir here has: another log dir or broker must erase them, too."""
    holders: list[CertificateHolder]
    """The files of these topics that still held a key then, as `prove-erased` finds them."""
    not_searched: list[str]
    """Files of these topics that could not be searched, or not in full, and why."""
    errors: list[str]
    """Failures of whole log dirs."""
    limits: list[str]
    """What the certificate does not cover."""


class CheckedFile(TypedDict):
    """A file held against its certificate."""

    path: str
    """The path of the file."""
    state: CertifiedState
    """What became of it (docs/erase.md)."""
    text: str
    """A sentence for people."""


class ErasureCheckDocument(TypedDict):
    """The document that `erase --check --json` prints."""

    schema: Literal["logcleaner.erasure_check/1"]
    """The name of this schema."""
    certificate: str
    """The path of the certificate."""
    certified_ms: int
    """When it was made, epoch ms."""
    request: str
    """The id of the request."""
    signed_by: str | None
    """Who signed it, by `--allowed-signers`; null if nobody did, or nobody checked who."""
    wrong: bool
    """True if a file differs, or an erased record is back: exit status 4."""
    files: list[CheckedFile]
    """The certified files."""


class PendingPartition(TypedDict):
    """A replica of a partition."""

    topic: str
    """The topic."""
    partition: Count
    """The partition."""
    node_id: int | None
    """The id of the broker; null if it is not known."""
    state: ReplicaState
    """What is known about the replica (docs/erase.md)."""
    certificate: str | None
    """The path of the newest certificate of the replica; null if there is none."""
    certified_ms: int | None
    """When that was made, epoch ms."""
    host: str | None
    """The machine that it was made on."""
    log_dir: str | None
    """The log dir that has the replica, by that certificate."""
    elsewhere: list[PendingElsewhere]
    """Other places that certificates tell of as this broker's: a copied log dir has the ids of its broker."""


class PendingElsewhere(TypedDict):
    """A replica of the same broker in another place."""

    certificate: str
    """The path of its newest certificate."""
    host: str
    """The machine that it was made on."""
    log_dir: str
    """The log dir that has the replica."""
    outcome: ErasureOutcome
    """What became of it there."""


class PendingCopy(TypedDict):
    """A log dir that is a copy, and so no replica of its broker."""

    certificate: str
    """The path of the certificate."""
    host: str
    """The machine that it was made on."""
    path: str
    """The path of the copy."""
    original: str
    """What it is a copy of, by its manifest."""


class PendingHolder(TypedDict):
    """A file for which no time is known from which on it holds no key."""

    certificate: str
    """The path of the certificate that names it."""
    path: str
    """The path of the file on that machine."""
    values: Count
    """The records of the keys that have a value."""


class PendingUnsearched(TypedDict):
    """A file that could not be searched, or not in full."""

    certificate: str
    """The path of the certificate that names it."""
    text: str
    """The file on that machine, and why."""


class ErasurePendingDocument(TypedDict):
    """The document that `erase --pending --json` prints."""

    schema: Literal["logcleaner.erasure_pending/1"]
    """The name of this schema."""
    request: str
    """The id of the request."""
    pending: bool
    """True if a replica is owed, a file holds a key that nothing removes, or was not searched: exit status 10."""
    replicas: list[PendingPartition]
    """The replicas of all partitions that the certificates name."""
    copies: list[PendingCopy]
    """The log dirs in which nothing counts as a replica."""
    holders: list[PendingHolder]
    """The files that nothing removes."""
    not_searched: list[PendingUnsearched]
    """The files that may hold a key for all that is known."""
