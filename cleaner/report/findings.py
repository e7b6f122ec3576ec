"""What an analysis found: a value of tables, which every report of it renders. Each row tells of one partition.

Sizes are in bytes, times in epoch ms, UTC. Control records (transaction markers) count in batches and bytes alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Of one partition in one log dir: replicas in several are told apart."""

    log_dir: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Sizes(Finding):
    """A partition's size, and that of its batches (the smallest, the median by rank, the largest)."""

    cleanup_policy: str | None
    segments: int
    size_bytes: int
    """Of the ``.log`` files."""
    records: int
    batches: int
    batch_min_bytes: int | None
    batch_median_bytes: int | None
    batch_max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Day(Finding):
    """What one day, UTC, brought; a batch's bytes are shared evenly by its records."""

    day: str | None
    """ISO 8601; None for records without a timestamp."""
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Codec(Finding):
    """Batches of one compression codec."""

    codec: str
    batches: int
    records: int
    size_bytes: int
    ratio: float | None
    """Uncompressed size by size; None where it is not known: compressed messages of v0 and v1."""


@dataclass(frozen=True, slots=True)
class Keys(Finding):
    """How many keys there are, and how much only repeats them."""

    keys: int
    """Distinct ones; no key is none."""
    duplicates: int
    """Records with a key that a later record has, too."""
    tombstones: int
    """Records with a key and without a value."""
    deleted_keys: int
    """Keys whose latest record is a tombstone."""
    without_key: int
    """Records."""


@dataclass(frozen=True, slots=True)
class TopKey(Finding):
    """One of the keys with the most records (``hottest``) or the most bytes of keys and values (``largest``)."""

    by: str
    rank: int
    """From 1; those that are equal by their bytes, ascending."""
    key: bytes
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Timestamps(Finding):
    """Of the records, and what is odd about them."""

    oldest_ms: int | None
    newest_ms: int | None
    future: int
    """Records dated later than the analysis."""
    out_of_order: int
    """Records dated earlier than the one before them."""
    missing: int
    """Records without a timestamp (-1)."""


@dataclass(frozen=True, slots=True)
class Savings(Finding):
    """What ``clean --force-compaction`` would give now."""

    deleted_bytes: int
    """By retention, index files included."""
    compacted_from_bytes: int
    compacted_to_bytes: int
    saved_bytes: int
    """By both."""
    records_read: int
    records_kept: int
    basis: str
    """``exact``, or ``estimate`` where a broker changed the files before they were read."""


@dataclass(frozen=True, slots=True)
class CurveStep(Finding):
    """Bytes kept by each limit up to this one, and above that of the step before."""

    key: str
    """``retention.ms`` or ``retention.bytes``."""
    limit: int | None
    """None: any greater one."""
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class ProducerFigures(Finding):
    """An idempotent or transactional producer."""

    producer_id: int
    producer_epoch: int
    """The latest."""
    records: int
    batches: int
    size_bytes: int
    committed: int
    """Markers."""
    aborted: int
    """Markers."""
    open_since_offset: int | None
    """First offset of a transaction without a marker."""


Table = type[Finding]

TABLES: dict[str, Table] = {
    "sizes": Sizes,
    "days": Day,
    "codecs": Codec,
    "keys": Keys,
    "top_keys": TopKey,
    "timestamps": Timestamps,
    "savings": Savings,
    "retention": CurveStep,
    "producers": ProducerFigures,
}
"""By name, in the order in which they are told."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The tables, as of one moment."""

    now_ms: int
    tables: dict[str, list[Finding]]
    """By the names of ``TABLES``; rows by partition."""
    problems: tuple[str, ...]
    """What could not be read, a line each; the figures are without it."""
