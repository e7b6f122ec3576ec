"""``logcleaner.restore/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, PartitionPlace
from policies.findings.reverting import RevertCode
from policies.restore import RestoreCode


class RestoreSegment(TypedDict):
    """A segment."""

    base_offset: int
    """Its base offset."""
    end_offset: int
    """The end of its offsets, exclusive."""
    bytes: Count
    """The size of its files."""
    deleted_ms: int
    """The time of its deletion, epoch ms."""
    restored: bool
    """True if it was brought back."""
    code: RestoreCode
    """Why it can come back, or cannot (docs/reasons.md)."""
    text: str
    """A sentence for people."""


class RestoreLogStart(TypedDict):
    """A move."""

    log_start_offset: int
    """The log start offset that it set."""
    log_start_before: int
    """The log start offset that it goes back to."""
    deleted_ms: int
    """The time of the deletion, epoch ms."""
    restored: bool
    """True if it was taken back."""
    code: RestoreCode
    """Why it can come back, or cannot (docs/reasons.md)."""
    text: str
    """A sentence for people."""


class RestorePartition(PartitionPlace):
    """A partition."""

    held_since_ms: int | None
    """The time at which a restore put the partition on hold, epoch ms; null if it is not on hold."""
    error: str | None
    """Why it was not restored; null if nothing failed."""
    segments: list[RestoreSegment]
    """The deleted segments, newest first."""
    log_starts: NotRequired[list[RestoreLogStart]]
    """The moves of the log start by `delete-records` that no segment takes back, newest first."""


class RestoreRepair(PartitionPlace):
    """A repair of one file."""

    file: str
    """The name of the file."""
    kind: str
    """The kind of the repair (docs/repair.md)."""
    repaired_ms: int
    """The time of the repair, epoch ms."""
    taken_back: bool
    """True if the file is as it was before its repair."""
    code: RevertCode
    """Whether the repair can be taken back (docs/repair.md)."""
    text: str
    """A sentence for people."""
    error: str | None
    """Why it was not taken back; null if nothing failed."""


class RestoreDocument(TypedDict):
    """The document that `restore --json` prints."""

    schema: Literal["logcleaner.restore/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was changed."""
    partitions: list[RestorePartition]
    """The partitions with deletions whose files still wait, or that are on hold."""
    repairs: NotRequired[list[RestoreRepair]]
    """Of `--repairs`: the repairs that something waits of."""
    released: list[str]
    """Of `--release`: the partitions that are no longer on hold."""
