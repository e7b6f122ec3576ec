"""The documents of commands that look: ``logcleaner.topics/1``, ``lookup/1``, ``owners/1`` and ``config/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import (
    Count,
    KindSize,
    LayerTitle,
    PartitionPlace,
    Positive,
    Ratio,
    RemovalForecast,
    RunwayDocument,
)
from cleaner.engine.lookup import LogPlace
from cleaner.engine.space import SpaceKind
from policies.owners.holdings import OwnerState
from storage.log.search import LookupOutcome, StepBasis, StepKind


class TopicsPartition(PartitionPlace):
    """A partition. If the partition could not be read, unknown values are null."""

    cleanup_policy: str | None
    """`delete`, `compact`, `compact,delete`; empty if it is empty, or unknown."""
    segments: Count | None
    """The number of segments."""
    bytes: Count | None
    """The size of the `.log` files."""
    log_start_offset: int | None
    """The first offset that consumers can read."""
    log_end_offset: int | None
    """The offset that the next record gets."""
    dirty_ratio: Ratio | None
    """The share of dirty bytes in what can be compacted; null if the partition is not compacted."""
    next_expiry_ms: int | None
    """The time from which the oldest segment may be deleted, epoch ms; `now` if it may be deleted already, also by size
    or by the log start offset; null if no time is known from which it may.
    """
    error: str | None
    """Why the partition cannot be read, or why the last cleaning failed, if the files have not changed since; null if
    neither.
    """
    files: Count | None
    """The number of files in the partition directory, which counts itself; null if not read."""
    apparent_bytes: Count | None
    """The sum of the sizes of these files: what `du --apparent-size` prints for the directory."""
    disk_bytes: Count | None
    """The space that the blocks of these files take: what `du` prints for the directory."""
    kinds: dict[SpaceKind, KindSize] | None
    """The files by kind. The keys are as in `log_dirs[].kinds`. Null if not read."""
    removals: list[RemovalForecast] | None
    """When the `.deleted` files may be unlinked, by moment; empty if there is none, or if logcleaner leaves them to a
    broker. Null if nobody looked.
    """


class TopicsOther(TypedDict):
    """A file, or a directory with everything in it."""

    name: str
    """The path, seen from the log dir."""
    files: Count
    """The number of files."""
    apparent_bytes: Count
    """The sum of their sizes."""
    disk_bytes: Count
    """The space that their blocks take."""


class TopicsLogDir(TypedDict):
    """A log dir."""

    path: str
    """The path of the log dir."""
    whole: bool
    """False if only the directories of the topics that `--topic` names count."""
    files: Count
    """The number of files in the log dir, directories among them."""
    apparent_bytes: Count
    """The sum of their sizes: what `du --apparent-size` prints. From coreutils 9.2 on, `du` leaves the kind
    `directories` out.
    """
    disk_bytes: Count
    """The space that their blocks take: what `du` prints."""
    kinds: dict[SpaceKind, KindSize]
    """The files by kind: `segments` (`.log`), `indexes`, `snapshots`, `deleted` (`.deleted` files), `cleaned`, `swap`,
    `delete_dirs`, `stray_dirs`, `future_dirs` (files in directories with these suffixes), `cluster_metadata`,
    `metadata` (checkpoints, `meta.properties` and such), `logcleaner` (its own files), `directories` (themselves),
    `others`.
    """
    others: list[TopicsOther]
    """The largest entries of the kind `others`, ten at most, the largest first."""
    unread: list[str]
    """The paths that could not be read and are not counted, each with its cause."""


class TopicsLargest(TypedDict):
    """A file."""

    path: str
    """The last name of the file."""
    pid: Count
    """The process that keeps the file; of several processes the one with the smallest number."""
    command: str
    """The name of that process."""
    processes: Positive
    """The number of processes that keep the file."""
    apparent_bytes: Count
    """The size of the file."""
    disk_bytes: Count
    """The space that the blocks of the file take."""


class TopicsUnlinked(TypedDict):
    """Files without a name that a process keeps open or mapped. `du` does not see them."""

    files: Count
    """The number of files."""
    apparent_bytes: Count
    """The sum of their sizes."""
    disk_bytes: Count
    """The space that their blocks take."""
    hidden_processes: Count | None
    """The number of processes that this user may not look into; null if /proc cannot be read."""
    largest: list[TopicsLargest]
    """The largest by their blocks, ten at most, the largest first."""


class TopicsFileSystem(TypedDict):
    """A file system."""

    log_dirs: list[str]
    """The log dirs on it."""
    size_bytes: Count
    """The size of the file system."""
    used_bytes: Count
    """The space that files take."""
    free_bytes: Count
    """The free space, for an ordinary user."""
    unlinked: TopicsUnlinked
    """Files without a name that a process keeps open or mapped. `du` does not see them."""


class TopicsDocument(TypedDict):
    """The document that `topics --json` prints."""

    schema: Literal["logcleaner.topics/1"]
    """The name of this schema."""
    now: int
    """The moment that the plan was made for, epoch ms."""
    partitions: list[TopicsPartition]
    """The partitions, by log dir and name."""
    log_dirs: list[TopicsLogDir]
    """The log dirs, and the space that they take."""
    file_systems: list[TopicsFileSystem]
    """The file systems of the log dirs."""
    runway: NotRequired[list[RunwayDocument]]
    """How long each file system of the log dirs lasts, if its logs go on being written as in the last 7 days and
    what may be deleted is. Only of a look that changes nothing.
    """


class LookupTargetAsked(TypedDict):
    """The target of the lookup: one of the three is not null."""

    offset: int | None
    """An offset."""
    timestamp_ms: int | None
    """A timestamp, epoch ms."""
    place: LogPlace | None
    """A place of the log."""


class LookupBatch(TypedDict):
    """The batch at which a broker begins to read."""

    file: str
    """The path of the .log."""
    segment_base_offset: int
    """The base offset of the segment."""
    position: Count
    """The byte of the .log at which the batch begins."""
    bytes: Count
    """The size of the batch."""
    base_offset: int
    """The offset of the first record, or of the first record before compaction."""
    last_offset: int
    """The offset of the last record, or of the last record before compaction."""
    max_timestamp_ms: int
    """The largest timestamp of the records, epoch ms; -1 if they have none."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """The codec of the records."""
    magic: Literal[0, 1, 2]
    """The version of the record format."""
    leader_epoch: int
    """The leader epoch; -1 without one."""
    is_control: bool
    """Whether the batch holds control records: markers of transactions."""


class LookupHeader(TypedDict):
    """A header."""

    key: str | None
    """The key as text or base64."""
    keyEncoding: str | None
    """How the key is written."""
    value: str | None
    """The value as text or base64, or null."""
    valueEncoding: str | None
    """How the value is written; null without a value."""


class LookupRecord(TypedDict):
    """The content of the record. Keys and values are as in `export`."""

    key: str | None
    """The key, as text or base64; null if there is none."""
    keyEncoding: Literal["utf-8", "base64"] | None
    """How the key is written; null if there is none."""
    value: str | None
    """The value, as text or base64; null if there is none."""
    valueEncoding: Literal["utf-8", "base64"] | None
    """How the value is written; null if there is none."""
    headers: list[LookupHeader]
    """The headers, each with key, keyEncoding, value and valueEncoding."""


class LookupStepTaken(TypedDict):
    """One look at one file."""

    step: StepKind
    """The kind of the step."""
    source: StepBasis
    """What the step rests on: an entry of an index, an index whose entries all lie higher, a missing index file, an
    entry that leads to no batch, the file time, headers of batches, or the names of the files.
    """
    file: str
    """The path of the file that was looked at."""
    base_offset: int
    """The base offset of the segment."""
    entry: int | None
    """The number of the entry in the index, from 0; of the segment map, the number of the segment."""
    position: int | None
    """The byte of this file at which the entry or the batch begins; null if nothing was found."""
    offset: int | None
    """The offset that the entry names, or the base offset of the batch."""
    timestamp_ms: int | None
    """The timestamp that was found, epoch ms."""
    leads_to: int | None
    """The byte of the .log from which the next step goes on; null if the step leads to none."""
    looked_at: Count
    """How many entries, batches or segments were looked at."""
    bytes_read: Count
    """The bytes that were read for this step."""


class LookupDocument(TypedDict):
    """The document that `lookup --json` prints."""

    schema: Literal["logcleaner.lookup/1"]
    """The name of this schema."""
    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    directory: str
    """The path of the partition directory."""
    target: LookupTargetAsked
    """What was looked up: one of the three is not null."""
    outcome: LookupOutcome
    """The kind of answer. below_start and beyond_end: a broker answers OFFSET_OUT_OF_RANGE; none_as_late: a broker
    answers offset -1.
    """
    error: str | None
    """Why the offset is out of range, in Kafka's words; null if it is in range."""
    log_start_offset: int
    """The first offset that consumers can read."""
    log_end_offset: int | None
    """The offset that the next record gets; null if the search ended before."""
    offset: int | None
    """The offset of the first record that was asked for, or of the log start or the log end. Null if there is none."""
    timestamp_ms: int | None
    """The timestamp of that record, epoch ms; null if there is none."""
    batch: LookupBatch | None
    """The batch at which a broker begins to read; null if there is none."""
    record: LookupRecord | None
    """The content of that record; null if there is none. Keys and values as in `export`."""
    segments: Count
    """The number of segments of the partition."""
    bytes: Count
    """The size of all .log files."""
    bytes_read: Count
    """The bytes that were read of the files of the partition."""
    steps: list[LookupStepTaken]
    """Each step of the search, in order."""


