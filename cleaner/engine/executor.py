"""Spend the plan of one log dir: deletions of every partition first, then compactions, each through the journal.

Deletions come first since they make space and need next to none; among each kind the smallest, surest space comes back
first. A partition that fails is reported and stops nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.engine.deletion import check_unchanged, delete_segments
from cleaner.engine.journal import Journal
from cleaner.engine.leftovers import sweep
from cleaner.engine.means import Means, Stopped
from cleaner.engine.outcome import Basis, PartitionKey, PartitionResult
from cleaner.engine.undo import undo_of
from policies.facts import PartitionFacts
from policies.plan import Compaction, Deletion, LogDirPlan, PartitionPlan
from storage.errors import LogCleanerError
from storage.log.listing import Listing, list_partition
from storage.log.producers import load_producer_state
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.producer_state import ProducerState

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted


class Executor:
    """Executes the plan of one log dir, whose lock the caller holds."""

    def __init__(self, log_dir: LogDir, means: Means, now_ms: int) -> None:
        self._log_dir = log_dir
        self._means = means
        self._now_ms = now_ms
        self._journal = Journal(log_dir.path, means.fs)
        self.results: dict[PartitionKey, PartitionResult] = {}
        self.errors: list[str] = []

    def execute(self, plan: LogDirPlan) -> None:
        """Do all of it, or until asked to stop; ``results`` has an entry for every partition that had work."""
        partitions = [p for p in plan.partitions if isinstance(p, PartitionPlan)]
        try:
            for partition in sorted((p for p in partitions if p.deletion), key=_smallest_deletion):
                self._attempt(partition, self._delete)
            self._checkpoint(LOG_START_OFFSET_CHECKPOINT, dict(_log_starts(self._done(partitions))))
            for partition in sorted((p for p in partitions if p.compaction), key=_smallest_compaction):
                self._attempt(partition, self._compact)
            self._checkpoint(CLEANER_OFFSET_CHECKPOINT, dict(_corrected(partitions)))
        finally:
            self._journal.close()

    def _attempt(
        self, partition: PartitionPlan, step: Callable[[PartitionPlan, PartitionResult], PartitionResult]
    ) -> None:
        """Run one step of a partition; its failure is a fact of its result."""
        key = partition.facts.log_dir, partition.facts.topic_partition
        before = self.results.get(key, PartitionResult(Basis.DONE))
        if before.error or self._means.stopping():
            return
        start_seconds = self._means.clock.seconds()
        try:
            after = self._with_space_back(partition, step(partition, before))
        except Stopped:
            after = before
        except (LogCleanerError, OSError, MemoryError) as error:
            after = replace(before, error=str(error) or "not enough memory")
            self._event("partition_failed", key[1], error=after.error)
        self.results[key] = replace(after, seconds=before.seconds + self._means.clock.seconds() - start_seconds)

    def _with_space_back(self, partition: PartitionPlan, result: PartitionResult) -> PartitionResult:
        """With no delay, what a step renamed is unlinked before the next step needs space."""
        if self._means.delete_delay_ms != 0:
            return result
        swept = sweep(self._means.fs, list_partition(self._path_of(partition.facts)), self._means.clock.now_ms(), 0)
        return replace(result, freed_bytes=result.freed_bytes + swept.size_bytes)

    def _delete(self, partition: PartitionPlan, before: PartitionResult) -> PartitionResult:
        facts, deletion = partition.facts, partition.deletion
        assert deletion is not None
        listing = list_partition(self._path_of(facts))
        check_unchanged(listing.segments, deletion.segments)
        undo = undo_of(facts, deletion, listing)
        self._journal.record("delete", self._means.clock.now_ms(), **_journalled(partition, deletion), undo=undo)
        delete_segments(
            self._means.fs,
            listing,
            deletion,
            lambda: self._producer_state(listing, facts).to_snapshot_bytes(),
        )
        for segment, verdict in zip(deletion.segments, partition.verdicts, strict=False):
            size_bytes = segment.size_bytes + segment.companions_bytes
            reason = verdict.reason.code.value
            self._event(
                "segment_deleted",
                facts.topic_partition,
                base_offset=segment.base_offset,
                bytes=size_bytes,
                reason=reason,
            )
        return replace(before, deleted_segments=len(deletion.segments), deleted_bytes=deletion.size_bytes)

    def _compact(self, partition: PartitionPlan, before: PartitionResult) -> PartitionResult:
        from cleaner.engine.compaction import Round, compact  # noqa: PLC0415 - loads numba, which retention never needs

        facts, compaction = partition.facts, partition.compaction
        assert compaction is not None
        listing = list_partition(self._path_of(facts))
        segments = tuple(check_unchanged(listing.segments, compaction.segments))
        producers = self._producer_state(listing, facts)
        self._journal.record("compact", self._means.clock.now_ms(), **_compaction_journalled(facts, compaction))
        round_ = Round(
            listing,
            segments,
            compaction,
            partition.policy,
            facts.log_start_offset,
            producers,
            self._now_ms,
        )
        done = compact(round_, self._means)
        self._checkpoint(CLEANER_OFFSET_CHECKPOINT, {facts.topic_partition: done.end_offset})
        self._tell_compacted(facts, compaction, done)
        return replace(
            before,
            compacted_from_bytes=compaction.size_bytes,
            compacted_to_bytes=done.size_bytes,
            records_read=done.records_read,
            records_kept=done.records_kept,
        )

    def _tell_compacted(self, facts: PartitionFacts, compaction: Compaction, done: Compacted) -> None:
        self._event(
            "segments_compacted",
            facts.topic_partition,
            first_base_offset=compaction.segments[0].base_offset,
            segments=len(compaction.segments),
            from_bytes=compaction.size_bytes,
            to_bytes=done.size_bytes,
            records_read=done.records_read,
            records_kept=done.records_kept,
        )
        if done.unkeyed:
            self._event("unkeyed_records_dropped", facts.topic_partition, count=done.unkeyed)

    def _producer_state(self, listing: Listing, facts: PartitionFacts) -> ProducerState:
        return load_producer_state(
            listing.snapshots, listing.segments, facts.log_start_offset, facts.log_end_offset,
            self._now_ms, self._means.broker.producer_id_expiration_ms,
        )  # fmt: skip

    def _checkpoint(self, name: str, changed: dict[TopicPartition, int | None]) -> None:
        """Change some lines of a checkpoint file; a None takes a line out, the other partitions keep theirs."""
        if not changed:
            return
        offsets = dict(self._log_dir.offsets(name))
        for topic_partition, offset in changed.items():
            if offset is None:
                offsets.pop(topic_partition, None)
            else:
                offsets[topic_partition] = offset
        try:
            self._log_dir.write_offsets(name, offsets, self._means.fs)
        except (LogCleanerError, OSError) as error:
            self.errors.append(str(error))

    def _done(self, partitions: Sequence[PartitionPlan]) -> Iterator[PartitionPlan]:
        """Partitions whose deletion took place."""
        for partition in partitions:
            result = self.results.get((partition.facts.log_dir, partition.facts.topic_partition))
            if result and result.deleted_segments and not result.error:
                yield partition

    def _path_of(self, facts: PartitionFacts) -> Path:
        return self._log_dir.path / str(facts.topic_partition)

    def _event(self, name: str, topic_partition: TopicPartition, **fields: object) -> None:
        self._means.listener.event(name, topic=topic_partition.topic, partition=topic_partition.partition, **fields)


def _smallest_deletion(partition: PartitionPlan) -> int:
    return partition.deletion.size_bytes if partition.deletion else 0


def _smallest_compaction(partition: PartitionPlan) -> int:
    return partition.compaction.size_bytes if partition.compaction else 0


def _log_starts(partitions: Iterator[PartitionPlan]) -> Iterator[tuple[TopicPartition, int | None]]:
    """A log start needs its line only while it lies above the first segment's base. Source: Kafka LogManager."""
    for partition in partitions:
        deletion = partition.deletion
        assert deletion is not None
        left = partition.facts.segments[len(deletion.segments) :]
        first_base = left[0].base_offset if left else deletion.roll_at_offset
        assert first_base is not None
        is_inside = deletion.new_log_start_offset > first_base
        yield partition.facts.topic_partition, deletion.new_log_start_offset if is_inside else None


def _corrected(partitions: Sequence[PartitionPlan]) -> Iterator[tuple[TopicPartition, int | None]]:
    for partition in partitions:
        if partition.checkpoint_offset is not None:
            yield partition.facts.topic_partition, partition.checkpoint_offset


def _journalled(partition: PartitionPlan, deletion: Deletion) -> dict[str, object]:
    return {
        "partition": str(partition.facts.topic_partition),
        "bytes": deletion.size_bytes,
        "log_start_offset": deletion.new_log_start_offset,
        "segments": [
            {
                "base_offset": v.base_offset,
                "bytes": v.size_bytes,
                "code": v.reason.code.value,
                "text": v.reason.text,
            }
            for v in partition.verdicts[: len(deletion.segments)]
        ],
    }


def _compaction_journalled(facts: PartitionFacts, compaction: Compaction) -> dict[str, object]:
    return {
        "partition": str(facts.topic_partition),
        "bytes": compaction.size_bytes,
        "first_dirty_offset": compaction.round.first_dirty_offset,
        "end_offset": compaction.round.end_offset,
        "groups": [list(group) for group in compaction.round.groups],
    }
