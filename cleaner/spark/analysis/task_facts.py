"""Read a task's extents once, and make the facts that tasks send each other instead of records.

A *stretch* is a run of records of one batch on one day. A stretch holds counts. A fact about a key holds the key, and
the counts of its records. No fact holds a value. No loop runs once for each record.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleaner.arrow.columns import record_batches
from cleaner.arrow.schema import arrow_schema
from cleaner.spark.analysis import figures, keys
from cleaner.spark.analysis.figures import NONE_YET, Figures, Growing, Tables, changes
from cleaner.spark.analysis.keys import KEYS, GrowingKeys
from storage.arrays import Integers
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
from storage.records import ControlType
from storage.records.v2 import ATTRIBUTE_TRANSACTIONAL
from storage.scan.chunks import Chunk, chunks
from storage.scan.extents import Extent
from storage.scan.files import SegmentGone, read_in_turn
from storage.scan.segments import open_extent
from storage.scan.slices import Damage

NO_MARKER: Final = -1
DAY_MS: Final = 86_400_000
KEYS_SENT_BYTES: Final = 64 << 20
"""The size at which a task sends its keys, and forgets them."""


@dataclass(frozen=True, slots=True)
class PlacedExtent:
    """An extent, with what a task needs to know about its partition."""

    extent: Extent
    place: int
    """The number of the partition in the snapshot."""
    first_bucket: int
    """The bucket of the partition's figures. One task merges a bucket."""
    buckets: int
    """The number of buckets that share the keys of the partition, from the first one on."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a task sends to a bucket."""

    tables: Tables
    keys: bytes | None
    """A stream of Arrow."""
    problems: tuple[str, ...]
    order: tuple[int, int, int] = (0, 0, 0)
    """Where the task began: partition, segment, position. Tasks' tables of one partition merge in this order."""


@dataclass(frozen=True, slots=True)
class BucketFindings:
    """The rows of all tables about the partitions of a bucket, and problems."""

    rows: Mapping[str, list[dict[str, Any]]]
    problems: tuple[str, ...]


def facts_of(extents: Iterable[PlacedExtent], now_ms: int) -> Iterator[tuple[int, Facts]]:
    """Yield the facts of a task's extents, each with its bucket.

    Args:
        extents: extents of the snapshot.
        now_ms: epoch ms; later records are future-dated.

    Damage, or a file that is gone or unreadable, becomes a problem; the other extents are read all the same.
    """
    placed = {one.extent: one for one in extents}
    by_place = {one.place: one for one in placed.values()}
    found, found_keys = Growing(), GrowingKeys()
    problems: list[str] = []
    for extent, file in read_in_turn(placed):
        place = placed[extent].place
        try:
            with open_extent(extent, file) as reader:
                for chunk in chunks(reader, extent, with_control=True):
                    if isinstance(chunk, Damage):
                        problems.append(str(chunk.error))
                        continue
                    found.add(stretches(chunk, place, now_ms))
                    for part in keyed_records(chunk, extent, place):
                        found_keys.add(part)
                    if found_keys.size_bytes > KEYS_SENT_BYTES:
                        yield from _keys_sent(found_keys.merge(), by_place)
                        found_keys = GrowingKeys()
        except SegmentGone:
            problems.append(f"{extent.path}: deleted or compacted away before it was read; analyze again")
        except UnreadableFile as error:
            problems.append(str(error))
    yield from _keys_sent(found_keys.merge(), by_place)
    first = min((one.place, one.extent.base_offset, one.extent.start) for one in placed.values())
    yield from _figures_sent(found.merge(), by_place, first)
    yield 0, Facts({}, None, tuple(problems))


def answer_of(facts: Iterable[tuple[int, Facts]]) -> Iterator[BucketFindings]:
    """Yield the answer of one bucket. The facts may come in any order."""
    found, found_keys = Growing(), GrowingKeys()
    problems: list[str] = []
    tables: list[tuple[tuple[int, int, int], Tables]] = []
    for _, sent in facts:
        tables.append((sent.order, sent.tables))
        if sent.keys is not None:
            found_keys.add(pa.ipc.open_stream(sent.keys).read_all())
        problems += sent.problems
    for _, of_task in sorted(tables, key=lambda one: one[0]):
        found.add(of_task)
    rows = figures.answers(found.merge())
    rows["keys"], rows["top_keys"] = keys.answers(found_keys.merge())
    yield BucketFindings(rows, tuple(problems))


def keyed_records(chunk: Chunk, extent: Extent, place: int) -> Iterator[pa.Table]:
    """Yield the data records of a chunk that have a key."""
    is_control = (chunk.table["attributes"] & CONTROL) != 0
    has_key = (chunk.located[KEY_BYTES] >= 0) & ~is_control[chunk.located[ROW]]
    located = np.ascontiguousarray(chunk.located[:, has_key])
    first = 0
    for batch in record_batches(replace(chunk, located=located), extent, arrow_schema(("key",))):
        rows = located[:, first : first + batch.num_rows]
        first += batch.num_rows
        columns = (
            pa.array(np.full(batch.num_rows, place, np.int32)),
            batch.column("key").cast(pa.large_binary()),
            pa.array(np.ones(batch.num_rows, np.int64)),
            pa.array(rows[KEY_BYTES] + np.maximum(rows[VALUE_BYTES], 0)),
            pa.array(rows[OFFSET].astype(np.uint64) * np.uint64(2) + (rows[VALUE_BYTES] < 0)),
        )
        yield pa.Table.from_arrays(columns, schema=KEYS)


