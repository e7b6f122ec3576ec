"""``logcleaner.sweep/1``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cleaner.documents.parts import Count
from policies.findings.sweeping import LeftoverKind, SweepAct


class SweepLeftover(TypedDict):
    """A leftover."""

    log_dir: str
    """The path of its log dir."""
    name: str
    """Its path from the log dir."""
    kind: LeftoverKind
    """What it is."""
    bytes: Count
    """The size of its files."""
    files: Count
    """The number of its files."""
    due_ms: int | None
    """When its delay is over; null if it has none."""
    act: SweepAct
    """What is done with it."""
    text: str
    """Why."""
    renamed_to: str | None
    """Of a stray directory: its new name; else null."""
    done: bool
    """Whether it was done."""
    error: str | None
    """Why it failed; null if it did not."""


class SweepDocument(TypedDict):
    """The document that `doctor --sweep NAME ... --json` prints: what became of each leftover that was named."""

    schema: Literal["logcleaner.sweep/1"]
    """The name of this schema."""
    dry_run: bool
    """Whether nothing was changed."""
    leftovers: list[SweepLeftover]
    """The leftovers, in the order in which they were named."""
