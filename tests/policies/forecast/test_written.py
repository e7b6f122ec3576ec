"""On which days the bytes of a log were written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.facts import NO_TIMESTAMP
from policies.forecast.births import DAY_MS, UNDATED, bytes_by_day
from tests.builders import NOW_MS, a_log

TODAY = NOW_MS // DAY_MS


def test_a_segment_is_spread_over_the_days_since_the_one_before() -> None:
    midnight = TODAY * DAY_MS
    log = a_log().segment(bytes=7, newest_ms=midnight - 2 * DAY_MS).segment(bytes=100, newest_ms=midnight - DAY_MS // 2)
    assert bytes_by_day(log.facts(), NOW_MS, TODAY - 29) == {UNDATED: 7, TODAY - 2: 66, TODAY - 1: 34}


def test_segments_without_a_time_and_those_of_the_future_have_no_day() -> None:
    log = a_log().segment(bytes=3, newest_ms=NO_TIMESTAMP).segment(bytes=4, newest_ms=NOW_MS + 1).empty_active()
    assert bytes_by_day(log.facts(), NOW_MS, TODAY - 29) == {UNDATED: 7}


def test_the_oldest_segment_is_no_peak_on_its_last_day_but_older_if_it_is() -> None:
    log = a_log().segment(bytes=900, newest_ms=NOW_MS - 5 * DAY_MS).segment(bytes=10, newest_ms=NOW_MS - 5 * DAY_MS)
    assert bytes_by_day(log.facts(), NOW_MS, TODAY - 29) == {UNDATED: 900, TODAY - 5: 10}
    assert bytes_by_day(log.facts(), NOW_MS, TODAY - 4) == {TODAY - 5: 910}


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(-5, 40 * DAY_MS)), max_size=8))
def test_no_byte_is_lost_and_none_is_counted_twice(drawn: list[tuple[int, int]]) -> None:
    log = a_log()
    for size_bytes, age_ms in drawn:
        log = log.segment(bytes=size_bytes, newest_ms=NOW_MS - age_ms)
    found = bytes_by_day(log.facts(), NOW_MS, TODAY - 29)
    assert sum(found.values()) == sum(size_bytes for size_bytes, _ in drawn)
    assert all(size_bytes >= 0 for size_bytes in found.values())
