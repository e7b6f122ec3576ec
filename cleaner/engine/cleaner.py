"""Cleaner: facts in, plan out, plan executed; what the command line, the daemon and a Python program all call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from cleaner.engine.beginning import Begun, LogDirsChange, recover_log_dir
from cleaner.engine.clock import Clock, SystemClock
from cleaner.engine.compactor import Compactor, Local
from cleaner.engine.copy.copying import Copier
from cleaner.engine.copy.moment import Moment
from cleaner.engine.copy.output import check_usable
from cleaner.engine.freeing import Rescue, Rescued, volumes_of
from cleaner.engine.inventory import Survey, Wanted, everything, survey_clock, survey_log_dir
from cleaner.engine.journal import Journal, JournalFull, read_journal
from cleaner.engine.leftovers import sweep_log_dir
from cleaner.engine.means import Means, Stopped
from cleaner.engine.outcome import Listener, Outcome, Silent
from cleaner.engine.rehearsal import Rehearsal
from cleaner.engine.spending import spend
from cleaner.engine.uncleanable import uncleanable_in
from policies.config.config_layers import ConfigLayers
from policies.config.configured import Configured
from policies.config.policy import TopicPolicy
from policies.facts import ConfigFacts, LogDirFacts, PartitionFacts
from policies.guards import clock_guard
from policies.plan import PartitionKey, Plan, Request, log_dir_guards, plan
from policies.rescue import SpaceTarget, Volume
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.guarded import Guarded
from storage.lock import LogDirLock, LogDirReadLock
from storage.log.listing import list_partition
from storage.log_dir import LogDir

TakeLock = Callable[[LogDir, FileSystem], AbstractContextManager[LogDirLock | None]]
_TakeReadLock = Callable[[LogDir, FileSystem], AbstractContextManager[LogDirLock | LogDirReadLock | None]]
_READINGS_MAX: Final = 8
"""How often the log dirs may change between finding and locking them, before the run gives up."""

_THREADS_MAX: Final = 256
"""Each takes memory before it has work; ``log.cleaner.threads`` may be any int."""


class Cleaner:
    """Retention and compaction over some log dirs."""

    def __init__(
        self,
        log_dirs: Sequence[Path],
        layers: ConfigLayers,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        listener: Listener | None = None,
        threads: int = 1,
        force_lock: bool = False,
        wanted: Wanted = everything,
        lock: TakeLock | None = None,
        compactor: Compactor | None = None,
        config_facts: Mapping[Path, ConfigFacts] | None = None,
        read_again: Callable[[], Configured] | None = None,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        """Open the log dirs.

        Args:
            log_dirs: directories that a broker names in ``log.dirs``.
            layers: the configuration.
            config_facts: log dir -> what tells whether that is the configuration of its broker.
            read_again: reads the configuration under the locks, before anything else is read there; what it raises
                ends the run, and nothing was changed. Without it ``layers`` holds: the caller read them under the lock.
            fs: the seam through which every mutation goes.
            clock: the wall clock.
            listener: hears events and progress.
            threads: of compactions: large ones in turn, each with all, small ones side by side; 256 at most.
            force_lock: go on where the lock of a log dir may keep nobody out.
            wanted: partitions that are left out of everything are those that it denies.
            lock: takes the lock of a log dir. A caller that already holds the lock passes a context that gives it.
            compactor: carries the compactions of ``clean`` and ``copy`` out; this process does where none is given.
            may_begin: asked before ``clean`` begins a partition; False leaves the rest to a later run.

        Raises: NotALogDir, UnreadableFile, InvalidConfigs.
        """
        self._wanted = wanted
        self._lent = lock
        self._lock = lock or (lambda log_dir, fs: log_dir.lock(fs, forced=force_lock))
        self._lock_to_read: _TakeReadLock = lock or LogDir.lock_to_read
        self._locked_by_us: set[Path] = set()
        """The log dirs whose locks this run took."""
        self._fs = fs or FileSystem()
        self._stopping = False
        self._compactor = compactor or Local()
        self._read_again = read_again
        self._means = Means(
            self._fs,
            clock or SystemClock(),
            listener or Silent(),
            layers.broker_policy(),
            min(threads, _THREADS_MAX),
            lambda: self._stopping,
            None,
            may_begin,
        )
        self._take(Configured(tuple(log_dirs), layers, config_facts or {}))

    def _take(self, configured: Configured) -> None:
        """Let a configuration hold from now on."""
        self._log_dirs = list(dict.fromkeys(LogDir.open(path) for path in configured.log_dirs))
        self._layers = configured.layers
        self._config_facts = configured.facts
        self._means = replace(self._means, broker=configured.layers.broker_policy())

    def stop(self) -> None:
        """Ask a running ``clean`` to end between two steps; safe to call from a signal handler."""
        self._stopping = True

    def plan(self, request: Request, topics: Sequence[str] = ()) -> Plan:
        """Read the facts and plan; takes no lock and creates nothing.

        Args:
            request: the moment of the run, and what is restricted or forced.
            topics: globs over topic or partition names; empty means all.
        """
        survey = self._survey(request, topics)
        return self._planned([self._facts(log_dir, survey) for log_dir in self._log_dirs], request)

    def uncleanable(self, planned: Plan) -> dict[PartitionKey, str]:
        """Partitions of a plan that failed when last tried and whose files are the same since, with the cause.

        Raises: UnreadableFile.
        """
        failed = {
            (str(log_dir.path), name): uncleanable
            for log_dir in self._log_dirs
            for name, uncleanable in uncleanable_in(read_journal(log_dir.path)).items()
        }
        causes = {}
        for key in (partition.key for partition in planned.partitions):
            uncleanable = failed.get((key[0], str(key[1])))
            if uncleanable and not uncleanable.may_retry(list_partition(Path(key[0]) / str(key[1]))):
                causes[key] = uncleanable.cause
        return causes

    def would_do(self, plan: Plan, *, exact: bool = False, delete_delay_ms: int | None = None) -> Outcome:
        """What executing a plan would do, and nothing done.

        Args:
            plan: from ``plan``.
            exact: read what a compaction would read; without it its output is an estimate.
            delete_delay_ms: as for ``clean``.
        """
        start_seconds = self._means.clock.seconds()
        rehearsal = Rehearsal(replace(self._means, delete_delay_ms=delete_delay_ms), plan.request.now_ms)
        results = {p.key: rehearsal.result(p, exact=exact) for p in plan.partitions if p.has_work}
        swept_bytes = sum(rehearsal.swept_bytes(log_dir_plan) for log_dir_plan in plan.log_dirs)
        return Outcome(True, results, swept_bytes, self._means.clock.seconds() - start_seconds)

    def clean(
        self, request: Request, topics: Sequence[str] = (), *, delete_delay_ms: int | None = None
    ) -> tuple[Plan, Outcome]:
        """Lock every log dir, recover, plan, execute.

        Args:
            request: as for ``plan``.
            topics: as for ``plan``.
            delete_delay_ms: overrides ``file.delete.delay.ms``; 0 unlinks in this run.

        Raises: LogDirLocked, UnreliableLock, UnsafeOwner before anything was changed.
        """
        start_seconds, request = self._means.clock.seconds(), replace(request, in_place=True)
        with ExitStack() as locks:
            begun = self._locked(locks, request, topics, delete_delay_ms)
            locks.callback(self._compactor.close)
            planned = self.plan(request, topics)
            begun.swept_bytes += sum(sweep_log_dir(p, begun.means, begun.errors) for p in planned.log_dirs)
            executors = [
                locks.enter_context(closing(begun.executor(log_dir, request.now_ms, self._compactor)))
                for log_dir in self._log_dirs
            ]
            planned = spend(planned, executors, lambda: self.plan(request, topics))
        seconds = self._means.clock.seconds() - start_seconds
        return planned, Outcome(
            False,
            {key: result for executor in executors for key, result in executor.results.items()},
            begun.swept_bytes,
            seconds,
            self._stopping,
            (*begun.errors, *(error for executor in executors for error in executor.errors)),
            frozenset(key for executor in executors for key in executor.left),
            self._compactor.name,
            tuple(str(executor.log_dir.path) for executor in executors if executor.is_journal_full),
        )

    def remove_journalled(self, request: Request) -> tuple[str, ...]:
        """Lock every log dir and unlink what waited long enough as ``.deleted`` and the journal names; nothing else.

        Such a file went by a decision that is in the journal, so no configuration is asked but for the delay.

        Gives what failed. Raises: as ``clean``.
        """
        errors: list[str] = []
        with ExitStack() as locks:
            self._lock_and_read(locks)
            for planned in self.plan(replace(request, in_place=True)).log_dirs:
                sweep_log_dir(planned, self._means, errors, only_journalled=True)
        return tuple(errors)

    def correct_checkpoints(self, request: Request) -> tuple[str, ...]:
        """Lock every log dir and write the first dirty offsets anew that lie outside their log; nothing else.

        Gives what failed. Raises: as ``clean``.
        """
        request = replace(request, in_place=True)
        with ExitStack() as locks:
            begun = self._locked(locks, request, ())
            for log_dir, planned in zip(self._log_dirs, self.plan(request).log_dirs, strict=True):
                with closing(begun.executor(log_dir, request.now_ms)) as executor:
                    executor.correct_checkpoint(planned)
                begun.errors += executor.errors
        return tuple(begun.errors)

    def copy(
        self, request: Request, output: Path, topics: Sequence[str] = (), *, tool_version: str
    ) -> tuple[Plan, Outcome]:
        """Write a cleaned copy, and leave the log dir as it is but for a ``.lock``. With one log dir only.

        The log dir is locked for reading, then planned, then copied; what changes meanwhile, although it is locked or
        since it cannot be, ends the copy. Nothing is written if a guard rail holds the log dir back, or its checkpoints
        cannot be read.

        Args:
            request: as for ``plan``.
            output: a new or an empty directory.
            topics: as for ``plan``; the copy then holds no others.
            tool_version: for the manifest.

        Raises:
            LogDirLocked, UnusableOutput, CopyDoesNotFit: nothing was written.
            OutputFull, SourceChanged, UnreadableFile: the output is incomplete, and says so.
        """
        start_seconds = self._means.clock.seconds()
        (log_dir,) = self._log_dirs
        check_usable(output, log_dir)
        with ExitStack() as locks:
            log_dir, moment = self._lock_to_copy(locks, topics)
            planned = self.plan(request, topics)
            (log_dir_plan,) = planned.log_dirs
            copier = Copier(log_dir, log_dir_plan, moment, request.now_ms, self._means, tool_version, self._compactor)
            if log_dir_plan.guard is None and not log_dir_plan.facts.errors:
                with suppress(Stopped), closing(self._compactor):
                    copier.copy_to(output)
        seconds = self._means.clock.seconds() - start_seconds
        return planned, Outcome(False, copier.results, 0, seconds, self._stopping, engine=self._compactor.name)

    def volumes(self) -> tuple[Volume, ...]:
        """The file systems of the log dirs, as they are now."""
        return volumes_of(self._log_dirs)

    def would_free(self, request: Request, target: SpaceTarget, topics: Sequence[str] = ()) -> Rescued:
        """What ``free`` would do, and nothing done. Arguments as for ``free``."""
        return self._rescue(request, target, topics).rehearse()

    def free(self, request: Request, target: SpaceTarget, topics: Sequence[str] = ()) -> Rescued:
        """Lock every log dir, recover, and free as much as the target asks, no more than policy allows.

        Args:
            request: as for ``plan``; compactions are left out where it is restricted to retention.
            target: what is to be free on each file system.
            topics: as for ``plan``.

        Raises: as ``clean``.
        """
        request = replace(request, in_place=True)
        with ExitStack() as locks:
            begun = self._locked(locks, request, topics, delete_delay_ms=0)
            return self._rescue(request, target, topics).run(begun.errors)

    def _rescue(self, request: Request, target: SpaceTarget, topics: Sequence[str]) -> Rescue:
        means = replace(self._means, delete_delay_ms=0)
        return Rescue(self._log_dirs, means, target, lambda: self.plan(request, topics))

    def _locked(
        self, locks: ExitStack, request: Request, topics: Sequence[str], delete_delay_ms: int | None = None
    ) -> Begun:
        """Take every lock, read the configuration, and only then recover."""
        self._lock_and_read(locks)
        self._compactor.begin([log_dir.path for log_dir in self._log_dirs])
        begun = Begun(replace(self._means, delete_delay_ms=delete_delay_ms))
        survey = self._survey(request, topics)
        for log_dir in self._log_dirs:
            self._begin(log_dir, request, survey, begun)
        return begun

    def _begin(self, log_dir: LogDir, request: Request, survey: Survey, begun: Begun) -> None:
        """Recover a log dir. If its journal finds no space, unlink what waited long enough and try once more."""
        try:
            begun.errors += self._recovered(log_dir, request, survey, begun.means)
        except JournalFull:
            planned = self._planned([self._facts(log_dir, survey)], request)
            begun.swept_bytes += sweep_log_dir(planned.log_dirs[0], begun.means, begun.errors)
            try:
                begun.errors += self._recovered(log_dir, request, survey, begun.means)
            except JournalFull as error:
                begun.errors.append(str(error))
                begun.full.add(log_dir)

    def _lock_and_read(self, locks: ExitStack) -> None:
        """Take the lock of every log dir, then read the configuration: start over if it names others by now."""
        for _ in range(_READINGS_MAX):
            taken = {log_dir.path: locks.enter_context(self._lock(log_dir, self._fs)) for log_dir in self._log_dirs}
            guarded = Guarded(self._fs, {path: lock for path, lock in taken.items() if lock})
            self._locked_by_us.update(taken)
            locks.callback(self._locked_by_us.clear)
            self._means = replace(self._means, fs=guarded)
            if self._read_again is None:
                return
            locked = self._log_dirs
            self._take(self._read_again())
            if self._log_dirs == locked:
                return
            locks.close()
        raise LogDirsChange(tuple(log_dir.path for log_dir in self._log_dirs))

    def _lock_to_copy(self, locks: ExitStack, topics: Sequence[str]) -> tuple[LogDir, Moment]:
        """Lock the log dir for reading, look at it, then read the configuration: start over if it names another by now.

        The look comes first, so that a change of the configuration is a change since then.
        """
        for _ in range(_READINGS_MAX):
            (log_dir,) = self._log_dirs
            locks.enter_context(self._lock_to_read(log_dir, self._fs))
            self._locked_by_us.add(log_dir.path)
            locks.callback(self._locked_by_us.clear)
            moment = Moment.of(log_dir, topics)
            if self._read_again is None:
                return log_dir, moment
            self._take(self._read_again())
            if self._log_dirs == [log_dir]:
                return log_dir, moment
            locks.close()
        raise LogDirsChange((log_dir.path,))

    def _survey(self, request: Request, topics: Sequence[str]) -> Survey:
        expiration_ms = self._means.broker.producer_id_expiration_ms
        return Survey(self._layers, request.now_ms, expiration_ms, tuple(topics), self._wanted)

    def _facts(self, log_dir: LogDir, survey: Survey) -> LogDirFacts:
        facts = survey_log_dir(log_dir, survey)
        if facts.locked_by and self._is_ours(log_dir):
            facts = replace(facts, locked_by=None)
        try:
            return facts if facts.errors else self._with_guard_facts(log_dir, facts)
        except LogCleanerError as error:  # an unreadable journal: what cannot be written down is not done
            return replace(facts, partitions=(), errors=(str(error),))

    def _is_ours(self, log_dir: LogDir) -> bool:
        """Whether the lock of a log dir is held by this run, or by its caller."""
        if self._lent is None:
            return log_dir.path in self._locked_by_us
        with self._lent(log_dir, self._fs) as lock:
            return lock is not None

    def _with_guard_facts(self, log_dir: LogDir, facts: LogDirFacts) -> LogDirFacts:
        """Add what the guard rails of a whole log dir go by."""
        clock = survey_clock(log_dir, self._means.clock, self._means.broker.clock_jump_max_ms)
        return replace(facts, clock=clock, config=self._config_facts.get(log_dir.path))

    def _planned(self, facts: Sequence[LogDirFacts], request: Request) -> Plan:
        return plan(facts, self._policy_of, request, self._means.broker)

    def _recovered(self, log_dir: LogDir, request: Request, survey: Survey, means: Means) -> list[str]:
        """Recover a log dir unless a guard rail holds it back; return what failed. Raises: JournalFull."""
        journal = Journal(log_dir.path, means.fs, means.clock.boot(), may_wait=means.delete_delay_ms == 0)
        with closing(journal):
            may_recover = self._may_recover(log_dir, request, journal)
            return list(recover_log_dir(log_dir, survey, journal, means)) if may_recover else []

    def _may_recover(self, log_dir: LogDir, request: Request, journal: Journal) -> bool:
        """Whether no guard rail holds the log dir back.

        The question comes before the first journal entry of this run, which the clock would agree with. A clock that
        was confirmed gets such an entry. Raises: JournalFull.
        """
        nothing = LogDirFacts(str(log_dir.path), None, 0, 0, ())
        jump_max_ms = self._means.broker.clock_jump_max_ms
        try:
            facts = self._with_guard_facts(log_dir, nothing)
        except LogCleanerError:
            return False  # the plan meets it again, and tells
        if any(log_dir_guards(facts, request, jump_max_ms)):
            return False
        if facts.clock and (guard := clock_guard(facts.clock, jump_max_ms)):
            fields = {"what": "clock", "text": guard.text}
            if not journal.record(time_ms=self._means.clock.now_ms(), **fields):
                self._means.listener.event("journal_waits", log_dir=str(log_dir.path), **fields)
        return True

    def _policy_of(self, facts: PartitionFacts) -> TopicPolicy:
        return self._layers.policy_for(
            facts.topic_partition.topic, compacted_before=facts.cleaner_checkpoint is not None
        )
