from argparse import ArgumentTypeError
from contextlib import suppress
from datetime import datetime

import pytest

from cleaner.cli.values import at_least_one, moment, span_ms, target
from policies.rescue import SpaceTarget

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
LONG_MAX = (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-02T00:00:00Z", DAY_MS),
        ("1970-01-02T01:00:00+01:00", DAY_MS),
        ("1970-01-01T00:00:00.250Z", 250),
        ("+7d", NOW_MS + 7 * DAY_MS),
        ("-36h", NOW_MS - 36 * 3_600_000),
    ],
)
def test_moment(text: str, expected_ms: int) -> None:
    assert moment(text)(NOW_MS) == expected_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("9999999999999999", 10**16 - 1),
        ("-9999999999999999", 1 - 10**16),
        ("9223372036854775807", LONG_MAX),
        ("-9223372036854775808", -LONG_MAX - 1),
        ("9223372036854775808", LONG_MAX),
        ("-9999999999999999999", -LONG_MAX - 1),
        ("+106751991167d", LONG_MAX),
        ("-106751991167d", NOW_MS - 106_751_991_167 * DAY_MS),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_a_moment_beyond_int64_is_its_nearest_end(text: str, expected_ms: int) -> None:
    assert moment(text)(NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00", "9999-12-31T23:59:59"])
def test_a_local_time_at_the_end_of_the_calendar_is_a_moment_or_refused(text: str) -> None:
    with suppress(ArgumentTypeError):
        assert abs(moment(text)(NOW_MS)) < 10**15


def test_naive_time_is_local() -> None:
    local = datetime(2026, 11, 21, 6, 0).astimezone()
    assert moment("2026-11-21T06:00")(NOW_MS) == round(local.timestamp() * 1000)


@pytest.mark.parametrize("text", ["", "tomorrow", "+", "+7", "+7y", "2026-13-01", "1e9", "٣"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="no time"):
        moment(text)


@pytest.mark.parametrize(
    ("text", "told"), [("1795410442", "1970-01-21T18:43:30Z"), ("99999999999", "1973-03-03"), ("7", "1970-01-01")]
)
def test_seconds_are_no_moment(text: str, told: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"would be {told}.*: say {text}000 if these are seconds"):
        moment(text)
    assert moment("100000000000")(NOW_MS) == 100_000_000_000


@pytest.mark.parametrize(("text", "expected_ms"), [("0", 0), ("250", 250), ("2m", 120_000), ("7d", 7 * DAY_MS)])
def test_span(text: str, expected_ms: int) -> None:
    assert span_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "-1", "7y", "soon"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        span_ms(text)


def test_count_starts_at_one() -> None:
    assert at_least_one("12") == 12
    for text in ("0", "-1", "x", "1000000", "²"):
        with pytest.raises(ArgumentTypeError):
            at_least_one(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1048576", SpaceTarget(1 << 20)),
        ("1KiB", SpaceTarget(1 << 10)),
        ("20GiB", SpaceTarget(20 << 30)),
        ("512MiB", SpaceTarget(512 << 20)),
        ("15%", SpaceTarget(15, is_percent=True)),
        ("100%", SpaceTarget(100, is_percent=True)),
    ],
)
def test_target(text: str, expected: SpaceTarget) -> None:
    assert target(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "0%", "101%", "1.5%", "%", "20 percent", "GiB", "٣%"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no size"):
        target(text)


@pytest.mark.parametrize(("text", "meant"), [("20", "20GiB or 20%"), ("1048575", "1048575KiB")])
def test_plain_number_below_a_mebibyte_is_no_target(text: str, meant: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"{text!r} would be {text} bytes: say what it counts, e.g. {meant}"):
        target(text)


@pytest.mark.parametrize(
    ("text", "meant"), [("20G", "20GiB"), ("20g", "20GiB"), ("5 Mi", "5MiB"), ("1T", "1TiB"), ("3gb", "3GB")]
)
def test_size_with_the_suffix_of_another_program_is_told_with_the_right_one(text: str, meant: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"is no size: .*; did you mean {meant}"):
        target(text)


def test_time_with_the_suffix_of_another_program_is_told_with_the_right_one() -> None:
    with pytest.raises(ArgumentTypeError, match="did you mean 5m"):
        span_ms("5min")
