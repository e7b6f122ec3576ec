"""The documents of commands that change or copy data, or list changes.

``logcleaner.deletion/1``, ``erase/1``, ``restore/1``, ``sweep/1``, ``import/1``, ``export/1``, ``fetch/1``,
``manifest/1``, ``move/1``, ``as_of/1`` and ``history/1``.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, PartitionPlace, Positive, Sha256
from policies.as_of import CutReason, SpoilCode
from policies.erasure import StayReason
from policies.findings.repairs import RevertCode
from policies.findings.sweeping import LeftoverKind, SweepAct
from policies.moving import MoveStep
from policies.reasons import Action, ReasonCode
from policies.restore import RestoreCode


class DeletionRefused(TypedDict):
    """The reason for which nothing is deleted."""

    code: str
    """The reason (docs/delete-records.md)."""
    text: str
    """A sentence for people."""


class DeletionSegment(TypedDict):
    """A segment."""

    base_offset: int
    """The base offset of the segment."""
    bytes: Count
    """The size of the `.log` and index files."""


class DeletionDocument(PartitionPlace):
    """The document that `delete-records --json` prints."""

    schema: Literal["logcleaner.deletion/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was to be changed."""
    before_offset: int | None
    """The offset that was asked for; -1 means the high watermark. Null if a time was asked for."""
    before_ms: int | None
    """The time that was asked for, epoch ms; null if an offset was."""
    done: bool
    """True if the deletion was carried out."""
    refused: DeletionRefused | None
    """The reason for which nothing is deleted; null if there is none."""
    high_watermark: int | None
    """The checkpointed high watermark; null if there is none, or if the deletion was refused."""
    log_end_offset: int | None
    """The log end offset; null if the deletion was refused."""
    log_start_before: int | None
    """The log start offset before the deletion; null if the deletion was refused."""
    log_start_offset: int | None
    """The log start offset after the deletion; null if the deletion was refused."""
    records: Count | None
    """Records that become unreadable; null if they could not be counted."""
    damaged: str | None
    """The first damage among the records that become unreadable: file, byte and cause. Null if nothing is damaged."""
    restorable_until_ms: int | None
    """The last moment at which `restore` takes the deletion back, epoch ms; of a dry run as if it ran now. Null if
    there is nothing to do.
    """
    segments: list[DeletionSegment]
    """The segments that go, oldest first."""
    deleted_bytes: Count
    """The size of these segments."""


class EraseRefused(TypedDict):
    """The reason for which nothing of a partition is erased."""

    code: str
    """The reason (docs/erase.md)."""
    text: str
    """A sentence for people."""


class EraseSegment(TypedDict):
    """A segment that loses records."""

    base_offset: int
    """The base offset of the segment."""
    records: Positive
    """The records that go."""
    tombstones: Count
    """Those among them without a value."""
    first_offset: int
    """The offset of the first record that goes."""
    last_offset: int
    """The offset of the last record that goes."""
    bytes: Count
    """The size of the `.log` before."""
    bytes_after: Count | None
    """The size of the `.log` afterwards; null if it was not written."""
    links: Positive
    """The most hard links of a file of the segment before. With more than one, the old bytes stay."""
    done: bool
    """True if the segment was replaced."""


class EraseStays(TypedDict):
    """Records of the keys that stay for one reason."""

    code: StayReason
    """The reason (docs/erase.md)."""
    records: Positive
    """The number of the records."""
    first_offset: int
    """The offset of the first record."""
    last_offset: int
    """The offset of the last record."""


class ErasePartition(PartitionPlace):
    """The erasure in one partition."""

    refused: EraseRefused | None
    """The reason for which nothing is erased; null if there is none."""
    error: str | None
    """Why the partition failed; null if it did not. Segments that are `done` stay so."""
    records: Count
    """The records that go."""
    records_read: Count
    """The records that were read, control records among them."""
    bytes_read: Count
    """The size of the `.log` files that were read."""
    segments: list[EraseSegment]
    """The segments that lose records, ascending."""
    stays: list[EraseStays]
    """The records of the keys that stay."""
    waiting_logs: Count
    """The `.deleted` logs that waited there before. They were not read."""
    until_ms: int | None
    """Until when the replaced files wait as `.deleted`, epoch ms; null if none waits."""


