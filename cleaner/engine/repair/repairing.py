"""Repairs of some log dirs: check, decide, mend; the plan without the last step is the dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from cleaner.engine.checking.checked import Checked, CheckRequest
from cleaner.engine.journal import Journal
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.repair.mending import mend
from cleaner.engine.repair.observing import PlannedRepair, Surroundings, plan_repairs
from cleaner.errors import told
from policies.checking.findings import Finding, Harm
from policies.checking.repairs import RepairKind, targets_of
from storage.errors import LogCleanerError
from storage.log_dir import LogDir

Check = Callable[[Sequence[LogDir], CheckRequest, Means], Checked]
"""Finds what is wrong in log dirs."""


class RepairRequest(NamedTuple):
    """The repairs that were asked for."""

    check: CheckRequest
    """What is checked: only files that it finds wrong are mended."""
    kinds: frozenset[RepairKind]


class RepairResult(NamedTuple):
    """The outcome of the repair of one file."""

    planned: PlannedRepair
    is_done: bool = False
    error: str | None = None
    """Why the file is as it was, although it was to be mended."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """The findings of a check, and the repairs that followed, or would follow."""

    checked: Checked
    results: tuple[RepairResult, ...]
    dry_run: bool

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """The findings that no repair ends, worst first."""
        mended = {
            result.planned.repair.target.path
            for result in self.results
            if result.planned.repair.is_repairable and not result.error
        }
        return tuple(finding for finding in self.checked.findings if finding.path not in mended)

    @property
    def is_damaged(self) -> bool:
        """Return whether a finding worse than waste remains."""
        return any(finding.harm < Harm.WASTE for finding in self.remaining)

    @property
    def has_failed(self) -> bool:
        """Return whether a repair that may be done was not."""
        return any(result.error for result in self.results)


def plan_of(opened: OpenLogDirs, request: RepairRequest, check: Check) -> Repairs:
    """Return what ``repair_log_dirs`` would do. Nothing is changed, and no lock is needed.

    Args:
        opened: log dirs of one broker, with their configuration.
        request: what is checked, and which kinds of repairs were asked for.
        check: finds what is wrong.

    Raises: Stopped, UnreadableFile.
    """
    checked = check(opened.log_dirs, request.check, opened.means)
    targets = targets_of(checked.findings, request.kinds)
    planned = plan_repairs(targets, Surroundings(opened.log_dirs, opened.layers))
    return Repairs(checked, tuple(RepairResult(one) for one in planned), dry_run=True)


def repair_log_dirs(opened: OpenLogDirs, request: RepairRequest, check: Check) -> Repairs:
    """Carry out the repairs that may be done. The caller holds the locks. Arguments and errors as for ``plan_of``."""
    check_request = replace(request.check, is_locked_by_us=True)
    planned = plan_of(opened, request._replace(check=check_request), check)
    done = {id(result): result for result in planned.results}
    for log_dir in opened.log_dirs:
        own = [result for result in planned.results if result.planned.path.parent.parent == log_dir.path]
        own.sort(key=lambda result: result.planned.content is None)  # what is derived from a log goes before its cut
        done |= {id(before): after for before, after in zip(own, _repair_in(log_dir, own, opened.means), strict=True)}
    return replace(planned, results=tuple(done.values()), dry_run=False)


def _repair_in(log_dir: LogDir, results: Sequence[RepairResult], means: Means) -> Iterator[RepairResult]:
    with closing(Journal(log_dir.path, means.fs, means.clock.boot())) as journal:
        for result in results:
            may_begin = result.planned.repair.is_repairable and not means.stopping()
            yield _attempt(journal, result, means) if may_begin else result


def _attempt(journal: Journal, result: RepairResult, means: Means) -> RepairResult:
    """Carry out one repair; its failure stops nobody else."""
    planned = result.planned
    assert planned.topic_partition is not None
    place = planned.topic_partition._asdict()
    try:
        mend(means.fs, journal, planned, means.clock.now_ms())
    except (LogCleanerError, OSError) as error:
        means.listener.event("partition_failed", **place, error=told(error))
        return result._replace(error=told(error))
    fields = {"path": str(planned.path), "kind": planned.repair.target.kind.value}
    means.listener.event("file_repaired", **place, **fields, bytes=planned.repair.made_bytes)
    return result._replace(is_done=True)
