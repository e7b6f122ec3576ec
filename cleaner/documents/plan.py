"""``logcleaner.plan/1``."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cleaner.documents.parts import (
    Count,
    Measure,
    PageGrowth,
    PageHead,
    PageReason,
    PartitionPlace,
    Positive,
    Ratio,
    RunwayDocument,
    SegmentReason,
)
from cleaner.engine.outcome import Basis
from policies.reasons import Action


class PlanLogDir(TypedDict):
    """A log dir."""

    path: str
    """The path of the log dir."""
    locked_by: str | None
    """Who holds the lock, in words; null if nobody holds it, or this run does."""
    free_bytes: Count
    """The free space of the file system, for an ordinary user."""
    size_bytes: Count
    """The size of the `.log` and index files of the partitions. If a partition cannot be read, all its files count."""
    disk_bytes: NotRequired[Count]
    """The blocks of these files, as `du` counts them."""


class PlanSegment(TypedDict):
    """A segment."""

    base_offset: int
    """The offset that the segment's file is named by."""
    last_offset_max: int | None
    """No record of the segment has a greater offset: the next segment's base offset, or the log end offset, minus 1. A
    compaction may have removed the record with this offset. Null if the segment is empty.
    """
    newest_timestamp_ms: int | None
    """The newest record's timestamp, epoch ms: that of the last entry of the time index; if time retention would delete
    the segment by that entry, that of the newest batch behind it. Null if the index has no entry.
    """
    bytes: Count
    """The size of the `.log` file."""
    action: Action
    """What the plan does with the segment."""
    reason: SegmentReason
    """Why the segment stays or goes."""
    in_tier: NotRequired[Literal[True]]
    """True if a tier has the segment, and no log dir. Only with `--tier`."""


class PlanResult(TypedDict):
    """The work that was done, or would be done."""

    basis: Basis
    """`done`; of a dry run `exact` if the deciding records were read, or if nothing is compacted, else `estimate`."""
    deleted_segments: Count
    """Segments that retention deleted."""
    deleted_bytes: Count
    """The size of the `.log` and index files of these segments, renamed to `.deleted` or unlinked."""
    freed_bytes: Count
    """The size of the files that were unlinked."""
    freed_disk_bytes: NotRequired[Count]
    """The space that the disk gets back from these files: their blocks, as `du` counts them; nothing for a file
    with another hard link.
    """
    reclaimed_disk_bytes: NotRequired[int]
    """The space that the disk gets back in the end: the blocks of all files that left the log, less those of the files
    that compaction wrote. A dry run with `--exact` counts whole blocks for the files that would be written; an
    `estimate` leaves the compaction out.
    """
    compacted_from_bytes: Count
    """The size of the `.log` files that the compaction read; 0 without a compaction."""
    compacted_to_bytes: Count
    """The size of these files after the compaction; for an estimate, that before it. Delete horizons, and batches
    compressed anew, can make it a little larger.
    """
    index_saved_bytes: NotRequired[int]
    """How many bytes smaller the index files of the compacted segments are afterwards; 0 for an estimate, absent
    without a compaction.
    """
    records_read: Count
    """Records that the compaction read; 0 if nothing was read."""
    records_kept: Count
    """Records that stayed."""
    records_unkeyed: NotRequired[Positive | None]
    """Records without a key, which the compaction drops; null if not counted, absent if there are none."""
    seconds: Measure
    """The time that the work took."""


class PlanPartition(PartitionPlace):
    """A partition. If the partition could not be read, unknown values are null."""

    cleanup_policy: str | None
    """`delete`, `compact`, `compact,delete`; empty if it is empty, or unknown (`CONFIG_UNKNOWN`)."""
    bytes: Count
    """The size of the `.log` files."""
    log_start_offset: int | None
    """The first offset that consumers can read."""
    log_end_offset: int | None
    """The offset that the next record gets."""
    high_watermark: int | None
    """The checkpointed high watermark; null if there is none."""
    last_stable_offset: int | None
    """The offset below which every transaction is over; null if not read, as for topics without compaction."""
    first_dirty_offset: int | None
    """Where the dirty section begins; null if the partition is not compacted."""
    dirty_ratio: Ratio | None
    """The share of dirty bytes in what can be compacted; null if the partition is not compacted."""
    error: str | None
    """Why the partition could not be read, or why a planned step failed; null if neither."""
    segments: list[PlanSegment]
    """The segments, ascending."""
    result: PlanResult | None
    """What was done, or would be done; null if there was nothing to do, or if the run ended before."""


