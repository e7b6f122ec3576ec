"""The metrics in Prometheus' text format. They are an ``Observer`` of the daemon, and of a one-shot run.

The figures of runs are summed up, for the last run and since the start. The samples of log dirs and partitions come
from a plan: the first scrape behind it turns the plan into text and drops the plan, for 2,000 partitions are a megabyte
of text, but many megabytes of facts. So later scrapes cost next to nothing.

Partitions are written as text, because prometheus-client takes ten times as long to build and print 10,000 samples.
"""

from __future__ import annotations

import platform
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from cleaner.daemon.observer import DaemonState, JobDone, JobKind, Observer
from cleaner.engine.outcome import Outcome, PartitionResult
from cleaner.metrics import families as names
from cleaner.metrics.families import Family
from policies.facts import PartitionFacts, UnreadablePartition
from policies.forecast.runway import Growth
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Plan, guards_of
from policies.planning import next_expiry_ms
from policies.reasons import Action, ReasonCode

_DELETING: Final = (ReasonCode.LOG_START_OFFSET, ReasonCode.RETENTION_SIZE, ReasonCode.RETENTION_TIME, ReasonCode.DIRTY)
"""Reasons that always have a series, because a series that comes and goes cannot be summed over time."""

Figures = Mapping[str, int]
"""Stem of ``families.FIGURES`` -> value."""


