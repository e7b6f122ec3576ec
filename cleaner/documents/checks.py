"""The documents of commands that check.

``logcleaner.verify/1``, ``doctor/1``, ``diff/1``, ``digest/1``, ``replicas/1``, ``preflight/1`` and ``erasure/1``,
which ``prove-erased`` prints.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from cleaner.documents.parts import Count, FindingDocument, HarmName, Measure
from cleaner.engine.diff.record_diff import Cause
from cleaner.engine.prove_erased.places import FileContent, FileHome
from cleaner.engine.prove_erased.wanted import KeyEncoding
from policies.findings.repairs import RepairCode, RepairKind
from policies.preflight.start import Dirs, PartitionFate, StartStepKind
from policies.prove_erased import DepartureCode, Need


class RepairDocument(TypedDict):
    """A file."""

    path: str
    """Path of the file."""
    kind: RepairKind
    """The kind of the repair (docs/repair.md)."""
    findings: list[str]
    """The codes of the findings about the file."""
    code: RepairCode
    """Whether the file may be mended, or why not (docs/repair.md)."""
    text: str
    """A sentence for people."""
    bytes_before: int | None
    """The size of the file; null if the file was missing."""
    bytes_after: int | None
    """The size of the mended file; null if the file cannot be mended."""
    repaired: bool
    """True if the file was mended."""
    error: str | None
    """Why the file was not mended, although it may be; null if nothing failed."""


class TierKindDocument(TypedDict):
    """The findings of one code and harm."""

    code: str
    """The code of the findings."""
    harm: HarmName
    """The harm that they do."""
    findings: Count
    """Their number."""
    bytes: Count | None
    """The bytes that they are about; null if nobody knows."""
    remedy: str
    """What to do, in a few words."""


class VerifyTotals(TypedDict):
    """The sums of a check."""

    partitions: Count
    """Partitions."""
    segments: Count
    """Segments."""
    bytes: Count
    """The size of the `.log` files."""
    noted_bytes: Count
    """The bytes that an earlier, interrupted check had read."""
    seconds: Measure
    """How long the check took."""


class VerifyDocument(TypedDict):
    """The document that `verify --json` prints."""

    schema: Literal["logcleaner.verify/1"]
    """The name of this schema."""
    damaged: bool
    """True if a finding is worse than `waste`: exit status 4."""
    findings: list[FindingDocument]
    """The findings, worst first."""
    dry_run: NotRequired[bool]
    """Of `--repair`: true if nothing was changed."""
    remaining: NotRequired[Count]
    """Of `--repair`: the number of findings that no repair ends."""
    repairs: NotRequired[list[RepairDocument]]
    """Of `--repair`: the files that findings would have mended, by path."""
    kinds: NotRequired[list[TierKindDocument]]
    """Of `--tier`: the kinds of findings, worst first."""
    problems: list[str]
    """A line for each file that could not be read: exit status 1 if nothing is damaged."""
    totals: VerifyTotals
    """The sums of the check."""


class DoctorStart(TypedDict):
    """The next start of Kafka, as `preflight` tells it."""

    kafka: str
    """The version of Kafka."""
    starts: bool | None
    """Whether this Kafka starts; null if nobody can say, as beside a broker that runs."""
    text: str
    """A sentence: whether this Kafka starts, and what becomes of partitions."""


class DoctorFinding(FindingDocument):
    """A finding, and whether it is damage."""

    is_damage: bool
    """Whether the finding makes the exit status 4."""


class DoctorTotals(TypedDict):
    """Counts."""

    findings: Count
    """The number of findings."""
    damages: Count
    """The number of findings that are damage."""
    partitions: Count
    """The number of partitions that were examined."""
    walked_bytes: Count
    """The size of the segments whose batch headers were read."""
    unwalked_bytes: Count
    """The size of the segments whose batch headers were left out; `--deep` reads them."""
    verified_bytes: Count
    """The size of the segments that were read whole, with `--deep`."""


class DoctorTiered(TypedDict):
    """The segments that brokers copied to a tier, by the partitions of `__remote_log_metadata` in the log dirs."""

    partitions: Count
    """The number of partitions that have a segment there."""
    segments: Count
    """The number of segments that brokers read there."""
    bytes: Count
    """The size of their logs, as they were before a plugin packed them."""
    unfinished: Count
    """The number of segments whose copy or deletion began and did not end."""


class DoctorDocument(TypedDict):
    """The document that `doctor --json` prints: what is wrong with the log dirs, worst first. Each code has a section
    in docs/doctor.md.
    """

    schema: Literal["logcleaner.doctor/1"]
    """The name of this schema."""
    now: int
    """The moment of the examination, epoch ms."""
    log_dirs: list[str]
    """The paths of the log dirs."""
    start: DoctorStart | None
    """What the next start of Kafka does, as `preflight` tells it; null with `--topic`."""
    findings: list[DoctorFinding]
    """The findings, worst first."""
    tiered: NotRequired[DoctorTiered]
    """What brokers copied to a tier; absent if the metadata here tell of nothing."""
    totals: DoctorTotals
    """Counts."""


class DiffDamage(TypedDict):
    """The first damaged record."""

    offset: int
    """The offset of the record."""
    cause: str
    """What is wrong with the record."""


class DiffPartition(TypedDict):
    """A partition."""

    partition: str
    """`TOPIC-PARTITION`."""
    error: str | None
    """Why the partition cannot be compared; null if it was compared."""
    records: Count | None
    """Records before."""
    kept: Count | None
    """Records that stayed."""
    added: Count | None
    """Records that are new."""
    gone: dict[Cause, Count] | None
    """Cause → number of records that are gone for this cause (docs/diff.md)."""
    damaged: Count | None
    """Records that are gone or changed without a cause."""
    damage: DiffDamage | None
    """The first such record; null if there is none."""
    delete_retention_ms: int | None
    """The `delete.retention.ms` by which tombstones and markers were judged; null if not known."""
    since_ms: int | None
    """Since when a tombstone or marker without a delete horizon could have been due, epoch ms; null if not known."""


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


class DigestPartition(TypedDict):
    """The digest of a replica."""

    topic: str
    """The topic."""
    partition: int
    """The partition."""
    log_dir: str
    """The log dir that was read."""
    directory_id: str | None
    """The `directory.id` of that log dir; null if it has none."""
    topic_id: str | None
    """The topic id; null if it is not known."""
    start_offset: Count
    """The first offset of the digest: the log start offset."""
    end_offset: Count
    """The offset behind the digest: the high watermark, or an earlier offset."""
    high_watermark: Count
    """The high watermark; 0 if it is not known."""
    compacted: bool
    """Whether the topic is compacted: then only the latest value of each key counts."""
    leader_epochs: list[list[int]]
    """The leader epochs, each with the offset at which it begins."""
    records: Count
    """The records that count."""
    tombstones: Count
    """The latest records of their keys that are tombstones; they do not count."""
    size_bytes: Count
    """The bytes of all `.log` files."""
    error: str | None
    """Why the replica could not be read to the end; null if it was."""
    blocks: str
    """For each block with records: number, records and hash, as little-endian int64, uint32 and uint64, in base64."""


class DigestDocument(TypedDict):
    """The file that `digest` writes."""

    schema: Literal["logcleaner.digest/1"]
    """The name of this schema."""
    now_ms: int
    """When it was written, epoch ms."""
    tool: str
    """The name and version of the tool that wrote it."""
    block_offsets: Count
    """The number of offsets in a block."""
    partitions: list[DigestPartition]
    """The partitions of the log dirs."""


class ReplicasDivergence(TypedDict):
    """The first difference of the replicas of a partition."""

    first_offset: int
    """The difference lies at this offset or behind it."""
    last_offset: int
    """The difference lies at this offset or in front of it."""
    cause: str
    """What differs."""
    groups: list[list[str]]
    """The places that agree there; the most frequent state first."""


class ReplicasPartition(TypedDict):
    """A partition that two places or more have."""

    topic: str
    """The topic."""
    partition: int
    """The partition."""
    places: list[str]
    """The log dirs and files of digests that have it."""
    start_offset: Count
    """The first offset that was compared."""
    end_offset: Count
    """The offset behind the last one that was compared: the lowest high watermark."""
    records: Count
    """The records that were compared, of one replica."""
    divergence: ReplicasDivergence | None
    """The first difference; null if the replicas agree."""
    errors: list[str]
    """A line for each replica that could not be read to the end."""
    not_compared: str | None
    """Why the replicas could not be compared; null if they were."""


class ReplicasDocument(TypedDict):
    """The document that `diff --replicas --json` prints."""

    schema: Literal["logcleaner.replicas/1"]
    """The name of this schema."""
    damaged: bool
    """True if committed records differ, or a replica cannot be read: exit status 4."""
    partitions: list[ReplicasPartition]
    """The partitions that two places or more have."""
    single: list[str]
    """The partitions that only one place has."""


class PreflightRefusal(TypedDict):
    """A place, and why the start fails there or may fail."""

    path: str
    """The file or directory."""
    exception: str
    """The class of Kafka's exception, without its package."""
    cause: str
    """The cause, in words."""


