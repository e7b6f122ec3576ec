"""Read as much of logs as tells where each one is cut, so that they are as they were at a moment. Nothing is written.

Newer:          the time indexes tell the first segment with a newer record; headers tell its first newer batch.
Transactions:   the headers of that segment up to the border, and a little behind it, because clocks differ. Nothing of
                a segment is read if the producer snapshots at its start and its end name no producer of transactions.
                An earlier segment is read, too, if it may hold a part of a transaction that goes.
Behind:         a log that is copied is read to its end: older batches there tell of a wrong clock, holes of compaction.
States:         ``__transaction_state`` is read from a day before the moment on.

The rule is in ``policies.as_of``. A restored tier hands it no ``__transaction_state``: a coordinator that starts there
need not end anything, because each transaction is in with its markers, or absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cleaner.engine.owners import OffsetBorders, Tally
from policies.as_of import (
    Cuts,
    MomentLog,
    OpenPart,
    StateRecord,
    TransactionPart,
    TransactionParts,
    TransactionState,
    cuts_as_of,
)
from policies.owners.groups import COMMITS
from policies.owners.holdings import Latest
from storage.errors import CorruptIndex, InvalidRecord, LogCleanerError
from storage.log.end import largest_unindexed_timestamp, next_offset_of
from storage.log.listing import Listing
from storage.log.producer_state import CorruptSnapshot, ProducerEntry, parse_snapshot
from storage.log.read import position_of, time_entries
from storage.log_dir import read_file
from storage.names import TopicPartition
from storage.records import Batch, BatchHeader, LegacyHeader, PositionedHeader, iter_headers, read_batch
from storage.records.v2 import OFFSET_MAX
from storage.scan.chunks import chunks
from storage.scan.extents import UNCUT_BYTES, Wanted, cut_partition
from storage.scan.files import read_in_turn
from storage.scan.partitions import OffsetRange
from storage.scan.segments import open_extent
from storage.scan.slices import Damage
from storage.schemas.coordinator import TRANSACTIONS_TOPIC, CoordinatorRecords
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.segment import Segment, reading
from storage.txn_index import AbortedTxn

OFFSETS: Final = "__consumer_offsets"
_STATES: Final = "__transaction_state"
_DAY_MS: Final = 86_400_000
"""No transaction is open for so long, unless it hangs (``transaction.max.timeout.ms`` is 15 minutes). A broker may have
forgotten a producer that was silent for so long (``producer.id.expiration.ms``)."""
_CLOCKS_DIFFER_MS: Final = 60_000
"""A part of a log that ends so long before a transaction began has no marker of it."""
_BEHIND_MS: Final = 10_000
_BEHIND_BYTES: Final = 1 << 20
"""Behind the border of a log in a tier, transactions are looked for so far."""
_STATUSES: Final = frozenset(TransactionState)


class CommittedOffset(NamedTuple):
    """The offset of a group that counts."""

    group: str
    topic_partition: TopicPartition
    offset: int
    key: bytes
    value: bytes


class _Place(NamedTuple):
    """The place of a border in a log."""

    segment: int
    """The number of the segment that holds it."""
    position: int
    """The byte of the first batch that is newer."""
    offset: int


class _Event(NamedTuple):
    """The batches of a transaction up to its marker, or the marker."""

    offset: int
    end: int
    """The offset behind it."""
    producer_id: int
    epoch: int
    time_ms: int
    commits: bool | None
    """What a marker says; None for data."""


class _Read:
    """The facts that were read in one segment."""

    def __init__(self, base_offset: int) -> None:
        self.events: list[_Event] = []
        self.states: list[StateRecord] = []
        self.older_batches = self.last_hole = 0
        self._next = base_offset
        self._open: dict[int, int] = {}

    def place(self, header: BatchHeader | LegacyHeader) -> None:
        """Note where offsets are missing in front of a batch, or in it."""
        if isinstance(header, BatchHeader) and (
            header.base_offset > self._next or header.record_count <= header.last_offset_delta
        ):
            self.last_hole = header.next_offset
        self._next = header.next_offset

    def end(self, base_offset: int) -> None:
        """Note whether offsets are missing in front of the next segment."""
        if self._next < base_offset:
            self.last_hole = base_offset

    def data(self, header: BatchHeader) -> None:
        """Take a batch of a transaction."""
        at = self._open.setdefault(header.producer_id, len(self.events))
        if at < len(self.events):
            self.events[at] = self.events[at]._replace(end=header.next_offset)
        else:
            self.events.append(_event(header, None))

    def marker(self, header: BatchHeader, *, commits: bool) -> None:
        """Take a marker."""
        self._open.pop(header.producer_id, None)
        self.events.append(_event(header, commits))


class LogToCut:
    """One log, of which as much is read as the decision needs."""

    def __init__(
        self, name: TopicPartition, listing: Listing, until_ms: int | None, span: tuple[int, int] | None = None,
        newest_ms: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Find the first batch that is newer than a moment.

        Args:
            name: of the partition.
            listing: the log; without a span it has a segment.
            until_ms: the moment, epoch ms; None if offsets are given: all is read then.
            span: log start and log end offset of a log on this machine, which is read to its end.
            newest_ms: the largest timestamps of segments, by base offset, as far as somebody knows them.

        Raises: CorruptBatch, UnreadableFile; as a store.
        """
        self.name, self._segments, self._until_ms = name, listing.segments, until_ms
        self._reads_on = span is not None
        self._start, self.end = span or (self._segments[0].base_offset, next_offset_of(self._segments[-1]))
        self._snapshots = {file.name.base_offset: file for file in listing.snapshots}
        self._newest_ms = dict(newest_ms or {})
        self._cut = self._found() if until_ms is not None else _Place(0, 0, self._start)
        self._read: dict[int, _Read] = {}
        self._first = max(min(self._cut.segment, len(self._segments) - 1), 0)
        if name.topic == _STATES:
            is_late = (number for number in range(self._first) if self._newest(number) >= hung_since_ms(until_ms))
            self._first = next(is_late, self._first)
        self._read_whole_states()

    @property
    def has_older_behind(self) -> bool:
        """Return whether a segment behind the border has no newer record: the border rests on a wrong clock, maybe."""
        until_ms = self._until_ms or 0
        return any(self._newest(number) <= until_ms for number in range(self._cut.segment + 1, len(self._segments)))

    @property
    def older_batches(self) -> int:
        """Return how many batches behind the border are older by more than clocks differ."""
        return sum(read.older_batches for read in self._read.values())

    @property
    def last_hole(self) -> int:
        """Return the offset behind the last place where offsets are missing, as far as was read; 0 if none is."""
        return max((read.last_hole for read in self._read.values()), default=0)

    @property
    def seen(self) -> MomentLog:
        """Return what is known of the log by now."""
        is_cut = self._until_ms is not None and self._cut.segment < len(self._segments)
        read = [self._read[number] for number in sorted(self._read)]
        states = tuple(record for one in read for record in one.states)
        return MomentLog(
            self.name, self._start, self.end, self._cut.offset if is_cut else None, self._parts(read), states
        )

    def needs_more(self, cut: int, oldest_ms: int | None) -> bool:
        """Return whether an earlier segment may hold more of what goes.

        Args:
            cut: where the log would end.
            oldest_ms: when the oldest transaction that goes began; None if none goes.
        """
        if not self._first:
            return False
        before_ms = max(map(self._newest, range(self._first)))
        may_hold_part = oldest_ms is not None and before_ms + _CLOCKS_DIFFER_MS >= oldest_ms
        return cut < self._segments[self._first].base_offset or may_hold_part

    def read_back(self) -> None:
        """Read one segment more. Raises: as the class."""
        self._first -= 1
        self._read_whole_states()

    def _found(self) -> _Place:
        for number, segment in enumerate(self._segments):
            if self._newest(number) > (self._until_ms or 0) and (cut := self._newer_in(number, segment)):
                return cut
        return _Place(len(self._segments), 0, self.end)

    def _newest(self, number: int) -> int:
        """Return the largest timestamp of a segment, by its time index and what that lacks, if nobody knows it."""
        segment = self._segments[number]
        if segment.base_offset not in self._newest_ms:
            found = None
            with suppress(CorruptIndex):
                found = segment.newest_entry()
            if found is None or found.timestamp_ms < 0:
                newest_ms = _largest(segment)
            else:
                newest_ms = max(found.timestamp_ms, largest_unindexed_timestamp(segment))
            self._newest_ms[segment.base_offset] = newest_ms
        return self._newest_ms[segment.base_offset]

    def _newer_in(self, number: int, segment: Segment) -> _Place | None:
        """Return the first batch of a segment that is newer; None if there is none after all."""
        until_ms = self._until_ms or 0
        entries = () if self._reads_on else time_entries(segment)
        older = [entry.offset for entry in entries if entry.timestamp_ms <= until_ms]
        with reading(segment.log.path) as file:
            start = position_of(file, segment, older[-1]) if older else 0
            found = self._first_newer(number, iter_headers(file, segment.log.path, start))
            if found and found.position == start > 0:  # the index was wrong
                found = self._first_newer(number, iter_headers(file, segment.log.path))
        return found

    def _first_newer(self, number: int, headers: Iterable[PositionedHeader]) -> _Place | None:
        base = self._segments[number].base_offset
        for position, header in headers:
            if header.next_offset > self.end:
                break
            if header.next_offset > self._start and header.max_timestamp_ms > (self._until_ms or 0):
                return _Place(number, position, header.base_offset if isinstance(header, BatchHeader) else base)
            base = header.next_offset
        return None

    def _read_whole_states(self) -> None:
        """Read segments from the first one wanted on; earlier ones as long as no snapshot tells what was open."""
        while self._first > 0 and self._producers_at(self._segments[self._first].base_offset) is None:
            self._first -= 1
        last = len(self._segments) if self._reads_on else min(self._cut.segment + 1, len(self._segments))
        for number in range(self._first, last):
            if number not in self._read:
                self._read[number] = self._walk(number)

    def _producers_at(self, offset: int) -> Sequence[ProducerEntry] | None:
        """Return the producers of a snapshot; None without one that is whole."""
        file = self._snapshots.get(offset)
        with suppress(CorruptSnapshot):
            data = read_file(file.path) if file else None
            return None if data is None or file is None else parse_snapshot(data, file.path)
        return None

    def _is_free(self, number: int) -> bool:
        """Return whether a segment surely has no batch of a transaction, by the snapshots around it."""
        segment = self._segments[number]
        end = self._segments[number + 1].base_offset if number + 1 < len(self._segments) else self.end
        before = self._producers_at(segment.base_offset) if number else ()
        behind = self._producers_at(end)
        if before is None or behind is None:
            return False
        if any(one.coordinator_epoch >= 0 or one.open_txn_first_offset is not None for one in (*before, *behind)):
            return False
        with reading(segment.log.path) as file:
            first = next(iter_headers(file, segment.log.path), None)
        return first is None or 0 <= self._newest(number) - first.header.max_timestamp_ms < _DAY_MS

    def _walk(self, number: int) -> _Read:
        """Read the headers of a segment, and the markers and the states of transactions in it."""
        segment, cut = self._segments[number], self._cut
        path, read, has_states = segment.log.path, _Read(segment.base_offset), self.name.topic == _STATES
        if not has_states and not (self._reads_on and number >= cut.segment) and self._is_free(number):
            return read
        since_ms = hung_since_ms(self._until_ms)
        with reading(path) as file:
            for found in iter_headers(file, path):
                position, header = found
                is_behind = (number, position) > (cut.segment, cut.position)
                if header.next_offset > self.end or (is_behind and not self._reads_on and self._is_far(found)):
                    break
                if is_behind and header.max_timestamp_ms < (self._until_ms or 0) - _CLOCKS_DIFFER_MS:
                    read.older_batches += 1
                read.place(header)
                if not isinstance(header, BatchHeader) or header.next_offset <= self._start:
                    continue
                if header.is_control or (has_states and header.max_timestamp_ms >= since_ms):
                    batch = read_batch(file, path, found)
                    assert isinstance(batch, Batch)
                    self._take(batch, read)
                elif header.is_transactional and header.has_producer_id:
                    read.data(header)
        if number + 1 < len(self._segments):
            read.end(self._segments[number + 1].base_offset)
        return read

    def _take(self, batch: Batch, read: _Read) -> None:
        """Take a marker, or states of transactions. Raises: CorruptBatch, InvalidRecord."""
        if not batch.header.is_control:
            batch.ensure_valid()
            read.states += _states_in(batch)
        elif marker := batch.first_txn_marker():
            read.marker(batch.header, commits=not marker.is_abort)

    def _is_far(self, found: PositionedHeader) -> bool:
        is_much_newer = found.header.max_timestamp_ms > (self._until_ms or 0) + _BEHIND_MS
        return is_much_newer or found.position > self._cut.position + _BEHIND_BYTES

    def _parts(self, read: Iterable[_Read]) -> tuple[TransactionPart, ...]:
        producers = self._producers_at(self._segments[self._first].base_offset) if self._first else ()
        parts = TransactionParts(
            TransactionPart(one.producer_id, one.epoch, first, one.last_timestamp_ms, first + 1)
            for one in producers or ()
            if (first := one.open_txn_first_offset) is not None
        )
        for event in (event for one in read for event in one.events):
            whose = event.producer_id, event.epoch
            if event.commits is None:
                parts.data(*whose, event.offset, event.end, event.time_ms)
            else:
                parts.marker(*whose, event.offset, event.time_ms, commits=event.commits)
        return (*parts.ended, *parts.open)