class Metrics(Observer, Collector):
    """The observer that counts events of the daemon as metrics. Any thread may call it."""

    def __init__(
        self,
        *,
        per_partition: str = "few",
        growths: Mapping[str, Growth] | None = None,
        version: str = "unknown",
        of_process: bool = True,
    ) -> None:
        """Begin without any event.

        Args:
            per_partition: ``few`` (five series for each partition), ``all`` or ``none``.
            growths: log dir -> its growth up to now.
            version: version of logcleaner.
            of_process: also export memory, processor time and files of this process. After its end they mean nothing,
                and the node exporter has its own under the same names.
        """
        self._families = names.FAMILIES_PER_PARTITION[per_partition]
        self._build = version, platform.python_version()
        self._lock = threading.Lock()
        self._runs = RunTotals()
        self._growths = dict(growths or {})
        self._plan: _Unread | _Read = _Read((), b"")
        self._planned_ms: int | None = None
        self._failures: Counter[JobKind] = Counter(dict.fromkeys(JobKind, 0))
        self._failing_log_dirs: dict[str, bool] = {}
        self._jobs: dict[JobKind, JobDone] = {}
        self._job_success_ms: dict[JobKind, int] = {}
        self._config_is_taken: bool | None = None
        self._config_taken_ms: int | None = None
        self._dead_threads = 0
        self._locked_seconds = 0.0
        self._state: DaemonState | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        if of_process:
            ProcessCollector(registry=self._registry)

    def planned(self, plan: Plan, now_ms: int) -> None:
        """Take a plan over all log dirs."""
        with self._lock:
            for log_dir in plan.log_dirs:
                path, free_bytes = log_dir.facts.path, log_dir.facts.free_bytes
                growth = self._growths.get(path, Growth(now_ms, free_bytes))
                self._growths[path] = growth.seen(free_bytes, now_ms)
                self._failing_log_dirs[path] = bool(log_dir.facts.errors)
            self._runs.begin_at_zero(self._failing_log_dirs)
            self._runs.forget_vanished(plan)
            self._plan = _Unread(plan, self._runs.failed, dict(self._growths))
            self._planned_ms = now_ms

    def ran(self, plan: Plan, outcome: Outcome, started_ms: int, ended_ms: int) -> None:
        """Add a run that carried out a plan. Times are in epoch ms."""
        with self._lock:
            self._runs.add(plan, outcome, started_ms, ended_ms)
            if isinstance(self._plan, _Unread):
                self._plan = self._plan._replace(failed=self._runs.failed)

    def round_ended(self) -> None:
        """End the run: the next plan that is spent begins another one."""
        with self._lock:
            self._runs.end_run()

    def log_dirs(self, failing: Mapping[str, bool]) -> None:
        """Set the log dirs, and whether each fails. A vanished log dir is in no plan, but must stay visible."""
        with self._lock:
            self._failing_log_dirs = dict(failing)
            self._runs.begin_at_zero(failing)

    def configured(self, now_ms: int, *, succeeded: bool) -> None:
        """Note that the configuration was read, and whether it was accepted."""
        with self._lock:
            self._config_is_taken = succeeded
            if succeeded:
                self._config_taken_ms = now_ms

    def did(self, job: JobDone) -> None:
        """Note that a job ended. A retention job with nothing to do counts as a success, too."""
        with self._lock:
            self._jobs[job.kind] = job
            if job.succeeded:
                self._job_success_ms[job.kind] = job.ended_ms
            if job.succeeded and job.is_whole and job.kind is JobKind.RETENTION:
                self._runs.last_success_ms = job.ended_ms

    def failed(self, where: JobKind, error: str) -> None:
        """Count a failure that is in no outcome."""
        del error
        with self._lock:
            self._failures[where] += 1

    def held_locks(self, seconds: float) -> None:
        """Add the time for which a round held the locks."""
        with self._lock:
            self._locked_seconds += seconds

    def worker_died(self, where: JobKind | None = None) -> None:
        """Count a worker that died, and with it the failed run of the job ``where``."""
        with self._lock:
            self._dead_threads += 1
            if where:
                self._failures[where] += 1
                self._runs.died()

    def state(self, state: DaemonState) -> None:
        """Set the state of the daemon."""
        with self._lock:
            self._state = state

    def succeeded_before(self, last_success_ms: int) -> None:
        """Set the time at which an earlier process last succeeded, in epoch ms."""
        with self._lock:
            self._runs.last_success_ms = last_success_ms

    @property
    def daemon_state(self) -> DaemonState | None:
        """The latest state of the daemon; None before the first."""
        with self._lock:
            return self._state

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format 0.0.4."""
        return generate_latest(self._registry) + self._read().partitions

    def samples(self) -> list[Sample]:
        """Return all samples except the samples of partitions."""
        of_plan = self._read().log_dirs
        with self._lock:
            return [*of_plan, *self._runs.samples(), *self._daemon_samples()]

    def collect(self) -> Iterable[Metric]:
        """Yield one metric for each family, for prometheus-client."""
        place = {family: at for at, family in enumerate(names.ALL)}
        ordered = sorted(self.samples(), key=lambda sample: place[sample.family])
        for family, samples in groupby(ordered, key=lambda sample: sample.family):
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for sample in samples:
                metric.add_sample(family.name, dict(zip(family.labels, sample.labels, strict=True)), sample.value)
            yield metric

    def _read(self) -> _Read:
        """Return the latest plan's metrics. Make them outside of the lock, so that the daemon never waits for them."""
        with self._lock:
            found = self._plan
        if isinstance(found, _Read):
            return found
        plan, failed, growths = found
        text = partitions_text(plan, failed, self._families)
        read = _Read(tuple(log_dir_samples(plan, failed, growths)), text.encode())
        with self._lock:
            if self._plan is found:
                self._plan = read
        return read

    def _daemon_samples(self) -> Iterator[Sample]:
        yield Sample(names.BUILD_INFO, self._build, 1)
        yield Sample(names.DEAD_THREADS, (), self._dead_threads)
        yield Sample(names.LOCK_SECONDS, (), self._locked_seconds)
        for where, count in self._failures.items():
            yield Sample(names.FAILURES, (where.value,), count)
        for log_dir, is_failing in self._failing_log_dirs.items():
            yield Sample(names.LOG_DIR_FAILED, (log_dir,), int(is_failing))
        if self._planned_ms is not None:
            yield Sample(names.PLAN_TIME, (), self._planned_ms / 1000)
        if self._state:
            yield Sample(names.READY, (), int(self._state.serves))
            yield Sample(names.OBSERVING, (), int(self._state.observing))
        if self._config_is_taken is not None:
            yield Sample(names.CONFIG_SUCCESS, (), int(self._config_is_taken))
        if self._config_taken_ms is not None:
            yield Sample(names.CONFIG_TIME, (), self._config_taken_ms / 1000)
        yield from self._job_samples()

    def _job_samples(self) -> Iterator[Sample]:
        for kind, job in self._jobs.items():
            yield Sample(names.JOB_SUCCESS, (kind.value,), int(job.succeeded))
            yield Sample(names.JOB_SECONDS, (kind.value,), (job.ended_ms - job.started_ms) / 1000)
        for kind, ended_ms in self._job_success_ms.items():
            yield Sample(names.JOB_SUCCESS_TIME, (kind.value,), ended_ms / 1000)


