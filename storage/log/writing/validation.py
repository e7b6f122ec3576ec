"""The validator: it decides whether an append may be written, and as which bytes.

The readable twin of the kernel ``admit``.

The batches of an append are taken apart, and checked before a log looks at its own state. A batch of version 2 that
needs no other codec is stamped as it is. Everything else is written anew as one batch of version 2: older versions,
another codec than the topic's. The outcome has the bytes to write, and the facts about each batch in them.

Source: Kafka LogValidator, ``MemoryRecordsBuilder``, ``BrokerCompressionType``, ``ByteBufferLogInputStream``,
UnifiedLog.analyzeAndValidateRecords.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from storage.codecs.compression import Compression, decompress
from storage.errors import CorruptBatch, CorruptCompressedData, InvalidRecord
from storage.log.config import LogConfig, TimestampType
from storage.log.errors import (
    BatchTooLarge,
    IllegalRecords,
    InvalidRecords,
    InvalidTimestamp,
    OffsetsOutOfOrder,
    UndecompressableRecords,
    UnevenOffsets,
)
from storage.log.producer_state import BatchMetadata
from storage.records import (
    DECOMPRESSED_BYTES_MAX,
    Batch,
    BatchHeader,
    LegacyBatch,
    LegacyHeader,
    Record,
    TxnMarker,
    encode_batch,
)
from storage.records.legacy import MESSAGE_BYTES_MIN, iter_messages, parse_legacy_header
from storage.records.v2 import (
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    V2_HEADER,
    V2_HEADER_BYTES,
    iter_records,
    read_varint,
    read_varlong,
    seal,
    wrapped_int64,
)

_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8
_LENGTH_MIN: Final = min(MESSAGE_BYTES_MIN.values())

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_KNOWN_ATTRIBUTES: Final = 0x7F

_SHOWN_MAX: Final = 3


class AppendOrigin(Enum):
    """The origin of batches, which decides what they are checked for. Source: Kafka AppendOrigin."""

    REPLICATION = auto()
    """The leader of the partition; its follower takes offsets and epochs as they are, and refuses no producer."""
    COORDINATOR = auto()
    """A coordinator of the broker: it may write markers, and its batches have no sequence numbers to check."""
    CLIENT = auto()
    """A producer: everything is checked."""
    RAFT_LEADER = auto()
    """The leader of a metadata quorum, whose batches have their offsets already."""


class Appended(NamedTuple):
    """The place of the appended batches."""

    first_offset: int
    last_offset: int
    has_rolled: bool
    """Whether it began a new segment."""
    is_duplicate: bool = False
    """Whether the log has the batch already: the offsets are those of the batch in the log."""
    log_append_time_ms: int = -1
    """The time that the log gave the records, -1 for their own; of a duplicate, its largest timestamp, as in Kafka."""

    @classmethod
    def as_duplicate(cls, known: BatchMetadata, has_rolled: bool) -> Appended:
        """Return the place of a batch that the log has already."""
        first_offset = known.last_offset - known.offset_delta
        return cls(first_offset, known.last_offset, has_rolled, True, known.timestamp_ms)


class Admitted(NamedTuple):
    """An admitted append, stamped with offsets and leader epoch."""

    data: memoryview
    batches: Sequence[NewBatch]
    max_timestamp_ms: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    """The time that the log gave the records; -1 for their own."""
    first_offset: int | None = None
    """The offset from which a leader numbered the append; None if it was numbered already."""


class NewBatch(NamedTuple):
    """The facts about one batch, as it is going to be written."""

    size_bytes: int
    base_offset: int | None
    """The base offset; None for a compressed batch of version 0 or 1, which does not state it."""
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    control: Batch | None = None
    """The control batch of a producer, whose marker is read late."""
    is_legacy: bool = False

    def marker(self) -> TxnMarker | None:
        """Read the end of a transaction; None in a control batch without records, and in every other batch.

        Raises: InvalidRecords for a marker that does not parse.
        """
        try:
            return self.control.first_txn_marker() if self.control else None
        except CorruptBatch as error:
            raise InvalidRecords(error.path, error.cause) from error


def new_batch(batch: Batch | LegacyBatch) -> NewBatch:
    """Return the facts about a batch that is written as it is. No record of it is looked at."""
    header = batch.header
    return NewBatch(
        size_bytes=header.size_bytes,
        base_offset=_base_offset(header),
        last_offset=header.last_offset,
        max_timestamp_ms=header.max_timestamp_ms,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        control=batch if isinstance(batch, Batch) and header.is_control and header.producer_id >= 0 else None,
        is_legacy=isinstance(batch, LegacyBatch),
    )


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer that writes a batch, idempotent or transactional."""

    producer_id: int
    epoch: int
    base_sequence: int
    is_transactional: bool = False


