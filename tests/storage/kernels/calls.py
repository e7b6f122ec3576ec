"""The kernels called as the engine calls them, on bytes, with plain values back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from storage.kernels import bitmap, map_walk, offset_map, scan
from storage.kernels.layout import BATCH
from storage.kernels.status import BatchFate, Status
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import SECRET


def window(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


@dataclass(slots=True)
class Scanned:
    status: Status
    table: npt.NDArray[np.void]
    position: int
    ordinals: int


def scanned(data: bytes, next_offset: int = 0) -> Scanned:
    table = np.zeros(len(data) // 61 + 1, BATCH)
    status, rows, position, _, ordinals = scan.scan_batches(window(data), 0, len(data), next_offset, 0, table)
    return Scanned(Status(status), table[:rows], position, ordinals)


def ranges(passes: int) -> list[tuple[int, int]]:
    bounds = [(offset_map.TAG_MAX + 1) * i // passes for i in range(passes + 1)]
    return [(low, high - 1) for low, high in pairwise(bounds)]


def survivors(
    data: bytes, found: Scanned, first_dirty: int = 0, passes: int = 1, log2_slots: int = 8
) -> tuple[Status, int, set[int], int]:
    """Status and row of the first failure, surviving ordinals, records without a key."""
    bits, keyless = _clean_section(data, found, first_dirty), 0
    buf, rows = window(data), len(found.table)
    for low, high in ranges(passes):
        words, counters = offset_map.new_map(log2_slots, 0.9)
        limits = (np.uint64(low), np.uint64(high), *map(np.uint64, SECRET), first_dirty)
        status, row = map_walk.map_records(buf, found.table, 0, rows, words, counters, *limits, False, False)
        if status == Status.OK:
            status, row, _ = map_walk.mark_superseded(
                buf, found.table, 0, rows, words, counters, bits, 0, words[:0], *limits, False
            )
        if status != Status.OK:
            return Status(status), row, set(), 0
        keyless = int(counters[offset_map.KEYLESS])
        assert offset_map.collect_survivors(words, bits) == -1
    return Status.OK, rows, ordinals_of(bits), keyless


def _clean_section(data: bytes, found: Scanned, first_dirty: int) -> npt.NDArray[np.uint64]:
    """Bits of all records before the first dirty offset."""
    clean = set()
    if first_dirty:
        for row in twin.scan(data)[1]:
            if row.fate <= BatchFate.RETAIN_EMPTY:
                clean |= {r.ordinal for r in twin.records(data, row) if r.offset < first_dirty}
    return bits_of(clean, found.ordinals)


def ordinals_of(bits: npt.NDArray[np.uint64]) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist())


def bits_of(ordinals: set[int], size: int) -> npt.NDArray[np.uint64]:
    bits = bitmap.new_bitmap(size)
    for ordinal in ordinals:
        bitmap.set_range(bits, ordinal, ordinal + 1)
    return bits
