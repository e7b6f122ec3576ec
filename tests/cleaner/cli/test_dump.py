"""``dump`` on small log dirs: which files it shows, what it leaves out, and how it ends."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, format_offset_checkpoint
from storage.log.producer_state import BatchMetadata, ProducerEntry, format_snapshot
from storage.names import TopicPartition
from storage.records import ControlType, Record, encode_batch
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch
from tests.cleaner.dump.batches import random_log
from tests.coordinator_records import offset_key
from tests.partition_dirs import PartitionDir, keyed
from tests.schemas import schema

NOTHING = {"out": "", "err": ""}


@pytest.fixture
def orders(tmp_path: Path) -> PartitionDir:
    orders = PartitionDir(tmp_path / "data")
    return orders.segment(0, keyed(0, "a=1", "b=2"), keyed(2, "a=3")).segment(10, keyed(10, "c=4", "a=5"))


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Any:
    def shown(*arguments: object, status: int = 0) -> list[str]:
        assert main(["dump", *map(str, arguments)]) == status
        return capsys.readouterr().out.splitlines()

    return shown


def payloads(lines: list[str]) -> list[str]:
    return [line.rpartition(" payload: ")[2] for line in lines if "payload" in line]


def objects(lines: list[str], kind: str = "record") -> list[Any]:
    """The JSON lines of a type; every line is held against the schema."""
    dump_schema = schema("logcleaner.dump/1")
    validator, found = Draft202012Validator(dump_schema), list(map(json.loads, lines))
    for line in found:
        validator.validate(line)
        assert line.keys() <= dump_schema["properties"].keys()
    return [line for line in found if line["type"] == kind]


def in_log_dir(orders: PartitionDir) -> tuple[object, ...]:
    return "orders-0", "--log-dir", orders.path.parent


def test_a_partition_is_shown_segment_by_segment(orders: PartitionDir, show: Any) -> None:
    lines = show(*in_log_dir(orders), "--print-data-log")
    headings = [line for line in lines if line.startswith("Dumping ")]
    assert headings == [f"Dumping {orders.log(base_offset)}" for base_offset in (0, 10)]
    assert payloads(lines) == ["1", "2", "3", "4", "5"]


def test_a_directory_stands_for_all_its_files(orders: PartitionDir, show: Any) -> None:
    headings = [line for line in show(orders.path) if line.startswith("Dumping ")]
    kinds = [Path(line.removeprefix("Dumping ")).suffix for line in headings]
    assert kinds[:3] == [".log", ".index", ".timeindex"]
    assert len(headings) == len(list(orders.path.iterdir()))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--offset", "1"), ["2"]),
        (("--offset", "1..10"), ["2", "3", "4"]),
        (("--offset", "2.."), ["3", "4", "5"]),
        (("--offset", "..1"), ["1", "2"]),
        (("--key", "a"), ["1", "3", "5"]),
        (("--key", "61", "--key-encoding", "hex"), ["1", "3", "5"]),
        (("--key", "YQ==", "--key-encoding", "base64"), ["1", "3", "5"]),
        (("--key", "a", "--offset", "1..5"), ["3"]),
        (("--timestamp", "2100-01-01.."), []),
        (("--timestamp", "..2100-01-01"), ["1", "2", "3", "4", "5"]),
    ],
)
def test_selected_records(options: tuple[str, ...], expected: list[str], orders: PartitionDir, show: Any) -> None:
    lines = show(*in_log_dir(orders), "--print-data-log", *options)
    assert payloads(lines) == expected
    assert bool(lines) == bool(expected)  # no heading of a file without a line
    by_json = objects(show(*in_log_dir(orders), "--print-data-log", "--json", *options))
    assert [record["value"] for record in by_json] == expected


@pytest.mark.parametrize(
    ("offsets", "damaged"),
    [("10..19", []), ("9..19", [0]), ("10..20", [20]), ("9..20", [0, 20]), ("..9", [0]), ("20..", [20])],
)
def test_segments_outside_the_selected_offsets_are_not_read(
    offsets: str, damaged: list[int], tmp_path: Path, show: Any
) -> None:
    made = PartitionDir(tmp_path / "data").segment(0, b"?" * 100).segment(10, keyed(10, "a=1"))
    made.segment(20, b"?" * 100).segment(30, keyed(30, "a=2"))
    found = objects(show(made.path, "--offset", offsets, "--json", status=4 if damaged else 0), "damage")
    assert {Path(one["path"]) for one in found} == {made.log(base) for base in damaged}


def test_batches_without_their_records(orders: PartitionDir, show: Any) -> None:
    lines = show(*in_log_dir(orders), "--key", "a", "--only-batches", "--json")
    assert [batch["baseOffset"] for batch in objects(lines, "batch")] == [0, 2, 10]
    assert objects(lines) == []


def test_a_key_is_found_in_leftovers_and_stray_directories_too(orders: PartitionDir, show: Any) -> None:
    log_dir = orders.path.parent
    orders.log(0).rename(orders.log(0).with_name(f"{0:020d}.log.deleted"))
    stray = log_dir / f"orders-0.{'0' * 32}-stray"
    stray.mkdir()
    (stray / f"{5:020d}.log").write_bytes(keyed(5, "a=stray"))
    (orders.path / f"{20:020d}.log.swap").write_bytes(keyed(20, "a=swapped"))
    found = payloads(show("orders-0", "--log-dir", log_dir, "--key", "a"))
    assert found == ["1", "3", "5", "swapped", "stray"]


@pytest.mark.parametrize(
    ("redact", "expected"),
    [("values", ["key: a", "payload: [redacted]"]), ("keys", ["key: [redacted]", "payload: 1"])],
)
def test_what_others_must_not_see_is_left_out(
    redact: str, expected: list[str], orders: PartitionDir, show: Any
) -> None:
    line = next(line for line in show(orders.log(0), "--print-data-log", "--redact", redact) if "payload" in line)
    assert all(part in line for part in expected)
    record = objects(show(orders.log(0), "--print-data-log", "--json", "--redact", redact))[0]
    assert record[redact[:-1]] is None
    assert record[f"{redact[:-1]}Encoding"] == "redacted"
    assert (record["keySize"], record["valueSize"]) == (1, 1)


def test_the_small_files(orders: PartitionDir, show: Any, tmp_path: Path) -> None:
    log_dir, directory = orders.path.parent, orders.path
    producer = ProducerEntry(7, 1, 2, 1_000, 5)
    producer.batches.append(BatchMetadata(3, 11, 5, 1_000))
    files = {
        directory / f"{12:020d}.snapshot": format_snapshot([producer, ProducerEntry(8)]),
        directory / f"{0:020d}.txnindex": format_aborted_txn(AbortedTxn(7, 1, 2, 3)),
        directory / "leader-epoch-checkpoint": format_leader_epochs([LeaderEpochEntry(4, 9)]),
        directory / "partition.metadata": b"version: 0\ntopic_id: WMzPO8fURIaxEuNp7zC_pQ\n",
        log_dir / "recovery-point-offset-checkpoint": format_offset_checkpoint({TopicPartition("orders", 0): 12}),
        log_dir / "meta.properties": b"version=1\nnode.id=3\n",
    }
    for path, data in files.items():
        path.write_bytes(data)
    assert [line for line in show(*files) if not line.startswith("Dumping ")] == [
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: 2 currentTxnFirstOffset: OptionalLong[5] lastTimestamp: 1000 "
        "firstSequence: 2147483646 lastSequence: 3 lastOffset: 11 offsetDelta: 5 timestamp: 1000",
        "producerId: 8 producerEpoch: -1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: -1",
        "version: 0 producerId: 7 firstOffset: 1 lastOffset: 2 lastStableOffset: 3",
        "epoch: 4 startOffset: 9",
        "topicId: WMzPO8fURIaxEuNp7zC_pQ",
        "topic: orders partition: 0 offset: 12",
        "version=1",
        "node.id=3",
    ]
    lines = show(*files, "--json")
    assert [entry["producerId"] for entry in objects(lines, "producer")] == [7, 8]
    assert [entry["name"] for entry in objects(lines, "property")] == ["version", "node.id"]


def test_json_lines_keep_to_their_schema(tmp_path: Path, show: Any) -> None:
    path = tmp_path / f"{0:020d}.log"
    marker = encode_control_batch(
        ControlType.COMMIT, offset=10_000, timestamp_ms=7, producer_id=5, producer_epoch=1, coordinator_epoch=3
    )
    path.write_bytes(random_log(1, 30) + marker + b"torn")
    (tmp_path / f"{0:020d}.index").write_bytes(bytes.fromhex("00000003 00000000 00000009 00000007"))
    (tmp_path / f"{0:020d}.timeindex").write_bytes(bytes.fromhex("0000000000000005 00000003"))
    lines = show(tmp_path, "--json", status=4)
    assert {kind["type"] for kind in map(json.loads, lines)} >= {"file", "batch", "finding", "remark", "damage"}
    assert objects(lines, "finding")
    records = objects(show(path, "--print-data-log", "--json"))
    assert records[-1]["controlType"] == "COMMIT"
    assert records[-1]["controlData"] == {"coordinatorEpoch": 3}
    assert {record["keyEncoding"] for record in records} == {"utf-8", "base64", None}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("nowhere",), 2, "is no file, no directory and no partition"),
        (("absent.log",), 1, "absent.log: cannot be read: No such file or directory"),
        (("payments-0", "--log-dir", "data"), 2, "is in none of the log dirs"),
        (("orders-0", "--log-dir", "data", "--offset", "9..3"), 2, "begins behind its end"),
        (("orders-0", "--log-dir", "data", "--offset", "x"), 2, "is no offset"),
        (("orders-0", "--log-dir", "data", "--offset", ".."), 2, "names no end"),
        (("orders-0", "--log-dir", "data", "--timestamp", "soon.."), 2, "is no time"),
        (("orders-0", "--log-dir", "data", "--key", "x", "--key-encoding", "hex"), 2, "is not hex"),
        (("fifo",), 2, "is no plain file"),
        (("orders-0", "--log-dir", "data", "--key", "nobody"), 0, "no record matches the selection"),
        (("notes.txt",), 0, "Ignoring unknown file notes.txt"),
        (("fifo.log",), 1, "is no plain file"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...],
    status: int,
    said: str,
    orders: PartitionDir,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(orders.path.parent.parent)
    Path("notes.txt").write_text("x")
    subprocess.run(["mkfifo", "fifo.log", "fifo"], check=True)
    assert main(["dump", *arguments]) == status
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_damage_is_told_and_what_lies_behind_it_is_shown(
    orders: PartitionDir, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = bytearray(keyed(0, "a=1"))
    bad[61] = 0x7F  # the length of the record
    orders.log(0).write_bytes(bytes(bad) + keyed(2, "a=3"))
    assert main(["dump", "--print-data-log", str(orders.log(0)), str(orders.log(10))]) == 4
    said = capsys.readouterr()
    assert payloads(said.out.splitlines()) == ["3", "4", "5"]
    assert f"{orders.log(0)} at byte 0: " in said.err


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A log whose second batch states a length that reaches behind the end of the file."""
    first, second = keyed(0, "a=1"), bytearray(keyed(1, "b=2"))
    second[8] = 0x7F
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(first + second + keyed(2, "a=3") + keyed(3, "c=4"))
    return path


