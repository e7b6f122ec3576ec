"""The offsets that the log of a segment has by its own headers: its first one, and the end behind its last batch."""

from __future__ import annotations

import struct
from typing import Final

from storage.indexes import OFFSET_ENTRY_BYTES
from storage.records.v2 import MAGIC_V2
from storage.tiers.layout import OriginalFile

_PREFIX: Final = struct.Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_OVERHEAD_BYTES: Final = 12
_INDEX_ENTRY: Final = struct.Struct(">ii")
_LENGTH_BYTES_MIN: Final = 14
"""The smallest message of format v0."""


def extent_of(log: OriginalFile, index: OriginalFile | None) -> tuple[int | None, int]:
    """Return the first offset of a log, None if it does not begin with a batch, and the offset behind the last batch.

    The walk begins at the last entry of the index, if a batch lies there. Raises: as ``OriginalFile.read``.
    """
    first = _batch_at(log, 0)
    if first is None:
        return None, 0
    position = _last_indexed(log, index)
    found = _batch_at(log, position)
    if found is None:
        position, found = 0, first
    end = found[1]
    while found is not None:
        _, end, size_bytes = found
        position += size_bytes
        found = _batch_at(log, position)
    return first[0], end


def _batch_at(log: OriginalFile, position: int) -> tuple[int, int, int] | None:
    """Return base offset, end and size of the batch at a byte; None if no whole batch begins there."""
    header = bytes(log.read(position, position + _PREFIX.size))
    if len(header) < _PREFIX.size:
        return None
    base, length, _, magic, _, _, delta = _PREFIX.unpack(header)
    size_bytes = length + _OVERHEAD_BYTES
    if length < _LENGTH_BYTES_MIN or base < 0 or not 0 <= magic <= MAGIC_V2 or position + size_bytes > log.size_bytes:
        return None
    return base, base + (max(delta, 0) if magic == MAGIC_V2 else 0) + 1, size_bytes


def _last_indexed(log: OriginalFile, index: OriginalFile | None) -> int:
    """Return the position of the last entry of an index; 0 if there is none that can be right."""
    if index is None or index.size_bytes < OFFSET_ENTRY_BYTES:
        return 0
    last = bytes(index.read(index.size_bytes - OFFSET_ENTRY_BYTES, index.size_bytes))
    if len(last) < OFFSET_ENTRY_BYTES:
        return 0
    _, position = _INDEX_ENTRY.unpack(last)
    return position if 0 < position < log.size_bytes else 0
