from __future__ import annotations

from collections.abc import Callable

import pytest

from cleaner.engine.compaction.crew import Pace
from cleaner.engine.means import Means, Silent
from policies.config.policy import BrokerPolicy
from storage.errors import Stopped
from storage.filesystem import FileSystem
from tests.partition_dirs import FakeClock


def means(clock: FakeClock, bytes_per_second: float, stopping: Callable[[], bool] = lambda: False) -> Means:
    broker = BrokerPolicy(log_cleaner_io_max_bytes_per_second=bytes_per_second)
    return Means(FileSystem(), clock, Silent(), broker, 1, stopping)


@pytest.mark.parametrize(("slices", "seconds"), [([100], 1.0), ([50, 50, 100], 2.0), ([], 0.0)])
def test_reading_takes_as_long_as_the_rate_wants(slices: list[int], seconds: float) -> None:
    clock = FakeClock()
    pace = Pace(means(clock, 100.0))
    for size_bytes in slices:
        pace(size_bytes)
    assert clock.slept_seconds == pytest.approx(seconds)


def test_bytes_written_count_as_those_read() -> None:
    clock = FakeClock()
    pace = Pace(means(clock, 100.0))
    pace(100)
    pace.spend(100)
    assert clock.slept_seconds == pytest.approx(2.0)


def test_kafkas_default_rate_never_waits() -> None:
    clock = FakeClock()
    Pace(means(clock, BrokerPolicy().log_cleaner_io_max_bytes_per_second))(1 << 62)
    assert clock.slept_seconds == 0


@pytest.mark.parametrize("rate", [0.0, 5e-324])
def test_a_rate_of_nothing_waits_until_it_is_asked_to_stop(rate: float) -> None:
    clock = FakeClock()
    pace = Pace(means(clock, rate, stopping=lambda: clock.slept_seconds >= 3600))
    pace(0)
    assert clock.slept_seconds == 0
    with pytest.raises(Stopped):
        pace(1)
    assert clock.slept_seconds >= 3600


def test_a_rate_below_nothing_is_no_limit() -> None:
    clock = FakeClock()
    Pace(means(clock, -1.0))(1 << 62)
    assert clock.slept_seconds == 0


def test_a_wish_to_stop_ends_a_long_wait_within_two_seconds() -> None:
    clock = FakeClock()
    pace = Pace(means(clock, 1.0, stopping=lambda: clock.slept_seconds >= 1.0))
    with pytest.raises(Stopped):
        pace(3600)
    assert clock.slept_seconds <= 2.0
