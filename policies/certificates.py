"""Judge certificates of erasures: a file held against its certificate, and the replicas that are still owed.

``erase --check`` asks about files, ``erase --pending`` about replicas (docs/erase.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class CertifiedState(StrEnum):
    """The closed list of what became of a certified file."""

    AS_CERTIFIED = "AS_CERTIFIED"
    GROWN = "GROWN"
    """It was the active segment: it begins with the certified bytes, and more follow."""
    REWRITTEN = "REWRITTEN"
    """Another file took its place, each batch with its checksum, and no erased offset has a record."""
    GONE = "GONE"
    RETURNED = "RETURNED"
    """An offset that was erased has a record again."""
    DIFFERS = "DIFFERS"
    """It has other bytes, and nobody rewrites a file that way."""

    @property
    def is_wrong(self) -> bool:
        """True if a person must look at it: exit status 4."""
        return self in (CertifiedState.RETURNED, CertifiedState.DIFFERS)


class FileSeen(NamedTuple):
    """The facts about a certified file, as it is now."""

    is_there: bool
    has_hash: bool = True
    """Whether the certificate has its hash."""
    is_same: bool = False
    """Whether it begins with the certified bytes; of a sealed segment, whether it has no others."""
    is_longer: bool = False
    has_same_size: bool = False
    has_same_inode: bool | None = None
    """Whether it is the same file; None in another place than the certified one."""
    was_cut: bool = False
    """Whether a leader's epoch begins in it, and each batch has the leader epoch of the checkpoint: a broker may have
    cut off its end and fetched it from that leader."""
    is_untouched: bool = False
    """Whether it is the same file with the same times."""
    journalled: str | None = None
    """The act of ours that the journal tells of since; None if it tells of none."""
    damage: str | None = None
    """Why a batch cannot be read."""
    returned_offset: int | None = None
    """The first erased offset that has a record."""
    is_below_start: bool = False
    """Whether the log start offset has passed the segment."""


class FileVerdict(NamedTuple):
    """The state of a file since its certificate, in a word and in a sentence."""

    state: CertifiedState
    text: str


def judge_file(seen: FileSeen) -> FileVerdict:  # noqa: PLR0911 - a table of rules
    """Judge a file by its certificate.

    Brokers and logcleaner replace a sealed segment by a new file. A broker writes into one only where a new leader has
    other records: it cuts off its end, and fetches that from the leader. So any other file with the same inode and size
    but other bytes was changed by a person, a program or the disk.
    """
    journalled = f"the journal tells of {seen.journalled} since" if seen.journalled else None
    if not seen.is_there:
        start = "the log starts behind it" if seen.is_below_start else None
        return FileVerdict(CertifiedState.GONE, journalled or start or "a broker deleted it, moved it or merged it")
    if seen.is_same:
        if seen.is_longer:
            return FileVerdict(CertifiedState.GROWN, "it begins with the certified bytes, and records follow")
        return FileVerdict(CertifiedState.AS_CERTIFIED, "it has the certified bytes")
    if seen.damage is not None:
        return FileVerdict(CertifiedState.DIFFERS, f"a batch is damaged: {seen.damage}")
    if seen.returned_offset is not None:
        text = f"offset {seen.returned_offset} was erased and has a record again: prove-erased says of which key"
        return FileVerdict(CertifiedState.RETURNED, text)
    if not seen.has_hash:
        return FileVerdict(CertifiedState.REWRITTEN, "it could not be read when the certificate was made: no hash")
    if journalled:
        return FileVerdict(CertifiedState.REWRITTEN, journalled)
    if seen.is_untouched:
        return FileVerdict(CertifiedState.DIFFERS, "its bytes changed, and its times did not: the disk lies")
    if seen.was_cut and seen.has_same_inode:
        text = "the leader changed: a broker cut off its end and fetched it anew, each batch with its checksum"
        return FileVerdict(CertifiedState.REWRITTEN, text)
    if seen.has_same_size and seen.has_same_inode is not False:
        return FileVerdict(
            CertifiedState.DIFFERS, "it was written to in place, as neither a broker nor logcleaner does"
        )
    return FileVerdict(CertifiedState.REWRITTEN, "another file took its place, each batch with its checksum")


class ErasureOutcome(StrEnum):
    """The closed list of what an erasure did to a partition."""

    ERASED = "ERASED"
    STAYS = "STAYS"
    """A record of a key stays for now."""
    REFUSED = "REFUSED"
    FAILED = "FAILED"


class ReplicaState(StrEnum):
    """The closed list of what is known about a replica."""

    ERASED = "ERASED"
    STAYS = "STAYS"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    OWED = "OWED"
    """The cluster metadata assigns it, and no certificate speaks of it."""
    UNKNOWN = "UNKNOWN"
    """No certificate tells which brokers have the other replicas."""


class CertifiedReplica(NamedTuple):
    """A partition of one certificate of an erasure in place."""

    topic: str
    partition: int
    topic_id: str | None
    node_id: int | None
    time_ms: int
    outcome: ErasureOutcome
    assigned: tuple[int, ...] | None
    """The node ids of all replicas by the cluster metadata; None if it was not there."""
    source: int
    """The number of the certificate among those given."""
    host: str
    log_dir: str
    searched: frozenset[str]
    """All log dirs that the certificate tells of."""
    is_copy: bool
    """Whether the log dir is a copy: then this is no replica, and the broker's own is owed."""

    def supersedes(self, other: CertifiedReplica) -> bool:
        """Return whether it tells of all that an older one of the same replica tells of."""
        return self.source != other.source and self.host == other.host and other.log_dir in self.searched


