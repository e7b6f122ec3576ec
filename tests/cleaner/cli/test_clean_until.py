"""``clean --until``: a copy as of a moment, in small log dirs."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli import as_of
from cleaner.cli.main import main
from cleaner.engine.copy.copying import OutputDir
from storage.checkpoints import parse_offset_checkpoint
from storage.filesystem import OutOfSpace
from storage.names import HIGH_WATERMARK_CHECKPOINT, TopicPartition
from storage.records import encode_batch
from storage.records.v2 import ControlType
from tests.batches import encode_control_batch
from tests.coordinator_records import offset_key, offset_value, records
from tests.partition_dirs import NOW_MS, PartitionDir, committed, keyed, records_in

UNTIL_MS = NOW_MS - 50
GROUPS = "__consumer_offsets-0"


def in_transaction(base_offset: int, time_ms: int, producer_id: int = 7) -> bytes:
    return keyed(
        base_offset, "a=1", timestamp_ms=time_ms, producer_id=producer_id, producer_epoch=0,
        base_sequence=base_offset, is_transactional=True,
    )  # fmt: skip


def marker(offset: int, time_ms: int) -> bytes:
    return encode_control_batch(
        ControlType.COMMIT, offset=offset, timestamp_ms=time_ms, producer_id=7, producer_epoch=0, coordinator_epoch=0
    )


def offsets(*groups: str, base: int = 0, time_ms: int = NOW_MS - 100) -> bytes:
    """Each group committed offset 42 of orders-0."""
    found = records(base, *((offset_key(group), offset_value()) for group in groups), timestamp_ms=time_ms)
    return encode_batch(found)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_of, "clock_ms", lambda: NOW_MS)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two partitions share a transaction whose second marker is newer than the moment; a group is ahead of one."""
    root = tmp_path / "data"
    first, second, groups = PartitionDir(root), PartitionDir(root, "orders-1"), PartitionDir(root, GROUPS)
    first.segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 100), in_transaction(1, NOW_MS - 90), marker(2, NOW_MS - 60))
    second.segment(0, in_transaction(0, NOW_MS - 80), marker(1, NOW_MS - 10), keyed(2, "y=1", timestamp_ms=NOW_MS))
    groups.segment(0, offsets("ahead", "other"), offsets("late", base=2, time_ms=NOW_MS))
    return committed(root, first, second, groups)


def clean(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["clean", *map(str, arguments), "--json"]) == status, capsys.readouterr()
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def ends(document: dict[str, Any]) -> dict[str, int]:
    return {f"{one['topic']}-{one['partition']}": one["log_end_offset"] for one in document["partitions"]}