def build_batch(records: Sequence[Record], now_ms: int, compression: Compression, producer: Producer | None) -> bytes:
    """Build one batch of records, numbered from 0. A record without a timestamp gets ``now_ms``."""
    numbered = [
        replace(record, offset=place, timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else now_ms)
        for place, record in enumerate(records)
    ]
    producer = producer or Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return encode_batch(
        numbered,
        compression=compression,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        is_transactional=producer.is_transactional,
    )


class Stamp(NamedTuple):
    """The facts that the log puts into an append."""

    next_offset: int
    leader_epoch: int
    now_ms: int


def validate(analysis: AppendAnalysis, path: Path, config: LogConfig, origin: AppendOrigin, stamp: Stamp) -> Admitted:
    """Check the batches of an append, and stamp them or write them anew.

    Raises:
        InvalidRecords, InvalidTimestamp, IllegalRecords, UndecompressableRecords, UnevenOffsets, CorruptBatch.
        BatchTooLarge: a batch that was written anew exceeds ``max.message.bytes``.
    """
    return _Validation(analysis, path, config, origin, stamp).run()


def target_codec(config: LogConfig, source: Compression) -> Compression:
    """Return the codec that batches of a codec get in this topic."""
    return source if config.compression_type == "producer" else _CODECS[config.compression_type]


class AppendAnalysis(NamedTuple):
    """The batches of an append, each sound in itself, without the bytes behind the last whole batch."""

    batches: Sequence[Batch | LegacyBatch]
    codec: Compression
    """The codec of the last batch that has one."""
    max_timestamp_ms: int

    @property
    def first_offset(self) -> int | None:
        """The first offset, as stated; None if the first batch, of version 0 or 1, does not state one."""
        first = self.batches[0]
        return first.base_offset if isinstance(first, Batch) else None


def analyze(
    data: bytes | memoryview,
    path: Path,
    origin: AppendOrigin,
    leader_epoch: int,
    batch_bytes_max: int | None,
    *,
    needs_rising_offsets: bool = False,
) -> AppendAnalysis:
    """Take an append apart.

    Args:
        data: batches. A batch that is cut short at the end counts as absent.
        path: of the partition, for errors.
        origin: the sender of the batches. For a follower, the batches of later leader epochs than its own are left out.
        leader_epoch: of the leader, or the follower's own.
        batch_bytes_max: ``max.message.bytes``; None: not looked at.
        needs_rising_offsets: whether the last offsets of the batches must rise.

    Raises:
        CorruptBatch: bytes that are no batch, or a wrong CRC.
        BatchTooLarge, InvalidRecords, IllegalRecords, OffsetsOutOfOrder.
    """
    taken: list[Batch | LegacyBatch] = []
    codec, newest_ms, last_offset, is_over = Compression.NONE, NO_TIMESTAMP, -1, False
    disorder: str | None = None
    for batch in _split(memoryview(data), path):
        _check_head(batch, path, origin, leader_epoch)
        epoch = batch.header.partition_leader_epoch
        is_over = is_over or (origin is AppendOrigin.REPLICATION and leader_epoch < epoch != NO_LEADER_EPOCH)
        if is_over:
            continue
        if batch_bytes_max is not None and batch.header.size_bytes > batch_bytes_max:
            raise BatchTooLarge(path, batch.header.size_bytes, "max.message.bytes", batch_bytes_max)
        batch.ensure_valid()
        if needs_rising_offsets and batch.last_offset <= last_offset:
            disorder = disorder or f"offset {batch.last_offset} follows {last_offset} in one append"
        last_offset, newest_ms = batch.last_offset, max(newest_ms, batch.header.max_timestamp_ms)
        codec = _codec_of(batch, path) or codec
        taken.append(batch)
    if disorder is not None:  # a fault of any batch comes first
        raise OffsetsOutOfOrder(path, disorder)
    return AppendAnalysis(taken, codec, newest_ms)


