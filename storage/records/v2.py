"""Record batches of version 2 (Kafka 0.11 and later): reading them.

Source: Kafka ``DefaultRecordBatch``, ``DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from storage.codecs.compression import decompress
from storage.errors import CorruptBatch, CorruptCompressedData, InvalidRecord
from storage.records.checksum import agrees
from storage.records.control import CONTROL_BYTES_MAX, TxnMarker, parse_txn_marker
from storage.records.header import V2_HEADER_BYTES, BatchHeader, sequence_after
from storage.records.record import DECOMPRESSED_BYTES_MAX, Record, RecordHeader
from storage.records.varint import read_varint, read_varlong, wrapped_int64


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
        """Return whether the CRC-32C that it states is that of the bytes."""
        return agrees(self.data, self.header.magic)

    def ensure_valid(self) -> None:
        """Raise CorruptBatch unless the CRC is right."""
        if not self.is_valid_crc():
            raise CorruptBatch(self.path, self.position, "CRC-32C mismatch")

    def records(self, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
        """Decompress and read all records; the CRC is not looked at.

        Raises:
            CorruptBatch: records that do not parse, another count than the header's, bytes left over, or more
                than ``decompressed_bytes_max`` bytes of them.
        """
        if self.header.record_count == 0:
            return []  # what lies behind the header is not looked at, as in Kafka
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
        """Read the marker as producers are replayed: of several uncompressed records the first alone is looked at.

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


def _decode_records(data: memoryview, header: BatchHeader) -> list[Record]:
    return list(iter_records(data, header))


def iter_records(data: memoryview, header: BatchHeader) -> Iterator[Record]:
    """Read records one by one, so that the caller gets the records in front of damage, too.

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


def decode_headers(data: memoryview, position: int, end: int) -> tuple[tuple[RecordHeader, ...], int]:
    """Read the headers of the record that ends at ``end``. Return them and the position behind them.

    Args:
        data: whatever holds the record.
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
