"""The subject of an analysis: the partitions of one plan, and extents of their files, fixed before the first task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cleaner.spark.table.options import PARTITION_BYTES_DEFAULT
from policies.facts import PartitionFacts
from policies.plan import PartitionPlan, Plan, path_of
from storage.directory import despite_vanishing
from storage.errors import LogCleanerError
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.scan.extents import Extent, Wanted, cut_partition
from storage.scan.partitions import OffsetRange


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """The offsets, files and lengths to read, as of one moment."""

    now_ms: int
    partitions: tuple[PartitionPlan, ...]
    """The plans of the partitions. A partition's *place* is its number in this tuple."""
    extents: tuple[Extent, ...]
    problems: tuple[str, ...]
    """A line for each thing that could not be planned."""

    @property
    def places(self) -> dict[Path, int]:
        """The places by partition directory."""
        return {Path(path_of(planned.facts)): place for place, planned in enumerate(self.partitions)}


def take_snapshot(plan: Plan) -> PlannedRead:
    """Fix the extents to read of each partition of a plan, and note the partitions that cannot be read."""
    problems = [error for log_dir in plan.log_dirs for error in log_dir.facts.errors]
    problems += [f"{failed.topic_partition}: {failed.error}" for failed in plan.failures]
    extents: list[Extent] = []
    for planned in plan.partitions:
        try:
            extents += despite_vanishing(partial(_extents, planned.facts))
        except LogCleanerError as error:
            problems.append(f"{planned.facts.topic_partition}: {error}")
    return PlannedRead(plan.request.now_ms, plan.partitions, tuple(extents), tuple(problems))


def _extents(facts: PartitionFacts) -> list[Extent]:
    listing = plan_recovery(list_partition(Path(path_of(facts)))).listing
    wanted = Wanted(OffsetRange(facts.log_start_offset, facts.log_end_offset), None, PARTITION_BYTES_DEFAULT, False)
    return list(cut_partition(facts.topic_partition, listing.segments, wanted))
