"""``logcleaner.analysis/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, PageGrowth, PageHead, PartitionPlace, Positive


class AnalysisSize(PartitionPlace):
    """A row."""

    cleanup_policy: str | None
    """The cleanup policy; null if it is unknown."""
    segments: Count
    """Segments."""
    size_bytes: Count
    """The size of the `.log` files."""
    records: Count
    """Records."""
    batches: Count
    """Batches."""
    batch_min_bytes: Count | None
    """The smallest batch; null if there is none."""
    batch_median_bytes: Count | None
    """The median by rank; null if there is none."""
    batch_max_bytes: Count | None
    """The largest batch; null if there is none."""


class AnalysisDay(PartitionPlace):
    """A row."""

    day: str | None
    """ISO 8601; null for records without a timestamp."""
    records: Count
    """Records."""
    size_bytes: Count
    """The bytes of these records; the records of a batch share the bytes of the batch evenly."""


class AnalysisCodec(PartitionPlace):
    """A row."""

    codec: str
    """The codec's name."""
    batches: Count
    """Batches."""
    records: Count
    """Records."""
    size_bytes: Count
    """The size of the batches."""
    ratio: float | None
    """Uncompressed size divided by size; null if it is unknown."""


class AnalysisKey(PartitionPlace):
    """A row."""

    keys: Count
    """Distinct keys."""
    duplicates: Count
    """Records that a later record with the same key supersedes."""
    tombstones: Count
    """Records with a key and no value."""
    deleted_keys: Count
    """Keys whose latest record is a tombstone."""
    without_key: Count
    """Records without a key."""


class AnalysisTopKey(PartitionPlace):
    """A row."""

    by: Literal["hottest", "largest"]
    """The measure by which the keys are ranked."""
    rank: Positive
    """The rank, from 1."""
    key: str
    r"""The key as text; bytes that are no UTF-8 as `\xNN`."""
    records: Count
    """Records."""
    size_bytes: Count
    """The bytes of keys and values of these records."""


class AnalysisTimestamp(PartitionPlace):
    """A row."""

    oldest_ms: int | None
    """The oldest timestamp, epoch ms; null if no record has one."""
    newest_ms: int | None
    """The newest timestamp, epoch ms; null if no record has one."""
    future: Count
    """Records dated later than the analysis."""
    out_of_order: Count
    """Records whose timestamp is earlier than the timestamp of the record before."""
    missing: Count
    """Records without a timestamp."""


class AnalysisSaving(PartitionPlace):
    """A row."""

    deleted_bytes: Count
    """The bytes that retention deletes, index files included."""
    compacted_from_bytes: Count
    """The bytes that the compaction reads."""
    compacted_to_bytes: Count
    """The bytes that the compaction leaves."""
    saved_bytes: int
    """The bytes that retention and compaction save together."""
    records_read: Count
    """Records that the compaction reads."""
    records_kept: Count
    """Records that stay."""
    basis: Literal["exact", "estimate"]
    """`estimate` if a broker changed the files before they were read."""


class AnalysisRetention(PartitionPlace):
    """A row."""

    key: Literal["retention.ms", "retention.bytes"]
    """The limit."""
    limit: int | None
    """The greatest value of this step, in Kafka's unit; null for all greater values."""
    kept_bytes: Count
    """The size of the `.log` files that stay."""


class AnalysisProducer(PartitionPlace):
    """A row."""

    producer_id: int
    """The producer's id."""
    producer_epoch: int
    """The latest epoch of the producer."""
    records: Count
    """Records."""
    batches: Count
    """Batches."""
    size_bytes: Count
    """The size of the batches."""
    committed: Count
    """Commit markers."""
    aborted: Count
    """Abort markers."""
    open_since_offset: int | None
    """The first offset of a transaction that has no marker yet; null if there is none."""


class AnalysisPageTotals(TypedDict):
    """The sums over all partitions."""

    topics: Count
    """Topics."""
    partitions: Count
    """Partitions."""
    segments: Count
    """Segments."""
    bytes: Count
    """The size of the `.log` files."""
    records: Count
    """Records."""
    saved_bytes: int
    """The bytes that `clean --force-compaction` would save now."""
    deleted_bytes: Count
    """The part of these bytes that retention deletes."""


class AnalysisPageTopic(TypedDict):
    """A topic."""

    topic: str
    """The topic's name."""
    partitions: Count
    """Partitions."""
    bytes: Count
    """The size of the `.log` files."""
    records: Count
    """Records."""
    deleted_bytes: Count
    """The bytes that retention deletes."""
    compacted_away_bytes: Count
    """The bytes that compaction removes."""
    left_bytes: Count
    """The bytes that stay."""


class AnalysisPageCodec(TypedDict):
    """A codec."""

    codec: str
    """The name of the codec."""
    bytes: Count
    """The size of the batches."""
    records: Count
    """Records."""
    batches: Count
    """Batches."""


class AnalysisPage(PageHead):
    """The sums that the page of `--html` shows besides. Only with `--html`."""

    sentence: str
    """A sentence about the bytes on disk, and the bytes that a clean could save."""
    totals: AnalysisPageTotals
    """The sums over all partitions."""
    topics: list[AnalysisPageTopic]
    """The topics, the largest first."""
    growth: PageGrowth
    """The bytes of each day, by the timestamps of the records."""
    codecs: list[AnalysisPageCodec]
    """The codecs, the most bytes first."""


class AnalysisDocument(TypedDict):
    """The document that `analyze --json` prints: tables, each row about one partition. Control records count only in
    batches and bytes.
    """

    schema: Literal["logcleaner.analysis/1"]
    """The name of this schema."""
    now: int
    """The moment of the analysis, epoch ms."""
    sizes: list[AnalysisSize]
    """The sizes of partitions and of their batches."""
    days: list[AnalysisDay]
    """The records of each day, UTC."""
    codecs: list[AnalysisCodec]
    """The batches of each compression codec."""
    keys: list[AnalysisKey]
    """Distinct keys, and the records that repeat them."""
    top_keys: list[AnalysisTopKey]
    """The keys with the most records, and those with the most bytes."""
    timestamps: list[AnalysisTimestamp]
    """The timestamps of the records."""
    savings: list[AnalysisSaving]
    """The bytes that `clean --force-compaction` would remove now."""
    retention: list[AnalysisRetention]
    """The bytes that each limit would keep: a step for each value at which the bytes change."""
    producers: list[AnalysisProducer]
    """The idempotent and transactional producers."""
    problems: list[str]
    """A line for each file that could not be read; the figures leave the file out."""
    report: NotRequired[AnalysisPage]
    """What the page of `--html` shows besides: sums. Only with `--html`."""