class Sighting(NamedTuple):
    """The fields of one record that the checks look at; ``record`` is all of it, where all was read."""

    offset: int
    timestamp_ms: int
    has_key: bool
    record: Record | None = None

    @classmethod
    def of(cls, record: Record) -> Sighting:
        """Return the fields of a record that the checks look at."""
        return cls(record.offset, record.timestamp_ms, record.key is not None, record)


class RecordChecks:
    """The checks of the records of one append, and the faults that they found."""

    def __init__(self, path: Path, config: LogConfig, now_ms: int) -> None:
        self._path, self._config, self._now_ms = path, config, now_ms
        self._errors: list[tuple[int, str]] = []
        self._is_a_matter_of_time = False

    def refuse(self, place: int, cause: str) -> None:
        """Note the fault of the record with this number."""
        self._errors.append((place, cause))

    def is_good(self, place: int, found: Sighting, has_log_append_time: bool) -> bool:
        """Check the key and the timestamp of the record with this number, in a batch of this timestamp type."""
        if self._config.is_compacted and not found.has_key:
            self.refuse(place, "a record without a key in a compacted topic")
            return False
        if self._config.timestamp_type is TimestampType.CREATE_TIME and found.timestamp_ms != NO_TIMESTAMP:
            age_ms = wrapped_int64(self._now_ms - found.timestamp_ms)
            before_ms, after_ms = self._config.timestamp_before_max_ms, self._config.timestamp_after_max_ms
            if age_ms > before_ms or wrapped_int64(-age_ms) > after_ms:
                first, last = self._now_ms - before_ms, self._now_ms + after_ms
                self._refuse_time(place, f"timestamp {found.timestamp_ms} is not within {first} to {last}")
                return False
        elif has_log_append_time:
            self._refuse_time(place, "only the log itself gives records the time of their append")
            return False
        return True

    def _refuse_time(self, place: int, cause: str) -> None:
        self._is_a_matter_of_time = True
        self.refuse(place, cause)

    def finish(self) -> None:
        """Raise the error for the faults of one batch, if there are any. Raises: InvalidRecords, InvalidTimestamp."""
        if self._errors:
            shown = "; ".join(f"record {place}: {cause}" for place, cause in self._errors[:_SHOWN_MAX])
            kind = InvalidTimestamp if self._is_a_matter_of_time else InvalidRecords
            raise kind(self._path, f"{len(self._errors)} records are refused, {shown}", tuple(self._errors))


def sightings(data: memoryview, header: BatchHeader) -> Iterator[Sighting]:
    """Read the decompressed records of a batch that is written as it is: keys and values are skipped.

    The length that a record states is not looked at, as in Kafka.

    Raises: InvalidRecord.
    Source: Kafka DefaultRecord.readPartiallyFrom.
    """
    position, end = 0, len(data)
    for _ in range(header.record_count):
        _, position = read_varint(data, position, end)
        timestamp_delta, position = read_varlong(data, position + 1, end)  # behind the attributes
        offset_delta, position = read_varint(data, position, end)
        key_bytes, position = read_varint(data, position, end)
        position = _skipped(data, position, key_bytes)
        value_bytes, position = read_varint(data, position, end)
        position = _skip_headers(data, _skipped(data, position, value_bytes))
        time_ms = wrapped_int64(header.base_timestamp_ms + timestamp_delta)
        timestamp_ms = header.max_timestamp_ms if header.is_log_append_time else time_ms
        yield Sighting(header.base_offset + offset_delta, timestamp_ms, key_bytes >= 0)
    if header.record_count and position != end:
        raise InvalidRecord(f"{end - position} bytes behind the last of {header.record_count} records")


