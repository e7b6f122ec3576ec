"""What a frame is of: partitions chosen by name, times that hold for all of them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from cleaner.spark.table.bounds import NoSuchOffset
from cleaner.spark.table.options import parse_options
from cleaner.spark.table.stream import KafkaLogStreamReader
from storage.errors import InvalidConfig
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import keys, read, reader

LATEST = {"startingOffsetsByTimestampStrategy": "latest"}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records a to c and d to f, a second apart each, and x before them all."""
    path = tmp_path_factory.mktemp("named")
    for number, pairs in enumerate(("abc", "def")):
        orders = PartitionDir(path, f"orders-{number}")
        for place, key in enumerate(pairs):
            orders.segment(place, keyed(place, f"{key}=1", timestamp_ms=NOW_MS + place * 1000 + number))
    PartitionDir(path, "clicks-3").segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 1000))
    return path


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"subscribe": "orders"}, "abcdef"),
        ({"subscribe": " clicks ,orders,"}, "xabcdef"),
        ({"subscribePattern": "o.*s"}, "abcdef"),
        ({"subscribePattern": "clicks|none"}, "x"),
        ({"assign": '{"orders": [1], "clicks": [3]}'}, "xdef"),
        ({"startingTimestamp": str(NOW_MS + 1001), **LATEST}, "cef"),
        ({"startingTimestamp": str(NOW_MS + 9999), **LATEST}, ""),
        ({"startingTimestamp": "0", "startingOffsets": "latest"}, "xabcdef"),
        ({"endingTimestamp": str(NOW_MS + 1)}, "xa"),
        ({"startingTimestamp": str(NOW_MS), "endingTimestamp": str(NOW_MS + 1001), **LATEST}, "abd"),
        ({"assign": '{"orders": [0]}', "startingOffsets": '{"orders": {"0": 1}}'}, "bc"),
        ({"subscribe": "orders", "endingOffsets": '{"orders": {"0": 1, "1": 2}}'}, "ade"),
    ],
)
def test_partitions_and_times_are_part_of_the_frame(named: Path, options: dict[str, str], found: str) -> None:
    assert keys(read(named, **options)) == found


def test_what_is_not_chosen_is_not_opened(named: Path, tmp_path: Path) -> None:
    source = reader(named, subscribe="clicks")
    planned = [slice_.topic_partition.topic for partition in source.partitions() for slice_ in partition.value]
    assert planned == ["clicks"]
    source = reader(named, startingTimestamp=str(NOW_MS + 2000), assign='{"orders": [0]}')
    assert [slice_.base_offset for partition in source.partitions() for slice_ in partition.value] == [2]


def test_replicas_of_a_partition_that_is_not_chosen_do_not_matter(tmp_path: Path) -> None:
    for disk in ("one", "two"):
        PartitionDir(tmp_path / disk, "orders-0").segment(0, keyed(0, "a=1"))
    PartitionDir(tmp_path / "one", "clicks-0").segment(0, keyed(0, "x=1"))
    assert keys(read(tmp_path / "*", subscribe="clicks")) == "x"


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"subscribe": "order,clicks"}, r"subscribe = 'order': nothing of it in .*; did you mean orders\?"),
        ({"assign": '{"orders": [1, 7]}'}, "assign = 'orders-7': nothing of it in .*; did you mean orders-"),
        ({"subscribePattern": "orders-."}, "subscribePattern = 'orders-.': nothing of it in"),
        ({"subscribe": "orders", "assign": "{}"}, "say one of subscribe, subscribePattern and assign"),
        ({"subscribe": " , "}, "a topic, or several with commas"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"assign": "{}"}, "not JSON like"),
        ({"assign": '{"orders": 1}'}, "not JSON like"),
        ({"assign": '{"orders": [true]}'}, "not JSON like"),
        ({"assign": '{"orders": [-1]}'}, "not JSON like"),
        ({"assign": "[]"}, "not JSON like"),
        ({"startingTimestamp": "-1"}, "epoch ms"),
        ({"endingTimestamp": "2026-11-01"}, "epoch ms"),
        ({"endingTimestamp": str(2**63)}, "epoch ms"),
        ({"topics": "orders"}, "unknown option"),
    ],
)
def test_a_choice_that_cannot_be_is_told(named: Path, options: dict[str, str], cause: str) -> None:
    with pytest.raises(InvalidConfig, match=cause):
        read(named, **options)


def test_a_time_that_a_partition_has_no_record_behind_is_told(named: Path) -> None:
    with pytest.raises(NoSuchOffset, match="a record of timestamp"):
        read(named, startingTimestamp=str(NOW_MS))


def test_options_go_to_the_workers(named: Path) -> None:
    options = parse_options({"path": str(named), "subscribePattern": "o.*"})
    assert pickle.loads(pickle.dumps(options)) == options


def stream(path: Path, **options: str) -> KafkaLogStreamReader:
    parsed = parse_options({"path": str(path), "startingOffsets": "earliest"} | options)
    return KafkaLogStreamReader(parsed, parsed.columns)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"subscribe": "orders"}, "abcdef"),
        ({"subscribePattern": "c.*"}, "x"),
        ({"assign": '{"orders": [1]}'}, "def"),
        ({"startingTimestamp": str(NOW_MS + 1001), **LATEST}, "cef"),
    ],
)
def test_a_stream_follows_what_is_chosen(named: Path, options: dict[str, str], found: str) -> None:
    source = stream(named, **options)
    begun = source.initialOffset()
    end = source.latestOffset(begun, ReadAllAvailable())
    rows = [row for part in source.partitions(begun, end) for batch in source.read(part) for row in batch.to_pylist()]
    assert keys(rows) == found


def test_a_stream_waits_for_topics_that_a_pattern_may_match_and_misses_those_that_are_named(tmp_path: Path) -> None:
    PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=1"))
    assert stream(tmp_path, subscribePattern="o.*").initialOffset() == {}
    with pytest.raises(InvalidConfig, match="subscribe = 'orders': nothing of it in"):
        stream(tmp_path, subscribe="orders").initialOffset()


def test_an_end_that_a_stream_cannot_have_is_told(named: Path) -> None:
    with pytest.raises(InvalidConfig, match="a stream does not end"):
        stream(named, endingTimestamp="1")


def test_bounds_must_name_every_partition_that_is_chosen(named: Path) -> None:
    bound = json.dumps({"orders": {"0": 1}, "clicks": {"3": 0}})
    with pytest.raises(InvalidConfig, match="see clicks-3, orders-1"):
        read(named, subscribe="orders", startingOffsets=bound)


@settings(max_examples=40, database=None)
@given(
    segments=st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=3), min_size=1, max_size=4),
    since=st.integers(-4, 4),
)
def test_a_starting_timestamp_loses_no_record_of_that_time_or_later(
    tmp_path_factory: pytest.TempPathFactory, segments: list[list[int]], since: int
) -> None:
    path = tmp_path_factory.mktemp("times")
    drawn, base = PartitionDir(path), 0
    for times in segments:
        batches = [keyed(base + at, f"k{base + at}=1", timestamp_ms=NOW_MS + time) for at, time in enumerate(times)]
        drawn.segment(base, *batches)
        base += len(times)
    found = {row["offset"] for row in read(path, startingTimestamp=str(NOW_MS + since), **LATEST)}
    times = [time for segment in segments for time in segment]
    late = {offset for offset, time in enumerate(times) if time >= since}
    assert found == (set(range(min(late), len(times))) if late else set())