class UnseenPartition(NamedTuple):
    """A partition that the cluster metadata names, and none of the log dirs of a certificate has."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class PendingReplica(NamedTuple):
    """A replica, and what is known about it."""

    topic: str
    partition: int
    node_id: int | None
    state: ReplicaState
    certified: CertifiedReplica | None
    elsewhere: tuple[CertifiedReplica, ...] = ()
    """The newest certificates of other places that claim to be this replica, newest first."""

    @property
    def is_owed(self) -> bool:
        """True unless the replica was erased."""
        return self.state is not ReplicaState.ERASED


def pending_replicas(
    certified: Iterable[CertifiedReplica], unseen: Iterable[UnseenPartition] = ()
) -> tuple[PendingReplica, ...]:
    """Return every replica of the partitions that certificates tell of, ascending by topic, partition and broker.

    A partition that one of them did not see, and no other certified, is owed by all its brokers.

    The newest certificate that knows them says which replicas there are. Of a broker, the newest certificate of each
    place counts: a copied log dir has the ids of its broker, and nothing tells which place is the broker's. So a
    replica counts as erased only if it is so in every place. A certificate of another topic of that name, which was
    deleted since, counts for nothing.
    """
    groups: dict[tuple[str, int], list[CertifiedReplica]] = {}
    for one in sorted(certified, key=lambda one: one.time_ms, reverse=True):
        groups.setdefault((one.topic, one.partition), []).append(one)
    found: list[PendingReplica] = []
    for (topic, partition), group in sorted(groups.items()):
        by_node = _standing(group)
        assigned = _assigned(group, by_node)
        for node_id in sorted({*by_node, *(assigned or ())}, key=lambda node: -1 if node is None else node):
            known = by_node.get(node_id, [])
            state = ReplicaState(known[0].outcome) if known else ReplicaState.OWED
            found.append(
                PendingReplica(topic, partition, node_id, state, known[0] if known else None, tuple(known[1:]))
            )
        if assigned is None:
            found.append(PendingReplica(topic, partition, None, ReplicaState.UNKNOWN, None))
    owed = {(one.topic, one.partition, node) for one in unseen if one[:2] not in groups for node in one.replicas}
    found += [PendingReplica(*replica, ReplicaState.OWED, None) for replica in sorted(owed)]
    return tuple(sorted(found, key=lambda one: (one.topic, one.partition)))


def _standing(group: Sequence[CertifiedReplica]) -> dict[int | None, list[CertifiedReplica]]:
    """Return the certified replicas of each broker that count: those that were not erased first, then the newest.

    A broker of which only copies were certified has none. ``group``: of one partition, newest first.
    """
    topic_id = next((one.topic_id for one in group if one.topic_id is not None), None)
    by_node: dict[int | None, list[CertifiedReplica]] = {}
    for one in group:
        newer = by_node.setdefault(one.node_id, [])
        if not any(other.supersedes(one) for other in newer):
            newer.append(one)
    return {
        node_id: sorted(
            (one for one in newest if not one.is_copy), key=lambda one: one.outcome is ErasureOutcome.ERASED
        )
        for node_id, newest in by_node.items()
        if any(one.topic_id in (None, topic_id) for one in newest)
    }


def _assigned(
    group: Sequence[CertifiedReplica], by_node: Mapping[int | None, Sequence[CertifiedReplica]]
) -> frozenset[int] | None:
    """Return the node ids of all replicas; None if no certificate knows them.

    Where a broker has several places, each is asked: the metadata of a copy may be old.
    """
    by_trust = sorted(group, key=lambda one: one.is_copy)
    newest = next((one.assigned for one in by_trust if one.assigned is not None), None)
    if newest is None:
        return None
    disputed = [one for places in by_node.values() if len(places) > 1 for one in places]
    return frozenset(newest).union(*(one.assigned or () for one in disputed))
