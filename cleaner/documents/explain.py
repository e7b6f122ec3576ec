"""``logcleaner.explain/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import (
    Count,
    KindSize,
    LayerTitle,
    PageHead,
    PageReason,
    PartitionPlace,
    Positive,
    Ratio,
    ReasonLimit,
    RemovalForecast,
    SegmentReason,
)
from policies.explain.blockers import BlockerCode
from policies.explain.changes import ChangeCode
from policies.plan import Only
from policies.reasons import Action, ReasonCode


class ExplainConfig(TypedDict):
    """A value with its place."""

    value: int | float | str | bool
    """The value in Kafka's unit, such as ms or bytes; a list as one text with commas."""
    layer: LayerTitle
    """The layer of configuration that states the value."""
    file: str | None
    """The file that states the value, or the directory of the cluster metadata; null if no file does, as for
    `--set` and defaults.
    """
    line: Positive | None
    """The line of the file, from 1; null if it has no lines."""


class ExplainOpenTransaction(TypedDict):
    """An open transaction."""

    producer_id: int
    """The producer of the transaction."""
    producer_epoch: int
    """The epoch of the producer."""
    first_offset: int
    """The offset of the first record."""
    since_ms: int | None
    """The timestamp of the first batch, epoch ms; null if not known."""
    transactional_id: str | None
    """The transactional id of the producer; null if it is not known, or if the transaction blocks nothing."""


class DeleteHorizonSums(TypedDict):
    """The tombstones and markers that were compacted before, and have a delete horizon."""

    batches: Count
    """Batches that carry a delete horizon: they hold tombstones, or are markers."""
    bytes: Count
    """The size of these batches."""
    earliest_ms: int | None
    """The first horizon, epoch ms; null if there is none."""
    latest_ms: int | None
    """The last horizon, epoch ms; null if there is none."""
    unread_bytes: Count
    """The size of the segments that were not read, because the log is large; `--exact` reads all."""


class ExplainDeletedFile(TypedDict):
    """The `.deleted` files that still lie in the partition directory."""

    files: Positive
    """The number of files."""
    bytes: Count
    """The size of the files."""
    disk_bytes: Count
    """The space that the blocks of the files take."""
    unknown_files: Count
    """The number of `.deleted` files that logcleaner's journal does not name."""
    first_due_ms: int
    """When `file.delete.delay.ms` is over for the first file, epoch ms."""
    last_due_ms: int
    """When the delay is over for the last file, epoch ms."""


class ExplainChange(TypedDict):
    """A change."""

    at_ms: int
    """The moment of the change, epoch ms. A millisecond before, the change has not come."""
    code: ChangeCode
    """The change's code (docs/explain.md)."""
    text: str
    """A sentence for people."""
    first_base_offset: int | None
    """The first segment that changes; null if the change is about no segment."""
    last_base_offset: int | None
    """The last segment that changes."""
    bytes: int | None
    """The size of the segments or files that change; null if not known."""


class ExplainBlocker(TypedDict):
    """A blocker."""

    code: BlockerCode
    """The blocker's code (docs/explain.md)."""
    owner: str
    """Who can remove the blocker, in words: a producer, a file, a key of the configuration with its place."""
    text: str
    """What the blocker keeps here, and why."""
    remedy: str
    """What to do about the blocker."""
    since_ms: int | None
    """Since when the blocker holds, epoch ms; null if not known."""
    until_ms: int | None
    """The moment from which the blocker may no longer hold, epoch ms; null if time alone never ends it."""
    first_base_offset: int | None
    """The first segment that the blocker keeps; null if it is about the whole partition, or about no segment."""
    last_base_offset: int | None
    """The last segment that the blocker keeps."""
    bytes: int | None
    """The bytes that the blocker keeps; null if not known."""


class ExplainRule(TypedDict):
    """The answer of retention or of compaction. The other keys are as in `reason`."""

    rule: Only
    """Retention or compaction."""
    code: ReasonCode
    """The reason's code (docs/reasons.md). A new code takes a minor version, a changed one a major."""
    text: str
    """A sentence for people, with its numbers."""
    until_ms: int | None
    """Of a segment that stays, the time from which the reason may no longer hold, epoch ms; of one that goes by
    RETENTION_TIME, the time at which it expired; null if no time is known.
    """
    limit: ReasonLimit | None
    """The value of the configuration that the reason rests on; null if it rests on none, or on more than one."""


