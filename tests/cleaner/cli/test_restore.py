"""``restore`` and ``history`` on a real, small log dir that a clean has shortened."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from cleaner.engine.journal import encode_entry
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import JOURNAL_FILE

RESTORABLE = ("audit-0", "clicks-0", "future-0")
COMPACTED = "sessions-0"


@pytest.fixture(scope="module")
def cleaned(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = shutil.copytree(demo, tmp_path_factory.mktemp("cleaned") / "data")
    assert main(["clean", "--log-dir", str(directory)]) == 0
    return directory


@pytest.fixture
def log_dir(cleaned: Path, tmp_path: Path) -> Path:
    """A copy of it, file times kept: as good as the dir itself."""
    return shutil.copytree(cleaned, tmp_path / "data")


def files_of(directory: Path) -> dict[str, int]:
    return {str(p.relative_to(directory)): p.stat().st_size for p in directory.rglob("*") if p.is_file()}


def logs_of(partition: Path) -> list[str]:
    return sorted(path.name for path in partition.glob("*.log"))


def run(log_dir: Path, *arguments: str) -> int:
    return main([*arguments, "--log-dir", str(log_dir)])


def document(log_dir: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    run(log_dir, *arguments, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_without_a_partition_it_lists_and_changes_nothing(log_dir: Path, capsys) -> None:
    before = files_of(log_dir)
    assert run(log_dir, "restore") == 0
    told = capsys.readouterr().out
    assert all(f"\n{name}\n" in f"\n{told}" for name in (*RESTORABLE, COMPACTED))
    assert "Restorable: 10 segments of 3 partitions" in told
    assert max(map(len, told.splitlines())) <= 80
    assert files_of(log_dir) == before


@pytest.mark.parametrize("what", [("clicks-0",), ("--all",), ("--all", "--topic", "clicks")])
def test_restored_partition_is_as_the_demo_made_it(log_dir: Path, demo: Path, what: tuple[str, ...]) -> None:
    status = run(log_dir, "restore", *what)
    assert status == (1 if what == ("--all",) else 0)  # one partition was compacted since
    assert files_of(log_dir / "clicks-0") == files_of(demo / "clicks-0")
    assert logs_of(log_dir / COMPACTED) != logs_of(demo / COMPACTED)
    assert (logs_of(log_dir / "audit-0") == logs_of(demo / "audit-0")) is (what == ("--all",))


def test_dry_run_says_the_same_and_changes_nothing(log_dir: Path, capsys) -> None:
    before = files_of(log_dir)
    said = document(log_dir, capsys, "restore", "clicks-0", "--dry-run")
    assert files_of(log_dir) == before
    done = document(log_dir, capsys, "restore", "clicks-0")
    assert (said["dry_run"], done["dry_run"]) == (True, False)
    assert [s["code"] for s in said["partitions"][0]["segments"]] == ["RESTORABLE"] * 5
    assert all(segment["restored"] for segment in done["partitions"][0]["segments"])
    assert done["partitions"][0]["held_since_ms"] > 0


def test_hold_stays_until_it_is_released(log_dir: Path, demo: Path, capsys) -> None:
    run(log_dir, "restore", "clicks-0")
    assert run(log_dir, "clean", "--delete-delay", "0") == 0
    assert "HELD" in capsys.readouterr().out
    assert logs_of(log_dir / "clicks-0") == logs_of(demo / "clicks-0")
    assert run(log_dir, "restore", "clicks-0", "--release", "--dry-run") == 0
    assert "would be no longer on hold" in capsys.readouterr().out
    assert run(log_dir, "restore", "clicks-0", "--release") == 0
    assert run(log_dir, "restore", "--all", "--release") == 0
    assert "Nothing was on hold" in capsys.readouterr().out
    assert run(log_dir, "clean") == 0
    assert len(logs_of(log_dir / "clicks-0")) == 3


def test_second_restore_has_nothing_to_do(log_dir: Path, capsys) -> None:
    assert run(log_dir, "restore", "clicks-0") == 0
    before = files_of(log_dir)
    assert run(log_dir, "restore", "clicks-0") == 0
    assert "There is nothing to restore" in capsys.readouterr().out
    assert files_of(log_dir) == before


@pytest.mark.parametrize(
    ("story", "partition", "status", "told"),
    [
        ("it was compacted since", COMPACTED, 1, ""),
        ("nothing of it was deleted", "empty-0", 1, "see logcleaner history"),
        ("there is no such partition", "clicks-7", 2, "in none of the log dirs"),
    ],
)
def test_what_cannot_be_restored_has_its_status(log_dir, story, partition, status, told, capsys) -> None:
    before = files_of(log_dir)
    assert run(log_dir, "restore", partition) == status, story
    assert told in capsys.readouterr().err
    assert files_of(log_dir) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("restore", "clicks-0", "--all"), "leave TOPIC-PARTITION out"),
        (("restore", "--release"), "needs TOPIC-PARTITION or --all"),
        (("restore", "clicks"), "is no partition; did you mean clicks-0?"),
        (("history", "clicks"), "is no partition; did you mean clicks-0?"),
    ],
)
def test_wrong_usage(log_dir: Path, arguments: tuple[str, ...], told: str, capsys) -> None:
    assert run(log_dir, *arguments) == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["restore", "history"])
def test_partition_behind_the_log_dirs_is_told_from_one(log_dir: Path, command: str, capsys) -> None:
    assert main([command, "--log-dir", str(log_dir), "clicks-0"]) == 2
    assert "goes before the options" in capsys.readouterr().err


def test_missing_log_dir_is_no_partition(tmp_path: Path, capsys) -> None:
    assert main(["restore", "--log-dir", str(tmp_path / "nowhere")]) == 6
    assert "does not exist" in capsys.readouterr().err


def test_held_lock_refuses_a_restore_but_no_list(log_dir: Path, monkeypatch) -> None:
    before = files_of(log_dir)
    with LogDir.open(log_dir).lock(FileSystem()):
        monkeypatch.setattr("cleaner.cli.waiting.WAIT_SECONDS", 0.3)
        assert run(log_dir, "restore", "clicks-0") == 3
        assert run(log_dir, "restore", "clicks-0", "--release") == 3
        assert run(log_dir, "restore", "clicks-0", "--dry-run") == 0
        assert run(log_dir, "restore") == 0
    assert files_of(log_dir) == before


def test_damaged_metadata_log_does_not_keep_a_restore_away(log_dir: Path) -> None:
    for path in (log_dir / "__cluster_metadata-0").iterdir():
        os.truncate(path, min(path.stat().st_size, 30))
    assert run(log_dir, "restore", "clicks-0") == 0


def test_history_tells_every_change_within_80_columns(log_dir: Path, capsys) -> None:
    run(log_dir, "restore", "clicks-0")
    capsys.readouterr()
    assert run(log_dir, "history") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    whats = [line.split()[1] for line in lines[1:] if not line.startswith(" ")]
    assert whats == ["delete"] * 4 + ["compact"] * 4 + ["restore"]


@pytest.mark.parametrize("which", [("clicks-0",), ("--topic", "cl*")])
def test_history_of_one_partition_and_of_what_concerns_all(log_dir: Path, which: tuple[str, ...], capsys) -> None:
    with (log_dir / JOURNAL_FILE).open("ab") as file:
        file.write(encode_entry({"time_ms": 0, "what": "clock"}))
        file.write(encode_entry({"time_ms": 0, "what": "delete", "partition": 7}))
        file.write(b"cut sho")
    (found,) = document(log_dir, capsys, "history", *which)["log_dirs"]
    told = [(entry["what"], entry.get("partition")) for entry in found["entries"]]
    assert told == [("delete", "clicks-0"), ("clock", None)]
    assert "undo" not in found["entries"][0]
    assert found["damaged_lines"] == 1


def test_history_of_a_dir_that_nothing_changed(demo: Path, capsys) -> None:
    assert run(demo, "history") == 0
    assert capsys.readouterr().out == "The journal has no changes.\n"


def test_a_compaction_is_told_to_be_final(log_dir: Path, capsys) -> None:
    capsys.readouterr()
    assert run(log_dir, "restore", "orders-0") == 1
    said = capsys.readouterr()
    assert "A compaction cannot be undone: orders-0, the last at " in said.out
    assert "its compaction cannot be undone; see logcleaner history" in said.err
    assert run(log_dir, "restore", "empty-0") == 1
    said = capsys.readouterr()
    assert "compaction" not in f"{said.out}{said.err}"