def test_length_that_is_too_big_is_damage_and_the_text_ends_as_kafkas(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at, size = len(keyed(0, "a=1")), broken.stat().st_size
    assert main(["dump", "--print-data-log", str(broken)]) == 4
    said = capsys.readouterr()
    assert payloads(said.out.splitlines()) == ["1"]
    assert said.out.splitlines()[-1] == f"Found {size - at} invalid bytes at the end of {broken.name}"
    assert f"{broken} at byte {at}: " in said.err


def test_length_that_is_too_big_is_damage_in_json_and_what_lies_behind_it_is_shown(broken: Path, show: Any) -> None:
    lines = show("--print-data-log", "--json", broken, status=4)
    (damage,) = objects(lines, "damage")
    assert (damage["path"], damage["position"]) == (str(broken), len(keyed(0, "a=1")))
    assert [record["value"] for record in objects(lines)] == ["1", "3", "4"]
    assert objects(lines, "remark") == []


@pytest.mark.parametrize("selection", [("--key", "a"), ("--offset", "0..2")])
def test_selection_tells_of_a_part_that_is_not_read(
    selection: tuple[str, ...], broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump", "--print-data-log", *selection, str(broken)]) == 4
    said = capsys.readouterr()
    assert payloads(said.out.splitlines()) == ["1", "3"]
    assert "bytes are no whole batch" in said.err


def test_length_below_the_least_is_passed_over_too(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(broken.read_bytes())
    data[(at := len(keyed(0, "a=1"))) + 8 : at + 12] = bytes(4)
    broken.write_bytes(data)
    assert main(["dump", "--print-data-log", str(broken)]) == 4
    assert payloads(capsys.readouterr().out.splitlines()) == ["1", "3", "4"]


def test_torn_tail_is_a_remark_in_the_active_segment_and_damage_in_a_closed_one(
    orders: PartitionDir, capsys: pytest.CaptureFixture[str]
) -> None:
    for base, status in ((10, 0), (0, 4)):
        orders.log(base).write_bytes(orders.log(base).read_bytes()[:-5])
        assert main(["dump", str(orders.log(base))]) == status
        said = capsys.readouterr()
        assert said.out.splitlines()[-1].startswith("Found ")
        assert ("no whole batch" in said.err) is (status == 4)
        assert main(["dump", "--key", "nobody", str(orders.log(base))]) == status
        said = capsys.readouterr()
        assert ("invalid bytes" in said.out) is (status == 0)
        assert ("was not read" in said.err) is (status == 4)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([(0, 1), (0, 2)], ["out of order timestamp", "  Index timestamp: {0}, Previously indexed timestamp: {0}"]),
        ([(-1, 1), (0, 2)], ["timestamp mismatch", "  Index timestamp: {-1}, log timestamp: {0}"]),
        ([(0, 1), (9, 2)], ["timestamp mismatch", "  Index timestamp: {9}, log timestamp: {0}"]),
        ([(-1, 0)], ["The following indexed offsets are not found", "Indexed offset: 0, found log offset: 1"]),
        ([(0, 2)], []),
    ],
)
def test_time_index_is_held_against_the_log(
    orders: PartitionDir, capsys: pytest.CaptureFixture[str], entries: list[tuple[int, int]], said: list[str]
) -> None:
    """Entries and lines have times beside that of all records."""
    time_ms = int.from_bytes(orders.log(0).read_bytes()[35:43], "big")
    index = orders.log(0).with_suffix(".timeindex")
    index.write_bytes(b"".join(struct.pack(">qi", time_ms + beside_ms, offset) for beside_ms, offset in entries))
    assert main(["dump", str(index)]) == ExitStatus.DONE  # as of Kafka's tool, which tells the same
    err = capsys.readouterr().err
    lines = [re.sub(r"\{(-?\d+)\}", lambda found: str(time_ms + int(found[1])), line) for line in said]
    assert all(line in err for line in lines), err
    assert bool(err) is bool(said)


@pytest.mark.parametrize(
    ("suffix", "data", "cause"),
    [
        (".index", struct.pack(">ii", 10, 9), None),
        (".index", struct.pack(">ii", 0, 9), None),
        (".index", struct.pack(">ii", -1, 9), "its last offset lies below the base offset"),
        (".index", struct.pack(">iib", 10, 9, 0), "its size is no multiple of an entry's 8 bytes"),
        (".timeindex", struct.pack(">qiqi", 5, 0, 5, 0), None),
        (".timeindex", struct.pack(">qi", 5, -1), "its last offset lies below the base offset"),
        (".timeindex", struct.pack(">qiqi", 5, 0, 4, 1), "its last timestamp 4 is below its first, 5"),
        (".timeindex", struct.pack(">qib", 5, 1, 0), "its size is no multiple of an entry's 12 bytes"),
    ],
)
def test_sanity_check_of_an_index_is_kafkas(
    orders: PartitionDir, capsys: pytest.CaptureFixture[str], suffix: str, data: bytes, cause: str | None
) -> None:
    index = orders.log(10).with_suffix(suffix)
    index.write_bytes(data)
    status = main(["dump", "--index-sanity-check", str(index)])
    said = capsys.readouterr()
    assert status == (ExitStatus.DAMAGED if cause else ExitStatus.DONE)
    assert (f"{index} passed sanity check." in said.out) is (cause is None)
    assert cause is None or (str(index) in said.err and cause in said.err)


@pytest.mark.parametrize("options", [(), ("--max-bytes", "80")])
@pytest.mark.parametrize("damaged_batch", [None, 0, 1])
def test_an_index_is_held_against_the_whole_log_whatever_was_shown_of_it(
    orders: PartitionDir, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], damaged_batch: int | None
) -> None:
    first, log, index = len(keyed(0, "a=1", "b=2")), orders.log(0), orders.log(0).with_suffix(".index")
    data = bytearray(log.read_bytes())
    if damaged_batch is not None:
        data[damaged_batch * first + 61] = 0x7F  # the length of the first record
        log.write_bytes(data)
    index.write_bytes(struct.pack(">iiii", 1, 0, 2, first))

    def told_of_the_index(*files: Path) -> list[str]:
        main(["dump", *options, *map(str, files)])
        said = capsys.readouterr()
        return [line for line in said.out.splitlines() if line.startswith("offset:")] + [
            line for line in said.err.splitlines() if str(index) in line
        ]

    assert told_of_the_index(log, index) == told_of_the_index(index)
    assert len(told_of_the_index(index)) == 2


