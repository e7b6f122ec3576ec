"""A stream of Spark into a log dir: each record once, also behind a driver that was killed at any step of a commit."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.engine.journal import read_entries
from cleaner.engine.streams import read_streams
from cleaner.spark.table.source import KafkaLogSource
from cleaner.spark.table.stream_sink import KafkaLogStreamWriter, append_batch
from storage.errors import InvalidConfig
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, SCRATCH_SUFFIX, TopicPartition
from tests.crash.stops import FailingAt
from tests.partition_dirs import records_in
from tests.sampled import is_whole
from tests.spark.test_append_batch import micro_batch, parts_of

ROWS: Final = 30
SCHEMA: Final = pa.schema({"value": pa.string(), "topic": pa.string()})


def start(spark: Any, place: Path, batches: int, columns: tuple[str, ...] = (), **options: str) -> Any:
    """Write one batch for each file that a stream finds."""
    inbox = place / "in"
    inbox.mkdir(exist_ok=True)
    for number in range(batches):
        rows = [{"id": number * ROWS + place_} for place_ in range(ROWS)]
        (inbox / f"{number:03d}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    made = columns or ("string(id) key", "string(id) value", "'orders' topic", "int(id % 2) partition")
    files = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(inbox))
    writing = files.selectExpr(*made).writeStream.format("kafka-log").trigger(availableNow=True)
    said = {"checkpointLocation": str(place / "checkpoint"), **options}
    return writing.options(**said).start(str(place / "data"))


def check_each_once(place: Path, batches: int) -> None:
    found = {
        name: [int((record.value or b"").decode()) for record in Log.open(path, LogConfig(), FileSystem()).records()]
        for name, path in LogDir(place / "data").partitions()
    }
    assert found.keys() == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert all(sorted(values) == list(range(n.partition, batches * ROWS, 2)) for n, values in found.items())
    for name, path in LogDir(place / "data").partitions():
        assert [record.offset for record in records_in(path)] == list(range(batches * ROWS // 2))
        assert LogDir(place / "data").offsets(HIGH_WATERMARK_CHECKPOINT)[name] == batches * ROWS // 2
    assert not list((place / "data").rglob(f"*/*{SCRATCH_SUFFIX}"))
    assert not list((place / "data").glob("*-delete"))


def test_twenty_batches_are_there_once_and_each_is_a_segment(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    start(spark, tmp_path, 20).awaitTermination()
    check_each_once(tmp_path, 20)
    (stream,) = read_streams(tmp_path / "data").values()
    assert (stream.number, dict(stream.staged)) == (19, {})
    assert len(list_partition(tmp_path / "data" / "orders-0").segments) == 20
    told = [entry for entry in read_entries(tmp_path / "data", "append") if entry["partition"] == "orders-0"]
    assert [entry["log_end_offset"] for entry in told] == [(n + 1) * ROWS // 2 for n in range(20)]
    read = spark.read.format("kafka-log").load(str(tmp_path / "data"))
    assert read.count() == 20 * ROWS


def test_query_that_is_started_again_goes_on_under_its_id(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    first = start(spark, tmp_path, 1)
    first.awaitTermination()
    start(spark, tmp_path, 2).awaitTermination()
    check_each_once(tmp_path, 2)
    assert read_streams(tmp_path / "data").keys() == {str(first.id)}


def test_error_of_the_commit_ends_the_query_and_the_next_start_goes_on(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    start(spark, tmp_path, 1).awaitTermination()
    torn = max((tmp_path / "data" / "orders-0").glob("*.log"))
    whole = torn.read_bytes()
    torn.write_bytes(whole + b"torn")
    with pytest.raises(PySparkException, match="bytes that are no whole batch; start the broker once"):
        start(spark, tmp_path, 2).awaitTermination()
    torn.write_bytes(whole)
    start(spark, tmp_path, 2).awaitTermination()
    check_each_once(tmp_path, 2)


def test_rows_that_cannot_be_written_end_the_query_and_leave_no_part(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(PySparkException, match="topic: a row has none"):
        start(spark, tmp_path, 1, ("string(id) value", "if(id = 3, null, 'orders') topic")).awaitTermination()
    assert [name for name, _ in LogDir(tmp_path / "data").partitions()] == []


@pytest.mark.parametrize(
    ("options", "overwrite", "cause"),
    [
        ({}, True, "outputMode = 'complete': records are only appended"),
        ({"asyncProgressTrackingEnabled": "true"}, False, "asyncProgressTrackingEnabled: unknown option"),
    ],
)
def test_query_that_cannot_be_written_exactly_once_is_refused(
    tmp_path: Path, options: dict[str, str], overwrite: bool, cause: str
) -> None:
    with pytest.raises(InvalidConfig) as raised:
        KafkaLogStreamWriter({"path": str(tmp_path)} | options, from_arrow_schema(SCHEMA), overwrite=overwrite)
    assert cause in str(raised.value)


def test_store_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="a store is never appended to: name a directory"):
        KafkaLogSource({"path": "s3a://bucket/dir"}).streamWriter(from_arrow_schema(SCHEMA), overwrite=False)


def test_driver_killed_within_a_commit_leaves_each_record_once(spark: Any, tmp_path: Path) -> None:
    """Driver, JVM and the process of the commit go at once, by SIGKILL, in the second batch."""
    (tmp_path / "data").mkdir()
    start(spark, tmp_path, 1).awaitTermination()
    steps = steps_of_a_commit(tmp_path)
    for place in range(KILLS):
        step = (2 * place + 1) * steps // (2 * KILLS)
        assert killed_driver(tmp_path, step) == -signal.SIGKILL
    start(spark, tmp_path, 2).awaitTermination()
    check_each_once(tmp_path, 2)


KILLS: Final = 12 if is_whole() else 2


def steps_of_a_commit(place: Path) -> int:
    """Count the steps of a commit in both partitions, on a copy."""
    log_dir, disk = shutil.copytree(place / "data", place / "copy"), FailingAt(-1)
    batch = micro_batch(log_dir, query="counted")
    rows = {name: ["1"] for name, _ in LogDir(log_dir).partitions()}
    append_batch(batch, parts_of(batch, rows), disk)
    shutil.rmtree(log_dir)
    return disk.steps


def killed_driver(place: Path, step: int) -> int:
    words = (sys.executable, "-m", "tests.spark.dying_stream", str(place), str(step))
    with (place / "driver.txt").open("w") as out:
        return subprocess.run(
            words, stdout=out, stderr=out, start_new_session=True, timeout=900, check=False
        ).returncode
