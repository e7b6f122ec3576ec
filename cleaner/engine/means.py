"""The means that a run works with: disk, clock, threads, the wish to stop, and a listener to events and progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cleaner.engine.clock import Clock, SystemClock
from policies.config.policy import BrokerPolicy
from storage.filesystem import FileSystem

if TYPE_CHECKING:
    from policies.config.config_layers import ConfigLayers
    from storage.log_dir import LogDir

PASSES: Final = 2
"""How often a compaction reads all its bytes: its clean segments are searched for replaced keys, too."""


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
    """The means that every step of a run is handed. The ``Request`` of a run says what the caller wants."""

    fs: FileSystem = field(default_factory=FileSystem)
    """The seam through which every change of a log dir goes."""
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
    """The number of compactions that may run at the same time, and share the memory for offset maps."""
    keeps_round_end: bool = False
    """Whether a round keeps its last batch, even if it is empty, as Kafka 4.0 to 4.3 do.

    Later releases keep the batch at the high watermark. For comparisons with those releases.
    """


class OpenLogDirs(NamedTuple):
    """Log dirs, the configuration that holds for them, and the means to work on them."""

    log_dirs: tuple[LogDir, ...]
    layers: ConfigLayers
    means: Means


class Listener(Protocol):
    """A listener to the engine's events and progress."""

    def event(self, name: str, **fields: object) -> None:
        """Take an event; ``cleaner.events`` lists names and fields."""

    def expect(self, size_bytes: int) -> None:
        """Take the number of bytes that compactions are about to read, ``PASSES`` times."""

    def progress(self, done_bytes: int) -> None:
        """Take the number of bytes that compactions have read since the last call."""
