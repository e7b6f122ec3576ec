"""The figures of a dry run, from the same code up to the step that would change something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cleaner.engine.journal import JournalFull, deletion_entry, encode_entry, ensure_space
from cleaner.engine.leftovers import Swept, leftovers_of
from cleaner.engine.means import Means
from cleaner.engine.outcome import Basis, PartitionResult
from cleaner.engine.uncleanable import HeldBack
from cleaner.engine.undo_notes import undo_of
from cleaner.errors import told
from policies.plan import Compaction, LogDirPlan, PartitionPlan, Plan, Request, path_of
from storage.errors import LogCleanerError, PlanOutOfDate, UnreadableFile
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir, writable_bytes
from storage.segment import ensure_changeable
from storage.stores.paths import path_of_text


class Rehearsal:
    """Computes the result of a run, without changes and without a lock."""

    def __init__(self, means: Means, request: Request) -> None:
        self._means = means
        self._request = request

    def result(self, partition: PartitionPlan, *, exact: bool) -> PartitionResult:
        """Return the result that one partition's actions would have: exact for deletions, and for compactions that read
        data.
        """
        expected, begun = self._expected(partition), PartitionResult(Basis.EXACT)
        start_seconds = self._means.clock.seconds()
        try:
            directory, compaction = path_of_text(path_of(partition.facts)), partition.compaction
            if partition.deletion:
                ensure_changeable(directory, partition.deletion.base_offsets)
                begun = self._expected(replace(partition, compaction=None)) if compaction else expected
            if compaction:
                ensure_changeable(directory, compaction.base_offsets, and_readable=True)
            measured = self._measured(partition, compaction, expected, directory) if exact and compaction else expected
        except HeldBack as held:
            measured = replace(begun, guard=held.guard)
        except (LogCleanerError, OSError) as error:
            if isinstance(error, PlanOutOfDate) or (isinstance(error, UnreadableFile) and error.has_vanished):
                return expected  # a live broker changed the files, so an estimate must do
            measured = replace(begun, error=told(error))
        return replace(measured, seconds=self._means.clock.seconds() - start_seconds)

    def swept(self, plan: Plan) -> Swept:
        """Return the figures of the leftovers that are due at the moment of the request."""
        now_ms = max(self._means.clock.now_ms(), self._request.now_ms)
        delay_ms = self._request.delete_delay_ms
        left = (left for log_dir_plan in plan.log_dirs for left in leftovers_of(log_dir_plan, delay_ms))
        return Swept.of([file for one in left for file in one.due(now_ms)])

    def full(self, plan: Plan) -> dict[str, str]:
        """Return the log dirs whose journal finds no space for the lines of a run -> the error.

        A run that unlinks at once writes its lines behind the deletions, and the leftovers that are due go before.
        """
        found: dict[str, str] = {}
        tight = [one for one in plan.log_dirs if not writable_bytes(path_of_text(one.facts.path))]
        if self._request.is_at_once or not tight:
            return found
        freeing = {_device(one) for one in plan.log_dirs if self.swept(replace(plan, log_dirs=(one,))).disk_bytes}
        for log_dir_plan in tight:
            planned = (p for p in log_dir_plan.partitions if isinstance(p, PartitionPlan))
            steps = [p for p in planned if p.deletion or p.compaction]
            if not steps or _device(log_dir_plan) in freeing:
                continue
            try:
                only_lines = None if any(p.compaction for p in steps) else sum(map(self._line_bytes, steps))
                ensure_space(path_of_text(log_dir_plan.facts.path), only_lines)
            except JournalFull as error:
                found[log_dir_plan.facts.path] = str(error)
            except LogCleanerError:
                continue  # the partition meets the error again, and reports it
        return found

    def _line_bytes(self, step: PartitionPlan) -> int:
        assert step.deletion is not None
        listing = list_partition(path_of_text(path_of(step.facts)))
        fields = {**deletion_entry(step.deletion), "undo": undo_of(step.facts, step.deletion, listing)}
        when = {"time_ms": self._request.now_ms, "boot": list(self._means.clock.boot() or ())}
        return len(encode_entry({**when, "what": "delete", "partition": str(step.facts.topic_partition), **fields}))

    def _expected(self, partition: PartitionPlan) -> PartitionResult:
        return expected_result(partition, at_once=self._request.is_at_once)

    def _measured(
        self, partition: PartitionPlan, compaction: Compaction, expected: PartitionResult, directory: Path
    ) -> PartitionResult:
        from cleaner.engine.compaction import measure, round_of  # noqa: PLC0415 - loads the kernels

        listing = plan_recovery(list_partition(directory)).listing
        round_ = round_of(partition, listing, self._request, self._means, _log_start(partition))
        done = measure(round_, self._means)
        return replace(expected.with_compaction(compaction, done), basis=Basis.EXACT)


def _device(plan: LogDirPlan) -> int:
    return LogDir(path_of_text(plan.facts.path)).space().device


def _log_start(partition: PartitionPlan) -> int:
    deletion = partition.deletion
    return deletion.new_log_start_offset if deletion else partition.facts.log_start_offset


def expected_result(partition: PartitionPlan, *, at_once: bool) -> PartitionResult:
    """Return the result of a partition as far as its plan tells it.

    The output of a compaction is not known without reading, so the result has its upper bound: the input.

    Args:
        partition: the plan.
        at_once: deleted files are unlinked in the run.
    """
    compaction = partition.compaction
    expected = PartitionResult(Basis.ESTIMATE if compaction else Basis.EXACT)
    if compaction:
        size_bytes = compaction.size_bytes
        expected = replace(expected, compacted_from_bytes=size_bytes, compacted_to_bytes=size_bytes)
    deletion = partition.deletion
    return expected.with_deletion(deletion, at_once=at_once) if deletion else expected
