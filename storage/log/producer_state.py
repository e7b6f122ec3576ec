"""The state of a partition's producers: from ``.snapshot`` files, and replayed from batches.

Compaction must not lose the last batch of an active producer, and nothing at or above the last stable offset may be
compacted; both need this state. It is rebuilt as a starting broker does: from the newest valid snapshot, then the
batches behind it.

Kafka writes producers into a snapshot in the order of Java's ``HashMap<Long, ...>``. A map keeps its entries in
buckets. It doubles the buckets when it holds more than three quarters as many entries, or nine entries in one of fewer
than 64 buckets. The number of buckets never falls. Within a bucket the order is that of insertion. Not mirrored: nine
ids or more in one of 64 buckets or more, of which Java makes a tree; the ids that brokers hand out never do so.

Source: Kafka ``ProducerStateManager``, ``ProducerStateEntry``, ``ProducerAppendInfo``; ``java.util.HashMap``,
``Long.hashCode``.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import OpenFile
from storage.errors import Corrupt, CorruptBatch
from storage.log_dir import read_file
from storage.records import Batch, BatchHeader, LegacyBatch, PositionedHeader, TxnMarker, iter_headers, read_batch
from storage.records.v2 import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, OFFSET_MAX
from storage.segment import Segment, SegmentFile, reading
from storage.txn_index import AbortedTxn

_BUCKETS_MIN: Final = 16
_TREE_BUCKETS_MIN: Final = 64
_CROWD: Final = 9
_HASH_BITS: Final = (1 << 32) - 1
_LONG_BITS: Final = (1 << 64) - 1

_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hIi")
"""Version, CRC-32C of all that follows it, number of entries."""
_CRC_START: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NO_OFFSET: Final = -1
_NO_COORDINATOR_EPOCH: Final = -1
_BATCHES_MAX: Final = 5


class CorruptSnapshot(Corrupt):
    """A producer ``.snapshot`` with a wrong version, length or CRC."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}"


