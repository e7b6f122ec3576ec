"""The worker: does the jobs that are due, one after another, and keeps the schedule, which alone decides what is due
next.

A job is done in turns. A turn goes from the taking of the locks to their release; between two turns a broker can start.

The worker reports a failed job and goes on with the others. An unexpected exception ends the thread that ticks. The
daemon then starts another thread with the same schedule, in which the failed job is not due now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple, Self

from cleaner.config.files import State, state_of_directory, state_of_entries, with_entries
from cleaner.config.layers import LoadedLayers
from cleaner.daemon.child import ChildDied, CompactingChild, CompactionRefused, CompactorUnstartable
from cleaner.daemon.configuration import Configuration, one_line
from cleaner.daemon.due import Intervals, Job, Schedule, Work, due, failed_beside, failed_in, names_of
from cleaner.daemon.messages import CompactionTask
from cleaner.daemon.observer import JobKind
from cleaner.daemon.pulse import Pulse
from cleaner.daemon.telling import Progress, Teller, Trouble, words
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.clock import Clock
from cleaner.engine.inventory import Wanted, everything
from cleaner.engine.leftovers import next_removals
from cleaner.engine.locks import LentLocks
from cleaner.engine.means import Means
from cleaner.engine.outcome import Outcome
from cleaner.engine.uncleanable import Uncleanable
from cleaner.errors import told
from cleaner.events import Event
from policies.plan import Only, Plan, Request
from storage.errors import LogCleanerError, Stopped
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import TopicPartition

OnRefusal = Callable[[Path, LogCleanerError | OSError], None]

Change = Callable[[Schedule], Schedule]
REST_SECONDS: Final = 2.0
"""The least time for which the locks are free after a turn that ``lock.hold.max`` ended, in seconds."""
_NOTHING_CHANGES: Final = "nothing is changed until it can be read"
_EARLIER_HOLDS: Final = "the one before it stays in force"


class DamagedWorks:
    """The works that failed because files are damaged."""

    def __init__(self) -> None:
        self._met: dict[Work, Uncleanable] = {}

    def note(self, work: Work, error: str) -> None:
        """Remember a failure together with the present state of the files. Raises: UnreadableFile."""
        self._met[work] = Uncleanable.of(list_partition(_directory_of(work)), error)

    def mended(self) -> list[Work]:
        """Return, and forget, the works whose files changed since."""
        mended = []
        for work, damage in self._met.items():
            with suppress(LogCleanerError):  # a partition that is gone has no work either
                if damage.may_retry(list_partition(_directory_of(work))):
                    mended.append(work)
        for work in mended:
            del self._met[work]
        return mended


class Worker:
    """Owns the schedule. ``tick`` is called by one thread at a time; ``want`` and ``stop`` by any."""

    def __init__(
        self, configuration: Configuration, clock: Clock, teller: Teller, pulse: Pulse, *, observing: bool
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._teller = teller
        self._pulse = pulse
        self._schedule = Schedule(Intervals.of(configuration.broker), clock.now_ms(), observing=observing)
        self._orders: SimpleQueue[Change] = SimpleQueue()
        self._cleaner: Cleaner | None = None
        self._rounds = 0
        self._round_began_seconds: float | None = None
        """The monotonic time at which the round under way began, in seconds; None between two rounds."""
        self._is_asked = False
        """Whether a person asked for all jobs now."""
        self._is_once = False
        self._rests_until_seconds = 0.0
        self._doing = JobKind.SURVEY
        self._damage = DamagedWorks()
        self._judged: _Judged | None = None
        self._to_note: frozenset[str] = frozenset()
        """Log dirs in which the limits of that plan are not written down yet."""

    def want(self, change: Change) -> None:
        """Change the schedule before the next job."""
        self._orders.put(change)

    def stop(self) -> None:
        """End the present job between two steps. ``Pulse.stopping`` is true by then."""
        if cleaner := self._cleaner:
            cleaner.stop()

    def tick(self, *, is_once: bool = False) -> bool:
        """Do one turn: all jobs that are due now, as far as ``lock.hold.max`` allows.

        Args:
            is_once: no other turn follows, so the turn does all its jobs, however long they take.

        Returns:
            Whether there was a job to do.
        """
        self._is_once = is_once
        if self._clock.seconds() < self._rests_until_seconds or not self._due():
            return False
        if self._round_began_seconds is None:
            self._rounds, self._round_began_seconds = self._rounds + 1, self._clock.seconds()
        self._teller.begin_round(self._rounds)
        with Turn(self._configuration.loaded.log_dirs, self._on_refusal, self._clock.seconds) as round_:
            while not self._pulse.stopping() and not self._must_let_go(round_) and (jobs := self._due()):
                self._do(jobs[0], round_)
                self._tell_held(round_)
        self._tell_held(round_)
        if round_.held_seconds:
            self._rests_until_seconds = self._clock.seconds() + (REST_SECONDS if self._must_let_go(round_) else 0)
        self._end_turn(round_)
        return True

    def _end_turn(self, round_: Turn) -> None:
        """End the round, too, unless the turn only let go of the locks: then the next turn goes on with it."""
        if self._round_began_seconds is not None and not (self._must_let_go(round_) and self._due()):
            asked_by = "SIGUSR1" if self._is_asked else None
            self._teller.end_round(self._clock.seconds() - self._round_began_seconds, asked_by)
            self._round_began_seconds, self._is_asked = None, False
        self._teller.end_turn()

    def _tell_held(self, round_: Turn) -> None:
        """Tell for how much longer the locks have been held since the last call, also during a turn."""
        if seconds := round_.newly_held_seconds():
            self._teller.held_locks(seconds)

    def _must_let_go(self, round_: Turn) -> bool:
        """Return whether the locks were held for so long that a broker must get a chance now.

        A broker does not wait for the lock, but exits.
        """
        return not self._is_once and round_.held_seconds * 1000 > self._configuration.broker.lock_hold_max_ms

    def _due(self) -> tuple[Job, ...]:
        try:
            while True:
                change = self._orders.get_nowait()
                self._schedule = change(self._schedule)
                self._is_asked |= change is Schedule.asked_for_everything and not self._is_once
        except Empty:
            return due(self._schedule, self._clock.now_ms())

    def _do(self, job: Job, round_: Turn) -> None:
        now_ms = self._clock.now_ms()
        self._schedule = self._schedule.began(job, now_ms)
        self._pulse.alive()
        self._pulse.tell(words(job))
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
        """Return the log dirs that may be changed now: their locks are held, and the configuration has not changed
        since they were taken.

        Nothing may be changed while the configuration cannot be read, nor, until the next turn, if it names other
        log dirs than this turn locked.
        """
        locked = self._locked(round_)
        if locked:
            self._reload_if_stale()
        names_others = round_.log_dirs != self._configuration.loaded.log_dirs
        if locked and not names_others and not self._configuration.unreadable:
            self._note_limits(locked, round_)
        return () if names_others or self._configuration.unreadable else locked

    def _note_limits(self, locked: Sequence[Path], round_: Turn) -> None:
        """Write down, once, the limits that the last survey judged, before anything is deleted by them."""
        dirs = [path for path in locked if str(path) in self._to_note]
        if not dirs or self._judged is None or self._judged.loaded is not self._configuration.loaded:
            return
        self._to_note = self._to_note.difference(map(str, dirs))
        for error in self._open(dirs, round_=round_).note_limits(self._judged.waits):
            self._teller.failed(Event.LOG_DIR_FAILED, JobKind.SURVEY, error)

    def _request(self, now_ms: int, only: Only | None = None) -> Request:
        """Return the request of a run over some partitions; the run uses the limits that the last survey let
        through.
        """
        judged = self._judged
        is_new = judged is not None and judged.loaded is self._configuration.loaded
        return Request(now_ms, only, let_through=judged.let_through if judged and is_new else frozenset())

    def _reload_if_stale(self) -> None:
        if self._configuration.is_stale():
            self._reload()

    def _reload(self) -> None:
        self._pulse.reloading()
        was_unreadable, was_rejected = self._configuration.unreadable, self._configuration.loaded.rejected
        try:
            changes = self._configuration.reload()
        except (LogCleanerError, OSError) as error:
            said = f"{one_line(str(error))}; {_NOTHING_CHANGES}"
            self._teller.failed(Event.CONFIG_REJECTED, JobKind.RELOAD, said)
            self._teller.readable(said)
        else:
            self._teller.readable(None)
            if rejected := self._configuration.loaded.rejected:
                self._teller.failed(Event.CONFIG_REJECTED, JobKind.RELOAD, f"{one_line(rejected)}; {_EARLIER_HOLDS}")
            else:
                self._teller.configured(self._clock.now_ms(), self._configuration.loaded.log_dirs)
            for change in self._configuration.loosened_by_cluster:
                self._teller.event(Event.CLUSTER_LETS_MORE_GO, topic=change.topic or "", change=change.told)
            if changes or was_unreadable or (was_rejected and not self._configuration.loaded.rejected):
                self._teller.event(Event.CONFIG_RELOADED, changes=changes)
                intervals = Intervals.of(self._configuration.broker)
                self._schedule = self._schedule.reconfigured(intervals, was_unreadable=bool(was_unreadable))
        finally:
            self._pulse.reloaded()

    def _survey(self, job: Job, round_: Turn, now_ms: int) -> None:
        """Plan everything, unless nothing changed: then the findings of the last plan still hold."""
        if job.is_full and (self._configuration.unreadable or self._configuration.loaded.rejected):
            self._reload()
        elif job.is_full or not self._teller.held:  # a broker that runs writes metadata all the time
            self._reload_if_stale()
        dirs = [path for path in self._configuration.loaded.log_dirs if self._is_there(path)]
        states = {path: self._state_of(path, round_) for path in dirs}
        if not self._schedule.needs_plan(job, states, now_ms):
            return
        self._schedule = replace(self._schedule, states=states).succeeded(*self._damage.mended())
        plan = self._open(dirs, round_=round_).plan(Request(now_ms, in_place=not self._schedule.observing))
        self._judge(plan)
        if self._to_note.difference(map(str, self._teller.held)):
            self._changeable(round_)
        self._teller.planned(plan, now_ms)
        self._schedule = self._schedule.planned(plan, now_ms)
        self._teller.found_idle(self._schedule.recovered, plan)
        if not self._schedule.observing:
            free = [d for d in plan.log_dirs if Path(d.facts.path) not in self._teller.held]
            self._schedule = self._schedule.with_work_of(free, dict(chain.from_iterable(map(next_removals, free))))

    def _judge(self, plan: Plan) -> None:
        """Note the saved limits that wait, by a plan of everything; the next turn with locks writes them down."""
        surveyed = frozenset(d.facts.path for d in plan.log_dirs if not (d.guard or d.facts.errors))
        judged = _Judged(self._configuration.loaded, plan.waits, plan.let_through, surveyed)
        if judged != self._judged:
            is_noted = self._schedule.observing or judged.loaded.configured.name is None
            self._judged, self._to_note = judged, frozenset[str]() if is_noted else surveyed

    def _is_there(self, path: Path) -> bool:
        """Return whether a log dir can be opened. A log dir on a disk that is gone must not stop the other log dirs."""
        try:
            LogDir.open(path)
        except (LogCleanerError, OSError) as error:
            self._teller.log_dir_fails(path, Trouble.OPENING, JobKind.SURVEY, str(error))
            self._schedule = self._schedule.away(path)
            return False
        self._teller.log_dir_works(path, Trouble.OPENING)
        return True

    def _state_of(self, path: Path, round_: Turn) -> State:
        """Report who holds a log dir, and return its state: the holder alone if there is one, an empty state if the
        daemon observes.
        """
        if self._schedule.observing:
            return ()
        holder = None if round_.holds(path) else LogDir(path).locked_by()
        self._teller.holder(path, holder)
        return (holder,) if holder else state_of_directory(path)

    def _retain_expired(self, job: Job, round_: Turn, now_ms: int) -> None:
        """Survey, then open the partitions that lose something.

        The first retention opens all partitions, because a crash may have left something in any of them.
        """
        self._survey(replace(job, is_full=True), round_, now_ms)
        if not self._schedule.opens_any(job):
            return
        fresh = frozenset(self._changeable(round_)) - self._schedule.recovered
        opening = self._schedule.opening(job, {path: [name for name, _ in LogDir(path).partitions()] for path in fresh})
        done = self._cleaned(job, round_, now_ms, opening.now.__contains__) if opening.due else None
        left = names_of(done[1].postponed) if done else frozenset[TopicPartition]()
        full = frozenset(path for path in round_.log_dirs if done and str(path) in done[1].full_log_dirs)
        self._schedule = self._schedule.opened(opening, left, full)

    def _remove(self, job: Job, round_: Turn, now_ms: int) -> None:
        """Unlink the files that waited long enough.

        If nothing else changed, the findings of the last survey still hold.
        """
        if self._configuration.unreadable:
            self._remove_journalled(job, round_, now_ms)
            return
        states = self._schedule.states
        names = {path: [str(tp) for log_dir, tp in job.partitions if log_dir == str(path)] for path in states}
        before = {path: state_of_entries(path, of_dir) for path, of_dir in names.items()}
        done = self._cleaned(job, round_, now_ms, names_of(job.partitions).__contains__)
        if self._must_let_go(round_):
            self._schedule = self._schedule.asked_for(JobKind.SURVEY)  # it finds the files that stayed
        if done is None or done[1].results or done[1].errors:
            return
        after = {path: state_of_entries(path, of_dir) for path, of_dir in names.items()}
        seen = {path: with_entries(state, before[path], after[path]) for path, state in states.items()}
        removals = chain.from_iterable(map(next_removals, done[0].log_dirs))
        self._schedule = self._schedule.removed(seen, dict(removals))

    def _remove_journalled(self, job: Job, round_: Turn, now_ms: int) -> None:
        """While the configuration cannot be read, unlink the files of earlier deletions that the journal names."""
        dirs = self._locked(round_)
        if dirs and round_.log_dirs == self._configuration.loaded.log_dirs:
            wanted = names_of(job.partitions).__contains__
            for error in self._open(dirs, wanted, round_).remove_journalled(self._request(now_ms)):
                self._teller.failed(Event.LOG_DIR_FAILED, job.kind, error)

    def _cleaned(self, job: Job, round_: Turn, now_ms: int, wanted: Wanted) -> tuple[Plan, Outcome] | None:
        """Delete, and remove the files that waited long enough: the same run does both.

        Returns: plan and outcome; None if nothing may be changed now.
        """
        dirs = self._changeable(round_)
        if not dirs:
            return None
        plan, outcome = self._open(dirs, wanted, round_).clean(self._request(now_ms, Only.RETENTION))
        self._spent(job, plan, outcome, now_ms)
        return plan, outcome

    def _correct(self, round_: Turn, now_ms: int) -> None:
        if dirs := self._changeable(round_):
            for error in self._open(dirs, round_=round_).correct_checkpoints(self._request(now_ms)):
                self._teller.failed(Event.LOG_DIR_FAILED, JobKind.CHECKPOINT, error)

    def _compact(self, job: Job, round_: Turn, now_ms: int) -> None:
        try:
            if Path(job.partitions[0][0]) in self._changeable(round_):
                self._have_compacted(job, round_, now_ms)
        finally:
            self._schedule = self._schedule.compacted()

    def _have_compacted(self, job: Job, round_: Turn, now_ms: int) -> None:
        """Have the child compact a partition. Meanwhile do the jobs that are due for other partitions."""
        (key,) = job.partitions

        def meanwhile() -> None:
            self._tell_held(round_)
            if jobs := self._due():
                self._do(jobs[0], round_)

        def is_wanted() -> bool:
            return terms is not None and self._configuration.terms_of(Path(key[0]), key[1].topic) == terms

        terms = self._configuration.terms_of(Path(key[0]), key[1].topic)
        progress = Progress(self._teller, self._pulse)
        threads = max(1, self._configuration.broker.log_cleaner_threads)
        request = self._request(now_ms, Only.COMPACTION)
        lock = round_.lock_of(Path(key[0]))
        lock.ensure_named()
        task = CompactionTask(key, self._configuration.loaded.configured, request, threads, lock.descriptor)
        try:
            done = round_.compactor(self._pulse).compact(task, progress, meanwhile, is_wanted)
        except CompactorUnstartable as error:
            if not self._pulse.stopping():
                self._schedule = self._schedule.compactor_failed(key, str(error), now_ms)
                if rests := self._schedule.compactor:  # each partition would fail alike
                    self._teller.compactor_rests(rests)
            return
        except CompactionRefused as error:
            self._back_off((job.kind, key), str(error), now_ms)
        except ChildDied as error:
            if not self._pulse.stopping():
                self._teller.worker_died(str(error), job.kind)
                self._back_off((job.kind, key), str(error), now_ms)
        else:
            self._spent(job, done.plan, done.outcome, now_ms)
            if done.outcome.interrupted and not is_wanted():
                self._teller.withdrew(key)
        self._schedule = self._schedule.compactor_started()
        if not is_wanted():
            self._schedule = self._schedule.asked_for(JobKind.SURVEY)

    def _spent(self, job: Job, plan: Plan, outcome: Outcome, started_ms: int) -> None:
        """Tell the result of a plan. Partitions that failed wait before the next attempt."""
        now_ms = self._clock.now_ms()
        self._teller.ran(job, plan, outcome, started_ms, now_ms)
        for work, error, is_corrupt in failed_in(job, plan, outcome):
            self._back_off(work, error, now_ms, is_corrupt=is_corrupt)
        self._schedule = self._schedule.spent(job, plan, outcome)
        if outcome.guards:  # the next plan tells of them, by what the journal says
            self._schedule = self._schedule.asked_for(JobKind.SURVEY)
        self._teller.erred(job.kind, outcome)
        for work, error, _ in failed_beside(job, outcome):
            self._back_off(work, error, now_ms)

    def _back_off(self, work: Work, error: str, now_ms: int, *, is_corrupt: bool = False) -> None:
        self._schedule = self._schedule.failed(work, error, now_ms, is_corrupt=is_corrupt)
        self._teller.backs_off(work, self._schedule.failures[work])
        if is_corrupt:
            self._damage.note(work, error)

    def _locked(self, round_: Turn) -> tuple[Path, ...]:
        """Take the locks of the turn. Return the log dirs that may be changed."""
        dirs = round_.locked()
        for path in dirs:
            self._teller.log_dir_works(path, Trouble.LOCKING)
        return dirs

    def _on_refusal(self, path: Path, error: LogCleanerError | OSError) -> None:
        self._teller.refused(path, error, self._doing)

    def _open(self, dirs: Collection[Path], wanted: Wanted = everything, round_: Turn | None = None) -> Cleaner:
        """Return a cleaner of the log dirs in their present state: for changes under the locks of the turn, or
        to plan.
        """

        def wanted_and_alive(topic_partition: TopicPartition) -> bool:
            """The predicate asked before each partition is read: it gives a sign of life, and can stop the planning."""
            self._pulse.alive()
            if self._pulse.stopping():
                raise Stopped
            return wanted(topic_partition)

        cleaner = self._cleaner = Cleaner(
            self._configuration.loaded.configured._replace(log_dirs=tuple(dirs)),
            Means(
                clock=self._clock,
                listener=Progress(self._teller, self._pulse),
                may_begin=self._may_begin(round_),
            ),
            locks=LentLocks(lambda path: round_.lock_of(path) if round_ and round_.holds(path) else None),
            wanted=wanted_and_alive,
        )
        if self._pulse.stopping():
            cleaner.stop()
        return cleaner

    def _may_begin(self, round_: Turn | None) -> Callable[[], bool]:
        """Return the predicate asked before each partition: true for at least one partition a turn, false once the
        configuration changed.
        """
        in_time = at_least_one(lambda: not (round_ and self._must_let_go(round_)))
        return lambda: not (round_ and self._configuration.is_stale()) and in_time()


@dataclass(eq=False)
class Turn:
    """One turn.

    It takes the locks when the first job changes a log dir, and starts the child when the first job compacts.
    """

    log_dirs: tuple[Path, ...]
    """The log dirs of the configuration."""
    on_refusal: OnRefusal
    """Called for a log dir that another process holds, or that could not be locked."""
    seconds: Callable[[], float] = time.monotonic
    """A stopwatch."""
    _locks: dict[Path, LogDirLock] | None = None
    _compactor: CompactingChild | None = None
    _locked_seconds: float | None = None
    _told_seconds: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._compactor:
            self._compactor.close()
        for lock in (self._locks or {}).values():
            with suppress(OSError, LogCleanerError):  # the lock is released even if its file cannot be removed
                lock.release()

    @property
    def held_seconds(self) -> float:
        """Return for how many seconds the locks have been held, and a broker would have been refused."""
        return 0.0 if self._locked_seconds is None else self.seconds() - self._locked_seconds

    def newly_held_seconds(self) -> float:
        """Return for how long the locks were held since the last call."""
        seconds, self._told_seconds = self.held_seconds - self._told_seconds, self.held_seconds
        return seconds

    def holds(self, log_dir: Path) -> bool:
        """Return whether this turn has the lock."""
        return self._locks is not None and log_dir in self._locks

    def locked(self) -> tuple[Path, ...]:
        """Take the locks when first called. Return the log dirs that may be changed."""
        if self._locks is None:
            self._locks = {}
            for path in self.log_dirs:
                self._lock(path, self._locks)
        return tuple(self._locks)

    def lock_of(self, log_dir: Path) -> LogDirLock:
        """Return the lock of a log dir; the turn holds it."""
        assert self._locks is not None
        return self._locks[log_dir]

    def compactor(self, pulse: Pulse) -> CompactingChild:
        """Return the one child of this turn; start it when first called."""
        if self._compactor is None:
            descriptors = [lock.descriptor for lock in (self._locks or {}).values()]
            self._compactor = CompactingChild(descriptors, pulse)
        return self._compactor

    def _lock(self, path: Path, locks: dict[Path, LogDirLock]) -> None:
        try:
            locks[path] = LogDir.open(path).lock(FileSystem())
        except (LogCleanerError, OSError) as error:
            self.on_refusal(path, error)
        else:
            self._locked_seconds = self.seconds() if self._locked_seconds is None else self._locked_seconds


def at_least_one(may_begin: Callable[[], bool]) -> Callable[[], bool]:
    """Return a predicate that is true when first asked.

    Without this predicate a turn might end before it did anything.
    """
    passed: list[bool] = []

    def may() -> bool:
        is_allowed = not passed or may_begin()
        passed.append(True)
        return is_allowed

    return may


def _directory_of(work: Work) -> Path:
    log_dir, topic_partition = work[1]
    return Path(log_dir) / str(topic_partition)


class _Judged(NamedTuple):
    """The verdict of a plan of everything on the limits that are saved."""

    loaded: LoadedLayers
    """The configuration of the plan."""
    waits: frozenset[str]
    """Log dirs in which some limits wait."""
    let_through: frozenset[str]
    """Topics whose limits let more go than before, and do not wait."""
    surveyed: frozenset[str]
    """Log dirs that no other guard rail holds back."""
