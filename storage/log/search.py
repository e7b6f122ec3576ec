"""Search a log by offset, by timestamp, or by one of the words that Kafka's ListOffsets takes for a timestamp.

A search answers as a broker does that opened the log after a clean stop, and tells the steps that led to the answer.

By offset:      the last segment that begins at or below the offset -> its offset index -> the batches from there on, to
                the first that reaches the offset; if none does, the segments behind.
By timestamp:   the first segment whose largest timestamp is as late -> its time index -> its offset index -> the
                batches from there on, to the first record that is as late. Only the first such segment is searched.

An offset index is a hint: where its entry leads to no such batch, the segment is read from its beginning. A time index
decides what is found: ``lookup`` believes it as a broker does, right or wrong. A caller that wants the records
themselves (``Log``, Spark, ``explain``) takes an entry only if its batch has the entry's timestamp, and else reads the
headers: so an absent, short or damaged time index hides nothing. One wrong entry cannot be told from a right one: it
has the true offset and timestamp of a batch, but an earlier batch has a later timestamp.

The end of the last segment may be torn, or change meanwhile: the log ends before bytes that are no batch.

Source: Kafka LocalLog.read, LogSegment.translateOffset, UnifiedLog.fetchOffsetByTimestamp,
LogSegment.findOffsetByTimestamp, FileRecords.searchForOffsetFromPosition, FileRecords.searchForTimestamp,
ListOffsetsRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import NamedTuple

from storage.directory import OpenFile
from storage.errors import CorruptBatch, InvalidRecord
from storage.log.read import IndexedEntry, floor_place, position_of, probing
from storage.names import FileKind
from storage.records import (
    Batch,
    BatchHeader,
    HeaderIterator,
    LegacyBatch,
    LegacyHeader,
    PositionedHeader,
    Record,
    iter_headers,
    read_batch,
)
from storage.records.v2 import iter_records
from storage.segment import Segment, reading

AnyHeader = BatchHeader | LegacyHeader

_Wish = Callable[[AnyHeader], bool]
_Choice = Callable[[Record], bool]


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
    """The number of the entry in the index, from 0 on."""
    position: int | None = None
    """The byte of this file at which the entry, or the batch, begins; None if nothing was found."""
    offset: int | None = None
    """The offset that the entry names, or the base offset of the batch."""
    timestamp_ms: int | None = None
    leads_to: int | None = None
    """The byte of the ``.log`` from which the next step goes on."""
    looked_at: int = 0
    """The number of entries, batches or segments."""
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
    """The byte at which the batch begins."""
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    compression: str
    magic: int
    leader_epoch: int
    is_control: bool
    """Whether the batch holds control records: markers of transactions."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The answer to one lookup."""

    outcome: LookupOutcome
    log_start_offset: int
    log_end_offset: int | None
    """The log end offset; None if the search ended before it."""
    steps: tuple[LookupStep, ...]
    batch: FoundBatch | None = None
    record: Record | None = None
    """The first record from the offset on; None if compaction left no such record in the batch."""

    @property
    def bytes_read(self) -> int:
        """The bytes that were read, without the listing of the directory."""
        return sum(step.bytes_read for step in self.steps)


