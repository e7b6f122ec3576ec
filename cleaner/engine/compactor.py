"""Who carries a compaction out: this process, or a cluster that this process directs."""

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
        """As ``--engine`` has it."""
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
        """As ``compaction.compact``; the round is as it was prepared."""
        ...

    def copy_compacted(self, round_: Round, means: Means, into: IntoCopy) -> Compacted:
        """As ``compaction.copy_compacted``."""
        ...

    def close(self) -> None:
        """Take away what ``prepare`` left; calling it again does nothing."""
        ...


class Local:
    """This process."""

    name = "local"

    def begin(self, log_dirs: Sequence[Path]) -> None:
        """Nothing."""

    def prepare(self, rounds: Iterable[tuple[Round, Path]], means: Means) -> None:
        """Nothing: a round's memory and working space are given back before the next one."""

    def compact(self, round_: Round, means: Means) -> Compacted:
        """In place."""
        from cleaner.engine.compaction import compact  # noqa: PLC0415 - loads kernels, which retention never needs

        return compact(round_, means)

    def copy_compacted(self, round_: Round, means: Means, into: IntoCopy) -> Compacted:
        """Into a copy."""
        from cleaner.engine.compaction import copy_compacted  # noqa: PLC0415 - loads kernels

        return copy_compacted(round_, means, into)

    def close(self) -> None:
        """Nothing."""
