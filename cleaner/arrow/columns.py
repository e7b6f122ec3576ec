"""Make Arrow record batches from chunks: kernels gather bytes, numpy does the rest, no loop runs for each record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleaner.arrow.schema import CORRUPT_BATCH, HEADERS, TIMESTAMP, TYPES
from storage.codecs.compression import Compression
from storage.kernels.layout import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADERS_AT,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    LOG_APPEND_TIME,
    OFFSET,
    ROW,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.kernels.layout import TIMESTAMP as TIMESTAMP_MS
from storage.kernels.locate import gather_bytes, gather_headers
from storage.kernels.status import Status
from storage.scan.chunks import Chunk
from storage.scan.extents import Extent
from storage.scan.legacy_rows import NO_TIMESTAMP_TYPE
from storage.scan.slices import Damage

RECORDS_MAX: Final = 1 << 18
"""The most records of one Arrow batch."""

_MICROS_MAX: Final = 2**63 - 1
_MILLIS_MAX: Final = _MICROS_MAX // 1000
_SEQUENCE_MASK: Final = (1 << 31) - 1

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some records of a chunk, with the sources of their columns."""

    chunk: Chunk
    extent: Extent
    located: npt.NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.located.shape[1])

    def of_batch(self, field: str) -> Array:
        """Return for each record a field of its batch."""
        return self.each(self.chunk.table[field])

    def each(self, of_batches: Array) -> Array:
        """Return for each record the value of its batch."""
        found: Array = np.take(of_batches, self.located[ROW])
        return found


