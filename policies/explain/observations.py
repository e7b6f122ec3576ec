"""The facts of an explanation beside those of a plan. Only ``cleaner.engine.explain`` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from policies.facts import NO_TIMESTAMP


class SegmentTimes(NamedTuple):
    """The timestamps of one segment, epoch ms; NO_TIMESTAMP if there is none. A cheap type, because there are many."""

    first_ms: int = NO_TIMESTAMP
    """The timestamp of the first record, or the largest of the first batch if only that is known."""
    newest_ms: int = NO_TIMESTAMP
    """The largest timestamp, by the time index and by the batches behind its last entry."""
    newest_offset: int | None = None
    """The last offset of the batch that holds it, if that is known."""


class RecordPlace(NamedTuple):
    """A record by its offset, with its timestamp in epoch ms."""

    offset: int
    timestamp_ms: int


class OpenTransaction(NamedTuple):
    """A transaction without an end marker."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    since_ms: int | None
    """The timestamp of its first batch, epoch ms; None if the batch is gone or has none."""
    transactional_id: str | None = None
    """The transactional id of the producer; None if it is not known, or if the transaction blocks nothing."""


class WaitingFiles(NamedTuple):
    """The ``.deleted`` files of a partition. Times are in epoch ms."""

    files: int
    size_bytes: int
    disk_bytes: int
    unknown_files: int
    """The number of files that no line of the journal names."""
    first_due_ms: int
    """When ``file.delete.delay.ms`` is over for the first file."""
    last_due_ms: int


class FailedAttempts(NamedTuple):
    """Compactions that failed one after the other, by the journal. Times are in epoch ms."""

    since_ms: int
    last_ms: int
    cause: str
    files_changed: bool
    """Whether a file of the partition changed since the last attempt."""


class DeleteHorizons(NamedTuple):
    """The batches that a compaction stamped with a delete horizon: they hold tombstones, or are markers."""

    batches: int = 0
    size_bytes: int = 0
    earliest_ms: int | None = None
    latest_ms: int | None = None
    unread_bytes: int = 0
    """The bytes of segments in which nobody looked for horizons, because they are too many."""


NO_HORIZONS: Final = DeleteHorizons()


class ActiveUse(NamedTuple):
    """The facts of the active segment that a broker asks before it appends."""

    first_batch_ms: int = NO_TIMESTAMP
    """The largest timestamp of the first batch."""
    index_entries: int = 0
    time_index_entries: int = 0


UNUSED: Final = ActiveUse()


class TopicHere(NamedTuple):
    """All partitions of the topic in the log dirs of the command."""

    partitions: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Observations:
    """The observations of one partition that its facts do not hold."""

    times: tuple[SegmentTimes, ...]
    """One for each segment of the facts, in order."""
    active: ActiveUse = UNUSED
    future: RecordPlace | None = None
    """The record with the greatest timestamp of the first segment that reaches into the future."""
    last_stable_offset: int | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    """The open transactions, by their first offset."""
    horizons: DeleteHorizons = NO_HORIZONS
    waiting: WaitingFiles | None = None
    failed: FailedAttempts | None = None
    topic: TopicHere | None = None
    checkpointed_high_watermark: int | None = None
    """The line of ``replication-offset-checkpoint`` as it is, also if it lies outside the log."""
    cleaner_checkpoint_ms: int | None = None
    """The file time of ``cleaner-offset-checkpoint``: when a cleaner last finished a round in this log dir."""
    locked_by: str | None = None
    """The holder of the log dir's lock, in words."""
    records_unkeyed: int | None = None
    """The records without a key that the compaction of the plan drops; None if nobody counted them."""
    problems: tuple[str, ...] = ()
    """A sentence for each thing that could not be read; the explanation leaves it out."""