class ExplainSegment(TypedDict):
    """A segment."""

    base_offset: int
    """The offset that the segment's file is named by."""
    last_offset_max: int | None
    """No record of the segment has a greater offset; null if the segment is empty."""
    first_timestamp_ms: int | None
    """The timestamp of the first record, or the largest of the first batch, epoch ms; null if not known."""
    newest_timestamp_ms: int | None
    """The newest record's timestamp, epoch ms, by the time index and the batches behind its last entry; null if no
    record has one.
    """
    file_time_ms: int
    """The modification time of the `.log`, epoch ms."""
    bytes: Count
    """The size of the `.log` file."""
    index_bytes: Count
    """The size of the index files."""
    disk_bytes: Count
    """The space that the blocks of all these files take."""
    is_active: bool
    """True for the active segment."""
    action: Action
    """What `clean` would do with the segment now."""
    reason: SegmentReason
    """Why the segment stays or goes, in the words of `clean`."""
    rules: list[ExplainRule]
    """What retention and compaction each say; empty if neither is asked."""
    expires_ms: int | None
    """The first moment at which time retention may delete the segment, epoch ms; null if time alone never lets it
    go.
    """


class ExplainRecord(TypedDict):
    """The record at `offset`."""

    offset: int
    """The offset of the record."""
    timestamp_ms: int
    """The timestamp of the record, epoch ms; -1 if it has none."""
    key_bytes: int | None
    """The size of the key; null if there is none."""
    value_bytes: int | None
    """The size of the value; null for a tombstone."""
    batch_base_offset: int
    """The first offset of the batch."""
    batch_last_offset: int
    """The last offset of the batch."""
    position: Count
    """Where the batch begins in the `.log`."""
    compression: str
    """The compression of the batch."""
    producer_id: int
    """The producer of the batch; -1 if the batch names none."""
    is_transactional: bool
    """True if the batch belongs to a transaction."""
    is_control: bool
    """True for a marker or another control record."""


class ExplainFile(TypedDict):
    """A file."""

    name: str
    """The name of the file."""
    bytes: Count
    """The size of the file."""
    disk_bytes: Count
    """The space that the blocks of the file take."""
    links: Positive
    """The number of hard links."""


class ExplainChosen(TypedDict):
    """The segment that was asked for."""

    offset: int | None
    """The offset that was asked for, or that has the timestamp that was asked for; null if a segment was asked for."""
    record: ExplainRecord | None
    """The record at `offset`; null if none was asked for, or if compaction took it."""
    files: list[ExplainFile]
    """The files of the segment."""
    batches: Count
    """Batches in the segment."""
    records: Count
    """Records in the segment, by the headers of the batches."""
    codecs: dict[str, int]
    """Compression -> the number of batches."""
    transactional_batches: Count
    """Batches of transactions, markers among them."""
    control_batches: Count
    """Markers and other control batches."""
    producers: Count
    """Producers with an id."""
    delete_horizons: DeleteHorizonSums
    """The batches with a delete horizon."""
    problem: str | None
    """Why reading ended before the end of the segment; null if it did not."""


