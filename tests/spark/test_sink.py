"""What a write leaves: whole new partitions with indexes, or nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.arrow.schema import HEADERS, TIMESTAMP
from cleaner.errors import UnusableOutput
from cleaner.spark.table.sink import KafkaLogWriter, PartGone, PartitionExists, PartWriter, WrittenParts
from storage.errors import CorruptBatch, InvalidConfig
from storage.filesystem import FileSystem, OutOfSpace
from storage.lock import LogDirLocked
from storage.log import Log, LogConfig
from storage.log.errors import RecordBatchTooLarge
from storage.log_dir import OFFSET_CHECKPOINTS, LogDir
from storage.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA_FILE,
    TopicPartition,
)
from storage.records import Record
from tests.partition_dirs import NOW_MS, records_in
from tests.spark.tables import read
from tests.storage.log.logs import FullDisk
from tests.storage.test_read_lock import read_only

ARROW = pa.schema(
    {
        "key": pa.string(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(),
        "timestamp": TIMESTAMP, "headers": HEADERS,
    }
)  # fmt: skip
MOMENT = datetime.fromtimestamp(NOW_MS / 1000, UTC)
HEADED = [{"key": "h", "value": b"1"}, {"key": "none", "value": None}]


def writer(log_dir: Path, columns: pa.Schema = ARROW, **options: str) -> KafkaLogWriter:
    return KafkaLogWriter({"path": str(log_dir)} | options, from_arrow_schema(columns), overwrite=False)


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], schema=ARROW)


def row(key: str, topic: str | None = "orders", partition: int | None = 0) -> tuple[Any, ...]:
    return key, b"v", topic, partition, MOMENT, None


def names(log_dir: Path) -> list[str]:
    """All but the lock, which whoever takes it leaves."""
    return sorted(path.name for path in log_dir.iterdir() if path.name != LOCK_FILE)


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    first = batch(("a", b"1", "orders", 3, MOMENT, HEADED), (None, None, "orders", 3, MOMENT, []))
    sink.commit([sink.write(iter([first, batch(row("b", "clicks"))]))])
    headers = ((b"h", b"1"), (b"none", None))
    assert records_in(tmp_path / "orders-3") == [Record(0, NOW_MS, b"a", b"1", headers), Record(1, NOW_MS, None, None)]
    assert records_in(tmp_path / "clicks-0") == [Record(0, NOW_MS, b"b", b"v")]
    ends = LogDir(tmp_path).offsets(HIGH_WATERMARK_CHECKPOINT)
    assert ends == {TopicPartition("orders", 3): 2, TopicPartition("clicks", 0): 1}
    assert names(tmp_path) == ["clicks-0", "orders-3", HIGH_WATERMARK_CHECKPOINT]


def test_a_record_without_a_timestamp_gets_that_of_the_write(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    sink.commit([sink.write(iter([batch(("a", b"1", "orders", 0, None, None))]))])
    (record,) = records_in(tmp_path / "orders-0")
    assert record.timestamp_ms > 1_600_000_000_000


def test_large_partitions_are_laid_down_in_batches_and_segments_with_their_indexes(tmp_path: Path) -> None:
    sink = writer(tmp_path, **{"segment.bytes": "20000", "compression": "lz4"})
    sink.commit([sink.write(iter([batch(*(row(f"k{place}") for place in range(20_000)))]))])
    logs = sorted((tmp_path / "orders-0").glob("*.log"))
    indexes = sorted((tmp_path / "orders-0").glob("*.index"))
    assert len(logs) == len(indexes) > 1
    assert any(path.stat().st_size for path in indexes)
    rows = read(tmp_path, columns="key,offset,codec,position")
    assert [one["offset"] for one in rows] == list(range(20_000))
    assert rows[-1]["key"] == b"k19999"
    assert {one["codec"] for one in rows} == {"lz4"}
    assert len({one["position"] for one in rows}) > 3


def test_a_batch_ends_once_it_fills_a_quarter_of_a_segment(tmp_path: Path) -> None:
    sink = writer(tmp_path, **{"segment.bytes": "20000"})
    rows = [("k", b"v" * 1_000, "orders", 0, MOMENT, None) for _ in range(12)]
    sink.commit([sink.write(iter([batch(*rows)]))])
    positions = [one["position"] for one in read(tmp_path, columns="offset,position")]
    assert [positions.count(position) for position in sorted(set(positions))] == [5, 5, 2]


def test_what_several_tasks_wrote_of_a_partition_is_joined_in_their_order(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    parts = [sink.write(iter([batch(row(key), row(key.upper()))])).parts for key in "cab"]
    messages = [
        WrittenParts(tuple(replace(part, task=task) for part in some))
        for task, some in zip((2, 0, 1), parts, strict=True)
    ]
    sink.write(iter([batch(row("z"))]))  # a task that was run twice: its commit was not the one taken
    sink.commit([*messages, None])
    assert [record.key for record in records_in(tmp_path / "orders-0")] == [b"a", b"A", b"b", b"B", b"c", b"C"]
    assert [record.offset for record in records_in(tmp_path / "orders-0")] == list(range(6))
    assert names(tmp_path) == ["orders-0", HIGH_WATERMARK_CHECKPOINT]


@pytest.mark.parametrize("gone", ["", "*", "*.log", "0*0.log"], ids=["directory", "files", "logs", "one log"])
@pytest.mark.parametrize("task", [0, 1])
def test_part_that_a_starting_broker_removed_is_told_and_nothing_appears(tmp_path: Path, gone: str, task: int) -> None:
    sink = writer(tmp_path, **{"segment.bytes": "200"})
    tasks = [sink.write(iter([batch(*[row(f"{key}{n}") for n in range(9)])])).parts for key in "ab"]
    (part,) = tasks[task]
    if gone:
        for path in part.directory.glob(gone):
            path.unlink()
    else:
        shutil.rmtree(part.directory)
    parts = [replace(part, task=number) for number, some in enumerate(tasks) for part in some]
    with pytest.raises(PartGone, match=rf"-delete: \d+ of the {part.size_bytes} bytes that a task wrote here are left"):
        sink.commit([WrittenParts(tuple(parts))])
    assert names(tmp_path) == []


def test_partitions_of_a_topic_share_its_id_also_with_those_that_are_there(tmp_path: Path) -> None:
    Log.create(tmp_path / "clicks-0", LogConfig(), FileSystem(), topic_id="B" * 22).close()
    sink = writer(tmp_path)
    tasks = [
        sink.write(iter([batch(row("a", topic, number))])) for topic, number in (("o", 0), ("o", 1), ("clicks", 1))
    ]
    sink.commit(tasks)
    ids = {
        path.parent.name: path.read_text().rpartition("topic_id: ")[2].strip()
        for path in tmp_path.glob("*/partition.metadata")
    }
    assert ids["o-0"] == ids["o-1"] != ids["clicks-0"] == ids["clicks-1"]
    assert len(ids["o-0"] or "") == 22  # base64url of 16 bytes


def test_an_aborted_write_leaves_nothing(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    sink.write(iter([batch(row("a"))]))
    assert [name for name, _ in LogDir(tmp_path).partitions()] == []
    sink.abort([None])
    assert names(tmp_path) == []


def test_a_partition_that_is_there_is_left_as_it_is_and_no_other_appears(tmp_path: Path) -> None:
    Log.create(tmp_path / "orders-0", LogConfig(), FileSystem(), topic_id="B" * 22).close()
    sink = writer(tmp_path)
    message = sink.write(iter([batch(row("a"), row("b", "clicks"))]))
    with pytest.raises(PartitionExists, match="orders-0: is there already"):
        sink.commit([message])
    assert names(tmp_path) == ["orders-0"]
    assert records_in(tmp_path / "orders-0") == []


def test_partition_that_appears_anew_has_no_line_of_an_earlier_one(tmp_path: Path) -> None:
    earlier = {TopicPartition("orders", 0): 1000, TopicPartition("kept", 0): 5}
    for name in OFFSET_CHECKPOINTS:
        LogDir(tmp_path).write_offsets(name, earlier, FileSystem())
    sink = writer(tmp_path)
    sink.commit([sink.write(iter([batch(row("a"))]))])
    left = {name: LogDir(tmp_path).offsets(name).get(TopicPartition("orders", 0)) for name in OFFSET_CHECKPOINTS}
    assert left == dict.fromkeys(OFFSET_CHECKPOINTS) | {HIGH_WATERMARK_CHECKPOINT: 1}
    assert LogDir(tmp_path).offsets(LOG_START_OFFSET_CHECKPOINT) == {TopicPartition("kept", 0): 5}


def test_nothing_appears_beside_a_running_broker(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    message = sink.write(iter([batch(row("a"))]))
    with LogDir(tmp_path).lock(FileSystem()), pytest.raises(LogDirLocked):
        sink.commit([message])
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", [("../up", 0), ("", 0), ("..", 0), ("o", -1), ("o" * 250, 0)])
def test_a_name_that_no_partition_can_have_is_refused(tmp_path: Path, name: tuple[str, int]) -> None:
    with pytest.raises(InvalidConfig, match="no partition can be called that"):
        writer(tmp_path).write(iter([batch(row("a", *name))]))
    assert names(tmp_path) == []


def test_a_row_without_a_topic_is_refused_and_an_option_says_it_for_all(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="a row has none"):
        writer(tmp_path).write(iter([batch(row("a", None))]))
    sink = writer(tmp_path, pa.schema({"value": pa.string()}), topic="said")
    sink.commit([sink.write(iter([pa.RecordBatch.from_pylist([{"value": "v"}])]))])
    assert [record.value for record in records_in(tmp_path / "said-0")] == [b"v"]


def test_row_without_a_partition_is_refused_unless_no_row_has_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as raised:
        writer(tmp_path).write(iter([batch(row("a"), row("b", partition=None))]))
    line = "kafka-log: partition: a row has none; a frame without the column is written to partition 0"
    assert str(raised.value) == line
    sink = writer(tmp_path, pa.schema({"value": pa.string(), "topic": pa.string()}))
    sink.commit([sink.write(iter([pa.RecordBatch.from_pylist([{"value": "v", "topic": "without"}])]))])
    assert [record.value for record in records_in(tmp_path / "without-0")] == [b"v"]


@pytest.mark.parametrize(
    ("columns", "cause"),
    [
        ({"key": pa.string(), "topic": pa.string()}, "value: there must be a column"),
        ({"value": pa.string()}, "topic: say it as an option or as a column"),
        ({"value": pa.int32(), "topic": pa.string()}, "must be binary or string"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused(tmp_path: Path, columns: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidConfig, match=cause):
        writer(tmp_path, pa.schema(columns))


def test_read_only_mount_is_told_on_the_driver_and_by_each_task(tmp_path: Path) -> None:
    made = tmp_path / "data"
    made.mkdir()
    with read_only(made) as mounted:
        with pytest.raises(UnusableOutput, match="data-ro: cannot be written to; mount it writable"):
            writer(mounted)
        write = replace(writer(made).this_write, log_dir=mounted)
        with pytest.raises(UnusableOutput, match="data-ro: cannot be written to on the Spark executor at"):
            PartWriter(write, 0)


def test_a_directory_that_is_not_there_is_told_on_the_driver_and_by_each_task(tmp_path: Path) -> None:
    with pytest.raises(UnusableOutput, match="is no directory; make it first"):
        writer(tmp_path / "none")
    (tmp_path / "data").mkdir()
    sink = writer(tmp_path / "data")
    (tmp_path / "data").rmdir()
    with pytest.raises(UnusableOutput, match=r"is no directory on the Spark executor at .*; mount it there"):
        sink.write(iter([]))


def in_one(log_dir: Path, *batches: pa.RecordBatch, **options: str) -> dict[str, bytes]:
    """Write batches in two tasks, and return the files of all partitions but what tells the topic id."""
    log_dir.mkdir()
    sink = writer(log_dir, **options)
    messages = [sink.write(iter(batches)), sink.write(iter(batches[:1]))]
    parts = [replace(part, task=task) for task, message in enumerate(messages) for part in message.parts]
    sink.commit([WrittenParts(tuple(parts))])
    files = (path for path in log_dir.glob("*-*/*") if path.name != PARTITION_METADATA_FILE)
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in files}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_same_rows_give_the_same_bytes_however_many_come_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    options = {"segment.bytes": "60000", "compression": codec}
    rows = [
        (None if place % 9 == 0 else f"k{place * place % 97}", Random(place).randbytes(place % 150), f"t{place % 3}",
         place % 4, MOMENT, HEADED if place % 5 == 0 else None)
        for place in range(6000)
    ]  # fmt: skip
    whole = in_one(tmp_path / "whole", batch(*rows[:3000]), batch(*rows[3000:]), **options)
    cuts = [rows[:3000], *(rows[first : first + 101] for first in range(3000, 6000, 101))]
    for gathered_bytes in (1, 1 << 17):
        monkeypatch.setattr("cleaner.spark.table.sink.GATHERED_BYTES", gathered_bytes)
        assert in_one(tmp_path / f"cut {gathered_bytes}", *(batch(*cut) for cut in cuts), **options) == whole
    assert in_one(tmp_path / "again", batch(*rows[:3000]), batch(*rows[3000:]), **options) == whole
    assert len([name for name in whole if name.endswith(".log")]) > len({f"{row[2]}-{row[3]}" for row in rows})


def test_batches_are_as_large_as_a_producer_makes_them(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    rows = [("k", b"v" * 100, "orders", 0, MOMENT, None) for _ in range(2000)]
    sink.commit([sink.write(batch(*rows[first : first + 7]) for first in range(0, 2000, 7))])
    sizes = [one.header.size_bytes for one in Log.open(tmp_path / "orders-0", LogConfig(), FileSystem()).read()]
    assert len(sizes) == 14
    assert all(16_384 < size < 16_384 + 61 + 112 for size in sizes[:-1])


def test_a_header_without_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as raised:
        writer(tmp_path).write(iter([batch(("k", b"v", "orders", 0, MOMENT, [{"key": None, "value": b"1"}]))]))
    assert str(raised.value) == "kafka-log: headers: a header has no key"


def test_time_before_1970_is_refused_and_what_stands_for_none_is_the_time_of_the_write(tmp_path: Path) -> None:
    def at(ms: int) -> pa.RecordBatch:
        return batch(("a", b"1", "orders", 0, datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms), None))

    with pytest.raises(InvalidConfig, match="kafka-log: timestamp: a row's is before 1970"):
        writer(tmp_path).write(iter([at(-2)]))
    sink = writer(tmp_path)
    sink.commit([sink.write(iter([at(-1), at(0)]))])
    assert [record.timestamp_ms for record in records_in(tmp_path / "orders-0")] == [sink.this_write.now_ms, 0]


@pytest.mark.parametrize("name", ["Key", "VALUE", "Partition"])
def test_column_in_other_letters_is_refused_not_left_out(tmp_path: Path, name: str) -> None:
    columns = pa.schema([field.with_name(name) if field.name == name.lower() else field for field in ARROW])
    with pytest.raises(InvalidConfig, match=f"kafka-log: {name}: case counts here: call the column {name.lower()}"):
        writer(tmp_path, columns)


def test_metadata_log_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"__cluster_metadata.*not written"):
        writer(tmp_path).write(iter([batch(row("a", "__cluster_metadata"))]))


def test_record_that_no_segment_can_hold_is_refused(tmp_path: Path) -> None:
    sink = writer(tmp_path, **{"segment.bytes": "2000"})
    with pytest.raises(RecordBatchTooLarge, match=r"more than segment.bytes = 2000"):
        sink.write(iter([batch(("k", b"v" * 3000, "orders", 0, MOMENT, None))]))
    sink.abort([None])
    assert names(tmp_path) == []


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_disk_that_fills_up_ends_the_task_and_nothing_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(FullDisk, "full_suffix", suffix)
    monkeypatch.setattr("cleaner.spark.table.sink.FileSystem", FullDisk)
    sink = writer(tmp_path, **{"segment.bytes": "20000"})
    with pytest.raises(OutOfSpace):
        sink.write(iter([batch(*(row(f"k{place}") for place in range(20_000)))]))
    sink.abort([None])
    assert names(tmp_path) == []


def test_damage_in_a_part_is_found_before_it_is_joined(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    parts = [
        replace(part, task=task) for task in range(2) for part in sink.write(iter([batch(row("a"), row("b"))])).parts
    ]
    (log,) = parts[1].directory.glob("*.log")
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptBatch, match="CRC-32C mismatch"):
        sink.commit([WrittenParts(tuple(parts))])
    assert names(tmp_path) == []


def test_overwriting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="use append"):
        KafkaLogWriter({"path": str(tmp_path)}, from_arrow_schema(ARROW), overwrite=True)


def test_spark_writes_what_spark_reads(spark: Any, tmp_path: Path) -> None:
    made = "concat('k', id % 10) key", "string(id) value", "'orders' topic", "int(id % 3) partition"
    frame = spark.range(0, 300, 1, 2).selectExpr(*made)
    frame.write.format("kafka-log").mode("append").save(str(tmp_path))
    found = spark.read.format("kafka-log").load(str(tmp_path))
    read_back = found.selectExpr("int(string(value)) id", "partition", "string(key) key").collect()
    expected = [(number, number % 3, f"k{number % 10}") for number in range(300)]
    assert sorted(map(tuple, read_back)) == expected
