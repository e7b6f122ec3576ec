"""The largest timestamp of the records in one batch, read by the kernels where they can."""

from __future__ import annotations

from typing import Final

import numpy as np

from cleaner.dump.stored import Stored
from storage.errors import CorruptBatch
from storage.kernels.layout import BATCH, LOCATED_FIELDS, TIMESTAMP
from storage.kernels.locate import locate_records
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.scan.arena import Arena
from storage.scan.selected import INT64_MAX, INT64_MIN
from storage.scan.slices import Slice

NO_TIMESTAMP: Final = -1


class NewestReader:
    """The buffers of one reading."""

    def __init__(self) -> None:
        self._arena = Arena()
        self._table = np.zeros(1, BATCH)

    def newest_ms(self, batch: Stored) -> int:
        """Return the largest timestamp, -1 without one. Raises: CorruptBatch."""
        found = None if batch.is_legacy else self._by_kernels(batch)
        if found is not None:
            return found
        return max((record.timestamp_ms for record, _ in batch.records()), default=NO_TIMESTAMP)

    def _by_kernels(self, batch: Stored) -> int | None:
        """Return the timestamp; None if Python has to read the batch."""
        buf, table = np.frombuffer(batch.data, np.uint8), self._table
        status, rows, _, _, _ = scan_batches(buf, 0, buf.size, 0, 0, table)
        if status != Status.OK or rows != 1:
            return None
        records = int(table["record_count"][0])
        located = np.empty((LOCATED_FIELDS, records), np.int64)
        try:
            for run in self._arena.runs(Slice(buf, batch.position, table, 0, batch.path), 0, 1):
                plain = table[run.first : run.last]
                status, _, records = locate_records(run.buf, plain, 0, 1, INT64_MIN, INT64_MAX, located.reshape(-1), 0)
        except CorruptBatch:
            return None
        if status != Status.OK:
            return None
        return max(int(located[TIMESTAMP, :records].max(initial=NO_TIMESTAMP)), NO_TIMESTAMP)
