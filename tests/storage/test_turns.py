"""Of the threads that work side by side, one at a time has the turn."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.filesystem import FileSystem, Purpose
from storage.turns import in_turn, out_of_turn

WAIT_SECONDS = 30


def test_one_thread_at_a_time_has_the_turn():
    turn, at_work, most = threading.Lock(), [0], [0]

    def work(_number: int) -> None:
        for _ in range(50):
            with in_turn(turn):
                at_work[0] += 1
                most[0] = max(most[0], at_work[0])
                at_work[0] -= 1
                with out_of_turn():
                    pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert (most, at_work) == ([1], [0])


def test_another_has_the_turn_while_the_first_waits_for_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    turn, has_run = threading.Lock(), threading.Event()
    fs = FileSystem()

    def other() -> None:
        with in_turn(turn):
            has_run.set()

    def waits(_descriptor: int) -> None:
        assert has_run.wait(WAIT_SECONDS)

    monkeypatch.setattr("storage.filesystem.os.fsync", waits)
    with in_turn(turn):
        thread = threading.Thread(target=other)
        thread.start()
        fs.fsync_dir(tmp_path, Purpose.CLEAN)
        assert turn.locked()
        with fs.create(tmp_path / "new", tmp_path, Purpose.CLEAN) as file:
            file.fsync()
    thread.join()
    assert not turn.locked()


def test_turn_is_had_again_behind_an_error_and_behind_a_second_leave():
    turn = threading.Lock()

    def fail() -> None:
        with out_of_turn(), out_of_turn():
            assert not turn.locked()
            raise ValueError("x")

    with in_turn(turn):
        with pytest.raises(ValueError, match="x"):
            fail()
        assert turn.locked()
    assert not turn.locked()


def test_thread_without_a_turn_takes_none_from_another():
    turn = threading.Lock()
    with ThreadPoolExecutor(1) as pool, turn:

        def leave() -> bool:
            with out_of_turn():
                return turn.locked()

        assert pool.submit(leave).result()
