from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.machine.library import KernelsUnusable
from storage.records import Record, encode_batch
from tests.partition_dirs import DAY_MS, NOW_MS, PartitionDir, committed, keyed


@pytest.fixture
def sides(tmp_path):
    def make(after: bytes, compacted_to: int) -> tuple[str, str]:
        for name, data in (("before", keyed(0, "a=1", "a=2", "b=1")), ("after", after)):
            made = PartitionDir(tmp_path / name).segment(0, data).segment(3, keyed(3, "c=1"))
            committed(tmp_path / name, made)
        (tmp_path / "after/cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {compacted_to}\n")
        return str(tmp_path / "before"), str(tmp_path / "after")

    return make


def test_what_a_cleaning_took_is_told_with_its_causes(sides, capsys):
    assert main(["diff", *sides(keyed(1, "a=2", "b=1"), 3)]) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines() == [
        "orders-0: 3 of 4 records stayed; gone: 1 superseded",
        "1 partition compared: only superseded, expired and aborted records are gone",
    ]


def test_damage_gives_status_4_and_its_first_offset(sides, capsys):
    assert main(["diff", *sides(keyed(0, "a=1", "a=2"), 3)]) == ExitStatus.DAMAGED
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("orders-0: DAMAGE at offset 2: the record is gone")
    assert last.endswith("DAMAGE in 1 place")


def test_document_for_machines(sides, capsys):
    assert main(["diff", "--json", *sides(keyed(0, "a=1", "a=2"), 3)]) == ExitStatus.DAMAGED
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["damaged"], told["files"]) == ("logcleaner.diff/1", True, [])
    (orders,) = told["partitions"]
    assert (orders["records"], orders["kept"], orders["damaged"], orders["damage"]["offset"]) == (4, 3, 1, 2)


def test_partition_that_is_missing_is_damage(sides, tmp_path, capsys):
    before, after = sides(keyed(1, "a=2", "b=1"), 3)
    (tmp_path / "after/orders-0").rename(tmp_path / "after/other-0")
    assert main(["diff", before, after, "--json"]) == ExitStatus.DAMAGED
    assert json.loads(capsys.readouterr().out)["partitions"][0]["records"] is None
    assert main(["diff", before, after]) == ExitStatus.DAMAGED
    assert "has no such partition" in capsys.readouterr().out
    assert main(["diff", before, after, "--topic", "other"]) == ExitStatus.DONE


def test_place_that_is_no_log_dir_is_wrong_usage(tmp_path, capsys):
    assert main(["diff", str(tmp_path), str(tmp_path)]) == ExitStatus.USAGE
    assert "no partition directory" in capsys.readouterr().err


def test_conclusion_names_unkeyed_records_and_those_below_the_log_start(tmp_path, capsys):
    unkeyed = encode_batch([Record(1, NOW_MS, None, b"x"), Record(2, NOW_MS, None, b"y")])
    before = PartitionDir(tmp_path / "before").segment(0, keyed(0, "a=1"), unkeyed).segment(3, keyed(3, "b=1"))
    after = PartitionDir(tmp_path / "after").segment(0).segment(3, keyed(3, "b=1"))
    committed(tmp_path / "before", before)
    committed(tmp_path / "after", after)
    (tmp_path / "after/cleaner-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    (tmp_path / "after/log-start-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    places = [str(tmp_path / "before"), str(tmp_path / "after")]
    assert main(["diff", *places]) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines()[-1] == (
        "1 partition compared: only superseded, expired and aborted records, 2 unkeyed ones and 1 below the log start "
        "are gone"
    )
    assert main(["diff", *places, "--json"]) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    assert {cause: count for cause, count in told["gone"].items() if count} == {"unkeyed": 2, "retention": 1}


@pytest.fixture
def deleted(tmp_path):
    """A tombstone without a horizon, gone two days after it was written."""
    before = PartitionDir(tmp_path / "before").segment(0, keyed(0, "a=1", "a"), mtime_ms=NOW_MS - 2 * DAY_MS)
    before.segment(2, keyed(2, "b=1"), mtime_ms=NOW_MS - 2 * DAY_MS)
    after = PartitionDir(tmp_path / "after").segment(0).segment(2, keyed(2, "b=1"))
    committed(tmp_path / "before", before)
    committed(tmp_path / "after", after)
    (tmp_path / "after/cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    return ["diff", str(tmp_path / "before"), str(tmp_path / "after"), "--now", str(NOW_MS)]


def test_how_a_tombstone_was_explained_is_told(deleted, capsys):
    assert main([*deleted, "--set", "delete.retention.ms=1d"]) == ExitStatus.DONE
    line, verdict = capsys.readouterr().out.splitlines()
    assert "1 expired in between (had no delete horizon; delete.retention.ms, 1d, passed since 2027-01-13T" in line
    assert "1 expired in between are gone" in verdict


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ([], ExitStatus.DAMAGED, "state it with --set delete.retention.ms=..."),
        (["--set", "delete.retention.ms=3d"], ExitStatus.DAMAGED, "delete.retention.ms has not passed since"),
        (["--set", "delete.retentions.ms=3d"], ExitStatus.USAGE, "delete.retention.ms"),
    ],
)
def test_tombstone_that_nothing_explains_is_damage(deleted, options, status, told, capsys):
    assert main([*deleted, *options]) == status
    captured = capsys.readouterr()
    assert told in captured.out + captured.err