class Failed(NamedTuple):
    """The partitions whose cleaning failed in the runs so far."""

    uncleanable: Collection[PartitionKey]
    counts: Mapping[PartitionKey, int]


class Sample(NamedTuple):
    """A value of one family; ``labels`` are the values of the family's labels, in their order."""

    family: Family
    labels: tuple[str, ...]
    value: float


def partitions_text(plan: Plan, failed: Failed, families: Sequence[Family]) -> str:
    """Return the series of all partitions in Prometheus' text format.

    Args:
        plan: the latest plan.
        failed: the failures of the runs so far.
        families: the families to write.
    """
    if not families:
        return ""
    values = [_values(planned, failed, plan.request.now_ms) for d in plan.log_dirs for planned in d.partitions]
    labels = [_label_text(planned) for log_dir in plan.log_dirs for planned in log_dir.partitions]
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
        lines += (
            f"{family.name}{{{label}}} {value[family]}\n"
            for label, value in zip(labels, values, strict=True)
            if family in value
        )
    return "".join(lines)


def log_dir_samples(plan: Plan, failed: Failed, growths: Mapping[str, Growth]) -> Iterator[Sample]:
    """Yield the samples of every log dir.

    Args:
        plan: the latest plan.
        failed: the failures of the runs so far.
        growths: log dir -> its growth.
    """
    for log_dir in plan.log_dirs:
        for family, value in _log_dir_values(log_dir, failed):
            yield Sample(family, (log_dir.facts.path,), value)
        yield from _by_reason(log_dir)
        if growth := growths.get(log_dir.facts.path):
            yield from _growth_samples(log_dir.facts.path, growth)


def key_of(planned: PartitionPlan | UnreadablePartition) -> PartitionKey:
    """Return the key of a partition, readable or not."""
    facts = planned if isinstance(planned, UnreadablePartition) else planned.facts
    return facts.log_dir, facts.topic_partition


class LastRunFigures(NamedTuple):
    """The figures of the last run."""

    ended_ms: int
    seconds: float
    swept_bytes: int
    figures: Mapping[str, Figures]
    """Log dir -> its figures."""

    def following(self, before: LastRunFigures) -> LastRunFigures:
        """Return the figures of a run in two parts.

        ``before`` has the figures of the first part, this object those of the second.
        """
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
        """Whether more plans of the last run may be spent."""
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
        """Count a run that ended without an outcome."""
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


class _Read(NamedTuple):
    """The samples and the text of a plan that a scrape has read."""

    log_dirs: tuple[Sample, ...]
    partitions: bytes


class _Unread(NamedTuple):
    """A plan that no scrape has read yet, and the failures before it."""

    plan: Plan
    failed: Failed
    growths: Mapping[str, Growth]


def _values(planned: PartitionPlan | UnreadablePartition, failed: Failed, now_ms: int) -> Mapping[Family, float]:
    """Return the values of one partition, as far as they are known."""
    key = key_of(planned)
    failures: dict[Family, float] = {names.PARTITION_FAILURES: failed.counts.get(key, 0)}
    if isinstance(planned, UnreadablePartition):
        return failures | {names.SIZE: planned.size_bytes, names.UNCLEANABLE: 1}
    facts, section = planned.facts, planned.section
    values = failures | {
        names.SIZE: facts.size_bytes,
        names.SEGMENTS: len(facts.segments),
        names.UNCLEANABLE: int(key in failed.uncleanable),
        names.LOG_START_OFFSET: facts.log_start_offset,
        names.LOG_END_OFFSET: facts.log_end_offset,
        names.PARTITION_RECLAIMABLE: sum(_reclaimable(planned).values()),
    }
    if section:
        values |= {names.DIRTY_RATIO: section.dirty_ratio, names.FIRST_DIRTY_OFFSET: section.first_dirty_offset}
    if expiry_ms := next_expiry_ms(planned, now_ms):
        values[names.NEXT_EXPIRY] = expiry_ms / 1000
    if (oldest_ms := _oldest_ms(facts)) is not None:
        values[names.PARTITION_OLDEST] = oldest_ms / 1000
    return values


