"""``free`` and ``restore`` wait for a lock that is let go soon."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.cli.waiting import Waiting
from storage.filesystem import FileSystem
from storage.lock import LogDirLock, LogDirLocked


@pytest.mark.parametrize("command", [("free", "--target", "100%"), ("restore", "--all")])
def test_a_lock_that_is_let_go_soon_is_waited_for_and_that_is_told_once(command, demo: Path, tmp_path, capsys) -> None:
    log_dir = shutil.copytree(demo, tmp_path / "data")
    lock = LogDirLock.acquire(log_dir, FileSystem())
    threading.Timer(1.0, lock.release).start()
    assert main([*command, "--log-dir", str(log_dir)]) != 3
    assert capsys.readouterr().err.count("waiting for it up to 10 s") == 1


class Tenths:
    """A clock of which each sleep takes exactly as long as was asked for."""

    def __init__(self) -> None:
        self.tenths = 0

    def monotonic(self) -> float:
        return self.tenths / 10

    def sleep(self, seconds: float) -> None:
        self.tenths += round(seconds * 10)


@pytest.mark.parametrize("stopped_at", [None, 3])
def test_a_lock_is_waited_for_ten_seconds_in_all_or_until_a_signal(stopped_at, monkeypatch, capsys) -> None:
    clock, waiting, taken = Tenths(), Waiting(), []
    monkeypatch.setattr("cleaner.cli.waiting.time", clock)
    if stopped_at is not None:
        waiting.stopping = lambda: clock.tenths >= stopped_at

    def take() -> LogDirLock:
        taken.append(clock.tenths)
        raise LogDirLocked(Path("/data/.lock"), 77)

    for _ in range(2):
        with pytest.raises(LogDirLocked):
            waiting(take)
    last = 100 if stopped_at is None else stopped_at
    assert taken == [*range(last + 1), last]
    assert capsys.readouterr().err.count("/data/.lock: held by process 77; waiting for it up to 10 s") == 1
