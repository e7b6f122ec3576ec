"""The values that the daemon hands to its observers (metrics, health checks) after each job.

All calls come from the daemon's own threads and must not block. An exception of an observer fails the daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cleaner.engine.outcome import Outcome
from policies.plan import Plan


class JobKind(StrEnum):
    """The jobs that the daemon repeats. Jobs that are due together are done in this order."""

    RELOAD = "reload"
    """Read the configuration again."""
    SURVEY = "survey"
    """Plan everything, change nothing: for the metrics, and to find what there is to compact."""
    RETENTION = "retention"
    REMOVAL = "removal"
    """Unlink ``.deleted`` files whose delay is over."""
    CHECKPOINT = "checkpoint"
    """Correct the cleaner's checkpoint where it lies outside a log."""
    COMPACTION = "compaction"
    """Compact one partition."""


@dataclass(frozen=True, slots=True)
class DaemonState:
    """The daemon at one moment: what ``/healthz`` and ``/readyz`` ask for. Times in epoch ms."""

    ready: bool
    """Whether the daemon has a valid configuration and made its first plan."""
    reason: str
    """What the daemon does or waits for now; if it is not ready, the reason."""
    hung_since_ms: int | None = None
    """Since when the worker has given no sign of life, epoch ms; None while it gives signs."""
    observing: bool = False
    """Whether the daemon changes nothing: ``--observe``, or a broker holds a log dir."""
    failing: tuple[str, ...] = ()
    """One sentence for each log dir that cannot be served. The daemon does nothing in such a log dir."""

    @property
    def serves(self) -> bool:
        """Return whether the daemon serves every log dir of its configuration."""
        return self.ready and not self.failing


@dataclass(frozen=True, slots=True)
class JobDone:
    """A job that ended. Times in epoch ms."""

    kind: JobKind
    started_ms: int
    ended_ms: int
    succeeded: bool
    """Whether nothing failed in the job."""
    is_whole: bool
    """Whether the daemon can work in every log dir: none fails, and no other process holds one."""


class Observer:
    """Hears what the daemon does. A method that a subclass does not override ignores its event."""

    def planned(self, plan: Plan, now_ms: int) -> None:
        """Take a plan of all log dirs and partitions, whether or not the daemon acts on it."""

    def ran(self, plan: Plan, outcome: Outcome, started_ms: int, ended_ms: int) -> None:
        """Take a plan that was spent: of retention over all partitions, or of the compaction of one."""

    def round_ended(self) -> None:
        """Count all plans that were spent since the last call as one run."""

    def log_dirs(self, failing: Mapping[str, bool]) -> None:
        """Take the log dirs of the configuration, and whether something is wrong with each as a whole."""

    def configured(self, now_ms: int, *, succeeded: bool) -> None:
        """Note that the configuration was read, at the start or again.

        If a file was refused, the earlier one stays in force.
        """

    def did(self, job: JobDone) -> None:
        """Note that a job ended, whether or not there was anything to do."""

    def failed(self, where: JobKind, error: str) -> None:
        """Count an error that no outcome tells of. ``where``: the kind of the job that met it."""

    def held_locks(self, seconds: float) -> None:
        """Take the time for which a turn held the locks. A broker that started in that time was refused."""

    def worker_died(self, where: JobKind | None = None) -> None:
        """Note that the worker thread, or the compacting child, ended unasked; it is started again.

        ``where``: the kind of the job that the child did, and that failed with the child; None if the worker thread
        died.
        """

    def state(self, state: DaemonState) -> None:
        """Take the new state of the daemon."""


class Observers(Observer):
    """An observer that passes everything on to several observers."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def planned(self, plan: Plan, now_ms: int) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.planned(plan, now_ms)

    def ran(self, plan: Plan, outcome: Outcome, started_ms: int, ended_ms: int) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.ran(plan, outcome, started_ms, ended_ms)

    def round_ended(self) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.round_ended()

    def log_dirs(self, failing: Mapping[str, bool]) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.log_dirs(failing)

    def configured(self, now_ms: int, *, succeeded: bool) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.configured(now_ms, succeeded=succeeded)

    def did(self, job: JobDone) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.did(job)

    def failed(self, where: JobKind, error: str) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.failed(where, error)

    def held_locks(self, seconds: float) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.held_locks(seconds)

    def worker_died(self, where: JobKind | None = None) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.worker_died(where)

    def state(self, state: DaemonState) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.state(state)