class PlanTotals(TypedDict):
    """The sums."""

    bytes_before: Count
    """The size of the `.log` and index files before the run, and of all files of partitions that cannot be read.
    Snapshots, checkpoints, `.deleted` files and the cluster metadata do not count: `topics --json` accounts for the
    whole log dir.
    """
    bytes_after: int
    """The part of `bytes_before` that is left once all deleted or replaced files are unlinked."""
    reclaimed_bytes: int
    """The difference."""
    disk_bytes_before: NotRequired[Count]
    """The blocks of these files before, as `du` counts them: holes in preallocated files take none."""
    reclaimed_disk_bytes: NotRequired[int]
    """The sum of `reclaimed_disk_bytes` of the results: the space that the disk gets back in the end."""
    freed_disk_bytes: NotRequired[Count]
    """The sum of `freed_disk_bytes` of the results: the part of it that is already unlinked."""
    unlinked_bytes: NotRequired[Count]
    """The size of the `.deleted` files of earlier runs, or of a broker, that were or would be unlinked; not in
    `reclaimed_bytes`.
    """
    unlinked_disk_bytes: NotRequired[Count]
    """The space that the disk gets back from these files."""
    partitions: Count
    """Partitions of the plan."""
    failed: Count
    """Partitions that failed, or could not be read."""
    seconds: Measure
    """The time that the run took."""


class PlanKept(TypedDict):
    """A file that stays."""

    topic: str
    """The topic."""
    partition: int
    """The number of the partition."""
    log_dir: str
    """The log dir."""
    name: str
    """The name of the file."""
    first_offset: int | None
    """Of a `.deleted` log: the first offset that the log lacks and this file has; else null."""
    last_offset: int | None
    """As `first_offset`: the last one."""
    unknown_because: str | None
    """Of a `.deleted` log: why nobody knows whether the log needs it; else null."""


class WhatIfTotals(TypedDict):
    """The sums."""

    partitions: Count
    """The partitions that can be read."""
    bytes: Count
    """The size of the `.log` and index files of these partitions."""
    freed_bytes: int
    """The part of these bytes that a run would free. The gain of a compaction is part of it only if `basis` is
    `exact`.
    """
    kept_bytes: int
    """The part of these bytes that stays."""
    disk_bytes: NotRequired[Count]
    """The blocks of these files, as `du` counts them."""
    freed_disk_bytes: NotRequired[int]
    """The space that the disk would get back."""
    compacted_from_bytes: Count
    """The size of the `.log` files that a run would compact."""
    basis: Literal["exact", "estimate"]
    """`estimate` if the data of a compaction was not read."""
    long_run_bytes: Count | None
    """The size to which the `.log` files grow at the present rate, for the partitions that a limit keeps at a size;
    null if no partition's long run is known, or only that of empty partitions.
    """
    long_run_growing_bytes_per_day: Count
    """The growth of the partitions that no limit keeps at a size."""
    long_run_unknown_partitions: Count
    """The partitions whose long run is not known: compacted, not touched, or written for too short a time."""
    held_back: Count
    """Partitions that a guard rail would hold back."""
    unknown: Count
    """Partitions that a run would not touch, because their configuration is unknown."""
    failed: Count
    """Partitions that would fail, or cannot be read."""


class WhatIfTopic(WhatIfTotals):
    """A topic."""

    topic: str
    """The name of the topic."""
    value: str | int | float | bool | None
    """The value of the key that would hold for the topic."""


class WhatIfAnswer(TypedDict):
    """The figures of a run with this value."""

    value: str | int | float | bool | None
    """The value asked for, as `--set` would state it, in Kafka's unit; null for the configuration in force."""
    topics: list[WhatIfTopic]
    """The topics of the run."""
    totals: WhatIfTotals
    """The sums."""
    runway: list[RunwayDocument]
    """How long each file system of the log dirs lasts, if its logs go on being written as in the last 7 days and
    what may be deleted is. Only of a look that changes nothing.
    """


class WhatIfDocument(TypedDict):
    """A question."""

    key: str
    """The key."""
    answers: list[WhatIfAnswer]
    """First the configuration in force, then each value asked for."""


class PlanPageTotals(TypedDict):
    """The sums over all topics. Sizes are those of `.log` files, unless stated otherwise."""

    topics: Count
    """Topics."""
    partitions: Count
    """Partitions."""
    segments: Count
    """Segments."""
    bytes: Count
    """Their size."""
    deleted_segments: Count
    """Segments that the run deletes; what failed is kept."""
    deleted_bytes: Count
    """Their size."""
    compacted_segments: Count
    """Segments that the run compacts; what failed is kept."""
    compacted_bytes: Count
    """Their size; what stays of them is not taken off."""
    kept_segments: Count
    """Segments that stay as they are."""
    kept_bytes: Count
    """Their size, with that of partitions that cannot be read."""
    freed_bytes: int
    """What this run frees on the disk, once the `.deleted` files are unlinked, too."""
    freed_at_once_bytes: int
    """What of that is free when the run ends; below 0 if more is taken until the `.deleted` files go."""
    bytes_now: int
    """What the logs take on the disk when the report is made, with `.deleted` files of this run, or that it would
    unlink.
    """
    is_estimate: bool
    """True if compactions free more than `freed_bytes` says, because the data was not read."""


