"""The engine that carries a compaction out: this process, or a cluster that this process directs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cleaner.engine.means import Means

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted, IntoCopy, Round


class Compactor(Protocol):
    """Compacts the rounds of a run."""

    @property
    def name(self) -> str:
        """Return the name that ``--engine`` takes."""
        ...

    def begin(self, log_dirs: Sequence[Path]) -> None:
        """See that the run can be carried out, before anything is changed. Raises: LogCleanerError."""
        ...

    def prepare(self, rounds: Iterable[tuple[Round, Path]], means: Means) -> None:
        """Do what many rounds can share, before the first of them; nothing that a broker would see is written.

        Args:
            rounds: each with the directory that its output goes to; taken only where something is to be shared.
            means: of the execution.

        Raises: LogCleanerError where none of them can be carried out.
        """
        ...

    def compact(self, round_: Round, means: Means) -> Compacted:
        """Do what ``compaction.compact`` does. The round is as it was prepared."""
        ...

    def copy_compacted(self, round_: Round, means: Means, into: IntoCopy) -> Compacted:
        """Do what ``compaction.copy_compacted`` does."""
        ...

    def close(self) -> None:
        """Take away what ``prepare`` left; calling it again does nothing."""
        ...


class Local:
    """This process."""

    name = "local"

    def begin(self, log_dirs: Sequence[Path]) -> None:
        """Do nothing."""

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
