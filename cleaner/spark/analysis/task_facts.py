"""Make the facts that tasks of an analysis hand to Spark instead of records, and their columns: stretches and keys.

A *stretch* is a run of records of one batch on one day. A stretch holds counts. A fact about a key holds the key,
offset and size of one record. No fact holds a value. No loop runs once for each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleaner.arrow.columns import record_batches
from cleaner.arrow.schema import arrow_schema
from storage.errors import UnreadableFile
from storage.kernels.layout import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    KEY_AT,
    KEY_BYTES,
    OFFSET,
    ROW,
    TIMESTAMP,
    VALUE_BYTES,
)
from storage.records.v2 import ATTRIBUTE_TRANSACTIONAL
from storage.scan.chunks import Chunk, chunks
from storage.scan.extents import Extent
from storage.scan.files import SegmentGone, read_in_turn
from storage.scan.segments import open_extent
from storage.scan.slices import Damage

NO_MARKER: Final = -1
STRETCH: Final = pa.schema(
    [
        ("place", pa.int32()),  # the number of the partition in the snapshot
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("day", pa.int64()),  # since the epoch; negative without a timestamp
        ("batch_bytes", pa.int64()),  # of the whole batch; null except in the batch's first stretch
        ("size_bytes", pa.int64()),  # the stretch's share of the batch
        ("plain_bytes", pa.int64()),  # the share of the uncompressed bytes; null if unknown
        ("records", pa.int64()),
        ("codec", pa.int32()),
        ("is_control", pa.bool_()),
        ("marker", pa.int32()),  # storage.records.ControlType, or NO_MARKER
        ("is_transactional", pa.bool_()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("without_key", pa.int64()),
        ("tombstones", pa.int64()),
        ("first_ms", pa.int64()),
        ("last_ms", pa.int64()),
        ("oldest_ms", pa.int64()),  # of the records with a timestamp; null if there is none
        ("newest_ms", pa.int64()),
        ("future", pa.int64()),
        ("out_of_order", pa.int64()),  # within the stretch
        ("missing", pa.int64()),
        ("problem", pa.string()),  # if not null, all else is null
    ]
)
KEY: Final = pa.schema(
    [
        ("place", pa.int32()),
        ("key", pa.binary()),
        ("offset", pa.int64()),
        ("size_bytes", pa.int64()),  # of key and value
        ("is_tombstone", pa.bool_()),
        ("problem", pa.string()),
    ]
)

DAY_MS: Final = 86_400_000
Places = dict[Path, int]
"""The numbers of partitions in the snapshot, by partition directory."""
Integers = npt.NDArray[np.int64]


def facts_of(extents: tuple[Extent, ...], places: Places, schema: pa.Schema, now_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield the facts of a task's extents.

    Args:
        extents: extents of the snapshot.
        places: the numbers of the partitions.
        schema: ``STRETCH`` or ``KEY``.
        now_ms: epoch ms; later records are future-dated.

    Yields:
        Batches of that schema. Damage, or a file that is gone or unreadable, becomes a row with a problem; the other
        extents are read all the same.
    """
    with_control = schema.equals(STRETCH)
    for extent, file in read_in_turn(extents):
        place = places[extent.path.parent]
        try:
            with open_extent(extent, file) as reader:
                for found in chunks(reader, extent, with_control=with_control):
                    if isinstance(found, Damage):
                        yield _problem(schema, str(found.error))
                    elif with_control:
                        yield stretches(found, place, now_ms)
                    else:
                        yield from keyed_records(found, extent, place)
        except SegmentGone:
            yield _problem(schema, f"{extent.path}: deleted or compacted away before it was read; analyze again")
        except UnreadableFile as error:
            yield _problem(schema, str(error))


