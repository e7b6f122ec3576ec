"""The facts that tasks of an analysis send, merged to the answer of a bucket, here without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from cleaner.spark.analysis import figures
from cleaner.spark.analysis.task_facts import BucketFindings, PlacedExtent, answer_of, facts_of
from storage.codecs.compression import Compression
from storage.names import TopicPartition
from storage.records import ControlType, Record, encode_batch, encode_message, encode_wrapper
from storage.scan.extents import Extent
from storage.scan.partitions import OffsetRange
from tests.batches import encode_control_batch
from tests.partition_dirs import DAY_MS

NOW_MS = 9 * DAY_MS
Answer = Callable[..., BucketFindings]


@pytest.fixture
def answer(tmp_path: Path) -> Answer:
    """What an analysis says of a log with some batches: the only partition, number 7."""

    def read(*batches: bytes) -> BucketFindings:
        path = tmp_path / "orders-0" / f"{0:020d}.log"
        path.parent.mkdir()
        path.write_bytes(b"".join(batches))
        everything = OffsetRange(0, (1 << 63) - 1)
        file = path.parent, path.name, path.stat().st_ino
        extent = Extent(TopicPartition("orders", 0), *file, 0, 0, path.stat().st_size, everything, None, ())
        (found,) = answer_of(list(facts_of([PlacedExtent(extent, 7, 0, 1)], NOW_MS)))
        assert {row.pop("place") for rows in found.rows.values() for row in rows} == {7}
        return found

    return read


def top(by: str, key: bytes, records: int, size_bytes: int) -> dict[str, Any]:
    return {"by": by, "key": key, "records": records, "size_bytes": size_bytes}


def test_keys_are_those_of_records_that_have_one_also_an_empty_one(answer: Answer) -> None:
    contents = [(b"", b"v"), (None, b"unkeyed"), (b"abc", None), (b"d", b"")]
    found = answer(encode_batch([Record(o, 5, key, value) for o, (key, value) in enumerate(contents)]))
    assert found.problems == ()
    assert found.rows["keys"] == [{"deleted_keys": 1, "duplicates": 0, "keys": 3}]
    assert found.rows["top_keys"] == [
        top("hottest", b"", 1, 1),
        top("hottest", b"abc", 1, 3),
        top("hottest", b"d", 1, 1),
        top("largest", b"abc", 1, 3),
        top("largest", b"", 1, 1),
        top("largest", b"d", 1, 1),
    ]


def test_batch_of_several_days_is_shared_among_them(answer: Answer) -> None:
    producer = {"producer_id": 4, "producer_epoch": 2, "base_sequence": 0, "is_transactional": True}
    times_ms = [-1, -1, 0, 5, 3, 4, NOW_MS, NOW_MS + 1]
    records = [Record(o, ms, b"k", b"v") for o, ms in enumerate(times_ms)]
    records[3:5] = [replace(records[3], key=None), replace(records[4], value=None)]
    size, plain = (
        len(encode_batch(records, compression=Compression.GZIP, **producer)),
        len(encode_batch(records, **producer)),
    )
    found = answer(encode_batch(records, compression=Compression.GZIP, **producer))
    shares = [size * 2 // 8, size * 6 // 8 - size * 2 // 8, size - size * 6 // 8]
    assert found.rows["days"] == [
        {"day": day, "records": count, "size_bytes": share}
        for day, count, share in zip((-1, 0, 9), (2, 4, 2), shares, strict=True)
    ]
    assert found.rows["codecs"] == [
        {
            "codec": 1, "batches": 1, "records": 8, "size_bytes": size, "known_bytes": size, "plain_bytes": plain,
            "ratio": plain / size,
        }
    ]  # fmt: skip
    assert found.rows["producers"] == [
        {
            "producer_id": 4, "producer_epoch": 2, "batches": 1, "records": 8, "size_bytes": size, "committed": 0,
            "aborted": 0, "last_marker": -1, "open_since_offset": 0,
        }
    ]  # fmt: skip
    assert found.rows["keys"] == [{"deleted_keys": 0, "duplicates": 6, "keys": 1}]
    assert found.rows["sums"] == [
        {
            "batches": 1, "records": 8, "first_offset": 0, "first_ms": -1, "last_ms": NOW_MS + 1, "oldest_ms": 0,
            "newest_ms": NOW_MS + 1, "missing": 2, "future": 1, "out_of_order": 1, "tombstones": 1, "without_key": 1,
            "batch_min_bytes": size, "batch_median_bytes": size, "batch_max_bytes": size,
        }
    ]  # fmt: skip


def test_markers_and_messages_of_version_1_count_too(answer: Answer) -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, offset=0, timestamp_ms=5, producer_id=4, producer_epoch=2, coordinator_epoch=0
    )
    plain = encode_message(Record(1, 5, b"k", b"v"), 1)
    wrapper = encode_wrapper([Record(2, 5, b"k", b"v"), Record(3, 5, b"k", b"v")], 1, Compression.GZIP)
    found = answer(marker, plain, wrapper)
    uncompressed = len(marker) + len(plain)
    assert found.rows["codecs"] == [
        {
            "codec": 0, "batches": 2, "records": 1, "size_bytes": uncompressed, "known_bytes": uncompressed,
            "plain_bytes": uncompressed, "ratio": 1.0,
        },
        {
            "codec": 1, "batches": 1, "records": 2, "size_bytes": len(wrapper), "known_bytes": 0, "plain_bytes": 0,
            "ratio": None,
        },
    ]  # fmt: skip
    assert found.rows["producers"] == [
        {
            "producer_id": 4, "producer_epoch": 2, "batches": 1, "records": 0, "size_bytes": len(marker),
            "committed": 1, "aborted": 0, "last_marker": 0, "open_since_offset": None,
        }
    ]  # fmt: skip
    assert found.rows["days"] == [{"day": 0, "records": 3, "size_bytes": uncompressed + len(wrapper)}]
    (sums,) = found.rows["sums"]
    assert (sums["batches"], sums["records"], sums["first_offset"]) == (3, 3, 1)
    sizes = sorted(map(len, (marker, plain, wrapper)))
    assert [sums[f"batch_{name}_bytes"] for name in ("min", "median", "max")] == sizes


def test_damage_is_a_problem_and_the_rest_is_read(answer: Answer) -> None:
    first, second = (encode_batch([Record(offset, 5, b"k", b"v")]) for offset in range(2))
    damaged = bytearray(first)
    damaged[-1] ^= 1
    found = answer(bytes(damaged), second)
    (problem,) = found.problems
    assert "at byte 0: CRC-32C mismatch" in problem
    (sums,) = found.rows["sums"]
    assert (sums["records"], sums["first_offset"]) == (1, 1)
    assert found.rows["keys"] == [{"deleted_keys": 0, "duplicates": 0, "keys": 1}]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_answer_is_the_same_in_whatever_order_the_facts_come(
    order: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction, its marker and another one, each read by a task of its own."""
    monkeypatch.setattr(figures, "ROWS_PENDING_MIN", 0)
    producer = {"producer_id": 4, "producer_epoch": 2, "is_transactional": True}
    marker = encode_control_batch(
        ControlType.COMMIT, offset=1, timestamp_ms=6, producer_id=4, producer_epoch=2, coordinator_epoch=0
    )
    batches = [
        encode_batch([Record(0, 5, b"k", b"v")], base_sequence=0, **producer),
        marker,
        encode_batch([Record(2 + day, day * DAY_MS + 7, b"k", b"v") for day in range(3)], base_sequence=1, **producer),
    ]
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(b"".join(batches))
    everything, start, sent = OffsetRange(0, (1 << 63) - 1), 0, []
    for batch in batches:
        file = path.parent, path.name, path.stat().st_ino
        extent = Extent(TopicPartition("orders", 0), *file, 0, start, start + len(batch), everything, None, ())
        sent.append(list(facts_of([PlacedExtent(extent, 7, 0, 1)], NOW_MS)))
        start += len(batch)
    (found,) = answer_of([one for place in order for one in sent[place]])
    assert [row["open_since_offset"] for row in found.rows["producers"]] == [2]
    assert [(row["records"], row["out_of_order"]) for row in found.rows["sums"]] == [(4, 0)]
