"""The largest timestamp of the records in one batch, read by the kernels where they can."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from cleaner.dump.logs import batches_of
from cleaner.dump.stored import Stored
from storage.errors import CorruptBatch
from storage.kernels.layout import LOCATED_FIELDS, TIMESTAMP
from storage.kernels.locate import locate_records
from storage.kernels.status import Status
from storage.scan.arena import Arena
from storage.scan.as_stored import StoredBatch, StoredRows
from storage.scan.selected import INT64_MAX, INT64_MIN
from storage.scan.slices import Slice

NO_TIMESTAMP: Final = -1


def newest_ms(found: StoredRows | StoredBatch, path: Path, arena: Arena) -> int:
    """Return the largest timestamp of a batch in a file, -1 without one. Raises: CorruptBatch."""
    if isinstance(found, StoredRows):
        by_kernels = _by_kernels(found.slice, arena)
        if by_kernels is not None:
            return by_kernels
        (found,) = batches_of(found)
    batch = Stored.parse(found.data, path, found.position)
    return max((record.timestamp_ms for record, _ in batch.records()), default=NO_TIMESTAMP)


def _by_kernels(batch: Slice, arena: Arena) -> int | None:
    """Return the timestamp; None if Python has to read the batch."""
    located = np.empty((LOCATED_FIELDS, int(batch.table["record_count"][0])), np.int64)
    try:
        for run in arena.runs(batch, 0, 1):
            plain = batch.table[run.first : run.last]
            status, _, records = locate_records(run.buf, plain, 0, 1, INT64_MIN, INT64_MAX, located.reshape(-1), 0)
    except CorruptBatch:
        return None
    if status != Status.OK:
        return None
    return max(int(located[TIMESTAMP, :records].max(initial=NO_TIMESTAMP)), NO_TIMESTAMP)