class PlanPageTopic(TypedDict):
    """A topic. Sizes are those of `.log` files, unless stated otherwise."""

    topic: str
    """The topic's name."""
    cleanup_policy: str | None
    """As in `partitions[]`."""
    partitions: Count
    """Partitions."""
    segments: Count
    """Segments."""
    bytes: Count
    """Their size."""
    deleted_bytes: Count
    """The size of the segments that the run deletes."""
    compacted_bytes: Count
    """The size of the segments that the run compacts."""
    kept_bytes: Count
    """The size of the other segments."""
    dirty_bytes: int | None
    """The bytes that were never compacted; null if the topic is not compacted."""
    dirty_ratio: float | None
    """The share of these bytes in the bytes that can be compacted; null if the topic is not compacted."""
    min_cleanable_dirty_ratio: float | None
    """The share from which on a partition is compacted; null if the topic is not compacted."""
    later_bytes: Count
    """The bytes that time alone will let go within seven days, index files included."""
    reasons: list[PageReason]
    """The segments by action and reason, the most bytes first."""


class PlanPagePartition(PartitionPlace):
    """A partition. Sizes are those of `.log` files."""

    segments: Count
    """Segments."""
    deleted_bytes: Count
    """The size of the segments that the run deletes."""
    compacted_bytes: Count
    """The size of the segments that the run compacts."""
    next_expiry_ms: int | None
    """The first moment at which time lets a segment go that stays now, epoch ms; null if time alone lets none go."""


class PlanPageReason(TypedDict):
    """The segments with one action, reason code and stated value."""

    action: Action
    """What happens to the segments."""
    code: str
    """The reason code; `NOT_DONE` of segments whose deletion or compaction failed or was not begun."""
    key: str | None
    """The key of the value that the reason rests on; null if it rests on none."""
    value: str | None
    """The value in words."""
    origin: str | None
    """The place that states the value, in words."""
    topics: Count
    """Topics."""
    segments: Count
    """Segments."""
    bytes: Count
    """The size of the `.log` files of the segments."""
    text: str
    """The sentence of one of the segments."""


class PlanByDay(TypedDict):
    """A day."""

    day: str
    """ISO 8601, UTC."""
    bytes: Count
    """The bytes that may go."""


class PlanPageLater(TypedDict):
    """The bytes that time alone will let go after this run, index files included."""

    bytes: Count
    """The bytes that may go within `days`."""
    days: Count
    """The number of days that `bytes` is about."""
    first_ms: int | None
    """The first moment at which a segment may go, epoch ms; null if time alone lets none go."""
    first_bytes: Count
    """The bytes that may go at that moment."""
    by_day: list[PlanByDay]
    """The days of the next 30 on which something may go."""


class PageCurvePlace(TypedDict):
    """A limit."""

    limit_ms: Count
    """The `retention.ms`."""
    kept_bytes: Count
    """The bytes that stay, index files included."""
    freed_bytes: Count
    """The bytes that a run deletes, index files included."""


class PageCurveInForce(TypedDict):
    """A limit."""

    limit_ms: Count
    """The `retention.ms`."""
    topics: Count
    """The number of topics with this limit."""
    bytes: Count
    """The size of the `.log` files of these topics."""


class PageCurve(TypedDict):
    """The bytes that each `retention.ms` would keep and free now, if all topics that delete had it; topics named `__*`
    keep their own limits.
    """

    places: list[PageCurvePlace]
    """By rising limit, closely spaced."""
    round: list[PageCurvePlace]
    """The same for limits that people ask for, and for those of `--what-if`."""
    in_force: list[PageCurveInForce]
    """The limits in force, those of the most bytes first."""


class PlanPageFinding(TypedDict):
    """A finding. A key that does not apply is null."""

    topic: str | None
    """The topic's name."""
    partition: int | None
    """The number of the partition."""
    code: str
    """A code of [explain](explain.md), a reason code of a guard rail, `LOCKED` or `FAILED`."""
    log_dir: str | None
    """The path of the log dir."""
    owner: str | None
    """Who can change this."""
    text: str
    """The finding, in a sentence."""
    remedy: str | None
    """What to do, in a sentence."""
    bytes: int | None
    """The bytes that stay because of the finding."""
    until_ms: int | None
    """The moment from which the finding may no longer hold, epoch ms."""