def hung_since_ms(until_ms: int | None) -> int:
    """Return the time before which a transaction that is still open began to hang; without a moment none did."""
    return -1 if until_ms is None else until_ms - _DAY_MS


def cuts_of(
    logs: dict[TopicPartition, LogToCut],
    hung_since: int = -1,
    failed: Callable[[TopicPartition, Exception], None] | None = None,
) -> Cuts:
    """Return where each log ends so that all are as of a moment.

    Args:
        logs: all logs; one that fails is taken out.
        hung_since: as of ``cuts_as_of``.
        failed: is told of a log that cannot be read; without it, the error is raised.

    Raises: as ``LogToCut``.
    """
    while True:
        seen = [log.seen for log in logs.values()]
        cuts = cuts_as_of(seen, hung_since)
        oldest_ms = min((ms for log in seen for ms in _gone_ms(log, cuts[log.name].offset, hung_since)), default=None)
        short = [log for name, log in logs.items() if log.needs_more(cuts[name].offset, oldest_ms)]
        if not short:
            return cuts
        for log in short:
            try:
                while log.needs_more(cuts[log.name].offset, oldest_ms):
                    log.read_back()
            except (LogCleanerError, OSError) as error:
                if failed is None:
                    raise
                failed(log.name, error)
                del logs[log.name]


