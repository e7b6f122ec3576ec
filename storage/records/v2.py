"""Record batches of version 2 (Kafka 0.11 and later): header, records and control records, read and written.

The header is the 61 bytes before the records; it can be read without decompressing them. A ``Record`` is the same value
for each format. Kafka itself writes control records.

Varint:     zigzag, seven bits a byte, the lowest first, the top bit says that more follow. A varint takes at most 5
            bytes and a varlong 10; bits beyond 32 or 64 are dropped.
Checksum:   a batch of version 2 states the CRC-32C of all behind it, a message of version 0 or 1 the CRC-32. This
module computes, compares and writes it in readable code; kernels do so in ``storage.kernels.crc``.
Source:     Kafka ``DefaultRecordBatch`` (``writeHeader``, ``writeEmptyHeader``, ``ensureValid``), ``DefaultRecord``
            (``writeTo``), ``MemoryRecordsBuilder``, ``ByteUtils``, ``ControlRecordType``, ``EndTransactionMarker``,
            ``LegacyRecord.ensureValid``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from storage.codecs.compression import Compression, compress, decompress
from storage.errors import CorruptBatch, CorruptCompressedData, InvalidRecord

_CRC: Final = struct.Struct(">I")

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""The most bytes of a decompressed batch, unless the caller sets its own limit.

Kafka 4.3 sets no limit, but no client comes near this one: librdkafka holds a batch to ``message.max.bytes`` before it
compresses it, Java's producer closes one at ``batch.size`` compressed bytes, and the best codec makes a thousandth of
the emptiest data. 128 times a broker's default of 1 MiB for a compressed batch, and small enough for a run's memory.
"""
RecordHeader = tuple[bytes, bytes | None]
"""A record header: key (UTF-8, kept as bytes) and value."""