def test_a_transaction_that_is_not_whole_everywhere_is_in_no_partition(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    copy = tmp_path / "copy"
    planned = clean(capsys, log_dir, "--until", UNTIL_MS, "--dry-run")
    document = clean(capsys, log_dir, "--until", UNTIL_MS, "--output", copy)
    assert document == planned | {"dry_run": False, "output": str(copy)}
    assert ends(document) == {"orders-0": 1, "orders-1": 0, GROUPS: 2}
    assert {one["reason"]["code"] for one in document["partitions"]} == {"TRANSACTION", "NEWER"}
    assert [record.value for record in records_in(copy / "orders-0")] == [b"1"]
    assert records_in(copy / "orders-1") == []
    assert (copy / "orders-0" / f"{1:020d}.snapshot").exists()
    assert before == {path: path.read_bytes() for path in before}


def test_committed_offsets_above_the_end_are_clamped_and_named(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    document = clean(capsys, log_dir, "--until", UNTIL_MS, "--output", copy)
    assert [(one["group"], one["offset"], one["clamped_to"]) for one in document["clamped"]] == [
        ("ahead", 42, 1),
        ("other", 42, 1),
    ]
    values = {record.key: record.value or b"" for record in records_in(copy / GROUPS)}
    assert [struct.unpack(">q", values[offset_key(g)][2:10]) for g in ("ahead", "other")] == [(1,), (1,)]
    path = copy / HIGH_WATERMARK_CHECKPOINT
    marks = parse_offset_checkpoint(path.read_bytes(), path)
    assert marks[TopicPartition("orders", 0)] == 1
    assert main(["verify", "--log-dir", str(copy), "--deep"]) == 0


@pytest.mark.parametrize(
    ("name", "told"), [("missing/cuts.json", "no directory"), ("{}/cuts.json", "lies in the log dir")]
)
def test_offsets_that_cannot_be_written_are_told_before_anything_is_copied(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    cuts, copy = tmp_path / name.format(log_dir), tmp_path / "copy"
    assert (
        main(["clean", str(log_dir), "--until", str(UNTIL_MS), "--output", str(copy), "--write-offsets", str(cuts)])
        == 2
    )
    assert told in capsys.readouterr().err
    assert not copy.exists()


def test_offsets_of_one_broker_cut_the_others_alike(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offsets.json"
    planned = clean(capsys, log_dir, "--until", UNTIL_MS, "--dry-run", "--write-offsets", file)
    document = clean(capsys, log_dir, "--until-offsets", file, "--output", tmp_path / "copy")
    assert ends(document) == ends(planned)


def test_replica_that_ends_before_its_offset_is_refused_and_named(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offsets.json"
    clean(capsys, log_dir, "--until", UNTIL_MS, "--dry-run", "--write-offsets", file)
    written = json.loads(file.read_text())
    written["partitions"][0]["offset"] = 4  # of the groups
    file.write_text(json.dumps(written))
    document = clean(capsys, log_dir, "--until-offsets", file, "--dry-run", status=5)
    assert [one["spoiled"] and one["spoiled"]["code"] for one in document["partitions"]] == ["ENDS_EARLIER", None, None]
    assert ends(document)[GROUPS] == 3
    assert main(["clean", str(log_dir), "--until-offsets", str(file), "--dry-run"]) == 5
    said = capsys.readouterr().out
    assert f"{GROUPS}: ends at 3, the file says 4" in said
    assert "1 partition cannot be what it was: a copy needs --incomplete" in said


ENTRY = {"topic": "orders", "partition": 0, "offset": 1}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("[]", "has no partitions, or is not of version 1"),
        ({"version": 2, "partitions": [ENTRY]}, "has no partitions, or is not of version 1"),
        ({"partitions": [ENTRY]}, "has no partitions, or is not of version 1"),
        ({"version": 1, "partitions": [ENTRY | {"offset": -1}]}, '"offset": -1}, which is no'),
        ({"version": 1, "partitions": [ENTRY | {"offset": True}]}, "which is no"),
        ({"version": 1, "partitions": [ENTRY | {"offset": 1.5}]}, "which is no"),
        ({"version": 1, "partitions": [ENTRY | {"partition": "0"}]}, "which is no"),
        ({"version": 1, "partitions": [ENTRY | {"topic": 7}]}, "which is no"),
        ({"version": 1, "partitions": [{"topic": "orders", "partition": 0}]}, "which is no"),
        ({"version": 1, "partitions": [ENTRY, ENTRY]}, "has orders-0 twice"),
        ({"version": 1, "partitions": [ENTRY]}, "has no offset of"),
        (None, "No such file or directory"),
    ],
)
def test_file_of_offsets_that_does_not_fit_is_refused_in_one_line(
    log_dir: Path, tmp_path: Path, written: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offsets.json"
    if written is not None:
        file.write_text(written if isinstance(written, str) else json.dumps(written))
    assert main(["clean", str(log_dir), "--until-offsets", str(file), "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert "Errno" not in error


def test_moment_in_the_future_is_refused(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", str(log_dir), "--until", str(NOW_MS + 1), "--dry-run"]) == 2
    assert "lies in the future: name a time that has passed" in capsys.readouterr().err
    assert main(["clean", str(log_dir), "--until", "+0s", "--dry-run"]) == 0


def test_log_of_which_nothing_is_left_begins_where_it_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = PartitionDir(tmp_path / "data")
    partition.segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 100), keyed(5, "y=1", timestamp_ms=NOW_MS))
    log_dir, copy = committed(tmp_path / "data", partition), tmp_path / "copy"
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    clean(capsys, log_dir, "--until", UNTIL_MS, "--output", copy, "--incomplete")
    assert [path.name for path in (copy / "orders-0").glob("*.log")] == [f"{3:020d}.log"]
    assert main(["verify", "--log-dir", str(copy), "--deep"]) == 0


def test_full_disk_names_the_copy_and_what_to_do(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: OutputDir, source: Path, planned: object, target: Path, **_: object) -> None:
        raise OutOfSpace(target, 61)

    monkeypatch.setattr(OutputDir, "copy", full)
    assert main(["clean", str(log_dir), "--until", str(UNTIL_MS), "--output", str(tmp_path / "copy")]) == 1
    assert "no space for 61 bytes where the copy is written" in capsys.readouterr().err
    assert not (tmp_path / "copy" / "logcleaner-manifest.json").exists()


def test_a_log_whose_compaction_passed_the_moment_is_refused_unless_incomplete(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 1 2\n")
    document = clean(capsys, log_dir, "--until", UNTIL_MS, "--dry-run", status=5)
    assert [one["spoiled"]["code"] for one in document["partitions"] if one["spoiled"]] == ["COMPACTED"]
    assert main(["clean", str(log_dir), "--until", str(UNTIL_MS), "--output", str(tmp_path / "copy")]) == 5
    assert "orders-1 cannot be as of that moment" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
    clean(capsys, log_dir, "--until", UNTIL_MS, "--output", tmp_path / "copy", "--incomplete")


def test_newer_record_of_which_the_time_index_does_not_tell_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = PartitionDir(tmp_path / "data")
    partition.segment(0, keyed(0, "x=1", timestamp_ms=UNTIL_MS), keyed(1, "y=1", timestamp_ms=NOW_MS))
    (partition.path / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", UNTIL_MS, 0))
    partition.segment(2, keyed(2, "z=1", timestamp_ms=NOW_MS))
    document = clean(capsys, committed(tmp_path / "data", partition), "--until", UNTIL_MS, "--dry-run")
    assert ends(document) == {"orders-0": 1}


def test_batches_and_holes_count_behind_the_cut_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_ms = UNTIL_MS - 61_000
    below, behind = PartitionDir(tmp_path / "data"), PartitionDir(tmp_path / "data", "orders-1")
    below.segment(0, keyed(0, "x=1", timestamp_ms=old_ms), keyed(3, "y=1", timestamp_ms=old_ms))
    below.segment(9, keyed(9, "z=1", timestamp_ms=NOW_MS), keyed(10, "z=2", timestamp_ms=old_ms))
    behind.segment(0, keyed(0, "x=1", timestamp_ms=old_ms), keyed(1, "y=1", timestamp_ms=NOW_MS))
    behind.segment(7, keyed(7, "z=1", timestamp_ms=old_ms), keyed(8, "z=2", timestamp_ms=old_ms))
    document = clean(
        capsys, committed(tmp_path / "data", below, behind), "--until", UNTIL_MS, "--dry-run", status=5
    )  # fmt: skip
    assert ends(document) == {"orders-0": 4, "orders-1": 1}
    assert [one["older_batches"] for one in document["partitions"]] == [1, 2]
    assert [one["spoiled"] and one["spoiled"]["code"] for one in document["partitions"]] == [None, "COMPACTED"]


def test_earlier_segment_that_cannot_be_read_fails_its_partition_alone(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = PartitionDir(log_dir, "orders-2")
    other.segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 100)).segment(1, in_transaction(1, NOW_MS - 90))
    other.segment(2, keyed(2, "x=1", timestamp_ms=NOW_MS))
    (other.path / f"{1:020d}.log").write_bytes(bytes(61))
    document = clean(capsys, log_dir, "--until", UNTIL_MS, "--dry-run", status=1)
    assert [one["error"] is not None for one in document["partitions"]] == [False, False, False, True]
    assert ends(document) | {"orders-2": 0} == {"orders-0": 1, "orders-1": 0, GROUPS: 2, "orders-2": 0}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--until", "0"],
        ["--until", "0", "--dry-run", "--output", "copy"],
        ["--until", "0", "--dry-run", "--only", "retention"],
        ["--until", "0", "--dry-run", "--until-offsets", "file"],
        ["--incomplete"],
        ["--write-offsets", "file"],
    ],
)
def test_options_that_do_not_fit_are_refused(
    log_dir: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clean", str(log_dir), *arguments]) == 2
    assert "--" in capsys.readouterr().err