class PlanPage(PageHead):
    """The values that the page of `--html` shows beside the plan. Only with `--html`."""

    sentence: str
    """What the run does, in a sentence."""
    freed: str
    """The space that is free when the run ends, in a few words."""
    freed_when: str
    """The space that is free when the run ends, and later, in the words of the run's text; empty if nothing goes."""
    totals: PlanPageTotals
    """The sums over all topics. Sizes are those of `.log` files, unless stated otherwise."""
    topics: list[PlanPageTopic]
    """The topics; the topics that change come first."""
    partitions: list[PlanPagePartition]
    """The partitions, in the order of `partitions` above."""
    reasons: list[PlanPageReason]
    """The reasons, those of the most bytes first."""
    runway: list[RunwayDocument]
    """How long each file system of the log dirs lasts, also after a run that changed something."""
    later: PlanPageLater
    """What time alone will let go after this run, index files included."""
    retention_curve: PageCurve | None
    """What each `retention.ms` would keep and free now, if all topics that delete had it; topics named `__*` keep their
    own limits. By the time indexes. Null if no topic deletes by time.
    """
    growth: PageGrowth
    """The `.log` bytes that are there, by the day on which they were written."""
    findings: list[PlanPageFinding]
    """What is wrong or keeps bytes: failures first, then the most bytes first; 100 at most."""
    findings_left_out: Count
    """The number of findings that are left out."""


class RepackRefused(TypedDict):
    """The reason for which no batch of a partition is merged."""

    code: str
    """The reason (docs/repack.md)."""
    text: str
    """A sentence for people."""


class RepackSegment(TypedDict):
    """A segment that was written anew, or would be."""

    base_offset: int
    """The base offset of the segment."""
    bytes: Count
    """The size of the `.log` before."""
    bytes_after: Count
    """The size of the `.log` afterwards."""
    batches: Count
    """The batches that are replaced."""
    batches_after: Count
    """The batches in their place."""


class RepackPartition(PartitionPlace):
    """The repacking of a partition."""

    basis: Literal["exact", "estimate"]
    """`estimate` if the run compacts the partition first, while these figures are of the log as it lies there."""
    refused: RepackRefused | None
    """The reason for which nothing is repacked; null if there is none."""
    error: str | None
    """What failed; null if nothing did."""
    bytes_before: Count
    """The size of all `.log` files before."""
    bytes_after: Count
    """The size of all `.log` files afterwards."""
    until_ms: int | None
    """Until when the replaced files wait as `.deleted`, epoch ms; null if none waits."""
    segments: list[RepackSegment]
    """The segments that get smaller."""


class RepackDocument(TypedDict):
    """The repacking behind a run."""

    done: bool
    """False if nothing was written."""
    bytes_before: Count
    """The size of all `.log` files before."""
    bytes_after: Count
    """The size of all `.log` files afterwards."""
    errors: list[str]
    """What failed beside the partitions."""
    partitions: list[RepackPartition]
    """The partitions, by log dir and name."""


class PlanDocument(TypedDict):
    """The document that `clean --json` and `free --json` print: the plan and its results. Sizes are in bytes."""

    schema: Literal["logcleaner.plan/1"]
    """The name of this schema."""
    now: int
    """The moment that the plan was made for, epoch ms."""
    dry_run: bool
    """True if nothing was changed."""
    engine: Literal["local", "spark"]
    """The engine that compacts."""
    log_dirs: list[PlanLogDir]
    """The log dirs."""
    partitions: list[PlanPartition]
    """The partitions, by log dir and name."""
    totals: PlanTotals
    """The sums."""
    kept: NotRequired[Annotated[list[PlanKept], Field(min_length=1)]]
    """Files that stay although their kind may go: only copies of records, and index files without a `.log`, which tell
    of missing records. A broker that starts removes them. Absent if there is none.
    """
    left_out: NotRequired[Annotated[list[str], Field(min_length=1)]]
    """What of the log dir is not in a copy, as its manifest says: directories that `--topic` excludes or that are no
    live partition, symlinks and the like. Absent if there is nothing, and without `--output`.
    """
    errors: NotRequired[Annotated[list[str], Field(min_length=1)]]
    """What failed beside the partitions: a log dir that is missing or cannot be read, a checkpoint or journal that
    cannot be written, a compiled kernel that does not load. `totals.failed` does not count it; the exit status is 1.
    Absent if there is none.
    """
    runway: NotRequired[list[RunwayDocument]]
    """How long each file system of the log dirs lasts, if its logs go on being written as in the last 7 days and what
    may be deleted is. Only of a look that changes nothing.
    """
    what_if: NotRequired[list[WhatIfDocument]]
    """The answers of `--what-if`; absent if nothing was asked."""
    repack: NotRequired[RepackDocument]
    """What `--repack` did behind the run, or would do; absent without it."""
    report: NotRequired[PlanPage]
    """What the page of `--html` shows beside the plan. Only with `--html`."""
