"""The observations of one segment: anomalies, and the epochs, producers and transactions of its batches.

Facts about bytes, without a judgement. ``policies.findings`` judges. ``doctor`` reads the ends of the files and the
headers of batches, ``verify`` every byte. What was not read has no observation.
"""

from __future__ import annotations

from enum import StrEnum, auto
from typing import NamedTuple

from storage.names import FileKind
from storage.txn_index import AbortedTxn

DATA, COMMIT, ABORT = range(3)
"""The steps of a transaction: records were written, it was committed, it was aborted."""


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
    """A batch whose distance from the base offset exceeds the 31 bits of an index entry."""
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
    position: int | None
    """The byte in that file; None if it is not known."""
    offset: int | None
    """The offset in the log; None if the anomaly concerns none."""
    text: str
    """A sentence about the bytes found."""


def tail_seen(position: int, size_bytes: int, offset: int | None, *, is_zero: bool, cause: str = "") -> SeenAnomaly:
    """Return the anomaly behind the last batch of a ``.log``.

    Args:
        position: the byte behind the last batch.
        size_bytes: of the bytes behind that batch.
        offset: the offset behind the last batch, if it is known.
        is_zero: whether all these bytes are zeros.
        cause: why these bytes are no batch, if somebody looked.
    """
    what = "zeros, as log.preallocate leaves them"
    if not is_zero:
        what = "bytes that are no whole batch, as a write that was cut short leaves them" + (cause and f": {cause}")
    text = f"the file ends with {size_bytes:,} {what}"
    return SeenAnomaly(Anomaly.ZERO_TAIL if is_zero else Anomaly.TAIL, FileKind.LOG, position, offset, text)


class EpochRun(NamedTuple):
    """Neighbouring batches of one leader epoch."""

    epoch: int
    first_offset: int
    """Base offset of the first batch."""
    last_offset: int
    """Base offset of the last batch."""
    position: int
    """The position of the first batch in the ``.log``."""


class LastBatch(NamedTuple):
    """The last data batch of a producer in a segment."""

    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int


class TxnEvent(NamedTuple):
    """A step of a transaction."""

    offset: int
    producer_id: int
    what: int
    """DATA: the first batch here of a transaction, and the first one with records; COMMIT, ABORT."""
    has_records: bool
    position: int
    """The position of the batch in the ``.log``."""


class Gap(NamedTuple):
    """Offsets that no batch has."""

    lower_offset: int
    """The first of them."""
    base_offset: int
    """The first one behind them."""
    position: int
    """The position of the batch behind them."""


class CheckedSegment(NamedTuple):
    """The contents of the files of one segment, as far as a check needs them."""

    base_offset: int
    size_bytes: int
    """Bytes of the ``.log`` that were read."""
    end_position: int
    """The byte behind the last sound batch."""
    next_offset: int
    """The offset behind the last sound batch; the base offset without one."""
    largest_ms: int
    """The largest timestamp, epoch ms; -1 without one."""
    seen: tuple[SeenAnomaly, ...]
    missing: tuple[FileKind, ...]
    """The index files that every segment has and that this segment lacks."""
    epochs: tuple[EpochRun, ...]
    producers: dict[int, LastBatch]
    """The last data batch of each producer."""
    events: tuple[TxnEvent, ...]
    aborted: tuple[AbortedTxn, ...]
    """Entries of the transaction index, as far as they parse."""
    gap: Gap | None
    """The first gap between two batches, or before the first one."""
    gaps: int
    is_full: bool
    """Whether every batch has all the records that its offsets speak of."""
    is_damaged: bool
    """Whether a part of the ``.log`` was not understood, or out of order, so that the rest may lack something."""
    batches: int = 0
    empty_batches: int = 0
    """Batches without a record that are no markers: compaction leaves them."""
    empty_bytes: int = 0
