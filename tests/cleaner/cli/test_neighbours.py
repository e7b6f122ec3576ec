"""A second logcleaner: whoever holds the log dir has it alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.log_dir import LogDir


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize(
    "command", [("clean",), ("free", "--target", "100%"), ("restore", "--all"), ("restore", "--all", "--release")]
)
def test_second_one_is_refused_untouched_though_the_first_opened_its_lock_again(
    command, demo, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("cleaner.cli.waiting.WAIT_SECONDS", 0.3)
    log_dir = Path(shutil.copytree(demo, tmp_path / "data"))
    with LogDir.open(log_dir).lock(FileSystem()):
        os.close(os.open(log_dir / ".lock", os.O_RDWR))
        before = tree(log_dir)
        assert main([*command, "--log-dir", str(log_dir)]) == 3
        assert tree(log_dir) == before
    assert "held by" in capsys.readouterr().err
    assert main(["clean", "--log-dir", str(log_dir)]) == 0


@pytest.mark.parametrize("command", [("clean", "--dry-run"), ("topics",), ("restore",), ("history",)])
def test_second_one_may_look(command, demo, tmp_path):
    log_dir = Path(shutil.copytree(demo, tmp_path / "data"))
    with LogDir.open(log_dir).lock(FileSystem()):
        assert main([*command, "--log-dir", str(log_dir)]) == 0
