"""The kernels for messages of v0 and v1 once more, by the readable code, and logs for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress as select
from pathlib import Path
from random import Random
from typing import Final
from zlib import crc32

import numpy as np

from cleaner.engine.compaction.legacy_rewrite import newest_ms, rewritten, upgraded
from storage.arrays import Table, Words
from storage.codecs.compression import Compression, decompress
from storage.errors import CorruptBatch
from storage.kernels.layout import BATCH
from storage.kernels.status import BatchAction
from storage.records import LegacyBatch, Record
from storage.records.legacy import PREFIX
from storage.scan import legacy_rows
from tests.batches import iter_batches
from tests.fuzz.damage import Damage, Kind
from tests.legacy_logs import LEGACY_CODECS, Format, mixed_versions, stamped

PATH: Final = Path("00000000000000000000.log")
_WRAPPER_OVERHEAD: Final = {0: 26, 1: 34}


@dataclass(frozen=True, slots=True)
class Read:
    """Messages as rows, until one that is damaged."""

    table: Table
    keys: bytes
    stopped: int
    cause: str | None
    """Why the message there is damaged."""


def read(data: bytes, *, verify: bool, next_offset: int = 0) -> Read:
    """What ``read_messages`` should find."""
    window, position, ordinal, keys = np.frombuffer(data, np.uint8), 0, 0, bytearray()
    rows: list[tuple[int, ...]] = []
    cause = None
    try:
        while (batch := legacy_rows.batch_at(window, (position, len(data)), PATH, 0)) is not None:
            if verify:
                batch.ensure_valid()
            row, own = legacy_rows.row_of_keys(batch, position, next_offset, ordinal)
            rows.append((*row[:2], len(keys), len(keys) + len(own), *row[4:]))
            keys += own
            position, next_offset = position + batch.header.size_bytes, batch.last_offset + 1
            ordinal += int(np.array([row], BATCH)["record_count"][0])
    except CorruptBatch as error:
        cause = error.cause
    return Read(np.array(rows, BATCH), bytes(keys), position, cause)


def shared(data: bytes, rows: Table, share_bytes: int, share_below: int) -> tuple[Table, bytes]:
    """What ``read_messages`` should make of rows with a message each, if messages share rows; and their keys."""
    made: list[np.void] = []
    keys = bytearray()
    for row in rows:
        before = made[-1] if made else None
        if before is None or not _can_join(before, row, share_bytes, share_below):
            before = row.copy()
            before["records_start"] = len(keys)
            made.append(before)
        else:
            before["size"] += row["size"]
            before["record_count"] += row["record_count"]
            before["last_offset"] = row["last_offset"]
            before["max_timestamp"] = max(before["max_timestamp"], row["max_timestamp"])
        for record in _batch(data, int(row["position"])).records():
            legacy_rows.append_key(keys, record, int(before["base_offset"]))
        before["records_end"] = len(keys)
    return np.array([one.item() for one in made], BATCH), bytes(keys)


def _can_join(before: np.void, row: np.void, share_bytes: int, share_below: int) -> bool:
    is_plain = not (before["attributes"] | row["attributes"]) & 7
    return bool(
        is_plain and before["size"] < share_bytes and row["last_offset"] < share_below
        and row["last_offset"] - before["base_offset"] < 1 << 31
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Written:
    """Batches, and what the log's indexes are told of each: last offset, newest timestamp, records."""

    batches: tuple[bytes, ...]
    told: tuple[tuple[int, int, int], ...]


def write(data: bytes, table: Table, bitmap: Words, *, upgrades: bool, horizon_ms: int | None) -> Written:
    """What ``rewrite_messages`` should write of decided rows."""
    batches, told = [], []
    for row in table:
        batch = _batch(data, int(row["position"]))
        if row["outcome"] == BatchAction.COPY:
            batches.append(bytes(batch.data))
            told.append((batch.last_offset, batch.header.max_timestamp_ms, int(row["record_count"])))
        elif row["outcome"] == BatchAction.REBUILD:
            first = int(row["first_ordinal"])
            records = batch.records()
            kept = list(
                select(records, (int(bitmap[n >> 6]) >> (n & 63) & 1 for n in range(first, first + len(records))))
            )
            batches.append(upgraded(batch, kept, horizon_ms) if upgrades else rewritten(batch, kept))
            told.append((kept[-1].offset, newest_ms(batch, kept), len(kept)))
    return Written(tuple(batches), tuple(told))


def _batch(data: bytes, position: int) -> LegacyBatch:
    return legacy_rows.legacy_batch(np.frombuffer(data, np.uint8), position, PATH, 0)


def opened(data: bytes) -> tuple[bytes, bytes]:
    """A batch without what depends on the compressor: its header, and the records as they were before."""
    (batch,) = iter_batches(data, PATH)
    codec = batch.header.compression
    if not isinstance(batch, LegacyBatch):
        fixed = data[:8] + data[12:17] + data[21:61]
        return fixed, decompress(codec, data[61:], 1 << 27)
    overhead = _WRAPPER_OVERHEAD[batch.header.magic]
    if codec is Compression.NONE:
        return data, b""
    return data[:8] + data[16 : overhead - 4], decompress(codec, data[overhead:], 1 << 27, batch.header.magic)


def a_log(random: Random, batches_max: int = 6) -> bytes:
    """Messages and wrappers of both versions; some wrappers hold messages of the other one."""
    out, offset = [], random.choice((0, 0, 5))
    for _ in range(random.randint(1, batches_max)):
        records = list(_records(random, offset))
        offset = records[-1].offset + random.randint(1, 3)
        form = Format(random.choice((0, 1)), random.choice(LEGACY_CODECS), random.random() < 0.3)
        if random.random() < 0.15:
            out.append(mixed_versions(records, form.magic, 1 - form.magic))
        elif form.may_be_stamped and random.random() < 0.5:
            out.append(stamped(list(records), form.codec, random.choice((-1, 7, 1 << 41))))
        else:
            out.append(form.encode(records))
    return b"".join(out)


def _records(random: Random, offset: int) -> Sequence[Record]:
    records = []
    for _ in range(random.randint(1, 9)):
        key = None if random.random() < 0.1 else bytes(random.choices(b"ab", k=random.choice((0, 1, 7, 8, 70, 300))))
        value = None if random.random() < 0.2 else random.randbytes(random.randrange(5)) * random.randrange(50)
        records.append(Record(offset, random.choice((-1, 0, random.randrange(1 << 41))), key, value))
        offset += random.choice((1, 1, 2, 200))
    return records


def damaged(data: bytes, random: Random) -> bytes:
    """The log with some bytes changed; the checksums of half of the logs agree all the same."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        kind = random.choice([kind for kind in Kind if kind is not Kind.EXTEND])
        changed = bytearray(Damage("", kind, random.randrange(1 << 20), random.randrange(1 << 20)).done_to(changed))
    if random.random() < 0.5:
        _seal(changed)
    return bytes(changed)


def _seal(data: bytearray) -> None:
    position = 0
    while len(data) - position >= PREFIX.size:
        _, length, _, _, _ = PREFIX.unpack_from(data, position)
        end = position + 12 + length
        if length < 14 or end > len(data):
            return
        data[position + 12 : position + 16] = crc32(data[position + 16 : end]).to_bytes(4, "big")
        position = end
