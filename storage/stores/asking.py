"""The wait for the answer of a store. Every request goes through ``answer_to``, which has another thread send it.

The clients are compiled. As long as such a call lasts, Python serves no signal in the thread that made the call, and a
store that hangs makes it last for a minute. A thread that waits here serves a signal at once.

A stop:     the request under way is waited for a second longer. So a store that answers is left as it is between two
            requests, and what ends the command can still clean up there. Once a request took longer, no further one
            is sent to that store.
Not chosen: the async methods of the clients, which take as long a request and another form of each call.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Generic, TypeVar

from storage.errors import Stopped
from storage.stores import ENDING

GRACE_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.1
_T = TypeVar("_T")


def answer_to(ask: Callable[[], _T], place: str) -> _T:
    """Return what ``ask`` returns, which sends one request to the store of a URL.

    Raises: what ``ask`` raises; Stopped if the command is to end and the request has no answer for a second.
    """
    if ENDING.by and place in ENDING.hanging:
        raise Stopped
    request = _Request(ask, place)
    try:
        while not (request.has_ended(LOOK_SECONDS) or ENDING.by):
            pass
    except BaseException:  # a signal handler raised
        request.ends_soon()
        raise
    if not request.ends_soon():
        raise Stopped
    return request.answer()


class _Request(Generic[_T]):
    """A request that is on its way."""

    def __init__(self, ask: Callable[[], _T], place: str) -> None:
        self._ask, self._place = ask, place
        self._answers: list[_T] = []
        self._error: BaseException | None = None
        self._is_ended = False
        self._pending = Lock()
        self._pending.acquire()
        _sender().take(self)

    def has_ended(self, within_seconds: float) -> bool:
        """Wait for the end. Return whether it came.

        A signal handler may raise anywhere in here. An ``Event`` would then keep its own lock once in some thousand
        times, and the next wait for it would have no end. This lock is taken by one call that has a limit; whoever took
        it, and was interrupted then, finds the mark.
        """
        return self._is_ended or self._pending.acquire(timeout=within_seconds)

    def end(self) -> None:
        """Let the waiting thread go on."""
        self._is_ended = True
        self._pending.release()

    def ends_soon(self) -> bool:
        """Wait for a second longer. Return whether there is an answer."""
        try:
            return self.has_ended(GRACE_SECONDS)
        finally:  # a second signal ends this wait, too
            if not self._is_ended:
                ENDING.hanging.add(self._place)

    def answer(self) -> _T:
        """Return the answer, once there is one. Raises: what the request raised."""
        if self._error is not None:
            error, self._error = self._error, None  # else it would hold itself, by its traceback
            raise error
        return self._answers[0]

    def send(self) -> None:
        """Send it, and keep what comes."""
        try:
            self._answers.append(self._ask())
        except BaseException as error:
            self._error = error


class _Sender:
    """A thread that sends one request after the other. It holds up no exit, whatever hangs."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[_Request[Any]] = SimpleQueue()
        Thread(target=self._run, name="request", daemon=True).start()

    def take(self, request: _Request[Any]) -> None:
        """Send a request."""
        self._requests.put(request)

    def _run(self) -> None:
        while True:
            self._send(self._requests.get())

    def _send(self, request: _Request[Any]) -> None:
        request.send()
        _IDLE.append(self)
        request.end()


def _sender() -> _Sender:
    try:
        return _IDLE.pop()
    except IndexError:
        return _Sender()


_IDLE: Final[list[_Sender]] = []
"""A new thread for each request would take 0.1 ms of it."""
os.register_at_fork(after_in_child=_IDLE.clear)
