"""The request for a check, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from policies.checking.findings import Finding, Harm
from storage.names import TopicPartition


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The part of some log dirs that is checked, and how thoroughly."""

    wants: Callable[[TopicPartition], bool] = lambda _: True
    """Whether a partition is checked."""
    whole_dirs: bool = True
    """Whether the files of a log dir are checked that speak of other partitions, too."""
    is_deep: bool = False
    """Whether every record is read, compressed ones decompressed."""
    threads: int = 1


@dataclass(slots=True)
class Checked:
    """What a check found, and how much it read."""

    findings: Sequence[Finding] = ()
    """Worst first."""
    problems: list[str] = field(default_factory=list)
    """A line for each file that could not be read."""
    partitions: int = 0
    files: int = 0
    """Files that were read."""
    size_bytes: int = 0
    """Bytes of these files."""
    remembered: int = 0
    """Files that an earlier, interrupted check had read, unchanged since."""

    @property
    def is_damaged(self) -> bool:
        """Return whether a finding is worse than waste."""
        return any(finding.harm < Harm.WASTE for finding in self.findings)