class LogSearch:
    """The segments of one log, for one lookup."""

    def __init__(self, segments: Sequence[Segment], log_start_offset: int, *, trusts_times: bool = True) -> None:
        """Prepare.

        Args:
            segments: ascending; the last one is the active segment.
            log_start_offset: as the log dir's checkpoint says; the first base offset counts if that is greater.
            trusts_times: whether time indexes decide, as for a broker; else the batches do.
        """
        self._segments, self._trusts_times = segments, trusts_times
        self._start = max(log_start_offset, segments[0].base_offset) if segments else log_start_offset
        self._end: int | None = None if segments else self._start
        self._steps: list[LookupStep] = []

    def by_offset(self, offset: int) -> Lookup:
        """Find the batch with which a fetch from an offset begins. Raises: CorruptBatch, UnreadableFile."""
        if offset < self._start:
            return self._answer(LookupOutcome.BELOW_START)
        place = floor_place(self._segments, offset)
        self._note_names(place)
        for segment in self._segments[place:]:
            start = self._indexed(segment, offset)
            hit = self._scan(segment, start, lambda header: header.last_offset >= offset, lambda r: r.offset >= offset)
            if hit is not None:
                return self._answer(LookupOutcome.FOUND, segment, hit)
        end = self._end if self._end is not None else self._start
        return self._answer(LookupOutcome.LOG_END if offset == end else LookupOutcome.BEYOND_END)

    def by_timestamp(self, timestamp_ms: int) -> Lookup:
        """Find the first record at or behind a timestamp, epoch ms. Raises: CorruptBatch, UnreadableFile."""
        for segment in self._segments:
            largest = self._largest(segment)
            largest_ms = max(largest.timestamp_ms, largest.stated_ms if largest.timestamp_ms < 0 else -1)
            if largest_ms < 0:
                largest_ms = segment.mtime_ms
                self._steps[-1] = self._steps[-1]._replace(source=StepBasis.FILE_TIME, timestamp_ms=largest_ms)
            if largest_ms >= timestamp_ms:
                return self._first_as_late(segment, timestamp_ms)
        return self._answer(LookupOutcome.NONE_AS_LATE)

    def newest(self) -> Lookup:
        """Find the first record with the largest timestamp of all. Raises: CorruptBatch, UnreadableFile."""
        found = [(self._largest(segment), segment) for segment in self._segments]
        largest, segment = max(found, key=lambda pair: pair[0].timestamp_ms, default=(_Largest(-1, -1), None))
        if segment is None:
            return self._answer(LookupOutcome.NONE_AS_LATE)
        hit = self._scan(
            segment,
            self._indexed(segment, largest.offset),
            lambda header: header.max_timestamp_ms == largest.timestamp_ms,
            lambda record: record.timestamp_ms == largest.timestamp_ms,
        )
        if hit is not None and hit.batch.header.magic == 0:  # without timestamps it has no largest one
            hit = None
        return self._answer(LookupOutcome.FOUND if hit else LookupOutcome.NONE_AS_LATE, segment, hit)

    def start(self) -> Lookup:
        """Return the log start offset."""
        return self._answer(LookupOutcome.LOG_START)

    def end(self) -> Lookup:
        """Find the log end offset. Raises: UnreadableFile."""
        for segment in self._segments[-1:]:
            self._scan(segment, self._last_indexed(segment), lambda _: False, lambda _: False)
        return self._answer(LookupOutcome.LOG_END)

    def _first_as_late(self, segment: Segment, timestamp_ms: int) -> Lookup:
        start = self._indexed(segment, max(self._timed(segment, timestamp_ms), self._start))
        hit = self._scan(
            segment,
            start,
            lambda header: header.max_timestamp_ms >= timestamp_ms,
            lambda record: record.timestamp_ms >= timestamp_ms and record.offset >= self._start,
            needs_record=True,
        )
        return self._answer(LookupOutcome.FOUND if hit else LookupOutcome.NONE_AS_LATE, segment, hit)

    def _note_names(self, place: int) -> None:
        for segment in self._segments[place : place + 1]:
            self._steps.append(
                LookupStep(StepKind.SEGMENT_MAP, StepBasis.NAMES, segment.log.path, segment.base_offset, place, None,
                     segment.base_offset, looked_at=len(self._segments))
            )  # fmt: skip

    def _largest(self, segment: Segment) -> _Largest:
        """Find the largest timestamp as a broker knows it: for a closed segment by the time index alone.

        The time index of the active segment lags behind while a broker runs, and after a crash.
        """
        found, step = _Largest(-1, segment.base_offset), LookupStep(
            StepKind.LARGEST_TIMESTAMP, StepBasis.NO_INDEX, segment.log.path, segment.base_offset
        )  # fmt: skip
        with probing(segment, FileKind.TIME_INDEX) as probe:
            if probe is not None:
                entry = probe.last()
                step = step._replace(source=StepBasis.NO_ENTRY, path=probe.path)
                if entry is not None:
                    found = _Largest(entry.key, entry.value)
                    step = _of_entry(step, entry)._replace(timestamp_ms=entry.key, offset=entry.value)
                step = step._replace(looked_at=probe.looked_at, bytes_read=probe.bytes_read)
        self._steps.append(step)
        if not self._trusts_times:
            return _checked(segment, found)
        # without an offset index a broker makes both indexes anew; if only the time index is missing, it stays empty
        is_made_anew = FileKind.INDEX not in segment.files
        may_lag_behind = segment == self._segments[-1] and FileKind.TIME_INDEX in segment.files
        return self._larger(segment, found) if is_made_anew or may_lag_behind else found

    def _larger(self, segment: Segment, known: _Largest) -> _Largest:
        """Look for a larger timestamp in the batches behind the last entry of the offset index."""
        step, largest = self._steps.pop(), known

        def note(header: AnyHeader) -> bool:
            nonlocal largest
            if header.max_timestamp_ms > largest.timestamp_ms:
                largest = _Largest(header.max_timestamp_ms, header.last_offset)
            return False

        before = len(self._steps)
        self._scan(segment, self._last_indexed(segment), note, lambda _: False)
        scanned, self._steps[before:] = self._steps[before:], []
        bytes_read = step.bytes_read + sum(one.bytes_read for one in scanned)
        step = step._replace(bytes_read=bytes_read, looked_at=step.looked_at + scanned[-1].looked_at)
        if largest != known:
            step = step._replace(
                source=StepBasis.BATCHES, path=segment.log.path, entry=None, position=None,
                offset=largest.offset, timestamp_ms=largest.timestamp_ms,
            )  # fmt: skip
        self._steps.append(step)
        return largest

    def _timed(self, segment: Segment, timestamp_ms: int) -> int:
        """Return the offset up to which, by the time index, no record is later than a timestamp."""
        step = LookupStep(StepKind.TIME_INDEX, StepBasis.NO_INDEX, segment.log.path, segment.base_offset)
        offset = segment.base_offset
        with probing(segment, FileKind.TIME_INDEX) as probe:
            if probe is not None:
                entry = probe.floor(timestamp_ms)
                step = step._replace(source=StepBasis.NO_ENTRY, path=probe.path)
                if entry is not None:
                    offset = entry.value
                    step = _of_entry(step, entry)._replace(timestamp_ms=entry.key, offset=offset)
                step = step._replace(looked_at=probe.looked_at, bytes_read=probe.bytes_read)
        if step.timestamp_ms is not None and not self._trusts_times:
            fits = step.timestamp_ms <= timestamp_ms and _has_time(segment, offset, step.timestamp_ms)
            if not fits:
                step, offset = step._replace(source=StepBasis.BAD_ENTRY), segment.base_offset
        self._steps.append(step)
        return offset

    def _indexed(self, segment: Segment, offset: int) -> LookupStep:
        """Find an offset in the offset index. The base offset is not looked for, because no entry is as low."""
        step = self._offset_step(segment, lambda probe: probe.floor(offset) if offset > segment.base_offset else None)
        if step.offset is not None and step.offset > offset:  # entries that do not ascend
            step = self._steps[-1] = step._replace(source=StepBasis.BAD_ENTRY, leads_to=0)
        return step

    def _last_indexed(self, segment: Segment) -> LookupStep:
        return self._offset_step(segment, lambda probe: probe.last())

    def _offset_step(self, segment: Segment, choose: Callable[..., IndexedEntry | None]) -> LookupStep:
        step = LookupStep(StepKind.OFFSET_INDEX, StepBasis.NO_INDEX, segment.log.path, segment.base_offset, leads_to=0)
        with probing(segment, FileKind.INDEX) as probe:
            if probe is not None:
                entry = choose(probe)
                step = step._replace(source=StepBasis.NO_ENTRY, path=probe.path)
                if entry is not None:
                    step = _of_entry(step, entry)._replace(offset=entry.key, leads_to=entry.value)
                step = step._replace(looked_at=probe.looked_at, bytes_read=probe.bytes_read)
        self._steps.append(step)
        return step

    def _scan(
        self, segment: Segment, indexed: LookupStep, is_wanted: _Wish, is_chosen: _Choice, *, needs_record: bool = False
    ) -> _Hit | None:
        """Walk over the batches from where the offset index leads to, and note the step.

        Args:
            segment: to be scanned.
            indexed: the step that ``_offset_step`` noted last.
            is_wanted: tells by the header whether a batch is the one searched for.
            is_chosen: tells whether a record of the batch is the one searched for.
            needs_record: whether to go on behind a batch without such a record.
        """
        path, looked_at, next_offset = segment.log.path, 0, segment.base_offset
        hit: _Hit | None = None
        with reading(path) as descriptor:
            headers, bytes_read = self._headers(descriptor, segment, indexed)
            for found in _to_the_end(headers, is_active=segment.base_offset == self._segments[-1].base_offset):
                looked_at += 1
                if found.header.next_offset < next_offset and not is_wanted(found.header):
                    break  # as when a log is opened, offsets that go back end it
                next_offset = found.header.next_offset
                if is_wanted(found.header):
                    batch = read_batch(descriptor, path, found)
                    bytes_read += found.header.size_bytes
                    record = next((one for one in _one_by_one(batch) if is_chosen(one)), None)
                    if record is not None or not needs_record:
                        hit = _Hit(batch, record)
                        break
            bytes_read += headers.bytes_read
        if hit is None and segment.base_offset == self._segments[-1].base_offset:
            self._end = max(next_offset, self._start)
        self._steps.append(
            LookupStep(
                StepKind.SCAN, StepBasis.BATCHES, path, segment.base_offset, None, hit.batch.position if hit else None,
                hit.batch.base_offset if hit else None, hit.batch.header.max_timestamp_ms if hit else None,
                None, looked_at, bytes_read,
            )
        )  # fmt: skip
        return hit

    def _headers(self, descriptor: OpenFile, segment: Segment, indexed: LookupStep) -> tuple[HeaderIterator, int]:
        """Walk from the position of an entry, if its batch begins there; else from the beginning, and note that.

        Returns: the headers, and the number of bytes that the check of the entry read.
        """
        path, position = segment.log.path, indexed.leads_to or 0
        if not position:
            return iter_headers(descriptor, path), 0
        checked = iter_headers(descriptor, path, max(position, 0))
        found = None
        with suppress(CorruptBatch):
            found = next(checked, None) if position > 0 else None
        if found is None or found.header.last_offset != indexed.offset:
            self._steps[-1] = indexed._replace(source=StepBasis.BAD_ENTRY, leads_to=0)
            position = 0
        return iter_headers(descriptor, path, position), checked.bytes_read

    def _answer(self, outcome: LookupOutcome, segment: Segment | None = None, hit: _Hit | None = None) -> Lookup:
        batch = _found_batch(segment, hit.batch) if segment and hit else None
        return Lookup(outcome, self._start, self._end, tuple(self._steps), batch, hit.record if hit else None)


