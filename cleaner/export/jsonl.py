"""JSON lines: one object for each record, with the column names of the Spark source.

Bytes are text if they are UTF-8, else base64. ``keyEncoding`` and ``valueEncoding`` say which: ``"utf-8"``,
``"base64"``, or null if the key or value is null. Each header has the same four fields. Times are epoch ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, Final

from cleaner.export.fields import Fields, shown, told
from storage.arrays import Table
from storage.codecs.compression import Compression
from storage.kernels.layout import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME
from storage.records.v2 import decode_headers, sequence_after
from storage.scan.chunks import Chunk
from storage.scan.extents import Extent
from storage.scan.legacy_rows import NO_TIMESTAMP_TYPE

_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_CODECS: Final = tuple(codec.name.lower() for codec in Compression)


class JsonLinesWriter:
    """Writes JSON lines, each chunk at once."""

    def __init__(self, file: BinaryIO, *, with_metadata: bool, hidden: frozenset[str] = frozenset()) -> None:
        """Prepare to write. ``keys`` and ``values`` can be hidden."""
        self._file, self._with_metadata, self._hidden = file, with_metadata, hidden

    def write(self, chunk: Chunk, extent: Extent) -> None:
        """Take the records of a chunk. Raises: OSError."""
        self._file.writelines(
            f"{_ENCODE(fields)}\n".encode()
            for fields in _records(chunk, extent, with_metadata=self._with_metadata, hidden=self._hidden)
        )

    def finish(self) -> None:
        """Write the bytes in Python's buffer. Raises: OSError."""
        self._file.flush()

    def abandon(self) -> None:
        """Do nothing: only the file is open, and it belongs to the caller."""


def _records(chunk: Chunk, extent: Extent, *, with_metadata: bool, hidden: frozenset[str]) -> Iterator[Fields]:
    topic, partition = extent.topic_partition
    hides_keys, hides_values = "keys" in hidden, "values" in hidden
    view, row, batch = chunk.buf.data, -1, _LineBatch(chunk, extent, 0)
    for located in zip(*chunk.located.tolist(), strict=True):
        offset, time_ms, key_at, key_bytes, value_at, value_bytes, headers_at, headers_bytes, of_row = located
        if of_row != row:
            row, batch = of_row, _LineBatch(chunk, extent, of_row)
        headers, _ = decode_headers(view, headers_at, headers_at + headers_bytes)
        yield {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": time_ms,
            "timestampType": batch.timestamp_type,
            **shown("key", _field(view, key_at, key_bytes), is_hidden=hides_keys),
            **shown("value", _field(view, value_at, value_bytes), is_hidden=hides_values),
            "headers": [told("key", key) | shown("value", value, is_hidden=hides_values) for key, value in headers],
            **(batch.metadata(offset) if with_metadata else {}),
        }


def _field(view: memoryview, at: int, size_bytes: int) -> bytes | None:
    return None if size_bytes < 0 else bytes(view[at : at + size_bytes])


class _LineBatch:
    """The fields that the records of one batch have in common."""

    def __init__(self, chunk: Chunk, extent: Extent, row: int) -> None:
        self._row: Table = chunk.table[row]
        self._attributes = int(self._row["attributes"])
        self._path, self._file_position = str(extent.path), chunk.file_position

    @property
    def timestamp_type(self) -> int:
        """The type of the timestamps: -1 none, 0 CreateTime, 1 LogAppendTime. Source: Kafka TimestampType."""
        return -1 if self._attributes & NO_TIMESTAMP_TYPE else int(bool(self._attributes & LOG_APPEND_TIME))

    def metadata(self, offset: int) -> Fields:
        """Return the fields that ``--include-metadata`` adds to the record at an offset."""
        row, has_horizon = self._row, bool(self._attributes & DELETE_HORIZON)
        return {
            "producerId": int(row["producer_id"]),
            "producerEpoch": int(row["producer_epoch"]),
            "sequence": sequence_after(int(row["base_sequence"]), offset - int(row["base_offset"])),
            "leaderEpoch": int(row["leader_epoch"]),
            "codec": _CODECS[self._attributes & CODEC_MASK],
            "control": bool(self._attributes & CONTROL),
            "deleteHorizon": int(row["base_timestamp"]) if has_horizon else None,
            "segment": self._path,
            "position": int(row["position"]) + self._file_position,
        }
