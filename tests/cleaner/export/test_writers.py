"""What a format does to bytes, and what it holds in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cleaner.cli.main import main
from cleaner.export import parquet, transfer
from storage.codecs.compression import Compression
from storage.records import Record, encode_batch
from tests.cleaner.export.exports import export
from tests.partition_dirs import NOW_MS, PartitionDir, keyed

VALUES = {
    "text": (b'caf\xc3\xa9 "\n\x00\xe2\x80\xa8', 'caf\u00e9 "\n\0\u2028', "utf-8"),
    "bytes": (b"\xff\x00", "/wA=", "base64"),
    "a surrogate": (b"\xed\xa0\x80", "7aCA", "base64"),
    "base64 itself": (b"/wA=", "/wA=", "utf-8"),
    "nothing": (b"", "", "utf-8"),
    "null": (None, None, None),
}


def lines(partition: PartitionDir, file: Path, *options: str) -> list[dict[str, Any]]:
    export(partition.path, "jsonl", file, *options)
    return [json.loads(line) for line in file.read_text("utf-8").split("\n")[:-1]]


@pytest.mark.parametrize(("data", "told", "encoding"), VALUES.values(), ids=VALUES)
def test_bytes_are_told_as_text_or_base64_and_which(
    tmp_path: Path, data: bytes | None, told: str | None, encoding: str | None
) -> None:
    record = Record(0, NOW_MS, data, data, ((data or b"h", data),))
    (line,) = lines(PartitionDir(tmp_path / "data").segment(0, encode_batch([record])), tmp_path / "out")
    assert [line[name] for name in ("key", "keyEncoding", "value", "valueEncoding")] == [told, encoding] * 2
    (header,) = line["headers"]
    assert (header["value"], header["valueEncoding"]) == (told, encoding)


def test_a_line_is_documented_as_it_is(tmp_path: Path) -> None:
    sequenced = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 2**31 - 1}
    made = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1", "b", **sequenced))
    first, second = lines(made, tmp_path / "out", "--include-metadata")
    assert second == {
        "topic": "orders", "partition": 0, "offset": 1, "timestamp": NOW_MS, "timestampType": 0,
        "key": "b", "keyEncoding": "utf-8", "value": None, "valueEncoding": None, "headers": [],
        "producerId": 7, "producerEpoch": 1, "sequence": 0, "leaderEpoch": -1, "codec": "none", "control": False,
        "deleteHorizon": None, "segment": str(made.log(0)), "position": 0,
    }  # fmt: skip
    assert (first["offset"], first["sequence"]) == (0, 2**31 - 1)


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_every_codec_is_read(tmp_path: Path, to: str) -> None:
    batches = [keyed(codec, f"k{codec}={'v' * 99}", compression=codec) for codec in Compression]
    made = PartitionDir(tmp_path / "data").segment(0, *batches)
    rows = export(made.path, to, tmp_path / "out", "--include-metadata")
    assert [row["codec"] for row in rows] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [row["key"] for row in rows] == [f"k{codec}".encode() for codec in range(5)]
    assert {row["value"] for row in rows} == {b"v" * 99}


def test_row_groups_are_written_as_they_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 1000)
    made = PartitionDir(tmp_path / "data")
    for base in range(0, 100, 10):
        made.segment(base, keyed(base, *(f"k{base + place}={'v' * 30}" for place in range(10))))
    rows = export(made.path, "parquet", tmp_path / "out")
    assert [row["offset"] for row in rows] == list(range(100))
    assert 2 < pq.ParquetFile(tmp_path / "out").num_row_groups < 10


def test_what_lies_below_the_log_start_is_left_out(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1", "b=1", "c=1"))
    (tmp_path / "data/log-start-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    assert [row["key"] for row in export(made.path, "jsonl", tmp_path / "out")] == [b"b", b"c"]


def test_a_log_that_was_cut_short_in_its_last_batch_ends_before_it(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1"), keyed(1, "b=1")[:-5])
    assert [row["key"] for row in export(made.path, "jsonl", tmp_path / "out")] == [b"a"]


def test_a_file_that_is_gone_by_the_time_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = PartitionDir(tmp_path / "data").segment(0, keyed(0, "a=1"))
    plan = transfer.plan_reading

    def plan_and_delete(*arguments: Any, **options: Any) -> transfer.Reading:
        reading = plan(*arguments, **options)
        made.log(0).unlink()
        return reading

    monkeypatch.setattr(transfer, "plan_reading", plan_and_delete)
    command = ["export", "orders-0", "--to", "jsonl", str(tmp_path / "out"), "--log-dir", str(tmp_path / "data")]
    assert main(command) == 1
    told = capsys.readouterr().err
    assert f"{made.log(0)}: cannot be read: deleted or compacted away since the export began; run it again" in told
    assert not (tmp_path / "out").exists()