class BatchMetadata(NamedTuple):
    """A data batch of a producer. ``offset_delta`` is its last offset minus its base offset."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int


@dataclass(slots=True)
class ProducerEntry:
    """One producer: its epoch, its last data batches (oldest first), and its open transaction, if any."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = _NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = NO_TIMESTAMP
    open_txn_first_offset: int | None = None
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=_BATCHES_MAX))

    @property
    def last_batch(self) -> BatchMetadata | None:
        """The newest data batch of the current epoch; None when only markers are known."""
        return self.batches[-1] if self.batches else None

    @property
    def last_data_offset(self) -> int | None:
        """Last offset of the newest data batch; None when only markers are known."""
        return self.batches[-1].last_offset if self.batches else None

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Return whether a broker has forgotten the producer by then.

        A broker forgets a producer that was silent for ``producer.id.expiration.ms`` and has no transaction open.
        """
        return self.open_txn_first_offset is None and now_ms - self.last_timestamp_ms >= expiration_ms

    def move_to_epoch(self, epoch: int) -> None:
        """Take a batch's epoch, and drop the batches of another epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerState:
    """The producers of a partition, from a snapshot's entries on, batch after batch."""

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self.producers = {entry.producer_id: entry for entry in entries}
        """The producers by id."""
        self._order = HashOrder()
        self._completed: list[tuple[int, int]] = []
        """The first offset and the marker's offset of each transaction that ended."""

    def apply(self, batch: Batch | LegacyBatch) -> AbortedTxn | None:
        """Take the next batch of the log.

        Returns:
            The entry for the transaction index if this batch is the marker of an aborted transaction.

        Raises:
            CorruptBatch: a marker that does not parse, or a plain batch within its producer's open
                transaction.
        """
        if isinstance(batch, LegacyBatch) or not batch.header.has_producer_id:
            return None
        if not batch.header.is_control:
            self._apply_data(batch.header, batch.path, batch.position)
            return None
        entry = self._producer(batch.header.producer_id)
        marker = batch.first_txn_marker()
        return None if marker is None else self._apply_marker(entry, batch.header, marker)

    def replay(
        self, descriptor: OpenFile, path: Path, start_offset: int = 0, end_offset: int = OFFSET_MAX
    ) -> list[AbortedTxn]:
        """Take the batches of a ``.log`` in a range of offsets; only markers are read whole.

        Args:
            descriptor: of the ``.log``, open for reading.
            path: the ``.log``, for errors.
            start_offset: batches that end below it are passed over.
            end_offset: the first batch that reaches it ends the replay.

        Returns:
            The entries of the transaction index for the markers found.

        Raises:
            CorruptBatch: as ``apply`` and ``iter_headers``; what came before has been taken.
            UnreadableFile: as ``iter_headers``.
        """
        aborted = []
        for found in iter_headers(descriptor, path):
            last_offset = found.header.last_offset
            if last_offset >= end_offset:
                break
            if last_offset >= start_offset:
                entry = self._replay_batch(descriptor, path, found)
                aborted += [entry] if entry else []
            if last_offset + 1 == end_offset:
                break  # no batch follows the log's end: a torn tail does, or preallocated zeros
        return aborted

    def _replay_batch(self, descriptor: OpenFile, path: Path, found: PositionedHeader) -> AbortedTxn | None:
        if not isinstance(found.header, BatchHeader) or not found.header.has_producer_id:
            return None
        if found.header.is_control:
            return self.apply(read_batch(descriptor, path, found))
        self._apply_data(found.header, path, found.position)
        return None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the oldest transaction begins that is open, or has its marker at or above ``high_watermark``.

        The last stable offset is the lower one of this (None: there is none) and the high watermark.
        """
        starts = [start for _, start in self.open_txns()]
        starts += [first for first, marker in self._completed if marker >= high_watermark]
        return min(starts, default=None)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset: the high watermark, or where a transaction that is open there begins."""
        unstable = self.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(high_watermark, unstable)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers that a broker has forgotten by ``now_ms``."""
        self._order.grow(self.producers)
        kept = {id_: one for id_, one in self.producers.items() if not one.is_expired(now_ms, expiration_ms)}
        self.producers = kept

    def to_snapshot_bytes(self) -> bytes:
        """Return the bytes of the ``.snapshot`` at the offset behind the last batch taken, in Kafka's order."""
        return format_snapshot([self.producers[producer_id] for producer_id in self._order.ordered(self.producers)])

    def _producer(self, producer_id: int) -> ProducerEntry:
        return self.producers.setdefault(producer_id, ProducerEntry(producer_id))

    def complete(self, first_offset: int, marker_offset: int) -> None:
        """Note a transaction that ended."""
        self._completed.append((first_offset, marker_offset))

    def open_txns(self) -> list[tuple[int, int]]:
        """Return the producers with an open transaction, and the transaction's first offset."""
        return [
            (id_, one.open_txn_first_offset)
            for id_, one in self.producers.items()
            if one.open_txn_first_offset is not None
        ]

    def _apply_data(self, header: BatchHeader, path: Path, position: int) -> None:
        entry = self._producer(header.producer_id)
        if entry.open_txn_first_offset is not None and not header.is_transactional:
            cause = f"producer {header.producer_id} has a transaction open, and the batch is of none"
            raise CorruptBatch(path, position, cause)
        entry.move_to_epoch(header.producer_epoch)
        entry.last_timestamp_ms = header.max_timestamp_ms
        entry.batches.append(
            BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp_ms)
        )
        if header.is_transactional and entry.open_txn_first_offset is None:
            entry.open_txn_first_offset = header.base_offset

    def _apply_marker(self, entry: ProducerEntry, header: BatchHeader, marker: TxnMarker) -> AbortedTxn | None:
        first_offset, entry.open_txn_first_offset = entry.open_txn_first_offset, None
        entry.move_to_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = marker.timestamp_ms
        if first_offset is None:
            return None
        self.complete(first_offset, header.base_offset)
        if not marker.is_abort:
            return None
        stable_offset = min((start for _, start in self.open_txns()), default=header.base_offset + 1)
        return AbortedTxn(entry.producer_id, first_offset, header.base_offset, stable_offset)


def load_producer_state(
    snapshots: Sequence[SegmentFile],
    segments: Sequence[Segment],
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    expiration_ms: int,
) -> ProducerState:
    """Return the state of every producer at the log end, without producers that are idle for too long.

    Arguments and errors: see ``replay_producers``. Source: Kafka ProducerStateManager.removeExpiredProducers.
    """
    state = replay_producers(snapshots, segments, log_start_offset, log_end_offset, now_ms, expiration_ms)
    state.expire(now_ms, expiration_ms)
    return state


