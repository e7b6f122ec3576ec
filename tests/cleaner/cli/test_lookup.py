"""``lookup`` on small log dirs: what it prints, its exit statuses, and bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from cleaner.cli.main import main
from cleaner.engine import lookup
from cleaner.engine.lookup import LookupTarget, look_up
from storage.errors import LogCleanerError
from storage.log.listing import Listing, list_partition
from storage.names import TopicPartition
from storage.records import Record, encode_batch
from storage.scan.partitions import FoundPartition
from tests.cleaner.cli.test_export import state_of
from tests.cleaner.cli.test_main import ROOT
from tests.partition_dirs import NOW_MS, PartitionDir, committed, keyed
from tests.sampled import day, is_whole

FUZZED = 5_000 if is_whole() else 1_000


@pytest.fixture
def orders(tmp_path: Path) -> PartitionDir:
    made = PartitionDir(tmp_path / "data")
    made.segment(0, keyed(0, "a=1", "b=2"), keyed(4, "c=3", timestamp_ms=NOW_MS + 5)).segment(6, keyed(6, "d=4"))
    committed(tmp_path / "data", made)
    return made


def run(made: PartitionDir, *arguments: str, partition: str = "orders-0") -> int:
    return main(["lookup", partition, *arguments, "--log-dir", str(made.path.parent)])


def test_offset_with_its_steps(orders: PartitionDir, capsys: pytest.CaptureFixture[str]) -> None:
    before = state_of(orders.path.parent)
    assert run(orders, "--offset", "3", "--trace") == 0
    said = capsys.readouterr()
    assert said.err == ""
    told = " ".join(said.out.split())
    assert "segment map 00000000000000000000.log, 1 of 2: the last one that begins at or before the offset" in told
    assert "scan 00000000000000000000.log: 2 batches looked at, batch 4 at byte" in told
    assert "Offset 3 is not there: the next record is at 4, of 2027-01-15T08:00:00Z (1800000000005)." in told
    assert (
        max(len(line) for line in said.out.splitlines() if line != str(orders.path.parent)) <= 80
    )  # no path is broken
    assert state_of(orders.path.parent) == before


def test_document_has_the_steps_always(orders: PartitionDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(orders, "--timestamp", str(NOW_MS + 1), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["outcome"], document["offset"], document["timestamp_ms"]) == ("found", 4, NOW_MS + 5)
    steps = ["largest_timestamp", "time_index", "offset_index", "scan"]
    assert [step["step"] for step in document["steps"]] == steps
    assert document["bytes_read"] == sum(step["bytes_read"] for step in document["steps"])


def test_segments_that_are_too_early_share_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = PartitionDir(tmp_path / "data")
    for place in range(4):
        made.segment(place, keyed(place, "a=1", timestamp_ms=NOW_MS + place))
    committed(tmp_path / "data", made)
    early = ["00000000000000000000.timeindex entry 0", "2 segments from 0 to 1", "3 segments from 0 to 2"]
    for place, line in enumerate(early, 1):
        assert run(made, "--timestamp", str(NOW_MS + place), "--trace") == 0
        told = [line.split(None, 2)[2] for line in capsys.readouterr().out.splitlines() if "largest timestamp" in line]
        assert [one.startswith(begin) for one, begin in zip(told, (line, f"{place:020}.time"), strict=True)] == [
            True
        ] * 2


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ("8", "Received request for offset 8 for partition orders-0, but we only have log segments upto 7."),
        ("0", "but we only have log segments starting from offset: 2."),
    ],
)
def test_offset_out_of_range_is_told_as_kafka_tells_it(
    orders: PartitionDir, offset: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (orders.path.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert run(orders, "--offset", offset) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert "OFFSET_OUT_OF_RANGE" in said.out


@pytest.mark.parametrize(
    ("time", "says"),
    [
        ("earliest", "The log starts at offset 0."),
        ("-2", "The log starts at offset 0."),
        ("latest", "The log ends before offset 7."),
        ("-1", "The log ends before offset 7."),
        ("max-timestamp", "Offset 4, timestamp"),
        ("-3", "Offset 4, timestamp"),
        (str(NOW_MS + 6), "No record has a timestamp of "),
        ("2020-01-01T00:00", "Offset 0, timestamp"),
    ],
)
def test_time_may_be_a_word(orders: PartitionDir, time: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(orders, "--timestamp", time) == 0
    assert says in capsys.readouterr().out


def test_log_end_has_no_record_yet(orders: PartitionDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(orders, "--offset", "7") == 0
    assert "Offset 7 is the log end" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [(), ("--offset", "-1"), ("--offset", "x"), ("--timestamp", "soon"), ("--offset", "1", "--timestamp", "1")],
)
def test_wrong_usage(orders: PartitionDir, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(orders, *arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_partition_that_is_not_there_names_the_nearest(
    orders: PartitionDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "--offset", "1", partition="order-0") == 2
    assert "did you mean orders-0?" in capsys.readouterr().err


def test_segment_that_is_a_directory_is_told(orders: PartitionDir, capsys: pytest.CaptureFixture[str]) -> None:
    orders.log(0).unlink()
    orders.log(0).mkdir()
    assert run(orders, "--offset", "6") == 1
    told = capsys.readouterr().err
    assert str(orders.log(0)) in told
    assert "is a directory" in told


def test_file_that_vanishes_meanwhile_is_looked_for_anew(
    orders: PartitionDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def list_early(directory: Path) -> Listing:
        listing = list_partition(directory)
        orders.log(0).unlink(missing_ok=True)
        return listing

    monkeypatch.setattr(lookup, "list_partition", list_early)
    assert run(orders, "--timestamp", "0") == 0
    assert "Offset 6, timestamp" in capsys.readouterr().out


def test_reader_that_goes_early_leaves_no_traceback(orders: PartitionDir) -> None:
    command = [sys.executable, "-m", "cleaner", "lookup", "orders-0", "--offset", "0", "--log-dir"]
    log_dir = str(orders.path.parent)
    with subprocess.Popen([*command, log_dir], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
        assert shown.stdout is not None
        assert shown.stderr is not None
        shown.stdout.close()
        said = shown.stderr.read()
    assert shown.returncode == 1
    assert b"Traceback" not in said


def test_damage_gives_an_answer_or_an_error_of_ours(orders: PartitionDir) -> None:
    random, files = Random(day()), sorted(orders.path.iterdir())
    whole = {path: path.read_bytes() for path in files}
    found = FoundPartition(TopicPartition("orders", 0), orders.path, 0)
    answered = failed = 0
    for _ in range(FUZZED):
        path = random.choice(files)
        data = bytearray(whole[path])
        for _ in range(random.randint(1, 4)):
            if data:
                data[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(data[: random.randint(0, len(data))] if random.random() < 0.3 else data)
        target = random.choice((LookupTarget(offset=random.randrange(9)), LookupTarget(timestamp_ms=NOW_MS + 1)))
        try:
            look_up(found, target)
            answered += 1
        except LogCleanerError as error:
            failed += str(orders.path) in str(error)
        path.write_bytes(whole[path])
    assert answered > FUZZED // 2
    assert failed == FUZZED - answered > 0


def test_the_record_is_shown_with_key_value_and_headers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = PartitionDir(tmp_path / "data")
    records = [
        Record(0, NOW_MS, b"a", b"1\x1b[2J", ((b"source", b"web"), (b"retry", None))),
        Record(1, NOW_MS, b"\xff\x00", None),
        Record(2, NOW_MS, b"long", b"x" * 5000),
    ]
    made.segment(0, encode_batch(records))
    committed(tmp_path / "data", made)
    assert run(made, "--offset", "0") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:7] == ["  key     a", r"  value   1\x1b[2J", "  header  source = web", "  header  retry = null"]
    assert run(made, "--offset", "1") == 0
    assert capsys.readouterr().out.splitlines()[3:5] == ["  key     base64 /wA=", "  value   null"]
    assert run(made, "--offset", "2") == 0
    assert "x... and 3,000 characters more: --json has all" in capsys.readouterr().out
    assert run(made, "--offset", "0", "--json") == 0
    assert json.loads(capsys.readouterr().out)["record"] == {
        "key": "a",
        "keyEncoding": "utf-8",
        "value": "1\x1b[2J",
        "valueEncoding": "utf-8",
        "headers": [
            {"key": "source", "keyEncoding": "utf-8", "value": "web", "valueEncoding": "utf-8"},
            {"key": "retry", "keyEncoding": "utf-8", "value": None, "valueEncoding": None},
        ],
    }
