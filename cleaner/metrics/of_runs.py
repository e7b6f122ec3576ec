"""The sums of the runs' figures, for the last run and since the start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cleaner.engine.outcome import Outcome, PartitionResult
from cleaner.metrics import families as names
from cleaner.metrics.of_plans import Failed, Sample
from policies.plan import PartitionKey, PartitionPlan, Plan

Figures = Mapping[str, int]
"""Stem of ``families.FIGURES`` -> value."""


class LastRunFigures(NamedTuple):
    """The figures of the last run."""

    ended_ms: int
    seconds: float
    swept_bytes: int
    figures: Mapping[str, Figures]
    """Log dir -> its figures."""

    def following(self, before: LastRunFigures) -> LastRunFigures:
        """Return the figures of a run; ``before`` holds those of its first part, these figures are the rest."""
        figures = {path: Counter(of_dir) for path, of_dir in before.figures.items()}
        for path, of_dir in self.figures.items():
            figures.setdefault(path, Counter()).update(of_dir)
        seconds, swept_bytes = before.seconds + self.seconds, before.swept_bytes + self.swept_bytes
        return LastRunFigures(self.ended_ms, seconds, swept_bytes, figures)


class RunTotals:
    """The totals over runs, and the partitions that failed."""

    def __init__(self) -> None:
        self.last: LastRunFigures | None = None
        self._is_open = False
        """More plans of the last run may be spent."""
        self.last_success_ms: int | None = None
        self._totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._results: Counter[str] = Counter(dict.fromkeys(names.RUN_RESULTS, 0))
        self._seconds = 0.0
        self._swept_bytes = 0
        self._map_utilisation: float | None = None
        self._uncleanable: set[PartitionKey] = set()
        self._failures: Counter[PartitionKey] = Counter()

    @property
    def failed(self) -> Failed:
        """A copy of the present failures of partitions."""
        return Failed(frozenset(self._uncleanable), dict(self._failures))

    def add(self, plan: Plan, outcome: Outcome, started_ms: int, ended_ms: int) -> None:
        """Add a run to the totals. Times are in epoch ms."""
        figures = _figures(plan, outcome)
        for log_dir, of_dir in figures.items():
            self._totals[log_dir].update(of_dir)
        seconds = (ended_ms - started_ms) / 1000
        used = [result.map_utilisation for result in outcome.results.values() if result.compacted_from_bytes]
        self._map_utilisation = max(used, default=self._map_utilisation)
        newest = LastRunFigures(ended_ms, seconds, outcome.swept_bytes, figures)
        self.last, self._is_open = newest.following(self.last) if self.last and self._is_open else newest, True
        self._seconds += seconds
        self._swept_bytes += outcome.swept_bytes
        result = _result(plan, outcome)
        self._results[result] += 1
        if result == "done":
            self.last_success_ms = ended_ms
        for key, of_partition in outcome.results.items():
            self._note(key, has_failed=of_partition.error is not None)

    def end_run(self) -> None:
        """End a run: the next plan that is spent begins another run."""
        self._is_open = False

    def died(self) -> None:
        """Count a run of which no outcome came back."""
        self._results["failed"] += 1

    def _note(self, key: PartitionKey, *, has_failed: bool) -> None:
        if has_failed:
            self._uncleanable.add(key)
            self._failures[key] += 1
        else:
            self._uncleanable.discard(key)

    def forget_vanished(self, plan: Plan) -> None:
        """Forget the failures of partitions that the plan does not have."""
        there = {partition.key for partition in plan.partitions}
        self._uncleanable &= there
        self._failures = Counter({key: count for key, count in self._failures.items() if key in there})

    def begin_at_zero(self, log_dirs: Iterable[str]) -> None:
        """Create the counters of these log dirs with 0, because a counter that appears with 5 hides five."""
        for log_dir in log_dirs:
            self._totals[log_dir].update(dict.fromkeys(names.FIGURES, 0))

    def samples(self) -> Iterator[Sample]:
        """Yield a sample for each known value."""
        for log_dir, totals in self._totals.items():
            for stem, family in names.TOTAL.items():
                yield Sample(family, (log_dir,), totals[stem])
        for result, count in self._results.items():
            yield Sample(names.RUNS, (result,), count)
        yield Sample(names.RUN_SECONDS, (), self._seconds)
        yield Sample(names.SWEPT, (), self._swept_bytes)
        if self._map_utilisation is not None:
            yield Sample(names.MAP_UTILISATION, (), self._map_utilisation)
        if self.last_success_ms is not None:
            yield Sample(names.LAST_SUCCESS, (), self.last_success_ms / 1000)
        if self.last:
            yield from _last_samples(self.last)


def _last_samples(last: LastRunFigures) -> Iterator[Sample]:
    for log_dir, figures in last.figures.items():
        for stem, family in names.LAST_RUN.items():
            yield Sample(family, (log_dir,), figures[stem])
    yield Sample(names.LAST_RUN_TIME, (), last.ended_ms / 1000)
    yield Sample(names.LAST_RUN_DURATION, (), last.seconds)
    yield Sample(names.LAST_RUN_SWEPT, (), last.swept_bytes)


def _figures(plan: Plan, outcome: Outcome) -> dict[str, Counter[str]]:
    """Return the sums of each log dir, also of log dirs in which nothing was done."""
    sums = {log_dir.facts.path: Counter(dict.fromkeys(names.FIGURES, 0)) for log_dir in plan.log_dirs}
    by_key = {partition.key: partition for partition in plan.partitions}
    for key, result in outcome.results.items():
        sums[key[0]].update(_of_partition(by_key.get(key), result))
    return sums


def _of_partition(planned: PartitionPlan | None, result: PartitionResult) -> Figures:
    is_compacted = result.compacted_from_bytes > 0
    read_segments = len(planned.compaction.segments) if is_compacted and planned and planned.compaction else 0
    return {
        "deleted_segments": result.deleted_segments,
        "deleted_bytes": result.deleted_bytes,
        "freed_bytes": result.freed_bytes,
        "compacted_segments": read_segments,
        "compaction_read_bytes": result.compacted_from_bytes,
        "compaction_written_bytes": result.compacted_to_bytes,
        "records_read": result.records_read,
        "records_kept": result.records_kept,
    }


def _result(plan: Plan, outcome: Outcome) -> str:
    has_failed = bool(
        plan.failures
        or outcome.errors
        or any(log_dir.facts.errors for log_dir in plan.log_dirs)
        or any(result.error for result in outcome.results.values())
    )
    return "failed" if has_failed else "interrupted" if outcome.interrupted else "done"
