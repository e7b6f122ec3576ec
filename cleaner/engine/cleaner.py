"""The entrance for the command line, the daemon and Python programs: facts in, plan out, plan executed.

Under the locks the configuration is read a second time: the run ends if the second reading lets more go than the first.
A plan is carried out over all log dirs. The lock keeps brokers and cleaners out, not a person with ``cp``, ``touch`` or
``rsync``: a partition that changed since it was planned is skipped, and planned anew, once, behind all others. If the
second plan does not fit either, the partition has failed.

The limits that were confirmed last are kept in each log dir: ``.logcleaner-limits``, which a broker ignores. It has one
line, as those of the journal: a CRC-32 in hexadecimal, a blank, a JSON object. It has an entry for each configuration
file that was used on the log dir, the one used last at the end. The file lies in the log dir because whoever may delete
there can write there, and because a restart, another machine or a new container finds it there.

Steps:      the file is replaced as a whole, under the lock of the log dir, before anything goes by the new limits.
Invariant:  the limits of an entry never let more go than those that a person confirmed, or that a plan of everything
            let through. While a limit waits, saved limits are added to the entry, and none is removed.
Missing file: nothing was ever confirmed, so the limits of the first start count as confirmed. A configuration file that
is new to a log dir is compared with the file used last there. Damaged file: nobody knows what was confirmed, so nothing
in the log dir is deleted until ``config apply``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cleaner.engine.beginning import Begun, may_recover, recover_log_dir
from cleaner.engine.compactor import Beginning, Compactor, KernelCheck, Local
from cleaner.engine.inventory import (
    Listed,
    Survey,
    Wanted,
    ensure_whole_copy,
    everything,
    survey_clock,
    survey_log_dir,
    unheard,
    volumes_of,
)
from cleaner.engine.journal import Journal, JournalFull, encode_entry, ensure_space
from cleaner.engine.leftovers import kept_files, sweep_log_dir
from cleaner.engine.locks import AnyLock, Locks, OwnLocks, TakeLock, guarded, lock_and_read
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.outcome import Outcome
from cleaner.engine.rehearsal import Rehearsal
from cleaner.engine.uncleanable import causes
from cleaner.errors import told
from policies.config.config_layers import Configured
from policies.config.loosened import FileLayers, lost_protection
from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts
from policies.plan import PartitionKey, PartitionPlan, Plan, Request
from policies.planning import held_back, limited_to, plan, replanned, without_compactions
from policies.reload import Confirmed, in_force
from storage.errors import ErrorKind, LogCleanerError, Stopped
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log_dir import LogDir, read_file
from storage.names import LIMITS_FILE, TopicPartition, is_named
from storage.stores.paths import path_of_text

if TYPE_CHECKING:
    from cleaner.engine.copy.moment import Moment
    from cleaner.engine.executor import Executor
    from cleaner.engine.freeing import Rescue, Rescued
    from cleaner.engine.rehearsal.what_if import Answered
    from policies.explain.explanation import PartitionExplanation
    from policies.forecast.runway import Runway
    from policies.forecast.what_if import Question
    from policies.rescue import SpaceTarget, Volume

_VERSION: Final = 1
_CONFIGURATIONS_MAX: Final = 16
"""The most entries that are kept. A configuration file whose entry was dropped counts as new."""

_THREADS_MAX: Final = 256
"""Each thread takes memory before it has work, and ``log.cleaner.threads`` may be any int."""


class Cleaner:
    """Plans and carries out retention and compaction over some log dirs."""

    def __init__(
        self,
        configured: Configured,
        means: Means | None = None,
        *,
        locks: Locks | None = None,
        wanted: Wanted = everything,
        compactor: Compactor | None = None,
        read_again: Callable[[], Configured] | None = None,
    ) -> None:
        """Open the log dirs.

        Args:
            configured: the configuration, and the log dirs that it names.
            means: what to work with; 256 threads at most.
            locks: of the log dirs; without it, the run takes them itself.
            wanted: predicate; partitions for which it is false are ignored.
            compactor: carries the compactions of ``clean`` and ``copy`` out; without it, this process does.
            read_again: reads the configuration under the locks, before anything else is read there. Its error ends the
                run before any change, and so does a configuration that lets more go than ``configured``. Without it,
                ``configured`` was read under the locks.

        Raises: NotALogDir, UnreadableFile, InvalidConfigs.
        """
        means = means or Means()
        self._wanted = wanted
        self._locks = locks or OwnLocks()
        self._fs = means.fs
        self._stopping = False
        self._compactor = compactor or Local()
        self._asked, self._read_again = configured, read_again
        threads = min(means.threads, _THREADS_MAX)
        self._means = replace(means, threads=threads, stopping=lambda: self._stopping)
        self._take(configured)

    def _take(self, configured: Configured) -> None:
        """Work with a configuration from now on."""
        self._log_dirs = list(dict.fromkeys(LogDir.open(path) for path in configured.log_dirs))
        self._configured = configured
        self._layers = configured.layers
        self._config_facts = configured.facts
        found = {str(log_dir.path): confirmed_in(log_dir, configured) for log_dir in self._log_dirs}
        self._confirmed = {path: one for path, one in found.items() if one}
        broker = in_force(configured.layers.broker_policy(), self._confirmed.values())
        self._means = replace(self._means, broker=broker)

    def stop(self) -> None:
        """Ask a running ``clean`` to end between two steps; safe to call from a signal handler."""
        self._stopping = True

    def _ensure_going(self) -> None:
        """Go on, unless the run was asked to end. Raises: Stopped."""
        if self._stopping:
            raise Stopped

    def plan(self, request: Request, listed: Listed = unheard, *, is_glance: bool = False) -> Plan:
        """Read the facts and make the plan for a request. No lock is taken, and nothing is created.

        Args:
            request: what was asked.
            listed: called with the listing of each partition directory.
            is_glance: as of ``Survey``.
        """
        survey = self._survey(request)._replace(listed=listed, is_glance=is_glance)
        return self._planned([self._facts(log_dir, survey) for log_dir in self._log_dirs], request)

    def uncleanable(self, planned: Plan) -> dict[PartitionKey, str]:
        """Return the cause for each partition of a plan that failed when last tried, and has the same files since.

        Raises: UnreadableFile.
        """
        return causes([log_dir.path for log_dir in self._log_dirs], planned)

    def explain(
        self, planned: Plan, wanted: TopicPartition, *, exact: bool = False
    ) -> tuple[PartitionExplanation, ...]:
        """Explain a partition, in each log dir that holds it, without a lock. Arguments: as of ``explanations``."""
        from cleaner.engine.explain.explaining import explanations  # noqa: PLC0415 - no other command needs it

        return explanations(planned, wanted, self._log_dirs, self._means, exact=exact)

    def would_do(self, plan: Plan, *, exact: bool = False) -> Outcome:
        """Return the outcome that executing a plan would have, without executing it.

        ``held_back`` takes the compactions that a guard rail stopped meanwhile out of the plan.

        Args:
            plan: from ``plan``.
            exact: read the data that a compaction would read; without it, the result is an estimate.
        """
        start_seconds, kernels = self._means.clock.seconds(), KernelCheck(self._means.listener)
        rehearsal, doable = Rehearsal(self._means, plan.request), kernels.doable(plan)
        if exact:
            self._expect(doable)
        full = rehearsal.full(doable)
        begun = [p for p in doable.partitions if p.has_work and p.facts.log_dir not in full]
        results = {p.key: rehearsal.result(p, exact=exact) for p in begun}
        swept = rehearsal.swept(plan)
        seconds = self._means.clock.seconds() - start_seconds
        runways = self.runways(plan)
        outcome = Outcome(True, results, swept.size_bytes, seconds, swept_disk_bytes=swept.disk_bytes, runways=runways)
        outcome = replace(outcome, kept=kept_files(plan))
        errors = (*kernels.errors, *full.values())
        return replace(outcome, errors=errors, no_kernels=kernels.error, full_log_dirs=full)

    def what_if(
        self, plan: Plan, outcome: Outcome, questions: Sequence[Question], *, exact: bool = False
    ) -> tuple[Answered, ...]:
        """Return the outcomes that runs with other values would have, without running them.

        Args:
            plan, outcome: of ``plan`` and ``would_do``, with the configuration in force.
            questions: each one by itself.
            exact: as for ``would_do``.

        Raises: InvalidConfigs, CorruptCheckpoint, UnreadableFile.
        """
        from cleaner.engine.rehearsal.what_if import Supposing  # noqa: PLC0415 - no other run supposes

        survey, volumes = self._survey(plan.request), self.volumes()
        doable = without_compactions if outcome.no_kernels else KernelCheck(self._means.listener).doable
        supposing = Supposing(
            self._log_dirs, survey, self._means, plan, outcome, volumes, doable, self._confirmed, exact
        )
        return tuple(supposing.answered(question) for question in questions)

    def runways(self, plan: Plan) -> tuple[Runway, ...]:
        """Return how long each file system of the log dirs lasts, with the configuration of a plan."""
        from policies.forecast.runway import runway  # noqa: PLC0415 - no run that changes something tells it

        return tuple(runway(volume, plan) for volume in self.volumes())

    def clean(self, request: Request) -> tuple[Plan, Outcome]:
        """Lock every log dir, recover, plan, execute.

        Raises:
            LogDirLocked, UnreliableLock, UnsafeOwner, ProtectionLost: nothing was changed.
            InvalidConfig: as ``KernelCheck``; nothing of the plan was done.
        """
        start_seconds, request = self._means.clock.seconds(), replace(request, in_place=True)
        kernels = KernelCheck(self._means.listener)
        with ExitStack() as locks:
            begun = self._locked(locks, request)
            locks.callback(self._compactor.close)
            planned = self.plan(request)
            kernels.doable(planned)  # its line or error comes before the first step of the plan
            begun.errors += self._note_limits_of(planned)
            kept = kept_files(planned)
            begun.sweep(planned.log_dirs)
            executors = [
                locks.enter_context(closing(begun.executor(log_dir, self._compactor))) for log_dir in self._log_dirs
            ]
            self._expect(kernels.doable(planned))
            beginning = Beginning(self._compactor, [log_dir.path for log_dir in self._log_dirs])
            planned = spend(planned, executors, lambda: self.plan(request), kernels.doable, beginning.doable)
        seconds = self._means.clock.seconds() - start_seconds
        outcome = Outcome(
            False,
            {key: result for executor in executors for key, result in executor.results.items()},
            begun.swept.size_bytes,
            seconds,
            self._stopping,
            (
                *kernels.errors,
                *beginning.errors,
                *begun.errors,
                *(error for executor in executors for error in executor.errors),
            ),
            frozenset(key for executor in executors for key in executor.left),
            self._compactor.name,
            kernels.error,
            {str(executor.log_dir.path): executor.journal_full for executor in executors if executor.journal_full},
            swept_disk_bytes=begun.swept.disk_bytes,
            kept=kept,
        )
        return held_back(planned, outcome.guards), outcome

    def remove_journalled(self, request: Request) -> tuple[str, ...]:
        """Lock every log dir and unlink the ``.deleted`` files that the journal names and whose delay is over.

        The journal has the decision on each of these files, so the configuration only says how long they wait.

        Returns: what failed. Raises: as ``clean``.
        """
        errors: list[str] = []
        with ExitStack() as locks:
            self._lock_and_read(locks, request.topics)
            for planned in self.plan(replace(request, in_place=True)).log_dirs:
                sweep_log_dir(planned, request, self._means, errors, only_journalled=True)
        return tuple(errors)

    def correct_checkpoints(self, request: Request) -> tuple[str, ...]:
        """Lock every log dir, and correct only the first dirty offsets that lie outside their log.

        Returns: what failed. Raises: as ``clean``.
        """
        request = replace(request, in_place=True)
        with ExitStack() as locks:
            begun = self._locked(locks, request)
            for log_dir, planned in zip(self._log_dirs, self.plan(request).log_dirs, strict=True):
                with closing(begun.executor(log_dir)) as executor:
                    executor.correct_checkpoint(planned)
                begun.errors += executor.errors
        return tuple(begun.errors)

    def confirm_limits(self, request: Request) -> tuple[Plan, tuple[str, ...]]:
        """Lock every log dir and note the saved limits as confirmed; nothing else is changed.

        Returns: the plan, with the limits that waited until then, and the errors. Raises: as ``clean``.
        """
        with ExitStack() as locks:
            self._lock_and_read(locks)
            return self.plan(request), self.note_limits((), must_be_written=True)

    def would_confirm(self, request: Request) -> tuple[Plan, tuple[str, ...]]:
        """Return what ``confirm_limits`` would, without a lock, and change nothing."""
        planned, errors = self.plan(request), []
        for path in sorted(planned.waits):
            try:
                ensure_space(path_of_text(path))
            except LogCleanerError as error:
                errors.append(told(error))
        return planned, tuple(errors)

    def note_limits(self, waiting: Collection[str], *, must_be_written: bool = False) -> tuple[str, ...]:
        """Write down in each log dir which limits hold there. The caller has the locks.

        Args:
            waiting: log dirs in which some of the saved limits wait, by the plan of everything that comes before.
            must_be_written: a full disk is an error; else the limits go on waiting, and a later run finds space.

        Returns: what failed.
        """
        errors, now_ms = [], self._means.clock.now_ms()
        for log_dir in self._log_dirs:
            waits = str(log_dir.path) in waiting
            try:
                if note_limits(log_dir, self._configured, self._means.fs, now_ms, waits=waits) and not waits:
                    place = {"log_dir": str(log_dir.path), "configuration": self._configured.name}
                    self._means.listener.event("limits_confirmed", **place)
            except (LogCleanerError, OSError) as error:
                if isinstance(error, OutOfSpace) and not must_be_written:
                    continue
                errors.append(told(error))
        return tuple(errors)

    def _note_limits_of(self, planned: Plan) -> tuple[str, ...]:
        """Note the limits of a plan as confirmed. A plan of some topics confirms nothing for other topics."""
        request = planned.request
        if request.let_through is not None:
            return ()  # the daemon notes them behind its plans of everything
        is_whole = not request.topics and self._wanted is everything
        withheld = {d.facts.path for d in planned.log_dirs if d.guard or d.facts.errors}
        return self.note_limits(planned.waits | withheld if is_whole else {d.facts.path for d in planned.log_dirs})

    def opened(self) -> OpenLogDirs:
        """Return the log dirs and means of a run, as they were read last."""
        return OpenLogDirs(tuple(self._log_dirs), self._layers, self._means)

    @contextmanager
    def locked(self) -> Iterator[OpenLogDirs]:
        """Hold the lock of every log dir. Yield what was read under the locks. Raises: as ``clean``."""
        with ExitStack() as locks:
            self._lock_and_read(locks)
            yield self.opened()

    @contextmanager
    def locked_to_copy(self, output: Path, topics: Sequence[str]) -> Iterator[tuple[LogDir, Moment, Means]]:
        """Lock the one log dir for reading, if that is possible. Yield its state, and the means to write a copy.

        Raises: LogDirLocked, ProtectionLost, UnusableOutput, CopyLacksFiles, OutputFull.
        """
        from cleaner.engine.copy.copying import OutputFull, check_usable  # noqa: PLC0415 - no other run copies
        from storage.uploads import FILES_AT_ONCE, writing_to  # noqa: PLC0415 - as above

        (log_dir,) = self._log_dirs
        check_usable(output, log_dir)
        ensure_whole_copy(log_dir, lambda name: is_named(name, topics))
        with ExitStack() as locks:
            log_dir, moment = self._lock_to_copy(locks, topics)
            fs = writing_to(output, self._fs, self._ensure_going, at_once=FILES_AT_ONCE)
            try:
                yield log_dir, moment, replace(self._means, fs=fs)
            except OutOfSpace as error:
                raise OutputFull(error.path, error.wanted_bytes) from error

    def copy(
        self,
        request: Request,
        output: Path,
        *,
        tool_version: str,
        behind: Callable[[PartitionPlan, Path, Means], None] | None = None,
    ) -> tuple[Plan, Outcome]:
        """Write a cleaned copy of one log dir. The log dir stays as it is, except for a ``.lock``.

        Either may lie in a store, and there is no lock there.

        The log dir is locked for reading if that is possible, then planned, then copied. Any change meanwhile ends the
        copy. Nothing is written if a guard rail holds the log dir back, or its checkpoints cannot be read.

        Args:
            request: what was asked; the copy holds no other topics.
            output: a new or an empty directory, of this machine or in a store.
            tool_version: for the manifest.
            behind: as of ``Copier``.

        Raises:
            LogDirLocked, ProtectionLost, UnusableOutput, CopyDoesNotFit, CopyLacksFiles: nothing was written.
            OutputFull, SourceChanged, UnreadableFile, OtherWriter, StoreError: the output is incomplete, and says so.
        """
        from cleaner.engine.copy.copying import Copier  # noqa: PLC0415 - no other run copies

        start_seconds, kernels = self._means.clock.seconds(), KernelCheck(self._means.listener)
        with self.locked_to_copy(output, request.topics) as (log_dir, moment, means):
            planned = self.plan(request)
            doable = kernels.doable(planned)
            (log_dir_plan,) = doable.log_dirs
            self._expect(doable)
            copier = Copier(log_dir, log_dir_plan, moment, request, means, tool_version, self._compactor, behind)
            if log_dir_plan.guard is None and not log_dir_plan.facts.errors:
                with suppress(Stopped), closing(self._compactor):
                    copier.copy_to(output)
        seconds = self._means.clock.seconds() - start_seconds
        outcome = Outcome(
            False,
            copier.results,
            0,
            seconds,
            self._stopping,
            kernels.errors,
            engine=self._compactor.name,
            no_kernels=kernels.error,
            kept=kept_files(planned),
            left_out=copier.left_out,
        )
        return held_back(planned, outcome.guards), outcome

    def volumes(self) -> tuple[Volume, ...]:
        """Return the file systems of the log dirs, as they are now."""
        return volumes_of(self._log_dirs)

    def would_free(self, request: Request, target: SpaceTarget) -> Rescued:
        """Return what ``free`` would do, without doing it. Arguments as for ``free``."""
        rescued = self._rescue(replace(request, delete_delay_ms=0), target).rehearse()
        return replace(rescued, outcome=replace(rescued.outcome, runways=self.runways(rescued.plan)))

    def free(self, request: Request, target: SpaceTarget) -> Rescued:
        """Lock every log dir, recover, and free as much as the target asks, but no more than policy allows.

        Args:
            request: what was asked; deleted files are unlinked within the run.
            target: the space that must be free on each file system.

        Raises: as ``clean``.
        """
        request = replace(request, in_place=True, delete_delay_ms=0)
        with ExitStack() as locks:
            begun = self._locked(locks, request)
            rescued = self._rescue(request, target).run(begun.errors)
            self._note_limits_of(rescued.plan)  # on a disk that is still full, a later run notes them
            return rescued

    def _rescue(self, request: Request, target: SpaceTarget) -> Rescue:
        from cleaner.engine.freeing import Rescue  # noqa: PLC0415 - only ``free`` asks

        return Rescue(self._log_dirs, self._means, target, lambda: self.plan(request))

    def _locked(self, locks: ExitStack, request: Request) -> Begun:
        """Take every lock, read the configuration, and only then recover."""
        self._lock_and_read(locks, request.topics)
        begun, survey = Begun(self._means, request), self._survey(request)
        for log_dir in self._log_dirs:
            self._begin(log_dir, survey, begun)
        return begun

    def _begin(self, log_dir: LogDir, survey: Survey, begun: Begun) -> None:
        """Recover a log dir. If its journal finds no space, unlink what waited long enough and try once more."""
        try:
            begun.errors += self._recovered(log_dir, begun.request, survey)
        except JournalFull:
            planned = self._planned([self._facts(log_dir, survey)], begun.request)
            begun.sweep(planned.log_dirs)
            try:
                begun.errors += self._recovered(log_dir, begun.request, survey)
            except JournalFull as error:
                begun.errors.append(str(error))
                begun.full[log_dir] = str(error)

    def _lock_and_read(self, locks: ExitStack, topics: Sequence[str] = ()) -> None:
        """Take the lock of every log dir, then read the configuration.

        The ``.lock`` of a run ends what the manifest of a copy can tell, so a copy that lost segments is refused first.
        """
        for log_dir in self._log_dirs:
            ensure_whole_copy(log_dir, lambda name: is_named(name, topics))
        for taken in self._locked_with(locks, self._locks.lock, topics):
            self._means = replace(self._means, fs=guarded(self._fs, taken))

    def _lock_to_copy(self, locks: ExitStack, topics: Sequence[str]) -> tuple[LogDir, Moment]:
        """Lock the log dir for reading, look at it, then read the configuration.

        The look comes first, so that a change of the configuration is a change since then.
        """
        from cleaner.engine.copy.moment import Moment  # noqa: PLC0415 - no other run copies

        looks = [
            Moment.of(self._log_dirs[0], topics) for _ in self._locked_with(locks, self._locks.lock_to_read, topics)
        ]
        return self._log_dirs[0], looks[-1]

    def _locked_with(self, locks: ExitStack, take: TakeLock, topics: Sequence[str]) -> Iterator[Mapping[Path, AnyLock]]:
        """Take every lock, yield them, then read the configuration; start over if it names other log dirs by now.

        Raises: LogDirsChange, ProtectionLost.
        """
        yield from lock_and_read(locks, take, self._fs, self._log_dirs, lambda: self._read_configuration(topics))

    def _read_configuration(self, topics: Sequence[str]) -> list[LogDir]:
        if self._read_again is not None:
            again = self._read_again()
            check_second_reading(self._asked, again, lambda found: self._wanted(found) and is_named(found, topics))
            self._take(again)
        return self._log_dirs

    def _survey(self, request: Request) -> Survey:
        expiration_ms = self._means.broker.producer_id_expiration_ms
        return Survey(self._layers, request.now_ms, expiration_ms, request.topics, self._wanted)

    def _facts(self, log_dir: LogDir, survey: Survey) -> LogDirFacts:
        facts = survey_log_dir(log_dir, survey)
        if facts.locked_by and self._locks.holds(log_dir.path):
            facts = replace(facts, locked_by=None)
        try:
            return facts if facts.errors else self._with_guard_facts(log_dir, facts)
        except LogCleanerError as error:  # an unreadable journal: a step that cannot be written down is not done
            return replace(facts, partitions=(), errors=(str(error),))

    def _with_guard_facts(self, log_dir: LogDir, facts: LogDirFacts) -> LogDirFacts:
        """Add the facts that the guard rails of a whole log dir need."""
        clock = survey_clock(log_dir, self._means.clock, self._means.broker.clock_jump_max_ms)
        return replace(facts, clock=clock, config=self._config_facts.get(log_dir.path))

    def _expect(self, planned: Plan) -> None:
        """Tell the listener how many bytes the compactions of a plan are about to deal with."""
        self._means.listener.expect(sum(p.compaction.size_bytes for p in planned.partitions if p.compaction))

    def _planned(self, facts: Sequence[LogDirFacts], request: Request) -> Plan:
        return plan(facts, self._policy_of, request, self._layers.broker_policy(), self._confirmed)

    def _recovered(self, log_dir: LogDir, request: Request, survey: Survey) -> list[str]:
        """Recover a log dir unless a guard rail holds it back. Return what failed. Raises: JournalFull."""
        means = self._means
        journal = Journal(log_dir.path, means.fs, means.clock.boot(), may_wait=request.is_at_once)
        with closing(journal):
            try:
                facts = self._with_guard_facts(log_dir, LogDirFacts(str(log_dir.path), None, 0, 0, ()))
            except LogCleanerError:
                return []  # the plan meets the error again, and reports it
            if not may_recover(facts, request, journal, means):
                return []
            return list(recover_log_dir(log_dir, survey, journal, means))

    def _policy_of(self, facts: PartitionFacts) -> TopicPolicy:
        return self._layers.policy_for(
            facts.topic_partition.topic, compacted_before=facts.cleaner_checkpoint is not None
        )


class ProtectionLost(LogCleanerError):
    """A loss of protection between the first reading of the configuration and the second. Nothing was changed."""

    kind = ErrorKind.REFUSED

    losses: tuple[str, ...]

    def __str__(self) -> str:
        first, *others = self.losses
        more = f" (and {len(others)} more)" if others else ""
        return (
            f"the configuration changed before the log dirs were locked, and would let more go: {first}{more}; "
            "nothing was done: look with --dry-run, and run again"
        )


def check_second_reading(asked: Configured, again: Configured, wanted: Callable[[TopicPartition], bool]) -> None:
    """Refuse to go on if the second reading lets more go than the first.

    Args:
        asked: as it was read before the locks.
        again: as it was read under them.
        wanted: predicate; partitions for which it is false are not changed.

    Raises: ProtectionLost, UnreadableFile.
    """
    if asked == again:
        return
    found = {tp.topic for path in again.log_dirs for tp, _ in LogDir(path).partitions() if wanted(tp)}
    if losses := lost_protection(asked, again, sorted(found)):
        raise ProtectionLost(losses)


def spend(
    planned: Plan,
    executors: Sequence[Executor],
    plan_anew: Callable[[], Plan],
    doable: Callable[[Plan], Plan],
    compactable: Callable[[Plan], Plan],
) -> Plan:
    """Carry a plan out.

    Args:
        planned: the plan.
        executors: one for each of its log dirs, in their order.
        plan_anew: plans the same run for the present files.
        doable: returns the part of a plan that can be carried out.
        compactable: asked behind the deletions: returns the part that the engine can carry out.

    Returns:
        The plan, with what was planned anew in its place.
    """
    _execute(doable(planned), executors, compactable)
    deleted = {key: executor.results[key].deleted_segments for executor in executors for key in executor.changed}
    if not deleted:
        return planned
    again = limited_to(plan_anew(), deleted)
    for executor in executors:
        executor.retry(again)
    _execute(doable(again), executors, compactable)
    return replanned(planned, again, deleted)


class DamagedLimits(LogCleanerError):
    """The file of the limits confirmed last cannot be read."""

    path: str
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.path} is {self.cause}, so nobody knows which limits were confirmed last; look at the "
            "configuration, and confirm it with logcleaner config apply"
        )


def confirmed_in(log_dir: LogDir, configured: Configured) -> Confirmed | None:
    """Return the limits with which the configuration of a run is compared; None if the configuration has no file that
    anybody could edit.
    """
    if configured.name is None:
        return None
    try:
        states = _states_of(configured.name, _read(log_dir))
    except LogCleanerError as error:
        return Confirmed(unreadable=str(error))
    values = FileLayers.of(configured.layers).values
    earlier = tuple(state.within(configured.layers) for state in states if state.values != values)
    had_metadata = any(state.has_metadata for state in states)
    last = states[0].within(configured.layers) if states else None
    return Confirmed(earlier, last, lost_metadata=had_metadata and configured.layers.topic_ids is None)


def note_limits(log_dir: LogDir, configured: Configured, fs: FileSystem, now_ms: int, *, waits: bool) -> bool:
    """Write down which limits hold in a log dir, if the file says otherwise.

    Args:
        log_dir: locked.
        configured: with the limits as they are saved.
        fs: the disk.
        now_ms: epoch ms.
        waits: some of the saved limits wait, or not all topics were examined: then the earlier limits stay, too.

    Returns: whether it was written. A damaged file stays as long as something waits. Raises: OutOfSpace, OSError.
    """
    if configured.name is None:
        return False
    try:
        noted = _read(log_dir)
    except LogCleanerError:
        if waits:
            return False
        noted = ()
    saved = FileLayers.of(configured.layers)
    states = _states_of(configured.name, noted) if waits else ()
    states = states if saved.values in [state.values for state in states] else (*states, saved)
    others, own = [], list[FileLayers]()
    for one in noted:
        if one.name == configured.name:
            own += one.states
        else:
            others.append(one)
    if own and [state.values for state in own] == [state.values for state in states]:
        return False
    entries = [*others, _Noted(configured.name, now_ms, states)][-_CONFIGURATIONS_MAX:]
    said = [{**one._asdict(), "states": [state.as_json() for state in one.states]} for one in entries]
    data = encode_entry({"version": _VERSION, "configurations": said})
    fs.replace_file(log_dir.path / LIMITS_FILE, data, Purpose.CHECKPOINT)
    return True


def _execute(planned: Plan, executors: Sequence[Executor], compactable: Callable[[Plan], Plan]) -> None:
    for executor, log_dir_plan in zip(executors, planned.log_dirs, strict=True):
        executor.delete(log_dir_plan)
    for executor in executors:
        executor.settle()
    for executor, log_dir_plan in zip(executors, compactable(planned).log_dirs, strict=True):
        executor.compact(log_dir_plan)


def _states_of(name: str, noted: tuple[_Noted, ...]) -> tuple[FileLayers, ...]:
    """Return the states of a configuration file; for a file that is new here, the states of the file used last."""
    own = [one for one in noted if one.name == name] or list(noted)
    return own[-1].states if own else ()


class _Noted(NamedTuple):
    """One entry of the file.

    Attributes:
        name: the configuration file.
        time_ms: when the entry was written, epoch ms.
        states: the limits confirmed last; then the limits saved since, while something waited.
    """

    name: str
    time_ms: int
    states: tuple[FileLayers, ...]


def _read(log_dir: LogDir) -> tuple[_Noted, ...]:
    """Return all entries; none if there is no file. Raises: DamagedLimits, UnreadableFile."""
    path = log_dir.path / LIMITS_FILE
    data = read_file(path)
    if data is None:
        return ()
    checksum, _, body = data.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        raise DamagedLimits(str(path), "damaged")
    said = json.loads(body)
    if said.get("version") != _VERSION:
        raise DamagedLimits(str(path), f"of version {said.get('version')}, which this logcleaner does not read")
    try:
        return tuple(
            _Noted(one["name"], one["time_ms"], tuple(map(FileLayers.from_json, one["states"])))
            for one in said["configurations"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedLimits(str(path), f"no list of limits ({error})") from error
