"""The engine that carries compactions out: this process, or a cluster that it directs.

Also the check that kernels run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cleaner.engine.means import Listener, Means
from policies.plan import PartitionPlan, Plan
from policies.planning import without_compactions
from storage.errors import LogCleanerError
from storage.kernels import why_unusable

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted, IntoCopy, Round


class Compactor(Protocol):
    """Compacts the rounds of a run."""

    @property
    def name(self) -> str:
        """Return the name that ``--engine`` takes."""
        ...

    def begin(self, log_dirs: Sequence[Path]) -> None:
        """Check that compactions can be carried out, behind the deletions. Raises: LogCleanerError."""
        ...

    def waves(self, steps: Sequence[PartitionPlan]) -> Iterator[Sequence[PartitionPlan]]:
        """Divide compactions: a wave is prepared together, and carried out before the next one is asked for."""
        ...

    def prepare(self, rounds: Iterable[tuple[Round, Path]], means: Means) -> None:
        """Do the work that many rounds share. Write nothing that a broker would see.

        Args:
            rounds: each with the directory that its output goes to; taken only where something is to be shared.
            means: of the execution.

        Raises: LogCleanerError if no round can be carried out.
        """
        ...

    def compact(self, round_: Round, means: Means) -> Compacted:
        """Do what ``compaction.compact`` does, for a round that was prepared."""
        ...

    def copy_compacted(self, round_: Round, means: Means, into: IntoCopy) -> Compacted:
        """Do what ``compaction.copy_compacted`` does."""
        ...

    def close(self) -> None:
        """Remove the leftovers of ``prepare``. A second call does nothing."""
        ...


class Local:
    """The engine in this process."""

    name = "local"

    def begin(self, log_dirs: Sequence[Path]) -> None:
        """Do nothing."""

    def waves(self, steps: Sequence[PartitionPlan]) -> Iterator[Sequence[PartitionPlan]]:
        """Yield all at once: they share no work."""
        yield steps

    def prepare(self, rounds: Iterable[tuple[Round, Path]], means: Means) -> None:
        """Do nothing: a round gives its memory and working space back before the next one."""

    def compact(self, round_: Round, means: Means) -> Compacted:
        """Compact in place."""
        from cleaner.engine.compaction import compact  # noqa: PLC0415 - loads kernels, which retention never needs

        return compact(round_, means)

    def copy_compacted(self, round_: Round, means: Means, into: IntoCopy) -> Compacted:
        """Compact into a copy."""
        from cleaner.engine.compaction import copy_compacted  # noqa: PLC0415 - loads kernels

        return copy_compacted(round_, means, into)

    def close(self) -> None:
        """Do nothing."""


def has_compactions(planned: Plan) -> bool:
    """Return whether a plan compacts a partition."""
    return any(partition.compaction for partition in planned.partitions)


class Beginning:
    """The begin of the engine: once a run, behind the deletions, which need no engine."""

    def __init__(self, compactor: Compactor, log_dirs: Sequence[Path]) -> None:
        """Prepare the begin. ``compactor`` is asked whether it can compact in the log dirs."""
        self._compactor, self._log_dirs = compactor, log_dirs
        self._is_asked = False
        self.errors: tuple[str, ...] = ()
        """Why the engine does not begin."""

    def doable(self, planned: Plan) -> Plan:
        """Return the part of a plan that can be carried out: without compactions if the engine does not begin."""
        if not self._is_asked and has_compactions(planned):
            self._is_asked = True
            try:
                self._compactor.begin(self._log_dirs)
            except LogCleanerError as error:
                self.errors = (str(error),)
        return without_compactions(planned) if self.errors else planned


class KernelCheck:
    """The check whether kernels run here: once a run, before it carries out a plan that compacts."""

    def __init__(self, listener: Listener) -> None:
        """Prepare the check. ``listener`` is told if kernels do not run."""
        self._listener = listener
        self._is_asked = False
        self.error: str | None = None
        """Why kernels do not run; None if they do, or if no plan has needed them."""

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the error for an ``Outcome``, if there is one."""
        return (self.error,) if self.error else ()

    def doable(self, planned: Plan) -> Plan:
        """Return the part of a plan that can be carried out: without compactions if kernels do not run.

        Raises: InvalidConfig if the environment asks for a CPU level that this CPU does not have.
        """
        if not self._is_asked and has_compactions(planned):
            self.error, self._is_asked = why_unusable(), True
            if self.error:
                self._listener.event("kernels_unusable", error=self.error)
        return without_compactions(planned) if self.error else planned
