"""The anomalies that a check of files can see: facts about bytes, without a judgement. ``policies.findings`` judges."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import NamedTuple

from storage.names import FileKind


class Anomaly(StrEnum):
    """The kinds of anomalies in the files of one segment."""

    # of a .log
    CRC = auto()
    """A batch whose checksum does not agree with its bytes."""
    UNREADABLE = auto()
    """Bytes between two batches that are no batch."""
    HEADER = auto()
    """A batch with a right checksum, whose header contradicts itself."""
    RECORDS = auto()
    """A batch with a right checksum, whose records do not parse."""
    OFFSET_BACK = auto()
    """A batch that does not begin behind the one before it."""
    BELOW_BASE = auto()
    """A batch that begins below the segment's base offset."""
    BEYOND_NEXT = auto()
    """A batch that reaches into the next segment."""
    OVERFLOW = auto()
    """A batch too far from the base offset for the 31 bits of an index entry."""
    TAIL = auto()
    """Bytes at the end that are no whole batch."""
    ZERO_TAIL = auto()
    """Zeros at the end."""

    # of a .index
    ENTRY_CUT = auto()
    """Bytes at the end of an index that are no whole entry."""
    ENTRY_ORDER = auto()
    """An entry of an offset index that does not follow the one before it."""
    ENTRY_BEYOND = auto()
    """An entry of an offset index that leads behind the end of the log."""
    ENTRY_ASTRAY = auto()
    """An entry of an offset index that leads to no batch start."""
    ENTRY_SKIPS = auto()
    """An entry of an offset index whose offset lies before the batch that it leads to."""
    ENTRY_OFFSET = auto()
    """An entry of an offset index with an offset at which no batch of its stretch ends."""
    ENTRIES_ZERO = auto()
    """Zeros behind the entries."""
    ENTRIES_FEW = auto()
    """An offset index without an entry for more than a mebibyte of batches."""

    # of a .timeindex
    TIME_ORDER = auto()
    """An entry of a time index that does not follow the one before it."""
    TIME_BEYOND = auto()
    """An entry of a time index whose offset lies behind the end of the log."""
    TIME_SKIPS = auto()
    """An entry of a time index with records before it that are later than it says."""
    TIME_UNKNOWN = auto()
    """An entry of a time index with a timestamp that no batch up to there has."""
    TIME_END = auto()
    """A time index of which the last entry is not the segment's largest timestamp."""
    TIMES_ZERO = auto()
    """Zeros behind the entries."""
    TIMES_CUT = auto()
    """Bytes at the end of a time index that are no whole entry."""

    # of a .txnindex
    TXN_FORMAT = auto()
    """A transaction index that does not parse."""


class SeenAnomaly(NamedTuple):
    """One anomaly of a file of a segment."""

    anomaly: Anomaly
    kind: FileKind
    """The file."""
    position: int
    """Byte in that file."""
    offset: int | None
    """Offset in the log, as far as one is concerned."""
    text: str
    """A sentence about what is there."""
