"""What an execution works with: disk, clock, listener, broker-wide configuration, and the wish to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cleaner.engine.clock import Clock
from cleaner.engine.outcome import Listener
from policies.config.policy import BrokerPolicy
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem


class Stopped(LogCleanerError):
    """A signal asked the run to end, and a step was not begun."""

    def __str__(self) -> str:
        return "stopped before it was done; nothing is half done, run again"


@dataclass(frozen=True, slots=True)
class Means:
    """Handed to every step of an execution."""

    fs: FileSystem
    clock: Clock
    listener: Listener
    broker: BrokerPolicy
    threads: int
    """Of one compaction."""
    stopping: Callable[[], bool]
    """Asked between steps: True once a signal wants the run to end."""
    delete_delay_ms: int | None
    """Overrides ``file.delete.delay.ms``; 0 unlinks within the run."""
    may_begin: Callable[[], bool] = lambda: True
    """Asked before a partition is begun; False leaves it, and the ones behind it, to a later run."""
    side_by_side: int = 1
    """Compactions that may be at work at the same time, and share the memory for offset maps."""
