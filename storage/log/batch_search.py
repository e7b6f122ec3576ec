"""Looks for whole batches behind bytes that are none: what a cut at the damage would take with it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import numpy as np

from storage.arrays import Bytes
from storage.log.file_records.walk import CorruptRecord, LogBytes, invalid, walk
from storage.records.header import LOG_OVERHEAD_BYTES, MAGIC_POSITION, MAGIC_V2
from storage.segment import Segment, reading

_WINDOW_BYTES: Final = 1 << 20
_LENGTH_POSITION: Final = 8
_LENGTH_BYTES: Final = 4
_LENGTH_MIN: Final = 14


def whole_batch_behind(segment: Segment, start: int) -> int | None:
    """Return the byte at which a whole batch with a right checksum begins, at a byte or behind it; None if none does.

    Every byte is tried, because a damaged length says nothing of where the next batch begins. Raises: UnreadableFile.
    """
    with reading(segment.log.path) as descriptor:
        log = LogBytes(descriptor)
        for at in range(start, log.size_bytes, _WINDOW_BYTES):
            data = os.pread(descriptor, _WINDOW_BYTES + MAGIC_POSITION, at)
            for place in _plausible(np.frombuffer(data, np.uint8), log.size_bytes - at):
                with suppress(CorruptRecord):
                    batch = next(walk(log, at + place), None)
                    if batch is not None and invalid(log, batch) is None:
                        return at + place
    return None


def _plausible(data: Bytes, left_bytes: int) -> list[int]:
    """Return the bytes of a window at which a batch may begin, by its length and its version.

    Args:
        data: a window, with the beginning of the next one.
        left_bytes: of the file, from the window on.
    """
    count = data.size - MAGIC_POSITION
    if count <= 0:
        return []
    places = np.flatnonzero(data[MAGIC_POSITION:] <= MAGIC_V2)
    length = np.zeros(places.size, np.int64)
    for byte in range(_LENGTH_BYTES):
        length = (length << 8) | data[places + _LENGTH_POSITION + byte]
    fits = (length >= _LENGTH_MIN) & (places + LOG_OVERHEAD_BYTES + length <= left_bytes)
    return [int(place) for place in places[fits]]
