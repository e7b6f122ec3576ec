"""What a write leaves: whole new partitions with indexes, or nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.arrow.schema import HEADERS, TIMESTAMP
from cleaner.errors import UnusableOutput
from cleaner.spark.table.sink import KafkaLogWriter, Part, PartitionExists, WrittenParts
from storage.errors import InvalidConfig
from storage.filesystem import FileSystem
from storage.lock import LogDirLocked
from storage.log import Log, LogConfig
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, LOCK_FILE, TopicPartition
from storage.records import Record
from tests.partition_dirs import NOW_MS, records_in
from tests.spark.tables import read

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
        WrittenParts(tuple(Part(part.topic_partition, task, part.directory) for part in some))
        for task, some in zip((2, 0, 1), parts, strict=True)
    ]
    sink.write(iter([batch(row("z"))]))  # a task that was run twice: its commit was not the one taken
    sink.commit([*messages, None])
    assert [record.key for record in records_in(tmp_path / "orders-0")] == [b"a", b"A", b"b", b"B", b"c", b"C"]
    assert [record.offset for record in records_in(tmp_path / "orders-0")] == list(range(6))
    assert names(tmp_path) == ["orders-0", HIGH_WATERMARK_CHECKPOINT]


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


def test_a_directory_that_is_not_there_is_told_on_the_driver_and_by_each_task(tmp_path: Path) -> None:
    with pytest.raises(UnusableOutput, match="is no directory; make it first"):
        writer(tmp_path / "none")
    (tmp_path / "data").mkdir()
    sink = writer(tmp_path / "data")
    (tmp_path / "data").rmdir()
    with pytest.raises(UnusableOutput, match=r"is no directory on the Spark executor at .*; mount it there"):
        sink.write(iter([]))


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
