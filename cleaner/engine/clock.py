"""Time is handed in, so that a test never sleeps."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock and stopwatch."""

    def now_ms(self) -> int:
        """Wall clock, epoch ms."""
        ...

    def seconds(self) -> float:
        """A monotonic stopwatch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let so much time go by."""
        ...


class SystemClock:
    """The machine's."""

    def now_ms(self) -> int:
        """Wall clock, epoch ms."""
        return time.time_ns() // 1_000_000

    def seconds(self) -> float:
        """Since some fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let so much time go by."""
        time.sleep(seconds)
