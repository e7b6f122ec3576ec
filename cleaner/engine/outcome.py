"""The outcome of a run, or of a dry run: the second of the two values that every report renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from policies.plan import Compaction, Deletion, PartitionKey

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted


class Basis(StrEnum):
    """The source of a result's figures."""

    DONE = "done"
    EXACT = "exact"
    """Nothing was changed, but every byte that decides was read."""
    ESTIMATE = "estimate"
    """The compaction's output size was not read from the data."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """Figures of one partition. ``deleted_bytes`` are renamed or unlinked, ``freed_bytes`` are unlinked."""

    basis: Basis
    deleted_segments: int = 0
    deleted_bytes: int = 0
    freed_bytes: int = 0
    compacted_from_bytes: int = 0
    compacted_to_bytes: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_unkeyed: int = 0
    """Records without a key, which the compaction drops."""
    map_utilisation: float = 0.0
    """Share of the offset map that the compaction used; 1 where it did not suffice at once."""
    seconds: float = 0.0
    error: str | None = None
    """Why the partition, or its compaction, was left as it was."""
    is_corrupt: bool = False
    """The cause is damage in the files: another attempt fails, too, until they change."""

    def with_deletion(self, deletion: Deletion, *, at_once: bool) -> PartitionResult:
        """Add the figures of a deletion. ``at_once``: its files are unlinked, and not only renamed."""
        return replace(
            self,
            deleted_segments=self.deleted_segments + len(deletion.segments),
            deleted_bytes=self.deleted_bytes + deletion.size_bytes,
            freed_bytes=self.freed_bytes + (deletion.size_bytes if at_once else 0),
        )

    def with_compaction(self, compaction: Compaction, done: Compacted) -> PartitionResult:
        """Add the figures of a compaction.

        Args:
            compaction: as planned.
            done: what came of it.
        """
        return replace(
            self,
            compacted_from_bytes=compaction.size_bytes,
            compacted_to_bytes=done.size_bytes,
            freed_bytes=self.freed_bytes + done.freed_bytes,
            records_read=done.records_read,
            records_kept=done.records_kept,
            records_unkeyed=done.unkeyed,
            map_utilisation=done.map_utilisation,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a plan."""

    dry_run: bool
    results: Mapping[PartitionKey, PartitionResult]
    swept_bytes: int = 0
    """Freed of files that earlier runs, or a broker, had renamed to ``.deleted``."""
    seconds: float = 0.0
    interrupted: bool = False
    errors: tuple[str, ...] = field(default=())
    """What went wrong beside the partitions (a checkpoint that could not be written)."""
    postponed: frozenset[PartitionKey] = frozenset()
    """Partitions with work that were not begun, because the run was to let go of the lock."""
    engine: str = "local"
    """Who carried the compactions out."""
    no_kernels: str | None = None
    """Why kernels do not run, so that all compactions were left out: one of ``errors``, which the run told at once."""
    full_log_dirs: Mapping[str, str] = field(default_factory=dict)
    """Log dirs whose journal found no space, so that nothing more was changed there -> the line that ``errors`` has."""


class Listener(Protocol):
    """Hears what the engine does while it does it: log events and progress."""

    def event(self, name: str, **fields: object) -> None:
        """Hear of an event; names and fields are listed in ``cleaner.events``."""

    def progress(self, done_bytes: int) -> None:
        """Hear how many more bytes of the compaction's input were dealt with."""


class Silent:
    """A listener that ignores everything."""

    def event(self, name: str, **fields: object) -> None:
        """Ignore the event."""

    def progress(self, done_bytes: int) -> None:
        """Ignore the progress."""