def largest_timestamp(found: Sequence[Sighting]) -> int:
    """Return the largest timestamp; -1 if there is none."""
    return max([NO_TIMESTAMP, *(one.timestamp_ms for one in found)])


def _base_offset(header: BatchHeader | LegacyHeader) -> int | None:
    if isinstance(header, BatchHeader):
        return header.base_offset
    return None if header.compression else header.last_offset


class _Validation:
    """One run of the validator."""

    def __init__(
        self, analysis: AppendAnalysis, path: Path, config: LogConfig, origin: AppendOrigin, stamp: Stamp
    ) -> None:
        self._batches, self._source = analysis.batches, analysis.codec
        self._path, self._config, self._origin, self._stamp = path, config, origin, stamp
        self._target = target_codec(config, self._source)
        self._takes_log_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME

    def run(self) -> Admitted:
        first = self._batches[0]
        if (isinstance(first, Batch) or self._source) and len(self._batches) > 1:
            raise InvalidRecords(self._path, f"{len(self._batches)} batches in one append, where one may be")
        if isinstance(first, Batch) and self._is_stamped_as_it_is(first):
            return self._stamp_checked(first)
        return self._write_anew(first)

    def _is_stamped_as_it_is(self, batch: Batch) -> bool:
        is_plain_control = self._source is Compression.NONE and batch.header.is_control
        return self._source is self._target or is_plain_control

    def _stamp_checked(self, batch: Batch) -> Admitted:
        self._check_batch(batch)
        found = self._checked(batch, self._sightings(batch))
        newest_ms = largest_timestamp(found)
        if (self._source or self._target) and any(one.offset != place for place, one in enumerate(found)):
            return self._write_gaps_anew(batch, found)
        header = batch.header
        last_offset = self._stamp.next_offset + len(found) - 1
        attributes = header.attributes & ~ATTRIBUTE_LOG_APPEND_TIME
        if self._takes_log_time:
            attributes, newest_ms = header.attributes | ATTRIBUTE_LOG_APPEND_TIME, self._stamp.now_ms
        is_same = (attributes, newest_ms) == (header.attributes, header.max_timestamp_ms)
        stamped = header._replace(
            base_offset=last_offset - header.last_offset_delta,
            partition_leader_epoch=self._stamp.leader_epoch,
            attributes=attributes if is_same else attributes & _KNOWN_ATTRIBUTES,
            max_timestamp_ms=newest_ms,
        )
        return self._admitted(_written(stamped, batch, has_new_crc=not is_same), newest_ms, last_offset)

    def _write_gaps_anew(self, batch: Batch, found: list[Sighting]) -> Admitted:
        """Write a batch whose offsets are not in order anew, if that is possible. Raises: UnevenOffsets."""
        records = [one.record for one in found if one.record is not None]
        if len(records) < len(found):
            raise UnevenOffsets(self._path, "the records of a compressed batch are not one offset apart")
        return self._built(batch, records)

    def _write_anew(self, first: Batch | LegacyBatch) -> Admitted:
        records: list[Record] = []
        for batch in self._batches:
            if batch.header.magic != first.header.magic:
                raise InvalidRecords(
                    self._path, f"a batch of version {batch.header.magic} behind one of {first.header.magic}"
                )
            self._check_batch(batch)
            records += [one.record for one in self._checked(batch, self._sightings(batch, whole=True)) if one.record]
        return self._built(first, records)

    def _check_batch(self, batch: Batch | LegacyBatch) -> None:
        """Check what the header of a client's batch says. Source: Kafka LogValidator.validateBatch."""
        if self._origin is not AppendOrigin.CLIENT or isinstance(batch, LegacyBatch):
            return
        header, path = batch.header, self._path
        offsets = header.last_offset_delta + 1
        if offsets <= 0:
            raise InvalidRecords(path, f"the last offset delta of a batch is {header.last_offset_delta}")
        if header.record_count <= 0:
            raise InvalidRecords(path, f"a batch of {header.record_count} records")
        if offsets != header.record_count:
            raise InvalidRecords(path, f"a batch of {header.record_count} records and {offsets} offsets")
        if header.is_control:
            raise InvalidRecords(path, "a client may not write control records")
        if header.has_producer_id and header.base_sequence < 0:
            raise InvalidRecords(path, f"sequence {header.base_sequence} of producer {header.producer_id}")

    def _checked(self, batch: Batch | LegacyBatch, found: Iterator[Sighting | str]) -> list[Sighting]:
        """Read and check the records of a batch. Raises: InvalidRecords, InvalidTimestamp."""
        checks = RecordChecks(self._path, self._config, self._stamp.now_ms)
        good: list[Sighting] = []
        try:
            for place, one in enumerate(found):
                if isinstance(one, str):
                    checks.refuse(place, one)
                elif checks.is_good(place, one, batch.header.is_log_append_time):
                    good.append(one)
        except InvalidRecord as error:
            raise InvalidRecords(self._path, error.cause) from error
        except CorruptCompressedData as error:
            if "cut short" in error.cause and self._source is Compression.GZIP:
                raise InvalidRecords(self._path, str(error)) from error
            raise UndecompressableRecords(self._path, str(error)) from error
        checks.finish()
        return good

    def _sightings(self, batch: Batch | LegacyBatch, *, whole: bool = False) -> Iterator[Sighting | str]:
        """Yield the records; a string tells the fault of a record. Raises: InvalidRecord, CorruptCompressedData."""
        if isinstance(batch, LegacyBatch):
            yield from self._legacy_sightings(batch)
            return
        header = batch.header
        if header.record_count < 0:
            raise InvalidRecord(f"a batch of {header.record_count} records")
        if header.record_count == 0:
            return  # the bytes behind the header are not read, as in Kafka
        data = memoryview(decompress(header.compression, batch.payload, DECOMPRESSED_BYTES_MAX))
        if header.compression and not whole:
            yield from sightings(data, header)
        else:
            yield from map(Sighting.of, iter_records(data, header))

    def _legacy_sightings(self, batch: LegacyBatch) -> Iterator[Sighting | str]:
        for inner in iter_messages(batch):
            if inner.magic != batch.header.magic:
                yield f"magic {inner.magic} in a batch of magic {batch.header.magic}"
                continue
            if batch.header.compression and not inner.has_valid_crc:
                raise CorruptBatch(self._path, batch.position, "CRC-32 mismatch of a message in a compressed batch")
            yield Sighting.of(inner.record)

    def _built(self, first: Batch | LegacyBatch, records: list[Record]) -> Admitted:
        """Write records as one batch. Source: Kafka LogValidator.buildRecordsAndAssignOffsets."""
        next_offset, header = self._stamp.next_offset, first.header
        if cause := _cannot_be_built(header):
            raise IllegalRecords(self._path, cause)
        for record in records:
            if record.timestamp_ms < NO_TIMESTAMP:
                raise IllegalRecords(self._path, f"negative timestamp {record.timestamp_ms}")
        if not records:
            return Admitted(memoryview(b""), (), NO_TIMESTAMP, next_offset - 1, self._log_append_time_ms, next_offset)
        data = encode_batch(
            [
                Record(next_offset + place, one.timestamp_ms, one.key, one.value, one.headers)
                for place, one in enumerate(records)
            ],
            compression=self._target,
            compression_level=self._config.level_of(self._target),
            log_append_time_ms=self._stamp.now_ms if self._takes_log_time else None,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            partition_leader_epoch=self._stamp.leader_epoch,
        )
        limit = self._config.max_message_bytes
        if len(data) > limit:
            raise BatchTooLarge(self._path, len(data), "max.message.bytes", limit)
        newest_ms = self._stamp.now_ms if self._takes_log_time else max(one.timestamp_ms for one in records)
        return self._admitted(data, newest_ms, next_offset + len(records) - 1)

    def _admitted(self, data: bytes, newest_ms: int, last_offset: int) -> Admitted:
        batch = Batch(BatchHeader._make(V2_HEADER.unpack_from(data)), memoryview(data), self._path, 0)
        log_time_ms, first_offset = self._log_append_time_ms, self._stamp.next_offset
        return Admitted(memoryview(data), (new_batch(batch),), newest_ms, last_offset, log_time_ms, first_offset)

    @property
    def _log_append_time_ms(self) -> int:
        return self._stamp.now_ms if self._takes_log_time else NO_TIMESTAMP


