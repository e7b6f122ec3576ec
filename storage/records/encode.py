"""Record batches of version 2: writing them.

Source: Kafka ``MemoryRecordsBuilder``, ``DefaultRecordBatch.writeHeader``, ``writeEmptyHeader``,
``DefaultRecord.writeTo``.
"""

from __future__ import annotations

from collections.abc import Sequence

from storage.codecs.compression import Compression, compress
from storage.records.checksum import seal
from storage.records.header import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    V2_HEADER,
    V2_HEADER_BYTES,
    BatchHeader,
)
from storage.records.record import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Record,
)
from storage.records.varint import wrapped_int64, write_varint


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
        log_append_time_ms: makes the batch LogAppendTime with this time, epoch ms; default: CreateTime.
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