class OwnersHeld(TypedDict):
    """The sums of `owners`."""

    bytes: NotRequired[Count]
    """The bytes in `.log` files; the bytes of a batch are shared out among its records."""
    dirty_bytes: NotRequired[Count]
    """The bytes at and above the first dirty offset, which no cleaner has read."""
    superseded_bytes: NotRequired[Count]
    """The bytes that compaction drops: those of all records except the latest of each key."""
    records: NotRequired[Count]
    """The number of records, tombstones included."""
    superseded_records: NotRequired[Count]
    """The records that are not the latest of their key, or of an aborted transaction."""
    live_keys: NotRequired[Count]
    """The keys whose latest record has a value."""
    tombstones: NotRequired[Count]
    """The keys whose latest record is a tombstone."""
    first_record_ms: NotRequired[int | None]
    """The least timestamp of the records, epoch ms; null without a record."""
    last_record_ms: NotRequired[int | None]
    """The greatest timestamp of the records, epoch ms; null without a record."""


class OwnersHeldTopic(OwnersHeld):
    """The holdings of a group of one topic."""

    topic: NotRequired[str | None]
    """The topic of the offsets; null for the records of the group itself."""
    expired: NotRequired[Count]
    """The offsets that a broker removes at its next check."""


class OwnersOwner(OwnersHeld):
    """A group or a transactional id."""

    name: NotRequired[str]
    """The group id or the transactional id."""
    state: NotRequired[OwnerState]
    """The state that the records show. Of a group: `active`, `empty` (no members), `no group` (offsets alone), `dead`
    (nothing but tombstones and what they superseded). Of a transactional id: its last transaction, or `unused`, `dead`.
    `unknown` if that cannot be decoded.
    """
    protocol: NotRequired[str]
    """`consumer`, `share`, `streams`; of a classic group its protocol type; empty if not known."""
    members: NotRequired[Count | None]
    """The number of members of a group; null if not known."""
    last_ms: NotRequired[int | None]
    """The time of the last commit of a group, of the last update of a transactional id, epoch ms; null if unknown."""
    expired: NotRequired[Count]
    """The offsets that a broker removes at its next check; 1 for a transactional id that it removes."""
    topics: NotRequired[list[OwnersHeldTopic]]
    """The parts of a group, the largest first; empty for a transactional id."""