class EraseDocument(TypedDict):
    """The document that `erase --json` prints. It names no key."""

    schema: Literal["logcleaner.erase/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was to be changed."""
    output: str | None
    """Where the copy without the records lies; null if there is none. The log dir that it was made of keeps them."""
    time_ms: int
    """When the logs were read, epoch ms."""
    records: Count
    """The records that go, in all partitions."""
    errors: list[str]
    """Failures of whole log dirs."""
    partitions: list[ErasePartition]
    """The partitions that `--topic` names."""


class RestoreSegment(TypedDict):
    """A segment."""

    base_offset: int
    """The base offset of the segment."""
    end_offset: int
    """The end of the offsets, exclusive."""
    bytes: Count
    """The size of the files of the segment."""
    deleted_ms: int
    """The time of the deletion, epoch ms."""
    restored: bool
    """True if the segment was brought back."""
    code: RestoreCode
    """Why the segment can come back, or cannot (docs/reasons.md)."""
    text: str
    """A sentence for people."""


class RestoreLogStart(TypedDict):
    """A move."""

    log_start_offset: int
    """The log start offset that the deletion set."""
    log_start_before: int
    """The log start offset before the deletion."""
    deleted_ms: int
    """The time of the deletion, epoch ms."""
    restored: bool
    """True if the move was taken back."""
    code: RestoreCode
    """Why the move can be taken back, or cannot (docs/reasons.md)."""
    text: str
    """A sentence for people."""


class RestorePartition(PartitionPlace):
    """A partition."""

    held_since_ms: int | None
    """The time at which a restore put the partition on hold, epoch ms; null if the partition is not on hold."""
    error: str | None
    """Why the partition was not restored; null if nothing failed."""
    segments: list[RestoreSegment]
    """The deleted segments, newest first."""
    log_starts: NotRequired[list[RestoreLogStart]]
    """The moves of the log start by `delete-records` that no segment takes back, newest first."""


class RestoreRepair(PartitionPlace):
    """A repair of one file."""

    file: str
    """The name of the file."""
    kind: str
    """The kind of the repair (docs/repair.md)."""
    repaired_ms: int
    """The time of the repair, epoch ms."""
    taken_back: bool
    """True if the file is as it was before the repair."""
    code: RevertCode
    """Whether the repair can be taken back (docs/repair.md)."""
    text: str
    """A sentence for people."""
    error: str | None
    """Why the repair was not taken back; null if nothing failed."""


class RestoreDocument(TypedDict):
    """The document that `restore --json` prints."""

    schema: Literal["logcleaner.restore/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was changed."""
    partitions: list[RestorePartition]
    """The partitions with deletions whose files still wait, or that are on hold."""
    repairs: NotRequired[list[RestoreRepair]]
    """Of `--repairs`: the repairs that can be taken back."""
    released: list[str]
    """Of `--release`: the partitions that are no longer on hold."""


class HistorySegment(TypedDict):
    """A segment."""

    base_offset: int
    """The base offset of the segment."""
    bytes: Count
    """The size of the segment."""
    code: NotRequired[str]
    """The reason's code; of `delete`."""
    text: NotRequired[str]
    """The reason's sentence; of `delete`."""


class HistoryKept(TypedDict):
    """A file."""

    name: str
    """The name of the file."""
    bytes: int
    """The size of the file."""
    first: int | None
    """The first offset that the log lacks, or that of the first entry; null without an entry."""
    last: int | None
    """As `first`: the last one."""


class HistoryEntry(TypedDict):
    """An entry."""

    time_ms: int
    """The wall clock, epoch ms."""
    what: str
    """The kind: `delete`, `compact`, `erase`, `recover`, `restore`, `restore-failed`, `release`, `repair`,
    `repair-failed`, `revert`, `failed`, `sweep`, `import`, `move`, `evidence` or `clock`.
    """
    boot: NotRequired[tuple[str, int]]
    """Linux's boot id, and the wall clock at boot, epoch ms."""
    partition: NotRequired[str]
    """`TOPIC-PARTITION`; in every kind but `clock`."""
    bytes: NotRequired[Count]
    """The size of the segments."""
    log_start_offset: NotRequired[int]
    """Of `delete` the new log start offset, of `restore` the one before the deletion."""
    log_start_before: NotRequired[int]
    """Of a `delete` by `delete-records`: the log start offset before the deletion."""
    segments: NotRequired[list[HistorySegment]]
    """Of `delete`, `erase` and `restore`: the segments."""
    records_unkeyed: NotRequired[Positive]
    """Of `compact`: the number of records that were dropped because they have no key; absent if none."""
    first_dirty_offset: NotRequired[int]
    """Of `compact`: where the dirty section began."""
    end_offset: NotRequired[int]
    """Of `compact`: where the round was to end, exclusive."""
    records: NotRequired[Count]
    """Of `erase`: the records that went."""
    first_offset: NotRequired[int]
    """Of `erase`: the offset of the first of these records."""
    last_offset: NotRequired[int]
    """Of `erase`: the offset of the last of these records."""
    unfinished: NotRequired[Positive]
    """Of `erase`: the segments that still are as before; absent if there is none."""
    groups: NotRequired[list[list[int]]]
    """Of `compact`: the base offsets of the segments that became one."""
    files: NotRequired[list[str]]
    """Of `recover`: the names of the files."""
    kept: NotRequired[list[HistoryKept]]
    """Of `evidence`: only copies of records, and index files that tell of missing ones."""
    file: NotRequired[str]
    """The name of the file; of `repair` and `revert`."""
    kind: NotRequired[str]
    """The kind of the repair (docs/repair.md); of `repair` and `revert`."""
    findings: NotRequired[list[str]]
    """The codes of what was wrong with the file; of `repair`."""
    error: NotRequired[str]
    """Of `failed`: the message."""
    name: NotRequired[str]
    """Of `sweep`: the leftover's path from the log dir."""
    act: NotRequired[str]
    """Of `sweep`: `unlink` or `rename`."""
    renamed_to: NotRequired[str | None]
    """Of `sweep`: the new name of a stray directory; null if it was unlinked. Of `move`: the new name of the old
    directory.
    """
    from_dir: NotRequired[str]
    """Of `move`: the log dir that had the partition."""
    to_dir: NotRequired[str]
    """Of `move`: the log dir that got the partition."""
    offsets: NotRequired[dict[str, int]]
    """Of `move`: the partition's lines of the checkpoints, by file name."""
    is_return: NotRequired[bool]
    """Of `move`: true if it took an earlier move back."""
    fingerprint: NotRequired[str]
    """Of `failed`: SHA-256 of the names and identities of the files."""
    text: NotRequired[str]
    """Of `clock`: the guard rail's sentence."""


class HistoryLogDir(TypedDict):
    """A log dir."""

    path: str
    """The path of the log dir."""
    damaged_lines: Count
    """Lines that a crash or a full disk cut short, or that were altered."""
    entries: list[HistoryEntry]
    """The entries, oldest first. The kind of an entry, `what`, decides which of the optional fields it has."""


class HistoryDocument(TypedDict):
    """The document that `history --json` prints: the lines of the journals (docs/formats.md), without what a
    restore needs. A journal may hold fields of an older version.
    """

    schema: Literal["logcleaner.history/1"]
    """The name of this schema."""
    log_dirs: list[HistoryLogDir]
    """The log dirs."""


class SweepLeftover(TypedDict):
    """A leftover."""

    log_dir: str
    """The path of the log dir."""
    name: str
    """The path of the leftover, seen from the log dir."""
    kind: LeftoverKind
    """The kind of the leftover."""
    bytes: Count
    """The size of the files."""
    files: Count
    """The number of files."""
    due_ms: int | None
    """When the delay is over; null without a delay."""
    act: SweepAct
    """What the sweep does with the leftover."""
    text: str
    """Why the sweep does so."""
    renamed_to: str | None
    """Of a stray directory: its new name; else null."""
    done: bool
    """Whether the sweep did it."""
    error: str | None
    """Why the sweep failed; null if it did not."""


class SweepDocument(TypedDict):
    """The document that `doctor --sweep NAME ... --json` prints: what became of each leftover that was named."""

    schema: Literal["logcleaner.sweep/1"]
    """The name of this schema."""
    dry_run: bool
    """Whether nothing was changed."""
    leftovers: list[SweepLeftover]
    """The leftovers, in the order in which they were named."""


class ImportDocument(PartitionPlace):
    """The document that `import --json` prints."""

    schema: Literal["logcleaner.import/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was written."""
    log_dir: str
    """The path of the log dir that gets the partition."""
    files: list[str]
    """The input files."""
    topic_id: str | None
    """The topic id of the partition; null in a dry run of an import that would make a new one."""
    records: Count
    """Records that were imported."""
    control_records: Count
    """Control records of the input, which are left out."""
    log_start_offset: int
    """The offset of the first record."""
    log_end_offset: int
    """The offset behind the last record."""
    segments: Positive | None
    """Segments that were made; null in a dry run."""
    bytes: Count
    """The size of the `.log` files."""
    warning: str | None
    """What a broker will do with the partition instead of serving it; null if a broker serves the partition."""


class MovedPartition(TypedDict):
    """A partition."""

    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    log_dir: str | None
    """The path of the log dir that has or had the partition; null if nothing is left to do, if it was refused, or if no
    log dir has it any more.
    """
    to_dir: str
    """The path of the log dir that gets the partition."""
    step: MoveStep
    """The step at which the move begins: `copy`; `return`, if an earlier move set the same files aside; `set-aside` or
    `forget` where an earlier run was killed; `nothing`.
    """
    done: bool
    """True if the partition is there, and nowhere else."""
    files: Count
    """The files that are copied."""
    bytes: Count
    """The size of these files."""
    records: Count | None
    """The data records that were read, with their checksums; null if nothing was copied."""
    set_aside: str | None
    """The name of the old directory, in `log_dir`; null if there is none. The run draws another id than its dry run."""
    rebuilt: list[str]
    """Index files that were not copied, because the next start makes them anew."""
    error: str | None
    """Why the partition was not moved; null if nothing failed."""


class MoveDocument(TypedDict):
    """The document that `move --json` and `restore --moves --json` print."""

    schema: Literal["logcleaner.move/1"]
    """The name of this schema."""
    dry_run: bool
    """True if nothing was changed."""
    to_dir: str | None
    """The path of the log dir that gets the partitions; null for `restore --moves`."""
    partitions: list[MovedPartition]
    """The partitions, in the order in which they were named."""


class ExportDocument(PartitionPlace):
    """The document that `export --json` prints."""

    schema: Literal["logcleaner.export/1"]
    """The name of this schema."""
    format: Literal["parquet", "jsonl"]
    """The format of the file."""
    file: str
    """The path of the file."""
    start_offset: int
    """The first offset that was asked for."""
    end_offset: int
    """The offset behind the last record that was read."""
    records: Count
    """Records in the file."""
    bytes: Count
    """The size of the file."""


class FetchedFile(TypedDict):
    """A file that is not as it should be."""

    path: str
    """Its path."""
    problem: str
    """What is wrong with it."""


class FetchDocument(TypedDict):
    """The document that `fetch --json` prints."""

    schema: Literal["logcleaner.fetch/1"]
    """The name of this schema."""
    source: str
    """The URL or path of the copy."""
    directory: str
    """The directory that it was to be fetched to."""
    finished: bool
    """True if the directory is there, whole."""
    unfinished: str | None
    """The directory in which the files lie; null if the fetch was finished."""
    files: Count
    """Files of the copy."""
    bytes: Count
    """Their size."""
    resumed_files: Count
    """Files of them that an earlier fetch had brought, and that were read again."""
    resumed_bytes: Count
    """Their size."""
    has_manifest: bool
    """True if a manifest says what the copy consists of; then the SHA-256 of each file was compared with it."""
    left_out: list[str]
    """Entries of the copy that were not fetched: they are neither Kafka's, nor in the manifest."""
    damaged: list[FetchedFile]
    """What the manifest says otherwise, and what `verify` found."""


class OffsetsMissing(TypedDict):
    """Offsets that no copy has."""

    start: int
    """The first one."""
    end: int
    """The offset behind the last one."""


class RestoredFromTier(TypedDict):
    """A partition that is restored from a tier."""

    topic: str
    """Its topic."""
    partition: int
    """Its number."""
    topic_id: str
    """The id of the topic whose segments they are, 22 characters."""
    start: int
    """The first offset that is there."""
    end: int
    """The offset behind the last one."""
    remote_bytes: Count
    """The size of the segments of the tier that it is made of."""
    local_start: int | None
    """The first offset that comes from a log dir; null if none does."""
    missing: list[OffsetsMissing]
    """The offsets that segments or checkpoints name, and that no copy has."""


class CutOfTier(TypedDict):
    """A log that ends earlier than it could."""

    topic: str
    """The topic."""
    partition: Count
    """The partition."""
    end: Count
    """The offset behind the last record that is restored."""
    log_end: Count
    """The offset at which the log would end without `--until`."""
    reason: str
    """`NEWER`: a batch with a newer record follows. `TRANSACTION`: one that was not whole in all partitions by then."""
    producer_id: int | None
    """The producer of that transaction; null if there is none."""
    has_older_behind: bool
    """True if a whole segment that is left out has older records alone: the clock of a producer was ahead."""


class RestoreTierDocument(TypedDict):
    """The document that `restore-tier --json` prints."""

    schema: Literal["logcleaner.restore_tier/1"]
    """The name of this schema."""
    tier: str
    """The URL or path of the tier."""
    directory: str
    """The directory that is made."""
    dry_run: bool
    """True if nothing was written."""
    finished: bool
    """True if the directory is there, checked."""
    unfinished: str | None
    """The directory in which the files lie; null if it was finished, or nothing was written."""
    partitions: list[RestoredFromTier]
    """The partitions that the tier has."""
    as_they_are: list[str]
    """The partitions that come from log dirs alone."""
    left_out: list[str]
    """What cannot be restored, and why."""
    until_ms: int | None
    """The moment as of which logs are restored, in epoch ms; null for all that there is."""
    cut: list[CutOfTier]
    """The logs that lose something by that."""
    clamped: list[AsOfClamped]
    """The committed offsets above the end of a log, which get that end."""
    files: Count
    """Files that were brought."""
    bytes: Count
    """Their size."""
    resumed_bytes: Count
    """The bytes of them that an earlier run had brought."""
    remade: list[str]
    """The partitions whose indexes or snapshots were derived anew, because the check found one wrong."""
    damaged: list[FetchedFile]
    """What `verify` found in the end."""


class ManifestConfig(TypedDict):
    """A value."""

    value: int | float | str | bool | list[Any] | None
    """The value."""
    origin: str
    """The place that stated it."""


class ManifestSegment(TypedDict):
    """A segment."""

    base_offset: int
    """The base offset of the segment."""
    bytes: Count
    """The size of the `.log` file."""
    action: Action
    """What was done with the segment."""
    code: ReasonCode | Literal["FAILED", "ROUND_ENDED"]
    """The reason's code; `FAILED` and `ROUND_ENDED` if the plan was not carried out."""
    text: str
    """The reason's sentence."""


class ManifestEntry(TypedDict):
    """A file."""

    path: str
    """The path of the file within the copy."""
    bytes: Count
    """The size of the file."""
    sha256: Sha256
    """SHA-256, in hexadecimal digits."""
    mtime_ms: NotRequired[int]
    """The time of a `.log` with records, epoch ms: that of its last source. In a bucket the file has another."""


class ManifestPartition(TypedDict):
    """A partition."""

    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    error: str | None
    """Why the partition was copied as it is; null otherwise."""
    log_start_offset: NotRequired[int]
    """Of the copy."""
    log_end_offset: NotRequired[int]
    """Of the copy."""
    high_watermark: NotRequired[int | None]
    """Of the copy; null if unknown."""
    last_stable_offset: NotRequired[int | None]
    """Of the copy; null if unknown."""
    compacted_to_offset: NotRequired[int | None]
    """Where the compaction ended; null if there was none."""
    configs: NotRequired[dict[str, ManifestConfig]]
    """Key → value in Kafka's unit, and who stated it."""
    segments: NotRequired[list[ManifestSegment]]
    """The verdict on each segment of the original."""
    files: list[ManifestEntry]
    """The files of the partition in the copy."""


class ManifestDocument(TypedDict):
    """The file `logcleaner-manifest.json` in a copy that `clean --output` wrote, or in a log dir that Spark wrote into
    a store. Sizes are in bytes, paths relative to it.
    """

    schema: Literal["logcleaner.manifest/1"]
    """The name of this schema."""
    tool: str
    """Name and version of the program that wrote the copy."""
    engine: Literal["local", "spark"]
    """The engine that compacted or wrote."""
    now: int
    """The moment that the plan was made for, or that the write began, epoch ms."""
    original: str
    """The path of the log dir that was copied; of one that Spark wrote, its own path."""
    left_out: list[str]
    """Entries that were not copied."""
    partitions: list[ManifestPartition]
    """The partitions. A partition that could not be read has neither offsets, `configs` nor `segments`."""
    files: list[ManifestEntry]
    """The files outside of the partitions."""


class AsOfReason(TypedDict):
    """The reason for which a log ends where it ends."""

    code: CutReason
    """The code of the reason."""
    text: str
    """A sentence for people."""


class AsOfSpoiled(TypedDict):
    """The reason for which a log cannot be what it was at the moment."""

    code: SpoilCode
    """The code of the reason."""
    text: str
    """A sentence for people."""


class AsOfPartition(PartitionPlace):
    """A partition as of a moment."""

    error: str | None
    """The error for which the partition could not be read; null if there is none."""
    log_start_offset: Count
    """The log start offset."""
    log_end_before: Count
    """The log end offset of the original."""
    log_end_offset: Count
    """The log end offset of the copy."""
    reason: AsOfReason | None
    """The reason for which the log ends there; null if the partition could not be read."""
    older_batches: Count
    """Batches behind the cut that are older than the moment by more than a minute."""
    spoiled: AsOfSpoiled | None
    """The reason for which the log cannot be what it was at the moment; null if it can."""


class AsOfClamped(TypedDict):
    """A committed offset above the end of its partition, which becomes that end."""

    group: str
    """The name of the group."""
    topic: str
    """The topic of the offset."""
    partition: Count
    """The partition of the offset."""
    offset: Count
    """The offset that the group had committed."""
    clamped_to: Count
    """The offset that the group has in the copy."""


class AsOfTransaction(TypedDict):
    """The part of a transaction that is open at the cut of its partition."""

    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    producer_id: Count
    """The id of the producer."""
    first_offset: Count
    """The first offset of the transaction."""
    commits: bool | None
    """Whether a broker that starts commits the transaction, or aborts it; null if no coordinator here knows of it."""


class AsOfDocument(TypedDict):
    """The document that `clean --until --json` prints."""

    schema: Literal["logcleaner.as_of/1"]
    """The name of this schema."""
    dry_run: bool
    """True if no copy was to be written."""
    until_ms: int | None
    """The moment, epoch ms; null if a file gave the offsets."""
    output: str | None
    """The directory of the copy; null of a dry run."""
    partitions: list[AsOfPartition]
    """All partitions."""
    clamped: list[AsOfClamped]
    """The committed offsets that are clamped."""
    open_transactions: list[AsOfTransaction]
    """The transactions that are open at the cuts."""