class SpecialTimestamp(IntEnum):
    """Timestamps that are words to a lookup. Source: Kafka ListOffsetsRequest."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class TimestampOffset(NamedTuple):
    """An offset found by time; ``timestamp_ms`` is its record's, -1 for the start or the end of the log."""

    timestamp_ms: int
    offset: int
    leader_epoch: int | None = None
    """The epoch of its batch. For the start or the end of the log, the epoch by ``leader-epoch-checkpoint``."""


def lookup_record(segments: Sequence[Segment], log_start_offset: int, timestamp_ms: int) -> TimestampOffset | None:
    """Find the first record at or behind a timestamp, or with the largest one; None if there is none.

    Args:
        segments: ascending.
        log_start_offset: as of ``LogSearch``.
        timestamp_ms: epoch ms, or ``SpecialTimestamp.MAX_TIMESTAMP``.

    Raises: CorruptBatch, UnreadableFile.
    """
    search = LogSearch(segments, log_start_offset, trusts_times=False)
    if timestamp_ms == SpecialTimestamp.MAX_TIMESTAMP:
        return _answer(search.newest())
    return _answer(search.by_timestamp(timestamp_ms))


class _Largest(NamedTuple):
    """The largest timestamp of a segment, -1 for none, and the last offset of the batch that has it."""

    timestamp_ms: int
    offset: int
    stated_ms: int = -1
    """The largest timestamp by the time index, right or wrong."""