def record_batches(chunk: Chunk, extent: Extent, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of a chunk's records. The columns keep no reference to the chunk's buffers."""
    records = chunk.located.shape[1]
    for first in range(0, records, RECORDS_MAX):
        rows = _Rows(chunk, extent, chunk.located[:, first : first + RECORDS_MAX])
        yield pa.RecordBatch.from_arrays([_COLUMNS[name](rows) for name in schema.names], schema=schema)


def damage_batch(damage: Damage, extent: Extent, schema: pa.Schema) -> pa.RecordBatch:
    """Return one row for a damaged batch: its place and its fault. All other columns are null."""
    told = {
        "topic": extent.topic_partition.topic,
        "partition": extent.topic_partition.partition,
        "offset": damage.base_offset,
        "segment": str(extent.path),
        "position": damage.error.position,
        CORRUPT_BATCH: str(damage.error),
    }
    return pa.RecordBatch.from_arrays([pa.array([told.get(f.name)], f.type) for f in schema], schema=schema)


def _plain(values: Array, data_type: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(data_type, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _integers(field: str, data_type: pa.DataType) -> Callable[[_Rows], pa.Array]:
    """Return a function that makes the column of a batch's field, repeated for each of its records."""
    return lambda rows: _plain(rows.of_batch(field).astype(data_type.to_pandas_dtype()), data_type)


def _bytes_of(at: int, size: int) -> Callable[[_Rows], pa.Array]:
    """Return a function that makes the column of a field of the records themselves."""

    def gather(rows: _Rows) -> pa.Array:
        lengths = rows.located[size]
        offsets = np.empty(rows.count + 1, np.int32)
        data = np.empty(int(np.maximum(lengths, 0).sum()), np.uint8)
        validity = _all_valid(rows.count)
        status, nulls = gather_bytes(rows.chunk.buf, rows.located[at], lengths, offsets, data, validity)
        assert status == Status.OK, f"located fields that are not there: {status}"
        return _variable(pa.binary(), rows.count, offsets, data, validity if nulls else None, nulls)

    return gather


def _headers(rows: _Rows) -> pa.Array:
    starts, lengths = rows.located[HEADERS_AT], rows.located[HEADERS_BYTES]
    room = int(lengths.sum()) - rows.count  # each record's header count takes at least a byte
    if room == 0:
        return pa.nulls(rows.count, HEADERS)
    lists, validity = np.empty(rows.count + 1, np.int32), _all_valid(rows.count)
    keys, values = np.empty(room + 1, np.int32), np.empty(room + 1, np.int32)
    key_data, value_data, value_validity = np.empty(room, np.uint8), np.empty(room, np.uint8), _all_valid(room)
    status, empty, made, nulls = gather_headers(
        rows.chunk.buf, starts, lengths, lists, validity, keys, key_data, values, value_data, value_validity
    )
    assert status == Status.OK, f"located headers that are not there: {status}"
    pairs = [
        _variable(pa.string(), made, keys, key_data, None, 0),
        _variable(pa.binary(), made, values, value_data, value_validity if nulls else None, nulls),
    ]
    structs = pa.StructArray.from_arrays(pairs, fields=list(HEADERS.value_type))
    buffers = [pa.py_buffer(validity), pa.py_buffer(lists)]
    return pa.Array.from_buffers(HEADERS, rows.count, buffers, empty, children=[structs])


def _all_valid(count: int) -> npt.NDArray[np.uint8]:
    return np.full(count // 8 + 1, 0xFF, np.uint8)


def _variable(
    data_type: pa.DataType, count: int, offsets: Array, data: Array, validity: Array | None, nulls: int
) -> pa.Array:
    valid = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(data_type, count, [valid, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def _repeated(value: str | int, count: int) -> pa.Array:
    """Return a column of one value: the start of a cached column, as the next chunk needs about as many rows."""
    return _constant(value, 1 << (count - 1).bit_length()).slice(0, count)


@lru_cache(maxsize=3)
def _constant(value: str | int, count: int) -> pa.Array:
    if isinstance(value, int):
        return _plain(np.full(count, value, np.int32), pa.int32())
    data = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return _variable(pa.string(), count, offsets, np.frombuffer(data * count, np.uint8), None, 0)


def _micros(millis: Array) -> npt.NDArray[np.int64]:
    """Return milliseconds as microseconds, cut to the range of Spark's timestamps."""
    micros: npt.NDArray[np.int64] = np.clip(millis, -_MILLIS_MAX, _MILLIS_MAX)
    micros *= 1000
    return micros


def _timestamp_type(rows: _Rows) -> pa.Array:
    """Return the column ``timestampType``: -1 none, 0 CreateTime, 1 LogAppendTime. Source: Kafka TimestampType."""
    attributes = rows.chunk.table["attributes"]
    types = np.where(attributes & NO_TIMESTAMP_TYPE, -1, (attributes & LOG_APPEND_TIME) != 0)
    return _plain(rows.each(types.astype(np.int32)), pa.int32())


def _sequence(rows: _Rows) -> pa.Array:
    """Return the column ``sequence``: it wraps past 2^31-1 to 0; -1 stands for none.

    Source: Kafka DefaultRecordBatch.incrementSequence.
    """
    base = rows.of_batch("base_sequence").astype(np.int64)
    wrapped = (base + rows.located[OFFSET] - rows.of_batch("base_offset")) & _SEQUENCE_MASK
    return _plain(np.where(base < 0, -1, wrapped).astype(np.int32), pa.int32())


def _codec(rows: _Rows) -> pa.Array:
    return _codec_names().take(pa.array(rows.of_batch("attributes") & CODEC_MASK))


@cache
def _codec_names() -> pa.Array:
    """Return the names of codecs. They are made on demand: ``pa.array`` imports pandas, which would slow each start."""
    return pa.array([codec.name.lower() for codec in Compression], pa.string())


def _delete_horizon(rows: _Rows) -> pa.Array:
    has_none = (rows.of_batch("attributes") & DELETE_HORIZON) == 0
    return pa.array(_micros(rows.of_batch("base_timestamp")), pa.int64(), mask=has_none).cast(TIMESTAMP)


_COLUMNS: Final[dict[str, Callable[[_Rows], pa.Array]]] = {
    "key": _bytes_of(KEY_AT, KEY_BYTES),
    "value": _bytes_of(VALUE_AT, VALUE_BYTES),
    "topic": lambda rows: _repeated(rows.extent.topic_partition.topic, rows.count),
    "partition": lambda rows: _repeated(rows.extent.topic_partition.partition, rows.count),
    "offset": lambda rows: _plain(rows.located[OFFSET].copy(), pa.int64()),
    "timestamp": lambda rows: _plain(_micros(rows.located[TIMESTAMP_MS]), TIMESTAMP),
    "timestampType": _timestamp_type,
    "headers": _headers,
    "producerId": _integers("producer_id", pa.int64()),
    "producerEpoch": _integers("producer_epoch", pa.int32()),
    "sequence": _sequence,
    "leaderEpoch": _integers("leader_epoch", pa.int32()),
    "codec": _codec,
    "control": lambda rows: pa.array((rows.of_batch("attributes") & CONTROL) != 0),
    "deleteHorizon": _delete_horizon,
    "segment": lambda rows: _repeated(str(rows.extent.path), rows.count),
    "position": lambda rows: _plain(rows.of_batch("position") + rows.chunk.file_position, pa.int64()),
    CORRUPT_BATCH: lambda rows: pa.nulls(rows.count, pa.string()),
}
assert _COLUMNS.keys() == TYPES.keys()
