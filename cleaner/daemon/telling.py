"""The messages of the worker: events for the log, values for the observer, and one line about the present work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from cleaner.daemon.due import Failure, Job, Work
from cleaner.daemon.observer import JobDone, JobKind, Observer
from cleaner.daemon.pulse import Pulse
from cleaner.engine.means import PASSES
from cleaner.engine.outcome import Outcome, PartitionResult
from cleaner.errors import told
from cleaner.events import Event, EventLog
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.reasons import Reason, ReasonCode
from storage.errors import LogCleanerError
from storage.lock import LogDirLocked


class Trouble(StrEnum):
    """The kinds of trouble with a log dir that cannot be served."""

    OPENING = "opening"
    """The log dir is missing, or cannot be read."""
    LOCKING = "locking"
    """The lock cannot be taken, though nobody holds it."""
    CONTENT = "content"
    """A file of the log dir itself, such as a checkpoint, is garbled."""
    SPACE = "space"
    """The journal of the log dir found no space. Nothing is changed without a line in the journal."""


Complaint = tuple[Event, tuple[tuple[str, object], ...]]
"""An event and its fields, for something that a person must do."""

_CHANGING = frozenset({JobKind.RETENTION, JobKind.CHECKPOINT, JobKind.COMPACTION})
"""The jobs that do nothing while the configuration cannot be read."""
_WORDS: Final = {
    JobKind.RELOAD: "reading the configuration again",
    JobKind.SURVEY: "looking for what there is to do",
    JobKind.RETENTION: "applying retention",
    JobKind.REMOVAL: "removing deleted files of {}",
    JobKind.CHECKPOINT: "correcting the cleaner's checkpoint",
    JobKind.COMPACTION: "compacting {}",
}
_FIGURES = ("deleted_segments", "deleted_bytes", "freed_bytes", "compacted_from_bytes", "compacted_to_bytes")
_NAMED_MAX: Final = 20
"""A line names no more partitions than these, the largest first."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The figures of the newest plan of everything; the plan itself may be too large to keep."""

    partitions: int
    has_failures: bool
    """Whether a partition or a log dir could not be read."""
    is_held_back: bool
    """Whether a guard rail, or an unknown configuration, keeps something."""

    @classmethod
    def of(cls, plan: Plan) -> Planned:
        """Return the figures of a plan."""
        has_failures = bool(plan.failures) or any(log_dir.facts.errors for log_dir in plan.log_dirs)
        is_held_back = any(plan.guards) or any(p.config_is_unknown for p in plan.partitions)
        return cls(len(plan.partitions), has_failures, is_held_back)


@dataclass(slots=True)
class _RoundTotals:
    """The totals of the jobs of a round, so far."""

    figures: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_FIGURES, 0)))
    limits: Counter[str] = field(default_factory=Counter)
    """Key of the limit -> the segments that it let go."""
    changed: set[PartitionKey] = field(default_factory=set)
    failures: int = 0
    is_worth_a_line: bool = False

    def add(self, figures: Mapping[str, int], limits: Mapping[str, int], changed: Iterable[PartitionKey]) -> None:
        """Add what a job changed."""
        self.figures.update(figures)
        self.limits.update(limits)
        self.changed.update(changed)
        self.is_worth_a_line = True