class PreflightUnplaced(TypedDict):
    """A partition that lies in no log dir."""

    topic: str
    """The topic."""
    partition: int
    """The partition."""


class PreflightFailure(TypedDict):
    """A failure."""

    file: str
    """The file, seen from the log dir."""
    exception: str
    """The class of Kafka's exception, without its package."""
    cause: str
    """The cause, in words."""


class PreflightStep(TypedDict):
    """One thing that the start does."""

    kind: StartStepKind
    """`recover`: a segment is read whole and indexed again; `rebuild`: an index is made anew; `truncate`: records
    are lost; `split`; `rename`: `.swap` or `-future` is taken off; `create`: made empty; `delete`: at once;
    `delete-later`: after the delay; `set-aside`: as `-stray`; `write`: a producer snapshot; `append-behind`:
    bytes that are no batch stay at the end of the log, and records that are appended behind them can never be
    read; `take-damaged`: a damaged or empty `.swap` file gets the place of a segment, and what it replaces is
    deleted; `cover`: an empty segment is made at the offset that a `.log` of an odd name states, and nobody reads
    that file, nor records of the offsets behind.
    """
    file: str
    """The file, seen from the partition directory; empty for the directory itself."""
    why: str
    """The reason, in words."""
    position: int | None
    """Of `truncate`: the byte from which on the file is cut; of `append-behind` and `take-damaged`: where the
    last sound batch ends; else null.
    """
    offset: int | None
    """Of `truncate`: the end of the log, or of the segment, behind it; of `append-behind`: the offset that the
    next record gets; of `take-damaged`: that behind the last sound batch; of `cover`: that of the empty segment;
    else null.
    """
    bytes: Count
    """The bytes that are read, cut, deleted or in the way."""
    zero_bytes: NotRequired[Count]
    """Of `truncate`: so many of these bytes are zeros at the end of the file, which are no records; else 0."""


