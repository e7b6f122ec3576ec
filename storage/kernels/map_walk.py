"""The walk over a window's records that fills the offset map, or that looks its keys up there.

Looking up a random slot of a large table costs a trip to memory. So the walk queues keys, and hashes 64 of them at a
time. It prefetches the slots of these one by one while it reads the next 64 keys, and then probes all of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Bytes, Integers, Table, Words
from storage.kernels.bitmap import clear_bit, holds
from storage.kernels.crc import is_sound
from storage.kernels.keys import GROUP, hash_group
from storage.kernels.layout import BATCHES
from storage.kernels.offset_map import (
    KEYLESS,
    ORDINAL_MAX,
    entry_of,
    home_of,
    ordinal_of,
    slot_of,
    tag_of,
    upsert,
    upsert_shared,
)
from storage.kernels.records import check_payload, parse_record
from storage.kernels.status import BatchFate, Status
from storage.machine.intrinsics import prefetch, stack_words
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, BYTES, I64, INTEGERS, U64, WORDS, integers, signed

_QUEUE_WORDS: Final = 3 * GROUP  # for every key: position and length, later both words of its hash; ordinal
_READY_WORDS: Final = 2 * GROUP  # for every key: the two words of its slot
_AHEAD_BYTES_MAX: Final = 1 << 16
"""A batch up to this size is still in the nearest caches when the walk comes to it."""
_NO_ROOM: Final = -1
_OFFSET_MIN, _OFFSET_MAX = -(2**63), 2**63 - 1


@kernel()
def _put(words: Words, counters: Integers, ready: Words, count: int, is_shared: bool) -> bool:
    """Put hashes into the map. Return False if the map has no room."""
    for i in range(count):
        low, entry = ready[i], ready[GROUP + i]
        if is_shared:
            if not upsert_shared(words, counters, low, entry):
                return False
        elif not upsert(words, counters, low, entry):
            return False
    return True


@kernel()
def _clear(words: Words, bitmap: Words, kept: Words, noted: int, ready: Words, count: int) -> int:
    """Clear the bits of those hashes that are in the map. Note the others behind the first ``noted`` words of ``kept``,
    as far as there is room; return how many are noted then."""
    for i in range(count):
        if words[slot_of(words, ready[i], ready[GROUP + i]) + np.uint64(1)] != np.uint64(0):
            clear_bit(bitmap, ordinal_of(ready[GROUP + i]))
        elif noted < kept.size:
            kept[noted] = ready[i]
            noted += 1
    return noted


@kernel()
def _resolve(
    words: Words,
    counters: Integers,
    bitmap: Words,
    kept: Words,
    noted: int,
    ready: Words,
    count: int,
    marking: bool,
    is_shared: bool,
) -> int:
    """Map the hashes, or mark by them. Return how many are noted in ``kept``, or _NO_ROOM."""
    if marking:
        return _clear(words, bitmap, kept, noted, ready, count)
    return noted if _put(words, counters, ready, count, is_shared) else _NO_ROOM


@kernel()
def _ready(
    buf: Bytes, table: Table, row: int, first_ordinal: int, bitmap: Words, marking: bool, is_unverified: bool
) -> int:
    """Check that the walk can read the row, or pass over it."""
    if is_unverified and not is_sound(buf, table, row):
        return Status.BAD_CRC
    if table[row].fate > BatchFate.RETAIN_EMPTY:
        return Status.OK
    status = check_payload(buf, table, row)
    if status == Status.OK and not 0 <= first_ordinal <= ORDINAL_MAX - table[row].record_count:
        return Status.BAD_COUNT
    if status != Status.OK or not marking:
        return status
    held = holds(bitmap, first_ordinal, table[row].record_count)
    return Status.OK if held else Status.BITMAP_SHORT


@kernel()
def _make_ready(
    buf: Bytes,
    queue: Words,
    waiting: int,
    tag_range: tuple[np.uint64, np.uint64],
    secret: tuple[np.uint64, np.uint64],
    ready: Words,
) -> int:
    """Hash the keys that wait; keys in the range are then ready. Return the number of ready keys."""
    hash_group(buf, queue, waiting, secret[0], secret[1])
    count = 0
    for i in range(waiting):
        entry = entry_of(queue[GROUP + i], queue[2 * GROUP + i])
        if tag_range[0] <= tag_of(entry) <= tag_range[1]:
            ready[count], ready[GROUP + count] = queue[i], entry
            count += 1
    return count


@kernel()
def _walk(  # noqa: PLR0912, PLR0917  (one loop, whose state stays in registers)
    buf: Bytes,
    table: Table,
    first: int,
    last: int,
    words: Words,
    counters: Integers,
    bitmap: Words,
    ordinal_base: int,
    kept: Words,
    tag_range: tuple[np.uint64, np.uint64],
    secret: tuple[np.uint64, np.uint64],
    offset_range: tuple[int, int],
    marking: bool,
    is_shared: bool,
    is_unverified: bool,
) -> tuple[int, int, int]:
    """Check every record of the data batches ``[first, last)``; map or mark the keys in both ranges.

    The checksum of a batch is verified just before the walk over it, which then finds the bytes in the nearest cache.
    The walk also fetches the next batch ahead, since the walk waits for memory least.
    """
    queue, ready, noted = stack_words(_QUEUE_WORDS), stack_words(_READY_WORDS), 0
    waiting, row_of_waiting, keyless_of_waiting = 0, first, counters[KEYLESS]
    count, resume, keyless_at_resume = 0, first, counters[KEYLESS]
    for row in range(max(first, 0), min(last, table.size)):
        batch = table[row]
        ordinal = batch.first_ordinal - ordinal_base
        status = _ready(buf, table, row, ordinal, bitmap, marking, is_unverified)
        if status != Status.OK:
            return status, row, noted
        if batch.fate > BatchFate.RETAIN_EMPTY:
            continue
        position, tombstones = batch.records_start, 0
        delta, delta_max, keyless_at_row = -1, batch.last_offset - batch.base_offset, counters[KEYLESS]
        ahead = batch.size if batch.size <= _AHEAD_BYTES_MAX else 0
        for _ in range(batch.record_count):
            status, position, _, _, delta, key, key_length, value_length = parse_record(
                buf, position, batch.records_end, delta, delta_max
            )
            if status != Status.OK:
                return status, row, noted
            prefetch(buf, position + ahead)
            prefetch(buf, position + ahead + 64)
            prefetch(words, signed(home_of(words, ready[waiting]) << np.uint64(1)))
            tombstones += value_length < 0
            concerned = offset_range[0] <= batch.base_offset + delta <= offset_range[1]
            if concerned and key_length >= 0:
                queue[waiting], queue[GROUP + waiting] = np.uint64(key), np.uint64(key_length)
                queue[2 * GROUP + waiting] = np.uint64(ordinal)
                waiting += 1
            elif concerned:
                counters[KEYLESS] += 1
                if marking:
                    clear_bit(bitmap, ordinal)
            ordinal += 1
            if waiting == GROUP:
                noted = _resolve(words, counters, bitmap, kept, noted, ready, count, marking, is_shared)
                if noted == _NO_ROOM:
                    counters[KEYLESS] = keyless_at_resume
                    return Status.MAP_FULL, resume, 0
                count = _make_ready(buf, queue, waiting, tag_range, secret, ready)
                resume, keyless_at_resume = row_of_waiting, keyless_of_waiting
                waiting, row_of_waiting, keyless_of_waiting = 0, row, keyless_at_row
        if position != batch.records_end:
            return Status.BAD_LENGTH, row, noted
        batch.tombstones = tombstones
    for _ in range(2):
        noted = _resolve(words, counters, bitmap, kept, noted, ready, count, marking, is_shared)
        if noted == _NO_ROOM:
            counters[KEYLESS] = keyless_at_resume
            return Status.MAP_FULL, resume, 0
        count = _make_ready(buf, queue, waiting, tag_range, secret, ready)
        waiting, resume, keyless_at_resume = 0, row_of_waiting, keyless_of_waiting
    return Status.OK, last, noted


@kernel(integers(2)(BYTES, BATCHES, I64, I64, WORDS, INTEGERS, U64, U64, U64, U64, I64, BOOLEAN, BOOLEAN))
def map_records(
    buf: Bytes,
    table: Table,
    first: int,
    last: int,
    words: Words,
    counters: Integers,
    tag_min: np.uint64,
    tag_max: np.uint64,
    secret0: np.uint64,
    secret1: np.uint64,
    offset_min: int,
    is_shared: bool,
    is_unverified: bool,
) -> tuple[int, int]:
    """Put the keys of ``table[first:last]`` into the map, and count each batch's tombstones into its row.

    Only batches with the fate DELETE_EMPTY or RETAIN_EMPTY are read. Every record of them is checked in full, and
    counted, whatever its offset or hash.

    Args:
        buf: holds the plain records of the rows.
        table: ``records_start`` and ``records_end`` index ``buf``; ordinals are at most ORDINAL_MAX.
        first: row to begin with.
        last: row to end before.
        words: from ``new_map``.
        counters: from ``new_map``; KEYLESS goes up by the records without a key.
        tag_min: keys whose tag is below are left for another pass.
        tag_max: keys whose tag is above are left, too; TAG_MAX in the last pass.
        secret0: drawn for this run.
        secret1: drawn for this run.
        offset_min: the first dirty offset; records before it are only checked.
        is_shared: whether other threads fill the map at the same time, each with counters of its own.
        is_unverified: the rows are plain batches within ``buf`` whose CRC nobody has verified yet.

    Returns:
        ``(status, row)``. MAP_FULL: narrow the range, then go on with ``row`` (its keys may be in the map
        already, which does no harm). NEEDS_RECORDS: ``row`` must be decompressed. Others: the bytes of
        ``row`` are bad.

    Source: Kafka Cleaner#buildOffsetMapForSegment.
    """
    no_bitmap = words[:0]
    offsets = offset_min, _OFFSET_MAX
    status, row, _ = _walk(
        buf, table, first, last, words, counters, no_bitmap, 0, no_bitmap,
        (tag_min, tag_max), (secret0, secret1), offsets, False, is_shared, is_unverified,
    )  # fmt: skip
    return status, row


@kernel(integers(3)(BYTES, BATCHES, I64, I64, WORDS, INTEGERS, WORDS, I64, WORDS, U64, U64, U64, U64, I64, BOOLEAN))
def mark_superseded(  # noqa: PLR0917  (kernels take arrays and scalars, one by one)
    buf: Bytes,
    table: Table,
    first: int,
    last: int,
    words: Words,
    counters: Integers,
    bitmap: Words,
    ordinal_base: int,
    kept: Words,
    tag_min: np.uint64,
    tag_max: np.uint64,
    secret0: np.uint64,
    secret1: np.uint64,
    offset_end: int,
    is_unverified: bool,
) -> tuple[int, int, int]:
    """Clear the bits of records before ``offset_end`` whose key is in the map, or that have none.

    Arguments as for ``map_records``, and:
        bitmap: its first bit belongs to the record with the ordinal ``ordinal_base``. The caller set the bits; each
            pass clears its own.
        kept: takes the low words of the other hashes in the range, as far as it has room.

    Returns:
        As ``map_records``, and the number of words in ``kept``.
    """
    offsets = _OFFSET_MIN, offset_end - 1
    return _walk(
        buf, table, first, last, words, counters, bitmap, ordinal_base, kept,
        (tag_min, tag_max), (secret0, secret1), offsets, True, False, is_unverified,
    )  # fmt: skip