class Teller:
    """Passes the worker's events and values on to log and observer, and tells each trouble once while it lasts."""

    def __init__(self, log: EventLog, observer: Observer) -> None:
        self._log = log
        self._unbound = log
        self._observer = observer
        self._complaints: frozenset[Complaint] = frozenset()
        self._log_dirs: tuple[Path, ...] = ()
        self._troubles: dict[tuple[Path, Trouble], str] = {}
        self._failed_jobs: set[JobKind] = set()
        self._unreadable: str | None = None
        self.held: dict[Path, str] = {}
        """Log dir -> the other process that holds it."""
        self.has_failed = False
        """Whether anything failed since the start."""
        self.newest: Planned | None = None
        self._totals = _RoundTotals()

    def begin_round(self, number: int) -> None:
        """Number the events that follow."""
        self._log = self._unbound.bind(round=number)

    def end_turn(self) -> None:
        """Number no further events. A round goes on in another turn, if the locks had to be let go meanwhile."""
        self._log = self._unbound

    def end_round(self, seconds: float, asked_by: str | None) -> None:
        """Tell the totals of a round, unless the round only looked and nobody asked for it.

        Args:
            seconds: from its begin, the time between its turns included.
            asked_by: the signal that asked for all jobs; None without one.
        """
        totals, self._totals = self._totals, _RoundTotals()
        self._observer.round_ended()
        if not (totals.is_worth_a_line or totals.failures or asked_by):
            return
        held = {"held": [f"{path} by {holder}" for path, holder in sorted(self.held.items())]} if self.held else {}
        self._log.event(
            Event.ROUND_DONE,
            seconds=round(seconds, 3),
            partitions=self.newest.partitions if self.newest else 0,
            changed_partitions=len(totals.changed),
            **totals.figures,
            limits=dict(totals.limits),
            failures=totals.failures,
            **held,
            **({"asked_by": asked_by} if asked_by else {}),
        )

    def event(self, name: str, **fields: object) -> None:
        """Log one event."""
        self._log.event(name, **fields)

    def planned(self, plan: Plan, now_ms: int) -> None:
        """Pass on a plan of everything, and log what a person must do."""
        for facts in (log_dir.facts for log_dir in plan.log_dirs):
            if facts.errors:
                self._set_trouble(Path(facts.path), Trouble.CONTENT, "; ".join(facts.errors))
            else:
                self.log_dir_works(Path(facts.path), Trouble.CONTENT)
        self._observer.planned(plan, now_ms)
        self._tell_log_dirs()
        self.newest = Planned.of(plan)
        complaints = frozenset(_complaints(plan))
        for event, fields in sorted(complaints - self._complaints, key=str):
            self._log.event(event, **dict(fields))
        self._complaints = complaints

    def ran(self, job: Job, plan: Plan, outcome: Outcome, started_ms: int, ended_ms: int) -> None:
        """Pass on that a plan was spent, and log its figures."""
        self._observer.ran(plan, outcome, started_ms, ended_ms)
        sums = {name: sum(getattr(result, name) for result in outcome.results.values()) for name in _FIGURES}
        sums["freed_bytes"] += outcome.swept_bytes
        if any(sums.values()):
            of_plan = {p.key: p for p in plan.partitions}
            changed = {key: _words_of(of_plan.get(key), r) for key, r in _by_size(outcome.results) if _has_changed(r)}
            if not changed and job.partitions:
                changed = dict.fromkeys(job.partitions, "the delay of deleted files is over")
            named = {str(key[1]): told for key, told in list(changed.items())[:_NAMED_MAX]}
            self._log.event(
                Event.JOB_DONE,
                job=job.kind.value,
                seconds=round(outcome.seconds, 3),
                **sums,
                changed_partitions=len(changed),
                changed=named,
            )
            self._totals.add(sums, _segments_by_limit(of_plan, outcome.results), changed)

    def configured(self, now_ms: int, log_dirs: Iterable[Path]) -> None:
        """Pass on that a configuration was taken, at the start or again. ``now_ms``: epoch ms."""
        self._log_dirs = tuple(log_dirs)
        self._troubles = {key: error for key, error in self._troubles.items() if key[0] in self._log_dirs}
        self._observer.configured(now_ms, succeeded=True)
        self._tell_log_dirs()

    def began(self, kind: JobKind) -> None:
        """Note that a job was begun. A round with a retention has a ``round_done``, also if it deleted nothing."""
        self._failed_jobs.discard(kind)
        self._totals.is_worth_a_line |= kind is JobKind.RETENTION

    def ended(self, kind: JobKind, started_ms: int, ended_ms: int) -> None:
        """Pass on that a job ended. Times in epoch ms."""
        is_whole = not self.held and not self.failing
        has_failed = kind in self._failed_jobs or (kind in _CHANGING and self._unreadable is not None)
        self._observer.did(JobDone(kind, started_ms, ended_ms, not has_failed, is_whole))

    def failed(self, event: Event, where: JobKind, error: str, **fields: object) -> None:
        """Tell an error that no outcome tells of. ``where``: the kind of the job that met it."""
        self.has_failed = True
        self._totals.failures += 1
        self._failed_jobs.add(where)
        if event is not Event.LOG_DIR_FAILED or error not in self.failing:
            self._log.event(event, error=error, **fields)
        self._observer.failed(where, error)
        if event is Event.CONFIG_REJECTED:
            self._observer.configured(0, succeeded=False)

    @property
    def failing(self) -> tuple[str, ...]:
        """Return what is wrong with log dirs as a whole, each thing once."""
        of_all = (self._unreadable,) if self._unreadable else ()
        return tuple(dict.fromkeys((*of_all, *(error for _, error in sorted(self._troubles.items())))))

    def readable(self, error: str | None) -> None:
        """Note whether the configuration can be read, or why not: without it no log dir is served."""
        if self._unreadable != error:
            self._unreadable = error
            self._tell_log_dirs()

    def full(self, path: Path, where: JobKind, error: str) -> None:
        """Tell, once for as long as it lasts, that a journal found no space. Each attempt is counted."""
        self.failed(Event.LOG_DIR_FAILED, where, error, log_dir=str(path))
        self._set_trouble(path, Trouble.SPACE, error)
        self._tell_log_dirs()

    def log_dir_fails(self, path: Path, trouble: Trouble, where: JobKind, error: str) -> None:
        """Tell, once for as long as it lasts, that a log dir cannot be served."""
        if self._troubles.get((path, trouble)) != error:
            self.failed(Event.LOG_DIR_FAILED, where, error, log_dir=str(path))
            self._set_trouble(path, trouble, error)
            self._tell_log_dirs()

    def log_dir_works(self, path: Path, trouble: Trouble) -> None:
        """Tell that a trouble of a log dir is over, if there was one."""
        if (path, trouble) not in self._troubles:
            return
        self._set_trouble(path, trouble, "")
        if trouble is Trouble.OPENING:  # without a log dir to open, there was no lock to take
            self._set_trouble(path, Trouble.LOCKING, "")
        if not any(key[0] == path for key in self._troubles):
            self._log.event(Event.LOG_DIR_BACK, log_dir=str(path))
        self._tell_log_dirs()

    def _set_trouble(self, path: Path, trouble: Trouble, error: str) -> None:
        others = {key: said for key, said in self._troubles.items() if key != (path, trouble)}
        self._troubles = {**others, (path, trouble): error} if error else others

    def _tell_log_dirs(self) -> None:
        failing = {path for path, _ in self._troubles}
        is_any = self._unreadable is not None
        self._observer.log_dirs({str(path): is_any or path in failing for path in self._log_dirs})

    def backs_off(self, work: Work, failure: Failure) -> None:
        """Tell that a job failed on a partition, which is left alone for a while."""
        self.has_failed = True
        self._totals.failures += 1
        self._failed_jobs.add(work[0])
        kind, (log_dir, topic_partition) = work
        pause = {} if failure.is_corrupt else {"pause_ms": failure.pause_ms}
        place = {**topic_partition._asdict(), "log_dir": log_dir, "job": kind.value}
        self._log.event(Event.PARTITION_BACKS_OFF, **place, failures=failure.count, **pause, error=failure.error)

    def erred(self, kind: JobKind, outcome: Outcome) -> None:
        """Tell the errors beside those of partitions, and which log dirs have no space for their journal."""
        full = {error: Path(path) for path, error in outcome.full_log_dirs.items()}
        for error in outcome.errors:
            if error in full:
                self.full(full[error], kind, error)
            else:
                self.failed(Event.LOG_DIR_FAILED, kind, error)
        done = {key[0] for key, result in outcome.results.items() if not result.error}
        for path in done.difference(outcome.full_log_dirs):
            self.log_dir_works(Path(path), Trouble.SPACE)

    def found_idle(self, recovered: Collection[Path], plan: Plan) -> None:
        """Take note that recovered log dirs with nothing to do need no space for their journal."""
        busy = {Path(p.facts.log_dir) for p in plan.partitions if p.has_work}
        for path in {Path(log_dir.facts.path) for log_dir in plan.log_dirs}.intersection(recovered) - busy:
            self.log_dir_works(path, Trouble.SPACE)

    def refused(self, path: Path, error: LogCleanerError | OSError, kind: JobKind) -> None:
        """Tell that a log dir is held by another process, or could not be locked."""
        if isinstance(error, LogDirLocked):
            for trouble in (Trouble.LOCKING, Trouble.SPACE):
                self.log_dir_works(path, trouble)
            self.holder(path, f"process {error.holder_pid}" if error.holder_pid else "another process")
        else:
            self.log_dir_fails(path, Trouble.LOCKING, kind, told(error))

    def compactor_rests(self, failure: Failure) -> None:
        """Tell that the process that compacts could not be started, and for how long nothing is compacted."""
        fields = {"failures": failure.count, "pause_ms": failure.pause_ms}
        self.failed(Event.COMPACTOR_UNSTARTABLE, JobKind.COMPACTION, failure.error, **fields)

    def withdrew(self, key: PartitionKey) -> None:
        """Tell that a compaction was ended, because the configuration of its partition changed."""
        log_dir, topic_partition = key
        self._log.event(Event.COMPACTION_WITHDRAWN, **topic_partition._asdict(), log_dir=log_dir)

    def held_locks(self, seconds: float) -> None:
        """Pass on for how long a turn held the locks."""
        self._observer.held_locks(seconds)

    def worker_died(self, error: str, where: JobKind | None = None) -> None:
        """Tell that the worker thread, or the process that compacts for the job ``where``, ended by itself."""
        self.has_failed = True
        self._log.event(Event.WORKER_DIED, error=error)
        self._observer.worker_died(where)

    def holder(self, path: Path, holder: str | None) -> None:
        """Tell who holds a log dir, if the holder changed; None stands for nobody."""
        known = self.held.get(path)
        if holder and not known:
            self._log.event(Event.LOG_DIR_HELD, log_dir=str(path), by=holder)
        if known and not holder:
            self._log.event(Event.LOG_DIR_FREE, log_dir=str(path))
        others = {p: h for p, h in self.held.items() if p != path}
        self.held = {**others, path: holder} if holder else others


