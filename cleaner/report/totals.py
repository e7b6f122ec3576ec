"""The sums over a plan and its outcome, which every report uses."""

from __future__ import annotations

from typing import NamedTuple

from cleaner.engine.outcome import Basis, Outcome
from cleaner.engine.space import DiskFigures
from policies.plan import PartitionPlan, Plan


class Totals(NamedTuple):
    """The figures of a run, or of what a dry run would do. Deletions include index files."""

    partitions: int
    failed: int
    unknown: int
    """Partitions that keep everything, because no source states their cleanup policy."""
    guarded: int
    """The number of partitions with a change that a guard rail holds back, whole or the compaction alone."""
    bytes_before: int
    deleting_partitions: int
    deleted_segments: int
    deleted_bytes: int
    freed_bytes: int
    compacted_partitions: int
    compacted_from_bytes: int
    compacted_to_bytes: int
    dirty_bytes: int
    """The dirty bytes of the partitions that are compacted."""
    records_unkeyed: int
    """Records without a key that compactions drop, as far as the data was read."""
    space: DiskFigures
    """The change of the disk's space by the deletions, and by the compactions whose data was read."""
    disk_bytes_before: int
    is_estimate: bool
    """Whether ``compacted_to_bytes`` is an upper bound, because the data was not read."""

    @classmethod
    def of(cls, plan: Plan, outcome: Outcome) -> Totals:
        """Add up the results of a run."""
        results = list(outcome.results.values())
        compacted = [result for result in results if result.compacted_from_bytes]
        return cls(
            partitions=len(plan.partitions) + len(plan.failures),
            failed=len(plan.failures) + sum(result.error is not None for result in results),
            unknown=sum(p.config_is_unknown for p in plan.partitions),
            guarded=sum(p.guard is not None for p in plan.partitions),
            bytes_before=sum(log_dir.facts.size_bytes for log_dir in plan.log_dirs),
            deleting_partitions=sum(result.deleted_segments > 0 for result in results),
            deleted_segments=sum(result.deleted_segments for result in results),
            deleted_bytes=sum(result.deleted_bytes for result in results),
            freed_bytes=sum(result.freed_bytes for result in results),
            compacted_partitions=len(compacted),
            compacted_from_bytes=sum(result.compacted_from_bytes for result in compacted),
            compacted_to_bytes=sum(result.compacted_to_bytes for result in compacted),
            dirty_bytes=sum(p.section.dirty_bytes for p in plan.partitions if p.section and _is_compacted(p, outcome)),
            records_unkeyed=sum(result.records_unkeyed for result in compacted),
            space=DiskFigures.total([result.space for result in results]),
            disk_bytes_before=sum(log_dir.facts.disk_bytes for log_dir in plan.log_dirs),
            is_estimate=any(result.basis is Basis.ESTIMATE for result in compacted),
        )

    @property
    def reclaimed_bytes(self) -> int:
        """The bytes by which the ``.log`` and index files shrink, once the ``.deleted`` files are unlinked, too."""
        compacted_bytes = self.compacted_from_bytes - self.compacted_to_bytes
        return self.deleted_bytes + compacted_bytes + self.space.index_saved_bytes


def log_dir_errors(plan: Plan, outcome: Outcome) -> list[str]:
    """Return the errors of whole log dirs, and the errors without a partition."""
    return [*(error for log_dir in plan.log_dirs for error in log_dir.facts.errors), *outcome.errors]


def _is_compacted(planned: PartitionPlan, outcome: Outcome) -> bool:
    return planned.key in outcome.results and outcome.results[planned.key].compacted_from_bytes > 0
