import math

import pytest

from policies.forecast.runway import Growth

HOUR_MS = 3_600_000
GIB = 1 << 30


def looked_at(*looks: tuple[float, float]) -> Growth:
    """Hours since the first look, and GiB free then."""
    (hours, gib), *rest = looks
    growth = Growth(round(hours * HOUR_MS), round(gib * GIB))
    for hours, gib in rest:
        growth = growth.seen(round(gib * GIB), round(hours * HOUR_MS))
    return growth


@pytest.mark.parametrize(
    ("story", "looks", "hours"),
    [
        ("a gigabyte an hour", [(0, 20), (1, 19), (2, 18)], 18),
        ("the same, looked at unevenly", [(0, 20), (0.25, 19.75), (2, 18)], 18),
        ("the mean of what went up and down", [(0, 20), (1, 16), (2, 18)], 18),
        ("nothing grows", [(0, 20), (2, 20)], math.inf),
        ("space is gained", [(0, 20), (2, 25)], math.inf),
        ("the disk is full", [(0, 20), (2, 0)], 0),
    ],
)
def test_runway(story: str, looks: list[tuple[float, float]], hours: float) -> None:
    assert looked_at(*looks).runway_seconds == pytest.approx(hours * 3600), story


def test_less_than_an_hour_tells_nothing() -> None:
    assert looked_at((0, 20), (0.9, 10)).runway_seconds is None


@pytest.mark.parametrize("hours", [0, -5])
def test_a_look_that_is_not_later_changes_nothing(hours: float) -> None:
    growth = looked_at((0, 20), (1, 19))
    assert growth.seen(5 * GIB, round((1 + hours) * HOUR_MS)) == growth


def test_what_was_before_the_last_days_is_forgotten() -> None:
    burst = looked_at((0, 500), (24, 400))
    quiet = burst
    for hour in range(25, 24 * 8):
        quiet = quiet.seen(400 * GIB, hour * HOUR_MS)
    assert quiet.bytes_per_second < burst.bytes_per_second / 500
