"""Count the records and bytes of each key: Arrow groups, exactly, by the keys themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.arrays import Integers

KEYS: Final = pa.schema(
    [
        ("place", pa.int32()),
        ("key", pa.large_binary()),
        ("records", pa.int64()),
        ("size_bytes", pa.int64()),  # of keys and values
        ("latest", pa.uint64()),  # twice the offset of the latest record; plus one if that is a tombstone
    ]
)
TOP_KEYS: Final = 10
MEASURES: Final = {"hottest": "records", "largest": "size_bytes"}
PENDING_BYTES_MIN: Final = 32 << 20
"""The size of keys that are worth a merge."""

Row = dict[str, Any]


class GrowingKeys:
    """A table of keys that takes in further parts."""

    def __init__(self) -> None:
        self._merged = KEYS.empty_table()
        self._parts: list[pa.Table] = []
        self._pending_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The size of the merged keys."""
        return int(self._merged.nbytes)

    def add(self, part: pa.Table) -> None:
        """Take in a part: a key may be in it more than once."""
        self._parts.append(part)
        self._pending_bytes += part.nbytes
        if self._pending_bytes > max(PENDING_BYTES_MIN, self.size_bytes):
            self.merge()

    def merge(self) -> pa.Table:
        """Return a row for each key."""
        if self._parts:
            groups = pa.concat_tables([self._merged, *self._parts]).group_by(["place", "key"], use_threads=False)
            found = groups.aggregate([("records", "sum"), ("size_bytes", "sum"), ("latest", "max")])
            columns = ["place", "key", "records_sum", "size_bytes_sum", "latest_max"]
            self._merged, self._parts, self._pending_bytes = (
                found.select(columns).rename_columns(KEYS.names).cast(KEYS),
                [],
                0,
            )
        return self._merged


def parts_by(buckets: Integers, keys: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the keys of each bucket; ``buckets`` has the bucket of each row."""
    if not buckets.size:
        return
    order = np.argsort(buckets, kind="stable")
    ordered, sorted_keys = buckets[order], keys.take(pa.array(order))
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], ordered.size], strict=True):
        yield int(ordered[start]), sorted_keys.slice(start, end - start)


def answers(keys: pa.Table) -> tuple[list[Row], list[Row]]:
    """Return for each partition the sums over its keys, and its top keys by each measure."""
    sums: list[Row] = []
    tops: list[Row] = []
    for place, of_place in parts_by(keys["place"].to_numpy().astype(np.int64), keys):
        records = int(pc.sum(of_place["records"]).as_py())
        deleted = int((of_place["latest"].to_numpy() & np.uint64(1)).sum())
        count = of_place.num_rows
        sums.append({"place": place, "keys": count, "duplicates": records - count, "deleted_keys": deleted})
        for by, measure in MEASURES.items():
            order = [(measure, "descending"), ("key", "ascending")]
            top = of_place.take(pc.select_k_unstable(of_place, k=min(TOP_KEYS, count), sort_keys=order))
            tops += [{"by": by, **row} for row in top.drop_columns(["latest"]).to_pylist()]
    return sums, tops
