"""``logcleaner.lookup/1``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cleaner.documents.parts import Count
from cleaner.engine.lookup.looking import LogPlace
from storage.log.search.steps import LookupOutcome, StepBasis, StepKind


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
    """The path of its .log."""
    segment_base_offset: int
    """The base offset of its segment."""
    position: Count
    """The byte of the .log at which it begins."""
    bytes: Count
    """Its size."""
    base_offset: int
    """The offset of its first record, or of the first one there was before compaction."""
    last_offset: int
    """The offset of its last record, or of the last one there was before compaction."""
    max_timestamp_ms: int
    """The largest timestamp of its records, epoch ms; -1 if they have none."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """The codec of its records."""
    magic: Literal[0, 1, 2]
    """The version of the record format."""
    leader_epoch: int
    """The leader epoch; -1 if it has none."""
    is_control: bool
    """Whether it holds control records: markers of transactions."""


class LookupHeader(TypedDict):
    """A header."""

    key: str | None
    """The key as text or base64."""
    keyEncoding: str | None
    """How it is written."""
    value: str | None
    """The value as text or base64, or null."""
    valueEncoding: str | None
    """How it is written; null without a value."""


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
    """What was looked at."""
    source: StepBasis
    """What the step rests on: an entry of an index, no entry that is as low, no index file, an entry that leads
    to no such batch, the file time, headers of batches, or the names of the files.
    """
    file: str
    """The path of the file that was looked at."""
    base_offset: int
    """The base offset of its segment."""
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
    """The kind of answer. below_start and beyond_end: a broker answers OFFSET_OUT_OF_RANGE; none_as_late: a
    broker answers offset -1.
    """
    error: str | None
    """Why an offset is out of range, in Kafka's words; null if it is not."""
    log_start_offset: int
    """The first offset that consumers can read."""
    log_end_offset: int | None
    """The offset that the next record gets; null if the search did not come that far."""
    offset: int | None
    """The offset of the first record that is asked for; of the log start or the log end. Null if there is none."""
    timestamp_ms: int | None
    """The timestamp of that record, epoch ms; null if there is none."""
    batch: LookupBatch | None
    """The batch at which a broker begins to read; null if there is none."""
    record: LookupRecord | None
    """What that record holds; null if there is none. Keys and values as in `export`."""
    segments: Count
    """The number of segments of the partition."""
    bytes: Count
    """The size of all .log files."""
    bytes_read: Count
    """The bytes that were read of the files of the partition."""
    steps: list[LookupStepTaken]
    """Each step of the search, in order."""