class PreflightLost(TypedDict):
    """A partition whose records are lost."""

    topic: str
    """The topic."""
    partition: Count
    """The number of the partition."""
    log_start_offset: Count
    """The first offset of the partition."""
    end_offset: Count
    """The offset behind the last record."""
    set_aside: str | None
    """The `-stray` or `-delete` directory that holds the only copy; null without one."""


class PreflightMissing(TypedDict):
    """Records that are missing."""

    code: str
    """The code of the finding, as `doctor` reports it."""
    path: str
    """The file or directory."""
    offset: int | None
    """Where the gap begins, or the log ends; null if not known."""
    text: str
    """What is missing, in words."""
    remedy: str
    """What to do."""


class PreflightPartition(TypedDict):
    """A partition."""

    directory: str
    """The name of the directory before the start."""
    topic: str
    """The topic's name."""
    partition: int
    """The number of the partition."""
    fate: PartitionFate
    """`served`; `stray`: kept and not served; `deleted` after the delay; `future`: of a move between log dirs;
    `refuses`: stops the broker; `takes-offline`: its log dir goes offline.
    """
    log_start_offset: NotRequired[int | None]
    """The first offset behind the start; null if not known."""
    log_end_offset: NotRequired[int | None]
    """The end of the log behind the start; null if not known."""
    failed_file: NotRequired[str | None]
    """The file at which loading fails; null if it does not fail."""
    exception: NotRequired[str | None]
    """The class of Kafka's exception, without its package; null if nothing fails."""
    cause: NotRequired[str | None]
    """The cause, in words; null if nothing fails."""
    remedy: NotRequired[str | None]
    """What to do before the start, if the start sets the directory aside as `-stray` with records that no other broker
    has; else null.
    """
    steps: list[PreflightStep]
    """What happens to the files of the partition, in order."""