class OwnersOther(TypedDict):
    """One kind of records without an owner."""

    what: NotRequired[str]
    """The kind, in words."""
    records: NotRequired[Count]
    """The number of records."""
    bytes: NotRequired[int]
    """The bytes of these records in the `.log` files."""


class OwnersPartition(TypedDict):
    """A partition."""

    topic: NotRequired[str]
    """The topic's name."""
    partition: NotRequired[Count]
    """The number of the partition."""
    log_dir: NotRequired[str]
    """The path of the log dir that holds the partition."""
    error: NotRequired[str | None]
    """Why the partition could not be read; null if it was read."""
    bytes: NotRequired[Count]
    """The size of the `.log` files: the sum of the bytes of `owners` and `others`."""
    log_start_offset: NotRequired[int]
    """The first offset that consumers can read."""
    log_end_offset: NotRequired[int]
    """The offset that the next record gets."""
    first_dirty_offset: NotRequired[int]
    """The offset from which on no cleaner has read."""
    held: NotRequired[OwnersHeld]
    """The sums of `owners`."""
    owners: NotRequired[list[OwnersOwner]]
    """The groups or transactional ids, the largest first."""
    others: NotRequired[list[OwnersOther]]
    """The records that belong to no owner: transaction markers, records without a key, keys that cannot be decoded,
    bytes outside of records.
    """
    problems: NotRequired[list[str]]
    """A sentence for each thing that could not be read or decoded."""


class OwnersCause(TypedDict):
    """A cause."""

    code: NotRequired[str]
    """A blocker of `explain`, or one of docs/owners.md."""
    partition: NotRequired[int | None]
    """The number of the partition that the text is about; null for all partitions."""
    text: NotRequired[str]
    """The cause in a sentence or two."""
    remedy: NotRequired[str]
    """What would help."""
    bytes: NotRequired[Count]
    """The bytes that the cause keeps here, or brought here."""


