import json
import os
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from cleaner.cli.main import main
from tests.cleaner.engine.space.du import du
from tests.cleaner.report.plans import a_partition, a_plan, unreadable


def test_table_goes_to_stdout(engine, run, tmp_path, capsys) -> None:
    (tmp_path / "clicks-0").mkdir()
    engine.given = a_plan(a_partition("clicks-0", 9, 1))
    assert run("topics", "--topic", "clicks") == 0
    assert "clicks-0" in capsys.readouterr().out
    assert engine.asked == [("plan", ("clicks",))]


def test_json_is_one_document(engine, run, capsys) -> None:
    engine.given = a_plan(a_partition("clicks-0", 9, 1))
    assert run("topics", "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "logcleaner.topics/1"


def test_unreadable_partition_is_shown_and_fails(engine, run, capsys) -> None:
    engine.given = a_plan(a_partition("clicks-0", 1), unreadable("orders-1", "cannot be read"))
    assert run("topics") == 1
    printed = capsys.readouterr().out
    assert "clicks-0" in printed
    assert "FAILED orders-1: cannot be read" in printed


def test_partition_that_failed_and_is_the_same_since_is_shown_with_the_cause(engine, run, capsys) -> None:
    engine.given, engine.failed = a_plan(a_partition("orders-0", 9)), "0.log at byte 0: CRC-32C mismatch"
    assert run("topics") == 1
    printed = capsys.readouterr().out
    assert "FAILED orders-0: 0.log at byte 0: CRC-32C mismatch" in printed
    assert run("topics", "--json") == 1
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert (partition["error"], partition["segments"]) == (engine.failed, 1)


def test_log_dir_that_is_wrong_as_a_whole_fails(engine, run, capsys) -> None:
    engine.given = a_plan(errors=("garbled checkpoint",))
    assert run("topics") == 1
    assert "FAILED: garbled checkpoint" in capsys.readouterr().out


def test_quiet_does_not_go_with_verbose(engine, run, capsys) -> None:
    assert run("topics", "-q", "-v") == 2
    assert "--quiet: does not go with --verbose" in capsys.readouterr().err


def test_order_that_is_none_is_told_with_those_that_are(engine, run, capsys) -> None:
    assert run("topics", "--sort", "size") == 2
    told = capsys.readouterr().err
    assert all(sort in told for sort in ("bytes", "reclaim", "dirty", "expiry"))


def documented(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["topics", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_bytes_of_a_real_log_dir_add_up_to_those_of_du(demo: Path, capsys) -> None:
    found = documented(capsys, "--log-dir", str(demo))
    (log_dir,), (file_system,) = found["log_dirs"], found["file_systems"]
    assert (log_dir["disk_bytes"], log_dir["apparent_bytes"]) == du(demo)
    assert (log_dir["path"], log_dir["whole"], log_dir["unread"]) == (str(demo), True, [])
    for partition in found["partitions"]:
        name = f"{partition['topic']}-{partition['partition']}"
        assert (partition["disk_bytes"], partition["apparent_bytes"]) == du(demo / name)
        assert partition["kinds"]["segments"]["apparent_bytes"] == partition["bytes"]
    assert file_system["log_dirs"] == [str(demo)]
    assert file_system["used_bytes"] >= log_dir["disk_bytes"]


def test_bytes_of_one_topic_are_those_of_its_directories(demo: Path, capsys) -> None:
    (log_dir,) = documented(capsys, "--log-dir", str(demo), "--topic", "orders")["log_dirs"]
    assert log_dir["disk_bytes"] == sum(du(path)[0] for path in demo.glob("orders-*"))
    assert not log_dir["whole"]


def test_space_is_told_below_the_table_and_of_each_partition_on_demand(demo: Path, capsys) -> None:
    assert main(["topics", "--log-dir", str(demo)]) == 0
    told = " ".join(capsys.readouterr().out.split())  # a long path stands on a line of its own
    assert told.index("PARTITION") < told.index(f"Space in {demo}") < told.index("File system: ")
    assert told.count("PARTITION") == 1
    assert main(["topics", "-v", "--log-dir", str(demo)]) == 0
    assert capsys.readouterr().out.count("PARTITION") == 2


def test_directory_that_nobody_may_read_is_named_and_is_no_failure(
    demo: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    """A ``lost+found`` belongs to root."""
    log_dir = copytree(demo, tmp_path / "data")
    (log_dir / "lost+found").mkdir()
    scandir = os.scandir

    def refused(found: int) -> Any:
        if Path(f"/proc/self/fd/{found}").readlink().name == "lost+found":
            raise PermissionError(13, "Permission denied")
        return scandir(found)

    monkeypatch.setattr("cleaner.engine.space.os.scandir", refused)
    assert main(["topics", "--log-dir", str(log_dir)]) == 0
    assert f"Not counted: {log_dir}/lost+found: cannot be read: Permission denied" in " ".join(
        capsys.readouterr().out.split()
    )
