"""The worker: does what is due, job after job, and keeps the schedule that says what is due next.

What fails is told and does not stop the others. An exception that nobody expects ends the thread that ticks; whoever
started it starts another, with the schedule as it is, in which the job that it died of is not due for now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from cleaner.config.file_states import State, state_of_directory, state_of_entries, with_entries
from cleaner.daemon.child import ChildDied, CompactionRefused, CompactorUnstartable
from cleaner.daemon.configuration import Configuration, one_line, reason_of
from cleaner.daemon.due import Intervals, Job, Schedule, Work, due
from cleaner.daemon.messages import CompactionTask
from cleaner.daemon.observer import JobKind
from cleaner.daemon.plan_reading import at_least_one, directory_of, moments_of, names_of, planned_of
from cleaner.daemon.supervisor import Supervisor
from cleaner.daemon.telling import Progress, Teller, Trouble, bytes_to_read, words
from cleaner.daemon.turn import Turn
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.clock import Clock
from cleaner.engine.inventory import Wanted, everything
from cleaner.engine.journal import JournalFull
from cleaner.engine.leftovers import next_removals
from cleaner.engine.locks import LentLocks
from cleaner.engine.means import Means, Stopped
from cleaner.engine.outcome import Outcome
from cleaner.engine.uncleanable import Uncleanable
from cleaner.errors import told
from cleaner.events import Event
from policies.plan import LogDirPlan, Only, PartitionKey, Plan, Request
from policies.steps import compaction_steps
from storage.errors import LogCleanerError
from storage.lock import LogDirLocked
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import TopicPartition

Change = Callable[[Schedule], Schedule]
REST_SECONDS: Final = 2.0
"""For so long at least the locks are free after a hold that ``lock.hold.max`` ended."""
_NOTHING_CHANGES: Final = "nothing is changed until it can be read"
_EARLIER_HOLDS: Final = "the one before it stays in force"


class Worker:
    """Owns the schedule. ``tick`` is called by one thread at a time; ``want`` and ``stop`` by any."""

    def __init__(
        self, configuration: Configuration, clock: Clock, teller: Teller, supervisor: Supervisor, *, observing: bool
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._teller = teller
        self._supervisor = supervisor
        self._schedule = Schedule(Intervals.of(configuration.broker), clock.now_ms(), observing=observing)
        self._orders: SimpleQueue[Change] = SimpleQueue()
        self._cleaner: Cleaner | None = None
        self._rounds = 0
        self._is_once = False
        self._rests_until_seconds = 0.0
        self._left: frozenset[TopicPartition] = frozenset()
        """Partitions that were due in an earlier hold of the locks, and have not had their turn."""
        self._states: dict[Path, State] = {}
        self._moment_ms: int | None = None
        self._expired: set[PartitionKey] = set()
        self._recovered: frozenset[Path] = frozenset()
        """Log dirs in which what a crash left was finished; a log dir that was away may have other leftovers."""
        self._doing = JobKind.SURVEY
        self._damaged: dict[Work, Uncleanable] = {}
        self._to_read_bytes: dict[PartitionKey, int] = {}
        """What the compactions of the backlog read."""

    def want(self, change: Change) -> None:
        """Have the schedule changed before the next job."""
        self._orders.put(change)

    def stop(self) -> None:
        """End the job that goes on between two steps. The supervisor says ``stopping`` already."""
        if cleaner := self._cleaner:
            cleaner.stop()

    def tick(self, *, is_once: bool = False) -> bool:
        """Do one round: everything that is due by now, as far as ``lock.hold.max`` allows.

        Args:
            is_once: no other round follows, so this one ends with its last job, however long that takes.

        Returns:
            Whether there was anything.
        """
        if self._clock.seconds() < self._rests_until_seconds or not self._due():
            return False
        self._rounds, self._is_once = self._rounds + 1, is_once
        self._teller.begin_round(self._rounds)
        with Turn(self._configuration.loaded.log_dirs, self._on_refusal, self._clock.seconds) as round_:
            while not self._supervisor.stopping() and not self._must_let_go(round_) and (jobs := self._due()):
                self._do(jobs[0], round_)
                self._tell_held(round_)
        self._tell_held(round_)
        if round_.held_seconds:
            self._rests_until_seconds = self._clock.seconds() + (REST_SECONDS if self._must_let_go(round_) else 0)
        self._teller.end_round()
        return True

    def _tell_held(self, round_: Turn) -> None:
        """Tell how much longer the locks are held by now: a hold counts while it lasts, too."""
        if seconds := round_.newly_held_seconds():
            self._teller.held_locks(seconds)

    def _must_let_go(self, round_: Turn) -> bool:
        """Whether the locks were held for so long that a broker is to have a chance now.

        A broker does not wait for the lock: it exits.
        """
        return not self._is_once and round_.held_seconds * 1000 > self._configuration.broker.lock_hold_max_ms

    def _due(self) -> tuple[Job, ...]:
        try:
            while True:
                self._schedule = self._orders.get_nowait()(self._schedule)
        except Empty:
            return due(self._schedule, self._clock.now_ms())

    def _do(self, job: Job, round_: Turn) -> None:
        now_ms = self._clock.now_ms()
        self._schedule = self._schedule.began(job, now_ms)
        self._supervisor.alive()
        self._supervisor.tell(words(job))
        self._doing = job.kind
        self._teller.began(job.kind)
        self._teller.event(Event.JOB_BEGUN, job=job.kind.value, partitions=len(job.partitions))
        try:
            self._run(job, round_, now_ms)
        except Stopped:
            return  # while planning: nothing was changed
        except (LogCleanerError, OSError, MemoryError) as error:
            self._teller.failed(Event.JOB_FAILED, job.kind, told(error), job=job.kind.value)
        self._teller.ended(job.kind, now_ms, self._clock.now_ms())

    def _run(self, job: Job, round_: Turn, now_ms: int) -> None:
        match job.kind:
            case JobKind.RELOAD:
                self._reload()
            case JobKind.SURVEY:
                self._survey(job, round_, now_ms)
            case JobKind.RETENTION:
                self._retain_expired(job, round_, now_ms)
            case JobKind.REMOVAL:
                self._remove(job, round_, now_ms)
            case JobKind.CHECKPOINT:
                self._correct(round_, now_ms)
            case JobKind.COMPACTION:
                self._compact(job, round_, now_ms)

    def _changeable(self, round_: Turn) -> tuple[Path, ...]:
        """Return the log dirs that may be changed now: their locks are held, and the configuration is as read since.

        Nothing may be changed while the configuration cannot be read, nor, until the next round, if it names other
        log dirs than this round locked.
        """
        locked = self._locked(round_)
        if locked:
            self._reload_if_stale()
        names_others = round_.log_dirs != self._configuration.loaded.log_dirs
        return () if names_others or self._configuration.unreadable else locked

    def _reload_if_stale(self) -> None:
        if self._configuration.is_stale():
            self._reload()

    def _reload(self) -> None:
        self._supervisor.reloading()
        was_unreadable, was_rejected = self._configuration.unreadable, self._configuration.loaded.rejected
        try:
            changes = self._configuration.reload()
        except (LogCleanerError, OSError) as error:
            said = f"{reason_of(error)}; {_NOTHING_CHANGES}"
            self._teller.failed(Event.CONFIG_REJECTED, JobKind.RELOAD, said)
            self._teller.readable(said)
        else:
            self._teller.readable(None)
            if rejected := self._configuration.loaded.rejected:
                self._teller.failed(Event.CONFIG_REJECTED, JobKind.RELOAD, f"{one_line(rejected)}; {_EARLIER_HOLDS}")
            else:
                self._teller.configured(self._clock.now_ms(), self._configuration.loaded.log_dirs)
            if changes or was_unreadable or (was_rejected and not self._configuration.loaded.rejected):
                self._teller.event(Event.CONFIG_RELOADED, changes=changes)
                intervals = Intervals.of(self._configuration.broker)
                self._schedule = replace(self._schedule, intervals=intervals).asked_for(JobKind.SURVEY)
                self._schedule = self._schedule.asked_for(JobKind.RETENTION) if was_unreadable else self._schedule
        finally:
            self._supervisor.reloaded()

    def _survey(self, job: Job, round_: Turn, now_ms: int) -> None:
        """Plan everything; where nothing changed since the last time, what was found then holds still."""
        if job.is_full and (self._configuration.unreadable or self._configuration.loaded.rejected):
            self._reload()
        elif job.is_full or not self._teller.held:  # a broker that runs writes metadata all the time
            self._reload_if_stale()
        dirs = [path for path in self._configuration.loaded.log_dirs if self._is_there(path)]
        states = {path: self._state_of(path, round_) for path in dirs}
        is_time = self._moment_ms is not None and self._moment_ms <= now_ms
        if not job.is_full and states == self._states and not is_time:
            return
        self._states = states
        self._forgive_mended()
        plan = self._open(dirs, round_=round_).plan(Request(now_ms, in_place=not self._schedule.observing))
        self._expired = {p.key for p in plan.partitions if p.deletion}
        self._teller.planned(plan, now_ms)
        for path in self._recovered & {
            Path(d.facts.path) for d in plan.log_dirs if not any(p.has_work for p in planned_of([d]))
        }:
            self._teller.log_dir_works(path, Trouble.SPACE)
        self._moment_ms = min(moments_of(plan, now_ms), default=None)
        if not self._schedule.observing:
            self._schedule_work([d for d in plan.log_dirs if Path(d.facts.path) not in self._teller.held])

    def _is_there(self, path: Path) -> bool:
        """A disk that is gone must not stop the others."""
        try:
            LogDir.open(path)
        except (LogCleanerError, OSError) as error:
            self._teller.log_dir_fails(path, Trouble.OPENING, JobKind.SURVEY, str(error))
            self._recovered -= {path}
            return False
        self._teller.log_dir_works(path, Trouble.OPENING)
        return True

    def _state_of(self, path: Path, round_: Turn) -> State:
        """Of a log dir that is only observed, who has it: a broker changes it all the time."""
        if self._schedule.observing:
            return ()
        holder = None if round_.holds(path) else LogDir(path).locked_by()
        self._teller.holder(path, holder)
        return (holder,) if holder else state_of_directory(path)

    def _schedule_work(self, free: Sequence[LogDirPlan]) -> None:
        steps = [step for log_dir in free for step in compaction_steps(log_dir)]
        self._to_read_bytes = {step.key: bytes_to_read(step) for step in steps}
        removals = dict(chain.from_iterable(next_removals(log_dir) for log_dir in free))
        corrections = any(p.checkpoint_offset is not None for p in planned_of(free))
        self._schedule = self._schedule.surveyed([step.key for step in steps], removals, corrections=corrections)

    def _retain_expired(self, job: Job, round_: Turn, now_ms: int) -> None:
        """Survey, then the partitions that lose something; all of them once, for what a crash may have left."""
        self._survey(replace(job, is_full=True), round_, now_ms)
        left_out, expired = names_of(job.leaving_out), names_of(self._expired)
        if not expired - left_out and self._recovered.issuperset(self._states):
            return
        fresh = frozenset(self._changeable(round_)) - self._recovered
        due_now = (expired | {name for path in fresh for name, _ in LogDir(path).partitions()}) - left_out
        first = self._left & due_now or due_now  # those that an earlier hold left have waited longest
        if due_now:
            self._left, full = self._retain(job, round_, now_ms, first.__contains__)
            fresh = fresh - full if first == due_now else frozenset()  # what a crash left was only looked for in these
        if due_now and (self._left or first != due_now):
            self._schedule = self._schedule.asked_for(JobKind.RETENTION)
        self._recovered |= fresh

    def _retain(
        self, job: Job, round_: Turn, now_ms: int, wanted: Wanted
    ) -> tuple[frozenset[TopicPartition], frozenset[Path]]:
        """Delete, and remove what waited long enough: the same run does both.

        Returns: the partitions that it left, and the log dirs whose journal found no space: what a crash left there may
            still be there.
        """
        done = self._cleaned(job, round_, now_ms, wanted)
        if done is None:
            return frozenset(), frozenset()
        outcome = done[1]
        full = frozenset(path for path in round_.log_dirs if str(path) in outcome.full_log_dirs)
        return names_of(outcome.postponed), full

    def _remove(self, job: Job, round_: Turn, now_ms: int) -> None:
        """Unlink what waited long enough. If that is all that changed, what the last survey found holds still."""
        if self._configuration.unreadable:
            self._remove_journalled(job, round_, now_ms)
            return
        names = {path: [str(tp) for log_dir, tp in job.partitions if log_dir == str(path)] for path in self._states}
        before = {path: state_of_entries(path, of_dir) for path, of_dir in names.items()}
        done = self._cleaned(job, round_, now_ms, names_of(job.partitions).__contains__)
        if self._must_let_go(round_):
            self._schedule = self._schedule.asked_for(JobKind.SURVEY)  # it finds what was not removed
        if done is None or done[1].results or done[1].errors:
            return
        for path, entries in before.items():
            self._states[path] = with_entries(self._states[path], entries, state_of_entries(path, names[path]))
        removals = chain.from_iterable(map(next_removals, done[0].log_dirs))
        self._schedule = replace(self._schedule, removals_ms={**self._schedule.removals_ms, **dict(removals)})

    def _remove_journalled(self, job: Job, round_: Turn, now_ms: int) -> None:
        """While the configuration cannot be read, unlink what an earlier decision, which is in the journal, took."""
        dirs = self._locked(round_)
        if dirs and round_.log_dirs == self._configuration.loaded.log_dirs:
            wanted = names_of(job.partitions).__contains__
            for error in self._open(dirs, wanted, round_).remove_journalled(Request(now_ms)):
                self._teller.failed(Event.LOG_DIR_FAILED, job.kind, error)

    def _cleaned(self, job: Job, round_: Turn, now_ms: int, wanted: Wanted) -> tuple[Plan, Outcome] | None:
        """Return what was planned for some partitions and what came of it; None if nothing may be changed now."""
        dirs = self._changeable(round_)
        if not dirs:
            return None
        plan, outcome = self._open(dirs, wanted, round_).clean(Request(now_ms, Only.RETENTION))
        self._spent(job, plan, outcome, now_ms)
        return plan, outcome

    def _correct(self, round_: Turn, now_ms: int) -> None:
        if dirs := self._changeable(round_):
            for error in self._open(dirs, round_=round_).correct_checkpoints(Request(now_ms)):
                self._teller.failed(Event.LOG_DIR_FAILED, JobKind.CHECKPOINT, error)

    def _compact(self, job: Job, round_: Turn, now_ms: int) -> None:
        try:
            if Path(job.partitions[0][0]) in self._changeable(round_):
                self._have_compacted(job, round_, now_ms)
        finally:
            self._schedule = self._schedule.compacted()

    def _have_compacted(self, job: Job, round_: Turn, now_ms: int) -> None:
        """By the child; what is due of other partitions is done meanwhile."""
        (key,) = job.partitions

        def meanwhile() -> None:
            self._tell_held(round_)
            if jobs := self._due():
                self._do(jobs[0], round_)

        def is_wanted() -> bool:
            return terms is not None and self._configuration.terms_of(Path(key[0]), key[1].topic) == terms

        terms = self._configuration.terms_of(Path(key[0]), key[1].topic)
        progress = Progress(self._teller, self._supervisor, key, self._to_read_bytes.get(key, 0))
        threads = max(1, self._configuration.broker.log_cleaner_threads)
        request = Request(now_ms, Only.COMPACTION)
        lock = round_.lock_of(Path(key[0]))
        lock.ensure_named()
        task = CompactionTask(key, self._configuration.loaded.configured, request, threads, lock.descriptor)
        try:
            done = round_.compactor(self._supervisor).compact(task, progress, meanwhile, is_wanted)
        except CompactorUnstartable as error:
            if not self._supervisor.stopping():
                self._rest_compactor(key, error, now_ms)
            return
        except CompactionRefused as error:
            self._back_off((job.kind, key), str(error), now_ms)
        except ChildDied as error:
            if not self._supervisor.stopping():
                self._teller.worker_died(str(error), job.kind)
                self._back_off((job.kind, key), str(error), now_ms)
        else:
            self._spent(job, done.plan, done.outcome, now_ms)
            if done.outcome.interrupted and not is_wanted():
                self._teller.withdrew(key)
        self._schedule = self._schedule.compactor_started()
        if not is_wanted():
            self._schedule = self._schedule.asked_for(JobKind.SURVEY)

    def _rest_compactor(self, key: PartitionKey, error: CompactorUnstartable, now_ms: int) -> None:
        """Compact nothing for a while: each partition would fail alike."""
        self._schedule = self._schedule.compactor_failed(key, str(error), now_ms)
        failure = self._schedule.compactor
        assert failure is not None
        fields = {"failures": failure.count, "pause_ms": failure.pause_ms}
        self._teller.failed(Event.COMPACTOR_UNSTARTABLE, JobKind.COMPACTION, str(error), **fields)

    def _spent(self, job: Job, plan: Plan, outcome: Outcome, started_ms: int) -> None:
        """Tell what became of a plan, and let those wait that failed.

        A full journal is no failure of a partition: the log dir is tried again with the next full survey.
        """
        now_ms = self._clock.now_ms()
        self._teller.ran(job, plan, outcome, started_ms, now_ms)
        for partition in plan.partitions:
            result, work = outcome.results.get(partition.key), (job.kind, partition.key)
            if result and result.error:
                self._back_off(work, result.error, now_ms, is_corrupt=result.is_corrupt)
            elif work in self._schedule.failures and work[1][0] not in outcome.full_log_dirs:
                self._schedule = self._schedule.succeeded(work)
        self._tell_errors(job.kind, outcome)
        self._schedule = self._schedule.without_backlog_of(outcome.full_log_dirs)
        if len(outcome.errors) > len(outcome.full_log_dirs) and job.kind is JobKind.REMOVAL:
            for key in job.partitions:
                self._back_off((job.kind, key), outcome.errors[0], now_ms)

    def _tell_errors(self, kind: JobKind, outcome: Outcome) -> None:
        """Tell what went wrong beside the partitions, and which log dirs have no space for their journal."""
        begins = {str(JournalFull(Path(path), remedy="")): Path(path) for path in outcome.full_log_dirs}
        for error in outcome.errors:
            if full := next((path for begin, path in begins.items() if error.startswith(begin)), None):
                self._teller.full(full, kind, error)
            else:
                self._teller.failed(Event.LOG_DIR_FAILED, kind, error)
        done = {key[0] for key, result in outcome.results.items() if not result.error}
        for path in done.difference(outcome.full_log_dirs):
            self._teller.log_dir_works(Path(path), Trouble.SPACE)

    def _back_off(self, work: Work, error: str, now_ms: int, *, is_corrupt: bool = False) -> None:
        self._schedule = self._schedule.failed(work, error, now_ms, is_corrupt=is_corrupt)
        self._teller.backs_off(work, self._schedule.failures[work])
        if is_corrupt:
            self._damaged[work] = Uncleanable.of(list_partition(directory_of(work)), error)

    def _forgive_mended(self) -> None:
        """What was damaged, and has other files now, may be tried again."""
        for work, damage in list(self._damaged.items()):
            with suppress(LogCleanerError):  # a partition that is gone has no work either
                if damage.may_retry(list_partition(directory_of(work))):
                    del self._damaged[work]
                    self._schedule = self._schedule.succeeded(work)

    def _locked(self, round_: Turn) -> tuple[Path, ...]:
        """The log dirs that may be changed in this round."""
        dirs = round_.locked()
        for path in dirs:
            self._teller.log_dir_works(path, Trouble.LOCKING)
        return dirs

    def _on_refusal(self, path: Path, error: LogCleanerError | OSError) -> None:
        if isinstance(error, LogDirLocked):
            for trouble in (Trouble.LOCKING, Trouble.SPACE):
                self._teller.log_dir_works(path, trouble)
            self._teller.holder(path, f"process {error.holder_pid}" if error.holder_pid else "another process")
        else:
            self._teller.log_dir_fails(path, Trouble.LOCKING, self._doing, told(error))

    def _open(self, dirs: Collection[Path], wanted: Wanted = everything, round_: Turn | None = None) -> Cleaner:
        """Return a cleaner of the log dirs as they are now: for changes under the locks of the round, or to plan."""

        def wanted_and_alive(topic_partition: TopicPartition) -> bool:
            """Asked before each partition is read: a sign of life, and where planning can be stopped."""
            self._supervisor.alive()
            if self._supervisor.stopping():
                raise Stopped
            return wanted(topic_partition)

        cleaner = self._cleaner = Cleaner(
            self._configuration.loaded.configured._replace(log_dirs=tuple(dirs)),
            Means(
                clock=self._clock,
                listener=Progress(self._teller, self._supervisor),
                may_begin=self._may_begin(round_),
            ),
            locks=LentLocks(lambda path: round_.lock_of(path) if round_ and round_.holds(path) else None),
            wanted=wanted_and_alive,
        )
        if self._supervisor.stopping():
            cleaner.stop()
        return cleaner

    def _may_begin(self, round_: Turn | None) -> Callable[[], bool]:
        """Return what is asked before each partition: one at least a hold, and none once the configuration changed."""
        in_time = at_least_one(lambda: not (round_ and self._must_let_go(round_)))
        return lambda: not (round_ and self._configuration.is_stale()) and in_time()
