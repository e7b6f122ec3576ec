"""The findings of an analysis: tables that every report renders. Each row is about one partition.

Sizes are in bytes, times in epoch ms, UTC. Control records (transaction markers) count only in batches and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnalysisRow:
    """A row about one partition in one log dir; a replica in another log dir has its own rows."""

    log_dir: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Sizes(AnalysisRow):
    """The size of a partition and of its batches (the smallest, the median by rank, the largest)."""

    cleanup_policy: str | None
    segments: int
    size_bytes: int
    """Size of the ``.log`` files."""
    records: int
    batches: int
    batch_min_bytes: int | None
    batch_median_bytes: int | None
    batch_max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Day(AnalysisRow):
    """The records of one day, UTC. The records of a batch share its bytes evenly."""

    day: str | None
    """ISO 8601; None for records without a timestamp."""
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Codec(AnalysisRow):
    """The batches of one compression codec."""

    codec: str
    batches: int
    records: int
    size_bytes: int
    ratio: float | None
    """Uncompressed size divided by size; None if it is unknown, as for compressed messages of v0 and v1."""


@dataclass(frozen=True, slots=True)
class Keys(AnalysisRow):
    """The number of distinct keys, and of the records that repeat them."""

    keys: int
    """Distinct keys; a record without a key does not count."""
    duplicates: int
    """Records whose key a later record has, too."""
    tombstones: int
    """Records with a key and no value."""
    deleted_keys: int
    """Keys whose latest record is a tombstone."""
    without_key: int
    """Records without a key."""


@dataclass(frozen=True, slots=True)
class TopKey(AnalysisRow):
    """One of the keys with the most records (``hottest``) or the most bytes of keys and values (``largest``)."""

    by: str
    rank: int
    """Rank from 1; keys with equal counts are ordered by their bytes, ascending."""
    key: bytes
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Timestamps(AnalysisRow):
    """The timestamps of the records, and how many of them are odd."""

    oldest_ms: int | None
    newest_ms: int | None
    future: int
    """Records dated later than the analysis."""
    out_of_order: int
    """The number of records with a timestamp earlier than that of the record before them."""
    missing: int
    """Records without a timestamp (-1)."""


@dataclass(frozen=True, slots=True)
class Savings(AnalysisRow):
    """The bytes and records that ``clean --force-compaction`` would remove now."""

    deleted_bytes: int
    """Bytes that retention deletes, index files included."""
    compacted_from_bytes: int
    compacted_to_bytes: int
    saved_bytes: int
    """Bytes that retention and compaction save together."""
    records_read: int
    records_kept: int
    basis: str
    """``exact``, or ``estimate`` if a broker changed the files before they were read."""


@dataclass(frozen=True, slots=True)
class CurveStep(AnalysisRow):
    """The bytes that a limit would keep. They hold for all limits above the step before, up to this step's limit."""

    key: str
    """``retention.ms`` or ``retention.bytes``."""
    limit: int | None
    """The limit; None stands for any greater one."""
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class ProducerFigures(AnalysisRow):
    """The figures of an idempotent or transactional producer."""

    producer_id: int
    producer_epoch: int
    """The latest epoch."""
    records: int
    batches: int
    size_bytes: int
    committed: int
    """Commit markers."""
    aborted: int
    """Abort markers."""
    open_since_offset: int | None
    """First offset of a transaction that has no marker yet."""


Table = type[AnalysisRow]

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
"""Name -> table, in the order of the report."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The tables of one moment."""

    now_ms: int
    tables: dict[str, list[AnalysisRow]]
    """Name of ``TABLES`` -> rows, ordered by partition."""
    problems: tuple[str, ...]
    """A line for each file that could not be read; the figures leave it out."""
