"""The metrics in Prometheus' text format: an ``Observer`` of the daemon, and of a one-shot run.

A plan is turned into text when it is first asked for, and then let go: 2,000 partitions are a megabyte of text, but
many megabytes of facts. So a scrape between two plans costs next to nothing.
"""

from __future__ import annotations

import platform
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from cleaner.daemon.observer import DaemonState, JobDone, JobKind
from cleaner.engine.outcome import Outcome
from cleaner.metrics import families as names
from cleaner.metrics.of_plans import Failed, Sample, log_dir_samples, partitions_text
from cleaner.metrics.of_runs import RunTotals
from policies.plan import Plan
from policies.runway import Growth


class _Unread(NamedTuple):
    """A plan that nobody asked for yet, and what failed before it."""

    plan: Plan
    failed: Failed
    growths: Mapping[str, Growth]


class _Read(NamedTuple):
    """What became of it."""

    log_dirs: tuple[Sample, ...]
    partitions: bytes


class Metrics:
    """Listens, and tells what it heard. Any thread may call it."""

    def __init__(
        self,
        *,
        per_partition: str = "few",
        growths: Mapping[str, Growth] | None = None,
        version: str = "unknown",
        of_process: bool = True,
    ) -> None:
        """Begin with nothing heard.

        Args:
            per_partition: ``few``, five series a partition, ``all`` or ``none``.
            growths: how log dirs grew up to now.
            version: of this program.
            of_process: also tell memory, processor time and files of this process; of one that ended they mean nothing,
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
        self._registry.register(_Samples(self))
        if of_process:
            ProcessCollector(registry=self._registry)

    def planned(self, plan: Plan, now_ms: int) -> None:
        """Everything was planned."""
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
        """A plan was spent."""
        with self._lock:
            self._runs.add(plan, outcome, started_ms, ended_ms)
            if isinstance(self._plan, _Unread):
                self._plan = self._plan._replace(failed=self._runs.failed)

    def log_dirs(self, failing: Mapping[str, bool]) -> None:
        """These are the log dirs; one that vanished is no plan's, and must stay visible."""
        with self._lock:
            self._failing_log_dirs = dict(failing)
            self._runs.begin_at_zero(failing)

    def configured(self, now_ms: int, *, succeeded: bool) -> None:
        """The configuration was read."""
        with self._lock:
            self._config_is_taken = succeeded
            if succeeded:
                self._config_taken_ms = now_ms

    def did(self, job: JobDone) -> None:
        """A job ended. A retention without anything to do is a success, too."""
        with self._lock:
            self._jobs[job.kind] = job
            if job.succeeded:
                self._job_success_ms[job.kind] = job.ended_ms
            if job.succeeded and job.is_whole and job.kind is JobKind.RETENTION:
                self._runs.last_success_ms = job.ended_ms

    def failed(self, where: JobKind, error: str) -> None:
        """Something failed that no outcome tells of."""
        del error
        with self._lock:
            self._failures[where] += 1

    def held_locks(self, seconds: float) -> None:
        """A round held the locks."""
        with self._lock:
            self._locked_seconds += seconds

    def worker_died(self, where: JobKind | None = None) -> None:
        """A worker ended unasked, and with it the run that it was to do."""
        with self._lock:
            self._dead_threads += 1
            if where:
                self._failures[where] += 1
                self._runs.died()

    def state(self, state: DaemonState) -> None:
        """The daemon is in another state."""
        with self._lock:
            self._state = state

    def succeeded_before(self, last_success_ms: int) -> None:
        """An earlier process ended a run well at this epoch ms."""
        with self._lock:
            self._runs.last_success_ms = last_success_ms

    @property
    def daemon_state(self) -> DaemonState | None:
        """The latest that the daemon told; None before that."""
        with self._lock:
            return self._state

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format 0.0.4."""
        return generate_latest(self._registry) + self._read().partitions

    def samples(self) -> list[Sample]:
        """All but those of the partitions."""
        of_plan = self._read().log_dirs
        with self._lock:
            return [*of_plan, *self._runs.samples(), *self._daemon_samples()]

    def _read(self) -> _Read:
        """The latest plan's metrics; made outside of the lock, which the daemon must not wait for."""
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


class _Samples(Collector):
    """What prometheus-client asks."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """One metric a family."""
        place = {family: at for at, family in enumerate(names.ALL)}
        ordered = sorted(self._metrics.samples(), key=lambda sample: place[sample.family])
        for family, samples in groupby(ordered, key=lambda sample: sample.family):
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind.value)
            for sample in samples:
                metric.add_sample(family.name, dict(zip(family.labels, sample.labels, strict=True)), sample.value)
            yield metric
