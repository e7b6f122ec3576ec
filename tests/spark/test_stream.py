"""A stream over a log that grows, is compacted and loses segments: no record missed, none doubled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from cleaner.spark.table.admission import within_offsets
from cleaner.spark.table.bounds import NoSuchOffset
from cleaner.spark.table.options import parse_options
from cleaner.spark.table.stream import KafkaLogStreamReader, PartitionGone, from_json, to_json
from storage.errors import InvalidConfig
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.names import TopicPartition
from storage.scan.files import SegmentGone
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)
from tests.spark.tables import keys

ALL = ReadAllAvailable()
ORDERS = TopicPartition("orders", 0)
EARLIEST = {"startingOffsets": "earliest"}


def stream(path: Path, **options: str) -> KafkaLogStreamReader:
    parsed = parse_options({"path": str(path)} | options)
    return KafkaLogStreamReader(parsed, parsed.columns)


def rows(source: KafkaLogStreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
    partitions = source.partitions(start, end)
    return [row for partition in partitions for batch in source.read(partition) for row in batch.to_pylist()]


def at(offset: int) -> dict[str, dict[str, int]]:
    return to_json({ORDERS: offset})


@pytest.fixture
def orders(tmp_path: Path) -> PartitionDir:
    """Keys a, b and a again in three segments, the first two a day too old."""
    made = PartitionDir(tmp_path)
    for place, (key, age_ms) in enumerate(zip("aba", (2 * DAY_MS, 2 * DAY_MS, 0), strict=True)):
        made.segment(place, keyed(place, f"{key}={place}", timestamp_ms=NOW_MS - age_ms))
    made.segment(3, keyed(3, "c=3"))
    committed(tmp_path, made)
    return made


def test_a_stream_begins_at_the_log_ends_unless_told(orders: PartitionDir, tmp_path: Path) -> None:
    assert stream(tmp_path).initialOffset() == at(4)
    assert stream(tmp_path, **EARLIEST).initialOffset() == at(0)


def test_micro_batches_follow_the_log(orders: PartitionDir, tmp_path: Path) -> None:
    source = stream(tmp_path)
    begun = source.latestOffset(at(0), ALL)
    assert keys(rows(source, at(0), begun)) == "abac"
    orders.segment(4, keyed(4, "d=4"))
    now = source.latestOffset(begun, ALL)
    assert keys(rows(source, begun, now)) == "d"
    assert source.latestOffset(now, ALL) == now
    assert source.partitions(now, now) == []


def test_a_limit_is_shared_out_and_every_partition_goes_on(orders: PartitionDir, tmp_path: Path) -> None:
    source = stream(tmp_path, maxOffsetsPerTrigger="3")
    assert source.getDefaultReadLimit() == ReadMaxRows(3)
    assert stream(tmp_path).getDefaultReadLimit() == ALL
    first = source.latestOffset(at(0), ReadMaxRows(3))
    assert (first, keys(rows(source, at(0), first))) == (at(3), "aba")
    assert source.latestOffset(first, ReadMaxRows(3)) == at(4)


def test_where_the_logs_end_is_reported_whatever_the_limit(orders: PartitionDir, tmp_path: Path) -> None:
    source = stream(tmp_path)
    assert source.reportLatestOffset() is None
    assert source.latestOffset(at(0), ReadMaxRows(1)) == at(1)
    assert source.reportLatestOffset() == at(4)
    source.prepareForTriggerAvailableNow()
    orders.segment(4, keyed(4, "d=4"))
    source.latestOffset(at(1), ALL)
    assert source.reportLatestOffset() == at(4)


@pytest.mark.parametrize(
    ("sizes", "offsets_max", "shares"),
    [((10, 10), 100, (10, 10)), ((10, 30), 20, (5, 15)), ((1, 1000), 10, (1, 9)), ((0, 8), 4, (0, 4))],
)
def test_shares_of_a_limit(sizes: tuple[int, int], offsets_max: int, shares: tuple[int, int]) -> None:
    names = [TopicPartition("t", number) for number in range(2)]
    ends = within_offsets(
        dict.fromkeys(names, 5), {n: 5 + size for n, size in zip(names, sizes, strict=True)}, offsets_max
    )
    assert tuple(ends[name] - 5 for name in names) == shares


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """Batches of 567 bytes: 40 in one segment with an index entry for every second one, and 8 in two segments."""
    sizes = {"orders-0": (1 << 20, 40), "orders-1": (4 * 567, 8)}
    for name, (segment_bytes, batches) in sizes.items():
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1000)
        with Log.create(tmp_path / name, config, FileSystem(), topic_id="A" * 22) as made:
            for _ in range(batches):
                made.append(keyed(0, f"k={'v' * 496}"), now_ms=NOW_MS)
            assert made.size_bytes == 567 * batches
    return tmp_path


@pytest.mark.parametrize(
    ("bytes_max", "ends"),
    [
        (567 * 48, (40, 8)),
        (567 * 24, (20, 4)),
        (567 * 6, (6, 2)),
        (1, (2, 2)),
    ],
)
def test_a_limit_of_bytes_is_shared_out_up_to_the_next_entry_of_an_index(
    indexed: Path, bytes_max: int, ends: tuple[int, int]
) -> None:
    source = stream(indexed, maxBytesPerTrigger=str(bytes_max), **EARLIEST)
    assert source.getDefaultReadLimit() == ReadMaxBytes(bytes_max)
    begun = source.initialOffset()
    reached = source.latestOffset(begun, ReadMaxBytes(bytes_max))
    assert tuple(reached["orders"].values()) == ends
    seen = [(row["partition"], row["offset"]) for row in rows(source, begun, reached)]
    while reached != (now := source.latestOffset(reached, ReadMaxBytes(bytes_max))):
        seen += [(row["partition"], row["offset"]) for row in rows(source, reached, now)]
        reached = now
    assert sorted(seen) == [(0, offset) for offset in range(40)] + [(1, offset) for offset in range(8)]


def test_of_offsets_that_were_deleted_a_limit_of_bytes_reads_what_is_there(
    orders: PartitionDir, tmp_path: Path
) -> None:
    a_cleaner(tmp_path, configured(orders=EXPIRING)).clean(request(delete_delay_ms=0))
    assert stream(tmp_path, failOnDataLoss="false").latestOffset(at(0), ReadMaxBytes(1)) == at(3)


def test_a_micro_batch_has_one_limit(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="one limit"):
        stream(tmp_path, maxBytesPerTrigger="1", maxOffsetsPerTrigger="1")


def test_what_comes_after_the_start_of_an_available_now_query_is_left_for_the_next(
    orders: PartitionDir, tmp_path: Path
) -> None:
    source = stream(tmp_path)
    source.prepareForTriggerAvailableNow()
    orders.segment(4, keyed(4, "d=4"))
    PartitionDir(tmp_path, "orders-1").segment(0, keyed(0, "x=0"))
    assert source.latestOffset(at(0), ALL) == at(4)


def test_a_new_partition_is_read_from_its_start(orders: PartitionDir, tmp_path: Path) -> None:
    source = stream(tmp_path)
    PartitionDir(tmp_path, "orders-1").segment(0, keyed(0, "x=0"))
    now = source.latestOffset(at(4), ALL)
    assert keys(rows(source, at(4), now)) == "x"


def test_offsets_are_text_that_does_not_depend_on_the_order_of_finding() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    written = to_json(offsets)
    assert list(written) == ["a", "b"]
    assert list(written["b"]) == ["9", "10"]
    assert from_json(written) == offsets


@pytest.mark.parametrize(("start", "end"), [(0, 4), (1, 4), (2, 9), (4, 3)])
def test_offsets_that_were_deleted_or_cut_off_are_told_or_left_out(
    orders: PartitionDir, tmp_path: Path, start: int, end: int
) -> None:
    a_cleaner(tmp_path, configured(orders=EXPIRING)).clean(request(delete_delay_ms=0))
    with pytest.raises(NoSuchOffset, match="is not there"):
        stream(tmp_path).partitions(at(start), at(end))
    left = rows(stream(tmp_path, failOnDataLoss="false"), at(start), at(end))
    assert keys(left) == ("" if start > end else "ac")


def test_segments_that_go_between_plan_and_read_are_told_or_left_out(orders: PartitionDir, tmp_path: Path) -> None:
    careful, careless = stream(tmp_path), stream(tmp_path, failOnDataLoss="false")
    planned = careful.partitions(at(0), at(4))
    a_cleaner(tmp_path, configured(orders=EXPIRING)).clean(request(delete_delay_ms=0))
    with pytest.raises(SegmentGone):
        [list(careful.read(partition)) for partition in planned]
    left = [row for partition in planned for batch in careless.read(partition) for row in batch.to_pylist()]
    assert keys(left) == "ac"


def test_a_compaction_between_plan_and_read_takes_only_what_it_takes_from_a_consumer(
    orders: PartitionDir, tmp_path: Path
) -> None:
    source = stream(tmp_path)
    planned = source.partitions(at(0), at(4))
    a_cleaner(tmp_path, configured(orders=COMPACT)).clean(request(delete_delay_ms=0))
    found = [row for partition in planned for batch in source.read(partition) for row in batch.to_pylist()]
    assert [(row["offset"], row["key"]) for row in found] == [(1, b"b"), (2, b"a"), (3, b"c")]


@pytest.mark.parametrize("act", ["latestOffset", "partitions"])
def test_a_partition_that_is_gone_is_told_or_waited_for(orders: PartitionDir, tmp_path: Path, act: str) -> None:
    PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=0"))
    orders.path.rename(tmp_path.parent / f"{tmp_path.name}-moved")
    calls: dict[str, Callable[[KafkaLogStreamReader], Any]] = {
        "latestOffset": lambda source: source.latestOffset(at(2), ALL),
        "partitions": lambda source: source.partitions(at(2), at(4)),
    }
    with pytest.raises(PartitionGone, match="orders-0: no directory of it"):
        calls[act](stream(tmp_path))
    careless = calls[act](stream(tmp_path, failOnDataLoss="false"))
    assert careless == {"latestOffset": {"clicks": {"0": 1}, "orders": {"0": 2}}, "partitions": []}[act]


def test_a_stream_does_not_end(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="a stream does not end"):
        stream(tmp_path, endingOffsets='{"orders": {"0": 3}}')


def run_query(spark: Any, log_dir: Path, to: Path, **options: str) -> list[int]:
    """Read what is there now and end; a query of the same checkpoint goes on behind it. Gives all offsets so far."""
    source = spark.readStream.format("kafka-log").options(columns="offset", **EARLIEST, **options).load(str(log_dir))
    query = (
        source.writeStream.format("parquet")
        .option("checkpointLocation", str(to / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(to / "table"))
    )
    query.awaitTermination()
    (reported,) = (source for progress in query.recentProgress[-1:] for source in progress["sources"])
    is_of_earlier_query = "failOnDataLoss" in options  # that failed: its batch is read again before any look
    assert reported["latestOffset"] == ("null" if is_of_earlier_query else reported["endOffset"])
    return sorted(row.offset for row in spark.read.parquet(str(to / "table")).collect())


def test_no_record_is_missed_or_doubled_across_restarts_while_the_log_grows_and_is_retained(
    spark: Any, tmp_path: Path
) -> None:
    log_dir, to = tmp_path / "data", tmp_path / "out"
    log_dir.mkdir()
    config = LogConfig(segment_bytes=400)
    name = log_dir / "orders-0"
    Log.create(name, config, FileSystem(), topic_id="A" * 22).close()

    def append(count: int, timestamp_ms: int) -> None:
        with Log.open(name, config, FileSystem()) as log:
            for place in range(count):
                log.append(keyed(0, f"k{place}=1", f"l{place}=2", timestamp_ms=timestamp_ms), now_ms=timestamp_ms)

    append(10, NOW_MS - 2 * DAY_MS)
    assert run_query(spark, log_dir, to, maxOffsetsPerTrigger="7") == list(range(20))
    append(10, NOW_MS)
    a_cleaner(committed_at(log_dir, 40), configured(orders=EXPIRING)).clean(request(delete_delay_ms=0))
    with Log.open(name, config, FileSystem()) as log:
        assert 0 < log.log_start_offset <= 20
    assert run_query(spark, log_dir, to, maxBytesPerTrigger="500") == list(range(40))
    append(10, NOW_MS)
    a_cleaner(committed_at(log_dir, 60), configured(orders=EXPIRING)).clean(
        request(NOW_MS + 2 * DAY_MS, delete_delay_ms=0)
    )
    append(1, NOW_MS + 2 * DAY_MS)
    with pytest.raises(StreamingQueryException, match="offset 40 is not there"):
        run_query(spark, log_dir, to)
    assert run_query(spark, log_dir, to, failOnDataLoss="false") == [*range(40), 60, 61]


def committed_at(log_dir: Path, offset: int) -> Path:
    checkpoint = f"0\n1\norders 0 {offset}\n"
    (log_dir / "replication-offset-checkpoint").write_text(checkpoint)
    (log_dir / ".kafka_cleanshutdown").touch()
    return log_dir