def _gone_ms(log: MomentLog, cut: int, hung_since: int) -> Iterator[int]:
    """Yield the times of what is cut off of transactions, and of what is open."""
    for part in log.parts:
        marker = part.marker_offset
        if part.first_ms >= hung_since if marker is None else marker >= cut:
            yield part.first_ms
    yield from (record.time_ms for record in log.states if record.next_offset > cut)


def _event(header: BatchHeader, commits: bool | None) -> _Event:
    whose = header.producer_id, header.producer_epoch, header.max_timestamp_ms
    return _Event(header.base_offset, header.next_offset, *whose, commits)


def _largest(segment: Segment) -> int:
    with reading(segment.log.path) as file:
        return max((found.header.max_timestamp_ms for found in iter_headers(file, segment.log.path)), default=-1)


def _states_in(batch: Batch) -> Iterator[StateRecord]:
    """Yield the states that matter. Raises: InvalidRecord."""
    records = CoordinatorRecords(TRANSACTIONS_TOPIC)
    for record in batch.records():
        if record.key is None or record.value is None:
            continue
        kind, key = records.key(record.key)
        value = records.value(kind, record.value)
        if value["transactionStatus"] not in _STATUSES:
            continue
        partitions = frozenset(
            TopicPartition(one["topic"], number)
            for one in value["transactionPartitions"] or ()
            for number in one["partitionIds"]
        )
        yield StateRecord(
            key["transactionalId"], batch.header.base_offset, batch.header.next_offset, record.timestamp_ms,
            value["producerId"], TransactionState(value["transactionStatus"]), partitions,
        )  # fmt: skip


