"""Log: one partition, from its first offset to its last.

Opening changes nothing on disk. What an interrupted swap left is finished or undone, by the broker's own
rules, before the first change; until then it is read as if that had been done.

Invariant:  nothing is appended behind a tail that was found, and it is never cut off; a failed append leaves
            the log as it was before.
Durable:    on ``flush``, ``roll`` and ``close``, not on ``append``, as in Kafka.
Assumes:    whoever changes a log holds the ``.lock`` of its log dir. Threads of one process may share a ``Log``: every
            call that reads or changes what appends change holds its lock.

Source: Kafka UnifiedLog, LocalLog, LogSegment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import RLock
from typing import Self

from storage.codecs.compression import Compression
from storage.filesystem import FileSystem
from storage.log import recovery
from storage.log.active import ActiveSegment
from storage.log.config import LogConfig
from storage.log.create import create_partition
from storage.log.end import SegmentEnd, find_end
from storage.log.errors import CannotRoll, RecordBatchTooLarge
from storage.log.fetching.bounds import FetchBounds
from storage.log.fetching.fetch import Fetch, Fetched, ensure_not_below_start, fetch
from storage.log.fetching.isolation import Isolation
from storage.log.fetching.open_segments import OpenSegments
from storage.log.fetching.timestamps import TimestampOffset, lookup_timestamp
from storage.log.fetching.view import LogView
from storage.log.leader_epochs import LeaderEpochs
from storage.log.listing import Listing, list_partition
from storage.log.producer_state import ProducerState
from storage.log.producers import load_producer_state
from storage.log.read import AnyBatch, read_batches
from storage.log.roll import Arrival, create_segment, must_roll, write_snapshot
from storage.log.writing.admission import Admission
from storage.log.writing.append import Appended, Producer, build_batch
from storage.log.writing.batches import Admitted
from storage.log.writing.locked import locked
from storage.log.writing.origin import AppendOrigin
from storage.log.writing.producer_checks import ProducerChanges
from storage.log.writing.validation import Stamp
from storage.names import FileKind
from storage.records import Record
from storage.segment import Segment


class Log:
    """One partition directory; its records can be read from ``log_start_offset`` to below ``log_end_offset``.

    ``torn_bytes`` is how many bytes at its end, as opened, are no batch.
    """

    def __init__(
        self, directory: Path, config: LogConfig, fs: FileSystem, listing: Listing, log_start_offset: int
    ) -> None:
        self._lock = RLock()
        self.directory = directory
        self.config = config
        self._fs = fs
        self._recovery = recovery.plan_recovery(listing)
        self._segments = list(self._recovery.listing.segments)
        self._snapshot_offset = max((s.name.base_offset for s in self._recovery.listing.snapshots), default=0)
        first_offset = self._segments[0].base_offset if self._segments else 0
        self.log_start_offset = max(first_offset, log_start_offset)
        end = SegmentEnd(self.log_start_offset, 0)
        if self._segments:
            end = find_end(self._segments[-1], trust_index=True)
        self.log_end_offset, self.torn_bytes = end.next_offset, end.torn_bytes
        self._active: ActiveSegment | None = None
        self._producers: ProducerState | None = None
        self._epochs = LeaderEpochs(fs, directory)
        self._admission = Admission(directory, config)
        self._opened = OpenSegments()
        self._bounds = FetchBounds(self.log_start_offset)
        self._unexpired: tuple[int, ProducerState] | None = None

    @classmethod
    def open(cls, directory: Path, config: LogConfig, fs: FileSystem, *, log_start_offset: int | None = None) -> Self:
        """Read what is there; a directory without segments is an empty log.

        Args:
            directory: of the partition.
            config: limits of appending.
            fs: the disk.
            log_start_offset: of ``log-start-offset-checkpoint``; counts if above the first base offset.

        Raises: CorruptBatch, UnreadableFile.
        """
        return cls(directory, config, fs, list_partition(directory), log_start_offset or 0)

    @classmethod
    def create(
        cls, directory: Path, config: LogConfig, fs: FileSystem, *, topic_id: str, leader_epoch: int = 0
    ) -> Self:
        """Make a partition: directory, ``partition.metadata``, ``leader-epoch-checkpoint``, an empty segment.

        Args:
            directory: must not exist; its parent must.
            config: limits of appending.
            fs: the disk.
            topic_id: 22 characters of URL-safe base64.
            leader_epoch: the one that writes from offset 0 on.

        Raises: FileExistsError, OutOfSpace, UnsafeOwner.
        """
        create_partition(fs, directory, topic_id, leader_epoch)
        return cls.open(directory, config, fs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    @property
    @locked
    def segments(self) -> tuple[Segment, ...]:
        """Ascending; the last one is the active segment."""
        if self._active is None:
            return tuple(self._segments)
        return (*self._segments[:-1], self._active.segment())

    @property
    @locked
    def size_bytes(self) -> int:
        """The size of all ``.log`` files: what ``retention.bytes`` counts."""
        return sum(segment.size_bytes for segment in self.segments)

    @locked
    def append(
        self,
        data: bytes | memoryview,
        *,
        now_ms: int,
        leader_epoch: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Appended:
        """Append what a leader of Kafka would append, at the log end, in a new segment where one is due.

        Args:
            data: one batch of version 2, numbered from 0, or batches of older versions, which become one of version
                2; what is cut short at the end counts as not there. Offsets, leader epoch, timestamp type and codec
                are set here.
            now_ms: epoch ms.
            leader_epoch: default: the newest one of ``leader-epoch-checkpoint``.
            origin: who hands it in. Only a coordinator may write markers.

        Returns: where it lies. Without one whole batch: offsets -1, and nothing was written.
        Raises:
            CorruptBatch, BatchTooLarge, LogRefusal: what Kafka answers, by ``kafka_name``; nothing was written. A new
                segment and a new leader epoch may have begun, as in Kafka.
            TornTail: bytes that are no batch lie at the log end; nothing was written.
            OutOfSpace: the log is as it was before.
        """
        active = self._activated(now_ms)
        stamp = Stamp(self.log_end_offset, self._epochs.to_write(leader_epoch), now_ms)
        admitted = self._admission.admit(data, origin, stamp)
        if admitted is None:
            return Appended(-1, -1, has_rolled=False)
        return self._take(active, admitted, now_ms, origin)

    @locked
    def append_records(
        self,
        records: Sequence[Record],
        *,
        now_ms: int,
        leader_epoch: int | None = None,
        compression: Compression = Compression.NONE,
        producer: Producer | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Appended:
        """Append records as one batch; without a timestamp, they get ``now_ms``. Rest as of ``append``."""
        return self.append(
            build_batch(records, now_ms, compression, producer), now_ms=now_ms, leader_epoch=leader_epoch, origin=origin
        )

    @locked
    def roll(self, now_ms: int, at_offset: int | None = None) -> Segment:
        """Seal the active segment and begin a new one at the log end, or at ``at_offset`` if higher.

        The log end stays where it is: behind a segment that begins above it, only a follower can append. An active
        segment without records that begins there already is the new one; Kafka would replace it by its like.

        Returns: the new active segment, empty.
        Raises: CannotRoll below the active segment's base; TornTail, OutOfSpace (the old segment stays the active one),
            UnsafeOwner.
        """
        base_offset = max(self.log_end_offset, at_offset or 0)
        active = self._activated(now_ms)
        if active.base_offset >= base_offset:
            if active.size_bytes or active.base_offset > base_offset:
                raise CannotRoll(self.directory, f"a segment begins at {active.base_offset}, none can at {base_offset}")
            return active.segment()
        try:
            active.seal()
            self._take_snapshot(base_offset, now_ms)
            allocated_bytes = self.config.segment_bytes if self.config.preallocate else 0
            created = create_segment(self._fs, self.directory, base_offset, (FileKind.LOG,), allocated_bytes)
            begun = ActiveSegment.begin(self._fs, self.directory, base_offset, self.config, now_ms)
        except BaseException:
            self._active = None  # it is sealed: the next append opens it again
            raise
        finally:
            active.close()
        self._segments[-1:] = [active.segment(), created]
        self._active = begun
        return created

    @locked
    def flush(self) -> None:
        """Make what was appended last. Raises: OutOfSpace."""
        if self._active:
            self._active.flush()

    @locked
    def close(self) -> None:
        """Leave the log as a broker's clean stop does: flushed, indexes exact, a producer snapshot.

        A log that was only read is left as it was; calling it again does nothing. Raises: OutOfSpace.
        """
        self._opened.close()
        if self._active is None:
            return
        active = self._active
        try:
            active.seal()
            self._take_snapshot(self.log_end_offset, active.opened_ms)
        finally:
            active.close()
            self._segments[-1] = active.segment()
            self._active = None

    def read(self, start_offset: int | None = None, *, end_offset: int | None = None) -> Iterator[AnyBatch]:
        """Read whole batches from the one with ``start_offset`` on; the first and last may reach beyond the range.

        Args:
            start_offset: default, and at the least: the log start.
            end_offset: exclusive; default, and at the most: the log end.

        Raises: CorruptBatch, UnreadableFile. CRCs are not looked at.
        """
        start = max(self.log_start_offset, start_offset or 0)
        end = self.log_end_offset if end_offset is None else min(end_offset, self.log_end_offset)
        return read_batches(self.segments, start, end)

    def records(self, start_offset: int | None = None, *, end_offset: int | None = None) -> Iterator[Record]:
        """The data records of an offset range, markers left out. Arguments and errors as of ``read``."""
        start = max(self.log_start_offset, start_offset or 0)
        end = self.log_end_offset if end_offset is None else end_offset
        for batch in self.read(start, end_offset=end):
            if not batch.header.is_control:
                yield from (record for record in batch.records() if start <= record.offset < end)

    @property
    @locked
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log, as it was told last; the log start before that."""
        return self._bounds.high_watermark

    @locked
    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark, within the log, and return it. Source: Kafka UnifiedLog.updateHighWatermark."""
        self._bounds.update(offset, self._view())
        if self._producers is not None:
            self._producers.forget_replicated(self._bounds.high_watermark)
        return self._bounds.high_watermark

    @property
    @locked
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is over, at most the high watermark.

        Raises: CorruptBatch, UnreadableFile.
        """
        stable = self._bounds.last_stable(self._view(), self._transactions())
        return stable.offset if stable else self._bounds.high_watermark

    @locked
    def fetch(
        self,
        start_offset: int,
        bytes_max: int,
        isolation: Isolation = Isolation.LOG_END,
        *,
        min_one_message: bool = True,
    ) -> Fetched:
        """Read the bytes of batches from the one with ``start_offset`` on, of one segment.

        Args:
            start_offset: from the log start to the log end.
            bytes_max: of the data; its last batch may be cut off.
            isolation: how far the fetch may read.
            min_one_message: whether the first batch comes whole even if it is larger.

        Raises: OffsetOutOfRange, CorruptBatch, CorruptIndex (of transactions), UnreadableFile.
        """
        view, is_committed = self._view(), isolation is Isolation.TXN_COMMITTED
        ensure_not_below_start(view, start_offset)
        upper = self._bounds.locate(view) if isolation is not Isolation.LOG_END else None
        if is_committed:
            upper = self._bounds.last_stable(view, self._transactions()) or upper
        return fetch(view, Fetch(start_offset, bytes_max, min_one_message, with_aborted=is_committed), upper)

    @locked
    def lookup_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Find the first record at or behind a timestamp, or a ``SpecialTimestamp``; None if there is none.

        Raises: CorruptBatch, CorruptCheckpoint (the leader epochs), UnreadableFile.
        """
        return lookup_timestamp(self._view(), timestamp_ms)

    @locked
    def producer_state(self, now_ms: int) -> ProducerState:
        """Return the producers and their open transactions at the log end. Raises: CorruptBatch, UnreadableFile."""
        if self._producers is None:
            self._producers = self._load_producers(now_ms)
        return self._producers

    def _load_producers(self, now_ms: int) -> ProducerState:
        snapshots, expiration_ms = self._recovery.listing.snapshots, self.config.producer_id_expiration_ms
        start, end = self.log_start_offset, self.log_end_offset
        return load_producer_state(snapshots, self.segments, start, end, now_ms, expiration_ms)

    def _take(self, active: ActiveSegment, admitted: Admitted, now_ms: int, origin: AppendOrigin) -> Appended:
        """Write what was admitted, unless the log has it already: what producers refuse must not reach the disk.

        Source: Kafka UnifiedLog.append.
        """
        batches = admitted.batches
        first_offset = self.log_end_offset if not batches or batches[0].base_offset is None else batches[0].base_offset
        for batch in batches:
            if batch.is_legacy:
                self._epochs.clear()
            elif batch.base_offset is not None:
                self._epochs.assign(batch.leader_epoch, batch.base_offset)
        size_bytes = len(admitted.data)
        if size_bytes > self.config.segment_bytes:
            raise RecordBatchTooLarge(self.directory, size_bytes, "segment.bytes", self.config.segment_bytes)
        arrival = Arrival(size_bytes, admitted.max_timestamp_ms, admitted.last_offset)
        has_rolled = must_roll(active.facts(), arrival, self.config, now_ms)
        if has_rolled:
            self.roll(now_ms, first_offset)
            active = self._activated(now_ms)
        changes = ProducerChanges(self.producer_state(now_ms), self.directory, origin)
        for batch in batches:
            if batch.producer_id >= 0:
                duplicate = changes.duplicate_of(batch)
                if duplicate is not None:
                    return Appended.as_duplicate(duplicate, has_rolled)
                changes.take(batch)
        active.append(admitted.data, batches, changes.aborted())
        self.log_end_offset = admitted.last_offset + 1
        changes.commit()
        return Appended(first_offset, admitted.last_offset, has_rolled, False, admitted.log_append_time_ms)

    @locked
    def expire_producers(self, now_ms: int) -> None:
        """Forget the producers that were silent for ``producer.id.expiration.ms``, as a broker does now and then."""
        self.producer_state(now_ms).expire(now_ms, self.config.producer_id_expiration_ms)

    def _activated(self, now_ms: int) -> ActiveSegment:
        """Open the active segment for appending; the first change of the log begins here."""
        if self._active is None:
            self._finish_recovery()
            if not self._segments:
                self._segments.append(create_segment(self._fs, self.directory, self.log_start_offset))
            self._active = ActiveSegment.open(self._fs, self._segments[-1], self.config, now_ms)
        return self._active

    def _finish_recovery(self) -> None:
        if self._recovery.is_needed:
            recovery.recover(self._fs, self._recovery, self.directory)
            self._recovery = recovery.plan_recovery(list_partition(self.directory))
            self._segments = list(self._recovery.listing.segments)

    def _take_snapshot(self, offset: int, now_ms: int) -> None:
        """Write a producer snapshot if the log grew since the newest one.

        Source: Kafka ProducerStateManager.takeSnapshot.
        """
        if offset > self._snapshot_offset:
            write_snapshot(self._fs, self.directory, offset, self.producer_state(now_ms).to_snapshot_bytes())
            self._snapshot_offset = offset

    def _transactions(self) -> ProducerState:
        """Return the producers, none of whom is forgotten: that takes a clock, and open transactions never expire."""
        if self._producers is not None:
            return self._producers
        if self._unexpired is None or self._unexpired[0] != self.log_end_offset:
            self._unexpired = self.log_end_offset, self._load_producers(0)
        return self._unexpired[1]

    def _view(self) -> LogView:
        start, end, torn_bytes = self.log_start_offset, self.log_end_offset, self.torn_bytes
        return LogView(self.directory, self._opened, self._segments, self._active, start, end, torn_bytes, self._epochs)
