"""Spend the plan of one log dir: deletions of every partition first, then compactions, each through the journal.

Deletions come first, because they make space and need next to none; ``policies.planning`` gives their order. A
partition that fails is reported, and stops no other partition.

With 0 bytes free nothing can be written, not even the journal, so no further step is begun in this log dir. Without a
delete delay the files are unlinked all the same; the writes follow once there is space: journal lines (logged as events
before the step), leader epochs, then the checkpoints.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from cleaner.engine.compactor import Compactor, Local
from cleaner.engine.deletion import check_unchanged, remove_segments, retire_segments, truncate_leader_epochs
from cleaner.engine.inventory import producer_state_of
from cleaner.engine.journal import DROPPED, GUARDED, Journal, JournalFull, compaction_entry, deletion_entry
from cleaner.engine.leftovers import Leftovers, sweep
from cleaner.engine.means import Listener, Means
from cleaner.engine.only_copies import ensure_no_copy_in_the_way
from cleaner.engine.outcome import Basis, PartitionResult
from cleaner.engine.space import DiskFigures
from cleaner.engine.uncleanable import HeldBack, Uncleanable, guarded_entry
from cleaner.engine.undo_notes import undo_of
from cleaner.errors import told
from policies.facts import PartitionFacts
from policies.plan import Compaction, LogDirPlan, PartitionKey, PartitionPlan, Plan, Request
from policies.planning import compaction_crews, compaction_steps, deletion_steps
from policies.reasons import Reason
from storage.directory import holding
from storage.errors import Corrupt, LogCleanerError, PlanOutOfDate, Stopped
from storage.filesystem import OutOfSpace
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from storage.segment import ensure_changeable

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted, Round

CHECKPOINT_SECONDS: Final = 1.0
"""The time for which lines of the cleaner's checkpoint may wait in memory.

