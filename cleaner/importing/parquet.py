"""Read Parquet as ``export --to parquet`` writes it, some thousand rows at a time.

Only this module of the import needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from cleaner.arrow.schema import RECORD_COLUMNS, TYPES
from cleaner.importing.records import TIMESTAMP_TYPES, ImportedRecord, NotAValue, UnusableInput, whole
from storage.records import Record

_ROWS: Final = 4096
_HEADERS: Final = "headers"
_CONTROL: Final = "control"
_MICROS: Final = 1000
"""The microseconds in a millisecond."""

Headers = tuple[tuple[bytes, bytes | None], ...]


def read_rows(path: Path) -> Iterator[tuple[ImportedRecord, int]]:
    """Yield the records of a file, each with its share of the file's bytes. Raises: UnusableInput, OSError."""
    row = 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            columns = _columns(file.schema_arrow, path)
            share = max(path.stat().st_size // max(file.metadata.num_rows, 1), 1)
            for batch in file.iter_batches(_ROWS, columns=columns):
                for found in _records(batch, row):
                    row += 1
                    yield found, share
    except NotAValue as error:
        raise UnusableInput(path, f"row {row + 1}", str(error)) from error
    except (pa.ArrowException, OSError) as error:
        raise UnusableInput(path, f"behind row {row}" if row else "", f"is no whole Parquet file: {error}") from error


def plain_bytes(path: Path) -> int:
    """Return the size of the columns before compression. Raises: UnusableInput."""
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise UnusableInput(path, "", f"is no whole Parquet file: {error}") from error
    return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def _columns(schema: pa.Schema, path: Path) -> list[str]:
    """Return the columns to read. Raises: UnusableInput if one is missing, or has another type."""
    for name in RECORD_COLUMNS:
        kind = TYPES[name][1]
        found = schema.field(name).type if name in schema.names else None
        fits = found is not None and (pa.types.is_list(found) if name == _HEADERS else found == kind)
        if not fits:
            raise UnusableInput(path, "", f"has no column {name} of type {kind}: export did not write it")
    return [*RECORD_COLUMNS, *([_CONTROL] if _CONTROL in schema.names else [])]


def _records(batch: pa.RecordBatch, row: int) -> Iterator[ImportedRecord]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    times = columns.pop("timestamp").cast(pa.int64()).to_pylist()
    headers = _headers(columns.pop(_HEADERS))
    plain = {name: column.to_pylist() for name, column in columns.items()}
    control = plain.get(_CONTROL) or [False] * batch.num_rows
    for place in range(batch.num_rows):
        timestamp_type, topic = plain["timestampType"][place], plain["topic"][place]
        if timestamp_type not in TIMESTAMP_TYPES or topic is None:
            raise NotAValue("has no topic, or a timestampType that cannot be")
        micros = whole(times[place], "timestamp")
        record = Record(
            whole(plain["offset"][place], "offset", 0),
            micros // _MICROS,
            plain["key"][place],
            plain["value"][place],
            headers[place],
        )
        source = topic, whole(plain["partition"][place], "partition", 0)
        yield ImportedRecord(record, timestamp_type, bool(control[place]), source, f"row {row + place + 1}")


def _headers(column: pa.ListArray) -> list[Headers]:
    """Return the headers of each row. Read their keys as bytes: a client may write a key that is not UTF-8."""
    there, ends, structs = column.is_valid().to_pylist(), column.offsets.to_pylist(), column.values
    keys = structs.field("key").cast(pa.binary()).to_pylist()
    values = structs.field("value").to_pylist()
    if None in keys:
        raise NotAValue("has a header without a key")
    pairs = list(zip(keys, values, strict=True))
    return [tuple(pairs[ends[row] : ends[row + 1]]) if is_there else () for row, is_there in enumerate(there)]
