from dataclasses import replace

import pytest

from policies.facts import NO_TIMESTAMP, ClockFacts
from policies.forecast.births import DAY_MS, Births, births, births_by_day, seen_ms
from policies.plan import Plan
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy
from tests.policies.forecast.writing import Topic, a_plan

HOUR_MS = 3_600_000


def aged(*days: float, bytes: int = 50) -> LogBuilder:  # noqa: A002 - reads as the picture it draws
    log = a_log()
    for age in days:
        log = log.segment(bytes=bytes, newest_ms=NOW_MS - round(age * DAY_MS), mtime_ms=NOW_MS - round(age * DAY_MS))
    return log


@pytest.mark.parametrize(
    ("story", "log", "expected"),
    [
        ("the oldest segment does not count: who knows how long it took", aged(4, 2, 0), Births(100, 4 * DAY_MS)),
        ("what is older than a week does not count", aged(30, 20, 8, 3, 0), Births(100, 8 * DAY_MS)),
        ("nothing for a week", aged(30, 20), Births(0, 20 * DAY_MS)),
        ("one segment, nothing for a week", aged(9), Births(0, 9 * DAY_MS)),
        ("one segment", aged(3), None),
        ("some hours only", aged(0.2, 0.1), None),
        ("six hours", aged(0.35, 0.1), Births(50, round(0.35 * DAY_MS))),
        ("a burst two days ago is no rate", aged(2.0, 1.99, 1.98), None),
        ("some hours only, since the older ones are gone", aged(0.2, 0.1).log_start(1), Births(50, DAY_MS // 5)),
        ("less than an hour", aged(0.04, 0.02).log_start(1), None),
        ("never written", a_log().empty_active(), Births(0, 7 * DAY_MS)),
        ("emptied", a_log().empty_active().log_end(10), None),
        ("no segment at all", a_log().log_end(10), None),
    ],
)
def test_births(story: str, log: LogBuilder, expected: Births | None) -> None:
    assert births(log.facts(), NOW_MS) == expected, story


def test_a_time_in_the_future_is_that_of_the_file() -> None:
    ahead = a_log().segment(newest_ms=NOW_MS + DAY_MS, mtime_ms=NOW_MS - 2 * DAY_MS).segment()
    assert births(ahead.facts(), NOW_MS) == Births(50, 2 * DAY_MS)
    both = a_log().segment(newest_ms=NOW_MS + DAY_MS, mtime_ms=NOW_MS + DAY_MS).segment()
    assert births(both.facts(), NOW_MS) is None


def test_records_without_a_time_have_that_of_the_file() -> None:
    log = a_log().segment(newest_ms=NO_TIMESTAMP, mtime_ms=NOW_MS - DAY_MS).segment()
    assert births(log.facts(), NOW_MS) == Births(50, DAY_MS)


@pytest.mark.parametrize(("clock_ms", "seen"), [(NOW_MS - DAY_MS, NOW_MS - DAY_MS), (NOW_MS + DAY_MS, NOW_MS)])
def test_nothing_is_known_of_what_will_be_written(clock_ms: int, seen: int) -> None:
    planned = a_plan(Topic(0, a_policy()))
    (log_dir,) = planned.log_dirs
    clock = ClockFacts(clock_ms, None, None, None)
    assert seen_ms(Plan(planned.request, (replace(log_dir, facts=replace(log_dir.facts, clock=clock)),))) == seen
    assert seen_ms(planned) == NOW_MS


def test_growth_goes_by_days_and_older_segments_are_no_part_of_it() -> None:
    log = aged(9, 6.5, 1.5, 1.2, bytes=50).segment(bytes=7, newest_ms=NOW_MS + DAY_MS, mtime_ms=NOW_MS)
    assert births_by_day(log.facts(), NOW_MS) == (50, 0, 0, 0, 0, 100, 7)


def test_the_oldest_segment_is_no_peak() -> None:
    assert births_by_day(aged(3, 2, 1, bytes=50).facts(), NOW_MS) == (0, 0, 0, 0, 50, 50, 0)
    assert births_by_day(aged(3).facts(), NOW_MS) == (0,) * 7