class _Hit(NamedTuple):
    """The batch that a scan found, and the record in it."""

    batch: Batch | LegacyBatch
    record: Record | None


def _checked(segment: Segment, stated: _Largest) -> _Largest:
    """Look for a larger timestamp from the batch on that has the stated timestamp; in all batches if no batch has it.

    Raises: UnreadableFile.
    """
    fits = stated.timestamp_ms >= 0 and _has_time(segment, stated.offset, stated.timestamp_ms)
    found = stated if fits else _Largest(-1, segment.base_offset)
    for header in _readable_from(segment, found.offset):
        if header.max_timestamp_ms > found.timestamp_ms:
            found = _Largest(header.max_timestamp_ms, header.last_offset)
    return found._replace(stated_ms=stated.timestamp_ms)


def _readable_from(segment: Segment, offset: int) -> Iterator[AnyHeader]:
    """Yield the headers from the position in the offset index on, up to the first bytes that are no header. Raises:
    UnreadableFile.
    """
    with reading(segment.log.path) as descriptor, suppress(CorruptBatch):
        for found in iter_headers(descriptor, segment.log.path, position_of(descriptor, segment, offset)):
            yield found.header


def _has_time(segment: Segment, offset: int, timestamp_ms: int) -> bool:
    """Return whether the batch that reaches an offset has a timestamp as its largest one. Raises: UnreadableFile."""
    for header in _readable_from(segment, offset):
        if header.last_offset >= offset:
            has_offset = not isinstance(header, BatchHeader) or header.base_offset <= offset
            return has_offset and header.max_timestamp_ms == timestamp_ms
    return False


