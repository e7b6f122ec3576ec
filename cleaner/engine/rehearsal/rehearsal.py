"""The figures of a dry run, from the same code up to the step that would change something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cleaner.engine.leftovers import Swept, leftovers_of
from cleaner.engine.means import Means
from cleaner.engine.outcome import Basis, PartitionResult
from cleaner.engine.uncleanable import HeldBack
from cleaner.errors import told
from policies.plan import Compaction, PartitionPlan, Plan, Request, path_of
from storage.errors import LogCleanerError, PlanOutOfDate, UnreadableFile
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
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