def replay_producers(
    snapshots: Sequence[SegmentFile],
    segments: Sequence[Segment],
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    expiration_ms: int,
) -> ProducerState:
    """Return the state of every producer at the log end, as a start makes it: it drops idle producers of a snapshot
    alone.

    Args:
        snapshots: of the partition, ascending.
        segments: ascending.
        log_start_offset: a snapshot at or below it is of no use; without a valid snapshot the replay starts there.
        log_end_offset: where the replay ends; a snapshot above this offset describes batches that are gone.
        now_ms: epoch ms, for the expiry of idle producers.
        expiration_ms: ``producer.id.expiration.ms``.

    Raises: CorruptBatch, UnreadableFile.
    Source: Kafka UnifiedLog.rebuildProducerState, ProducerStateManager.loadFromSnapshot.
    """
    usable = [s for s in snapshots if log_start_offset < s.name.base_offset <= log_end_offset]
    state, start_offset = _newest_valid(usable, now_ms, expiration_ms) or (ProducerState(), log_start_offset)
    if start_offset >= log_end_offset:
        return state  # nothing is read if a snapshot was made at the log end: at each clean stop
    for place, segment in enumerate(segments):
        is_last = place + 1 == len(segments)
        if is_last or segments[place + 1].base_offset > start_offset:
            with reading(segment.log.path) as descriptor:
                state.replay(descriptor, segment.log.path, start_offset, log_end_offset)
    return state


def parse_snapshot(data: bytes, path: Path) -> list[ProducerEntry]:
    """Read a ``.snapshot``, in the order stored.

    Raises:
        CorruptSnapshot: another version, size or CRC.
    """
    from crc32c import crc32c  # noqa: PLC0415

    if len(data) < _HEADER.size:
        raise CorruptSnapshot(path, f"{len(data)} bytes are fewer than a header's {_HEADER.size}")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(path, f"version {version}")
    if crc != crc32c(data[_CRC_START:]):
        raise CorruptSnapshot(path, "CRC-32C mismatch")
    if count < 0 or _HEADER.size + count * _ENTRY.size != len(data):
        raise CorruptSnapshot(path, f"{len(data)} bytes do not hold {count} entries")
    return [_entry(fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def format_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the bytes of a ``.snapshot``; it keeps the newest data batch of each producer."""
    from crc32c import crc32c  # noqa: PLC0415

    packed = [_ENTRY.pack(*_fields(entry)) for entry in entries]
    body = len(packed).to_bytes(4, "big") + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body), len(packed))[:_CRC_START] + body


class HashOrder:
    """The buckets of one map; the caller holds the keys."""

    def __init__(self) -> None:
        self._buckets = _BUCKETS_MIN

    def grow(self, keys: Iterable[int]) -> None:
        """Have as many buckets as the present keys asked for when they were put in.

        Call this before keys are removed.
        """
        listed = list(keys)
        while len(listed) * 4 > self._buckets * 3:
            self._buckets *= 2
        while self._buckets < _TREE_BUCKETS_MIN and self._is_crowded(listed):
            self._buckets *= 2

    def ordered(self, keys: Iterable[int]) -> list[int]:
        """Return the keys, given in the order of insertion, as the map gives them."""
        listed = list(keys)
        self.grow(listed)
        return sorted(listed, key=self._bucket)

    def _is_crowded(self, keys: list[int]) -> bool:
        return any(count >= _CROWD for count in Counter(map(self._bucket, keys)).values())

    def _bucket(self, key: int) -> int:
        unsigned = key & _LONG_BITS
        hashed = (unsigned ^ unsigned >> 32) & _HASH_BITS
        return (hashed ^ hashed >> 16) & (self._buckets - 1)


def _newest_valid(
    snapshots: Sequence[SegmentFile], now_ms: int, expiration_ms: int
) -> tuple[ProducerState, int] | None:
    """Read the newest snapshot that is whole. If a snapshot is damaged, the replay is longer, as in a broker."""
    for snapshot in reversed(snapshots):
        try:
            data = read_file(snapshot.path)
            if data is None:
                continue
            entries = parse_snapshot(data, snapshot.path)
        except CorruptSnapshot:
            continue
        living = [entry for entry in entries if not entry.is_expired(now_ms, expiration_ms)]
        return ProducerState(living), snapshot.name.base_offset
    return None


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, open_txn = fields
    entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp_ms)
    entry.open_txn_first_offset = open_txn if open_txn >= 0 else None
    if last_offset >= 0:
        entry.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms))
    return entry


def _fields(entry: ProducerEntry) -> tuple[int, ...]:
    sequence, offset, delta, _ = entry.last_batch or BatchMetadata(NO_SEQUENCE, _NO_OFFSET, 0, NO_TIMESTAMP)
    open_txn = _NO_OFFSET if entry.open_txn_first_offset is None else entry.open_txn_first_offset
    ends = entry.last_timestamp_ms, entry.coordinator_epoch, open_txn
    return entry.producer_id, entry.epoch, sequence, offset, delta, *ends
