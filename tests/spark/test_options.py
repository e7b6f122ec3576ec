from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleaner.spark.table.bounds import NoSuchOffset
from cleaner.spark.table.options import Mode, parse_options, parse_sink_options
from storage.codecs.compression import Compression
from storage.errors import InvalidConfig, NotALogDir
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import keys, read


def at(**offsets: int) -> str:
    return json.dumps({"orders": {name[1:]: offset for name, offset in offsets.items()}})


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records a to f in two partitions, a millisecond apart."""
    path = tmp_path_factory.mktemp("timed")
    for number, pairs in enumerate(("abc", "def")):
        batches = [keyed(place, f"{key}=1", timestamp_ms=NOW_MS + place) for place, key in enumerate(pairs)]
        PartitionDir(path, f"orders-{number}").segment(0, *batches)
    return path


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"startingOffsets": "earliest"}, "abcdef"),
        ({"startingOffsets": "latest"}, ""),
        ({"startingOffsets": at(p0=1, p1=-2)}, "bcdef"),
        ({"startingOffsets": at(p0=-1, p1=2)}, "f"),
        ({"endingOffsets": at(p0=1, p1=-1)}, "adef"),
        ({"startingOffsets": at(p0=1, p1=1), "endingOffsets": at(p0=2, p1=2)}, "be"),
        ({"startingOffsetsByTimestamp": at(p0=NOW_MS + 1, p1=NOW_MS + 2)}, "bcf"),
        ({"endingOffsetsByTimestamp": at(p0=NOW_MS + 1, p1=NOW_MS + 9)}, "adef"),
        (
            {
                "startingOffsetsByTimestamp": at(p0=NOW_MS + 9, p1=NOW_MS),
                "startingOffsetsByTimestampStrategy": "latest",
            },
            "def",
        ),
        ({"startingOffsets": at(p0=9, p1=0), "failOnDataLoss": "false"}, "def"),
    ],
)
def test_offsets_say_what_is_read(timed: Path, options: dict[str, str], found: str) -> None:
    assert keys(read(timed, **options)) == found


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": at(p0=4, p1=0)},
        {"endingOffsets": at(p0=4, p1=0)},
        {"startingOffsetsByTimestamp": at(p0=NOW_MS + 9, p1=NOW_MS)},
    ],
)
def test_an_offset_that_is_not_there_is_told(timed: Path, options: dict[str, str]) -> None:
    with pytest.raises(NoSuchOffset, match=r"orders-0: .* is not there"):
        read(timed, **options)


def test_offsets_must_name_every_partition(timed: Path) -> None:
    with pytest.raises(InvalidConfig, match="see orders-1"):
        read(timed, startingOffsets=at(p0=0))


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"startingOffset": "earliest"}, "startingOffset: unknown option; did you mean startingOffsets?"),
        ({"zzz": "1"}, "zzz: unknown option"),
        ({"mode": "lenient"}, "mode = 'lenient'"),
        ({"replica": "oldest"}, "replica = 'oldest'"),
        ({"columns": "key,none"}, "no column 'none'"),
        ({"columns": "key,key"}, "named twice"),
        ({"keysOnly": "yes"}, "true or false"),
        ({"maxPartitionBytes": "0"}, "a whole number of at least 1"),
        ({"isolation.level": "committed"}, "read_committed or read_uncommitted"),
        ({"startingOffsets": "first"}, "not JSON like"),
        ({"startingOffsets": '{"a": {"0": "1"}}'}, "not JSON like"),
        ({"startingOffsets": at(p0=-3)}, "an offset below -2"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest offset"),
        ({"startingOffsetsByTimestampStrategy": "last"}, "error or latest"),
        ({"path": " "}, "name a log dir"),
    ],
)
def test_an_option_that_cannot_be_is_told(options: dict[str, str], cause: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_options({"path": "data"} | options)
    assert cause in str(refused.value)


def test_names_and_modes_are_known_in_any_case() -> None:
    options = parse_options({"path": "a,b", "paths": '["c"]', "INCLUDEMETADATA": "TRUE", "mode": "permissive"})
    assert options.paths == ("a", "b", "c")
    assert options.mode is Mode.PERMISSIVE
    assert {"position", "_corrupt_batch"} <= set(options.columns)


def test_a_glob_that_matches_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotALogDir, match="matches no directory"):
        read(tmp_path / "none*")


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({}, "name a log dir"),
        ({"path": "d", "compression": "lzo"}, "none or gzip"),
        ({"path": "d", "mode": "x"}, "mode"),
    ],
)
def test_an_option_of_a_write_that_cannot_be_is_told(options: dict[str, str], cause: str) -> None:
    with pytest.raises(InvalidConfig, match=cause):
        parse_sink_options(options)


def test_options_of_a_write_are_read() -> None:
    options = parse_sink_options({"path": "/data", "Topic": "t", "compression": "ZSTD", "segment.bytes": "1000"})
    assert (options.log_dir, options.topic) == (Path("/data"), "t")
    assert (options.compression, options.segment_bytes) == (Compression.ZSTD, 1000)


@pytest.mark.parametrize("said", ["0", "-1", "10k", "2147483648"])
def test_size_of_segments_is_one_that_kafka_takes(said: str) -> None:
    with pytest.raises(InvalidConfig, match=f"segment.bytes = '{said}': a whole number from 1 to 2147483647"):
        parse_sink_options({"path": "/data", "segment.bytes": said})
