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
"""Those of Spark's own Kafka source, in its order. Source: Spark KafkaRecordToRowConverter."""

BATCH_COLUMNS: Final = (
    "producerId", "producerEpoch", "sequence", "leaderEpoch",
    "codec", "control", "deleteHorizon", "segment", "position",
)  # fmt: skip
"""What ``includeMetadata`` adds. Where there is no producer, sequence or leader epoch, -1, as Kafka has it."""

CORRUPT_BATCH: Final = "_corrupt_batch"
"""What ``mode = PERMISSIVE`` adds: of a batch that is damaged, what is wrong with it and where; else null."""

KEY_COLUMNS: Final = ("key", "topic", "partition", "offset")
"""What ``keysOnly`` leaves."""

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
"""By name: Spark's simple type, Arrow's type."""


def ddl(columns: Iterable[str]) -> str:
    """The columns as Spark reads a schema."""
    return ", ".join(f"`{name}` {TYPES[name][0]}" for name in columns)


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """The columns as Spark expects them from a worker."""
    return pa.schema([pa.field(name, TYPES[name][1]) for name in columns])
