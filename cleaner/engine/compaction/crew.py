"""The threads of a round, and its pace: slices are worked on side by side, their results taken in order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from cleaner.engine.compaction.draft import Recoder
from cleaner.engine.means import Means
from storage.errors import Stopped

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD: Final = 2
"""How many items a thread may be ahead: enough that no thread waits for the thread that takes the results."""
_CHECK_SECONDS: Final = 0.3
"""The interval of a check, as of Kafka's Throttler."""
_SLEEP_SECONDS_MIN: Final = 0.001
_SLEEP_SECONDS_MAX: Final = 0.5
"""A signal is served within two seconds, whatever the rate."""
_SPARE_MAX: Final = 8
_spare: Final[deque[Recoder]] = deque(maxlen=_SPARE_MAX)
"""Arenas of rounds that ended well: to make one takes as long as to find the survivors of a small log."""


@dataclass(slots=True)
class _Begun(Generic[Item, Result]):
    item: Item
    future: Future[Result]


def _recoder() -> Recoder:
    try:
        return _spare.pop()
    except IndexError:  # to ask first would not do: other threads take spare ones, too
        return Recoder()


class Crew:
    """The threads of a round; with one thread, the calling thread does the work."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = _pool_of(threads - 1) if threads > 1 else None
        self._hands: SimpleQueue[tuple[int, Recoder]] = SimpleQueue()
        for number in range(threads):
            self._hands.put((number, _recoder()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        while error is None and not self._hands.empty():
            _spare.append(self._hands.get()[1])

    @contextmanager
    def hand(self) -> Iterator[tuple[int, Recoder]]:
        """Yield the means of a thread: a number below ``threads``, and an arena."""
        hand = self._hands.get()
        try:
            yield hand
        finally:
            self._hands.put(hand)

    def in_order(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Work on the items, a few ahead of the caller, and yield each item with its result, in order.

        The items are made by the calling thread. When the iterator ends, early or not, no work is under way any more.
        The first failure in the order of the items is raised once all items that were begun have ended.
        """
        if self._pool is None:
            for item in items:
                yield item, work(item)
            return
        begun: deque[_Begun[Item, Result]] = deque()
        try:
            for item in items:
                begun.append(_Begun(item, self._pool.submit(work, item)))
                if len(begun) > _AHEAD * self.threads:
                    _help(begun, work)
                    yield begun[0].item, begun.popleft().future.result()
            while begun:
                _help(begun, work)
                yield begun[0].item, begun.popleft().future.result()
        finally:
            for one in begun:
                if not one.future.cancel():
                    one.future.exception()  # waits


def _pool_of(threads: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - it loads Python's logging

    return ThreadPoolExecutor(threads, "compaction")


def _help(begun: Iterable[_Begun[Item, Result]], work: Callable[[Item], Result]) -> None:
    """Work on items that no other thread has taken, until the first item is done."""
    from concurrent.futures import Future  # noqa: PLC0415 - several threads alone need it

    first = next(iter(begun)).future
    for one in begun:
        if first.done():
            return
        if one.future.cancel():
            one.future = Future()
            try:
                one.future.set_result(work(one.item))
            except Exception as error:  # raised when its turn comes; an interrupt is raised at once
                one.future.set_exception(error)


def untold(_done_bytes: int) -> None:
    """Ignore the progress of a round."""


class Pace:
    """The pace of a round, asked after every slice read and every group written.

    Tells the progress, keeps to ``log.cleaner.io.max.bytes.per.second``, and ends a round that is to stop.

    Source: Kafka Throttler, LogCleaner: the rate is over bytes read, in both passes, plus bytes written.
    """

    def __init__(self, means: Means) -> None:
        self._means = means
        self._bytes_per_second = means.broker.log_cleaner_io_max_bytes_per_second
        self._since_seconds = means.clock.seconds()
        self._bytes = 0

    def __call__(self, done_bytes: int) -> None:
        """Count bytes that were read, and tell the progress. Raises: Stopped."""
        self._means.listener.progress(done_bytes)
        self.spend(done_bytes)

    def spend(self, done_bytes: int) -> None:
        """Count bytes read or written, and wait if they were more than the rate allows. Raises: Stopped."""
        self._bytes += done_bytes
        elapsed = self._means.clock.seconds() - self._since_seconds
        wait_seconds = self._due_seconds() - elapsed
        while wait_seconds > _SLEEP_SECONDS_MIN and not self._means.stopping():
            self._means.clock.sleep(min(wait_seconds, _SLEEP_SECONDS_MAX))
            wait_seconds -= _SLEEP_SECONDS_MAX
        if self._means.stopping():
            raise Stopped
        if elapsed >= _CHECK_SECONDS:
            self._since_seconds, self._bytes = self._means.clock.seconds(), 0

    def _due_seconds(self) -> float:
        """Return how long the bytes should have taken: for ever at a rate of 0, as in Kafka; no time at a negative
        rate.
        """
        if self._bytes_per_second == 0:
            return math.inf if self._bytes else 0.0
        return self._bytes / self._bytes_per_second
