"""The rates of a log: each side is measured on small logs, every answer is checked, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import median

import pytest

from tests.benchmarks.log_rates import interval, main
from tests.interop.conftest import classpath_or_skip
from tests.interop.kafka_jars import judging_version

SMALL = ["--mib", "3", "--segment-mib", "2", "--lookups", "150"]
RATES = [
    f"{rate}, by the {clock}"
    for rate in ("append, MB/s", "by offset, lookups/s", "by timestamp, lookups/s")
    for clock in ("clock", "processor")
]


@pytest.mark.kafka
def test_both_sides_are_measured_in_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classpath_or_skip(judging_version())
    assert main([str(tmp_path), "--pairs", "2", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == RATES
    assert all("Kafka" in line and line.endswith("2 pairs)") for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_ours_is_measured_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--pairs", "1", "--without-kafka", "--value-bytes", "60", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ours ")[0] for line in lines] == RATES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("count", "left_out"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (15, 3), (25, 7)])
def test_the_interval_is_that_of_the_sign_test(count: int, left_out: int) -> None:
    """The tables of the sign test at 5 % have these numbers."""
    values = [float(number) for number in range(count)]
    assert interval(values) == (left_out, count - 1 - left_out)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    random, held = Random(1), 0
    for _ in range(2000):
        low, high = interval([random.expovariate(1) for _ in range(9)])
        held += low <= median((0.0, 2 * 0.6931)) <= high
    assert held / 2000 > 0.94