def _to_the_end(headers: HeaderIterator, *, is_active: bool) -> Iterator[PositionedHeader]:
    """Yield the headers; bytes that are no batch end the active segment. Raises: CorruptBatch in a closed one."""
    try:
        yield from headers
    except CorruptBatch:
        if not is_active:
            raise


def _found_batch(segment: Segment, batch: Batch | LegacyBatch) -> FoundBatch:
    header = batch.header
    return FoundBatch(
        segment.log.path,
        segment.base_offset,
        batch.position,
        header.size_bytes,
        batch.base_offset,
        header.last_offset,
        header.max_timestamp_ms,
        header.compression.name.lower(),
        header.magic,
        header.partition_leader_epoch,
        header.is_control,
    )


def _of_entry(step: LookupStep, entry: IndexedEntry) -> LookupStep:
    return step._replace(source=StepBasis.ENTRY, entry=entry.number, position=entry.position)


def _one_by_one(batch: Batch | LegacyBatch) -> Iterator[Record]:
    """Yield records one by one, so that damage behind the record that is searched for does no harm. Raises:
    CorruptBatch.
    """
    if isinstance(batch, LegacyBatch) or batch.header.compression or not batch.header.record_count:
        yield from batch.records()
        return
    try:
        yield from iter_records(batch.payload, batch.header)
    except InvalidRecord as error:
        raise CorruptBatch(batch.path, batch.position, str(error)) from error


def _answer(found: Lookup) -> TimestampOffset | None:
    if found.record is None or found.batch is None:
        return None
    epoch = found.batch.leader_epoch
    return TimestampOffset(found.record.timestamp_ms, found.record.offset, epoch if epoch >= 0 else None)