class PreflightLogDir(TypedDict):
    """A log dir."""

    path: str
    """The path of the log dir."""
    state: Dirs
    """Whether the broker serves the log dir."""
    clean_shutdown: bool
    """Whether the marker of a clean shutdown is there."""
    failures: list[PreflightFailure]
    """Each cause for which the log dir goes offline."""
    recovered_bytes: NotRequired[Count]
    """The bytes of the segments that are read batch by batch."""
    seconds: NotRequired[Measure]
    """The time that reading these bytes takes at the speed measured on this disk."""
    needed_bytes: NotRequired[Count]
    """The free space that the start needs, an estimate."""
    free_bytes: NotRequired[Count]
    """The free space of the file system."""
    steps: list[PreflightStep]
    """What happens to the log dir besides its partitions: new partition directories."""
    lost: NotRequired[list[PreflightLost]]
    """The partitions that had records by the checkpoints of this log dir, and have no directory; and those whose only
    directory was set aside.
    """
    missing: NotRequired[list[PreflightMissing]]
    """The findings of `doctor` which show that records of a partition are gone already, before the start."""
    partitions: list[PreflightPartition]
    """The partition directories, the metadata log first."""


class PreflightDocument(TypedDict):
    """The document that `preflight --json` prints: what the next start of Kafka will do to the log dirs."""

    schema: Literal["logcleaner.preflight/1"]
    """The name of this schema."""
    kafka: str
    """The version of Kafka that will start, such as `4.3`."""
    starts: bool
    """Whether the broker starts."""
    uid: NotRequired[int | None]
    """The id of the user that the broker is taken to run as: the first owner of a log dir who is not root, else root.
    """
    refusals: list[PreflightRefusal]
    """Each cause for which the broker does not start."""
    uncertain: list[PreflightRefusal]
    """Each cause for which the broker may not start, depending on the order in which it loads the partitions."""
    unplaced: list[PreflightUnplaced]
    """Partitions that begin empty, because they have no directory, in a log dir that Kafka chooses."""
    log_dirs: list[PreflightLogDir]
    """The log dirs, in the order in which they were named."""


class ErasureKey(TypedDict):
    """A key."""

    given: str
    """The key as it was given."""
    forms: list[str]
    """The bytes that were searched for, as hexadecimal digits."""
    payloads: list[str]
    """The bytes that were searched for behind any schema id, as hexadecimal digits."""
    files: Count
    """The files that hold the key."""
    values: Count
    """The records of the key with a value."""
    tombstones: Count
    """The records of the key without a value."""
    gone_by_ms: int | None
    """When no file holds the key any more, epoch ms; null if no moment is known, or no file holds it."""


