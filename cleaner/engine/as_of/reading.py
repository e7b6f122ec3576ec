"""Read what decides about the cuts: headers of all batches, markers, states of transactions, committed offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cleaner.engine.owners import OffsetBorders, Tally
from policies.as_of import MomentLog, StateRecord, TransactionParts, TransactionState
from policies.owners.groups import COMMITS
from policies.owners.holdings import Latest
from storage.errors import InvalidRecord
from storage.log.listing import Listing
from storage.names import TopicPartition
from storage.records import Batch, BatchHeader, LegacyHeader, iter_headers, read_batch
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
"""No transaction is open for so long, unless it hangs (``transaction.max.timeout.ms`` is 15 minutes)."""
_CLOCKS_DIFFER_MS: Final = 60_000
_STATUSES: Final = frozenset(TransactionState)


class ReadLog(NamedTuple):
    """The facts about one log, as it was read."""

    log: MomentLog
    older_batches: int
    """Batches behind the first newer batch that are older than the moment by more than a minute."""
    last_hole: int
    """The offset behind the last place where offsets are missing; 0 if none is."""


class CommittedOffset(NamedTuple):
    """The offset of a group that counts."""

    group: str
    topic_partition: TopicPartition
    offset: int
    key: bytes
    value: bytes


def hung_since_ms(until_ms: int) -> int:
    """Return the time before which a transaction that is still open began to hang."""
    return until_ms - _DAY_MS


def read_log(name: TopicPartition, listing: Listing, start: int, end: int, until_ms: int | None) -> ReadLog:
    """Read the headers of a log.

    Args:
        name: of the partition.
        listing: its files, after recovery.
        start: the log start offset.
        end: the log end offset.
        until_ms: the moment, epoch ms; None if offsets are given.

    Raises: CorruptBatch, UnreadableFile.
    """
    walk = _Walk(name, start, until_ms)
    for segment in listing.segments:
        if segment.base_offset < end:
            walk.read(segment, end)
    ended = sorted(walk.parts.ended, key=lambda part: part.marker_ms)
    log = MomentLog(name, start, end, walk.newer, (*ended, *walk.parts.open), tuple(walk.states))
    return ReadLog(log, walk.older_batches, walk.last_hole)


class _Walk:
    """One walk over a log."""

    def __init__(self, name: TopicPartition, start: int, until_ms: int | None) -> None:
        self._start, self._until_ms, self._has_states = start, until_ms, name.topic == _STATES
        self._records = CoordinatorRecords(TRANSACTIONS_TOPIC)
        self._next: int | None = None
        self.newer: int | None = None
        self.older_batches = self.last_hole = 0
        self.parts = TransactionParts()
        self.states: list[StateRecord] = []

    def read(self, segment: Segment, end: int) -> None:
        path = segment.log.path
        with reading(path) as file:
            for found in iter_headers(file, path):
                header = found.header
                if header.next_offset > end:
                    return
                if header.next_offset <= self._start:
                    continue
                base = self._base_of(header, segment)
                self._note_place(header, base)
                if not isinstance(header, BatchHeader):
                    continue
                needs_states = self._has_states and not header.is_control and self._is_late(header.max_timestamp_ms)
                is_marker = header.is_control and header.has_producer_id
                batch = read_batch(file, path, found) if needs_states or is_marker else None
                if isinstance(batch, Batch) and needs_states:
                    batch.ensure_valid()
                    self.states += self._states_in(batch)
                elif isinstance(batch, Batch):
                    self._end(batch)
                elif header.is_transactional and header.has_producer_id:
                    whose = header.producer_id, header.producer_epoch
                    self.parts.data(*whose, header.base_offset, header.next_offset, header.max_timestamp_ms)

    def _base_of(self, header: BatchHeader | LegacyHeader, segment: Segment) -> int:
        known = segment.base_offset if self._next is None else self._next
        return header.base_offset if isinstance(header, BatchHeader) else known

    def _is_late(self, time_ms: int) -> bool:
        return self._until_ms is None or time_ms >= hung_since_ms(self._until_ms)

    def _note_place(self, header: BatchHeader | LegacyHeader, base: int) -> None:
        is_sparse = isinstance(header, BatchHeader) and header.record_count <= header.last_offset_delta
        if is_sparse or (self._next is not None and base > self._next):
            self.last_hole = header.next_offset
        self._next = header.next_offset
        if self._until_ms is None:
            return
        if self.newer is None:
            if header.max_timestamp_ms > self._until_ms:
                self.newer = base
        elif header.max_timestamp_ms < self._until_ms - _CLOCKS_DIFFER_MS:
            self.older_batches += 1

    def _end(self, batch: Batch) -> None:
        header = batch.header
        if marker := batch.first_txn_marker():
            whose = header.producer_id, header.producer_epoch
            self.parts.marker(*whose, header.base_offset, header.max_timestamp_ms, commits=not marker.is_abort)

    def _states_in(self, batch: Batch) -> Iterator[StateRecord]:
        """Yield the states that matter. Raises: InvalidRecord."""
        for record in batch.records():
            if record.key is None or record.value is None:
                continue
            kind, key = self._records.key(record.key)
            value = self._records.value(kind, record.value)
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
    name: TopicPartition, segments: Sequence[Segment], span: tuple[int, int], pending: Sequence[AbortedTxn]
) -> Iterator[CommittedOffset]:
    """Yield the offsets that groups have by a part of ``__consumer_offsets``.

    Args:
        name: of the partition.
        segments: of the log.
        span: first and last offset, exclusive.
        pending: transactions that are open at its end and will not be committed.

    Raises: CorruptBatch, CorruptIndex, UnreadableFile.
    """
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