def test_the_reader_of_a_pipe_may_leave(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(random_log(2, 400))
    command = f"{sys.executable} -m cleaner dump --print-data-log {path} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout == f"Dumping {path}\n"
    assert done.stderr == ""


def test_a_file_on_the_other_side_of_a_symlink_is_shown(orders: PartitionDir, show: Any, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(orders.path)
    assert payloads(show(link / orders.log(0).name, "--print-data-log")) == ["1", "2", "3"]


def test_a_directory_without_segments_shows_what_it_has(tmp_path, show):
    (tmp_path / "leader-epoch-checkpoint").write_bytes(format_leader_epochs([LeaderEpochEntry(0, 0)]))
    assert show(tmp_path)[0] == f"Dumping {tmp_path / 'leader-epoch-checkpoint'}"
    (tmp_path / "leader-epoch-checkpoint").unlink()
    assert show(tmp_path) == []


def test_no_file_name_moves_the_cursor(tmp_path, capsys):
    path = tmp_path / f"{0:020d}\x1b[2J\u00e9.log"
    path.write_bytes(keyed(0, "a=1") + keyed(5, "b=1"))
    (tmp_path / "a\x1bb").touch()
    assert main(["dump", str(path), str(tmp_path / "a\x1bb"), "--deep-iteration"]) == 0
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert f"Dumping {tmp_path}/{0:020d}\\x1b[2J\u00e9.log" in told.out
    assert "Ignoring unknown file" in told.err


def test_several_redactions_stand_behind_one_option(orders: PartitionDir, show: Any, capsys: Any) -> None:
    line = next(
        line for line in show(orders.log(0), "--print-data-log", "--redact", "values,keys") if "payload" in line
    )
    assert "key: [redacted] payload: [redacted]" in line
    assert main(["dump", str(orders.log(0)), "--redact", "values,keyz"]) == 2
    assert "no such choice: keyz; did you mean keys?" in capsys.readouterr().err


def test_terminal_gets_no_control_characters_of_records_and_a_pipe_gets_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(keyed(0, "a=\x1b[2J\u009b1m\té\n"))
    assert main(["dump", "--print-data-log", str(path)]) == 0
    assert "payload: \x1b[2J\u009b1m\té\n" in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["dump", "--print-data-log", str(path)]) == 0
    assert "payload: \\x1b[2J\\x9b1m\té\n" in capsys.readouterr().out


def test_who_selects_records_sees_them_whole(tmp_path: Path, show: Any) -> None:
    """``--offset`` is ours: Kafka's tool, whose lines ``--print-data-log`` keeps, shows no values of headers."""
    headers = ((b"source", b"web"), (b"retry", None))
    records = [Record(place, 5, b"k", b"v", headers if place % 2 else ()) for place in range(6)]
    log = PartitionDir(tmp_path / "data").segment(0, encode_batch(records[:3]), encode_batch(records[3:])).path
    whole = [line for line in show(log, "--offset", "0..4") if line.startswith("|")]
    plain = [line for line in show(log, "--offset", "0..4", "--print-data-log") if line.startswith("|")]
    assert whole == [line + " headers: [source=web, retry=null]" * (place % 2) for place, line in enumerate(plain)]
    assert all(" key: k payload: v" in line for line in plain)
    assert show(log, "--timestamp", "..+1d") == show(log, "--key", "k") == show(log, "--offset", "..9")
    assert len([line for line in show(log, "--offset", "0..4") if line.startswith("baseOffset")]) == 2
    hidden = show(log, "--offset", "1", "--redact", "values")[-1]
    assert hidden.endswith("payload: [redacted] headers: [source=[redacted], retry=null]")
    (bare,) = [line for line in show(log, "--offset", "1", "--deep-iteration") if line.startswith("|")]
    assert bare.endswith("headerKeys: [source,retry]")
    assert not any(line.startswith("|") for line in show(log, "--offset", "1", "--only-batches"))


def test_a_selection_of_a_topic_of_kafkas_own_is_decoded(tmp_path: Path, show: Any) -> None:
    made = PartitionDir(tmp_path / "data", "__consumer_offsets-0")
    made.segment(0, encode_batch([Record(0, 5, offset_key("g1", "orders", 3), None)]))
    assert '{"group":"g1","topic":"orders","partition":3}' in show(made.path, "--offset", "0")[-1]
    assert '"group":"g1"' not in show(made.path, "--print-data-log", "--offset", "0")[-1]


def test_a_record_of_a_topic_of_kafkas_own_is_decoded_and_a_marker_in_it_is_none(tmp_path: Path, show: Any) -> None:
    made = PartitionDir(tmp_path / "data", "__consumer_offsets-0")
    marker = encode_control_batch(
        ControlType.COMMIT, offset=1, timestamp_ms=5, producer_id=7, producer_epoch=0, coordinator_epoch=2
    )
    made.segment(0, encode_batch([Record(0, 5, offset_key("g1", "orders", 3), None)]), marker)
    record, control = objects(show(made.path, "--offset", "0..1", "--json"))
    assert (record["decodedKey"]["data"]["group"], "controlType" in record) == ("g1", False)
    assert (control["controlType"], "decodedKey" in control) == ("COMMIT", False)


@pytest.mark.parametrize("type_id", [9, 32767, -1, -2])
def test_a_control_record_of_a_type_that_nobody_knows_is_shown_with_its_number(
    type_id: int, tmp_path: Path, show: Any
) -> None:
    made = PartitionDir(tmp_path / "data")
    made.segment(0, encode_batch([Record(0, 5, struct.pack(">hh", 0, type_id), b"")], is_control=True))
    assert f" controlType: UNKNOWN({type_id})" in show(made.path, "--print-data-log")[-1]
    (record,) = objects(show(made.path, "--print-data-log", "--json"))
    assert (record["controlType"], record["controlTypeId"], record["controlData"]) == ("UNKNOWN", type_id, None)
