"""The outcome of a run, or of a dry run: the second of the two values that every report renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from cleaner.engine.space import NO_CHANGE, DiskFigures
from policies.findings.only_copies import KeptFile
from policies.plan import Compaction, Deletion, PartitionKey
from policies.reasons import Reason

if TYPE_CHECKING:
    from cleaner.engine.compaction import Compacted
    from policies.forecast.runway import Runway


class Basis(StrEnum):
    """The source of a result's figures."""

    DONE = "done"
    EXACT = "exact"
    """Nothing was changed, but all deciding bytes were read."""
    ESTIMATE = "estimate"
    """The compaction's output size was not read from the data."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """Figures of one partition. ``deleted_bytes`` are renamed or unlinked, ``freed_bytes`` are unlinked.

    Both are sizes of files; ``space`` has what their blocks take.
    """

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
    space: DiskFigures = NO_CHANGE
    """The change of the disk's space; nothing for a compaction whose data was not read."""
    map_utilisation: float = 0.0
    """The used share of the offset map; 1 if the map could not hold all keys at once."""
    seconds: float = 0.0
    error: str | None = None
    """Why the partition, or its compaction, was left as it was."""
    guard: Reason | None = None
    """The guard rail that held the compaction back after it read the records, so that nothing was compacted."""
    is_corrupt: bool = False
    """Whether the cause is damage in the files: then another attempt fails, too, until they change."""

    def with_deletion(self, deletion: Deletion, *, at_once: bool) -> PartitionResult:
        """Add the figures of a deletion. ``at_once``: its files are unlinked, and not only renamed."""
        return replace(
            self,
            deleted_segments=self.deleted_segments + len(deletion.segments),
            deleted_bytes=self.deleted_bytes + deletion.size_bytes,
            freed_bytes=self.freed_bytes + (deletion.size_bytes if at_once else 0),
            space=self.space.plus(DiskFigures.left(deletion.frees_bytes, at_once=at_once)),
        )

    def with_compaction(self, compaction: Compaction, done: Compacted) -> PartitionResult:
        """Add the figures of a compaction.

        Args:
            compaction: as planned.
            done: the result of the compaction.
        """
        return replace(
            self,
            compacted_from_bytes=compaction.size_bytes,
            compacted_to_bytes=done.size_bytes,
            freed_bytes=self.freed_bytes + done.freed_bytes,
            space=self.space.plus(done.space),
            records_read=done.records_read,
            records_kept=done.records_kept,
            records_unkeyed=done.unkeyed,
            map_utilisation=done.map_utilisation,
        )

    def following(self, before: PartitionResult) -> PartitionResult:
        """Return the sum of this run and an earlier run over the same partition. The earlier run compacted nothing."""
        return replace(
            self,
            deleted_segments=before.deleted_segments + self.deleted_segments,
            deleted_bytes=before.deleted_bytes + self.deleted_bytes,
            freed_bytes=before.freed_bytes + self.freed_bytes,
            space=before.space.plus(self.space),
            seconds=before.seconds + self.seconds,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a plan."""

    dry_run: bool
    results: Mapping[PartitionKey, PartitionResult]
    swept_bytes: int = 0
    """The size of the unlinked files that earlier runs, or a broker, had renamed to ``.deleted``."""
    swept_disk_bytes: int = field(default=0, kw_only=True)
    """The bytes in blocks that the disk gets back."""
    seconds: float = 0.0
    interrupted: bool = False
    errors: tuple[str, ...] = field(default=())
    """The errors that belong to no partition, such as a checkpoint that could not be written."""
    postponed: frozenset[PartitionKey] = frozenset()
    """Partitions with work that were not begun, because the run had to release the lock."""
    engine: str = "local"
    """The name of the engine that carried the compactions out."""
    no_kernels: str | None = None
    """Why kernels do not run, so that all compactions were left out: one of ``errors``, which the run told at once."""
    full_log_dirs: Mapping[str, str] = field(default_factory=dict)
    """Log dir whose journal found no space, so that nothing more was changed there -> the line about it in
    ``errors``.
    """
    kept: tuple[KeptFile, ...] = field(default=(), kw_only=True)
    """The files that stay although their kind may go: only copies of records, and files that tell of missing records.
    """
    left_out: tuple[str, ...] = field(default=(), kw_only=True)
    """What a copy does not have of the log dir: directories that were not asked for or are no live partition, symlinks.
    """
    runways: tuple[Runway, ...] = ()
    """How long the file systems of the log dirs last; empty unless it is a dry run."""

    @property
    def guards(self) -> Mapping[PartitionKey, Reason]:
        """The guard rails that held compactions back while they ran."""
        return {key: result.guard for key, result in self.results.items() if result.guard}

    def followed_by(self, second: Outcome) -> Outcome:
        """Return the outcome of two runs. The second run did what guard rails had held back in the first."""
        later = {key: r.following(self.results[key]) if key in self.results else r for key, r in second.results.items()}
        return replace(
            second,
            results={**self.results, **later},
            swept_bytes=self.swept_bytes + second.swept_bytes,
            swept_disk_bytes=self.swept_disk_bytes + second.swept_disk_bytes,
            seconds=self.seconds + second.seconds,
            errors=tuple(dict.fromkeys((*self.errors, *second.errors))),
            full_log_dirs={**self.full_log_dirs, **second.full_log_dirs},
        )
