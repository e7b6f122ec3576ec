"""Turns: of the threads that work side by side, one at a time runs Python.

Each system call lets the GIL go. If several threads run Python, the next one takes it, and both wait for each other at
every call: that costs more than most calls. So a thread keeps the turn until it waits for long: for a disk, or for a
kernel over many records.

A thread must not wait for a lock in its turn if the holder of the lock may wait for a disk: the holder takes its turn
again before it lets the lock go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class _Mine(threading.local):
    """The turn that this thread has."""

    turn: threading.Lock | None = None


_mine = _Mine()


@contextmanager
def in_turn(turn: threading.Lock) -> Iterator[None]:
    """Wait for the turn, and have it within the ``with``."""
    with turn:
        _mine.turn = turn
        try:
            yield
        finally:
            _mine.turn = None


def out_of_turn() -> AbstractContextManager[None]:
    """Let others have the turn within the ``with``, if this thread has one."""
    return _OutOfTurn()


class _OutOfTurn:
    """Does what ``out_of_turn`` says. A generator would take thrice as long."""

    __slots__ = ("_turn",)

    def __enter__(self) -> None:
        self._turn = _mine.turn
        if self._turn is not None:
            _mine.turn = None
            self._turn.release()

    def __exit__(self, *_: object) -> None:
        if self._turn is not None:
            self._turn.acquire()
            _mine.turn = self._turn
