"""The columns of the facts that the tasks of an analysis hand to Spark: stretches and keys (``task_facts``)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

NO_MARKER: Final = -1

STRETCH: Final = pa.schema(
    [
        ("place", pa.int32()),  # the number of the partition in the snapshot
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("day", pa.int64()),  # since the epoch; negative without a timestamp
        ("batch_bytes", pa.int64()),  # of the whole batch; null except in the batch's first stretch
        ("size_bytes", pa.int64()),  # the stretch's share of the batch
        ("plain_bytes", pa.int64()),  # the share of the uncompressed bytes; null if unknown
        ("records", pa.int64()),
        ("codec", pa.int32()),
        ("is_control", pa.bool_()),
        ("marker", pa.int32()),  # storage.records.ControlType, or NO_MARKER
        ("is_transactional", pa.bool_()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("without_key", pa.int64()),
        ("tombstones", pa.int64()),
        ("first_ms", pa.int64()),
        ("last_ms", pa.int64()),
        ("oldest_ms", pa.int64()),  # of the records with a timestamp; null if there is none
        ("newest_ms", pa.int64()),
        ("future", pa.int64()),
        ("out_of_order", pa.int64()),  # within the stretch
        ("missing", pa.int64()),
        ("problem", pa.string()),  # if not null, all else is null
    ]
)
KEY: Final = pa.schema(
    [
        ("place", pa.int32()),
        ("key", pa.binary()),
        ("offset", pa.int64()),
        ("size_bytes", pa.int64()),  # of key and value
        ("is_tombstone", pa.bool_()),
        ("problem", pa.string()),
    ]
)
