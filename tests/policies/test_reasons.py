"""Codes for scripts, times and spans for people."""

from __future__ import annotations

import pytest

from policies.reasons import Action, ReasonCode, duration, moment


def test_codes_are_their_own_names_as_scripts_see_them() -> None:
    assert all(code.value == code.name == str(code) for code in ReasonCode)
    assert [action.value for action in Action] == ["keep", "delete", "compact"]


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (-5, "0ms"),
        (0, "0ms"),
        (1, "1ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (1_500, "1s 500ms"),
        (59_999, "59s 999ms"),
        (60_000, "1m"),
        (60_999, "1m"),
        (61_000, "1m 1s"),
        (3_600_000, "1h"),
        (3_660_000, "1h 1m"),
        (86_399_999, "23h 59m"),
        (86_400_000, "1d"),
        (86_400_000 + 3_599_999, "1d"),
        (3 * 86_400_000 + 4 * 3_600_000, "3d 4h"),
        (800 * 86_400_000, "800d"),
    ],
)
def test_a_span_shows_its_largest_unit_and_the_next(span_ms: int, text: str) -> None:
    assert duration(span_ms) == text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_241_014_999, "2026-11-21T06:03:34Z"),
        (253_402_300_799_000, "9999-12-31T23:59:59Z"),
        (253_402_300_799_001, "253402300799001 ms"),
        ((1 << 63) - 1, "9223372036854775807 ms"),
        (-1, "-1 ms"),
    ],
)
def test_a_moment_is_iso_in_utc_and_an_absurd_one_its_number(time_ms: int, text: str) -> None:
    assert moment(time_ms) == text
