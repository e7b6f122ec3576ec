"""Every entry of an index file as it lies there, for who shows it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, overload

from storage.indexes import OffsetIndexEntry, TimeIndexEntry

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")

AnyEntry = TypeVar("AnyEntry")


class StoredEntries(Sequence[AnyEntry]):
    """Every entry of an index as it lies there, zeros and what cannot be, too; a torn last one is left out.

    For who shows an index: ``parse_offset_index`` and ``parse_time_index`` are for who uses it. An entry is read when
    it is asked for, since a preallocated index has a million zeros.
    """

    def __init__(self, data: bytes, layout: struct.Struct, entry: Callable[[int, int], AnyEntry]) -> None:
        self._data, self._layout, self._entry = data, layout, entry

    def __len__(self) -> int:
        return len(self._data) // self._layout.size

    @overload
    def __getitem__(self, place: int) -> AnyEntry: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[AnyEntry]: ...

    def __getitem__(self, place: int | slice) -> AnyEntry | Sequence[AnyEntry]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        first, second = self._layout.unpack_from(self._data, place % len(self) * self._layout.size)
        return self._entry(first, second)


def stored_offset_entries(data: bytes, base_offset: int) -> StoredEntries[OffsetIndexEntry]:
    """Return the entries of an ``.index`` as they lie there."""
    return StoredEntries(data, _OFFSET_ENTRY, lambda relative, at: OffsetIndexEntry(base_offset + relative, at))


def stored_time_entries(data: bytes, base_offset: int) -> StoredEntries[TimeIndexEntry]:
    """Return the entries of a ``.timeindex`` as they lie there."""
    return StoredEntries(data, _TIME_ENTRY, lambda time_ms, relative: TimeIndexEntry(time_ms, base_offset + relative))
