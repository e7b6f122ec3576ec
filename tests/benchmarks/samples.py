"""Made-up results for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.benchmarks.limits import Least, Machine
from tests.benchmarks.processes import Cost
from tests.benchmarks.results import Bus, Cold, Comparison, Many, ManyKeys, Report, Settings, Startup

SETTINGS: Final = Settings(gib=4, rounds=3, many_keys=1000)


def costs(seconds: Sequence[float], anonymous_mb: int = 200) -> tuple[Cost, ...]:
    return tuple(Cost(each, 2 * anonymous_mb * 1_000_000, anonymous_mb * 1_000_000) for each in seconds)


def a_comparison(
    title: str = "lz4, 100 B",
    kafka: Sequence[float] = (40, 41, 42),
    one: Sequence[float] = (5, 4, 4.5),
    two: Sequence[float] = (2.5, 2, 2.2),
    startup: float = 0.5,
) -> Comparison:
    return Comparison(
        title,
        raw_bytes=4 << 30,
        log_bytes=2_250_000_000,
        records=34_000_000,
        records_left=1_000_000,
        kafka=costs(kafka, 900),
        ours={1: costs(one), 2: costs(two)},
        startup=Startup(costs([startup / 2]), costs([startup], 30)),
        machine=Machine(8.1e9, 9.2e9),
        least=Least(0.25, 1.5, 0.5, 0.5, 0.25),
    )


def a_report() -> Report:
    report = Report(SETTINGS, "4.3.1", cpus=2, kernel="x86_64, Linux 6")
    report.comparisons["lz4-100"] = a_comparison()
    report.comparisons["second-round-newest"] = a_comparison("1 % new")
    report.cold["cold-none-100"] = Cold(
        "none, 100 B", costs([50, 51, 52]), costs([6, 5, 7]), costs([4]), (3.0, 5.0, 4.5)
    )
    report.many["many-2000"] = Many(
        "2,000 of 1 MiB, 100 B", 2000, 2 * 10**9, costs([60, 61, 62], 900), {1: costs([10]), 2: costs([5])},
        Bus(10e9, 8e9, 9e9),
    )  # fmt: skip
    report.many_keys = ManyKeys(1000, 1250, 10**9, 128 << 20, costs([60], 300)[0], 1000, 20, costs([10, 20]))
    return report
