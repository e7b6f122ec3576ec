"""The facts that tasks of an analysis hand to Spark, column by column, read here without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cleaner.spark.analysis.task_facts import KEY, STRETCH, facts_of
from storage.codecs.compression import Compression
from storage.names import TopicPartition
from storage.records import ControlType, Record, encode_batch, encode_message, encode_wrapper
from storage.scan.extents import Extent
from storage.scan.partitions import OffsetRange
from tests.batches import encode_control_batch
from tests.partition_dirs import DAY_MS

NOW_MS = 9 * DAY_MS


@pytest.fixture
def facts(tmp_path: Path) -> Any:
    def read(schema: pa.Schema, *batches: bytes) -> list[dict[str, Any]]:
        path = tmp_path / "orders-0" / f"{0:020d}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(batches))
        everything = OffsetRange(0, (1 << 63) - 1)
        file = path.parent, path.name, path.stat().st_ino
        extent = Extent(TopicPartition("orders", 0), *file, 0, 0, path.stat().st_size, everything, None, ())
        found = facts_of((extent,), {path.parent: 7}, schema, NOW_MS)
        return [row for batch in found for row in batch.to_pylist()]

    return read


def test_keys_are_those_of_records_that_have_one_also_an_empty_one(facts: Any) -> None:
    contents = [(b"", b"v"), (None, b"unkeyed"), (b"abc", None), (b"d", b"")]
    batch = encode_batch([Record(o, 5, key, value) for o, (key, value) in enumerate(contents)])
    common = {"place": 7, "problem": None}
    assert facts(KEY, batch) == [
        {**common, "key": b"", "offset": 0, "size_bytes": 1, "is_tombstone": False},
        {**common, "key": b"abc", "offset": 2, "size_bytes": 3, "is_tombstone": True},
        {**common, "key": b"d", "offset": 3, "size_bytes": 1, "is_tombstone": False},
    ]


def test_stretch_has_the_records_of_a_batch_of_one_day(facts: Any) -> None:
    producer = {"producer_id": 4, "producer_epoch": 2, "base_sequence": 0, "is_transactional": True}
    times_ms = [-1, -1, 0, 5, 3, 4, NOW_MS, NOW_MS + 1]
    records = [Record(o, ms, b"k", b"v") for o, ms in enumerate(times_ms)]
    records[3:5] = [replace(records[3], key=None), replace(records[4], value=None)]
    batch = encode_batch(records, compression=Compression.GZIP, **producer)
    plain = encode_batch(records, **producer)
    rows = facts(STRETCH, batch)
    common = {
        "place": 7, "codec": 1, "is_control": False, "marker": -1, "is_transactional": True, "producer_id": 4,
        "producer_epoch": 2, "problem": None,
    }  # fmt: skip
    days = [
        {
            "first_offset": 0, "last_offset": 1, "day": -1, "batch_bytes": len(batch), "records": 2, "without_key": 0,
            "tombstones": 0, "first_ms": -1, "last_ms": -1, "oldest_ms": None, "newest_ms": None, "future": 0,
            "out_of_order": 0, "missing": 2,
        },
        {
            "first_offset": 2, "last_offset": 5, "day": 0, "batch_bytes": None, "records": 4, "without_key": 1,
            "tombstones": 1, "first_ms": 0, "last_ms": 4, "oldest_ms": 0, "newest_ms": 5, "future": 0,
            "out_of_order": 1, "missing": 0,
        },
        {
            "first_offset": 6, "last_offset": 7, "day": 9, "batch_bytes": None, "records": 2, "without_key": 0,
            "tombstones": 0, "first_ms": NOW_MS, "last_ms": NOW_MS + 1, "oldest_ms": NOW_MS, "newest_ms": NOW_MS + 1,
            "future": 1, "out_of_order": 0, "missing": 0,
        },
    ]  # fmt: skip
    for column, whole in (("size_bytes", len(batch)), ("plain_bytes", len(plain))):
        shares = [whole * 2 // 8, whole * 6 // 8 - whole * 2 // 8, whole - whole * 6 // 8]
        assert [row.pop(column) for row in rows] == shares
    assert rows == [common | day for day in days]


def test_markers_and_messages_of_version_1_are_stretches_too(facts: Any) -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, offset=0, timestamp_ms=5, producer_id=4, producer_epoch=2, coordinator_epoch=0
    )
    plain = encode_message(Record(1, 5, b"k", b"v"), 1)
    wrapper = encode_wrapper([Record(2, 5, b"k", b"v"), Record(3, 5, b"k", b"v")], 1, Compression.GZIP)
    told = [
        (row["is_control"], row["marker"], row["records"], row["codec"], row["batch_bytes"], row["plain_bytes"])
        for row in facts(STRETCH, marker, plain, wrapper)
    ]
    assert told == [
        (True, ControlType.COMMIT, 1, 0, len(marker), len(marker)),
        (False, -1, 1, 0, len(plain), len(plain)),
        (False, -1, 2, 1, len(wrapper), None),
    ]


@pytest.mark.parametrize("schema", [STRETCH, KEY])
def test_damage_is_a_row_with_a_problem_and_the_rest_is_read(facts: Any, schema: pa.Schema) -> None:
    first, second = (encode_batch([Record(offset, 5, b"k", b"v")]) for offset in range(2))
    damaged = bytearray(first)
    damaged[-1] ^= 1
    problem, row = facts(schema, bytes(damaged), second)
    assert "CRC-32C mismatch" in problem.pop("problem")
    assert {*problem.values()} == {None}
    assert (row["place"], row["problem"]) == (7, None)
