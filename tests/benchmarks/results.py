"""The measurements, and the JSON file that holds them. The file is written anew after each workload."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from pydantic import TypeAdapter

from tests.benchmarks.limits import Least, Machine
from tests.benchmarks.processes import Cost

BUDGET_BYTES: Final = 256 << 20
"""What a compaction may take beside its map."""


class OtherRun(Exception):
    """The file holds the results of other sizes; names them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What has to be the same for results to be in one file."""

    gib: float
    rounds: int
    many_keys: int


@dataclass(frozen=True, slots=True)
class Startup:
    """Our process with next to nothing to do: ``--version``, and a compaction of one record."""

    version: tuple[Cost, ...]
    empty_run: tuple[Cost, ...]

    @property
    def seconds(self) -> float:
        """Of a compaction."""
        return median_seconds(self.empty_run)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rounds of both cleaners on one workload; each left the same records."""

    title: str
    raw_bytes: int
    log_bytes: int
    records: int
    records_left: int
    kafka: tuple[Cost, ...]
    ours: dict[int, tuple[Cost, ...]]
    """By the number of threads."""
    startup: Startup
    machine: Machine
    least: Least | None
    """None for logs of v0 and v1: no kernel does one of their works alone."""

    @property
    def ratio(self) -> float:
        """How many times as fast as Kafka one thread of ours is, as a whole process."""
        return median_seconds(self.kafka) / median_seconds(self.ours[1])

    @property
    def ratio_at_work(self) -> float:
        """The same without our start-up."""
        return median_seconds(self.kafka) / max(median_seconds(self.ours[1]) - self.startup.seconds, 1e-9)

    @property
    def threads_ratio(self) -> float:
        """How many times as fast as one thread two are."""
        return median_seconds(self.ours[1]) / median_seconds(self.ours[2])

    @property
    def codec_percent(self) -> float | None:
        """The codec's part of our time; 100 is what it allows."""
        return 100 * self.least.codec_seconds / median_seconds(self.ours[1]) if self.least else None

    @property
    def least_percent(self) -> float | None:
        """The part of our time without start-up that no cleaner can go below; 100 is what the machine allows."""
        at_work = max(median_seconds(self.ours[1]) - self.startup.seconds, 1e-9)
        return 100 * self.least.seconds / at_work if self.least else None


@dataclass(frozen=True, slots=True)
class Cold:
    """Rounds of both cleaners on a log that is not in the page cache, beside ours on one that is."""

    title: str
    kafka: tuple[Cost, ...]
    ours: tuple[Cost, ...]
    """One thread."""
    ours_warm: tuple[Cost, ...]
    direct_seconds: tuple[float, ...]
    """To read and write the same bytes past the page cache, with eight requests in flight; empty where the file system
    refuses that."""

    @property
    def times_the_least(self) -> float:
        """Our time by the larger of what the disk takes and what a warm round takes."""
        disk = median(self.direct_seconds) if self.direct_seconds else 0.0
        return median_seconds(self.ours) / max(disk, median_seconds(self.ours_warm))


@dataclass(frozen=True, slots=True)
class Bus:
    """Bytes a second that a loop reads, which does nothing but read memory."""

    alone: float
    beside_ours: float
    """While we compact with one thread."""
    beside_another: float
    """While another such loop reads on the other core."""

    @property
    def losses_percent(self) -> tuple[float, float]:
        """What the loop loses to one thread of ours, and to another loop."""
        ours, another = (100 * max(0.0, 1 - each / self.alone) for each in (self.beside_ours, self.beside_another))
        return ours, another


@dataclass(frozen=True, slots=True)
class Many:
    """All rounds of a log dir with many partitions; each side left the same records in each partition."""

    title: str
    partitions: int
    log_bytes: int
    kafka: tuple[Cost, ...]
    """Its log cleaner with two threads."""
    ours: dict[int, tuple[Cost, ...]]
    """By the number of threads."""
    bus: Bus

    @property
    def ratio(self) -> float:
        """How many times as fast as Kafka we are, both with two threads; ours as a whole process."""
        return median_seconds(self.kafka) / median_seconds(self.ours[2])

    @property
    def threads_ratio(self) -> float:
        """How many times as fast as one thread two are."""
        return median_seconds(self.ours[1]) / median_seconds(self.ours[2])


@dataclass(frozen=True, slots=True)
class ManyKeys:
    """A log of more distinct keys than the offset map holds."""

    keys: int
    records: int
    log_bytes: int
    map_bytes: int
    ours: Cost
    records_left: int
    kafka_rounds_min: int
    """By the slots of Kafka's map of the same size."""
    kafka: tuple[Cost, ...]
    """Its rounds until nothing is dirty; empty: not measured."""

    @property
    def is_within_budget(self) -> bool:
        """Whether our memory stayed within the map and what a compaction may take beside it."""
        return self.ours.anonymous_bytes <= self.map_bytes + BUDGET_BYTES


@dataclass(slots=True)
class Report:
    """All of a run, by the names of its workloads."""

    settings: Settings
    kafka_version: str
    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    kernel: str = field(default_factory=lambda: f"{platform.machine()}, Linux {platform.release()}")
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    many_keys: ManyKeys | None = None
    cold: dict[str, Cold] = field(default_factory=dict)
    many: dict[str, Many] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Replace the file in one step: a run that is cut leaves what was measured before."""
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.write_bytes(_ADAPTER.dump_json(self, indent=1) + b"\n")
        unfinished.replace(path)


_ADAPTER: Final = TypeAdapter(Report)


def load(path: Path) -> Report:
    """Raises: pydantic.ValidationError."""
    return _ADAPTER.validate_json(path.read_bytes())


def resumed(path: Path, settings: Settings, kafka_version: str) -> Report:
    """What the file holds already, or an empty report. Raises: OtherRun."""
    if not path.exists():
        return Report(settings, kafka_version)
    report = load(path)
    if report.settings != settings:
        raise OtherRun(f"{path} holds results of {report.settings}; name another file, or remove it")
    return report


def median_seconds(costs: Sequence[Cost]) -> float:
    return median(cost.seconds for cost in costs)


def peak_anonymous_bytes(costs: Sequence[Cost]) -> int:
    """The most that any of them took."""
    return max(cost.anonymous_bytes for cost in costs)
