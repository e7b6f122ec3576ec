"""Partitions that a run did not compact because of their content: a run tries them again once their files change.

Damage: a run from the command line tries every time, and leaves a line in the journal for ``topics``. A daemon would
read the same damage in every round.

Too many records without a key: the round that counted them leaves a line in the journal. As long as the same round
would read the same files, every later plan has the count from there, and knows what the guard rail says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from cleaner.engine.journal import GUARDED, partition_of, read_entries, read_journal
from policies.facts import CountedRound, KeyCount
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.reasons import Reason
from storage.errors import ErrorKind, LogCleanerError
from storage.log.listing import Listing, list_partition
from storage.names import FileState, TopicPartition


class HeldBack(LogCleanerError):
    """A guard rail held a compaction back once its records were counted, before anything was written."""

    kind = ErrorKind.REFUSED

    guard: Reason
    count: KeyCount

    def __str__(self) -> str:
        return f"{self.guard.code}: {self.guard.text}"


class Uncleanable(NamedTuple):
    """A partition as it was when it failed."""

    cause: str
    """The error, as it was reported."""
    fingerprint: str
    """A hash of names and identities of the segment files and producer snapshots, without files that wait as
    ``.deleted``.
    """

    @classmethod
    def of(cls, listing: Listing, cause: str) -> Self:
        """Remember a failure, by a listing made under the lock."""
        return cls(cause, _fingerprint(listing))

    def may_retry(self, listing: Listing) -> bool:
        """Return whether a file came, went or changed, by its name, device, inode, size or modification time."""
        return _fingerprint(listing) != self.fingerprint


def uncleanable_in(entries: Iterable[Mapping[str, Any]]) -> dict[str, Uncleanable]:
    """Return the partitions, by name, that failed in the last run that touched them, by a journal's entries."""
    found: dict[str, Uncleanable] = {}
    for entry in entries:
        match entry:
            case {"what": "failed", "partition": str(name), "error": str(cause), "fingerprint": str(fingerprint)}:
                found[name] = Uncleanable(cause, fingerprint)
            case {"what": "compact", "partition": str(name)}:  # a new attempt
                found.pop(name, None)
    return found


def causes(log_dirs: Iterable[Path], planned: Plan) -> dict[PartitionKey, str]:
    """Return the cause for each partition of a plan that failed when last tried, and has the same files since.

    Raises: UnreadableFile.
    """
    failed = {
        (str(log_dir), name): uncleanable
        for log_dir in log_dirs
        for name, uncleanable in uncleanable_in(read_journal(log_dir)).items()
    }
    found = {}
    for key in (partition.key for partition in planned.partitions):
        uncleanable = failed.get((key[0], str(key[1])))
        if uncleanable and not uncleanable.may_retry(list_partition(Path(key[0]) / str(key[1]))):
            found[key] = uncleanable.cause
    return found


class CountedFiles(NamedTuple):
    """A count, and the files that it was made of."""

    round: CountedRound
    fingerprint: str

    def of(self, listing: Listing) -> CountedRound | None:
        """Return the count if these are the same files; else None."""
        return self.round if _fingerprint(listing) == self.fingerprint else None


def guarded_entry(planned: PartitionPlan, listing: Listing, held: HeldBack) -> dict[str, object]:
    """Return the fields of a ``guarded`` line. ``listing``: made under the lock, before the round read anything."""
    assert planned.compaction is not None
    return {
        "code": held.guard.code.value,
        "text": held.guard.text,
        "first_dirty_offset": planned.compaction.round.first_dirty_offset,
        "end_offset": planned.compaction.round.end_offset,
        **held.count._asdict(),
        "fingerprint": _fingerprint(listing),
    }


def counts_in(log_dir: Path) -> dict[TopicPartition, CountedFiles]:
    """Return the newest count of each partition, by the ``guarded`` lines of a journal. Raises: UnreadableFile."""
    found: dict[TopicPartition, CountedFiles] = {}
    for entry in read_entries(log_dir, GUARDED):
        match entry:
            case {
                "first_dirty_offset": int(first_dirty_offset),
                "end_offset": int(end_offset),
                "records": int(records),
                "unkeyed": int(unkeyed),
                "fingerprint": str(fingerprint),
            } if entry.get("rounds", "full") == "full" and (topic_partition := partition_of(entry)):
                counted = CountedRound(first_dirty_offset, end_offset, KeyCount(records, unkeyed))
                found[topic_partition] = CountedFiles(counted, fingerprint)
    return found


def _fingerprint(listing: Listing) -> str:
    files = ((file.file_name, *file.identity) for file in listing.files if file.name.state is not FileState.DELETED)
    return sha256(repr(sorted(files)).encode()).hexdigest()
