"""``logcleaner.diff/1``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cleaner.documents.parts import Count
from cleaner.engine.diff.record_diff import Cause


class DiffDamage(TypedDict):
    """The first damaged record."""

    offset: int
    """Its offset."""
    cause: str
    """What is wrong with it."""


class DiffPartition(TypedDict):
    """A partition."""

    partition: str
    """`TOPIC-PARTITION`."""
    error: str | None
    """Why it cannot be compared; null if it was."""
    records: Count | None
    """Records before."""
    kept: Count | None
    """Records that stayed."""
    added: Count | None
    """Records that are new."""
    gone: dict[Cause, Count] | None
    """Cause → number of records that are gone for it (docs/diff.md)."""
    damaged: Count | None
    """Records that are gone or changed without a cause."""
    damage: DiffDamage | None
    """The first of them; null if there is none."""
    delete_retention_ms: int | None
    """The `delete.retention.ms` that tombstones and markers were judged by; null if it is not known."""
    since_ms: int | None
    """Since when a tombstone or marker without a delete horizon could have been due, epoch ms; null if it is not
    known.
    """


class DiffDocument(TypedDict):
    """The document that `diff --json` prints. A partition that cannot be compared has null figures and an error."""

    schema: Literal["logcleaner.diff/1"]
    """The name of this schema."""
    damaged: bool
    """True if a record or a file is missing, or differs without a cause: exit status 4."""
    files: list[str]
    """A line for each file of a copy that is not as its manifest says."""
    partitions: list[DiffPartition]
    """The partitions that were compared."""
    gone: dict[Cause, Count]
    """The sums of `gone` over all partitions."""
    left_out: list[str]
    """Partitions that are not in the copy, as its manifest says."""
