"""What is due: a pure function of the schedule and the time. The scheduler only wakes it.

A schedule is a value; what happened makes another one of it. Times are epoch ms of one clock. A moment that lies ahead
of that clock (it was set back) counts as long ago, so that nothing waits for it.

Checkpoints that follow from a deletion or a compaction are written by that job, before the lock goes, since a broker
may start then; what is left for a job of its own are those that lie outside their log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cleaner.daemon.observer import JobKind
from policies.config.policy import BrokerPolicy
from policies.plan import PartitionKey

BACKOFF_MIN_MS: Final = 60_000
BACKOFF_MAX_MS: Final = 3_600_000
_EVERYTHING: Final = frozenset({JobKind.SURVEY, JobKind.RETENTION, JobKind.CHECKPOINT})


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often what is done."""

    retention_ms: int
    survey_ms: int
    """To look for what there is to compact."""
    checkpoint_ms: int
    first_retention_ms: int
    """From the start to the first retention."""

    @classmethod
    def of(cls, broker: BrokerPolicy) -> Intervals:
        """By Kafka's keys."""
        return cls(
            broker.log_retention_check_interval_ms,
            broker.log_cleaner_backoff_ms,
            broker.log_flush_offset_checkpoint_interval_ms,
            broker.log_initial_task_delay_ms,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A partition that a job failed on, so many times in a row."""

    count: int
    failed_ms: int
    error: str
    is_corrupt: bool
    """Only another state of its files ends it."""

    @property
    def pause_ms(self) -> int:
        """How long the partition is left alone: twice as long each time, up to an hour."""
        return min(BACKOFF_MIN_MS << min(self.count - 1, 16), BACKOFF_MAX_MS)


Work = tuple[JobKind, PartitionKey]


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to do now."""

    kind: JobKind
    partitions: tuple[PartitionKey, ...] = ()
    """Of a removal and a compaction: those it is for."""
    leaving_out: frozenset[PartitionKey] = frozenset()
    """Of a retention: those that failed and are to wait."""
    is_full: bool = False
    """Of a survey: plan, whether or not anything changed."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All that decides what is due."""

    intervals: Intervals
    started_ms: int
    observing: bool = False
    """Only survey: ``--observe``."""
    last_ms: Mapping[JobKind, int] = field(default_factory=dict)
    """When each kind was last due."""
    last_full_survey_ms: int | None = None
    wanted: frozenset[JobKind] = frozenset()
    """Asked for out of turn."""
    removals_ms: Mapping[PartitionKey, int] = field(default_factory=dict)
    """When the delay of the first ``.deleted`` file of a partition is over."""
    backlog: tuple[PartitionKey, ...] = ()
    """To compact, in this order."""
    busy: PartitionKey | None = None
    """Being compacted, by another process: it is left alone, and what is due of the others goes on."""
    corrections: bool = False
    """A first dirty offset lies outside its log."""
    failures: Mapping[Work, Failure] = field(default_factory=dict)
    compactor: Failure | None = None
    """The compacting process could not be started: nothing is compacted for a while."""

    def asked_for(self, kind: JobKind) -> Schedule:
        """Out of turn."""
        return replace(self, wanted=self.wanted | {kind})

    def asked_for_everything(self) -> Schedule:
        """SIGUSR1, ``--once``: run now; what failed is tried again."""
        return replace(self, wanted=self.wanted | _EVERYTHING, failures={}, compactor=None)

    def began(self, job: Job, now_ms: int) -> Schedule:
        """A job is being done: it is not due any more. What is done in turn keeps to its grid, without drift.

        A retention begins with a full survey, so that one need not follow.
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

    def surveyed(
        self, backlog: Sequence[PartitionKey], removals_ms: Mapping[PartitionKey, int], *, corrections: bool
    ) -> Schedule:
        """A survey found this to do."""
        waiting = [key for key in self.backlog if key in backlog]  # those that waited longest come first
        to_compact = tuple(key for key in dict.fromkeys((*waiting, *backlog)) if key != self.busy)
        return replace(self, backlog=to_compact, removals_ms=removals_ms, corrections=corrections)

    def without_backlog_of(self, log_dirs: Collection[str]) -> Schedule:
        """Return the schedule without the compactions of some log dirs. The next full survey finds them again."""
        return replace(self, backlog=tuple(key for key in self.backlog if key[0] not in log_dirs))

    def compacted(self) -> Schedule:
        """Nothing is being compacted any more, well or not."""
        return replace(self, busy=None)

    def failed(self, work: Work, error: str, now_ms: int, *, is_corrupt: bool = False) -> Schedule:
        """A job failed on a partition: it is tried again, after a pause that grows."""
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

    def succeeded(self, work: Work) -> Schedule:
        """A job did well on a partition; or its files changed, and it may."""
        return replace(self, failures={w: failure for w, failure in self.failures.items() if w != work})

    def waits(self, work: Work, now_ms: int) -> bool:
        """Whether a partition that failed is to be left alone."""
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
    """What is to be done now, in this order. Deletions come before compactions, since they make space."""
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
    """While a partition is compacted. The cleaner's checkpoint is the other process's meanwhile."""
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
    """Asked for, never done, or its interval is over."""
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
    """The newest moment of the grid through ``last_ms``; now, where there is none, or the clock was set back."""
    if last_ms is None or interval_ms <= 0 or now_ms < last_ms + interval_ms:
        return now_ms
    return now_ms - (now_ms - last_ms) % interval_ms


def _of(job: Job, kind: JobKind) -> tuple[PartitionKey, ...]:
    return job.partitions if job.kind is kind else ()
