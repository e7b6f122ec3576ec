"""``free`` and ``restore`` wait for a lock that is let go soon."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.lock import LogDirLock


@pytest.mark.parametrize("command", [("free", "--target", "100%"), ("restore", "--all")])
def test_a_lock_that_is_let_go_soon_is_waited_for_and_that_is_told_once(command, demo: Path, tmp_path, capsys) -> None:
    log_dir = shutil.copytree(demo, tmp_path / "data")
    lock = LogDirLock.acquire(log_dir, FileSystem())
    threading.Timer(1.0, lock.release).start()
    assert main([*command, "--log-dir", str(log_dir)]) != 3
    assert capsys.readouterr().err.count("waiting for it up to 10 s") == 1
