"""``logcleaner.verify/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, FindingDocument, Measure
from policies.findings.repairs import RepairCode, RepairKind


class RepairDocument(TypedDict):
    """A file."""

    path: str
    """Path of the file."""
    kind: RepairKind
    """What it is (docs/repair.md)."""
    findings: list[str]
    """The codes of its findings."""
    code: RepairCode
    """Whether it may be mended, or why not (docs/repair.md)."""
    text: str
    """A sentence for people."""
    bytes_before: int | None
    """Its size; null if it was missing."""
    bytes_after: int | None
    """Its size as mended; null if it cannot be."""
    repaired: bool
    """True if it was mended."""
    error: str | None
    """Why it was not, although it may be; null if nothing failed."""


class VerifyTotals(TypedDict):
    """The sums of a check."""

    partitions: Count
    """Partitions."""
    segments: Count
    """Segments."""
    bytes: Count
    """Size of their `.log` files."""
    noted_bytes: Count
    """Bytes of them that an earlier, interrupted check had read."""
    seconds: Measure
    """How long it took."""


class VerifyDocument(TypedDict):
    """The document that `verify --json` prints."""

    schema: Literal["logcleaner.verify/1"]
    """The name of this schema."""
    damaged: bool
    """True if a finding is worse than `waste`: exit status 4."""
    findings: list[FindingDocument]
    """What is wrong, worst first."""
    dry_run: NotRequired[bool]
    """Of `--repair`: true if nothing was changed."""
    remaining: NotRequired[Count]
    """Of `--repair`: the number of findings that no repair ends."""
    repairs: NotRequired[list[RepairDocument]]
    """Of `--repair`: the files that findings would have mended, by path."""
    problems: list[str]
    """A line for each file that could not be read: exit status 1 if nothing is damaged."""
    totals: VerifyTotals
    """What was read."""
