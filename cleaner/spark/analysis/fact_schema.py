"""The columns of what the tasks of an analysis hand to Spark: stretches, and keys (``facts``)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

NO_MARKER: Final = -1

STRETCH: Final = pa.schema(
    [
        ("place", pa.int32()),  # of the partition, in the snapshot
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("day", pa.int64()),  # since the epoch; negative where there is no timestamp
        ("batch_bytes", pa.int64()),  # of the whole batch; null but in its first stretch
        ("size_bytes", pa.int64()),  # the stretch's share
        ("plain_bytes", pa.int64()),  # as bytes, uncompressed; null where that is not known
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
        ("oldest_ms", pa.int64()),  # of those that have a timestamp; else null
        ("newest_ms", pa.int64()),
        ("future", pa.int64()),
        ("out_of_order", pa.int64()),  # within the stretch
        ("missing", pa.int64()),
        ("problem", pa.string()),  # all else is null then
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