def stretches(chunk: Chunk, place: int, now_ms: int) -> Tables:
    """Return the figures of a chunk's stretches, a row for each stretch that a table counts."""
    rows, ms = chunk.located[ROW], chunk.located[TIMESTAMP]
    days = ms // DAY_MS
    starts = np.flatnonzero(changes(rows, days))
    batch = chunk.table[rows[starts]]
    counts, is_first = np.diff(starts, append=rows.size), changes(rows[starts])
    is_control = (batch["attributes"] & CONTROL) != 0
    is_transactional = (batch["attributes"] & ATTRIBUTE_TRANSACTIONAL) != 0
    first_offset, markers = chunk.located[OFFSET][starts], _markers(chunk, starts, batch)
    size_bytes, (plain_bytes, is_known) = (
        _shared(batch["size"], counts, is_first),
        _plain_bytes(batch, counts, is_first),
    )
    common: Figures = {
        "place": np.full(starts.size, place, np.int64),
        "records": np.where(is_control, 0, counts),
        "batches": is_first.astype(np.int64),
        "size_bytes": size_bytes,
    }
    of_data = {"first_offset": first_offset, **_counted(chunk.located, starts), **_dated(ms, starts, counts, now_ms)}
    of_producers = {
        "producer_id": batch["producer_id"].astype(np.int64),
        "producer_epoch": batch["producer_epoch"].astype(np.int64),
        "committed": (markers == ControlType.COMMIT).astype(np.int64),
        "aborted": (markers == ControlType.ABORT).astype(np.int64),
        "last_marker": np.where(markers >= 0, chunk.located[OFFSET][starts + counts - 1], -1),
        "open_since_offset": np.where(is_transactional & ~is_control, first_offset, NONE_YET),
    }
    of_codecs = {
        "codec": (batch["attributes"] & CODEC_MASK).astype(np.int64),
        "plain_bytes": np.where(is_known, plain_bytes, 0),
        "known_bytes": np.where(is_known, size_bytes, 0),
    }
    return {
        "sums": _chosen(common | of_data, ~is_control),
        "batch_sizes": _chosen(common | {"batch_bytes": batch["size"].astype(np.int64)}, is_first),
        "days": common | {"day": days[starts]},
        "codecs": common | of_codecs,
        "producers": _chosen(common | of_producers, batch["producer_id"] >= 0),
    }


def _chosen(rows: Figures, flags: npt.NDArray[np.bool_]) -> Figures:
    return {name: values[flags] for name, values in rows.items()}


def _keys_sent(found: pa.Table, by_place: Mapping[int, PlacedExtent]) -> Iterator[tuple[int, Facts]]:
    """Yield each bucket's share of the keys. A key has one bucket, whichever task read it."""
    places = found["place"].to_numpy()
    firsts, counts = (_of_each(places, by_place, name) for name in ("first_bucket", "buckets"))
    hashes = np.zeros(found.num_rows, np.int64)
    if (counts > 1).any():
        hashes = np.fromiter(map(crc32, found["key"].to_pylist()), np.int64, found.num_rows)
    buckets = (firsts + hashes % counts).astype(np.int64)
    for bucket, part in keys.parts_by(buckets, found):
        yield bucket, Facts({}, _stream(part), ())


def _figures_sent(
    found: Tables, by_place: Mapping[int, PlacedExtent], order: tuple[int, int, int]
) -> Iterator[tuple[int, Facts]]:
    buckets = {name: _of_each(rows["place"], by_place, "first_bucket") for name, rows in found.items()}
    for bucket in sorted({one.first_bucket for one in by_place.values()}):
        tables = {name: _chosen(rows, buckets[name] == bucket) for name, rows in found.items()}
        yield bucket, Facts(tables, None, (), order)


def _of_each(places: npt.NDArray[Any], by_place: Mapping[int, PlacedExtent], name: str) -> Integers:
    known, group = np.unique(places, return_inverse=True)
    return np.array([getattr(by_place[place], name) for place in known.tolist()], np.int64)[group]


def _stream(table: pa.Table) -> bytes:
    made = io.BytesIO()
    with pa.ipc.new_stream(made, table.schema) as stream:
        stream.write_table(table)
    return made.getvalue()


def _shared(whole: Integers, counts: Integers, is_first: npt.NDArray[np.bool_]) -> Integers:
    """Divide each batch's bytes among its stretches, in proportion to their records. The shares add up to the bytes."""
    firsts, batch = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    ends = np.cumsum(counts)
    total = np.add.reduceat(counts, firsts)[batch]
    before = ends - counts - (ends - counts)[firsts][batch]
    shares: Integers = whole * (before + counts) // total - whole * before // total
    return shares


def _plain_bytes(
    batch: npt.NDArray[Any], counts: Integers, is_first: npt.NDArray[np.bool_]
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return each stretch's share of the uncompressed bytes of its batch, and whether it is known.

    A v2 batch counts with its header and its decompressed records. The bytes of a compressed v0 or v1 batch are
    unknown.
    """
    records_bytes = batch["records_end"] - batch["records_start"]
    is_legacy, is_compressed = records_bytes == 0, (batch["attributes"] & CODEC_MASK) != 0
    whole = np.where(is_legacy, batch["size"], HEADER_BYTES + records_bytes)
    return _shared(whole, counts, is_first), ~(is_legacy & is_compressed)


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
    is_earlier[starts] = False  # a merge compares starts with the stretch before, which another task may have read
    is_missing = ms[starts] < 0  # all records of a stretch or none, as they are of one day
    return {
        "first_ms": ms[starts],
        "last_ms": ms[starts + counts - 1],
        "oldest_ms": np.where(is_missing, NONE_YET, np.minimum.reduceat(ms, starts)),
        "newest_ms": np.where(is_missing, -1, np.maximum.reduceat(ms, starts)),
        "future": _sums(ms > now_ms, starts),
        "out_of_order": _sums(is_earlier, starts),
        "missing": np.where(is_missing, counts, 0),
    }
