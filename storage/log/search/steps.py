"""The answer to a lookup, and the steps that led to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from storage.records import Record


class StepKind(StrEnum):
    """The closed list of steps (docs/lookup.md)."""

    SEGMENT_MAP = "segment_map"
    """The choice of the segment that may hold the offset, by the names of the files."""
    LARGEST_TIMESTAMP = "largest_timestamp"
    """The largest timestamp of one segment."""
    TIME_INDEX = "time_index"
    OFFSET_INDEX = "offset_index"
    SCAN = "scan"
    """The headers of batches, one after the other, and the records of the batch that was found."""


class StepBasis(StrEnum):
    """The closed list of reasons for the result of a step."""

    ENTRY = "entry"
    """An entry of an index."""
    NO_ENTRY = "no_entry"
    """The index has no entry that is small enough: the step leads to the beginning of the segment."""
    NO_INDEX = "no_index"
    """The file is missing. A broker makes it anew when it starts."""
    BAD_ENTRY = "bad_entry"
    """The entry leads to no such batch: the step leads to the beginning of the segment."""
    FILE_TIME = "file_time"
    """No record has a timestamp: the file time of the ``.log`` counts."""
    BATCHES = "batches"
    """The headers of batches."""
    NAMES = "names"
    """The names of the files: no byte is read."""


class LookupStep(NamedTuple):
    """One look at one file. Cheap: a lookup by time takes one for each segment."""

    look: StepKind
    source: StepBasis
    path: Path
    """The file that was looked at."""
    base_offset: int
    """The base offset of the step's segment."""
    entry: int | None = None
    """The number of the entry in the index, from 0."""
    position: int | None = None
    """The byte of this file at which the entry, or the batch, begins; None if nothing was found."""
    offset: int | None = None
    """The offset that the entry names, or the base offset of the batch."""
    timestamp_ms: int | None = None
    leads_to: int | None = None
    """The byte of the ``.log`` from which the next step goes on."""
    looked_at: int = 0
    """How many entries, batches or segments."""
    bytes_read: int = 0


class LookupOutcome(StrEnum):
    """The closed list of answers."""

    FOUND = "found"
    LOG_END = "log_end"
    """The offset is the log end: nothing is there yet. For a timestamp: the log end was asked for."""
    LOG_START = "log_start"
    """The log start was asked for."""
    BELOW_START = "below_start"
    """An offset before the log start: a broker answers OFFSET_OUT_OF_RANGE."""
    BEYOND_END = "beyond_end"
    """An offset behind the log end: a broker answers OFFSET_OUT_OF_RANGE."""
    NONE_AS_LATE = "none_as_late"
    """No record has the timestamp, or a later one: a broker answers offset -1."""


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """The batch at which a broker begins to read."""

    path: Path
    segment_base_offset: int
    position: int
    """The byte at which it begins."""
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    compression: str
    magic: int
    leader_epoch: int
    is_control: bool
    """Whether it holds control records: markers of transactions."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The answer to one lookup."""

    outcome: LookupOutcome
    log_start_offset: int
    log_end_offset: int | None
    """The log end offset; None if the search did not come that far."""
    steps: tuple[LookupStep, ...]
    batch: FoundBatch | None = None
    record: Record | None = None
    """The first record that is asked for; None if compaction left none of the batch's from the offset on."""

    @property
    def bytes_read(self) -> int:
        """The bytes that were read, without the listing of the directory."""
        return sum(step.bytes_read for step in self.steps)