@pytest.mark.parametrize(
    ("after", "topics", "told"),
    [
        ("after/orders-0", [], "before/orders-0 in place of the log dir"),
        ("other", [], "have no partition in common (orders-0 in the first)"),
        ("after", ["--topic", "ordres"], "either place; did you mean orders?"),
        ("after", ["--topic", "paymnts"], "either place; logcleaner topics lists what is there"),
    ],
)
def test_unlike_things_are_not_compared_and_the_line_says_what_to_name(sides, tmp_path, after, topics, told, capsys):
    before, _ = sides(keyed(1, "a=2", "b=1"), 3)
    committed(tmp_path / "other", PartitionDir(tmp_path / "other", "clicks-0").segment(0, keyed(0, "a=1")))
    assert main(["diff", before, str(tmp_path / after), *topics]) == ExitStatus.USAGE
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines()), told in captured.err) == ("", 1, True)


def test_partition_that_a_copy_left_out_is_named_in_the_conclusion(sides, tmp_path, capsys):
    before, _ = sides(keyed(1, "a=2", "b=1"), 3)
    PartitionDir(tmp_path / "before", "clicks-0").segment(0, keyed(0, "x=1"))
    output, cleanup = str(tmp_path / "copy"), ["--set", "cleanup.policy=delete"]
    assert main(["clean", "--log-dir", before, "--output", output, "--topic", "orders", *cleanup]) == ExitStatus.DONE
    capsys.readouterr()
    assert main(["diff", before, output]) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines()[-1] == (
        "1 partition compared: only superseded, expired and aborted records are gone; "
        "1 not in the copy, as its manifest says"
    )
    assert main(["diff", before, output, "--json"]) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    assert ([one["partition"] for one in told["partitions"]], told["left_out"]) == (["orders-0"], ["clicks-0"])


def test_two_rounds_of_kafkas_own_cleaner_are_explained_by_the_metadata_log(samples, capsys):
    before, after = str(samples.root / "before"), str(samples.root / "after2")
    assert main(["diff", before, after, "--topic", "ledger"]) == ExitStatus.DONE
    assert main(["diff", before, after, "--topic", "ledger", "--set", "delete.retention.ms=1d", "--json"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["partitions"][0]["delete_retention_ms"] == DAY_MS


@pytest.mark.parametrize("what", ["all files", "the logs", "empty logs below the start"])
def test_log_that_was_wiped_is_damage_and_no_retention(tmp_path, what, capsys):
    drawn = {}
    for place in ("before", "after"):
        drawn[place] = (
            PartitionDir(tmp_path / place).segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "c=1", "d=1"))
        )
        committed(tmp_path / place, drawn[place])
    for path in list(drawn["after"].path.iterdir()):
        if what == "empty logs below the start":
            path.write_bytes(b"")
        elif what == "all files" or path.suffix == ".log":
            path.unlink()
    if what == "empty logs below the start":
        (tmp_path / "after/log-start-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    assert main(["diff", str(tmp_path / "before"), str(tmp_path / "after")]) == ExitStatus.DAMAGED
    assert "DAMAGE" in capsys.readouterr().out


def test_unkeyed_records_of_a_partition_directory_that_nothing_calls_compacted_are_damage(tmp_path):
    unkeyed = [encode_batch([Record(offset, NOW_MS, None, b"x")]) for offset in range(3)]
    before = PartitionDir(tmp_path / "before").segment(0, *unkeyed)
    after = PartitionDir(tmp_path / "after").segment(0, unkeyed[0], unkeyed[2])
    assert main(["diff", str(before.path), str(after.path)]) == ExitStatus.DAMAGED


def test_damage_of_a_side_is_told_by_its_place_and_a_disk_that_fails_by_its_words(sides, tmp_path, monkeypatch, capsys):
    before, after = sides(keyed(1, "a=2", "b=1"), 3)
    log = tmp_path / "after/orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    assert main(["diff", before, after]) == ExitStatus.DAMAGED
    first, _ = capsys.readouterr().out.splitlines()
    assert first == f"orders-0: DAMAGE: {log} at byte 0: CRC-32C mismatch"

    def failing(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(log))

    monkeypatch.setattr("cleaner.engine.diff.record_diff.compare", failing)
    assert main(["diff", before, after]) == ExitStatus.DAMAGED
    assert capsys.readouterr().out.splitlines()[0] == f"orders-0: DAMAGE: {log}: Input/output error"


def test_kernels_that_cannot_run_are_no_damage(sides, monkeypatch, capsys):
    def unusable():
        raise KernelsUnusable(Path("compiled"), "the kernels are not compiled", "install logcleaner again")

    monkeypatch.setattr("storage.machine.library.check", unusable)
    assert main(["diff", *sides(keyed(1, "a=2", "b=1"), 3)]) == ExitStatus.FAILED
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "logcleaner: compiled: the kernels are not compiled; install logcleaner again\n"
