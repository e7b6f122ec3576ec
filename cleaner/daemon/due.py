"""The jobs that are due: a pure function of the schedule and the time. The worker does them; APScheduler wakes it.

A schedule is a value. Whatever happens (a job begun, a plan made or spent, a failure, files that changed) makes another
schedule of it, here and nowhere else. Times are epoch ms of one clock. A moment ahead of that clock (somebody set the
clock back) counts as long ago, so that no job waits for it.

Checkpoints that follow from a deletion or a compaction are written by that job, before it releases the lock, since a
broker may start then. A job of its own corrects only checkpoints that lie outside their log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cleaner.config.files import State
from cleaner.daemon.observer import JobKind
from cleaner.engine.outcome import Outcome
from policies.config.policy import BrokerPolicy
from policies.plan import LogDirPlan, PartitionKey, PartitionPlan, Plan
from policies.planning import compaction_steps
from storage.names import TopicPartition

BACKOFF_MIN_MS: Final = 60_000
BACKOFF_MAX_MS: Final = 3_600_000
_EVERYTHING: Final = frozenset({JobKind.SURVEY, JobKind.RETENTION, JobKind.CHECKPOINT})


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals at which the jobs are due."""

    retention_ms: int
    survey_ms: int
    """The time between two searches for partitions to compact."""
    checkpoint_ms: int
    first_retention_ms: int
    """The time from the start of the daemon to the first retention."""

    @classmethod
    def of(cls, broker: BrokerPolicy) -> Intervals:
        """Return the intervals that Kafka's keys state."""
        return cls(
            broker.log_retention_check_interval_ms,
            broker.log_cleaner_backoff_ms,
            broker.log_flush_offset_checkpoint_interval_ms,
            broker.log_initial_task_delay_ms,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """The failures of a job on a partition, in a row."""

    count: int
    failed_ms: int
    error: str
    is_corrupt: bool
    """Whether the failure is damage: then only a change of the partition's files ends it."""

    @property
    def pause_ms(self) -> int:
        """Return how long the partition is left alone: twice as long each time, up to an hour."""
        return min(BACKOFF_MIN_MS << min(self.count - 1, 16), BACKOFF_MAX_MS)


Work = tuple[JobKind, PartitionKey]


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to do now."""

    kind: JobKind
    partitions: tuple[PartitionKey, ...] = ()
    """The partitions that a removal or a compaction is for."""
    leaving_out: frozenset[PartitionKey] = frozenset()
    """The partitions that failed and that a retention leaves out."""
    is_full: bool = False
    """Whether a survey plans even if nothing changed."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The partitions that a retention opens."""

    now: frozenset[TopicPartition]
    """The partitions that this turn takes."""
    due: frozenset[TopicPartition]
    """All partitions that are due: more than ``now`` if an earlier turn left some, which have waited longest."""
    unrecovered: frozenset[Path]
    """Log dirs in which all partitions are due, because a crash may have left work there."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The state from which ``due`` computes the next jobs."""

    intervals: Intervals
    started_ms: int
    observing: bool = False
    """Whether the daemon only makes surveys: ``--observe``."""
    last_ms: Mapping[JobKind, int] = field(default_factory=dict)
    """When each kind was last due."""
    last_full_survey_ms: int | None = None
    wanted: frozenset[JobKind] = frozenset()
    """The kinds of jobs that somebody asked for out of turn."""
    removals_ms: Mapping[PartitionKey, int] = field(default_factory=dict)
    """When the delay of the first ``.deleted`` file of a partition is over."""
    backlog: tuple[PartitionKey, ...] = ()
    """The partitions to compact, in this order."""
    busy: PartitionKey | None = None
    """The partition that the child compacts. Jobs leave it alone, and go on with all other partitions."""
    corrections: bool = False
    """Whether a first dirty offset lies outside its log."""
    failures: Mapping[Work, Failure] = field(default_factory=dict)
    compactor: Failure | None = None
    """The failures to start the compacting process. After a failure nothing is compacted for a while."""
    states: Mapping[Path, State] = field(default_factory=dict)
    """The states of the log dirs when everything was last planned."""
    ripe_ms: int | None = None
    """When time alone makes more of a log cleanable; None if it never does."""
    expiring: frozenset[PartitionKey] = frozenset()
    """Partitions that lose something to retention by the newest plan."""
    left: frozenset[TopicPartition] = frozenset()
    """Partitions that were due in an earlier turn, and that no turn has taken yet."""
    recovered: frozenset[Path] = frozenset()
    """Log dirs that were recovered from a crash."""

    def asked_for(self, kind: JobKind) -> Schedule:
        """Return the schedule with a job that is due out of turn."""
        return replace(self, wanted=self.wanted | {kind})

    def asked_for_everything(self) -> Schedule:
        """Return the schedule after SIGUSR1, or of ``--once``: all jobs are due now, also those that failed."""
        return replace(self, wanted=self.wanted | _EVERYTHING, failures={}, compactor=None)

    def began(self, job: Job, now_ms: int) -> Schedule:
        """Return the schedule after a job was begun: the job is not due any more. Intervals keep to their grid.

        A retention begins with a full survey, so the survey counts as begun, too.
        """
        kinds = (JobKind.RETENTION, JobKind.SURVEY) if job.kind is JobKind.RETENTION else (job.kind,)
        is_full_survey = job.is_full or job.kind is JobKind.RETENTION
        return replace(
            self,
            last_ms={**self.last_ms, **{k: _on_grid(self.last_ms.get(k), self._interval_ms(k), now_ms) for k in kinds}},
            last_full_survey_ms=now_ms if is_full_survey else self.last_full_survey_ms,
            wanted=self.wanted.difference(kinds),
            removals_ms={k: v for k, v in self.removals_ms.items() if k not in _of(job, JobKind.REMOVAL)},
            backlog=tuple(k for k in self.backlog if k not in _of(job, JobKind.COMPACTION)),
            busy=next(iter(_of(job, JobKind.COMPACTION)), self.busy),
            corrections=self.corrections and job.kind is not JobKind.CHECKPOINT,
        )

    def reconfigured(self, intervals: Intervals, *, was_unreadable: bool) -> Schedule:
        """Return the schedule after the daemon took a new configuration.

        The next turn looks at once for what the configuration makes due.

        ``was_unreadable``: nothing could be changed before, so that retention is due, too.
        """
        surveying = replace(self, intervals=intervals).asked_for(JobKind.SURVEY)
        return surveying.asked_for(JobKind.RETENTION) if was_unreadable else surveying

    def needs_plan(self, job: Job, states: Mapping[Path, State], now_ms: int) -> bool:
        """Return whether a survey plans everything. If not, the findings of the last plan still hold."""
        is_ripe = self.ripe_ms is not None and self.ripe_ms <= now_ms
        return job.is_full or states != self.states or is_ripe

    def planned(self, plan: Plan, now_ms: int) -> Schedule:
        """Return the schedule after a new plan: with the partitions due for retention, and the time at which more
        become due.
        """
        ripe_ms = min(_moments_of(plan, now_ms), default=None)
        return replace(self, expiring=frozenset(p.key for p in plan.partitions if p.deletion), ripe_ms=ripe_ms)

    def with_work_of(self, log_dirs: Sequence[LogDirPlan], removals_ms: Mapping[PartitionKey, int]) -> Schedule:
        """Return the schedule with all other jobs that new plans make due, in log dirs that may be changed."""
        partitions = [p for log_dir in log_dirs for p in log_dir.partitions if isinstance(p, PartitionPlan)]
        corrections = any(p.checkpoint_offset is not None for p in partitions)
        backlog = [step.key for log_dir in log_dirs for step in compaction_steps(log_dir)]
        return self.surveyed(backlog, removals_ms, corrections=corrections)

    def surveyed(
        self, backlog: Sequence[PartitionKey], removals_ms: Mapping[PartitionKey, int], *, corrections: bool
    ) -> Schedule:
        """Return the schedule with the compactions, removals and corrections that a survey found to be done."""
        waiting = [key for key in self.backlog if key in backlog]  # the partitions that waited longest come first
        to_compact = tuple(key for key in dict.fromkeys((*waiting, *backlog)) if key != self.busy)
        return replace(self, backlog=to_compact, removals_ms=removals_ms, corrections=corrections)

    def away(self, log_dir: Path) -> Schedule:
        """Return the schedule after a log dir was missing: when the log dir is back, it may have leftovers of a
        crash.
        """
        return replace(self, recovered=self.recovered - {log_dir})

    def opens_any(self, job: Job) -> bool:
        """Return whether a retention has anything to open: partitions that lose something, or unrecovered log dirs."""
        expired = names_of(self.expiring) - names_of(job.leaving_out)
        return bool(expired) or not self.recovered.issuperset(self.states)

    def opening(self, job: Job, unrecovered: Mapping[Path, Collection[TopicPartition]]) -> Opening:
        """Return the partitions that a retention opens.

        Args:
            job: the retention.
            unrecovered: the partitions of each log dir that may be changed and was not yet recovered.
        """
        of_crashes = {name for names in unrecovered.values() for name in names}
        all_due = (names_of(self.expiring) | of_crashes) - names_of(job.leaving_out)
        return Opening(self.left & all_due or all_due, all_due, frozenset(unrecovered))

    def opened(self, opening: Opening, left: frozenset[TopicPartition], full: frozenset[Path]) -> Schedule:
        """Return the schedule after a retention.

        If the turn had no time for some partitions, the next retention is due at once and opens them.

        Args:
            opening: the partitions that were opened.
            left: the partitions that the turn had no time for.
            full: log dirs whose journal found no space, so that the leftovers of a crash may still be there.
        """
        if not opening.due:
            return replace(self, recovered=self.recovered | opening.unrecovered)
        is_whole = opening.now == opening.due
        recovered = self.recovered | (opening.unrecovered - full) if is_whole else self.recovered
        schedule = replace(self, left=left, recovered=recovered)
        return schedule if is_whole and not left else schedule.asked_for(JobKind.RETENTION)

    def removed(self, states: Mapping[Path, State], removals_ms: Mapping[PartitionKey, int]) -> Schedule:
        """Return the schedule after a removal, if nothing else changed: the findings of the last plan still hold."""
        return replace(self, states=states, removals_ms={**self.removals_ms, **removals_ms})

    def compacted(self) -> Schedule:
        """Return the schedule after a compaction ended, well or not."""
        return replace(self, busy=None)

    def failed(self, work: Work, error: str, now_ms: int, *, is_corrupt: bool = False) -> Schedule:
        """Return the schedule after a job failed on a partition: the job is tried again, after a pause that grows."""
        before = self.failures.get(work)
        failure = Failure(before.count + 1 if before else 1, now_ms, error, is_corrupt)
        kind, key = work
        return replace(
            self,
            failures={**self.failures, work: failure},
            backlog=(*self.backlog, key) if kind is JobKind.COMPACTION else self.backlog,
            removals_ms={**self.removals_ms, key: now_ms} if kind is JobKind.REMOVAL else self.removals_ms,
        )

    def compactor_failed(self, key: PartitionKey, error: str, now_ms: int) -> Schedule:
        """Return the schedule after the compacting process could not be started, for this partition or any other."""
        count = self.compactor.count + 1 if self.compactor else 1
        failure = Failure(count, now_ms, error, is_corrupt=False)
        return replace(self, compactor=failure, backlog=(key, *(other for other in self.backlog if other != key)))

    def compactor_started(self) -> Schedule:
        """Return the schedule after the compacting process took a task."""
        return replace(self, compactor=None)

    def succeeded(self, *works: Work) -> Schedule:
        """Return the schedule after jobs succeeded on partitions, or after damaged files changed, so that jobs may
        succeed.
        """
        left = self.failures.keys() - set(works)
        return replace(self, failures={work: failure for work, failure in self.failures.items() if work in left})

    def spent(self, job: Job, plan: Plan, outcome: Outcome) -> Schedule:
        """Return the schedule after a plan was spent: jobs that succeeded are no failures any more.

        A full journal is no failure of a partition: its log dir is tried again with the next full survey.
        """
        failed = {work for work, _, _ in failed_in(job, plan, outcome)}
        done = {(job.kind, p.key) for p in plan.partitions if p.key[0] not in outcome.full_log_dirs}
        backlog = tuple(key for key in self.backlog if key[0] not in outcome.full_log_dirs)  # the survey finds it again
        return replace(self.succeeded(*(done - failed)), backlog=backlog)

    def waits(self, work: Work, now_ms: int) -> bool:
        """Return whether a partition that failed must be left alone now."""
        failure = self.failures.get(work)
        return failure is not None and (failure.is_corrupt or not _is_over(failure.failed_ms, failure.pause_ms, now_ms))

    def _interval_ms(self, kind: JobKind) -> int:
        match kind:
            case JobKind.RETENTION:
                return self.intervals.retention_ms
            case JobKind.CHECKPOINT:
                return self.intervals.checkpoint_ms
        return self.intervals.survey_ms


def due(schedule: Schedule, now_ms: int) -> tuple[Job, ...]:
    """Return the jobs to do now, in this order. Deletions come before compactions, since they make space."""
    return tuple(_due(schedule, now_ms) if schedule.busy is None else _due_beside(schedule, schedule.busy, now_ms))


def _due(schedule: Schedule, now_ms: int) -> Iterator[Job]:
    if JobKind.RELOAD in schedule.wanted:
        yield Job(JobKind.RELOAD)
    if not schedule.observing and _is_retention_due(schedule, now_ms):
        yield Job(JobKind.RETENTION, leaving_out=_waiting(schedule, JobKind.RETENTION, now_ms))
    if _is_in_turn(schedule, JobKind.SURVEY, now_ms):
        yield Job(JobKind.SURVEY, is_full=_is_full_survey_due(schedule, now_ms))
    if schedule.observing:
        return
    removals = sorted(key for key, due_ms in schedule.removals_ms.items() if due_ms <= now_ms)
    if ready := _not_waiting(schedule, JobKind.REMOVAL, removals, now_ms):
        yield Job(JobKind.REMOVAL, ready)
    if schedule.corrections and _is_in_turn(schedule, JobKind.CHECKPOINT, now_ms):
        yield Job(JobKind.CHECKPOINT)
    if (failed := schedule.compactor) and not _is_over(failed.failed_ms, failed.pause_ms, now_ms):
        return
    for key in _not_waiting(schedule, JobKind.COMPACTION, schedule.backlog, now_ms):
        yield Job(JobKind.COMPACTION, (key,))


def _due_beside(schedule: Schedule, busy: PartitionKey, now_ms: int) -> Iterator[Job]:
    """Yield the jobs that are due while the child compacts a partition.

    The child owns the cleaner's checkpoint then.
    """
    for job in _due(schedule, now_ms):
        match job.kind:
            case JobKind.RETENTION:
                yield replace(job, leaving_out=job.leaving_out | {busy})
            case JobKind.REMOVAL:
                if others := tuple(key for key in job.partitions if key != busy):
                    yield replace(job, partitions=others)
            case JobKind.RELOAD | JobKind.SURVEY:
                yield job


def _is_retention_due(schedule: Schedule, now_ms: int) -> bool:
    if JobKind.RETENTION in schedule.last_ms or JobKind.RETENTION in schedule.wanted:
        return _is_in_turn(schedule, JobKind.RETENTION, now_ms)
    return _is_over(schedule.started_ms, schedule.intervals.first_retention_ms, now_ms)


def _is_in_turn(schedule: Schedule, kind: JobKind, now_ms: int) -> bool:
    """Return whether a job was asked for, was never done, or its interval is over."""
    last_ms = schedule.last_ms.get(kind)
    return kind in schedule.wanted or last_ms is None or _is_over(last_ms, schedule._interval_ms(kind), now_ms)


def _is_full_survey_due(schedule: Schedule, now_ms: int) -> bool:
    last_ms = schedule.last_full_survey_ms
    is_asked = JobKind.SURVEY in schedule.wanted or last_ms is None
    return is_asked or _is_over(last_ms or 0, schedule.intervals.retention_ms, now_ms)


def _waiting(schedule: Schedule, kind: JobKind, now_ms: int) -> frozenset[PartitionKey]:
    return frozenset(key for of, key in schedule.failures if of is kind and schedule.waits((kind, key), now_ms))


def _not_waiting(
    schedule: Schedule, kind: JobKind, keys: Sequence[PartitionKey], now_ms: int
) -> tuple[PartitionKey, ...]:
    return tuple(key for key in keys if not schedule.waits((kind, key), now_ms))


def _is_over(since_ms: int, span_ms: int, now_ms: int) -> bool:
    return not since_ms <= now_ms < since_ms + span_ms


def _on_grid(last_ms: int | None, interval_ms: int, now_ms: int) -> int:
    """Return the newest moment of the grid through ``last_ms``; now, if no moment was noted, or if the clock was set
    back.
    """
    if last_ms is None or interval_ms <= 0 or now_ms < last_ms + interval_ms:
        return now_ms
    return now_ms - (now_ms - last_ms) % interval_ms


def _of(job: Job, kind: JobKind) -> tuple[PartitionKey, ...]:
    return job.partitions if job.kind is kind else ()


def names_of(keys: Collection[PartitionKey]) -> frozenset[TopicPartition]:
    """Return the partitions of some keys, without their log dirs."""
    return frozenset(topic_partition for _, topic_partition in keys)


def failed_in(job: Job, plan: Plan, outcome: Outcome) -> Iterator[tuple[Work, str, bool]]:
    """Yield each partition on which a job failed, with the error, and whether the files are damaged."""
    for key in (partition.key for partition in plan.partitions):
        result = outcome.results.get(key)
        if result and result.error:
            yield (job.kind, key), result.error, result.is_corrupt


def failed_beside(job: Job, outcome: Outcome) -> Iterator[tuple[Work, str, bool]]:
    """Yield all partitions of a removal that failed. The error does not say which partition it was."""
    if job.kind is JobKind.REMOVAL and len(outcome.errors) > len(outcome.full_log_dirs):
        for key in job.partitions:
            yield (job.kind, key), outcome.errors[0], False


def _moments_of(plan: Plan, now_ms: int) -> Iterator[int]:
    """Yield the moments at which time alone makes more of a log cleanable, epoch ms."""
    for section in (p.section for p in plan.partitions if p.section):
        if (until_ms := section.bound.until_ms) is not None and until_ms > now_ms:
            yield until_ms
