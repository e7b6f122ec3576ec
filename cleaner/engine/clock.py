"""Time is handed in, so that a test never sleeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, Protocol

from policies.facts import Boot

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Wall clock, boot clock and stopwatch."""

    def now_ms(self) -> int:
        """Wall clock, epoch ms."""
        ...

    def boot(self) -> Boot | None:
        """The boot of the machine, by the clock that goes on whatever the wall clock is set to; None: not told."""
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

    def boot(self) -> Boot | None:
        """By the boot clock, which goes on while the machine sleeps."""
        try:
            boot_id = _BOOT_ID.read_text().strip()
        except OSError:
            return None
        return Boot(boot_id, self.now_ms() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)

    def seconds(self) -> float:
        """Since some fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let so much time go by."""
        time.sleep(seconds)
