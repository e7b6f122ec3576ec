"""``delete-records`` as a user meets it: what it says, asks and answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.cleaner.cli.conftest import on_a_terminal


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo, tmp_path / "data")


def run(log_dir: Path, *words: str) -> int:
    return main(["delete-records", *words, "--log-dir", str(log_dir)])


def files_of(directory: Path) -> dict[str, int]:
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.stat().st_size for path in paths}


def document(log_dir: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    run(log_dir, *words, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("orders-0", "--before-offset", "5", "--yes"), 5, "POLICY_VIOLATION: orders-0: cleanup.policy=compact"),
        (
            ("clicks-0", "--before-offset", "20001", "--yes"),
            2,
            "OFFSET_OUT_OF_RANGE: clicks-0: offset 20001 lies above",
        ),
        (("clicks-0", "--before", "+1d", "--yes"), 2, "NO_RECORD_AT_TIME: clicks-0: no committed record"),
        (("clicks-0", "--before-offset", "500"), 5, "500 records become unreadable, offsets 0 to 499, and no segment"),
        (("clicks-0", "--before-offset", "-2"), 2, "'-2' is no offset"),
        (("clicks-0", "--before-offset", "2", "--before", "-1d"), 2, "not allowed with"),
        (("clicks-0",), 2, "one of the arguments --before-offset --before is required"),
        (("clicks-1", "--before-offset", "2"), 2, "did you mean clicks-0?"),
        (("__cluster_metadata-0", "--before-offset", "2"), 2, "only Kafka's quorum may shorten"),
    ],
)
def test_refusals_say_why_and_change_nothing(log_dir: Path, words, status, told, capsys) -> None:
    before = files_of(log_dir)
    assert run(log_dir, *words) == status
    assert told in capsys.readouterr().err
    assert files_of(log_dir) == before


def test_dry_run_says_the_same_and_changes_nothing(log_dir: Path, capsys) -> None:
    before = files_of(log_dir)
    said = document(log_dir, capsys, "clicks-0", "--before-offset", "12345", "--dry-run")
    assert files_of(log_dir) == before
    done = document(log_dir, capsys, "clicks-0", "--before-offset", "12345", "--yes")
    assert files_of(log_dir) != before
    other = {"dry_run", "done", "restorable_until_ms"}
    assert {key: value for key, value in said.items() if key not in other} == {
        key: value for key, value in done.items() if key not in other
    }
    assert (done["records"], done["log_start_offset"], len(done["segments"])) == (12_345, 12_345, 4)


def test_second_run_has_nothing_to_do(log_dir: Path, capsys) -> None:
    for words in (("--yes",), ()):
        assert run(log_dir, "clicks-0", "--before-offset", "300", *words) == 0
    assert "nothing to do: the log starts at offset 300 already" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 5), ("", 5)])
def test_it_asks_on_a_terminal(log_dir: Path, monkeypatch, capsys, answer: str, status: int) -> None:
    on_a_terminal(monkeypatch, answer)
    before = files_of(log_dir)
    assert run(log_dir, "clicks-0", "--before-offset", "5000") == status
    error = capsys.readouterr().err
    assert "5,000 records become unreadable, offsets 0 to 4999, and 2 segments of 8 go, 2.0 MiB. Go on? [y/N]" in error
    assert (files_of(log_dir) == before) is (status == 5)


def test_lines_fit_a_terminal_and_end_with_the_way_back(log_dir: Path, capsys) -> None:
    assert run(log_dir, "clicks-0", "--before-offset", "-1", "--yes") == 0
    told = capsys.readouterr().out
    assert max(len(line) for line in told.splitlines() if line.strip() != str(log_dir)) <= 80  # no path is broken
    assert "-1 is the high watermark: offset 20000" in told
    assert "logcleaner restore clicks-0 takes this back until" in told
    assert main(["restore", "clicks-0", "--log-dir", str(log_dir)]) == 0
    assert "log start 20000 -> 0" in capsys.readouterr().out
    assert main(["history", "--log-dir", str(log_dir)]) == 0
    assert "log start 0 -> 20000, 7 segments" in " ".join(capsys.readouterr().out.split())


def test_log_start_alone_is_listed_and_taken_back(log_dir: Path, capsys) -> None:
    assert run(log_dir, "clicks-0", "--before-offset", "7", "--yes") == 0
    capsys.readouterr()
    assert main(["restore", "--log-dir", str(log_dir)]) == 0
    assert "restorable  log start 7 -> 0" in capsys.readouterr().out
    assert main(["restore", "clicks-0", "--log-dir", str(log_dir), "--json"]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert [(one["log_start_before"], one["restored"]) for one in partition["log_starts"]] == [(0, True)]


def test_locked_log_dir_is_left_alone(log_dir: Path, monkeypatch) -> None:
    monkeypatch.setattr("cleaner.cli.waiting.WAIT_SECONDS", 0.0)
    with LogDir(log_dir).lock(FileSystem()):
        assert run(log_dir, "clicks-0", "--before-offset", "7", "--yes") == 3
        assert run(log_dir, "clicks-0", "--before-offset", "7", "--dry-run") == 0


def test_garbled_checkpoint_deletes_nothing(log_dir: Path, capsys) -> None:
    (log_dir / "replication-offset-checkpoint").write_text("7\n")
    before = files_of(log_dir)
    assert run(log_dir, "clicks-0", "--before-offset", "7", "--yes") == 1
    assert "nothing was deleted" in capsys.readouterr().err
    assert files_of(log_dir) == before


def test_active_segment_that_stays_without_a_record_is_called_so(log_dir: Path, capsys) -> None:
    assert run(log_dir, "clicks-0", "--before-offset", "-1", "--yes") == 0
    (log_dir / "log-start-offset-checkpoint").unlink()
    capsys.readouterr()
    assert run(log_dir, "clicks-0", "--before-offset", "-1", "--dry-run") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "on is the active segment, which stays" in told
    assert "also holds" not in told


def test_segments_below_a_start_that_stays_go_and_it_is_said(log_dir: Path, capsys) -> None:
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nclicks 0 5000\n")
    assert run(log_dir, "clicks-0", "--before-offset", "5000", "--yes") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the log starts at offset 5000 already; what lies wholly below it goes 2 segments of 8 go" in told
    assert main(["history", "--log-dir", str(log_dir)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "2 segments" in told
    assert "log start 5000" not in told


@pytest.mark.parametrize(
    ("renames", "told"), [(1, "starts at offset 0, as before"), (3, "run again, finishes the rest")]
)
def test_ctrl_c_says_what_happened_and_what_to_run(log_dir: Path, monkeypatch, capsys, renames: int, told: str) -> None:
    left = renames
    rename = FileSystem.rename

    def stopped(fs: FileSystem, *words: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        rename(fs, *words)

    monkeypatch.setattr(FileSystem, "rename", stopped)
    assert run(log_dir, "clicks-0", "--before-offset", "5000", "--yes") == 130
    assert told in capsys.readouterr().err
    monkeypatch.undo()
    assert run(log_dir, "clicks-0", "--before-offset", "5000", "--yes") == 0


def test_damaged_batch_that_goes_is_named_in_the_plan_and_in_the_question(log_dir: Path, capsys) -> None:
    path = log_dir / "clicks-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1  # within the records of the first batch
    path.write_bytes(data)
    damaged = f"{path} at byte 0: CRC-32C mismatch"
    assert run(log_dir, "clicks-0", "--before-offset", "5000") == 5
    assert f"Damaged: {damaged}" in capsys.readouterr().err
    assert document(log_dir, capsys, "clicks-0", "--before-offset", "100", "--dry-run")["damaged"] == damaged
    for option in ("--dry-run", "--yes"):
        assert run(log_dir, "clicks-0", "--before-offset", "5000", option) == 0
        told = capsys.readouterr().out
        assert "".join(f"damaged: {damaged}".split()) in "".join(told.split())
