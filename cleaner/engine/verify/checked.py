"""The request for a check, and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from policies.findings.findings import Finding, Harm, HeaderWalk
from storage.errors import Corrupt
from storage.names import TopicPartition


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The part of some log dirs that is checked, and how thoroughly."""

    wants: Callable[[TopicPartition], bool] = lambda _: True
    """Whether a partition is checked."""
    is_whole: bool = True
    """Whether the log dirs are checked as a whole, and not only some partitions of them."""
    is_deep: bool = False
    """Whether every record is read, compressed ones decompressed."""
    threads: int = 1
    topic_ids: Mapping[str, str] | None = None
    """The topic ids in the cluster metadata; None without cluster metadata."""
    is_locked_by_us: bool = False
    """Whether the caller holds the locks of the log dirs: then no broker runs, though the locks are taken."""


@dataclass(slots=True)
class Checked:
    """The findings of a check, and how much it read."""

    findings: Sequence[Finding] = ()
    """Worst first."""
    problems: list[str] = field(default_factory=list)
    """A line for each file that could not be read."""
    corrupt: list[Corrupt] = field(default_factory=list)
    """Of the problems, those of files whose bytes cannot be decoded, such as chunks of a tier."""
    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    """Bytes of the ``.log`` files."""
    walks: dict[str, HeaderWalk] = field(default_factory=dict)
    """What the headers of the batches of each partition sum up to, by the path of its directory."""
    noted_bytes: int = 0
    """Bytes of them that an earlier check, which was interrupted, had read, and that are unchanged since."""

    @property
    def is_damaged(self) -> bool:
        """Return whether a finding is worse than waste."""
        return any(finding.harm < Harm.WASTE for finding in self.findings)
