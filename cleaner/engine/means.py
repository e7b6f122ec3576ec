"""The means that a run works with: disk, clock, threads, the wish to stop, and a listener to events and progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cleaner.engine.clock import Clock, SystemClock
from policies.config.policy import BrokerPolicy
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem

if TYPE_CHECKING:
    from policies.config.config_layers import ConfigLayers
    from storage.log_dir import LogDir

PASSES: Final = 2
"""A compaction reads all its bytes so often: its clean segments are asked for replaced keys, too."""


class Silent:
    """A listener that ignores everything."""

    def event(self, name: str, **fields: object) -> None:
        """Ignore the event."""

    def expect(self, size_bytes: int) -> None:
        """Ignore the total."""

    def progress(self, done_bytes: int) -> None:
        """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Means:
    """The means that every step of a run is handed. Its ``Request`` says what was asked of it."""

    fs: FileSystem = field(default_factory=FileSystem)
    """Every change of a log dir goes through it."""
    clock: Clock = field(default_factory=SystemClock)
    listener: Listener = field(default_factory=Silent)
    """Hears events and progress."""
    broker: BrokerPolicy = field(default_factory=BrokerPolicy)
    """The configuration that holds for all topics alike. A ``Cleaner`` fills it in."""
    threads: int = 1
    """The number of threads. A large compaction uses all threads; small compactions run side by side, with one thread
    each."""
    stopping: Callable[[], bool] = lambda: False
    """Asked between steps: True once the run is to end. A ``Cleaner`` fills it in."""
    may_begin: Callable[[], bool] = lambda: True
    """Asked before each partition. False leaves this partition, and all partitions behind it, to a later run."""
    side_by_side: int = 1
    """Compactions that may be at work at the same time, and share the memory for offset maps."""
    keeps_round_end: bool = False
    """Whether a round keeps its last batch, if need be empty, as Kafka 4.0 to 4.3 do. Later releases keep the batch at
    the high watermark. For comparisons with those releases.
    """


class OpenLogDirs(NamedTuple):
    """Log dirs, the configuration that holds for them, and the means to work on them."""

    log_dirs: tuple[LogDir, ...]
    layers: ConfigLayers
    means: Means


class Listener(Protocol):
    """Hears what the engine does while it does it: log events and progress."""

    def event(self, name: str, **fields: object) -> None:
        """Hear of an event; names and fields are listed in ``cleaner.events``."""

    def expect(self, size_bytes: int) -> None:
        """Hear how many more bytes of input compactions are about to deal with, ``PASSES`` times."""

    def progress(self, done_bytes: int) -> None:
        """Hear how many more bytes of the compaction's input were dealt with."""


class Stopped(LogCleanerError):
    """A signal asked the run to end, and a step was not begun."""

    def __str__(self) -> str:
        return "stopped before it was done; nothing is half done, run again"
