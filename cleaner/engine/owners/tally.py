"""Count the records of a partition by their keys: bytes, dirty bytes, and the latest record of each key.

The memory taken grows with the number of distinct keys, about 500 bytes each, not with that of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from policies.owners.holdings import NO_TIME, Holding, Latest
from storage.arrays import Integers
from storage.kernels.layout import (
    CONTROL,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    OFFSET,
    ROW,
    TIMESTAMP,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.scan.chunks import Chunk, aborted_rows
from storage.txn_index import AbortedTxn

_RECORD_OVERHEAD_BYTES: Final = 8
"""About what a record takes beside key, value and headers: only the shares of a batch depend on it."""
_KEYS_AT_FIRST: Final = 1 << 10
_NEVER: Final = np.iinfo(np.int64).max
_KEYS_AT_ONCE: Final = 1 << 14
_TYPE_BYTES: Final = 2
_VALUE, _TOMBSTONE = 1, 2
_LATEST: Final = (Latest.NONE, Latest.VALUE, Latest.TOMBSTONE)
_Flags = npt.NDArray[np.bool_]


class OffsetBorders(NamedTuple):
    """The offsets that tell records apart."""

    log_start_offset: int
    """Nobody reads what lies below."""
    first_dirty_offset: int
    """A cleaner has looked at what lies below."""


@dataclass(slots=True)
class Unowned:
    """Records without an owner, by their number and bytes."""

    markers: int = 0
    marker_bytes: int = 0
    unkeyed: int = 0
    unkeyed_bytes: int = 0


class CountedKey(NamedTuple):
    """One key, what there is of it, and its latest value; None for a tombstone, or if no record counts."""

    key: bytes
    latest: Latest
    value: bytes | None
    holding: Holding


class _Numbers(dict[bytes, int]):
    """Key -> its number; a new key gets the next one."""

    def __missing__(self, key: bytes) -> int:
        number = self[key] = len(self)
        return number


class Tally:
    """The counts of one partition; chunks are added in the order of their offsets."""

    def __init__(self, borders: OffsetBorders) -> None:
        self._borders = borders
        self._numbers = _Numbers()
        self._values: dict[int, bytes] = {}
        self._bytes, self._dirty, self._kept, self._records = (np.zeros(_KEYS_AT_FIRST, np.int64) for _ in range(4))
        self._first_ms = np.full(_KEYS_AT_FIRST, _NEVER, np.int64)
        self._last_ms = np.full(_KEYS_AT_FIRST, NO_TIME, np.int64)
        self._latest = np.zeros(_KEYS_AT_FIRST, np.int8)
        self._place = np.zeros(_KEYS_AT_FIRST, np.int64)
        self.unowned = Unowned()

    def add(self, chunk: Chunk, aborted: Sequence[AbortedTxn]) -> None:
        """Count the records of a chunk.

        Args:
            chunk: with its control records.
            aborted: transactions whose records do not count as the latest.
        """
        located = chunk.located
        shares = shared_out(chunk.table["size"], located)
        is_control = (chunk.table["attributes"][located[ROW]] & CONTROL) != 0
        is_keyed = (located[KEY_BYTES] >= 0) & ~is_control
        self._add_unowned(shares, is_control, ~is_control & ~is_keyed)
        counts = located[OFFSET] >= self._borders.log_start_offset
        if aborted:
            counts &= ~aborted_rows(chunk.table, aborted)[located[ROW]]
        if not is_keyed.all():
            located, shares, counts = located[:, is_keyed], shares[is_keyed], counts[is_keyed]
        if located.shape[1]:
            self._add_keyed(chunk.buf.tobytes(), located, shares, counts)

    def keys(self) -> Iterator[CountedKey]:
        """Yield the keys, ordered by the bytes behind their type. The owner's name comes first there, so an owner's
        keys stand together.
        """
        order = sorted(self._numbers, key=lambda key: key[_TYPE_BYTES:])
        for start in range(0, len(order), _KEYS_AT_ONCE):
            keys = order[start : start + _KEYS_AT_ONCE]
            numbers = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))
            latest = self._latest[numbers]
            sums = (column[numbers] for column in (self._bytes, self._dirty, self._kept, self._records))
            states = ((latest == code).astype(np.int64) for code in (_VALUE, _TOMBSTONE))
            columns = (*sums, *states, self._first_ms[numbers], self._last_ms[numbers])
            holdings = zip(*(column.tolist() for column in columns), strict=True)
            every = zip(keys, numbers.tolist(), latest.tolist(), holdings, strict=True)
            for key, number, code, holding in every:
                yield CountedKey(key, _LATEST[code], self._values.get(number), Holding(*holding))

    def _add_unowned(self, shares: Integers, is_control: _Flags, is_unkeyed: _Flags) -> None:
        unowned = self.unowned
        unowned.markers += int(is_control.sum())
        unowned.marker_bytes += int(shares[is_control].sum())
        unowned.unkeyed += int(is_unkeyed.sum())
        unowned.unkeyed_bytes += int(shares[is_unkeyed].sum())

    def _add_keyed(self, data: bytes, located: Integers, shares: Integers, counts: _Flags) -> None:
        starts = located[KEY_AT]
        ends = starts + located[KEY_BYTES]
        numbers_of = self._numbers.__getitem__
        keys = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        numbers = np.fromiter(map(numbers_of, keys), np.int64, len(keys))
        self._make_room(len(self._numbers))
        is_dirty = located[OFFSET] >= self._borders.first_dirty_offset
        np.add.at(self._bytes, numbers, shares)
        np.add.at(self._dirty, numbers, np.where(is_dirty, shares, 0))
        np.add.at(self._records, numbers, 1)
        np.minimum.at(self._first_ms, numbers, located[TIMESTAMP])
        np.maximum.at(self._last_ms, numbers, located[TIMESTAMP])
        self._note_latest(data, located[:, counts], shares[counts], numbers[counts])

    def _note_latest(self, data: bytes, located: Integers, shares: Integers, numbers: Integers) -> None:
        """Take the last record of each key for its latest: none of the chunks before lies behind it."""
        places = np.arange(numbers.size)
        self._place[numbers] = places  # of several records of a key the last one stays
        last = np.flatnonzero(self._place[numbers] == places)
        numbers, starts, lengths = numbers[last], located[VALUE_AT][last], located[VALUE_BYTES][last]
        self._kept[numbers] = shares[last]
        self._latest[numbers] = np.where(lengths >= 0, _VALUE, _TOMBSTONE)
        for number, start, length in zip(numbers.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            if length >= 0:
                self._values[number] = data[start : start + length]
            else:
                self._values.pop(number, None)

    def _make_room(self, keys: int) -> None:
        if keys <= self._bytes.size:
            return
        more = max(keys, self._bytes.size * 2) - self._bytes.size
        for name in ("_bytes", "_dirty", "_kept", "_records", "_place", "_latest"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self._first_ms = np.pad(self._first_ms, (0, more), constant_values=_NEVER)
        self._last_ms = np.pad(self._last_ms, (0, more), constant_values=NO_TIME)


def shared_out(batch_bytes: Integers, located: Integers) -> Integers:
    """Return each record's share of the bytes of its batch. The shares of a batch add up to its size.

    Args:
        batch_bytes: the size of each batch.
        located: ``layout.LOCATED_FIELDS`` by records, batch by batch.
    """
    rows: Integers = located[ROW]
    if not rows.size:
        return rows
    plain = np.maximum(located[KEY_BYTES], 0) + np.maximum(located[VALUE_BYTES], 0) + located[HEADERS_BYTES]
    ends = np.cumsum(plain + _RECORD_OVERHEAD_BYTES)
    first = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    counts = np.diff(first, append=rows.size)
    before = np.concatenate(([0], ends[first[1:] - 1]))
    within = np.repeat(ends[first + counts - 1] - before, counts)
    up_to = batch_bytes[rows] * (ends - np.repeat(before, counts)) // within
    shares: Integers = np.diff(up_to, prepend=0)
    shares[first] = up_to[first]
    return shares