class Progress:
    """A ``Listener`` that logs events, gives signs of life, and tells how far the compaction of a partition is."""

    def __init__(self, log: Teller, pulse: Pulse) -> None:
        """Listen. ``log`` takes events, ``pulse`` takes signs of life."""
        self._log = log
        self._pulse = pulse
        self._partition = ""
        self._all_bytes = self._done_bytes = 0

    def event(self, name: str, **fields: object) -> None:
        """Log it."""
        self._pulse.alive()
        self._log.event(name, **fields)
        match name, fields:
            case Event.COMPACTION_BEGUN, {"topic": topic, "partition": partition, "bytes": int(size_bytes)}:
                self._partition, self._all_bytes, self._done_bytes = f"{topic}-{partition}", PASSES * size_bytes, 0

    def expect(self, size_bytes: int) -> None:
        """Ignore the total: each compaction has an event of its own."""

    def progress(self, done_bytes: int) -> None:
        """Tell the percentage."""
        self._pulse.alive()
        self._done_bytes += done_bytes
        if self._all_bytes:
            percent = min(99, 100 * self._done_bytes // self._all_bytes)
            self._pulse.tell(f"compacting {self._partition}: {percent} %")


def words(job: Job) -> str:
    """Return a job as one line for people."""
    keys = job.partitions
    return _WORDS[job.kind].format(keys[0][1] if len(keys) == 1 else f"{len(keys)} partitions")


def _has_changed(result: PartitionResult) -> bool:
    return any(getattr(result, name) for name in _FIGURES)


def _by_size(results: Mapping[PartitionKey, PartitionResult]) -> list[tuple[PartitionKey, PartitionResult]]:
    """Return the results, those with the most bytes first."""
    return sorted(results.items(), key=lambda item: (-item[1].deleted_bytes - item[1].compacted_from_bytes, item[0]))


def _gone_by(planned: PartitionPlan | None, result: PartitionResult) -> list[Reason]:
    """Return the reason of each segment that was deleted: the oldest go first."""
    verdicts = planned.deletion.verdicts if planned and planned.deletion else ()
    return [verdict.reason for verdict in verdicts[: result.deleted_segments]]


def _segments_by_limit(
    of_plan: Mapping[PartitionKey, PartitionPlan], results: Mapping[PartitionKey, PartitionResult]
) -> Counter[str]:
    gone = (reason for key, result in results.items() for reason in _gone_by(of_plan.get(key), result))
    return Counter(reason.limit.key if reason.limit else reason.code.value for reason in gone)


def _words_of(planned: PartitionPlan | None, result: PartitionResult) -> str:
    """Return a text about the changes to a partition, and the limits that caused them."""
    gone = Counter(
        reason.limit.stated.sentence if reason.limit else reason.code.value for reason in _gone_by(planned, result)
    )
    told = [f"{_segments(count)} deleted by {limit}" for limit, count in gone.items()]
    if result.deleted_segments and not told:
        told = [f"{_segments(result.deleted_segments)} deleted"]
    if result.compacted_from_bytes:
        compaction = planned.compaction if planned else None
        told.append(f"{_segments(len(compaction.segments))} compacted" if compaction else "compacted")
        dirty = [v.reason for v in planned.verdicts if v.reason.code is ReasonCode.DIRTY] if planned else []
        if limits := dict.fromkeys(reason.limit.stated.sentence for reason in dirty if reason.limit):
            told[-1] += f" by {', '.join(limits)}"
    return "; ".join(told)


def _segments(count: int) -> str:
    return f"{count} segment{'s' * (count != 1)}"


def _complaints(plan: Plan) -> Iterator[Complaint]:
    for guard in plan.guards:
        is_saved = guard.startswith(ReasonCode.RELOAD_GUARD)
        yield Event.RELOAD_HELD_BACK if is_saved else Event.HELD_BACK, (("guard", guard),)
    for topic in (p.policy.topic for p in plan.partitions if p.config_is_unknown):
        yield Event.CONFIG_UNKNOWN, (("topic", topic),)
    for (topic, partition), error in ((p.topic_partition, p.error) for p in plan.failures):
        yield Event.PARTITION_FAILED, (("topic", topic), ("partition", partition), ("error", error))
    for error in (error for log_dir in plan.log_dirs for error in log_dir.facts.errors):
        yield Event.LOG_DIR_FAILED, (("error", error),)
