"""The commands on a real, small log dir: a compacted topic, and one that retention shortens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.log_dir import LogDir


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    """A copy of it, file times kept."""
    return shutil.copytree(demo, tmp_path / "data")


def files_of(directory: Path) -> dict[str, int]:
    return {str(p.relative_to(directory)): p.stat().st_size for p in directory.rglob("*") if p.is_file()}


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("options", [(), ("--exact",)])
def test_dry_run_changes_nothing(log_dir: Path, options: tuple[str, ...]) -> None:
    before = files_of(log_dir)
    assert main(["clean", "--dry-run", "--exit-code", "--log-dir", str(log_dir), *options]) == 10
    assert files_of(log_dir) == before


def test_run_does_what_the_dry_run_said(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = document(capsys, "clean", "--dry-run", "--exact", "--log-dir", str(log_dir))
    done = document(capsys, "clean", "--log-dir", str(log_dir), "--now", str(said["now"]))
    assert said["totals"]["reclaimed_bytes"] == done["totals"]["reclaimed_bytes"] > 0
    for planned, acted in zip(said["partitions"], done["partitions"], strict=True):
        assert planned["segments"] == acted["segments"]
        if planned["result"]:
            figures = ("deleted_segments", "deleted_bytes", "compacted_from_bytes", "compacted_to_bytes")
            assert [planned["result"][key] for key in figures] == [acted["result"][key] for key in figures]
            assert (planned["result"]["basis"], acted["result"]["basis"]) == ("exact", "done")


def test_second_run_finds_nothing_to_do(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", "--log-dir", str(log_dir), "--delete-delay", "0"]) == 0
    assert not list(log_dir.rglob("*.deleted"))
    assert main(["clean", "--log-dir", str(log_dir), "--dry-run", "--exit-code"]) == 0
    assert "Nothing to do" in capsys.readouterr().out


def test_held_log_dir_is_refused_and_a_dry_run_is_not(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LogDir.open(log_dir).lock(FileSystem()):
        assert main(["clean", "--log-dir", str(log_dir)]) == 3
        assert "held by" in capsys.readouterr().err
        assert main(["clean", "--log-dir", str(log_dir), "--dry-run"]) == 0
        assert "would be refused" in " ".join(capsys.readouterr().out.split())


def test_dir_without_configuration_keeps_everything(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    before = files_of(log_dir)
    assert main(["clean", "--log-dir", str(log_dir)]) == 5
    assert "CONFIG_UNKNOWN" in capsys.readouterr().err
    assert files_of(log_dir).keys() >= before.keys()


def test_topics_lists_every_partition(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "topics", "--log-dir", str(demo))
    assert [p["topic"] for p in found["partitions"]] == sorted(
        path.name.rpartition("-")[0] for path in demo.glob("[!_]*-[0-9]*") if path.is_dir()
    )
