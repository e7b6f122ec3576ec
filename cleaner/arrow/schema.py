"""The columns of ``kafka-log``: their names, and their types for Spark and for Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

RECORD_COLUMNS: Final = (
    "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
)  # fmt: skip
"""The columns of Spark's own Kafka source, in its order. Source: Spark KafkaRecordToRowConverter."""

BATCH_COLUMNS: Final = (
    "producerId", "producerEpoch", "sequence", "leaderEpoch",
    "codec", "control", "deleteHorizon", "segment", "position",
)  # fmt: skip
"""The columns that ``includeMetadata`` adds. As in Kafka, -1 stands for no producer, sequence or leader epoch."""

CORRUPT_BATCH: Final = "_corrupt_batch"
"""The column that ``mode = PERMISSIVE`` adds: the fault of a damaged batch, with its place; else null."""

KEY_COLUMNS: Final = ("key", "topic", "partition", "offset")
"""The columns that remain with ``keysOnly``."""

TYPES: Final[dict[str, tuple[str, pa.DataType]]] = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "offset": ("bigint", pa.int64()),
    "timestamp": ("timestamp", TIMESTAMP),
    "timestampType": ("int", pa.int32()),
    "headers": ("array<struct<key:string,value:binary>>", HEADERS),
    "producerId": ("bigint", pa.int64()),
    "producerEpoch": ("int", pa.int32()),
    "sequence": ("int", pa.int32()),
    "leaderEpoch": ("int", pa.int32()),
    "codec": ("string", pa.string()),
    "control": ("boolean", pa.bool_()),
    "deleteHorizon": ("timestamp", TIMESTAMP),
    "segment": ("string", pa.string()),
    "position": ("bigint", pa.int64()),
    CORRUPT_BATCH: ("string", pa.string()),
}
"""Column name -> Spark's simple type, Arrow's type."""


def ddl(columns: Iterable[str]) -> str:
    """Return the columns as a schema in Spark's words."""
    return ", ".join(f"`{name}` {TYPES[name][0]}" for name in columns)


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """Return the columns as the Arrow schema that Spark expects from a worker."""
    return pa.schema([pa.field(name, TYPES[name][1]) for name in columns])