class ErasureRecord(TypedDict):
    """A record."""

    offset: int
    """The offset of the record."""
    timestamp_ms: int
    """The timestamp of the record, epoch ms; -1 if it has none."""
    value_bytes: int | None
    """The size of the value; null for a tombstone."""
    horizon_ms: int | None
    """The delete horizon of the batch, epoch ms: a tombstone goes in the first round from then on. Null if no
    compaction has set one.
    """
    is_aborted: bool
    """True if the record belongs to an aborted transaction."""


class ErasureFound(TypedDict):
    """The records of one key in the file."""

    key: Count
    """The place of the key in `keys`, from 0."""
    values: Count
    """Records with a value."""
    tombstones: Count
    """Records without a value."""
    records: list[ErasureRecord]
    """The first 100 records."""
    gone_by_ms: int | None
    """When the file is gone, or no longer holds the key, epoch ms: the earliest moment if `needs` has anything. Null if
    no moment is known.
    """
    code: DepartureCode
    """How the file loses the key (docs/prove-erased.md)."""
    needs: list[Need]
    """What must happen before that, besides the passing of time."""
    text: str
    """A sentence for people."""


class ErasureUndecoded(TypedDict):
    """A part of the file that could not be decoded."""

    position: int | None
    """The byte at which the part begins; null for the whole file."""
    cause: str
    """Why the part could not be decoded."""


class ErasureFile(TypedDict):
    """A file."""

    topic: str | None
    """The topic, as the name of the directory says; null in no partition directory."""
    partition: int | None
    """The number of the partition; null in no partition directory."""
    path: str
    """The path of the file."""
    log_dir: str
    """The log dir in which it lies."""
    directory: FileHome
    """The kind of directory in which it lies."""
    content: FileContent
    """What the file holds, by its name: batches of records, no keys (an index, a checkpoint), or unknown content."""
    result: Literal["clear", "found", "undecoded", "unread", "no_keys"]
    """The result: searched without a key, with a key, not decoded in full, not read, or without keys by its kind."""
    bytes: Count
    """The size of the file when it was searched."""
    sha256: str | None
    """The SHA-256 of these bytes; null if they were not read."""
    ranges: list[Annotated[list[int], Field(min_length=2, max_length=2)]]
    """The bytes that were read."""
    records: Count
    """The records that were compared."""
    found: list[ErasureFound]
    """The keys that were found."""
    undecoded: list[ErasureUndecoded]
    """The parts that could not be decoded."""
    error: str | None
    """Why the file could not be read."""


class ErasureTotals(TypedDict):
    """Totals."""

    files: Count
    """All files."""
    searched: Count
    """The files that were read."""
    found: Count
    """The files that hold a key."""
    undecoded: Count
    """The number of files with a part that could not be decoded."""
    unread: Count
    """The files that could not be read."""
    records: Count
    """The records that were compared."""
    bytes: Count
    """The bytes that were read."""


class ErasureDocument(TypedDict):
    """The document that `prove-erased --json` prints."""

    schema: Literal["logcleaner.erasure/1"]
    """The name of this schema."""
    version: str
    """The version of logcleaner that searched."""
    now: int
    """The moment to which the dates refer, epoch ms."""
    is_erased: bool
    """True if no file holds a key."""
    is_complete: bool
    """True if every file was read and decoded."""
    gone_by_ms: int | None
    """When no file holds a key any more, epoch ms: the earliest moment if `needs` has anything. Null if no moment is
    known, or no file holds a key.
    """
    needs: list[Need]
    """What must happen before that, besides the passing of time."""
    encoding: KeyEncoding
    """How the keys were given."""
    log_dirs: list[str]
    """The log dirs that were searched."""
    topics: list[str]
    """The globs of --topic; empty if every file was searched."""
    keys: list[ErasureKey]
    """The keys."""
    files: list[ErasureFile]
    """Every file, ascending by path."""
    limits: list[str]
    """What the proof does not cover."""
    totals: ErasureTotals
    """Totals."""
