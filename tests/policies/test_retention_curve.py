"""The curve says of each limit what retention itself would leave at it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.config.policy import TopicPolicy
from policies.facts import NO_TIMESTAMP, MissingRecords, PartitionFacts
from policies.reasons import Action
from policies.retention import CurvePoint, curve_by_size, curve_by_time, retention
from tests.builders import NOW_MS, a_log, a_policy


def left(facts: PartitionFacts, policy: TopicPolicy) -> int:
    return sum(v.size_bytes for v in retention(facts, policy, NOW_MS).verdicts if v.action is Action.KEEP)


def read_off(curve: tuple[CurvePoint, ...], limit: int) -> int:
    return next(point.kept_bytes for point in curve if point.limit is None or limit <= point.limit)


@st.composite
def logs(draw: st.DrawFn) -> PartitionFacts:
    log = a_log()
    for size, age in draw(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 9)), min_size=1, max_size=6)):
        log = log.segment(bytes=size, newest_ms=NOW_MS - age)
    offsets = st.integers(0, log.facts().log_end_offset)
    facts = log.log_start(draw(offsets)).high_watermark(draw(offsets)).facts()
    ages_ms = draw(st.lists(st.integers(-3, 9), max_size=1))
    missing = tuple(MissingRecords(draw(offsets), "an index", NOW_MS - age_ms) for age_ms in ages_ms)
    return replace(facts, missing=missing)


@given(logs())
def test_each_limit_leaves_what_the_curve_says(facts: PartitionFacts) -> None:
    by_time, by_size = curve_by_time(facts, a_policy(), NOW_MS), curve_by_size(facts)
    for limit in range(-1, 40):
        expected = left(facts, a_policy(retention_ms=limit)), left(facts, a_policy(retention_bytes=limit))
        asked = limit if limit >= 0 else 1 << 60
        assert (read_off(by_time, asked), read_off(by_size, asked)) == expected
    for curve in (by_time, by_size):
        limits = [point.limit for point in curve]
        assert limits == [*sorted(x for x in limits if x is not None), None]


def test_missing_records_of_an_age_that_nobody_knows_stay_at_each_limit_of_time() -> None:
    log = a_log().segment(bytes=50, newest_ms=NOW_MS - 9).segment(bytes=30, newest_ms=NOW_MS - 4).facts()
    log = replace(log, missing=(MissingRecords(10, "an index", NO_TIMESTAMP),))
    assert curve_by_time(log, a_policy(), NOW_MS) == (CurvePoint(8, 30), CurvePoint(None, 80))


def test_each_step_has_the_greatest_limit_that_still_leaves_so_little() -> None:
    log = a_log().segment(bytes=50, newest_ms=NOW_MS - 9).segment(bytes=30, newest_ms=NOW_MS - 4).facts()
    assert curve_by_time(log, a_policy(), NOW_MS) == (CurvePoint(3, 0), CurvePoint(8, 30), CurvePoint(None, 80))
    assert curve_by_size(log) == (CurvePoint(0, 0), CurvePoint(30, 30), CurvePoint(None, 80))


@given(st.lists(st.sampled_from([-(1 << 63), -1, 0, NOW_MS, (1 << 63) - 1]), min_size=1, max_size=4))
def test_no_limit_is_beyond_int64_and_each_leaves_what_the_curve_says(newest_ms: list[int]) -> None:
    log = a_log()
    for time_ms in newest_ms:
        log = log.segment(bytes=1, newest_ms=time_ms)
    facts = log.facts()
    curve = curve_by_time(facts, a_policy(), NOW_MS)
    for limit in (0, NOW_MS, (1 << 63) - 1, *(point.limit for point in curve if point.limit is not None)):
        assert limit < 1 << 63
        assert read_off(curve, limit) == left(facts, a_policy(retention_ms=limit))
