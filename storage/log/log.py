"""Log: one partition, from its first offset to its last.

Opening changes nothing on disk. Before the first change, an interrupted swap is finished or undone by the broker's own
rules; until then the log is read as if that had been done.

Invariant:  nothing is appended behind a torn tail that was found, and the tail is never cut off; a failed append leaves
            the log as it was before.
Durable:    on ``flush``, ``roll`` and ``close``, not on ``append``, as in Kafka.
Assumes:    whoever changes a log holds the ``.lock`` of its log dir. Threads of one process may share a ``Log``: every
call that touches what appends change holds the lock of the ``Log``.

Source: Kafka UnifiedLog, LocalLog, LogSegment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from storage.codecs.compression import Compression
from storage.filesystem import FileSystem
from storage.indexes import RELATIVE_OFFSET_MAX
from storage.log.active import ActiveSegment
from storage.log.config import LogConfig
from storage.log.errors import RecordBatchTooLarge
from storage.log.listing import Listing, list_partition
from storage.log.log_files import LogFiles, create_partition, locked
from storage.log.read import AnyBatch, read_batches
from storage.log.roll import Arrival, must_roll
from storage.log.search import SpecialTimestamp, TimestampOffset, lookup_record
from storage.log.writing.admission import Admission
from storage.log.writing.producer_checks import ProducerChanges
from storage.log.writing.validation import Admitted, Appended, AppendOrigin, NewBatch, Producer, Stamp, build_batch
from storage.records import Record
from storage.records.v2 import (
    LOG_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    number,
)

_ANY_EPOCH: Final = (1 << 31) - 1
_FINISHED: Final = struct.Struct(">8xi11xi8xqq")
"""Of a batch: its length, the delta of its last offset, its largest timestamp and its producer id."""


class Log(LogFiles):
    """One partition directory; its records can be read from ``log_start_offset`` to below ``log_end_offset``.

    ``torn_bytes`` is how many bytes at its end, as opened, are no batch.
    """

    def __init__(
        self, directory: Path, config: LogConfig, fs: FileSystem, listing: Listing, log_start_offset: int
    ) -> None:
        super().__init__(directory, config, fs, listing, log_start_offset)
        self._admission = Admission(directory, config)

    @classmethod
    def open(cls, directory: Path, config: LogConfig, fs: FileSystem, *, log_start_offset: int | None = None) -> Self:
        """Read the directory; without segments it is an empty log.

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

        Raises: InvalidLeaderEpoch, FileExistsError, OutOfSpace, UnsafeOwner.
        """
        create_partition(fs, directory, topic_id, leader_epoch)
        return cls.open(directory, config, fs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

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
                2; a batch that is cut short at the end counts as absent. Offsets, leader epoch, timestamp type and
                codec are set here.
            now_ms: epoch ms.
            leader_epoch: default: the newest one of ``leader-epoch-checkpoint``.
            origin: the sender of the batches. Only a coordinator may write markers.

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
    def append_as_is(self, data: bytes | memoryview, *, now_ms: int, leader_epoch: int | None = None) -> Appended:
        """Append batches that have their offsets and leader epochs already, as a follower of Kafka does.

        Args:
            data: batches of any version, whose offsets rise; a batch that is cut short at the end counts as absent.
            now_ms: epoch ms.
            leader_epoch: batches of later epochs are left out. Default: none is.

        Returns: where they lie. Without one batch to write: offsets -1.
        Raises:
            UnexpectedAppendOffset: they begin below the log end. OffsetsOutOfOrder, CorruptBatch, LogRefusal: as Kafka;
                nothing was written. TornTail, OutOfSpace: as of ``append``.
        """
        active = self._activated(now_ms)
        epoch = _ANY_EPOCH if leader_epoch is None else leader_epoch
        stamp = Stamp(self.log_end_offset, epoch, now_ms)
        admitted = self._admission.admit_as_is(data, stamp)
        if admitted is None:
            return Appended(-1, -1, has_rolled=False)
        return self._take(active, admitted, now_ms, AppendOrigin.REPLICATION)

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
    def append_finished(self, data: memoryview, *, now_ms: int) -> None:
        """Append batches one by one as ``append`` does, but look at no record, and write all that a segment takes at
        once.

        Args:
            data: sound batches of version 2, of no producer, without control records. They are numbered here.
            now_ms: epoch ms.

        Raises: RecordBatchTooLarge, TornTail, OutOfSpace: batches in front may have been appended.
        """
        self.producer_state(now_ms)  # now, while there is little to replay
        active, epoch = self._activated(now_ms), self._epochs.to_write(None)
        self._epochs.assign(epoch, self.log_end_offset)
        facts, next_offset, position = active.facts(), self.log_end_offset, 0
        start, run = 0, list[NewBatch]()
        while position < len(data):
            length, last_delta, newest_ms, producer_id = _FINISHED.unpack_from(data, position)
            assert producer_id == NO_PRODUCER_ID, "its state would not be kept"
            arrival = Arrival(LOG_OVERHEAD_BYTES + length, newest_ms, next_offset + last_delta)
            if arrival.size_bytes > self.config.segment_bytes:
                raise RecordBatchTooLarge(
                    self.directory, arrival.size_bytes, "segment.bytes", self.config.segment_bytes
                )
            if must_roll(facts, arrival, self.config, now_ms):
                self._write_run(active, data[start:position], run)
                start, run = position, []
                if must_roll(active.facts(), arrival, self.config, now_ms):
                    self.roll(now_ms)
                    active = self._activated(now_ms)
                facts = active.facts()
            number(data, position, next_offset, epoch)
            run.append(_finished(arrival, next_offset, epoch))
            facts, next_offset = facts.behind(arrival), arrival.last_offset + 1
            position += arrival.size_bytes
        self._write_run(active, data[start:position], run)
        self._flush_if_due(now_ms)

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

    @locked
    def lookup_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Find the first record at or behind a timestamp, or a ``SpecialTimestamp``; None if there is none.

        Raises: CorruptBatch, CorruptCheckpoint (the leader epochs), UnreadableFile.
        """
        match timestamp_ms:
            case SpecialTimestamp.LATEST:
                return TimestampOffset(NO_TIMESTAMP, self.log_end_offset, self._epochs.latest())
            case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
                start_offset = self.log_start_offset
                return TimestampOffset(NO_TIMESTAMP, start_offset, self._epochs.at_start(start_offset))
            case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
                return TimestampOffset(NO_TIMESTAMP, -1, NO_LEADER_EPOCH)  # nothing is kept in remote storage
        return lookup_record(self.segments, self.log_start_offset, timestamp_ms)

    def _write_run(self, active: ActiveSegment, data: memoryview, run: Sequence[NewBatch]) -> None:
        """Write batches into one segment. Raises: as ``append_finished``, and the log is as it was before."""
        if run:
            active.append(data, run, ())
            self.log_end_offset = run[-1].last_offset + 1

    def _take(self, active: ActiveSegment, admitted: Admitted, now_ms: int, origin: AppendOrigin) -> Appended:
        """Write the admitted batches, unless the log has them already.

        Batches that the producers' state refuses must not reach the disk.

        Source: Kafka UnifiedLog.append.
        """
        batches = admitted.batches
        stated = (admitted.first_offset, *(batch.base_offset for batch in batches[:1]), self.log_end_offset)
        first_offset = next(offset for offset in stated if offset is not None)
        for batch in batches:
            if batch.is_legacy:
                self._epochs.forget()
            elif batch.base_offset is not None:
                self._epochs.assign(batch.leader_epoch, batch.base_offset)
        size_bytes = len(admitted.data)
        if size_bytes > self.config.segment_bytes:
            raise RecordBatchTooLarge(self.directory, size_bytes, "segment.bytes", self.config.segment_bytes)
        arrival = Arrival(size_bytes, admitted.max_timestamp_ms, admitted.last_offset)
        has_rolled = must_roll(active.facts(), arrival, self.config, now_ms)
        if has_rolled:
            begins_somewhere = batches and batches[0].base_offset is None
            self.roll(now_ms, admitted.last_offset - RELATIVE_OFFSET_MAX if begins_somewhere else first_offset)
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
        self._flush_if_due(now_ms)
        return Appended(first_offset, admitted.last_offset, has_rolled, False, admitted.log_append_time_ms)


def _finished(arrival: Arrival, base_offset: int, epoch: int) -> NewBatch:
    """Return the facts about a batch of no producer."""
    return NewBatch(
        arrival.size_bytes,
        base_offset,
        arrival.last_offset,
        arrival.max_timestamp_ms,
        epoch,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        NO_SEQUENCE,
        is_transactional=False,
        is_control=False,
    )