def _oldest_ms(facts: PartitionFacts) -> int | None:
    """Return the largest timestamp of the first segment with records, in epoch ms."""
    return next((segment.largest_timestamp_ms for segment in facts.segments if segment.size_bytes), None)


def _reclaimable(planned: PartitionPlan) -> Counter[ReasonCode]:
    """Return reclaimable bytes by reason: deleted bytes with index files, and the dirty bytes of a compaction."""
    taken: Counter[ReasonCode] = Counter()
    if planned.deletion:
        for segment, verdict in planned.deletion.decided:
            taken[verdict.reason.code] += segment.size_bytes + segment.companions_bytes
    if planned.compaction and planned.section:
        taken[ReasonCode.DIRTY] += planned.section.dirty_bytes
    return taken


def _label_text(planned: PartitionPlan | UnreadablePartition) -> str:
    """Return the labels of a partition. Only the path can need escaping: topics have letters, digits, ``._-``."""
    log_dir, (topic, partition) = key_of(planned)
    path = log_dir.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'log_dir="{path}",topic="{topic}",partition="{partition}"'


def _log_dir_values(log_dir: LogDirPlan, failed: Failed) -> Iterator[tuple[Family, float]]:
    facts = log_dir.facts
    readable = [p for p in log_dir.partitions if isinstance(p, PartitionPlan)]
    failing = sum(key_of(p) in failed.uncleanable for p in readable) + len(log_dir.partitions) - len(readable)
    yield names.LOG_DIR_SIZE, facts.size_bytes
    yield names.LOG_DIR_FREE, facts.free_bytes
    yield names.LOG_DIR_LOCKED, int(facts.locked_by is not None)
    yield names.PARTITIONS, len(log_dir.partitions)
    yield names.LOG_DIR_SEGMENTS, sum(len(p.facts.segments) for p in readable)
    yield names.UNCLEANABLE_PARTITIONS, failing
    yield names.MAX_DIRTY_RATIO, max((p.section.dirty_ratio for p in readable if p.section), default=0.0)
    yield names.UNCONFIRMED, sum(guard.code is ReasonCode.RELOAD_GUARD for guard, _ in set(guards_of(log_dir)))
    oldest_ms = min((ms for p in readable if (ms := _oldest_ms(p.facts)) is not None), default=None)
    if oldest_ms is not None:
        yield names.OLDEST, oldest_ms / 1000


def _by_reason(log_dir: LogDirPlan) -> Iterator[Sample]:
    taken: Counter[ReasonCode] = Counter(dict.fromkeys(_DELETING, 0))
    kept: defaultdict[ReasonCode, int] = defaultdict(int)
    for planned in log_dir.partitions:
        if isinstance(planned, PartitionPlan):
            taken.update(_reclaimable(planned))
            for verdict in planned.verdicts:
                if verdict.action is Action.KEEP:
                    kept[verdict.reason.code] += verdict.size_bytes
    for family, by_reason in ((names.RECLAIMABLE, taken), (names.KEPT, kept)):
        for code, size_bytes in sorted(by_reason.items()):
            yield Sample(family, (log_dir.facts.path, code.value), size_bytes)


def _growth_samples(path: str, growth: Growth) -> Iterator[Sample]:
    yield Sample(names.LOG_DIR_GROWTH, (path,), growth.bytes_per_second)
    yield Sample(names.LOG_DIR_OBSERVED, (path,), growth.observed_seconds)
    if growth.runway_seconds is not None:
        yield Sample(names.RUNWAY, (path,), growth.runway_seconds)


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


def _last_samples(last: LastRunFigures) -> Iterator[Sample]:
    for log_dir, figures in last.figures.items():
        for stem, family in names.LAST_RUN.items():
            yield Sample(family, (log_dir,), figures[stem])
    yield Sample(names.LAST_RUN_TIME, (), last.ended_ms / 1000)
    yield Sample(names.LAST_RUN_DURATION, (), last.seconds)
    yield Sample(names.LAST_RUN_SWEPT, (), last.swept_bytes)
