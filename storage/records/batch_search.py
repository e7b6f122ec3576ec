"""Search for the next whole batch behind bytes that are no batch, and that state no believable length.

The search is not in ``read_batches``, because it loads numpy, which a sound log does not need.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from storage.arrays import Bytes
from storage.directory import OpenFile, pread
from storage.errors import as_unreadable
from storage.records.v2 import LOG_OVERHEAD_BYTES, MAGIC_POSITION, MAGIC_V2, V2_HEADER_BYTES, agrees

_WINDOW_BYTES: Final = 1 << 20
_LENGTH_POSITION: Final = 8
_LEGACY_LENGTH_MIN: Final = 14
_HIGH_HALVES: Final = 2
"""The offsets of a segment lie within 2^31 of its base: their high half is that of the base, or one more."""


def next_whole_batch(
    descriptor: OpenFile,
    path: Path,
    start: int,
    end: int,
    base_offset: int | None = None,
    checked_bytes_max: int | None = None,
) -> int | None:
    """Return the first byte at which a whole batch with a right checksum begins; None if there is none.

    Every byte is tried, because a damaged length says nothing of where the next batch begins.

    Args:
        descriptor: of the file.
        path: the file, for errors.
        start: the first byte that is tried.
        end: of the file.
        base_offset: of the segment, if the offset of a batch has to fit the segment. No checksum covers an offset.
        checked_bytes_max: the bytes whose checksums are computed before the search gives up, so that bytes made to look
            like batches cannot make it endless.

    Raises: UnreadableFile.
    """
    checked_bytes = 0
    with as_unreadable(path):
        for position, size_bytes in _candidates(descriptor, start, end, base_offset):
            checked_bytes += size_bytes
            if checked_bytes_max is not None and checked_bytes > checked_bytes_max:
                return None
            data = pread(descriptor, size_bytes, position)
            if len(data) == size_bytes and agrees(data, data[MAGIC_POSITION]):
                return position
    return None


def _candidates(descriptor: OpenFile, start: int, end: int, base_offset: int | None) -> Iterator[tuple[int, int]]:
    """Yield the places and sizes of possible batches, by offset, length and version."""
    while end - start > MAGIC_POSITION:
        buf = np.frombuffer(pread(descriptor, _WINDOW_BYTES + MAGIC_POSITION, start), np.uint8)
        if buf.size <= MAGIC_POSITION:
            return
        places = np.flatnonzero(buf[MAGIC_POSITION:] <= MAGIC_V2)
        if base_offset is not None:
            high_halves = _numbers(buf, places, 0) - (base_offset >> 32)
            places = places[(high_halves >= 0) & (high_halves < _HIGH_HALVES)]
        lengths = _numbers(buf, places, _LENGTH_POSITION)
        is_v2 = buf[places + MAGIC_POSITION] == MAGIC_V2
        least = np.where(is_v2, V2_HEADER_BYTES - LOG_OVERHEAD_BYTES, _LEGACY_LENGTH_MIN)
        fits = (lengths >= least) & (start + places + LOG_OVERHEAD_BYTES + lengths <= end)
        sizes = LOG_OVERHEAD_BYTES + lengths[fits]
        yield from zip((start + places[fits]).tolist(), sizes.tolist(), strict=True)
        start += buf.size - MAGIC_POSITION


def _numbers(buf: Bytes, places: np.ndarray, at: int) -> np.ndarray:
    """Return the big-endian numbers of four bytes at a distance behind each place."""
    numbers = np.zeros(places.size, np.int64)
    for byte in range(4):
        numbers = numbers << 8 | buf[places + (at + byte)]
    return numbers
