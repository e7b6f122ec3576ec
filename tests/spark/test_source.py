"""What a user of Spark sees: schemas, filters, modes, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from storage.checkpoints import LeaderEpochEntry, format_leader_epochs
from storage.codecs.compression import Compression
from storage.errors import CorruptBatch, InvalidConfig
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.records import ControlType
from storage.scan.files import SegmentGone
from tests.batches import encode_control_batch
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import keys, read, reader

KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)


def table(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("kafka-log").options(**options).load(str(path))


def test_the_schema_is_that_of_sparks_kafka_source(spark: Any, log_dir: Path) -> None:
    assert table(spark, log_dir).schema.simpleString() == KAFKA_SCHEMA


def test_a_schema_given_is_a_projection(spark: Any, log_dir: Path) -> None:
    frame = spark.read.format("kafka-log").schema("topic string, value binary").load(str(log_dir))
    assert {tuple(row) for row in frame.collect()} >= {("clicks", b"1"), ("orders", None)}


def test_a_damaged_batch_fails_the_query_and_is_named(spark: Any, tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    with pytest.raises(PySparkException, match=f"{directory.log(0)} at byte 0: CRC-32C mismatch"):
        table(spark, tmp_path).collect()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"path": "/nowhere"},
            "LogDirNotThere: /nowhere: does not exist; mount it, or name the directory that log.dirs",
        ),
        ({"subscribe": "order"}, "InvalidConfig: kafka-log: subscribe = 'order': nothing of it in"),
        ({"subscribed": "orders"}, "InvalidConfig: kafka-log: subscribed: unknown option; did you mean subscribe?"),
        ({"mode": "fast"}, "kafka-log: mode = 'fast': failfast or permissive or dropmalformed"),
        ({"startingOffsets": '{"orders":{"0":9}}'}, "NoSuchOffset: orders-0: offset 9 is not there"),
        ({}, "CorruptBatch:"),
    ],
)
def test_error_ends_in_our_line_behind_a_short_stack(
    spark: Any, tmp_path: Path, options: dict[str, str], line: str
) -> None:
    damaged(tmp_path)
    with pytest.raises(PySparkException) as raised:
        table(spark, Path(options.pop("path", str(tmp_path))), **options).collect()
    assert_is_short(raised.value, line)


def test_error_of_a_write_ends_in_our_line_behind_a_short_stack(spark: Any, tmp_path: Path) -> None:
    PartitionDir(tmp_path).segment(0, keyed(0, "a=1"))
    frame = spark.range(3).selectExpr("string(id) value", "if(id = 2, null, 'orders') topic")
    for rows, place, line in (
        (frame, tmp_path / "none", "UnusableOutput: {}: is no directory; make it first"),
        (frame, tmp_path, "InvalidConfig: kafka-log: topic: a row has none"),
        (frame.where("topic = 'orders'"), tmp_path, "PartitionExists: {}/orders-0: is there already"),
    ):
        with pytest.raises(PySparkException) as raised:
            rows.write.format("kafka-log").mode("append").save(str(place))
        assert_is_short(raised.value, line.format(place))


def test_error_of_a_stream_has_our_line_behind_a_short_stack(spark: Any, log_dir: Path) -> None:
    read = spark.readStream.format("kafka-log").option("subscribe", "none").load(str(log_dir))
    with pytest.raises(PySparkException) as raised:
        read.writeStream.format("noop").start().processAllAvailable()
    before, line, _ = str(raised.value).partition("InvalidConfig: kafka-log: subscribe = 'none': nothing of it in")
    assert line
    assert before.count(", line ") < 6


def assert_is_short(error: PySparkException, line: str) -> None:
    told = [one for one in str(error).splitlines() if one.strip() and "SQLSTATE: " not in one]
    assert line in told[-1]
    assert len([one for one in told if ", line " in one]) < 4


def damaged(path: Path) -> PartitionDir:
    batch = bytearray(keyed(0, "a=1"))
    batch[-1] ^= 1
    return PartitionDir(path).segment(0, bytes(batch), keyed(1, "b=2"))


@pytest.mark.parametrize(("mode", "found"), [("permissive", [(None, True), (b"b", False)]), ("DROPMALFORMED", None)])
def test_the_mode_says_what_becomes_of_a_damaged_batch(tmp_path: Path, mode: str, found: Any) -> None:
    damaged(tmp_path)
    rows = read(tmp_path, mode=mode)
    if found is None:
        assert [row["key"] for row in rows] == [b"b"]
    else:
        assert [(row["key"], row["_corrupt_batch"] is not None) for row in rows] == found
        assert rows[0]["offset"] == 0
    with pytest.raises(CorruptBatch):
        read(tmp_path)


def test_a_batch_that_lies_about_its_length_hides_what_follows_up_to_the_next_indexed_one(tmp_path: Path) -> None:
    first, second, third = keyed(0, "a=1"), bytearray(keyed(1, "b=2")), keyed(2, "c=3")
    second[8:12] = (2**31 - 1).to_bytes(4, "big")
    directory = PartitionDir(tmp_path).segment(0, first, keyed(1, "b=2"), third).segment(3, keyed(3, "d=4"))
    directory.log(0).write_bytes(first + bytes(second) + third)
    entry = (2).to_bytes(4, "big") + (len(first) + len(second)).to_bytes(4, "big")
    directory.log(0).with_suffix(".index").write_bytes(entry)
    rows = read(tmp_path, mode="PERMISSIVE")
    assert [row["key"] for row in rows] == [b"a", None, b"c", b"d"]
    assert "cannot be told apart" in rows[1]["_corrupt_batch"]


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({"columns": "offset,key"}, ["offset", "key"]),
        ({"keysOnly": "true"}, ["key", "topic", "partition", "offset"]),
    ],
)
def test_columns_asked_for_are_the_rows(log_dir: Path, options: dict[str, str], columns: list[str]) -> None:
    rows = read(log_dir, **options)
    assert list(rows[0]) == columns
    assert keys(rows) == "xabcd"


def test_columns_not_asked_for_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PartitionDir(tmp_path).segment(0, keyed(0, "a=1"))
    from cleaner.arrow import columns

    gathered = []
    monkeypatch.setattr(columns, "gather_bytes", lambda *args: gathered.append(args) or (0, 0))
    read(tmp_path, columns="offset,timestamp,position")
    assert gathered == []


def test_every_codec_comes_back(tmp_path: Path) -> None:
    batches = [
        keyed(base, *(f"k{base + place}=v" for place in range(10)), compression=codec)
        for base, codec in zip(range(0, 50, 10), Compression, strict=True)
    ]
    PartitionDir(tmp_path).segment(0, *batches)
    rows = read(tmp_path, includeMetadata="true")
    assert [row["key"] for row in rows] == [f"k{offset}".encode() for offset in range(50)]
    assert [row["codec"] for row in rows] == [codec.name.lower() for codec in Compression for _ in range(10)]


def test_a_batch_larger_than_window_and_arena_is_read_whole(tmp_path: Path) -> None:
    large = "v" * (5 << 20)
    PartitionDir(tmp_path).segment(0, keyed(0, f"a={large}"), keyed(1, f"b={large}", compression=Compression.GZIP))
    assert [(row["key"], len(row["value"])) for row in read(tmp_path)] == [(b"a", 5 << 20), (b"b", 5 << 20)]


def test_a_schema_with_a_column_that_there_is_not_is_refused(spark: Any, log_dir: Path) -> None:
    with pytest.raises(PySparkException, match="no such column"):
        spark.read.format("kafka-log").schema("key string").load(str(log_dir)).collect()


def test_a_torn_tail_ends_the_log(tmp_path: Path) -> None:
    whole = keyed(0, "a=1")
    directory = PartitionDir(tmp_path).segment(0, whole)
    directory.log(0).write_bytes(whole + keyed(1, "b=2")[:-3])
    assert keys(read(tmp_path)) == "a"


def test_a_planned_file_is_read_on_under_its_deleted_name_and_missed_once_it_is_gone(tmp_path: Path) -> None:
    log = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).log(0)
    source, careless = reader(tmp_path), reader(tmp_path, failOnDataLoss="false")
    planned = source.partitions()
    renamed = log.rename(log.with_name(log.name + ".deleted"))
    assert [batch.num_rows for batch in source.read(planned[0])] == [1]
    renamed.unlink()
    with pytest.raises(SegmentGone, match="deleted or compacted away"):
        list(source.read(planned[0]))
    assert list(careless.read(planned[0])) == []


def test_another_file_in_the_place_of_a_planned_one_is_not_read(tmp_path: Path) -> None:
    log = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).log(0)
    source = reader(tmp_path)
    planned = source.partitions()
    log.rename(log.with_name("kept"))
    log.write_bytes(keyed(0, "b=1"))
    with pytest.raises(SegmentGone):
        list(source.read(planned[0]))


def test_an_empty_log_dir_gives_an_empty_table(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    assert table(spark, tmp_path).collect() == []


def test_globs_and_many_log_dirs_are_one_table(tmp_path: Path) -> None:
    for number, key in enumerate("abc"):
        PartitionDir(tmp_path / f"disk{number}", f"orders-{number}").segment(0, keyed(0, f"{key}=1"))
    assert keys(read(tmp_path / "disk*")) == "abc"
    assert keys(read(f"{tmp_path}/disk0,{tmp_path}/disk2/orders-2")) == "ac"


def test_one_partition_in_two_log_dirs_is_refused(tmp_path: Path) -> None:
    for disk in "ab":
        PartitionDir(tmp_path / disk).segment(0, keyed(0, "a=1"))
    with pytest.raises(InvalidConfig, match="hold the same partition"):
        read(tmp_path / "*")


@pytest.mark.parametrize(
    ("epochs", "lengths", "newest"),
    [
        ((3, 3, 3), (1, 3, 2), 1),
        ((3, 2, 4), (3, 3, 1), 2),
        ((3, None, 2), (1, 3, 3), 0),
        ((None, None, None), (1, 2, 2), 1),
    ],
    ids=["the longest", "the last leader", "no epochs", "the first of equals"],
)
def test_newest_replica_has_the_last_leader_epoch_then_the_most_records(
    tmp_path: Path, epochs: tuple[int | None, ...], lengths: tuple[int, ...], newest: int
) -> None:
    for place, (epoch, length) in enumerate(zip(epochs, lengths, strict=True)):
        pairs = (f"{'abc'[place]}=1" for _ in range(length))
        replica = PartitionDir(tmp_path / str(place)).segment(0, keyed(0, *pairs))
        if epoch is not None:
            entries = [LeaderEpochEntry(0, 0), LeaderEpochEntry(epoch, 1)]
            (replica.path / "leader-epoch-checkpoint").write_bytes(format_leader_epochs(entries))
    assert keys(read(tmp_path / "*", replica="newest")) == "abc"[newest] * lengths[newest]
    assert keys(read(tmp_path / "*", replica="first")) == "a" * lengths[0]
    assert keys(read(f"{tmp_path}/2,{tmp_path}/0", replica="first")) == "c" * lengths[2]


def test_only_committed_records_are_read_where_that_is_asked(tmp_path: Path) -> None:
    of_a_transaction = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    marker = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp_ms": NOW_MS}
    log_of(
        tmp_path,
        keyed(0, "a=1", base_sequence=0, **of_a_transaction),
        encode_control_batch(ControlType.ABORT, offset=0, **marker),
        keyed(0, "b=1"),
        keyed(0, "c=1", base_sequence=1, **of_a_transaction),  # never ended
        keyed(0, "d=1"),
    )
    assert keys(read(tmp_path)) == "abcd"
    assert keys(read(tmp_path, **{"isolation.level": "read_committed"})) == "b"
    markers = [row["offset"] for row in read(tmp_path, includeMetadata="true") if row["control"]]
    assert markers == [1]


def log_of(path: Path, *batches: bytes) -> None:
    with Log.create(path / "orders-0", LogConfig(), FileSystem(), topic_id="A" * 22) as log:
        for batch in batches:
            log.append(batch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)  # a client may write no marker