def _written(header: BatchHeader, batch: Batch, *, has_new_crc: bool) -> bytes:
    """Return a batch under another header."""
    data = bytearray(V2_HEADER.pack(*header)) + batch.data[V2_HEADER_BYTES:]
    if has_new_crc:
        seal(data)
    return bytes(data)


def _cannot_be_built(header: BatchHeader | LegacyHeader) -> str | None:
    """Return the reason why Kafka does not write the batch anew. Source: Kafka
    MemoryRecordsBuilder.validateProducerState.
    """
    if header.producer_id == NO_PRODUCER_ID:
        return "a transactional batch of no producer" if header.is_transactional else None
    if header.producer_epoch == NO_PRODUCER_EPOCH:
        return f"producer {header.producer_id} without an epoch"
    if header.base_sequence < 0:
        return f"sequence {header.base_sequence} of producer {header.producer_id}"
    return None


def _split(data: memoryview, path: Path) -> Iterator[Batch | LegacyBatch]:
    """Yield the whole batches. Raises: CorruptBatch."""
    position = 0
    while len(data) - position >= LOG_OVERHEAD_BYTES:
        (length,) = _LENGTH.unpack_from(data, position + _LENGTH_POSITION)
        if length < _LENGTH_MIN:
            raise CorruptBatch(path, position, f"batch length {length} is less than {_LENGTH_MIN}")
        if len(data) - position <= MAGIC_POSITION:
            return
        magic = data[position + MAGIC_POSITION]
        if magic > MAGIC_V2:
            raise CorruptBatch(path, position, f"unknown magic {magic}")
        end = position + LOG_OVERHEAD_BYTES + length
        if end > len(data):
            return
        yield _parsed(data[position:end], magic, path, position)
        position = end