def keyed_records(chunk: Chunk, extent: Extent, place: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a chunk that have a key."""
    located = np.ascontiguousarray(chunk.located[:, chunk.located[KEY_BYTES] >= 0])
    first = 0
    for batch in record_batches(replace(chunk, located=located), extent, arrow_schema(("key", "offset"))):
        rows = located[:, first : first + batch.num_rows]
        first += batch.num_rows
        columns: dict[str, Any] = {
            "place": np.full(batch.num_rows, place, np.int32),
            "key": batch.column("key"),
            "offset": batch.column("offset"),
            "size_bytes": rows[KEY_BYTES] + np.maximum(rows[VALUE_BYTES], 0),
            "is_tombstone": rows[VALUE_BYTES] < 0,
            "problem": pa.nulls(batch.num_rows, pa.string()),
        }
        yield _batch(columns, KEY)


def stretches(chunk: Chunk, place: int, now_ms: int) -> pa.RecordBatch:
    """Return the stretches of a chunk, in their order."""
    rows, ms = chunk.located[ROW], chunk.located[TIMESTAMP]
    days = ms // DAY_MS
    starts = np.flatnonzero(_changes(rows, days))
    batch = chunk.table[rows[starts]]
    counts, is_first = np.diff(starts, append=rows.size), _changes(rows[starts])
    columns = {
        "place": np.full(starts.size, place, np.int32),
        "first_offset": chunk.located[OFFSET][starts],
        "last_offset": chunk.located[OFFSET][starts + counts - 1],
        "day": days[starts],
        "batch_bytes": pa.array(batch["size"], pa.int64(), mask=~is_first),
        "size_bytes": _shared(batch["size"], counts, is_first),
        "plain_bytes": _plain_bytes(batch, counts, is_first),
        "records": counts,
        "codec": (batch["attributes"] & CODEC_MASK).astype(np.int32),
        "is_control": (batch["attributes"] & CONTROL) != 0,
        "marker": _markers(chunk, starts, batch),
        "is_transactional": (batch["attributes"] & ATTRIBUTE_TRANSACTIONAL) != 0,
        "producer_id": batch["producer_id"],
        "producer_epoch": batch["producer_epoch"].astype(np.int32),
        "problem": pa.nulls(starts.size, pa.string()),
        **_counted(chunk.located, starts),
        **_dated(ms, starts, counts, now_ms),
    }
    return _batch(columns, STRETCH)


def _problem(schema: pa.Schema, problem: str) -> pa.RecordBatch:
    columns = {name: pa.nulls(1, schema.field(name).type) for name in schema.names}
    columns["problem"] = pa.array([problem], pa.string())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def _batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _changes(*values: Integers) -> npt.NDArray[np.bool_]:
    """Return flags: True at the first place, and at each place where an array differs from the place before."""
    changes = np.ones(values[0].size, np.bool_)
    changes[1:] = np.logical_or.reduce([value[1:] != value[:-1] for value in values])
    return changes


def _shared(whole: Integers, counts: Integers, is_first: npt.NDArray[np.bool_]) -> Integers:
    """Divide each batch's bytes among its stretches, in proportion to their records. The shares add up to the bytes."""
    firsts, batch = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    ends = np.cumsum(counts)
    total = np.add.reduceat(counts, firsts)[batch]
    before = ends - counts - (ends - counts)[firsts][batch]
    shares: Integers = whole * (before + counts) // total - whole * before // total
    return shares


def _plain_bytes(batch: npt.NDArray[Any], counts: Integers, is_first: npt.NDArray[np.bool_]) -> pa.Array:
    """Return each stretch's share of the uncompressed bytes of its batch.

    A v2 batch counts with its header and its decompressed records. The bytes of a compressed v0 or v1 batch are
    unknown.
    """
    records_bytes = batch["records_end"] - batch["records_start"]
    is_legacy, is_compressed = records_bytes == 0, (batch["attributes"] & CODEC_MASK) != 0
    whole = np.where(is_legacy, batch["size"], HEADER_BYTES + records_bytes)
    return pa.array(_shared(whole, counts, is_first), pa.int64(), mask=is_legacy & is_compressed)


def _markers(chunk: Chunk, starts: Integers, batch: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the marker of each stretch: the low byte of the type, behind the version.

    Source: Kafka ControlRecordType.
    """
    located = chunk.located[:, starts]
    is_marker = ((batch["attributes"] & CONTROL) != 0) & (located[KEY_BYTES] >= 4)
    markers = np.full(starts.size, NO_MARKER, np.int32)
    markers[is_marker] = chunk.buf[located[KEY_AT][is_marker] + 3]
    return markers


def _counted(located: Integers, starts: Integers) -> dict[str, Integers]:
    has_key = located[KEY_BYTES] >= 0
    is_tombstone = has_key & (located[VALUE_BYTES] < 0)
    return {"without_key": _sums(~has_key, starts), "tombstones": _sums(is_tombstone, starts)}


def _sums(flags: npt.NDArray[np.bool_], starts: Integers) -> Integers:
    return np.add.reduceat(flags.astype(np.int64), starts)


def _dated(ms: Integers, starts: Integers, counts: Integers, now_ms: int) -> dict[str, Any]:
    is_earlier = np.zeros(ms.size, np.bool_)
    is_earlier[1:] = (ms[1:] < ms[:-1]) & (ms[1:] >= 0)
    is_earlier[starts] = False  # Spark compares starts with the stretch before, which another task may have read
    is_missing = ms[starts] < 0  # all records of a stretch or none, as they are of one day
    return {
        "first_ms": ms[starts],
        "last_ms": ms[starts + counts - 1],
        "oldest_ms": pa.array(np.minimum.reduceat(ms, starts), pa.int64(), mask=is_missing),
        "newest_ms": pa.array(np.maximum.reduceat(ms, starts), pa.int64(), mask=is_missing),
        "future": _sums(ms > now_ms, starts),
        "out_of_order": _sums(is_earlier, starts),
        "missing": np.where(is_missing, counts, 0),
    }