The file holds a line for each partition, so writing it behind each one would take a time that grows with the square of
their number. A crash in between costs another round of the partitions whose lines were lost."""
SIDE_BY_SIDE: Final = 2
"""How many small compactions run side by side for each thread: while some wait for an fsync, others compute."""
_MAKE_SPACE: Final = "lower a retention, or move something that is not Kafka's off this disk"


class Executor:
    """Executes the plan of one log dir, whose lock the caller holds."""

    def __init__(
        self,
        log_dir: LogDir,
        means: Means,
        request: Request,
        compactor: Compactor | None = None,
        *,
        journal_full: str | None = None,
    ) -> None:
        """Prepare the execution.

        Args:
            log_dir: whose lock the caller holds.
            means: of the run.
            request: the one of the plan; if it unlinks at once, journal lines may wait for space.
            compactor: carries the compactions out.
            journal_full: the error, if recovery met, and reported, a journal without space: then no step is begun.
        """
        self.log_dir = log_dir
        self._compactor = compactor or Local()
        self._means = means
        self._request = request
        self._writing = threading.Lock()
        """The lock for checkpoints and errors, which all partitions share."""
        self._journal = Journal(log_dir.path, means.fs, means.clock.boot(), may_wait=request.is_at_once)
        self.journal_full = journal_full
        """The error, once the journal found no space. Then no step that needs a line is begun any more."""
        self.results: dict[PartitionKey, PartitionResult] = {}
        self.errors: list[str] = []
        self.changed: set[PartitionKey] = set()
        """Partitions that were skipped, because a file changed since the plan; they are planned anew, and retried."""
        self.left: set[PartitionKey] = set()
        """Partitions that were not begun, because the run must release the lock."""
        self._postponed: list[PartitionPlan] = []
        self._retried: set[PartitionKey] = set()
        self._deleted: list[PartitionPlan] = []
        self._cleaned: dict[TopicPartition, int | None] = {}
        """The lines of the cleaner's checkpoint that wait to be written."""
        self._checkpointed_seconds = -CHECKPOINT_SECONDS
        """When they were last written, by the stopwatch."""
        self._uncut: list[tuple[Path, int]] = []
        """The directories whose leader epochs could not be written yet on a full disk, with their log start offsets."""

    def delete(self, plan: LogDirPlan) -> None:
        """Carry the deletions out, or until asked to stop; ``results`` has an entry for every partition met.

        A deletion that makes an empty segment in place of all that it unlinks is left to ``settle``.
        """
        for step in deletion_steps(plan, at_once=self._request.is_at_once):
            if self._request.is_at_once and step.deletion and step.deletion.roll_at_offset is not None:
                self._postponed.append(step)
            else:
                self._attempt(step, self._delete)

    def settle(self) -> None:
        """Write the files that follow from the deletions.

        Call it after the deletions of every log dir, since these may share a full disk.
        """
        self._reported(self._journal.close)  # the deletions of these lines were carried out
        for step in self._postponed:
            self._attempt(step, self._delete)
        self._postponed.clear()
        for directory, log_start_offset in self._uncut:
            self._reported(partial(truncate_leader_epochs, self._means.fs, directory, log_start_offset))
        self._uncut.clear()
        self._checkpoint(LOG_START_OFFSET_CHECKPOINT, dict(log_starts_after(self._deleted)))

    def compact(self, plan: LogDirPlan) -> None:
        """Carry the compactions out, or until asked to stop; then the corrections of the cleaner's checkpoint.

        With several threads, small compactions run side by side, with one thread each. Then the large compactions run
        in turn, each with all threads.
        """
        for wave in self._compactor.waves(compaction_steps(plan)):
            self._prepare(wave)
            together, in_turn = compaction_crews(wave, self._means.threads, self._means.broker)
            for step in (*self._compact_together(together), *in_turn):
                self._attempt(step, self._compact)
        self._write_cleaned()
        self.correct_checkpoint(plan)

    def compact_partition(self, partition: PartitionPlan) -> None:
        """Carry out one compaction."""
        self._attempt(partition, self._compact)
        self._write_cleaned()

    def _compact_together(self, steps: Sequence[PartitionPlan]) -> list[PartitionPlan]:
        """Compact partitions side by side.

        Return the partitions that found no free space, because other compactions took it.
        """
        without_space: list[PartitionPlan] = []
        side_by_side = min(len(steps), self._means.threads * SIDE_BY_SIDE)
        means = replace(self._means, threads=1, side_by_side=side_by_side)

        def compact_beside(partition: PartitionPlan, before: PartitionResult) -> PartitionResult:
            try:
                return self._compact(partition, before, means)
            except OutOfSpace:
                without_space.append(partition)
                return before

        if steps:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - it loads Python's logging

            with ThreadPoolExecutor(means.side_by_side, "partition") as pool:
                for done in [pool.submit(self._attempt, step, compact_beside) for step in steps]:
                    done.result()
        return without_space

    def correct_checkpoint(self, plan: LogDirPlan) -> None:
        """Correct the first dirty offsets of the checkpoint that lie outside their log."""
        if self.journal_full:
            return
        self._checkpoint(CLEANER_OFFSET_CHECKPOINT, dict(corrected_checkpoints(plan, self._failed())))

    def retry(self, planned: Plan) -> None:
        """Forget, once for each partition, the failure of those whose files had changed and that the new plan has."""
        for key in self.changed & {p.key for p in planned.partitions}:
            self.results[key] = replace(self.results[key], error=None)
        self._retried |= self.changed
        self.changed.clear()

    def close(self) -> None:
        """Close the journal; calling it again does nothing."""
        self._reported(self._journal.close)

    def _prepare(self, wave: Sequence[PartitionPlan]) -> None:
        """Do the work that the compactions of a wave share. If it fails, they have failed."""
        failed = self._failed()
        steps = [step for step in wave if step.key not in failed]
        try:
            if steps and not self.journal_full and not self._means.stopping():
                self._compactor.prepare(self._rounds(steps), self._means)
        except LogCleanerError as error:
            for step in steps:
                self._attempt(step, partial(_refused, error))

    def _rounds(self, steps: Sequence[PartitionPlan]) -> Iterator[tuple[Round, Path]]:
        """Yield the rounds to prepare. A round that cannot be made is reported when its turn comes."""
        from cleaner.engine.compaction import round_of  # noqa: PLC0415 - loads kernels, which retention never needs

        for step in steps:
            directory = self._path_of(step.facts)
            with suppress(LogCleanerError, OSError):
                yield round_of(step, list_partition(directory), self._request, self._means), directory

    def _attempt(
        self, partition: PartitionPlan, step: Callable[[PartitionPlan, PartitionResult], PartitionResult]
    ) -> None:
        """Run one step of a partition; its failure is a fact of its result."""
        key = partition.facts.log_dir, partition.facts.topic_partition
        before = self.results.get(key, PartitionResult(Basis.DONE))
        if before.error or self.journal_full or self._means.stopping() or key in self.left:
            return
        if key not in self.results and not self._means.may_begin():
            self.left.add(key)
            return
        start_seconds = self._means.clock.seconds()
        try:
            after = step(partition, before)
        except JournalFull:
            return  # reported once, for the whole log dir
        except Stopped:
            after = before
        except PlanOutOfDate as error:
            after = replace(before, error=str(error))
            self._tell_changed(key, error)
        except (LogCleanerError, OSError, MemoryError) as error:
            is_corrupt = isinstance(error, Corrupt)
            after = replace(before, error=told(self._with_remedy(error)), is_corrupt=is_corrupt)
            self._event("partition_failed", key[1], error=after.error)
            if is_corrupt:
                self._reported(partial(self._record_failure, key[1], str(error)))
        self.results[key] = replace(after, seconds=before.seconds + self._means.clock.seconds() - start_seconds)

    def _with_remedy(self, error: Exception) -> Exception:
        """Return the error with another remedy if its remedy is to unlink at once, which this run does already."""
        if isinstance(error, OutOfSpace) and self._request.is_at_once:
            others = "let retention make some in other topics, too (no --topic), " if self._request.topics else ""
            return OutOfSpace(error.path, error.wanted_bytes, f"{others}{_MAKE_SPACE}")
        return error

    def _tell_changed(self, key: PartitionKey, error: PlanOutOfDate) -> None:
        if key in self._retried:
            self._event("partition_failed", key[1], error=str(error))
        else:
            self.changed.add(key)
            self._event("partition_changed", key[1], path=str(error.path), cause=error.cause)

    def _failed(self) -> set[PartitionKey]:
        return {key for key, result in self.results.items() if result.error}

    def _with_space_back(self, partition: PartitionPlan, result: PartitionResult) -> PartitionResult:
        """Unlink the files that a compaction renamed, before the next one needs space; do nothing if there is a
        delay.
        """
        if not self._request.is_at_once:
            return result
        left = Leftovers.of(partition, list_partition(self._path_of(partition.facts)), 0, is_asked=True)
        swept = sweep(self._means.fs, left, self._means.clock.now_ms())
        space = result.space.plus(DiskFigures.left(swept.disk_bytes, at_once=True))
        return replace(result, freed_bytes=result.freed_bytes + swept.size_bytes, space=space)

    def _delete(self, partition: PartitionPlan, before: PartitionResult) -> PartitionResult:
        facts, deletion = partition.facts, partition.deletion
        assert deletion is not None
        listing = list_partition(self._path_of(facts))
        check_unchanged(listing.segments, deletion.segments)
        ensure_no_copy_in_the_way(self.log_dir, facts.topic_partition, listing, deletion.base_offsets)
        ensure_changeable(listing.directory, deletion.base_offsets)
        undo = {} if self._request.is_at_once else {"undo": undo_of(facts, deletion, listing)}
        self._record("delete", facts.topic_partition, **deletion_entry(deletion), **undo)
        unlink = partial(remove_segments, made_space=self._journal.try_again)
        remove = unlink if self._request.is_at_once else retire_segments
        state_of = partial(producer_state_of, facts, listing, self._request.now_ms, self._means)
        remove(self._means.fs, listing, deletion, lambda: state_of().to_snapshot_bytes())
        self._deleted.append(partition)
        if self._request.is_at_once:
            self._cut_leader_epochs(listing.directory, deletion.new_log_start_offset)
        for segment, verdict in deletion.decided:
            size_bytes, reason = segment.size_bytes + segment.companions_bytes, verdict.reason.code.value
            fields = {"base_offset": segment.base_offset, "bytes": size_bytes, "reason": reason}
            self._event("segment_deleted", facts.topic_partition, **fields)
        return before.with_deletion(deletion, at_once=self._request.is_at_once)

    def _cut_leader_epochs(self, directory: Path, log_start_offset: int) -> None:
        """Cut the leader epochs now. If the disk has no space yet, cut them after all deletions."""
        try:
            truncate_leader_epochs(self._means.fs, directory, log_start_offset)
        except OutOfSpace:
            self._uncut.append((directory, log_start_offset))

    def _record(self, what: str, topic_partition: TopicPartition, **fields: object) -> None:
        """Write a journal line.

        If the line has to wait in memory, log it as an event, too, because a crash would lose it.

        Raises: JournalFull, after noting it among the errors of the log dir.
        """
        now_ms = self._means.clock.now_ms()
        try:
            is_written = self._journal.record(what, now_ms, partition=str(topic_partition), **fields)
        except JournalFull as error:
            with self._writing:
                if not self.journal_full:
                    self.journal_full = str(error)
                    self.errors.append(self.journal_full)
            raise
        if not is_written:
            self._event("journal_waits", topic_partition, what=what, **fields)

    def _record_failure(self, topic_partition: TopicPartition, cause: str) -> None:
        """Write a journal line for ``topics``, which reads no records."""
        failed = Uncleanable.of(list_partition(self.log_dir.path / str(topic_partition)), cause)
        with suppress(JournalFull):  # told already
            self._record("failed", topic_partition, error=failed.cause, fingerprint=failed.fingerprint)

    def _compact(
        self, partition: PartitionPlan, before: PartitionResult, means: Means | None = None
    ) -> PartitionResult:
        facts, compaction = partition.facts, partition.compaction
        assert compaction is not None
        with holding(self._path_of(facts)):
            done = self._compact_held(partition, compaction, means or self._means)
        if isinstance(done, Reason):
            return replace(before, guard=done)
        if done.unkeyed:
            with suppress(JournalFull):  # told already, and the compaction is done
                self._record(DROPPED, facts.topic_partition, records_unkeyed=done.unkeyed)
        self._note_cleaned(facts.topic_partition, done.end_offset)
        tell_compacted(self._means.listener, facts.topic_partition, compaction, done)
        return self._with_space_back(partition, before.with_compaction(compaction, done))

    def _compact_held(self, partition: PartitionPlan, compaction: Compaction, means: Means) -> Compacted | Reason:
        """Compact a partition whose directory is held. Return the guard instead if a guard rail held it back."""
        from cleaner.engine.compaction import round_of  # noqa: PLC0415 - loads kernels, which retention never needs

        facts = partition.facts
        listing = list_partition(self._path_of(facts))
        round_ = round_of(partition, listing, self._request, self._means)
        ensure_no_copy_in_the_way(self.log_dir, facts.topic_partition, listing, compaction.base_offsets)
        ensure_changeable(listing.directory, compaction.base_offsets, and_readable=True)
        self._record("compact", facts.topic_partition, **compaction_entry(compaction))
        self._event("compaction_begun", facts.topic_partition, bytes=compaction.size_bytes)
        try:
            return self._compactor.compact(round_, means)
        except HeldBack as held:
            with suppress(JournalFull):  # told already
                self._record(GUARDED, facts.topic_partition, **guarded_entry(partition, listing, held))
            return held.guard

    def _note_cleaned(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """Note a line of the cleaner's checkpoint, behind the swaps of the partition."""
        now_seconds = self._means.clock.seconds()
        with self._writing:
            self._cleaned[topic_partition] = end_offset
            is_due = now_seconds - self._checkpointed_seconds >= CHECKPOINT_SECONDS
            if is_due:
                self._checkpointed_seconds = now_seconds
        if is_due:
            self._write_cleaned()

    def _write_cleaned(self) -> None:
        """Write the lines of the cleaner's checkpoint that wait."""
        with self._writing:
            cleaned, self._cleaned = self._cleaned, {}
        self._checkpoint(CLEANER_OFFSET_CHECKPOINT, cleaned)

    def _checkpoint(self, name: str, changed: dict[TopicPartition, int | None]) -> None:
        """Change some lines of a checkpoint file; a None takes a line out, the other partitions keep theirs."""

        def write() -> None:
            offsets = {**self.log_dir.offsets(name), **changed}
            kept = {topic_partition: offset for topic_partition, offset in offsets.items() if offset is not None}
            self.log_dir.write_offsets(name, kept, self._means.fs)

        if changed:
            with self._writing:
                self._reported(write)

    def _reported(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (LogCleanerError, OSError) as error:
            if (cause := told(error)) not in self.errors:  # a journal that cannot be written fails each attempt
                self.errors.append(cause)

    def _path_of(self, facts: PartitionFacts) -> Path:
        return self.log_dir.path / str(facts.topic_partition)

    def _event(self, name: str, topic_partition: TopicPartition, **fields: object) -> None:
        self._means.listener.event(name, **topic_partition._asdict(), **fields)


def log_starts_after(partitions: Sequence[PartitionPlan]) -> Iterator[tuple[TopicPartition, int | None]]:
    """Yield the lines of ``log-start-offset-checkpoint`` that deletions change; None takes a line out.

    A log start needs its line only while it lies above the first segment's base. Source: Kafka LogManager.

    If a partition has two deletions, the later one counts.
    """
    for partition in partitions:
        deletion = partition.deletion
        assert deletion is not None
        left = partition.facts.segments[len(deletion.segments) :]
        first_base = left[0].base_offset if left else deletion.roll_at_offset
        assert first_base is not None
        is_inside = deletion.new_log_start_offset > first_base
        yield partition.facts.topic_partition, deletion.new_log_start_offset if is_inside else None


def corrected_checkpoints(plan: LogDirPlan, failed: set[PartitionKey]) -> Iterator[tuple[TopicPartition, int | None]]:
    """Yield corrected lines of ``cleaner-offset-checkpoint``, without those of partitions that failed."""
    for partition in plan.partitions:
        if not isinstance(partition, PartitionPlan) or partition.key in failed:
            continue
        if partition.checkpoint_offset is not None:
            yield partition.facts.topic_partition, partition.checkpoint_offset


def _refused(error: LogCleanerError, _partition: PartitionPlan, _before: PartitionResult) -> NoReturn:
    raise error


def tell_compacted(
    listener: Listener, topic_partition: TopicPartition, compaction: Compaction, done: Compacted
) -> None:
    """Tell the listener what a compaction did."""
    place = topic_partition._asdict()
    listener.event(
        "segments_compacted",
        **place,
        first_base_offset=compaction.segments[0].base_offset,
        segments=len(compaction.segments),
        from_bytes=compaction.size_bytes,
        to_bytes=done.size_bytes,
        records_read=done.records_read,
        records_kept=done.records_kept,
    )
    if done.unkeyed:
        listener.event("unkeyed_records_dropped", **place, count=done.unkeyed)
