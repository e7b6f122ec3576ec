"""Repairs of some log dirs: check, decide, mend; the plan without the last step is the dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from cleaner.engine.checking.checked import Checked, CheckRequest
from cleaner.engine.checking.checking import check_log_dirs
from cleaner.engine.journal import Journal
from cleaner.engine.means import Means
from cleaner.engine.repair.mending import mend
from cleaner.engine.repair.observing import Planned, Surroundings, plan_repairs
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
    """What became of one file."""

    planned: Planned
    is_done: bool = False
    error: str | None = None
    """Why the file is as it was, although it was to be mended."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """What a check found, and what was mended of it, or would be."""

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


class Repairer:
    """Repairs log dirs. The caller holds their locks while ``repair`` runs."""

    def __init__(self, surroundings: Surroundings, means: Means, check: Check = check_log_dirs) -> None:
        """Read nothing yet.

        Args:
            surroundings: the log dirs, and their configuration as read under the locks.
            means: of the run.
            check: finds what is wrong.
        """
        self._surroundings, self._means, self._check = surroundings, means, check

    def plan(self, request: RepairRequest) -> Repairs:
        """Return what a repair would do; nothing is changed, and no lock is needed. Raises: Stopped, UnreadableFile."""
        checked = self._check(self._surroundings.log_dirs, request.check, self._means)
        planned = plan_repairs(targets_of(checked.findings, request.kinds), self._surroundings)
        return Repairs(checked, tuple(RepairResult(one) for one in planned), dry_run=True)

    def repair(self, request: RepairRequest) -> Repairs:
        """Mend what may be mended. Raises: as ``plan``."""
        planned = self.plan(request)
        results = {id(r): r for r in planned.results}
        for log_dir in self._surroundings.log_dirs:
            own = [r for r in planned.results if r.planned.path.parent.parent == log_dir.path]
            own.sort(
                key=lambda result: result.planned.content is None
            )  # what is derived from a log goes before its cut
            results |= {id(before): after for before, after in zip(own, self._in(log_dir, own), strict=True)}
        return replace(planned, results=tuple(results.values()), dry_run=False)

    def _in(self, log_dir: LogDir, results: Sequence[RepairResult]) -> Iterator[RepairResult]:
        with closing(Journal(log_dir.path, self._means.fs, self._means.clock.boot())) as journal:
            for result in results:
                may_begin = result.planned.repair.is_repairable and not self._means.stopping()
                yield self._attempt(journal, result) if may_begin else result

    def _attempt(self, journal: Journal, result: RepairResult) -> RepairResult:
        planned = result.planned
        assert planned.topic_partition is not None
        place = planned.topic_partition._asdict()
        try:
            mend(self._means.fs, journal, planned, self._means.clock.now_ms())
        except (LogCleanerError, OSError) as error:
            self._means.listener.event("partition_failed", **place, error=told(error))
            return result._replace(error=told(error))
        fields = {"path": str(planned.path), "kind": planned.repair.target.kind.value}
        self._means.listener.event("file_repaired", **place, **fields, bytes=planned.repair.made_bytes)
        return result._replace(is_done=True)
