"""Reads the facts of earlier deletions: the files that still wait, and what changed around them since."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from cleaner.engine.inventory import Wanted
from cleaner.engine.undo_notes import journalled_deletions, moved_partitions
from policies.restore import DeletionFacts, Restoration, RestoreFacts, belongs_to_another_topic, restoration
from storage.checkpoints import LeaderEpochEntry, truncate_from_start
from storage.errors import LogCleanerError
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import Listing, ensure_plain_files, list_partition
from storage.log.topic_id import topic_id_if_readable
from storage.log_dir import LogDir, Offsets, TopicIds
from storage.names import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, FileState, TopicPartition


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """One partition: what can be restored of it, or was."""

    topic_partition: TopicPartition
    log_dir: str
    restoration: Restoration | None
    """The verdicts on the partition's deletions; None if the partition cannot be read."""
    error: str | None = None
    """Why it could not, or why its restore stopped; run again, it goes on from there."""
    held_since_ms: int | None = None
    """Epoch ms; None where it is not on hold."""
    is_done: bool = False
    """Whether what can be restored was."""
    lapsed_since_ms: int | None = None
    """The time, epoch ms, of a hold on another topic of this name, which does not count for this topic; None without
    such a hold.
    """


def survey_restores(log_dir: LogDir, wanted: Wanted, now_ms: int) -> list[RestoreResult]:
    """Return each wanted partition with deleted segments that wait, with a log start that can move back, or with a
    hold.

    Args:
        log_dir: the log dir.
        wanted: asked of each partition.
        now_ms: the clock's time, epoch ms.

    Raises: CorruptCheckpoint, CorruptHolds, UnreadableFile of what concerns the whole log dir.
    """
    stated = _Stated.of(log_dir, now_ms)
    found = dict(_candidates(log_dir, wanted, {*stated.holds, *moved_partitions(log_dir.path, now_ms)}))
    if not found:
        return []
    deletions = journalled_deletions(log_dir.path, found, stated.cleaned)
    results = (
        _result(log_dir.path, topic_partition, listing, deletions[topic_partition], stated)
        for topic_partition, listing in found.items()
    )
    return [result for result in results if result]


class _Stated(NamedTuple):
    """The facts about the partitions of a log dir that a restore needs."""

    holds: Offsets
    hold_ids: TopicIds
    log_starts: Offsets
    cleaned: Offsets
    now_ms: int

    @classmethod
    def of(cls, log_dir: LogDir, now_ms: int) -> Self:
        """Read them. Raises: CorruptCheckpoint, CorruptHolds, CorruptHoldIds, UnreadableFile."""
        holds = log_dir.holds()
        log_starts, cleaned = (log_dir.offsets(n) for n in (LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT))
        return cls(holds, log_dir.hold_ids(holds), log_starts, cleaned, now_ms)


def _candidates(
    log_dir: LogDir, wanted: Wanted, named: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, Listing | LogCleanerError]]:
    for topic_partition, path in log_dir.partitions():
        if not wanted(topic_partition):
            continue
        try:
            listing = list_partition(path)
        except LogCleanerError as error:
            yield topic_partition, error
            continue
        if topic_partition in named or listing.in_state(FileState.DELETED):
            yield topic_partition, listing


def _result(
    log_dir: Path,
    topic_partition: TopicPartition,
    listing: Listing | LogCleanerError,
    deletions: Sequence[DeletionFacts],
    stated: _Stated,
) -> RestoreResult | None:
    """Return the facts about a partition; None if it has no hold, and no deletion that the journal knows waits."""
    try:
        if isinstance(listing, LogCleanerError):
            raise listing
        ensure_plain_files(listing)
        epochs = read_leader_epochs(listing.directory)
    except LogCleanerError as error:
        return RestoreResult(topic_partition, str(log_dir), None, str(error))
    topic_id = topic_id_if_readable(listing.directory)
    since_ms = stated.holds.get(topic_partition)
    has_lapsed = belongs_to_another_topic(stated.hold_ids.get(topic_partition), topic_id)
    facts = RestoreFacts(
        topic_partition,
        str(log_dir),
        tuple(replace(d, has_other_epochs=not _fit(d, epochs)) for d in deletions),
        {file.name: file.identity for file in listing.files},
        stated.log_starts.get(topic_partition),
        None if has_lapsed else since_ms,
        stated.cleaned.get(topic_partition),
        topic_id,
        stated.now_ms,
    )
    planned = restoration(facts)
    if not planned.verdicts and not planned.moves and since_ms is None:
        return None
    lapsed_since_ms = since_ms if has_lapsed else None
    return RestoreResult(
        topic_partition,
        str(log_dir),
        planned,
        held_since_ms=facts.held_since_ms,
        lapsed_since_ms=lapsed_since_ms,
    )


def epochs_before(deletion: DeletionFacts, found: Sequence[LeaderEpochEntry]) -> list[LeaderEpochEntry]:
    """Return the leader epochs from before a deletion, and the epochs that began since."""
    before = [LeaderEpochEntry(*entry) for entry in deletion.leader_epochs]
    newest = before[-1].epoch if before else -1
    return before + [entry for entry in found if entry.epoch > newest]


def _fit(deletion: DeletionFacts, found: Sequence[LeaderEpochEntry]) -> bool:
    """Return whether the epochs are as before the deletion, or as the deletion leaves them."""
    before = epochs_before(deletion, found)
    return list(found) == before or (bool(found) and list(found) == truncate_from_start(before, found[0].start_offset))
