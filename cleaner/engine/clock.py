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
        """Return the time of day, epoch ms."""
        ...

    def boot(self) -> Boot | None:
        """Return the boot of the machine, by a clock that ignores changes of the wall clock; None if unknown."""
        ...

    def seconds(self) -> float:
        """Return the seconds of a monotonic stopwatch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of the machine: the only code that asks the time of day."""

    def now_ms(self) -> int:
        """Return the time of day, epoch ms."""
        return time.time_ns() // 1_000_000

    def boot(self) -> Boot | None:
        """Return the boot by the boot clock, which goes on while the machine sleeps."""
        try:
            boot_id = _BOOT_ID.read_text().strip()
        except OSError:
            return None
        return Boot(boot_id, self.now_ms() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)

    def seconds(self) -> float:
        """Return the seconds since some fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