def committed_offsets(
    name: TopicPartition, segments: Sequence[Segment], span: tuple[int, int], open_parts: Iterable[OpenPart]
) -> Iterator[CommittedOffset]:
    """Yield the offsets that groups have by a part of ``__consumer_offsets``.

    Args:
        name: of the partition.
        segments: of the log.
        span: first and last offset, exclusive.
        open_parts: of transactions; those of this partition that will not be committed count for nothing.

    Raises: CorruptBatch, CorruptIndex, UnreadableFile.
    """
    pending = [
        AbortedTxn(part.producer_id, part.first_offset, OFFSET_MAX, 0)
        for where, part, commits in open_parts
        if where == name and not commits
    ]
    tally, records = Tally(OffsetBorders(*span)), CoordinatorRecords(OFFSETS_TOPIC)
    wanted = Wanted(OffsetRange(*span), None, UNCUT_BYTES, read_committed=True)
    for extent, file in read_in_turn(cut_partition(name, segments, wanted)):
        with open_extent(extent, file) as reader:
            for found in chunks(reader, extent._replace(aborted=()), with_control=True):
                if isinstance(found, Damage):
                    raise found.error
                tally.add(found, (*extent.aborted, *pending))
    for one in Tally.keys(tally):
        if one.latest is Latest.VALUE and one.value is not None:
            try:
                kind, key = records.key(one.key)
                if kind in COMMITS:
                    value: Mapping[str, int] = records.value(kind, one.value)
                    where = TopicPartition(key["topic"], key["partition"])
                    yield CommittedOffset(key["group"], where, value["offset"], one.key, one.value)
            except InvalidRecord:
                continue  # a record that no coordinator of today knows has no offset that we could judge