def _parsed(data: memoryview, magic: int, path: Path, position: int) -> Batch | LegacyBatch:
    """Read the header, and judge nothing in it yet. Raises: CorruptBatch."""
    if magic < MAGIC_V2:
        return LegacyBatch(parse_legacy_header(data, 0, path, position), data, path, position)
    if len(data) < V2_HEADER_BYTES:
        raise CorruptBatch(path, position, "fewer bytes than the header of a batch")
    return Batch(BatchHeader._make(V2_HEADER.unpack_from(data)), data, path, position)


def _check_head(batch: Batch | LegacyBatch, path: Path, origin: AppendOrigin, leader_epoch: int) -> None:
    """Check what the first bytes of a batch say. Raises: InvalidRecords."""
    epoch = batch.header.partition_leader_epoch
    if origin is AppendOrigin.RAFT_LEADER and epoch != leader_epoch:
        raise InvalidRecords(path, f"a batch of the quorum's leader has leader epoch {epoch}, not {leader_epoch}")
    if origin is AppendOrigin.CLIENT and isinstance(batch, Batch) and batch.base_offset != 0:
        raise InvalidRecords(path, f"the batch of a client begins at offset {batch.base_offset}, not at 0")


def _codec_of(batch: Batch | LegacyBatch, path: Path) -> Compression:
    number = batch.header.attributes & ATTRIBUTE_COMPRESSION
    if number > max(Compression):
        raise IllegalRecords(path, f"compression codec {number} is unknown")
    return Compression(number)


def _skipped(data: memoryview, position: int, size_bytes: int) -> int:
    after = position + max(size_bytes, 0)
    if after > len(data):
        raise InvalidRecord(f"field of {size_bytes} bytes with {len(data) - position} left")
    return after


def _skip_headers(data: memoryview, position: int) -> int:
    count, position = read_varint(data, position, len(data))
    if count < 0:
        raise InvalidRecord(f"{count} headers")
    for _ in range(count):
        key_bytes, position = read_varint(data, position, len(data))
        if key_bytes < 0:
            raise InvalidRecord("null header key")
        value_bytes, position = read_varint(data, _skipped(data, position, key_bytes), len(data))
        position = _skipped(data, position, value_bytes)
    return position