class ExplainPartition(PartitionPlace):
    """The partition in one log dir."""

    error: str | None
    """Why the partition could not be read; then the keys below are absent. Null if it was read."""
    locked_by: NotRequired[str | None]
    """Who holds the lock of the log dir, in words; null if nobody does."""
    cleanup_policy: NotRequired[str]
    """`delete`, `compact`, `compact,delete`; empty if it is empty, or unknown (`CONFIG_UNKNOWN`)."""
    config: NotRequired[dict[str, ExplainConfig]]
    """The keys that decide, each with the value in force."""
    bytes: NotRequired[Count]
    """The size of the `.log` files."""
    files: NotRequired[int | None]
    """The number of files and directories in the partition directory, which counts itself."""
    apparent_bytes: NotRequired[int | None]
    """The sum of their sizes, as `ls` shows them."""
    disk_bytes: NotRequired[int | None]
    """The space that their blocks take: the figure that `du` prints."""
    kinds: NotRequired[dict[str, KindSize] | None]
    """The kinds of files in the directory: `segments`, `indexes`, `snapshots`, `deleted`, `directories` and so on."""
    removals: NotRequired[list[RemovalForecast] | None]
    """When logcleaner may unlink the `.deleted` files, ascending."""
    topic_partitions: NotRequired[int | None]
    """The number of the topic's partitions in the log dirs of the command."""
    topic_bytes: NotRequired[int | None]
    """The size of their `.log` files."""
    log_start_offset: NotRequired[int]
    """The first offset that consumers can read."""
    log_end_offset: NotRequired[int]
    """The offset that the next record gets."""
    high_watermark: NotRequired[int | None]
    """The checkpointed high watermark; null if there is none."""
    last_stable_offset: NotRequired[int | None]
    """The offset below which every transaction is over; null if there is no high watermark."""
    first_dirty_offset: NotRequired[int | None]
    """Where the dirty section begins; null if the partition is not compacted."""
    first_uncleanable_offset: NotRequired[int | None]
    """Where the dirty section ends; null if the partition is not compacted."""
    dirty_bytes: NotRequired[int | None]
    """The size of the dirty section; null if the partition is not compacted."""
    dirty_ratio: NotRequired[Ratio | None]
    """The share of dirty bytes in what can be compacted; null if the partition is not compacted."""
    open_transactions: NotRequired[list[ExplainOpenTransaction]]
    """The open transactions, by their first offset."""
    records_unkeyed: NotRequired[Count | None]
    """The records without a key that the compaction of the plan drops; null if not counted: `--exact` counts them."""
    delete_horizons: NotRequired[DeleteHorizonSums]
    """The tombstones and markers with a delete horizon."""
    deleted_files: NotRequired[ExplainDeletedFile | None]
    """The `.deleted` files that still lie in the directory; null if there are none."""
    changes: NotRequired[list[ExplainChange]]
    """The changes that time alone brings, the next change first."""
    blockers: NotRequired[list[ExplainBlocker]]
    """The blockers, and what to do about them."""
    segments: NotRequired[list[ExplainSegment]]
    """The segments, ascending; with a chosen segment, only that one."""
    chosen: NotRequired[ExplainChosen | None]
    """The chosen segment; null if all segments are listed."""
    problems: NotRequired[list[str]]
    """Why something could not be read, and is left out."""


class ExplainPageTotals(TypedDict):
    """The sums over the log dirs that hold the partition."""

    segments: Count
    """Segments."""
    deleted_segments: Count
    """Segments that clean deletes now."""
    deleted_bytes: Count
    """The size of their `.log` files."""
    compacted_segments: Count
    """Segments that clean compacts now."""
    compacted_bytes: Count
    """The size of their `.log` files."""
    bytes: Count
    """The size of all `.log` files."""


class ExplainPagePartition(PartitionPlace, ExplainPageTotals):
    """A partition."""

    log_dir: str
    """The path of the log dir."""
    reasons: list[PageReason]
    """The segments by action and reason."""


class ExplainPage(PageHead):
    """The values that the page of `--html` shows besides. Only with `--html`."""

    sentence: str
    """What clean does here, and what changes next, in a sentence."""
    totals: ExplainPageTotals
    """The sums over the log dirs that hold the partition."""
    partitions: list[ExplainPagePartition]
    """The partition in each log dir that holds it."""


class ExplainDocument(TypedDict):
    """The document that `explain --json` prints: one partition, with every segment's fate, what blocks, and what
    changes next. Sizes are in bytes.
    """

    schema: Literal["logcleaner.explain/1"]
    """The name of this schema."""
    now: int
    """The moment of the explanation, epoch ms."""
    partitions: list[ExplainPartition]
    """The partition, once for each log dir that holds it."""
    report: NotRequired[ExplainPage]
    """What the page of `--html` shows besides. Only with `--html`."""
