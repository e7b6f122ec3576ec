"""Who holds the locks of a run: it is known without taking one."""

from __future__ import annotations

from pathlib import Path

from cleaner.engine.locks import LentLocks, OwnLocks
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from storage.log_dir import LogDir


def test_own_locks_are_held_until_they_are_given_back(tmp_path: Path) -> None:
    locks, log_dir = OwnLocks(), LogDir(tmp_path)
    for take in (locks.lock, locks.lock_to_read):
        with take(log_dir, FileSystem()):
            assert locks.holds(tmp_path)
            assert log_dir.locked_by() is not None
        assert not locks.holds(tmp_path)
        assert log_dir.locked_by() is None


def test_lent_locks_are_the_callers_and_stay_with_it(tmp_path: Path) -> None:
    log_dir = LogDir(tmp_path)
    with log_dir.lock(FileSystem()) as held:
        lent = LentLocks({tmp_path: held}.get)
        assert lent.holds(tmp_path)
        assert not lent.holds(tmp_path / "another")
        with lent.lock(log_dir, FileSystem()) as lock:
            assert isinstance(lock, LogDirLock)
        assert log_dir.locked_by() is not None
