"""Handling of SIGINT and SIGTERM while a command changes log dirs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from cleaner.cli.exit_status import Terminated, complain

if TYPE_CHECKING:
    from cleaner.engine.cleaner import Cleaner


@contextmanager
def stopping_on_signals(cleaner: Cleaner) -> Iterator[list[int]]:
    """Let SIGINT and SIGTERM end the run between two steps. A second signal ends it at once; recovery cleans up.

    Yields: the numbers of the signals that came.
    """
    came: list[int] = []
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def stop(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        cleaner.stop()
        restore()

    for number in previous:
        signal.signal(number, stop)
    try:
        yield came
    except (KeyboardInterrupt, Terminated):
        if came:
            complain(
                "ended at once by a second signal; logcleaner history says what was done, the next run does the rest"
            )
        raise
    finally:
        restore()