LOG_OVERHEAD_BYTES: Final = 12
"""Offset and length, in front of every batch of every format; the length counts what follows them."""
MAGIC_POSITION: Final = 16
MAGIC_V2: Final = 2
V2_HEADER_BYTES: Final = 61
CRC_POSITION: Final = 17
CRC_START: Final = 21
"""The CRC-32C covers the attributes and all bytes behind them, but not offset and epoch, which a broker assigns."""
V2_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
ATTRIBUTE_COMPRESSION: Final = 0x07
ATTRIBUTE_LOG_APPEND_TIME: Final = 0x08
ATTRIBUTE_TRANSACTIONAL: Final = 0x10
ATTRIBUTE_CONTROL: Final = 0x20
ATTRIBUTE_DELETE_HORIZON: Final = 0x40
OFFSET_MAX: Final = (1 << 63) - 1
_SEQUENCE_MODULUS: Final = 1 << 31
_CODEC_MAX: Final = max(Compression)

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
CONTROL_BYTES_MAX: Final = 1 << 20
"""The most bytes of a decompressed control batch: it holds one small record, and Kafka does not compress it."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record with its absolute offset and timestamp (epoch ms, -1 for none)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()
    sequence: int = NO_SEQUENCE

    @property
    def is_tombstone(self) -> bool:
        """Return whether the value is null: in a compacted topic, the key is deleted."""
        return self.value is None


class BatchHeader(NamedTuple):
    """Header of a v2 batch: its fields in the order they are stored in. Cheap: there are many.

    ``batch_length`` is the stored length, without the 12 bytes of offset and length. ``base_timestamp_ms`` is the field
    as stored: the delete horizon, if there is one. The codec in ``attributes`` exists: parsing has checked it.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch on disk."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or of the last one there was before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """First offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Codec of the records."""
        return Compression(self.attributes & ATTRIBUTE_COMPRESSION)

    @property
    def is_log_append_time(self) -> bool:
        """Return whether every record takes ``max_timestamp_ms``, the broker's clock, as its timestamp."""
        return bool(self.attributes & ATTRIBUTE_LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction; so do markers."""
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Return whether the records are Kafka's own: transaction markers, KRaft control records."""
        return bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Return whether a compaction has stamped the moment from which tombstones and markers may go."""
        return bool(self.attributes & ATTRIBUTE_DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The delete horizon, epoch ms; None without one."""
        return self.base_timestamp_ms if self.has_delete_horizon else None

    @property
    def has_producer_id(self) -> bool:
        """Return whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapping past 2^31-1 to 0; -1 without sequences."""
        return sequence_after(self.base_sequence, self.last_offset_delta)


def parse_header(buf: bytes | memoryview, position: int, path: Path | str, buf_position: int = 0) -> BatchHeader:
    """Read the header of the v2 batch that starts at ``position`` of ``buf``.

    Args:
        buf: bytes of a ``.log``, or of a window of it.
        position: where in ``buf`` the batch starts.
        path: the file, for errors.
        buf_position: where in the file ``buf`` starts, for errors.

    Raises:
        CorruptBatch: fewer than 61 bytes, another magic, or a length, offsets, codec or count that cannot be.
    """
    where = buf_position + position
    if position < 0 or len(buf) - position < V2_HEADER_BYTES:
        raise CorruptBatch(Path(path), where, "fewer bytes than the header of a batch")
    header = tuple.__new__(BatchHeader, V2_HEADER.unpack_from(buf, position))
    cause = _cause_of_damage(header)
    if cause is not None:
        raise CorruptBatch(Path(path), where, cause)
    return header


class Batch(NamedTuple):
    """A v2 batch: its header, read, and all of its bytes.

    ``position`` is where it starts in ``path``, for errors.
    """

    header: BatchHeader
    data: memoryview
    path: Path
    position: int

    @property
    def base_offset(self) -> int:
        """Offset of the first record, or of the first one there was before compaction."""
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or of the last one there was before compaction."""
        return self.header.last_offset

    @property
    def payload(self) -> memoryview:
        """The records, compressed as one block."""
        return self.data[V2_HEADER_BYTES:]

    def is_valid_crc(self) -> bool:
        """Return whether the stated CRC-32C is that of the bytes."""
        return agrees(self.data, self.header.magic)

    def ensure_valid(self) -> None:
        """Raise CorruptBatch unless the CRC is right."""
        if not self.is_valid_crc():
            raise CorruptBatch(self.path, self.position, "CRC-32C mismatch")

    def records(self, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
        """Decompress and read all records; the CRC is not checked.

        Raises:
            CorruptBatch: records that do not parse, another count than the header's, bytes left over, or more
                than ``decompressed_bytes_max`` bytes of them.
        """
        if self.header.record_count == 0:
            return []  # the bytes behind the header are not read, as in Kafka
        try:
            data = decompress(self.header.compression, self.payload, decompressed_bytes_max)
            return _decode_records(memoryview(data), self.header)
        except (InvalidRecord, CorruptCompressedData) as error:
            raise CorruptBatch(self.path, self.position, str(error)) from error

    def txn_marker(self) -> TxnMarker | None:
        """Read the transaction marker in a control batch of a producer; None if compaction left the batch empty.

        Raises:
            CorruptBatch: the first record is no marker.
        """
        records = self.records(CONTROL_BYTES_MAX)
        return self._parsed_marker(records[0]) if records else None

    def first_txn_marker(self) -> TxnMarker | None:
        """Read the marker as a replay of producers does: of several uncompressed records the first one counts.

        Returns and raises as ``txn_marker``. Source: Kafka ProducerAppendInfo.append.
        """
        header = self.header
        if header.compression or header.record_count <= 1:
            return self.txn_marker()
        try:
            first = next(iter_records(self.payload, header))
        except InvalidRecord as error:
            raise CorruptBatch(self.path, self.position, str(error)) from error
        return self._parsed_marker(first)

    def _parsed_marker(self, record: Record) -> TxnMarker:
        try:
            return parse_txn_marker(record.key, record.value, record.timestamp_ms)
        except InvalidRecord as error:
            raise CorruptBatch(self.path, self.position, str(error)) from error


def iter_records(data: memoryview, header: BatchHeader) -> Iterator[Record]:
    """Read records one by one, so that the caller also gets the records in front of damage.

    Args:
        data: the plain records of the batch.
        header: of the batch.

    Raises: InvalidRecord, where ``Batch.records`` raises CorruptBatch.
    """
    position = 0
    for _ in range(header.record_count):
        record, position = _decode_record(data, position, header)
        yield record
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes behind the last of {header.record_count} records")


def decode_headers(data: memoryview, position: int, end: int) -> tuple[tuple[RecordHeader, ...], int]:
    """Read the headers of the record that ends at ``end``. Return them and the position behind them.

    Args:
        data: the bytes that hold the record.
        position: of the headers' count.
        end: of the record.

    Raises: InvalidRecord.
    """
    count, position = read_varint(data, position, end)
    if not 0 <= count <= end - position:
        raise InvalidRecord(f"{count} headers with {end - position} bytes left in the record")
    headers = []
    for _ in range(count):
        key, position = _decode_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("null header key")
        value, position = _decode_bytes(data, position, end)
        headers.append((key, value))
    return tuple(headers), position


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Serialize a v2 batch.

    Args:
        records: at least one; ascending offsets. Their sequences are not used: the sequences of a batch follow from its
        base.
        base_offset: default: the first record's.
        last_offset: default: the last record's.
        compression: codec.
        compression_level: of the codec; default: its own.
        log_append_time_ms: gives the batch the type LogAppendTime and this time, epoch ms; default: CreateTime.
        delete_horizon_ms: stamps this horizon, epoch ms.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: -1 for none.
        is_transactional: the records belong to a transaction.
        is_control: the records are control records.
        partition_leader_epoch: -1 for none.
    """
    assert records, "a batch has a record"
    base_offset = records[0].offset if base_offset is None else base_offset
    last_offset = records[-1].offset if last_offset is None else last_offset
    base_timestamp_ms = records[0].timestamp_ms if delete_horizon_ms is None else delete_horizon_ms
    newest_ms = max(record.timestamp_ms for record in records)
    attributes = (
        compression
        | (ATTRIBUTE_LOG_APPEND_TIME if log_append_time_ms is not None else 0)
        | (ATTRIBUTE_TRANSACTIONAL if is_transactional else 0)
        | (ATTRIBUTE_CONTROL if is_control else 0)
        | (ATTRIBUTE_DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    payload = compress(compression, _encode_records(records, base_offset, base_timestamp_ms), level=compression_level)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=V2_HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload),
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=newest_ms if log_append_time_ms is None else log_append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    batch = bytearray(V2_HEADER.pack(*header) + payload)
    seal(batch)
    return bytes(batch)


def sequence_after(base_sequence: int, delta: int) -> int:
    """Add ``delta`` to ``base_sequence``, wrapping past 2^31-1 to 0. Return -1 if there is no sequence."""
    return NO_SEQUENCE if base_sequence < 0 else (base_sequence + delta) % _SEQUENCE_MODULUS


def sequence_before(sequence: int, delta: int) -> int:
    """Subtract ``delta`` from ``sequence``, wrapping below 0 to 2^31-1. Source: Kafka decrementSequence."""
    return sequence - delta if sequence >= delta else _SEQUENCE_MODULUS - (delta - sequence)


class ControlType(IntEnum):
    """The kinds of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1
    """A kind that only a later Kafka knows."""

    @classmethod
    def _missing_(cls, _value: object) -> ControlType:
        return cls.UNKNOWN


class TxnMarker(NamedTuple):
    """The end of a transaction. ``timestamp_ms`` is the record's, epoch ms."""

    type: ControlType
    coordinator_epoch: int
    timestamp_ms: int

    @property
    def is_abort(self) -> bool:
        """Return whether the transaction was aborted."""
        return self.type is ControlType.ABORT


def parse_control_type(key: bytes | None) -> ControlType:
    """Read the key of a control record. Higher versions are read as version 0, and bytes behind are ignored.

    Raises:
        InvalidRecord: no key, one of fewer than 4 bytes, or a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("the key of a control record has fewer than 4 bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"the key of a control record has version {version}")
    return ControlType(kind)


def parse_txn_marker(key: bytes | None, value: bytes | None, timestamp_ms: int) -> TxnMarker:
    """Read a record of a control batch with a producer id.

    Raises:
        InvalidRecord: it is neither ABORT nor COMMIT, or its value is short or of a negative version.
    """
    kind = parse_control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"control record {kind.name} in a batch of a transactional producer")
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecord("the value of a transaction marker has fewer than 6 bytes")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"the value of a transaction marker has version {version}")
    return TxnMarker(kind, coordinator_epoch, timestamp_ms)


def agrees(data: bytes | memoryview, magic: int, behind: Iterable[bytes] = ()) -> bool:
    """Return whether the checksum that a batch states is that of its bytes.

    Args:
        data: the batch, at least as many bytes as the shortest message has.
        magic: its version; as in Kafka, what is below 2 is a message.
        behind: the bytes that follow ``data``, if the batch comes in pieces.
    """
    is_v2 = magic >= MAGIC_V2
    stated_at, start = (CRC_POSITION, CRC_START) if is_v2 else (LOG_OVERHEAD_BYTES, MAGIC_POSITION)
    view = memoryview(data)
    crc = _sum_up(view[start:], 0, is_v2=is_v2)
    for piece in behind:
        crc = _sum_up(piece, crc, is_v2=is_v2)
    return bool(crc == _CRC.unpack_from(view, stated_at)[0])


def seal(batch: bytearray) -> None:
    """Write the checksum of a batch of version 2 into its place."""
    _CRC.pack_into(batch, CRC_POSITION, _sum_up(memoryview(batch)[CRC_START:], 0, is_v2=True))


def number(batches: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch of version 2 at a position its first offset and its leader epoch; its checksum covers neither."""
    _OFFSET.pack_into(batches, position, base_offset)
    _LEADER_EPOCH.pack_into(batches, position + LOG_OVERHEAD_BYTES, leader_epoch)


def read_varint(buf: memoryview, position: int, end: int) -> tuple[int, int]:
    """Read an int32; gives it and the position behind. Raises InvalidRecord at ``end``, after 5 bytes."""
    return _read(buf, position, end, VARINT_BYTES_MAX, 32)


def read_varlong(buf: memoryview, position: int, end: int) -> tuple[int, int]:
    """Read an int64; gives it and the position behind. Raises InvalidRecord at ``end``, after 10 bytes."""
    return _read(buf, position, end, VARLONG_BYTES_MAX, 64)


def write_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (an int32 or int64) to ``out``."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def wrapped_int64(value: int) -> int:
    """Return the int64 with the same low 64 bits, as Java's sums and differences do.

    The distance of a timestamp from the base timestamp can exceed an int64: the written number wraps, and wraps back
    when it is read.
    """
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _cause_of_damage(header: BatchHeader) -> str | None:
    base_offset, batch_length, _, magic, _, attributes, last_offset_delta, *_, record_count = header
    if magic != MAGIC_V2:
        return f"magic {magic} is not that of a v2 batch"
    if LOG_OVERHEAD_BYTES + batch_length < V2_HEADER_BYTES:
        return f"batch length {batch_length} is less than that of a header"
    if base_offset < 0 or last_offset_delta < 0 or base_offset + last_offset_delta >= OFFSET_MAX:
        return f"offsets that cannot be: base {base_offset}, last delta {last_offset_delta}"
    if record_count < 0:
        return f"negative record count {record_count}"
    if attributes & ATTRIBUTE_COMPRESSION > _CODEC_MAX:
        return f"unknown compression codec {attributes & ATTRIBUTE_COMPRESSION}"
    return None


def _decode_records(data: memoryview, header: BatchHeader) -> list[Record]:
    return list(iter_records(data, header))


def _decode_record(data: memoryview, start: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(data, start, len(data))
    end = position + length
    if length < 1 or end > len(data):
        raise InvalidRecord(f"record of {length} bytes with {len(data) - position} left")
    timestamp_delta, position = read_varlong(data, position + 1, end)  # behind the attributes, which are unused
    offset_delta, position = read_varint(data, position, end)
    key, position = _decode_bytes(data, position, end)
    value, position = _decode_bytes(data, position, end)
    headers, position = decode_headers(data, position, end)
    if position != end:
        raise InvalidRecord(f"record of {length} bytes with {end - position} unused")
    timestamp_ms = wrapped_int64(header.base_timestamp_ms + timestamp_delta)
    record = Record(
        offset=header.base_offset + offset_delta,
        timestamp_ms=header.max_timestamp_ms if header.is_log_append_time else timestamp_ms,
        key=key,
        value=value,
        headers=headers,
        sequence=sequence_after(header.base_sequence, offset_delta),
    )
    return record, end


def _decode_bytes(data: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    """Read a length and that many bytes; a negative length is null."""
    length, position = read_varint(data, position, end)
    if length < 0:
        return None, position
    if length > end - position:
        raise InvalidRecord(f"field of {length} bytes with {end - position} left in the record")
    return bytes(data[position : position + length]), position + length


def _encode_records(records: Sequence[Record], base_offset: int, base_timestamp_ms: int) -> bytes:
    out = bytearray()
    for record in records:
        body = _encode_record(record, base_offset, base_timestamp_ms)
        write_varint(out, len(body))
        out += body
    return bytes(out)


def _encode_record(record: Record, base_offset: int, base_timestamp_ms: int) -> bytearray:
    body = bytearray(1)  # attributes, unused
    write_varint(body, wrapped_int64(record.timestamp_ms - base_timestamp_ms))
    write_varint(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key)
        _write_bytes(body, value)
    return body


def _write_bytes(out: bytearray, field: bytes | None) -> None:
    if field is None:
        write_varint(out, -1)
        return
    write_varint(out, len(field))
    out += field


def _sum_up(data: bytes | memoryview, crc: int, *, is_v2: bool) -> int:
    if not is_v2:
        return zlib.crc32(data, crc)
    from crc32c import crc32c  # noqa: PLC0415 - a run that reads no batch does without

    return crc32c(data, crc)


def _read(buf: memoryview, position: int, end: int, bytes_max: int, bits: int) -> tuple[int, int]:
    raw = 0
    for index in range(bytes_max):
        if position >= end:
            raise InvalidRecord("a variable-length integer runs past the end of its record")
        byte = buf[position]
        position += 1
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= (1 << bits) - 1
            return (raw >> 1) ^ -(raw & 1), position
    raise InvalidRecord(f"a variable-length integer takes more than {bytes_max} bytes")
