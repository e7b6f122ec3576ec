"""The selection of records by offset, time and key, by the headers of batches as far as these suffice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes, Integers, Table
from storage.kernels.layout import KEY_AT, KEY_BYTES, OFFSET, TIMESTAMP

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """The records to select. A range includes both ends."""

    first_offset: int = INT64_MIN
    last_offset: int = INT64_MAX
    since_ms: int = INT64_MIN
    until_ms: int = INT64_MAX
    key: bytes | None = None

    @property
    def takes_all(self) -> bool:
        """Return whether nothing is left out."""
        return self == EVERY_RECORD

    def may_take(self, base_offset: int, last_offset: int) -> bool:
        """Return whether a record of a batch with these offsets may be wanted."""
        return last_offset >= self.first_offset and base_offset <= self.last_offset

    def takes(self, offset: int, timestamp_ms: int, key: bytes | None) -> bool:
        """Return whether a record is wanted."""
        if not self.first_offset <= offset <= self.last_offset or not self.since_ms <= timestamp_ms <= self.until_ms:
            return False
        return self.key is None or self.key == key

    def batches_taken(self, table: Table) -> npt.NDArray[np.bool_]:
        """Tell by the headers alone which rows of ``layout.BATCH`` may have a selected record."""
        is_there: npt.NDArray[np.bool_] = table["last_offset"] >= self.first_offset
        is_there &= table["base_offset"] <= self.last_offset
        return is_there & (table["max_timestamp"] >= self.since_ms)

    def records_taken(self, buf: Bytes, located: Integers) -> npt.NDArray[np.bool_]:
        """Tell which records are selected. Their ``layout.LOCATED_FIELDS``, by records, index ``buf``."""
        offsets, times = located[OFFSET], located[TIMESTAMP]
        is_taken: npt.NDArray[np.bool_] = (offsets >= self.first_offset) & (offsets <= self.last_offset)
        is_taken &= (times >= self.since_ms) & (times <= self.until_ms)
        if self.key is not None:
            is_taken &= _has_key(self.key, buf, located)
        return is_taken


EVERY_RECORD: Final = RecordSelection()


def _has_key(key: bytes, buf: Bytes, located: Integers) -> npt.NDArray[np.bool_]:
    """Compare all keys of that length, from the last byte on: keys differ there most.

    Not chosen: a hash of every key. It reads all bytes of all keys; this reads one or two.
    """
    has_key: npt.NDArray[np.bool_] = located[KEY_BYTES] == len(key)
    starts, places = located[KEY_AT], np.flatnonzero(has_key)
    for at in range(len(key) - 1, -1, -1):
        if not places.size:
            break
        places = places[buf[starts[places] + at] == key[at]]
    has_key[:] = False
    has_key[places] = True
    return has_key