class OwnersSum(TypedDict):
    """A topic."""

    topic: NotRequired[str]
    """The topic's name."""
    partitions: NotRequired[Count]
    """The number of partitions that were read."""
    bytes: NotRequired[Count]
    """The size of the `.log` files of these partitions."""
    superseded_bytes: NotRequired[Count]
    """The bytes that a compaction of the whole topic would drop."""
    causes: NotRequired[list[OwnersCause]]
    """The causes of the size of the topic, the one with the most bytes first."""


class OwnersDocument(TypedDict):
    """The document that `owners --json` prints."""

    schema: NotRequired[Literal["logcleaner.owners/1"]]
    """The name of this schema."""
    now: NotRequired[int]
    """The moment that the report was made for, epoch ms."""
    offsets_retention_minutes: NotRequired[int]
    """`offsets.retention.minutes` in force."""
    transactional_id_expiration_ms: NotRequired[int]
    """`transactional.id.expiration.ms` in force."""
    partitions: NotRequired[list[OwnersPartition]]
    """The partitions of `__consumer_offsets` and `__transaction_state`; of one that could not be read only its
    name and the error.
    """
    topics: NotRequired[list[OwnersSum]]
    """The topics with the causes of their sizes."""


class ConfigStated(TypedDict):
    """A value."""

    value: bool | int | float | str | None
    """The value that is stated, in Kafka's unit, such as ms or bytes; a list as one text with commas. Null if the
    key is not set.
    """
    text: str
    """The value in words: `7d`, `512MiB`, `no limit`."""
    layer: LayerTitle
    """The layer of configuration that states the value."""
    pattern: str | None
    """The name or glob of `[topics]` that states the value; null in other layers."""
    name: str
    """The key as written, such as `log.retention.hours` for `retention.ms`."""
    origin: str
    """The place in words: `server.properties line 12`."""
    file: str | None
    """The file that states the value, or the directory of the cluster metadata; null if no file does, as for
    `--set` and defaults.
    """
    line: Positive | None
    """The line of the file, from 1; null if it has no lines."""
    counts: bool
    """False if a rule excludes the value, whatever stronger layers state."""


class ConfigDiffering(TypedDict):
    """A value."""

    value: bool | int | float | str | None
    """The value that holds, in Kafka's unit, such as ms or bytes; a list as one text with commas. Null if the key
    is not set.
    """
    text: str
    """The value in words: `7d`, `512MiB`, `no limit`."""
    layer: LayerTitle
    """The layer of configuration that states the value."""
    pattern: str | None
    """The name or glob of `[topics]` that states the value; null in other layers."""
    name: str
    """The key as written, such as `log.retention.hours` for `retention.ms`."""
    origin: str
    """The place in words: `server.properties line 12`."""
    file: str | None
    """The file that states the value, or the directory of the cluster metadata; null if no file does, as for
    `--set` and defaults.
    """
    line: Positive | None
    """The line of the file, from 1; null if it has no lines."""


class ConfigKeyValue(ConfigDiffering):
    """A key and the value that holds."""

    key: str
    """Kafka's topic key, or the broker key if topics do not have the key."""
    default: bool | int | float | str | None
    """Kafka's default, or ours for a key of ours; null if there is none."""
    ours: bool
    """True for a key of logcleaner, which Kafka does not know."""
    stated: list[ConfigStated]
    """Every value that somebody stated, the strongest first."""


class ConfigUnknownKey(TypedDict):
    """A key."""

    key: str
    """The key as written."""
    value: str | None
    """The value as written; null if it has none."""
    origin: str
    """The place in words: `cluster metadata, topic orders`."""


class ConfigTopic(TypedDict):
    """A topic."""

    topic: str
    """The topic's name."""
    unknown_because: str | None
    """Why the topic's `cleanup.policy` counts as unknown, so that all records of the topic stay; null if it is
    known.
    """
    keys: list[ConfigKeyValue]
    """The keys of the topic."""
    unknown_keys: list[ConfigUnknownKey]
    """The values that the cluster metadata states by keys that logcleaner does not know, and ignores."""


class ConfigDocument(TypedDict):
    """The document that `config show --json` prints, and, with one key, `config explain --json`."""

    schema: Literal["logcleaner.config/1"]
    """The name of this schema."""
    files: list[str]
    """The configuration files that were read, and the directory of the cluster metadata."""
    log_dirs: list[str]
    """The paths of the log dirs that a run would work on."""
    keys: list[ConfigKeyValue]
    """The keys of the broker, and of topics without values of their own; empty with `--topic`."""
    topics: list[ConfigTopic]
    """The topics that `--topic` names."""
    differing_topics: NotRequired[dict[str, ConfigDiffering]]
    """With `config explain` without `--topic`: topic -> the other value that holds for the topic."""
