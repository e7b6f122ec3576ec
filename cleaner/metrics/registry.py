"""The metrics in Prometheus' text format. They are an ``Observer`` of the daemon, and of a one-shot run.

The first scrape after a plan turns the plan into text and drops the plan: 2,000 partitions are a megabyte of text, but
many megabytes of facts. So later scrapes cost next to nothing.
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

from cleaner.daemon.observer import DaemonState, JobDone, JobKind, Observer
from cleaner.engine.outcome import Outcome
from cleaner.metrics import families as names
from cleaner.metrics.of_plans import Failed, Sample, log_dir_samples, partitions_text
from cleaner.metrics.of_runs import RunTotals
from policies.forecast.runway import Growth
from policies.plan import Plan


class _Unread(NamedTuple):
    """A plan that no scrape has read yet, and the failures before it."""

    plan: Plan
    failed: Failed
    growths: Mapping[str, Growth]


class _Read(NamedTuple):
    """The samples and the text of a plan that a scrape has read."""

    log_dirs: tuple[Sample, ...]
    partitions: bytes


class Metrics(Observer, Collector):
    """The observer that turns what it hears into metrics. Any thread may call it."""

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
        """Let the next plan that is spent begin another run."""
        with self._lock:
            self._runs.end_run()

    def log_dirs(self, failing: Mapping[str, bool]) -> None:
        """Set the log dirs and whether each fails; a vanished one is in no plan, but must stay visible."""
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
